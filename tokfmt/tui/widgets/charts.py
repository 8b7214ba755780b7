"""Charts of characters: a histogram whose bars can be chosen, a curve of points in braille, a ranking."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import set_cell_size
from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from tokfmt.core.text_format import bar, counted, short
from tokfmt.ops.stats.report import Frequencies, Lengths

EIGHTHS = " ▁▂▃▄▅▆▇█"
_LEVELS = 8
_WIDEST = 12
# dots of a braille cell, by column and row
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


@dataclass(frozen=True, slots=True)
class BarPlan:
    """Where bars stand.

    Attributes:
        axis: Cells left of the first bar, for the numbers of the y axis.
        bar, gap: Cells of a bar, and between two.
        rows: Lines for bars.
    """

    axis: int
    bar: int
    gap: int
    rows: int

    def left(self, number: int) -> int:
        """First column of a bar."""
        return self.axis + number * (self.bar + self.gap)

    def at(self, column: int, count: int) -> int | None:
        """The bar at a column."""
        number = (column - self.axis) // (self.bar + self.gap)
        return number if column >= self.axis and number < count else None


def plan_bars(count: int, most: int, width: int, height: int) -> BarPlan:
    """Place bars in a width and height; two lines are for the x axis.

    Args:
        count: Bars, at least one.
        most: The largest count, for the numbers beside them.
    """
    axis = len(short(most)) + 2
    each = max(1, (width - axis) // max(1, count))
    gap = 1 if each >= 3 else 0
    return BarPlan(axis, min(_WIDEST, each - gap), gap, max(1, height - 2))


def bar_cells(count: int, most: int, rows: int) -> str:
    """A bar from top to bottom, a character a row; what is not nothing is seen."""
    eighths = round(count * rows * _LEVELS / most) if most else 0
    eighths = max(1, eighths) if count else 0
    cells = [EIGHTHS[max(0, min(_LEVELS, eighths - row * _LEVELS))] for row in range(rows)]
    return "".join(reversed(cells))


def edge_labels(plan: BarPlan, edges: Sequence[int], width: int) -> str:
    """The edges of bins beneath their left borders, as many as have room."""
    line, end = [" "] * width, 0
    for number, edge in enumerate(edges):
        text, left = short(edge), plan.left(number) - (plan.gap if number else 0)
        if left >= end and left + len(text) <= width:
            line[left : left + len(text)] = text
            end = left + len(text) + 2
    return "".join(line)


@dataclass(frozen=True, slots=True)
class Scatter:
    """Points on axes of logarithms: lines of braille, and where powers of ten are.

    Attributes:
        lines: From top to bottom.
        rows: Line of each power of ten of y. columns: Column of each of x.
    """

    lines: list[str]
    rows: dict[int, int]
    columns: dict[int, int]


def scatter(xs: Sequence[int], ys: Sequence[int], width: int, height: int) -> Scatter:
    """Points of positive x and y, from 1 to the largest of each, in so many cells."""
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
    """10^power in short: 1, 10, 100, 1k, 10k ... 1M."""
    name, digits = ("", "k", "M", "G", "T", "P", "E")[power // 3], "1" + "0" * (power % 3)
    return digits + name


class Bars(Widget, can_focus=True):
    """Bars of a histogram, in any size."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"bars--{part}" for part in ("bar", "cursor", "cursor-blurred", "axis", "caption", "none")
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "by(-1)", "Shorter", show=False),
        Binding("right", "by(1)", "Longer", show=False),
        Binding("home", "to(0)", "Shortest", show=False),
        Binding("end", "to(-1)", "Longest", show=False),
        Binding("enter", "choose", "List these"),
    ]

    class Chosen(Message):
        """Somebody wants the sequences of a bar: `low <= length < high`."""

        def __init__(self, low: int, high: int) -> None:
            super().__init__()
            self.low, self.high = low, high

    def __init__(self) -> None:
        super().__init__(id="bars")
        self.lengths: Lengths | None = None
        self.nothing = ""
        self.cursor = 0

    def show(self, lengths: Lengths | None, nothing: str = "") -> None:
        """Show lengths, or say why there are none."""
        known = lengths is not None and self.lengths is not None and self.lengths.histogram == lengths.histogram
        self.lengths, self.nothing = lengths, nothing
        if lengths is not None and not known:
            counts = lengths.histogram.counts
            self.cursor = counts.index(max(counts))
        self.border_title = "lengths" if lengths is None else f"lengths, {lengths.unit}"
        self._settle()

    @property
    def count(self) -> int:
        """Bars there are."""
        return len(self.lengths.histogram.counts) if self.lengths else 0

    @property
    def plan(self) -> BarPlan:
        """Where they stand now; the last line is the caption's."""
        most = max(self.lengths.histogram.counts) if self.lengths else 0
        return plan_bars(self.count, most, self.size.width, self.size.height - 1)

    def _settle(self) -> None:
        if self.lengths is not None:
            self.border_subtitle = self.lengths.histogram.scale.replace("log", "logarithmic") + " bins"
        self.refresh()

    def action_by(self, count: int) -> None:
        self.point_at(self.cursor + count)

    def action_to(self, number: int) -> None:
        self.point_at(number if number >= 0 else self.count - 1)

    def point_at(self, number: int) -> None:
        """Put the cursor on a bar."""
        self.cursor = max(0, min(number, self.count - 1))
        self._settle()

    def action_choose(self) -> None:
        if self.lengths is not None:
            edges = self.lengths.histogram.edges
            self.post_message(self.Chosen(edges[self.cursor], edges[self.cursor + 1]))

    def on_click(self, event: events.Click) -> None:
        inside = event.get_content_offset(self)
        number = self.plan.at(inside.x, self.count) if inside is not None else None
        if number is not None:
            self.point_at(number)
            if event.chain > 1:
                self.action_choose()

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
        most = max(counts)
        label = short(most) if y == 0 else short(most // 2) if plan.rows > 4 and y == plan.rows // 2 else ""
        segments = [self._segment(f"{label:>{plan.axis - 2}} │", "axis")]
        cursor = "cursor" if self.has_focus else "cursor-blurred"
        for number, count in enumerate(counts):
            cell = bar_cells(count, most, plan.rows)[y]
            kinds = ["bar", cursor] if number == self.cursor else ["bar"]
            segments += [self._segment(cell * plan.bar, *kinds), self._segment(" " * plan.gap, "axis")]
        return segments

    def _caption(self) -> str:
        if self.lengths is None:
            return ""
        edges, counts = self.lengths.histogram.edges, self.lengths.histogram.counts
        low, high, count = edges[self.cursor], edges[self.cursor + 1], counts[self.cursor]
        span = f"length {low:,}" if high == low + 1 else f"{low:,} ≤ length < {high:,}"
        share = count / max(1, sum(counts))
        return f" {span}: {counted(count, 'sequence')} ({share:.1%})"


_AXIS = 6


class Curve(Widget):
    """Points of the curve; a straight line is what natural text has."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"curve--{part}" for part in ("point", "axis", "none")}

    def __init__(self) -> None:
        super().__init__(id="curve")
        self._frequencies: Frequencies | None = None
        self._nothing = ""
        self._drawn: Scatter | None = None

    def show(self, frequencies: Frequencies | None, nothing: str = "") -> None:
        """Show the curve, or say why there is none."""
        self._frequencies, self._nothing = frequencies, nothing
        self.border_title = "how often ids occur, by rank"
        self._draw()

    def on_resize(self) -> None:
        self._draw()

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


_BAR = 8


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a ranking: an id or a sequence, how often, its share of all, what it stands for."""

    name: str
    count: int
    share: float
    text: str


class Ranking(Static):
    """Lines of name, count, share and text."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"ranking--{part}" for part in ("name", "count", "bar", "text")}

    def __init__(self, title: str, lines: Sequence[Line]) -> None:
        super().__init__(classes="ranking")
        self.border_title, self._lines = title, lines

    def render(self) -> Content:
        lines = self._lines
        name = max((len(line.name) for line in lines), default=0)
        most = max((line.share for line in lines), default=0) or 1
        alike = len({line.count for line in lines}) == 1 < len(lines)  # then bars say nothing
        rows = []
        for line in lines:
            cells = [
                (f"{line.name:>{name}} ", "name"),
                (f"{short(line.count):>7} {_percent(line.share):>6} ", "count"),
                (set_cell_size("" if alike else bar(line.share / most, _BAR), 0 if alike else _BAR), "bar"),
                (f" “{line.text}”" if line.text else "", "text"),
            ]
            rows.append(Content("").join(self._styled(text, kind) for text, kind in cells))
        return Content("\n").join(rows)

    def _styled(self, text: str, kind: str) -> Content:
        return Content.styled(text, self.get_visual_style(f"ranking--{kind}", partial=True))


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.001 or not share else "<0.1%"
