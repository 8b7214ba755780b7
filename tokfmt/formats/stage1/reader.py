"""Reads stage-1 blocks: one stream over all files, or its samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tokfmt.core.axis import Info, Layout, Separators, check_interval, check_position, frozen
from tokfmt.core.dtypes import U32, unsigned
from tokfmt.core.errors import CorruptError, FormatError, TruncatedError
from tokfmt.core.files import File, names_in, natural_key
from tokfmt.core.format import Hints
from tokfmt.core.inside import Place
from tokfmt.core.ragged import Offsets, Tokens, offsets_of
from tokfmt.core.verbatim import Piece
from tokfmt.formats.stage1.blocks import BLOCK_NAME, GPT2_EOS
from tokfmt.formats.stage1.options import ReadOptions

_LOOKED_AT = 1 << 11  # tokens, of each of a thousand blocks
_MOST = 0.9


class Stage1Reader:
    """The stored stream of one or more blocks, or its samples."""

    def __init__(self, paths: Sequence[Path], options: ReadOptions, hints: Hints) -> None:
        self.files = [File(path) for path in _blocks(paths)]
        self._seq_len = options.seq_len
        notes, tokens = [], []
        for file in self.files:
            if file.size % 4 and "tail" not in hints.drop:
                raise TruncatedError(
                    file.path,
                    "a block is whole int32 tokens, but the file ends inside one",
                    offset=file.size - file.size % 4,
                    expected="a size that is a multiple of 4",
                    found=file.size,
                    remedy="--drop tail reads up to the last whole token",
                )
            tokens.append(file.size // 4)
            if tokens[-1] % options.seq_len:
                rest = tokens[-1] % options.seq_len
                notes.append(f"{file.path.name} ends with a partial sample of {rest:,} of {options.seq_len:,} tokens")
            notes += suspicions(file)
        self._starts = offsets_of(tokens)
        total = int(self._starts[-1])
        self._samples = options.seq_len if options.view == "samples" else None
        if self._samples and total % self._samples and "tail" not in hints.drop:
            raise TruncatedError(
                self.files[-1].path, f"the last sample has {total % self._samples:,} tokens", expected=self._samples,
                remedy="--drop tail leaves it out",
            )  # fmt: skip
        rows = total // self._samples if self._samples else int(total > 0)
        self._info = Info(
            layout=Layout.SAMPLES if self._samples else Layout.STREAM,
            dtype=U32,
            sequences=rows,
            tokens=rows * self._samples if self._samples else total,
            sample_length=self._samples,
            separators=Separators.NONE if self._samples else Separators.BETWEEN,
            eos_id=GPT2_EOS,
            eos_from="stage1 convention",
            notes=tuple(notes),
            extras=frozen(blocks=len(self.files), pad_id=GPT2_EOS if hints.eos_id is None else hints.eos_id),
        )

    @property
    def info(self) -> Info:
        return self._info

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self._info.tokens)
        found = [
            unsigned(file.array(a * 4, b - a, np.dtype("<i4")), str(file.path), a)
            for file, a, b in self._parts(start, stop)
        ]
        if len(found) == 1:
            return found[0]
        return np.concatenate(found) if found else np.empty(0, np.uint32)

    def pieces(self, start: int, stop: int) -> Sequence[Piece]:
        """Where tokens lie; see `core.verbatim`. Ids are never negative, so int32 and uint32 are the same bytes."""
        check_interval(start, stop, self._info.tokens)
        return [Piece(file, a * 4, (b - a) * 4, np.dtype("<u4")) for file, a, b in self._parts(start, stop)]

    def _parts(self, start: int, stop: int) -> Iterator[tuple[File, int, int]]:
        """Which file, and which tokens of it, an interval of the axis is made of."""
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        for k in range(first, int(np.searchsorted(self._starts, stop, side="left"))):
            base = int(self._starts[k])
            yield self.files[k], max(start - base, 0), min(stop, int(self._starts[k + 1])) - base

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self._info.sequences, "sequences")
        return np.arange(first, last + 1, dtype=np.int64) * (self._samples or self._info.tokens)

    def place(self, position: int) -> Place:
        check_position(position, self._info.tokens)
        k = int(np.searchsorted(self._starts, position, side="right")) - 1
        local = position - int(self._starts[k])
        sample, column = divmod(local, self._seq_len)
        return Place(self.files[k].path, local * 4, 4, f"sample {sample:,}, column {column:,}")

    def position(self, path: Path, offset: int) -> int | None:
        for k, file in enumerate(self.files):
            if file.path == path and offset >= 0:
                position = int(self._starts[k]) + offset // 4
                return position if position < min(int(self._starts[k + 1]), self._info.tokens) else None
        return None

    def close(self) -> None:
        for file in self.files:
            file.close()


def suspicions(file: File) -> Iterator[str]:
    """Notes on content that is not int32 as it should be. Only said, never acted on; too short a file says nothing."""
    looked = min(_LOOKED_AT, file.size // 4)
    if looked < _LOOKED_AT // 4:
        return
    ids = file.array(0, looked, np.dtype("<u4"))
    top = int(ids.max())
    if top < 1 << 16:
        if not top:
            yield f"{file.path.name} begins with {looked:,} zeros: a sparse or unfinished copy?"
        return
    if float(np.mean(ids >= 1 << 24)) > _MOST and int(ids.byteswap().max()) < 1 << 24:
        yield f"{file.path.name} looks big-endian: most of its ids are 2^24 or more as they stand"
    elif float(np.mean(ids >= 1 << 16)) > _MOST:
        yield f"{file.path.name} looks like uint16 ids read as int32: most of its ids are 65,536 or more"


def _blocks(paths: Sequence[Path]) -> list[Path]:
    """The block files of a directory in numeric order, or the files given, in the order given."""
    if len(paths) != 1 or not paths[0].is_dir():
        return list(paths)
    names = sorted(filter(BLOCK_NAME.fullmatch, names_in(paths[0])), key=natural_key)
    found = [paths[0] / name for name in names]
    if not found:
        raise FormatError(paths[0], "holds no stage1_block_NNNN.bin")
    for finding in _numbering(found):
        raise CorruptError(
            paths[0], finding, remedy="Find the missing block, or name the blocks as sources to read them as they are"
        )
    return found


def _numbering(blocks: Sequence[Path]) -> Iterator[str]:
    """What is wrong with the numbers of blocks sorted in numeric order."""
    numbers = [int(match[1]) for path in blocks if (match := BLOCK_NAME.fullmatch(path.name))]
    for before, after in zip(numbers, numbers[1:], strict=False):
        if after == before:
            yield f"two blocks have the number {after}"
        elif after != before + 1:
            yield f"block {before + 1} is missing between {before} and {after}"
