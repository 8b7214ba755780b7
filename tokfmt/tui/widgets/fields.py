"""Lines of the parts in their styles."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment

from tokfmt.core.errors import printable
from tokfmt.core.inside import Field
from tokfmt.tui.outline import Row

if TYPE_CHECKING:
    from tokfmt.tui.widgets.parts import Parts

CLASSES = {
    f"parts--{part}"
    for part in (
        "section",
        "count",
        "offset",
        "length",
        "name",
        "value",
        "meaning",
        "wrong",
        "cursor",
        "cursor-blurred",
    )
}
_INDENT, _GAP = 2, 2
_NAME, _VALUE, _NARROW = 26, 34, 64


@dataclass(slots=True)
class Widths:
    """Cells of columns; they grow with what is seen, and do not shrink, so that scrolling does not make them jump.

    Attributes:
        offset, length: Of all sections.
        names, values: Of each.
    """

    offset: int = 6
    length: int = 3
    names: dict[int, int] = dataclass_field(default_factory=dict)
    values: dict[int, int] = dataclass_field(default_factory=dict)

    def take(self, section: int, field: Field) -> None:
        """Make room for a field."""
        self.offset = max(self.offset, len(_number(field.offset)))
        self.length = max(self.length, len(_number(field.length or None)))
        self.names[section] = min(_NAME, max(self.names.get(section, 0), cell_len(field.name)))
        if field.meaning:
            self.values[section] = min(_VALUE, max(self.values.get(section, 0), cell_len(field.value)))


def _number(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def fitted(text: str, cells: int) -> str:
    """A text in so many cells; what is cut off is told by an ellipsis."""
    if cell_len(text) <= cells or not cells:
        return set_cell_size(text, cells)
    return f"{set_cell_size(text, cells - 1)}…"


def section_line(parts: Parts, row: Row, line: int) -> list[Segment]:
    """A section: its title, how many fields it has, its file."""
    outline, section = parts.outline, parts.outline.sections[row.section]
    count = outline.counts.get(row.section)
    mark = "▾" if outline.is_open(row.section) else "◌" if row.section in parts.opening else "▸"
    told = "reading …" if mark == "◌" else "" if count is None else f"{count:,} field{'' if count == 1 else 's'}"
    cells = [(f"{mark} {printable(section.title)}  ", "section"), (told, "count")]
    return _segments(parts, cells, line)


def field_line(parts: Parts, row: Row, line: int) -> list[Segment]:
    """A field: offset, length, name, value, meaning."""
    field, wide = parts.outline.peek(row), parts.widths
    if field is None:
        return _segments(parts, [(f"{'':{_INDENT}}…", "count")], line)
    mark = "✗ " if field.wrong else "  "
    cells = [(mark, "wrong"), (f"{_number(field.offset):>{wide.offset}}  ", "offset")]
    if parts.columns >= _NARROW:
        cells.append((f"{_number(field.length or None):>{wide.length}}  ", "length"))
    cells.append((fitted(field.name, wide.names.get(row.section, _NAME)) + "  ", "name"))
    room = parts.columns - sum(cell_len(text) for text, _ in cells)
    value = wide.values.get(row.section, 0) if field.meaning else cell_len(field.value)
    value = min(value, room)
    cells.append((fitted(field.value, value) + "  ", "wrong" if field.wrong else "value"))
    left = min(cell_len(field.meaning), max(0, room - value - _GAP))
    cells.append((fitted(field.meaning, left), "wrong" if field.wrong else "meaning"))
    return _segments(parts, cells, line)


def _segments(parts: Parts, cells: list[tuple[str, str]], line: int) -> list[Segment]:
    chosen = "parts--cursor" if parts.has_focus else "parts--cursor-blurred"
    names = [chosen] if line == parts.cursor else []
    used = sum(cell_len(text) for text, _ in cells)
    cells = [*cells, (" " * max(0, parts.columns - used), "value")]
    return [Segment(text, parts.get_component_rich_style(f"parts--{kind}", *names)) for text, kind in cells if text]
