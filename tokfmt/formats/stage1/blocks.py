"""The files of stage-1 blocks: their names and numbers, and the problems that sizes and the first tokens show."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from tokfmt.core.findings import Problem, noted
from tokfmt.core.raw_ids import kind_of
from tokfmt.errors import CorruptError, TruncatedError
from tokfmt.files.file import File
from tokfmt.files.place import Place
from tokfmt.formats.flat import whole_tokens

GPT2_EOS = 50256
TOKEN = np.dtype("<i4")
NAME = re.compile(r"stage1_block_(\d+)\.bin")
MEMBER = "stage1_block_NNNN.bin"
_LOOKED_AT = 1 << 11  # tokens of a block that opening reads, as there may be a thousand blocks
_MOST = 0.9  # share of the IDs that must show a wrong byte order or width


def problems_of(file: File, seq_len: int) -> Iterator[Problem]:
    """Yield the problems that the size of a block shows."""
    if file.size % 4:
        yield from whole_tokens(file, TOKEN, "TF206", "a block")[1]
    elif rest := file.size // 4 % seq_len:
        what, at = f"ends with a partial sample of {rest:,} of {seq_len:,} tokens", file.size - 4 * rest
        remedy = "Copy it again, or name its sample length with --from-opt seq_len=N"
        yield noted("TF207", TruncatedError(file.path, what, offset=at, remedy=remedy), f"{file.path.name} {what}")


_NOTES = {
    "zeros": "holds only zeros: a sparse or unfinished copy?",
    "big-endian int32": "looks big-endian: its IDs are far too large as stored",
    "uint16": "looks like uint16 IDs read as int32: most of its IDs are 65,536 or more (--from nanogpt reads uint16)",
    "big-endian uint16": "looks like big-endian uint16 IDs read as int32: most of its IDs are 65,536 or more",
    "int64": "looks like int64 IDs read as int32: every second ID is 0",
    "big-endian int64": "looks like big-endian int64 IDs read as int32: every second ID is 0",
    "arange": "holds numbers that count up, not token IDs",
}
"""For each kind of content that `kind_of` recognizes, the note on it."""


def suspicions(file: File) -> Iterator[str]:
    """Yield notes on content that does not look like int32 IDs; none for a file of fewer than 512 tokens.

    Notes change nothing about how the file is read.
    """
    looked = min(_LOOKED_AT, file.size // 4)
    if looked < _LOOKED_AT // 4:
        return
    ids = file.array(0, looked, np.dtype("<u4"))
    if not ids.any():
        yield f"{file.path.name} begins with {looked:,} zeros: a sparse or unfinished copy?"
        return
    kind = kind_of([ids.tobytes()], GPT2_EOS)
    top = int(ids.max())
    if kind in _NOTES:
        yield f"{file.path.name} {_NOTES[kind]}"
    elif top >= 1 << 16 and float(np.mean(ids >= 1 << 24)) > _MOST and int(ids.byteswap().max()) < 1 << 24:
        yield f"{file.path.name} {_NOTES['big-endian int32']}"
    elif top >= 1 << 16 and float(np.mean(ids >= 1 << 16)) > _MOST and float(np.mean(ids < 1 << 22)) < 1 - _MOST:
        yield f"{file.path.name} {_NOTES['uint16']}"


def numbering(home: Place, blocks: Sequence[Place], *, gaps_accepted: bool) -> Iterator[Problem]:
    """Yield the problems in the numbers of blocks, which are sorted in numeric order."""
    numbers = [int(match[1]) for path in blocks if (match := NAME.fullmatch(path.name))]
    if numbers[:1] > [0] and not gaps_accepted:
        fragment = "without the blocks before it, its first document may be a fragment"
        verb = "begins with" if home.is_dir() else "is"
        what = f"{verb} block {numbers[0]}: {fragment}"
        remedy = "Find them, or accept that with --from-opt gaps=accept"
        yield Problem("TF204", "warning", CorruptError(home, what, remedy=remedy), note=what)
    for before, after in zip(numbers, numbers[1:], strict=False):
        if after == before:
            error = CorruptError(home, f"two blocks have the number {after}", remedy="Keep one of them")
            yield Problem("TF203", "error", error, is_fatal=True)
        elif after != before + 1:
            one = after == before + 2
            missing = f"block {before + 1} is" if one else f"blocks {before + 1} to {after - 1} are"
            what = f"{missing} missing between {before} and {after}"
            remedy = "Find what is missing; --from-opt gaps=accept reads on without it"
            severity = "warning" if gaps_accepted else "error"
            yield Problem("TF204", severity, CorruptError(home, what, remedy=remedy), not gaps_accepted, what)


def short_blocks(files: Sequence[File], *, gaps_accepted: bool) -> Iterator[Problem]:
    """Yield the blocks before the last one that are shorter than another: the stream is broken at their ends."""
    full = max((file.size for file in files), default=0)
    for file in files[:-1]:
        if file.size < full:
            what = f"is not the last block, yet shorter than the others ({file.size:,} of {full:,} bytes)"
            remedy = "Copy it again; --from-opt gaps=accept reads on without what is missing"
            error = TruncatedError(file.path, what, remedy=remedy)
            severity = "warning" if gaps_accepted else "error"
            yield Problem("TF208", severity, error, not gaps_accepted, f"{file.path.name} {what}")
