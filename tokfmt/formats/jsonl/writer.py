"""Write JSON lines: each region is a draft file of whole lines, and the commit joins the drafts.

IDs become decimal text without a Python object for each: a table gives eight bytes per ID, and zero bytes are removed.
"""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.format import Receipt, Region, Target, TokenWriter, WriterTraits
from tokfmt.core.output import whole
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import WINDOW, TokenReader, check_ids, windows
from tokfmt.errors import ConversionError, Loss, TokfmtError
from tokfmt.files.file import writing
from tokfmt.formats.jsonl.lines import join
from tokfmt.formats.jsonl.options import WriteOptions
from tokfmt.formats.jsonl.parse import LARGEST_ID, dotted
from tokfmt.wording import counted

_MILLION = 10**6  # "999999, " fills the eight bytes of a row of the table
_SMALL = 1 << 16  # the table of the IDs of two bytes stays in cache
_AT_ONCE = 1 << 16  # IDs that become text together
_END = b"\x01"  # marks the end of a sequence until `ids_lines` replaces it

Rows = NDArray[np.uint64]


def ids_lines(tokens: Tokens, offsets: Offsets, before: bytes, after: bytes) -> bytes:
    """Return one line per sequence: `before`, its IDs (below 2^32) as a JSON list, and `after`."""
    count = len(offsets) - 1
    ends = np.zeros(len(tokens) + count, np.bool_)
    ends[offsets[1:] + np.arange(count)] = True
    mixed = np.zeros(len(ends), np.uint32)
    mixed[~ends] = tokens
    text = b"".join(
        _text(mixed[a : a + _AT_ONCE], ends[a : a + _AT_ONCE]) for a in range(0, len(mixed), _AT_ONCE)
    ).replace(b", " + _END, _END)
    opening = before + b"["
    return (opening + text.replace(_END, b"]" + after + opening))[: -len(opening)]


def listed(tokens: Tokens) -> bytes:
    """Return IDs with a comma and a space between them: b"1, 2, 3"."""
    ids = tokens.astype(np.uint32)
    return b"".join(_text(ids[a : a + _AT_ONCE], None) for a in range(0, len(ids), _AT_ONCE))[:-2]


def _text(ids: NDArray[np.uint32], ends: NDArray[np.bool_] | None) -> bytes:
    """Return the IDs, each with a comma and a space after it; where `ends` is True, the byte `_END` instead."""
    rows = _rows(ids)
    if ends is not None:
        rows[ends] = int.from_bytes(_END.ljust(8, b"\0"), "little")
        rows[ends, 1:] = 0
    return rows.astype("<u8", copy=False).tobytes().translate(None, b"\0")


def _rows(ids: NDArray[np.uint32]) -> Rows:
    """Return the text of some IDs as uint64[n, 1 or 2]; zero bytes are to be removed."""
    top = int(ids.max())
    if top < _MILLION:
        return _table(_SMALL if top < _SMALL else _MILLION, padded=False)[ids][:, None]
    millions = ids // np.uint32(_MILLION)
    rest, some = ids - millions * np.uint32(_MILLION), millions > 0
    rows = np.empty((len(ids), 2), np.uint64)
    rows[:, 0] = np.where(some, _table(_SMALL, padded=False)[millions] & np.uint64((1 << 48) - 1), 0)
    rows[:, 1] = np.where(some, _table(_MILLION, padded=True)[rest], _table(_MILLION, padded=False)[rest])
    return rows


@functools.cache
def _table(size: int, *, padded: bool) -> Rows:
    """Return uint64[size]: row i has, in little-endian bytes, the digits of i (six if padded), a comma and a space."""
    rows = np.zeros((size, 8), np.uint8)
    ids = np.arange(size)
    rows[:, 6], rows[:, 7] = ord(","), ord(" ")
    for column in range(5, -1, -1):
        power = 10 ** (5 - column)
        digits = ids // power % 10 + ord("0")
        rows[:, column] = digits if padded or power == 1 else np.where(ids >= power, digits, 0)
    return rows.view("<u8")[:, 0].astype(np.uint64)


_MANY = 1 << 16  # sequences whose offsets are in memory together


def traits(options: WriteOptions) -> WriterTraits:
    """See `Format.writer_traits`. JSON lines can store every sequence."""
    dotted(options.ids_field, "ids_field")
    dotted(options.text_field, "text_field")
    return WriterTraits()


class JsonlWriter(TokenWriter):
    """A writer of IDs, or with a decoder of text: one sequence per line.

    Drafts of regions are files in `NAME.parts` beside the destination. If a sequence is longer than a window, its IDs
    are written window by window. Text is decoded by whole sequences, as a character may span two tokens.
    """

    def __init__(self, path: Path, options: WriteOptions, target: Target) -> None:
        self.path, self.options, self.decoder, self.strict = path, options, target.decoder, target.strict
        self.keep_parts, self.jobs = target.keep_parts, target.jobs
        if self.decoder is None:
            keys = dotted(options.ids_field, "ids_field")
        else:
            keys = dotted(options.text_field, "text_field")
        self._before = "".join(f"{{{json.dumps(key, ensure_ascii=False)}: " for key in keys).encode()
        self._after = b"}" * len(keys) + b"\n"

    @property
    def _parts(self) -> Path:
        return self.path.with_name(f"{self.path.name}.parts")

    def regions(self, source: TokenReader, size: int) -> Sequence[Region]:
        count = source.info.sequences
        return [
            Region(index, run, range(*(int(source.offsets(at, at)[0]) for at in (run.start, run.stop))))
            for index, run in enumerate(_cuts(source, size, range(count), count))
        ]

    def create(self, source: TokenReader) -> None:
        del source
        with writing(self.path):
            self._parts.mkdir()

    def _part(self, region: int) -> Path:
        return self._parts / f"{region:08d}"

    def write(self, region: Region, source: TokenReader) -> Receipt:
        top, replaced = -1, list[int]()
        with whole(self._part(region.index)) as out:
            for run in _cuts(source, WINDOW, region.sequences, _MANY):
                top = max(top, self._write(out, run.start, run.stop, source, replaced))
            written = out.tell()
        return Receipt(region.index, top, written, [len(replaced), replaced[0]] if replaced else None)

    def lost(self, receipts: Sequence[Receipt]) -> Sequence[Loss]:
        """See `TokenWriter.lost`: the sequences in whose text bytes or IDs were replaced."""
        found = [receipt.details for receipt in receipts if receipt.details]
        if not found:
            return ()
        count, first = sum(one[0] for one in found), min(one[1] for one in found)
        what = f"bytes or IDs that are not text, replaced in {counted(count, 'sequence')} (first: sequence {first:,})"
        return [Loss("invalid-utf8", what)]

    def _write(self, out: BinaryIO, first: int, last: int, source: TokenReader, replaced: list[int]) -> int:
        """Write the lines of sequences `first <= i < last`; return the largest ID, -1 without one.

        The numbers of sequences in whose text something is replaced are added to `replaced`.
        """
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
        out.writelines(self._text(first + k, tokens[bounds[k] : bounds[k + 1]], replaced) for k in range(last - first))
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

    def _decoded(self, number: int, tokens: Tokens, replaced: list[int]) -> str:
        """Return the text of a sequence, and add its number to `replaced` if something in it is not text."""
        if self.strict is not None:
            try:
                return self.strict.decode(tokens.tolist())
            except TokfmtError:
                replaced.append(number)
        return self.decoder.decode(tokens.tolist()) if self.decoder is not None else ""

    def _text(self, number: int, tokens: Tokens, replaced: list[int]) -> bytes:
        import msgspec

        text = self._decoded(number, tokens, replaced)
        try:
            return b"".join((self._before, msgspec.json.encode(text), self._after))
        except UnicodeEncodeError as error:
            raise ConversionError(
                f"{self.path.name}: the tokenizer decodes sequence {number:,} to a lone surrogate, which UTF-8 lacks"
            ) from error

    def commit(self, source: TokenReader, receipts: Sequence[Receipt]) -> None:
        del source
        join([self._part(receipt.region) for receipt in receipts], self.path, self.jobs, keep=self.keep_parts)
        if not self.keep_parts:
            shutil.rmtree(self._parts)


def _cuts(source: TokenReader, size: int, of: range, most: int) -> Iterator[range]:
    """Yield runs of sequences of at most `size` tokens and `most` sequences, or of one longer sequence."""
    first = of.start
    while first < of.stop:
        target = int(source.offsets(first, first)[0]) + size
        last = of.stop if target >= source.info.tokens else max(first + 1, source.sequence_at(target))
        last = min(last, first + most, of.stop)
        yield range(first, last)
        first = last
