"""Two lines beneath the reader: everything that is known of the token under the cursor."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from tokfmt.core.errors import printable
from tokfmt.tui.facts import TokenFacts
from tokfmt.tui.viewport import Damage

_BYTES = 12


class Detail(Static):
    """Shows the facts of a token."""

    def __init__(self) -> None:
        super().__init__(id="detail")

    def show(self, facts: TokenFacts | Damage | None, unit: str) -> None:
        """Say what is known; nothing when there is no token."""
        if isinstance(facts, TokenFacts):
            self.update(Content("\n").join((_what(facts, unit), _where(facts))))
        else:
            self.update(Content.styled(facts.why, "$text-error") if facts else "an empty row")


def _pair(name: str, value: str, style: str = "$text") -> Content:
    return Content.assemble((f"{name} ", "$text-muted"), (value, style))


def _joined(parts: list[Content]) -> Content:
    return Content("   ").join(parts)


def _what(facts: TokenFacts, unit: str) -> Content:
    parts = [_pair(unit, f"{facts.unit:,} of {facts.length:,}")]
    parts.append(_pair("id" if unit == "token" else "code point", str(facts.value), "$text-accent bold"))
    if facts.spelled is not None:
        parts.append(Content.styled(f"“{facts.spelled}”", "$text-success bold"))
    if facts.raw is not None:
        more = " …" if len(facts.raw) > _BYTES else ""
        parts.append(_pair("bytes", facts.raw[:_BYTES].hex(" ") + more))
    if facts.special:
        parts.append(Content.styled(facts.special, "$text-warning"))
    return _joined(parts)


def _where(facts: TokenFacts) -> Content:
    parts = []
    if facts.mask is not None:
        parts.append(_pair("mask", str(facts.mask), "$text" if facts.mask else "$text-warning"))
    if facts.label is not None:
        spelled = "" if facts.label_spelled is None else f" “{facts.label_spelled}”"
        parts.append(_pair("label", f"{facts.label}{spelled}"))
    if facts.position is not None:
        parts.append(_pair("position", f"{facts.position:,}"))
    if facts.place is not None:
        inside = f" ({facts.place.detail})" if facts.place.detail else ""
        parts.append(_pair("byte", f"{facts.place.offset:,} of {printable(facts.place.path.name)}{inside}"))
    return _joined(parts)
