"""The parts of stage-1 blocks, named for people: the files, and the samples in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tokfmt.core.errors import FormatError
from tokfmt.core.files import File, names_in, natural_key
from tokfmt.core.inside import Field, Section
from tokfmt.core.sections import Part
from tokfmt.formats.stage1.blocks import BLOCK_NAME, GPT2_EOS
from tokfmt.formats.stage1.options import ReadOptions
from tokfmt.formats.stage1.reader import suspicions

_FIRST_IDS = 8


def sections(path: Path, options: ReadOptions) -> Sequence[Section]:
    """The blocks, then the samples of each."""
    blocks = [path]
    if path.is_dir():
        names = filter(BLOCK_NAME.fullmatch, names_in(path))
        blocks = [path / name for name in sorted(names, key=natural_key)]
    if not blocks:
        none = Field("blocks", None, 0, "none", "stage1_block_NNNN.bin are expected", wrong=True)
        return [Part("blocks", path, lambda: (none,))]
    parts = [Part("blocks", path, lambda: _Blocks(blocks, options.seq_len))]
    return [*parts, *(_samples(block, options.seq_len) for block in blocks)]


def _samples(block: Path, width: int) -> Part:
    return Part(f"samples of {block.name}", block, lambda: _Samples(File(block), width))


@dataclass(frozen=True)
class _Blocks:
    """The files of a dataset."""

    blocks: Sequence[Path]
    width: int

    @property
    def count(self) -> int:
        return len(self.blocks)

    def fields(self, first: int, last: int) -> list[Field]:
        return [self._block(number) for number in range(first, min(last, self.count))]

    def _block(self, number: int) -> Field:
        path = self.blocks[number]
        try:
            file = File(path)
            wrong = [*_order(self.blocks, number), *_size(file.size, self.width), *suspicions(file)]
        except FormatError as error:
            return Field(path.name, None, 0, error.what, wrong=True, path=path)
        samples = -(-file.size // (4 * self.width))
        told = f"{samples:,} samples of {self.width:,} tokens of int32, little-endian"
        return Field(
            path.name, 0, file.size, f"{file.size // 4:,} tokens", "; ".join(wrong) or told, bool(wrong), path=path
        )


def _order(blocks: Sequence[Path], number: int) -> list[str]:
    """What is wrong with a block's number after that of the one before it."""
    here, before = (BLOCK_NAME.fullmatch(blocks[k].name) for k in (number, number - 1))
    if not number or here is None or before is None or int(here[1]) == int(before[1]) + 1:
        return []
    if here[1] == before[1] or int(here[1]) == int(before[1]):
        return [f"a second block has the number {int(here[1])}"]
    return [f"block {int(before[1]) + 1} is missing before it"]


def _size(size: int, width: int) -> list[str]:
    if size % 4:
        return ["ends inside a token"]
    rest = size // 4 % width
    return [f"ends with a partial sample of {rest:,} tokens"] if rest else []


class _Samples:
    """The samples of one block."""

    def __init__(self, file: File, width: int) -> None:
        self.file, self.width = file, width
        self.count = -(-file.size // (4 * width))

    def fields(self, first: int, last: int) -> list[Field]:
        return [self._sample(number) for number in range(first, min(last, self.count))]

    def _sample(self, number: int) -> Field:
        at = number * 4 * self.width
        length = min(4 * self.width, self.file.size - at)
        ids = self.file.array(at, length // 4, np.dtype("<i4"))
        negative = np.flatnonzero(ids < 0)
        wrong = [f"{len(negative):,} negative ids, the first at byte {at + 4 * int(k):,}" for k in negative[:1]]
        wrong += ["a partial sample"] * (length < 4 * self.width) + ["ends inside a token"] * (length % 4 > 0)
        ends = int(np.count_nonzero(ids == GPT2_EOS))
        told = f"{ends:,} separators ({GPT2_EOS})" if ends else ""
        value = " ".join(map(str, ids[:_FIRST_IDS].tolist())) + (" …" if len(ids) > _FIRST_IDS else "")
        return Field(f"sample {number:,}", at, length, value, "; ".join(wrong) or told, bool(wrong))
