"""The facts about a token: its ID, bytes, position, byte offset in the file, mask, label and frequency."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.browser.data.layout import TokenStyle, is_unknown
from tokfmt.browser.data.rows import Damage, RowSource, Span, fetched, fetched_span, padded_from
from tokfmt.core.ragged import Offsets, Ragged, Tokens
from tokfmt.core.reader import ByteOffset
from tokfmt.core.records import RecordReader
from tokfmt.errors import TokfmtError
from tokfmt.wording import counted, printable


class TokenFacts(NamedTuple):
    """The facts about a token."""

    row: int  # number of the row
    unit: int  # position of the token in the row
    length: int  # number of tokens in the row
    value: int  # its ID, or the code point
    spelled: str | None = None  # its text, escaped; None without a tokenizer
    raw: bytes | None = None  # its bytes; None without a tokenizer
    position: int | None = None  # its position on the token axis; None without one
    stored: int | None = None  # its position among what is stored, with separators; None if unknown
    place: ByteOffset | None = None  # its bytes in a file, or for a record the line that holds it; None if unknown
    is_trained: bool | None = None  # it is trained as a target; None if nothing says so
    mask: int | None = None  # its loss mask, in a sample
    label: int | None = None  # its label, in a sample
    label_spelled: str | None = None  # the text of the label, escaped
    special: str = ""  # "padding", "separator", "special" or "not in the vocabulary"; else ""


def facts_of(port: RowSource, token_style: TokenStyle, row: int, unit: int) -> TokenFacts | Damage | None:
    """Return the facts about a token; None if the row has no such token. Reads."""
    span = fetched_span(port, row)
    if not isinstance(span, Span) or unit >= span.length:
        return span if isinstance(span, Damage) else None
    piece = fetched(port, row, unit, unit + 1)
    if isinstance(piece, Damage):
        return piece
    value = int(piece.units[0])
    label = None if piece.labels is None else int(piece.labels[0])
    raw, spelled = spelling(token_style, value)
    return TokenFacts(
        row,
        unit,
        span.length,
        value,
        spelled,
        raw,
        None if span.start is None else span.start + unit,
        _stored(port, span, unit),
        byte_offset_of_unit(port, row, unit),
        None if piece.targets is None else bool(piece.targets[0]),
        None if piece.masks is None else int(piece.masks[0]),
        label,
        None if label is None else spelling(token_style, label)[1],
        _special(port, token_style, row, unit, value),
    )


def _stored(port: RowSource, span: Span, unit: int) -> int | None:
    """Return the position of a token in the dataset as it is stored, which a loader counts from; None if unknown."""
    reader = port.reader
    if isinstance(reader, RecordReader) or span.start is None:
        return None
    try:
        found = reader.to_source(span.start + unit)
    except TokfmtError:
        return None
    return None if found is None else found[1]


def _special(port: RowSource, token_style: TokenStyle, row: int, unit: int, value: int) -> str:
    if unit >= padded_from(port, row):
        return "padding"
    if value == token_style.separator or value in token_style.specials:
        return "separator" if value == token_style.separator else "special"
    unknown = token_style.decoder is not None and spelling(token_style, value)[0] is None
    return "not in the vocabulary" if unknown else ""


def byte_offset_of_unit(port: RowSource, row: int, unit: int) -> ByteOffset | None:
    """Return the bytes of a token, or for a record the line that holds it; None if unknown. Reads."""
    reader = port.reader
    try:
        if isinstance(reader, RecordReader):
            # the reader would count all records for this, if they are not counted yet
            return reader.record_byte_offset(row) if port.whole and reader.files else None
        span = fetched_span(port, row)
        return reader.locate(span.start + unit) if isinstance(span, Span) and span.start is not None else None
    except (TokfmtError, IndexError):  # an empty row at the end has no token
        return None


def spelling(token_style: TokenStyle, value: int) -> tuple[bytes | None, str | None]:
    """Return the bytes of an ID, and their escaped text; (None, None) for an ID without a token."""
    if token_style.decoder is None:
        return None, None
    piece = token_style.decoder.pieces([value])[0]
    if not token_style.characters and is_unknown(value, piece):
        return None, None
    if isinstance(piece, str):
        return piece.encode("utf-8", "surrogatepass"), printable(piece)
    try:
        return piece, printable(piece.decode())
    except UnicodeDecodeError:
        return piece, "".join(f"⟨{byte:02x}⟩" for byte in piece)


# how often an ID is in a small dataset

MOST = 1 << 21
"""Limit of the tokens, and of the rows, of a dataset whose IDs are counted without a key."""

_TEXT = 1 << 20  # bytes of text that is tokenized for this
_LARGEST = 1 << 24  # IDs
_BLOCK = 1 << 20  # bytes


class Frequency(NamedTuple):
    """The frequency of an ID."""

    rank: int  # 1 for the most frequent ID; equally frequent ones share a rank
    tokens: int  # number of tokens with the ID
    rows: int  # number of rows that have it

    def words(self, singular: str) -> str:
        """Return the frequency in words; `singular` is the noun for a row."""
        return f"{counted(self.tokens, 'time')} in {counted(self.rows, singular)}, rank {self.rank:,}"


class Frequencies(NamedTuple):
    """The counts of all IDs: tokens, and rows that have the ID, as int64[largest ID + 1]."""

    tokens: NDArray[np.int64]
    rows: NDArray[np.int64]

    def of(self, token: int) -> Frequency | None:
        """Return the frequency of an ID; None if it is not in the dataset."""
        count = int(self.tokens[token]) if token < len(self.tokens) else 0
        if not count:
            return None
        return Frequency(1 + int(np.count_nonzero(self.tokens > count)), count, int(self.rows[token]))


def frequencies_of(port: RowSource) -> Frequencies | None:
    """Count the IDs of all rows; None if there are too many, or the rows have characters. Reads."""
    if port.unit != "token" or not port.whole:
        return None
    try:
        ids, offsets = _all_ids(port)
    except TokfmtError:
        return None  # the row that cannot be read shows the error
    largest = int(ids.max(initial=0))
    if largest >= _LARGEST:
        return None
    row = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    once = np.unique(row * (largest + 1) + ids.astype(np.int64)) % (largest + 1)
    return Frequencies(np.bincount(ids), np.bincount(once))


def _all_ids(port: RowSource) -> tuple[Tokens, Offsets]:
    """Return the IDs of all rows, and the offset of each row in them; those of no row of a large dataset."""
    reader = port.reader
    if not isinstance(reader, RecordReader):
        offsets = reader.offsets(0, port.count if max(reader.info.tokens, port.count) <= MOST else 0)
        return reader.tokens(int(offsets[0]), int(offsets[-1])), offsets - offsets[0]
    from tokfmt.text.ingest import encoded_batches

    blocks = reader.blocks(_BLOCK) if reader.info.size <= _TEXT else ()
    batches = (encoded_batches(reader, port.encoder, block) for block in blocks)
    ragged = Ragged.of((ids for batch in chain.from_iterable(batches) for ids in batch), np.dtype(np.uint64))
    return ragged.tokens, ragged.offsets
