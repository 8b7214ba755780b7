"""The charts of the tab of statistics: a histogram with a cursor, and a curve of braille dots."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tokfmt.browser.widgets.row_view import DragsRange
from tokfmt.commands.stats.report import Frequencies, Lengths
from tokfmt.wording import counted, short

EIGHTHS = " ▁▂▃▄▅▆▇█"
_LEVELS = 8
_WIDEST = 12
# the bit of each dot in a braille cell, by column and row
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


@dataclass(frozen=True, slots=True)
class BarPlan:
    """The positions of bars.

    Attributes:
        axis: Cells before the first bar, for the numbers of the y axis.
        bar: Cells of a bar.
        gap: Cells between two bars.
        rows: Lines of the bars.
    """

    axis: int
    bar: int
    gap: int
    rows: int

    def left(self, number: int) -> int:
        """Return the first column of a bar."""
        return self.axis + number * (self.bar + self.gap)

    def at(self, column: int, count: int) -> int | None:
        """Return the bar at a column, if any."""
        number = (column - self.axis) // (self.bar + self.gap)
        return number if column >= self.axis and number < count else None


def plan_bars(count: int, largest: int, width: int, height: int) -> BarPlan:
    """Place bars in a width and a height, of which two lines are for the x axis.

    Args:
        count: Number of bars, at least one.
        largest: The largest count, for the numbers of the y axis.
        width: Cells.
        height: Lines.
    """
    axis = len(short(largest)) + 2
    each = max(1, (width - axis) // max(1, count))
    gap = 1 if each >= 3 else 0
    return BarPlan(axis, min(_WIDEST, each - gap), gap, max(1, height - 2))


def bar_cells(count: int, largest: int, rows: int) -> str:
    """Return a bar from top to bottom, one character per row; a count above 0 is always visible."""
    eighths = round(count * rows * _LEVELS / largest) if largest else 0
    eighths = max(1, eighths) if count else 0
    cells = [EIGHTHS[max(0, min(_LEVELS, eighths - row * _LEVELS))] for row in range(rows)]
    return "".join(reversed(cells))


def edge_labels(plan: BarPlan, edges: Sequence[int], width: int) -> str:
    """Return the line with the edges of bins below their left borders, as many as fit."""
    line, end = [" "] * width, 0
    for number, edge in enumerate(edges):
        text, left = short(edge), plan.left(number) - (plan.gap if number else 0)
        if left >= end and left + len(text) <= width:
            line[left : left + len(text)] = text
            end = left + len(text) + 2
    return "".join(line)


@dataclass(frozen=True, slots=True)
class Scatter:
    """Points on logarithmic axes, as lines of braille characters.

    Attributes:
        lines: The lines from top to bottom.
        rows: Line of each power of ten on the y axis.
        columns: Column of each power of ten on the x axis.
    """

    lines: list[str]
    rows: dict[int, int]
    columns: dict[int, int]


def scatter(xs: Sequence[int], ys: Sequence[int], width: int, height: int) -> Scatter:
    """Plot points with positive x and y on axes from 1 to the largest value, in `width` by `height` cells."""
    right, top = math.log10(max(10, *xs, 10)), math.log10(max(10, *ys, 10))
    cells = [[0] * width for _ in range(height)]
    for x, y in zip(xs, ys, strict=True):
        if x < 1 or y < 1:
            continue
        column = round(math.log10(x) / right * (2 * width - 1))
        row = round((1 - math.log10(y) / top) * (4 * height - 1))
        cells[row // 4][column // 2] |= _DOTS[column % 2][row % 4]
    lines = ["".join(chr(0x2800 + cell) if cell else " " for cell in line) for line in cells]
    rows = {power: round((1 - power / top) * (4 * height - 1)) // 4 for power in range(math.floor(top) + 1)}
    columns = {power: round(power / right * (2 * width - 1)) // 2 for power in range(math.floor(right) + 1)}
    return Scatter(lines, rows, columns)


def power_text(power: int) -> str:
    """Return 10^power in short: 1, 10, 100, 1k, 10k, 100k, 1M."""
    name, digits = ("", "k", "M", "G", "T", "P", "E")[power // 3], "1" + "0" * (power % 3)
    return digits + name


class Bars(DragsRange):
    """A histogram with a cursor."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"bars--{part}" for part in ("bar", "cursor", "cursor-blurred", "axis", "caption", "none")
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "by(-1)", "Shorter", system=True),
        Binding("right,l", "by(1)", "Longer", system=True),
        Binding("home,g", "to(0)", "Shortest", system=True),
        Binding("end,G", "to(-1)", "Longest", system=True),
        Binding("shift+left", "extend(-1)", "Choose a range", system=True),
        Binding("shift+right", "extend(1)", "Choose a range", system=True),
        Binding("enter", "choose", "List"),
    ]

    class Chosen(Message):
        """The user wants the rows of one or several bars: `low <= length < high`."""

        def __init__(self, low: int, high: int) -> None:
            super().__init__()
            self.low, self.high = low, high

    def __init__(self) -> None:
        super().__init__(id="bars")
        self.lengths: Lengths | None = None
        self.nothing, self.row_name = "", "sequence"
        self.cursor = 0
        self.range_from: int | None = None  # the other end of a chosen range

    def show(self, lengths: Lengths | None, nothing: str = "", row_name: str = "sequence") -> None:
        """Show the lengths of rows, or the text `nothing` for an empty dataset."""
        known = lengths is not None and self.lengths is not None and self.lengths.histogram == lengths.histogram
        self.lengths, self.nothing, self.row_name = lengths, nothing, row_name
        if lengths is not None and not known:
            counts = lengths.histogram.counts
            self.cursor, self.range_from = counts.index(max(counts)), None
        of = " of samples" if row_name == "sample" else ""
        self.border_title = f"lengths{of}" + ("" if lengths is None else f", {lengths.unit}")
        self._settle()

    @property
    def count(self) -> int:
        """Return the number of bars."""
        return len(self.lengths.histogram.counts) if self.lengths else 0

    @property
    def plan(self) -> BarPlan:
        """Return the positions of the bars; the last line is for the caption."""
        largest = max(self.lengths.histogram.counts) if self.lengths else 0
        return plan_bars(self.count, largest, self.size.width, self.size.height - 1)

    def _settle(self) -> None:
        if self.lengths is not None:
            self.border_subtitle = self.lengths.histogram.scale.replace("log", "logarithmic") + " bins"
        self.refresh()

    def action_by(self, count: int) -> None:
        self.point_at(self.cursor + count)

    def action_to(self, number: int) -> None:
        self.point_at(number if number >= 0 else self.count - 1)

    def action_extend(self, count: int) -> None:
        self.point_at(self.cursor + count, extend=True)

    def point_at(self, number: int, *, extend: bool = False) -> None:
        """Put the cursor on a bar; with `extend`, choose all bars from where it was, too."""
        self.range_from = (self.cursor if self.range_from is None else self.range_from) if extend else None
        self.cursor = max(0, min(number, self.count - 1))
        self._settle()

    @property
    def chosen(self) -> range:
        """Return the chosen bars: that of the cursor, or a range."""
        other = self.cursor if self.range_from is None else self.range_from
        return range(min(self.cursor, other), max(self.cursor, other) + 1)

    def action_choose(self) -> None:
        if self.lengths is not None:
            edges, chosen = self.lengths.histogram.edges, self.chosen
            self.post_message(self.Chosen(edges[chosen.start], edges[chosen.stop]))

    def number_at(self, event: events.MouseEvent) -> int | None:
        plan = self.plan
        at = max(plan.axis, event.get_content_offset_capture(self).x)
        return min(plan.at(at, 1 << 20) or 0, self.count - 1) if self.count else None

    def choose_range(self, begun: int, end: int) -> None:
        self.range_from, self.cursor = begun, end
        self._settle()

    def on_click(self, event: events.Click) -> None:
        inside = event.get_content_offset(self)
        number = self.plan.at(inside.x, self.count) if inside is not None else None
        if number is not None and not self._dragged:
            self.point_at(number, extend=event.shift)
            if event.chain > 1:
                self.action_choose()

    def records(self) -> Iterator[dict[str, object]]:
        """Return the chosen bars for an export; all of them without a chosen range."""
        if self.lengths is None:
            return iter(())
        edges, counts = self.lengths.histogram.edges, self.lengths.histogram.counts
        bars = range(self.count) if self.range_from is None else self.chosen
        return ({"low": edges[k], "high": edges[k + 1], f"{self.row_name}s": counts[k]} for k in bars)

    # drawing

    def render_line(self, y: int) -> Strip:
        width, height, plan = self.size.width, self.size.height, self.plan
        if self.lengths is None:
            segments = [self._segment(f" {self.nothing}" if y == height // 2 else "", "none")]
        elif y == height - 1:
            segments = [self._segment(self._caption(), "caption")]
        elif y == plan.rows + 1:
            segments = [self._segment(edge_labels(plan, self.lengths.histogram.edges, width), "axis")]
        elif y == plan.rows:
            segments = [self._segment(f"{'0 └':>{plan.axis + 1}}".ljust(width, "─"), "axis")]
        else:
            segments = self._row(plan, y)
        return Strip(segments).crop(0, width)

    def _segment(self, text: str, *kinds: str) -> Segment:
        return Segment(text, self.get_component_rich_style(*(f"bars--{kind}" for kind in kinds)))

    def _row(self, plan: BarPlan, y: int) -> list[Segment]:
        counts = self.lengths.histogram.counts if self.lengths else []
        largest = max(counts)
        label = short(largest) if y == 0 else short(largest // 2) if plan.rows > 4 and y == plan.rows // 2 else ""
        segments = [self._segment(f"{label:>{plan.axis - 2}} │", "axis")]
        cursor, chosen = "cursor" if self.has_focus else "cursor-blurred", self.chosen
        for number, count in enumerate(counts):
            cell = bar_cells(count, largest, plan.rows)[y]
            kinds = ["bar", cursor] if number in chosen else ["bar"]
            segments += [self._segment(cell * plan.bar, *kinds), self._segment(" " * plan.gap, "axis")]
        return segments

    def _caption(self) -> str:
        if self.lengths is None:
            return ""
        edges, counts = self.lengths.histogram.edges, self.lengths.histogram.counts
        chosen = self.chosen
        low, high, count = edges[chosen.start], edges[chosen.stop], sum(counts[chosen.start : chosen.stop])
        span = f"length {low:,}" if high == low + 1 else f"{low:,} ≤ length < {high:,}"
        share = count / max(1, sum(counts))
        return f" {span}: {counted(count, self.row_name)} ({share:.1%})"


_AXIS = 6


class Curve(Widget):
    """The plot of frequency over rank, which is a straight line for natural text."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"curve--{part}" for part in ("point", "axis", "none")}

    class Chosen(Message):
        """The user wants the IDs at a rank, from 1."""

        def __init__(self, rank: int) -> None:
            super().__init__()
            self.rank = rank

    def __init__(self) -> None:
        super().__init__(id="curve")
        self._frequencies: Frequencies | None = None
        self._nothing = ""
        self._drawn: Scatter | None = None

    def show(self, frequencies: Frequencies | None, nothing: str = "") -> None:
        """Show the curve, or the text `nothing` without a curve."""
        self._frequencies, self._nothing = frequencies, nothing
        self.border_title = "frequency of IDs by rank"
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def on_click(self, event: events.Click) -> None:
        inside, known = event.get_content_offset(self), self._frequencies
        if inside is not None and self._drawn is not None and known is not None and inside.x >= _AXIS:
            last = max(known.rank)
            share = (inside.x - _AXIS) / max(1, self.size.width - _AXIS - 1)
            self.post_message(self.Chosen(min(last, round(max(10, last) ** share))))

    def _draw(self) -> None:
        known = self._frequencies
        self._drawn = None
        if known is not None and known.rank and self.size.width > _AXIS + 4 and self.size.height > 3:
            self._drawn = scatter(known.rank, known.count, self.size.width - _AXIS, self.size.height - 2)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        drawn, width, height = self._drawn, self.size.width, self.size.height
        if drawn is None:
            segments = [self._segment(f" {self._nothing}" if y == height // 2 else "", "none")]
        elif y == len(drawn.lines):
            segments = [self._segment(f"{'└':>{_AXIS}}".ljust(width, "─"), "axis")]
        elif y > len(drawn.lines):
            segments = [self._segment(_labels(drawn, width), "axis")]
        else:
            labels = {row: power_text(power) for power, row in drawn.rows.items()}
            segments = [self._segment(f"{labels.get(y, ''):>{_AXIS - 2}} │", "axis")]
            segments.append(self._segment(drawn.lines[y], "point"))
        return Strip(segments).crop(0, width)

    def _segment(self, text: str, kind: str) -> Segment:
        return Segment(text, self.get_component_rich_style(f"curve--{kind}"))


def _labels(drawn: Scatter, width: int) -> str:
    line, end = [" "] * width, 0
    for power, column in drawn.columns.items():
        text, left = power_text(power), min(_AXIS + column, width - 4)
        if left >= end:
            line[left : left + len(text)] = text
            end = left + len(text) + 1
    return "".join(line[:width])
