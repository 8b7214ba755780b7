"""A few lines beneath the reader: everything that is known of the token under the cursor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.content import Content
from textual.widgets import Static

from tokfmt.core.errors import printable
from tokfmt.tui.facts import TokenFacts
from tokfmt.tui.viewport import Damage

NARROW = 90
"""Cells under which the facts take a line more."""

_BYTES = 12
_GAP = "   "


class Detail(Static):
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
