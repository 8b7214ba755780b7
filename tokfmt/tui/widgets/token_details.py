"""The token under the cursor: id, bytes, position, byte in the file, mask and label; found out, and shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from textual.content import Content
from textual.widgets import Static

from tokfmt.core.errors import TokfmtError, printable
from tokfmt.core.protocols import LocatedRecords, Place
from tokfmt.core.records import RecordReader
from tokfmt.tui.layout import TokenStyle, is_unknown
from tokfmt.tui.rows import Damage, RowSource, Span, fetched, fetched_span, padded_from
from tokfmt.views.view import place_of


class TokenFacts(NamedTuple):
    """A token.

    Attributes:
        row, unit: The row, and the number of the token in it; length: Tokens of the row.
        value: Its id, or the code point.
        spelled: What it stands for, escaped; raw: its bytes; both None without a tokenizer.
        position: On the token axis.
        place: Its bytes in a file; of a record the line that holds it.
        mask, label: Of a sample.
        special: It is padding, the separator, another special token, or unknown; "" when it is none of them.
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


def facts_of(port: RowSource, token_style: TokenStyle, row: int, unit: int) -> TokenFacts | Damage | None:
    """The facts of a token; None where there is none. Reads."""
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
        place_of_unit(port, row, unit),
        None if piece.masks is None else int(piece.masks[0]),
        label,
        None if label is None else spelling(token_style, label)[1],
        _special(port, token_style, row, unit, value),
    )


def _special(port: RowSource, token_style: TokenStyle, row: int, unit: int, value: int) -> str:
    if unit >= padded_from(port, row):
        return "padding"
    if value == token_style.separator or value in token_style.specials:
        return "separator" if value == token_style.separator else "special"
    unknown = token_style.decoder is not None and spelling(token_style, value)[0] is None
    return "not in the vocabulary" if unknown else ""


def place_of_unit(port: RowSource, row: int, unit: int) -> Place | None:
    """The bytes of a token, of a record the line that holds it; None when nobody knows. Reads."""
    reader = port.reader
    try:
        if isinstance(reader, RecordReader):
            # records that nobody has counted yet would be counted for this
            return reader.record_place(row) if port.whole and isinstance(reader, LocatedRecords) else None
        span = fetched_span(port, row)
        return place_of(reader, span.start + unit) if isinstance(span, Span) and span.start is not None else None
    except (TokfmtError, IndexError):  # an empty row at the end has no token
        return None


def spelling(token_style: TokenStyle, value: int) -> tuple[bytes | None, str | None]:
    """What an id stands for: its bytes, and these escaped for people; None twice where it stands for nothing."""
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


NARROW = 90
"""Cells under which the facts take a line more."""

_BYTES = 12
_GAP = "   "


class TokenDetails(Static):
    """Shows the facts of a token, in as many lines as it has."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "detail--name",
        "detail--value",
        "detail--id",
        "detail--text",
        "detail--mark",
        "detail--damage",
    }

    def __init__(self) -> None:
        super().__init__(id="detail")
        self._facts: TokenFacts | Damage | None = None
        self._unit = ""

    def show(self, facts: TokenFacts | Damage | None, unit: str) -> None:
        """Say what is known; nothing when there is no token."""
        self._facts, self._unit = facts, unit
        self.refresh()

    def on_resize(self) -> None:
        self.set_class(self.outer_size.width < NARROW, "narrow")

    def render(self) -> Content:
        facts, parts = self._facts, []
        if isinstance(facts, TokenFacts):
            parts = [*self._what(facts, self._unit), *self._sample(facts), *self._where(facts)]
        elif facts is not None:
            parts = [self._styled(facts.why, "damage")]
        return self._flowing(parts)

    def _flowing(self, parts: list[Content]) -> Content:
        """The parts in lines, none of them broken."""
        lines: list[list[Content]] = [[]]
        for part in parts:
            used = sum(one.cell_length + len(_GAP) for one in lines[-1])
            if lines[-1] and used + part.cell_length > self.content_size.width:
                lines.append([])
            lines[-1].append(part)
        return Content("\n").join(Content(_GAP).join(line) for line in lines)

    def _styled(self, text: str, name: str) -> Content:
        return Content.styled(text, self.get_visual_style(f"detail--{name}", partial=True))

    def _pair(self, name: str, value: str, style: str = "value") -> Content:
        return self._styled(f"{name} ", "name") + self._styled(value, style)

    def _what(self, facts: TokenFacts, unit: str) -> Iterator[Content]:
        yield self._pair(unit, f"{facts.unit:,} of {facts.length:,}")
        yield self._pair("id" if unit == "token" else "code point", str(facts.value), "id")
        if facts.spelled is not None:
            yield self._styled(f"“{facts.spelled}”", "text")
        if facts.special:
            yield self._styled(facts.special, "mark")

    def _sample(self, facts: TokenFacts) -> Iterator[Content]:
        if facts.mask is not None:
            yield self._pair("mask", str(facts.mask), "value" if facts.mask else "mark")
        if facts.label is not None:
            spelled = "" if facts.label_spelled is None else f" “{facts.label_spelled}”"
            yield self._pair("label", f"{facts.label}{spelled}")

    def _where(self, facts: TokenFacts) -> Iterator[Content]:
        if facts.position is not None:
            yield self._pair("position", f"{facts.position:,}")
        if facts.place is not None:
            inside = f" ({facts.place.detail})" if facts.place.detail else ""
            yield self._pair("byte", f"{facts.place.offset:,} of {printable(facts.place.path.name)}{inside}")
        if facts.raw is not None:
            yield self._pair("bytes", facts.raw[:_BYTES].hex(" ") + (" …" if len(facts.raw) > _BYTES else ""))
