"""A histogram of lengths; a bar can be chosen."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tokfmt.ops.stats.report import Lengths
from tokfmt.tui.charts import BarPlan, bar_cells, edge_labels, plan_bars
from tokfmt.tui.headings import short


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
        return Strip(segments).crop(0, width).extend_cell_length(width, self.rich_style)

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
        return f" {span}: {count:,} sequence{'' if count == 1 else 's'} ({share:.1%})"
