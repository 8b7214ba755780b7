"""Lines of the list in their styles."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style

from tokfmt.tui.headings import Columns, columns, short, words_of
from tokfmt.tui.letters import Kind
from tokfmt.tui.viewport import Damage, Span, Viewport

if TYPE_CHECKING:
    from tokfmt.tui.widgets.sequences import SequenceList

HEAD = 64
"""Units of a row of which the list shows what fits."""

_PARTS = ("head", "number", "dim", "words", "mark", "damage", "hit", "bookmark", "cursor", "cursor-blurred")
CLASSES = {f"list--{part}" for part in _PARTS}
_WORDS = {Kind.TEXT, Kind.SPACE, Kind.ID}


def _columns(rows: SequenceList) -> Columns:
    port = rows.port
    tokens = port.reader.info.tokens if isinstance(port, Viewport) else None
    return columns(rows.columns, port.count if port else 0, tokens)


def head_line(rows: SequenceList) -> list[Segment]:
    """The names of the columns."""
    wide = _columns(rows)
    text = f"{'#':>{wide.number}} "
    text += f"{'position'[: wide.position]:>{wide.position + 1}} " if wide.position else ""
    text += f"{'length':>{wide.length}} " if wide.length else ""
    return [Segment(f"{text} begins with", rows.get_component_rich_style("list--head"))]


def _sign(rows: SequenceList, row: int, style: Callable[[str], Style]) -> Segment:
    """What is special about a row, in one cell: a bookmark, a hit."""
    if row in rows.bookmarks:
        return Segment("★", style("list--bookmark"))
    return Segment("●", style("list--hit")) if rows.hits and rows.hits.has(row) else Segment(" ", style("list--dim"))


def row_line(rows: SequenceList, index: int) -> list[Segment]:
    """A row, or nothing below the last."""
    port = rows.port
    if port is None or index >= rows.count:
        nothing = port is not None and not rows.count and index == 0
        return [Segment("  nothing to list", rows.get_component_rich_style("list--dim"))] if nothing else []
    row, wide = rows.row_of(index), _columns(rows)
    cursor = "" if index != rows.cursor else "list--cursor" if rows.has_focus else "list--cursor-blurred"

    def style(name: str) -> Style:
        return rows.get_component_rich_style(name, cursor) if cursor else rows.get_component_rich_style(name)

    segments = [Segment(f"{row:>{wide.number},}", style("list--number")), _sign(rows, row, style)]
    span = port.peek_span(row)
    if isinstance(span, Span):
        at = f"{span.start:>{wide.position + 1},} " if wide.position and span.start is not None else ""
        length = f"{short(span.length):>{wide.length}} " if wide.length else ""
        segments.append(Segment(f"{at}{length} ", style("list--dim")))
    found = None if span is None else port.peek(row, 0, HEAD)
    if found is None:
        segments.append(Segment(" …", style("list--dim")))
    elif isinstance(found, Damage):
        segments.append(Segment(f" ✗ {found.why}"[: wide.words], style("list--damage")))
    else:
        for text, kind, _ in words_of(found, rows.alphabet, wide.words - 1):
            segments.append(Segment(text, style("list--words" if kind in _WORDS else "list--mark")))
    rest = rows.columns - sum(segment.cell_length for segment in segments)
    return [*segments, Segment(" " * max(0, rest), style("list--words"))]
