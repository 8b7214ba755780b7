"""Charts of characters: bars in eighths of a cell, points in braille. Nothing here knows a screen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tokfmt.tui.headings import short

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


def share_bar(share: float, cells: int) -> str:
    """A share of 1 as a bar from left to right, so many cells at most."""
    eighths = max(1 if share else 0, round(share * cells * _LEVELS))
    full, rest = divmod(eighths, _LEVELS)
    return ("█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else ""))[:cells]


def power_text(power: int) -> str:
    """10^power in short: 1, 10, 100, 1k, 10k ... 1M."""
    name, digits = ("", "k", "M", "G", "T", "P", "E")[power // 3], "1" + "0" * (power % 3)
    return digits + name
