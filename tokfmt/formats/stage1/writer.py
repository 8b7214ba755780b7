"""Writes stage-1 blocks: separators put in, cut into samples, the last one padded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tokfmt.core.axis import TokenReader, windows
from tokfmt.core.dtypes import INT32_MAX, check_ids
from tokfmt.core.errors import ConversionError, Loss
from tokfmt.core.format import Receipt, Region, Target
from tokfmt.core.output import Output, preallocate
from tokfmt.core.verbatim import copy_region
from tokfmt.formats.stage1.options import WriteOptions
from tokfmt.views.select import lost_empties
from tokfmt.views.separated import WithSeparators


class Stage1Writer:
    """Writes blocks: the stream with a separator after each sequence, cut into samples, the last one padded."""

    needs_eos = True
    separated = True
    needs_max_id = False

    def __init__(self, path: Path, options: WriteOptions, target: Target) -> None:
        self.path, self.options, self.target = path, options, target
        self.single = path.suffix == ".bin"

    def lost(self, source: TokenReader) -> Sequence[Loss]:
        return lost_empties(source)

    def _stored(self, source: TokenReader) -> TokenReader:
        return WithSeparators(source, self.target.eos_id or 0)

    def _block_tokens(self) -> int:
        return self.options.samples * self.options.seq_len

    def _length(self, source: TokenReader) -> int:
        """Tokens to write, padding included: whole samples."""
        return -(-self._stored(source).info.tokens // self.options.seq_len) * self.options.seq_len

    def regions(self, source: TokenReader, size: int) -> Sequence[Region]:
        length, block = self._length(source), self._block_tokens()
        if self.single and length > block:
            raise ConversionError(
                f"{self.path.name}: {length:,} tokens do not fit one block of {block:,}. "
                "Name a directory (with --to stage1) for several blocks"
            )
        samples = max(1, size // self.options.seq_len) * self.options.seq_len
        cuts = [(a, b) for start, stop in windows(0, length, block) for a, b in windows(start, stop, samples)]
        return [Region(index, range(0), range(a, b)) for index, (a, b) in enumerate(cuts)]

    def create(self, source: TokenReader) -> None:
        if not self.single:
            self.path.mkdir()
        length, block = self._length(source), self._block_tokens()
        for start, stop in list(windows(0, length, block)) or [(0, 0)]:
            preallocate(self._file(start), (stop - start) * 4)

    def _file(self, position: int) -> Path:
        number = position // self._block_tokens()
        return self.path if self.single else self.path / f"stage1_block_{number:04d}.bin"

    def write(self, region: Region, source: TokenReader) -> Receipt:
        stored, eos_id = self._stored(source), self.target.eos_id or 0
        end, top = stored.info.tokens, -1
        with Output(self._file(region.tokens.start)) as out:
            at = region.tokens.start % self._block_tokens() * 4
            whole = region.tokens.stop <= end  # nothing of it is padding
            if whole and (copied := copy_region(out, at, stored, region, np.dtype("<u4"), INT32_MAX)):
                return copied
            for a, b in windows(region.tokens.start, region.tokens.stop):
                window = np.full(b - a, eos_id, np.dtype("<i4"))
                real = stored.tokens(min(a, end), min(b, end))
                top = max(top, check_ids(real, INT32_MAX, a, "stage1"))
                window[: len(real)] = real
                out.write(a % self._block_tokens() * 4, window)
        return Receipt(region.index, top, out.written)

    def commit(self, source: TokenReader, receipts: Sequence[Receipt]) -> None:
        """Blocks have no index: nothing to finish."""
