"""How often ids occur, over their rank, on logarithmic axes."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from tokfmt.ops.stats.report import Frequencies
from tokfmt.tui.charts import Scatter, power_text, scatter

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
        return Strip(segments).crop(0, width).extend_cell_length(width, self.rich_style)

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
