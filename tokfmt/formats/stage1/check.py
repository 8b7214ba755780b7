"""What can be wrong with stage-1 blocks: findings TF201 ... TF212.

Sizes and numbering are looked at in every file; content in the first, middle and last 64 KiB of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import FormatError
from tokfmt.core.files import File, natural_key
from tokfmt.core.format import Finding

_LOOK = 1 << 14  # tokens looked at in each place
_SHARE = 0.9


def findings(path: Path, seq_len: int) -> Iterator[Finding]:
    """Every violation found in a block or a directory of blocks."""
    blocks = sorted(path.glob("stage1_block_*.bin"), key=lambda p: natural_key(p.name)) if path.is_dir() else [path]
    if not blocks:
        yield Finding("TF201", "error", str(path), "holds no stage1_block_NNNN.bin")
    yield from _numbering(blocks)
    sizes = [block.stat().st_size for block in blocks if block.is_file()]
    for number, block in enumerate(blocks):
        try:
            file = File(block)
        except FormatError as error:
            yield Finding("TF202", "error", str(block), error.what)
            continue
        yield from _size(file, seq_len, full=max(sizes), last=number == len(blocks) - 1)
        yield from _content(file)
        file.close()


def _numbering(blocks: Sequence[Path]) -> Iterator[Finding]:
    numbers = [int("".join(c for c in b.stem.rpartition("_")[2] if c.isdigit()) or 0) for b in blocks]
    for before, after, block in zip(numbers, numbers[1:], blocks[1:], strict=False):
        if after == before:
            yield Finding("TF203", "error", str(block), f"a second block has the number {after}", "Keep one of them")
        elif after > before + 1:
            yield Finding("TF204", "error", str(block), f"block {before + 1} is missing", "Find the missing block")


def _size(file: File, seq_len: int, *, full: int, last: bool) -> Iterator[Finding]:
    name, size = str(file.path), file.size
    if not size:
        yield Finding("TF205", "warning", name, "is empty")
    elif size % 4:
        at = size - size % 4
        yield Finding("TF206", "error", name, "ends inside a token: it was cut", "Copy it again", at)
    elif size % (4 * seq_len):
        at = size - size % (4 * seq_len)
        yield Finding("TF207", "error", name, f"ends with a partial sample of {size % (4 * seq_len) // 4:,} tokens",
                      "Copy it again, or name its sample length with seq_len=", at)  # fmt: skip
    if not last and size < full:
        yield Finding("TF208", "error", name, f"is not the last block, yet shorter than the others ({size:,} of "
                      f"{full:,} bytes)", "Copy it again")  # fmt: skip


def _content(file: File) -> Iterator[Finding]:
    name, total = str(file.path), file.size // 4
    if not total:
        return
    places = sorted({0, max(0, total // 2 - _LOOK // 2), max(0, total - _LOOK)})
    looks = [file.array(at * 4, min(_LOOK, total - at), np.dtype("<i4")) for at in places]
    tokens = np.concatenate(looks)
    if not tokens.any():
        yield Finding("TF209", "error", name, "holds only zeros where it was looked at: a sparse or failed copy",
                      "Copy it again", 0)  # fmt: skip
        return
    if len(looks[-1]) and not looks[-1][len(looks[-1]) // 2 :].any():
        yield Finding(
            "TF210", "error", name, "ends in zeros: the copy was not finished", "Copy it again", places[-1] * 4
        )
    yield from _wrong_dtype(name, tokens)


def _wrong_dtype(name: str, tokens: NDArray[np.generic]) -> Iterator[Finding]:
    ids = tokens.view(np.uint32)
    if float(np.mean(ids >= 1 << 24)) > _SHARE and int(ids.byteswap().max()) < 1 << 24:
        yield Finding("TF211", "error", name, "is big-endian: most ids are 2^24 or more as they stand",
                      "Swap the bytes: numpy.fromfile(f, '>i4').astype('<i4')", 0)  # fmt: skip
    elif float(np.mean(ids >= 1 << 16)) > _SHARE:
        yield Finding("TF212", "error", name, "looks like uint16 ids read as int32: most are of the form a*65536+b",
                      "Convert it from the format it is in", 0)  # fmt: skip
    elif int(tokens.view(np.int32).min()) < 0:
        yield Finding("TF213", "error", name, "holds negative ids", "Copy it again")
