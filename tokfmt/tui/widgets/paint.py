"""Lines of the reader in their styles: what a token is, its tint, its mask, hits, the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment

from tokfmt.tui.layout import Line, Run
from tokfmt.tui.letters import Kind
from tokfmt.tui.scroll import Scroll
from tokfmt.tui.viewport import Damage

if TYPE_CHECKING:
    from tokfmt.tui.widgets.reader import Reader

STYLES = {kind: f"reader--{kind.name.lower()}" for kind in Kind}
_PARTS = ("odd", "even", "masked", "padding", "hit", "cursor", "cursor-blurred", "marked")
CLASSES = {*STYLES.values(), *(f"reader--{part}" for part in _PARTS)}
_TINTED = {Kind.TEXT, Kind.SPACE, Kind.BREAK, Kind.CONTROL}
_PLAIN = {Kind.RULE, Kind.DAMAGE}


def painted(reader: Reader, scroll: Scroll, line: Line) -> list[Segment]:
    """The segments of a line."""
    if line.runs and line.runs[0].kind is Kind.RULE:
        rule = "╌╌ next document ".ljust(max(0, min(reader.columns, 200)), "╌")
        return [Segment(rule, reader.get_component_rich_style(STYLES[Kind.RULE]))]
    under = -1
    if line.first <= scroll.cursor < line.last:
        under = max((run.token for run in line.runs if run.token <= scroll.cursor), default=-1)
    hits = [hit for hit in reader.hits if hit.start < line.last and hit.stop > line.first]
    segments, marked = [], reader.marked
    for run in line.runs:
        names = _kind(reader, scroll, run)
        if run.kind not in _PLAIN:
            if any(run.token in hit for hit in hits):
                names.append("reader--hit")
            if run.token in marked:
                names.append("reader--marked")
            if run.token == under:
                names.append("reader--cursor" if reader.has_focus else "reader--cursor-blurred")
        segments.append(Segment(run.text, reader.get_component_rich_style(*names)))
    return segments


def _kind(reader: Reader, scroll: Scroll, run: Run) -> list[str]:
    """What a token is: its kind, its tint, whether it counts."""
    if run.kind in _PLAIN:
        return [STYLES[run.kind]]
    if run.token >= scroll.roll.padded:
        return ["reader--padding"]
    names = [STYLES[run.kind]]
    if run.kind in _TINTED and not reader.alphabet.characters:
        names.append("reader--odd" if run.token & 1 else "reader--even")
    return names if scroll.counts(run.token) else [*names, "reader--masked"]


def damaged(reader: Reader, damage: Damage, y: int) -> list[Segment]:
    """A line of the message in place of a row that cannot be read."""
    width = max(10, reader.columns - 4)
    text = f"✗ {damage.why}"
    part = text[max(0, y - 1) * width : y * width] if y else ""
    return [Segment(f"  {part}", reader.get_component_rich_style(STYLES[Kind.DAMAGE]))]
