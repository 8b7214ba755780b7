"""Rows that are records of text, or of ids, read one at a time: a Port without a token axis.

Text that nobody has tokenised is shown as its characters: units are code points. With an encoder it is tokenised record
by record, as it is looked at; nothing else is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tokfmt.core.errors import TokfmtError
from tokfmt.core.ragged import Ragged, Tokens
from tokfmt.core.records import RecordReader
from tokfmt.tui.viewport import Damage, Lru, Piece, Span, damage_of

_KEPT = 256
_GLIMPSED = 256


class Encoder(Protocol):
    """Texts to ids."""

    def encode(self, texts: list[str]) -> Ragged: ...


class RecordPort:
    """Records by number. A Port.

    Args:
        reader: The records. count: How many there are.
        encoder: Makes tokens of text; None shows its characters.
        first: The first records, when no record can be asked for by number yet.
    """

    sampled = False

    def __init__(
        self,
        reader: RecordReader,
        count: int,
        encoder: Encoder | None = None,
        first: Sequence[str | list[int]] | None = None,
    ) -> None:
        self.reader, self.count, self.encoder, self._first = reader, count, encoder, first
        self.unit = "character" if reader.info.kind == "text" and encoder is None else "token"
        self._records: Lru[int, Tokens | Damage] = Lru(_KEPT)

    def with_encoder(self, encoder: Encoder) -> RecordPort:
        """The same records, tokenised."""
        return RecordPort(self.reader, self.count, encoder, self._first)

    def peek_span(self, row: int) -> Span | Damage | None:
        record = self._records.get(row)
        return record if record is None or isinstance(record, Damage) else Span(None, len(record))

    def peek(self, row: int, start: int, stop: int) -> Piece | Damage | None:
        record = self._records.get(row)
        return record if record is None or isinstance(record, Damage) else Piece(record[start:stop])

    def load_spans(self, first: int, last: int) -> None:
        for row in range(first, min(last, self.count)):
            if self._records.get(row) is None:
                self._records.put(row, self._read(row))

    def load(self, row: int, start: int, stop: int) -> None:  # noqa: ARG002 - a record comes whole
        self.load_spans(row, row + 1)

    def row_at(self, position: int) -> int | None:  # noqa: ARG002 - nobody knows where a record lies on an axis
        return None

    def _read(self, row: int) -> Tokens | Damage:
        try:
            record = self._first[row] if self._first is not None else self.reader.record(row)
            if not isinstance(record, str):
                return np.asarray(record, np.uint32)
            if self.encoder is not None:
                return self.encoder.encode([record]).tokens
            return np.frombuffer(record.encode("utf-32-le", "surrogatepass"), np.uint32)
        except TokfmtError as error:
            return damage_of(error)


def first_records(reader: RecordReader) -> list[str | list[int]]:
    """The first few records, without knowing how many there are; none when one of them is damaged."""
    try:
        for block in reader.blocks(1 << 62)[:1]:
            for batch in reader.texts(block) if reader.info.kind == "text" else reader.ids(block):
                found: list[str | list[int]] = [*batch.texts] if batch.ragged is None else [*batch.ragged.tolist()]
                return found[:_GLIMPSED]
    except TokfmtError:
        pass
    return []


class Characters:
    """The decoder of units that are code points."""

    def pieces(self, tokens: Sequence[int] | Tokens) -> list[bytes | str]:
        return [chr(unit) for unit in tokens]
