"""The packing strip: the documents of a sample side by side, with their sources, and its padding."""

from __future__ import annotations

from itertools import groupby
from typing import ClassVar, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.message import Message
from textual.strip import Strip

from tokfmt.browser.colors import SHADES, TONES, tone_of
from tokfmt.browser.data.layout import TokenStyle
from tokfmt.browser.data.parts import RowParts, parts_of
from tokfmt.browser.data.rows import RowSource
from tokfmt.browser.widgets.loading import WithLoader
from tokfmt.wording import printable, shortened

_PADDING, _PROMPT = "·", "░"
_LEAST = 12  # cells of the bar, before its facts are left out


class Stretch(NamedTuple):
    """Adjacent cells of a bar that show the same."""

    text: str
    tone: int | None  # number of the color of the source; None for padding
    part: int | None  # index of the part; None in padding
    is_prompt: bool


def bar_of(parts: RowParts, width: int) -> list[Stretch]:
    """Return the bar of a row in a number of cells."""
    units = [_unit(x, width, parts.length) for x in range(width)]
    owners = [(parts.at(unit), parts.is_prompt(unit)) for unit in units]
    if parts.parts and owners and owners[0][0] is None:  # a sample with a token shows it
        owners[0] = 0, parts.is_prompt(0)
    out = list[Stretch]()
    for (part, prompt), group in groupby(owners):
        cells = sum(1 for _ in group)
        if part is None:
            out.append(Stretch(_PADDING * cells, None, None, False))
            continue
        shade = parts.parts[part].shade
        text = (_PROMPT if prompt else SHADES[shade % len(SHADES)]) * cells
        text = text[:-1] + "▌" if not prompt and cells > 1 and part + 1 < len(parts.parts) else text
        out.append(Stretch(text, tone_of(shade), part, prompt))
    return out


class PackingStrip(WithLoader):
    """Show the parts of the row in the reader; the part under the cursor is current."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *(f"strip--{number}" for number in range(TONES)),
        *(f"strip--{part}" for part in ("padding", "facts", "label", "odd", "current")),
    }

    class Chosen(Message):
        """The user chose a unit of the row, or wants to follow it to its document."""

        def __init__(self, unit: int, *, follow: bool = False) -> None:
            super().__init__()
            self.unit, self.follow = unit, follow

    class Loaded(Message):
        """The parts of a row were found."""

    def __init__(self) -> None:
        super().__init__(id="strip")
        self.parts: RowParts | None = None
        self.unit = 0
        self._asked: tuple[RowSource, TokenStyle, int] | None = None
        self.display = False

    @property
    def current(self) -> int | None:
        """Return the index of the part under the cursor; None in padding."""
        return self.parts.at(self.unit) if self.parts else None

    def show(self, port: RowSource, token_style: TokenStyle, row: int, unit: int) -> None:
        """Show the parts of a row, and mark the one that holds a unit."""
        self.unit = unit
        asked = (port, token_style, row)
        if asked == self._asked:
            self.refresh()
            return
        self._asked = asked
        self.loader.forget()

        def then(parts: RowParts | None) -> None:
            self.parts = parts
            if (parts is not None) != self.display:
                self.display = parts is not None
            self._fit()
            self.refresh()
            self.post_message(self.Loaded())

        self.loader.ask(lambda: parts_of(port, token_style, row), then)

    def clear(self) -> None:
        """Show nothing."""
        self.loader.forget()
        self._asked = self.parts = None
        self.display = False

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        if self.parts is not None and self.size.width:
            self.styles.height = len(self._lines(self.parts))

    # moves

    def go(self, step: int) -> None:
        """Put the cursor on the next part, or the one before with step -1."""
        parts = self.parts
        if parts is not None and parts.parts:
            at = self.current
            at = len(parts.parts) if at is None else at
            self.choose(max(0, min(at + step, len(parts.parts) - 1)))

    def choose(self, part: int) -> None:
        """Put the cursor on the first unit of a part."""
        if self.parts is not None:
            self.post_message(self.Chosen(self.parts.parts[part].start))

    def on_click(self, event: events.Click) -> None:
        parts, at = self.parts, event.get_content_offset(self)
        if parts is None or at is None:
            return
        if at.y:
            named = at.y == 1 and not parts.is_alone
            found = next((part for cells, part in self._labels(parts) if at.x in cells), None) if named else None
        else:
            wide = self._bar_width(parts)
            found = parts.at(_unit(at.x, wide, parts.length)) if at.x < wide else None
        if found is not None:
            self.post_message(self.Chosen(parts.parts[found].start, follow=event.chain == 2))

    # drawing

    def _bar_width(self, parts: RowParts) -> int:
        facts = 1 + len(parts.words)
        return self.size.width - facts if self.size.width - facts >= _LEAST else self.size.width

    def render_line(self, y: int) -> Strip:
        parts, width = self.parts, self.size.width
        lines = [] if parts is None else self._lines(parts)
        return Strip(lines[y] if y < len(lines) else []).adjust_cell_length(width, self.rich_style)

    def _lines(self, parts: RowParts) -> list[list[Segment]]:
        """Return the bar, the names of its parts or, without names, the facts if they have no room beside it, and
        how the loss mask differs from others, in two lines at most.
        """
        width = self.size.width
        found = [self._bar(parts)]
        if not parts.is_alone:
            found.append(self._names(parts))
        elif self._bar_width(parts) == width:
            found.append([Segment(shortened(parts.words, width), self.get_component_rich_style("strip--facts"))])
        words = [line.plain.rstrip() for line in Text(f"▲ {parts.odd}").wrap(self.app.console, max(8, width))]
        words = [words[0], shortened(" ".join(words[1:]), width)] if len(words) > 2 else words
        style = self.get_component_rich_style("strip--odd")
        return found + [[Segment(text, style)] for text in words if parts.odd]

    def _bar(self, parts: RowParts) -> list[Segment]:
        wide, current, out = self._bar_width(parts), self.current, list[Segment]()
        for one in bar_of(parts, wide):
            style = self.get_component_rich_style(f"strip--{'padding' if one.tone is None else one.tone}")
            is_current = one.part is not None and one.part == current
            out.append(Segment(one.text, style + Style(underline=True) if is_current else style))
        if wide < self.size.width:
            out.append(Segment(f" {parts.words}", self.get_component_rich_style("strip--facts")))
        return out

    def _labels(self, parts: RowParts) -> list[tuple[range, int]]:
        """Return the cells of the label of each part that has room; the current one always has."""
        wide, width, current = self._bar_width(parts), self.size.width, self.current
        wanted = [
            (k, one.start * wide // (parts.length or 1), cell_len(one.label)) for k, one in enumerate(parts.parts)
        ]
        found = list[tuple[range, int]]()
        kept = range(0)
        if current is not None:
            _, at, cells = wanted[current]
            at = max(0, min(at, width - cells))
            kept = range(at, min(width, at + cells))
            found.append((kept, current))
        free = 0
        for k, at, cells in wanted:
            taken = range(max(at, free), max(at, free) + cells)
            clear = not kept or taken.stop < kept.start or taken.start > kept.stop
            if k != current and at >= free and clear and taken.stop <= width:
                found.append((taken, k))
                free = taken.stop + 1
        return sorted(found, key=lambda one: one[0].start)

    def _names(self, parts: RowParts) -> list[Segment]:
        out, at = list[Segment](), 0
        for cells, part in self._labels(parts):
            out.append(Segment(" " * (cells.start - at), self.rich_style))
            style = self.get_component_rich_style(f"strip--{'current' if part == self.current else 'label'}")
            out.append(Segment(set_cell_size(printable(parts.parts[part].label), len(cells)), style))
            at = cells.stop
        return out


def _unit(cell: int, width: int, length: int) -> int:
    """Return the unit in the middle of a cell of the bar."""
    return (2 * cell + 1) * length // (2 * max(1, width))
