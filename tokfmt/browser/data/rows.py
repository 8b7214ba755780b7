"""Rows and windows of tokens of a dataset for the screen, cached, and read only when they are shown.

Access has two halves: `peek_*` is for drawing and returns cached data at once, or None; `load_*` reads, and is for a
worker thread. A part that cannot be read is cached as `Damage`, and the rest stays usable.

A *row* is a line of the list: a sequence, a sample or a record. Its *units* are tokens, or characters for text without
a tokenizer (`RecordSource`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.resources import Recent
from tokfmt.core.format import Encoder
from tokfmt.core.loss_mask import TARGET, padding_of, targets_of
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import TokenReader
from tokfmt.core.records import RecordReader
from tokfmt.errors import ConversionError, TokfmtError, UnendedError

WINDOW = 4096
"""Units read at once, as the beginnings of the rows on a screen may be far apart."""

BLOCK = 64
"""Rows whose offsets are read at once."""

_WINDOWS = 1024  # cached: at most 32 MiB of uint64
_BLOCKS = 4096
_FILLED = 1 << 16  # units at the end of a row that are searched for padding


class Damage(NamedTuple):
    """A part that could not be read, with its error in one line."""

    why: str


class Span(NamedTuple):
    """The place of a row: its first position on the token axis (None without an axis) and its number of units."""

    start: int | None
    length: int


class Piece(NamedTuple):
    """Units of a row, as arrays [n]."""

    units: Tokens  # IDs, or code points
    masks: NDArray[np.uint8] | None = None  # loss mask, for samples that store one
    labels: NDArray[np.integer] | None = None  # labels, for samples that store them
    begins: NDArray[np.bool_] | None = None  # True where a document begins, for rows that store this
    targets: NDArray[np.bool_] | None = None  # True where the token is trained as a target; None if nothing says so
    padding: NDArray[np.bool_] | None = None  # True at padding; None if the reader declares none

    def part(self, start: int, stop: int | None = None) -> Piece:
        """Return the units `start <= i < stop` of the piece."""
        columns: list[Any] = [None if column is None else column[start:stop] for column in self]
        return Piece(*columns)


class RowSource(Protocol):
    """The rows that a screen shows: of a token axis or of records."""

    @property
    def reader(self) -> TokenReader | RecordReader: ...
    @property
    def whole(self) -> bool: ...  # all rows are known
    @property
    def count(self) -> int: ...  # number of rows
    @property
    def unit(self) -> str: ...  # "token" or "character"
    @property
    def encoder(self) -> Encoder | None: ...  # of text that is tokenized when it is read
    @property
    def sampled(self) -> bool: ...  # pieces have masks and labels

    def peek_span(self, row: int) -> Span | Damage | None: ...

    def peek(self, row: int, start: int, stop: int) -> Piece | Damage | None:
        """Return the units `start <= i < stop` of a row, cut at its end; None if they are not loaded."""

    def load_spans(self, first: int, last: int) -> None: ...

    def load(self, row: int, start: int, stop: int) -> None: ...

    def row_at(self, position: int) -> int | None:
        """Return the row of a token position; None without an axis. Reads."""


class View(NamedTuple):
    """A way to divide a dataset into rows."""

    name: str  # "documents", "samples", "rows" or "records"
    port: RowSource  # the rows
    as_stored: bool = False  # the rows are those of the file, and another view has the documents
    # most of the rows have labels that leave out more than padding, which documents do not show
    has_prompts: bool = False

    @property
    def reader(self) -> TokenReader | RecordReader:
        """Return the token axis, or the records."""
        return self.port.reader

    @property
    def axis(self) -> TokenReader | None:
        """Return the token axis; None for records."""
        return None if isinstance(self.reader, RecordReader) else self.reader

    @property
    def tokens(self) -> int:
        """Return the length of the token axis; 0 for records."""
        return self.axis.info.tokens if self.axis is not None else 0

    @property
    def singular(self) -> str:
        """Return the noun for one row."""
        return self.name.removesuffix("s")


def fetched_span(port: RowSource, row: int) -> Span | Damage:
    """Return the span of a row, which is loaded if necessary."""
    found = port.peek_span(row)
    if found is None:
        port.load_spans(row, row + 1)
        found = port.peek_span(row)
    return found or Damage("was not kept; try again")


def fetched(port: RowSource, row: int, start: int, stop: int) -> Piece | Damage:
    """Return units of a row, which are loaded if necessary."""
    found = port.peek(row, start, stop)
    if found is None:
        fetched_span(port, row)
        port.load(row, start, stop)
        found = port.peek(row, start, stop)
    return found or Damage("was not kept; try again")


def damage_of(error: TokfmtError) -> Damage:
    """Return the damage that an error describes."""
    return Damage(" ".join(str(error).split()))


class Viewport:
    """The rows and windows of a token axis. A `RowSource`."""

    unit, whole, encoder = "token", True, None

    def __init__(self, reader: TokenReader, again: Callable[[], TokenReader] | None = None) -> None:
        """Hold a reader; `again` opens the same rows, and looks at the end of each, if positions presume something."""
        self.reader, self._again = reader, again
        self.count = reader.info.sequences
        self.sampled = reader.has_labels
        self._forget()

    def _forget(self) -> None:
        self._offsets = Recent[int, Offsets | Damage](_BLOCKS)
        self._windows = Recent[int, Piece | Damage](_WINDOWS)

    def look_at_ends(self) -> bool:
        """Read each row by its own end from now on. Return False if positions presume nothing."""
        if self._again is None:
            return False
        self.reader, self._again = self._again(), None
        self._forget()
        return True

    def peek_span(self, row: int) -> Span | Damage | None:
        block = self._offsets.get(row // BLOCK)
        if block is None or isinstance(block, Damage):
            return block
        at = row % BLOCK
        return Span(int(block[at]), int(block[at + 1] - block[at]))

    def load_spans(self, first: int, last: int) -> None:
        for number in range(first // BLOCK, -(-min(last, self.count) // BLOCK)):
            if self._offsets.get(number) is None:
                a = number * BLOCK
                try:
                    block: Offsets | Damage = self.reader.offsets(a, min(a + BLOCK, self.count)).copy()
                except TokfmtError as error:
                    if isinstance(error, UnendedError) and self.look_at_ends():
                        self.load_spans(first, last)
                        return
                    block = damage_of(error)
                self._offsets.put(number, block)

    def peek(self, row: int, start: int, stop: int) -> Piece | Damage | None:
        span = self.peek_span(row)
        if not isinstance(span, Span):
            return span
        a, b, numbers = _windows_of(span, start, stop)
        found = []
        for number in numbers:
            window = self._windows.get(number)
            if window is None or isinstance(window, Damage):
                return window
            base = number * WINDOW
            found.append(window.part(max(a - base, 0), b - base))
        return _joined(found, self.reader.info.dtype)

    def load(self, row: int, start: int, stop: int) -> None:
        span = self.peek_span(row)
        for number in _windows_of(span, start, stop)[2] if isinstance(span, Span) else ():
            if self._windows.get(number) is not None:
                continue
            begin = number * WINDOW
            try:
                found: Piece | Damage = self.read(begin, min(begin + WINDOW, self.reader.info.tokens))
            except TokfmtError as error:
                if isinstance(error, UnendedError) and self.look_at_ends():  # Positions are others now.
                    self.load_spans(row, row + 1)
                    self.load(row, start, stop)
                    return
                found = damage_of(error)
            self._windows.put(number, found)

    def read(self, start: int, stop: int) -> Piece:
        """Read tokens by position without caching them, and raise the errors of the reader."""
        reader, units = self.reader, self.reader.tokens(start, stop)
        masks, labels = None, None
        if reader.has_labels:
            masks, labels = reader.masks(start, stop), reader.labels(start, stop)
        begins = reader.begins(start, stop) if reader.has_begins else None
        return Piece(units, masks, labels, begins, self._targets(start, stop), padding_of(reader, start, stop))

    def _targets(self, start: int, stop: int) -> NDArray[np.bool_] | None:
        try:
            return targets_of(self.reader, start, stop)
        except ConversionError:  # A label of another ID: the tokens are shown without masks.
            return None

    def row_at(self, position: int) -> int | None:
        return self.reader.sequence_at(position) if 0 <= position < self.reader.info.tokens else None


def _windows_of(span: Span, start: int, stop: int) -> tuple[int, int, range]:
    """Return the first position of units of a row, the last one, and the windows that hold them."""
    begin = span.start or 0
    a, b = begin + min(start, span.length), begin + min(stop, span.length)
    return a, b, range(a // WINDOW, -(-b // WINDOW) if b > a else a // WINDOW)


def _joined(pieces: list[Piece], dtype: np.dtype[np.unsignedinteger]) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return Piece(np.empty(0, dtype))
    columns: list[Any] = [
        None if any(part is None for part in column) else np.concatenate(column) for column in zip(*pieces, strict=True)
    ]
    return Piece(*columns)


def padded_from(port: RowSource, row: int) -> int:
    """Return the first unit of the padding of a sample; the length of the row if it has no known padding. Reads."""
    span = fetched_span(port, row)
    if isinstance(span, Damage):
        return 0
    if not isinstance(port, Viewport) or padding_of(port.reader, 0, 0) is None:
        return span.length
    piece = fetched(port, row, max(0, span.length - _FILLED), span.length)
    if isinstance(piece, Damage) or piece.padding is None:
        return span.length
    return span.length - int(np.count_nonzero(piece.padding))


_KEPT = 256


class RecordSource:
    """Records by number, or the first ones that are known yet. A `RowSource`; `whole` if all are known."""

    sampled = False

    def __init__(
        self,
        reader: RecordReader,
        count: int,
        encoder: Encoder | None = None,
        first: Sequence[str | list[int]] | None = None,
    ) -> None:
        self.reader, self.count, self.encoder, self._first = reader, count, encoder, first
        self.whole = first is None
        self.unit = "character" if reader.info.kind == "text" and encoder is None else "token"
        self._records = Recent[int, Piece | Damage](_KEPT)

    def with_encoder(self, encoder: Encoder) -> RecordSource:
        """Return the same records with an encoder."""
        return RecordSource(self.reader, self.count, encoder, self._first)

    def peek_span(self, row: int) -> Span | Damage | None:
        record = self._records.get(row)
        return record if record is None or isinstance(record, Damage) else Span(None, len(record.units))

    def peek(self, row: int, start: int, stop: int) -> Piece | Damage | None:
        record = self._records.get(row)
        return record if record is None or isinstance(record, Damage) else record.part(start, stop)

    def load_spans(self, first: int, last: int) -> None:
        for row in range(first, min(last, self.count)):
            if self._records.get(row) is None:
                self._records.put(row, self._read(row))

    def load(self, row: int, start: int, stop: int) -> None:  # noqa: ARG002 - a record is loaded whole
        self.load_spans(row, row + 1)

    def row_at(self, position: int) -> int | None:  # noqa: ARG002 - records have no token axis
        return None

    def _read(self, row: int) -> Piece | Damage:
        try:
            record = self._first[row] if self._first is not None else self.reader.record(row)
            if not isinstance(record, str):
                return Piece(np.asarray(record, np.uint32))
            if self.encoder is not None:
                ragged, marks, _ = self.encoder.marked([record])
                return Piece(ragged.tokens, targets=None if marks is None else marks & TARGET != 0)
            return Piece(np.frombuffer(record.encode("utf-32-le", "surrogatepass"), np.uint32))
        except TokfmtError as error:
            return damage_of(error)


class Characters:
    """Decode units that are code points."""

    def pieces(self, tokens: Sequence[int] | Tokens) -> list[bytes | str]:
        return [chr(unit) for unit in tokens]
