"""Writing JSON lines: each region is a part file of whole lines; the commit joins them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tokfmt.core.axis import WINDOW, TokenReader, sequence_at, windows
from tokfmt.core.dtypes import check_ids
from tokfmt.core.errors import ConversionError, Loss
from tokfmt.core.format import Receipt, Region, Target
from tokfmt.core.output import concatenate, whole
from tokfmt.core.publish import write_error
from tokfmt.core.ragged import Tokens
from tokfmt.formats.jsonl.options import WriteOptions, dotted
from tokfmt.formats.jsonl.problems import LARGEST_ID
from tokfmt.formats.jsonl.render import ids_lines, listed

_MANY = 1 << 16  # sequences whose offsets are held at once


class JsonlWriter:
    """Writes ids, or with a decoder text, one sequence a line.

    Parts lie in `NAME.parts` beside the file that is built. A sequence longer than a window is written window by window
    when ids are written; text is decoded a whole sequence at a time, because a character may span two tokens.
    """

    needs_eos = False
    separated = False
    needs_max_id = False

    def __init__(self, path: Path, options: WriteOptions, target: Target) -> None:
        self.path, self.options, self.decoder = path, options, target.decoder
        self.keep_parts = target.keep_parts
        if self.decoder is None:
            keys = dotted(options.ids_field, "ids_field")
        else:
            keys = dotted(options.text_field, "text_field")
        self._before = "".join(f"{{{json.dumps(key, ensure_ascii=False)}: " for key in keys).encode()
        self._after = b"}" * len(keys) + b"\n"

    @property
    def _parts(self) -> Path:
        return self.path.with_name(f"{self.path.name}.parts")

    def lost(self, source: TokenReader) -> Sequence[Loss]:
        """Lines carry every sequence."""
        del source
        return []

    def regions(self, source: TokenReader, size: int) -> Sequence[Region]:
        return [
            Region(index, sequences, range(*source.offsets(sequences.start, sequences.stop)[[0, -1]].tolist()))
            for index, sequences in enumerate(_cuts(source, size))
        ]

    def create(self, source: TokenReader) -> None:
        del source
        try:
            self._parts.mkdir()
        except OSError as error:
            raise write_error(self.path, error) from error

    def _part(self, region: int) -> Path:
        return self._parts / f"{region:08d}"

    def write(self, region: Region, source: TokenReader) -> Receipt:
        top = -1
        with whole(self._part(region.index)) as out:
            for first, last in self._runs(region.sequences, source):
                top = max(top, self._write(out, first, last, source))
            written = out.tell()
        return Receipt(region.index, top, written)

    def _runs(self, sequences: range, source: TokenReader) -> Iterator[tuple[int, int]]:
        """Runs of sequences of a window of tokens at most, or of one sequence."""
        first = sequences.start
        while first < sequences.stop:
            offsets = source.offsets(first, min(sequences.stop, first + _MANY))
            count = max(1, int(np.searchsorted(offsets, offsets[0] + WINDOW, side="right")) - 1)
            yield first, first + count
            first += count

    def _write(self, out: BinaryIO, first: int, last: int, source: TokenReader) -> int:
        """Write the lines of sequences `first <= i < last`; the largest id, -1 if none."""
        offsets = source.offsets(first, last)
        start, stop = offsets[[0, -1]].tolist()
        if self.decoder is None and stop - start > WINDOW:
            return self._write_long(out, start, stop, source)
        tokens = source.tokens(start, stop)
        top = check_ids(tokens, LARGEST_ID, start, "jsonl")
        if self.decoder is None:
            out.write(ids_lines(tokens, offsets - start, self._before, self._after))
            return top
        bounds = (offsets - start).tolist()
        out.writelines(self._text(first + k, tokens[bounds[k] : bounds[k + 1]]) for k in range(last - first))
        return top

    def _write_long(self, out: BinaryIO, start: int, stop: int, source: TokenReader) -> int:
        top = -1
        out.write(self._before + b"[")
        for a, b in windows(start, stop):
            tokens = source.tokens(a, b)
            top = max(top, check_ids(tokens, LARGEST_ID, a, "jsonl"))
            out.write(listed(tokens) + (b", " if b < stop else b""))
        out.write(b"]" + self._after)
        return top

    def _text(self, number: int, tokens: Tokens) -> bytes:
        import msgspec

        text = self.decoder.decode(tokens.tolist()) if self.decoder is not None else ""
        try:
            return b"".join((self._before, msgspec.json.encode(text), self._after))
        except UnicodeEncodeError as error:
            raise ConversionError(
                f"{self.path.name}: the tokenizer decodes sequence {number:,} to a lone surrogate, which UTF-8 lacks"
            ) from error

    def commit(self, source: TokenReader, receipts: Sequence[Receipt]) -> None:
        del source
        concatenate([self._part(receipt.region) for receipt in receipts], self.path, keep=self.keep_parts)
        if not self.keep_parts:
            shutil.rmtree(self._parts)


def _cuts(source: TokenReader, size: int) -> Iterator[range]:
    """Runs of about `size` tokens, but of one sequence at least."""
    first, count = 0, source.info.sequences
    while first < count:
        target = int(source.offsets(first, first)[0]) + size
        last = count if target >= source.info.tokens else max(first + 1, sequence_at(source, target))
        yield range(first, last)
        first = last
