"""What is known of one token: id, bytes, position, byte in the file, mask and label. Reads; for a worker."""

from __future__ import annotations

from typing import NamedTuple

from tokfmt.core.errors import TokfmtError, printable
from tokfmt.core.inside import LocatedRecords, Place, place_of
from tokfmt.core.records import RecordReader
from tokfmt.tui.session import Session
from tokfmt.tui.viewport import Damage, Span, fetched, fetched_span, padded_from


class TokenFacts(NamedTuple):
    """A token.

    Attributes:
        row, unit: The row, and the number of the token in it; length: Tokens of the row.
        value: Its id, or the code point.
        spelled: What it stands for, escaped; raw: its bytes; both None without a tokenizer.
        position: On the token axis.
        place: Its bytes in a file; of a record the line that holds it.
        mask, label: Of a sample.
        special: It is padding, the separator, or another special token; "" when it is none of them.
    """

    row: int
    unit: int
    length: int
    value: int
    spelled: str | None = None
    raw: bytes | None = None
    position: int | None = None
    place: Place | None = None
    mask: int | None = None
    label: int | None = None
    label_spelled: str | None = None
    special: str = ""


def facts_of(session: Session, row: int, unit: int) -> TokenFacts | Damage | None:
    """The facts of a token; None where there is none."""
    port = session.port
    span = fetched_span(port, row)
    if not isinstance(span, Span) or unit >= span.length:
        return span if isinstance(span, Damage) else None
    piece = fetched(port, row, unit, unit + 1)
    if isinstance(piece, Damage):
        return piece
    value = int(piece.units[0])
    label = None if piece.labels is None else int(piece.labels[0])
    position = None if span.start is None else span.start + unit
    raw, spelled = spelling(session, value)
    return TokenFacts(
        row,
        unit,
        span.length,
        value,
        spelled,
        raw,
        position,
        _place(session, position) if position is not None else _place_of_record(session, row),
        None if piece.masks is None else int(piece.masks[0]),
        label,
        None if label is None else spelling(session, label)[1],
        _special(session, row, unit, value),
    )


def _special(session: Session, row: int, unit: int, value: int) -> str:
    alphabet = session.alphabet
    if unit >= padded_from(session.port, row):
        return "padding"
    return "separator" if value == alphabet.separator else "special" if value in alphabet.specials else ""


def place_of_unit(session: Session, row: int, unit: int) -> Place | None:
    """The bytes of a token, of a record the line that holds it; None when nobody knows. Reads."""
    if isinstance(session.view.reader, RecordReader):
        return _place_of_record(session, row)
    span = fetched_span(session.port, row)
    return _place(session, span.start + unit) if isinstance(span, Span) and span.start is not None else None


def spelling(session: Session, value: int) -> tuple[bytes | None, str | None]:
    """What an id stands for: its bytes, and these escaped for people; None twice without a tokenizer."""
    alphabet = session.alphabet
    if alphabet.decoder is None:
        return None, None
    piece = alphabet.decoder.pieces([value])[0]
    if isinstance(piece, str):
        return piece.encode("utf-8", "surrogatepass"), printable(piece)
    try:
        return piece, printable(piece.decode())
    except UnicodeDecodeError:
        return piece, "".join(f"⟨{byte:02x}⟩" for byte in piece)


def _place(session: Session, position: int | None) -> Place | None:
    reader = session.view.reader
    if position is None or isinstance(reader, RecordReader):
        return None
    try:
        return place_of(reader, position)
    except (TokfmtError, IndexError):  # an empty row at the end has no token
        return None


def _place_of_record(session: Session, row: int) -> Place | None:
    reader = session.view.reader
    # records that nobody has counted yet would be counted for this
    if not isinstance(reader, LocatedRecords) or not session.view.whole:
        return None
    try:
        return reader.record_place(row)
    except (TokfmtError, IndexError):
        return None
