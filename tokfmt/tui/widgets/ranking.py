"""A headed list of what is most or least: ids, first tokens, sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import set_cell_size
from textual.content import Content
from textual.widgets import Static

from tokfmt.tui.charts import share_bar
from tokfmt.tui.figures import Line
from tokfmt.tui.headings import short

_BAR = 8


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
                (set_cell_size("" if alike else share_bar(line.share / most, _BAR), 0 if alike else _BAR), "bar"),
                (f" {line.text}", "text"),
            ]
            rows.append(Content("").join(self._styled(text, kind) for text, kind in cells))
        return Content("\n").join(rows)

    def _styled(self, text: str, kind: str) -> Content:
        return Content.styled(text, self.get_visual_style(f"ranking--{kind}", partial=True))


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.001 or not share else "<0.1%"
