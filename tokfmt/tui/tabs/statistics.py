"""What is in the dataset: counts, lengths, ids; at once what its index tells, then what a pass over all of it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, ItemGrid, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from tokfmt.tui.figures import pairs_of, rankings_of
from tokfmt.tui.session import Session
from tokfmt.tui.tabs.counting import Counting
from tokfmt.tui.widgets.bars import Bars
from tokfmt.tui.widgets.curve import Curve
from tokfmt.tui.widgets.ranking import Ranking

WIDE = 110
"""Columns from which the charts stand side by side."""


class StatisticsTab(Counting):
    """Facts, charts, rankings; scrolls where they do not fit."""

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self._filled: dict[str, Sequence[tuple[Any, Any]]] = {}

    def compose(self) -> ComposeResult:
        yield Static(id="counting", markup=False)
        with VerticalScroll(id="figures", can_focus=False):
            yield ItemGrid(id="pairs", min_column_width=34)
            with Container(id="charts"):
                yield Bars()
                yield Curve()
            yield ItemGrid(id="rankings", min_column_width=50)

    def show(self, session: Session) -> None:
        other = not hasattr(self, "session") or session is not self.session
        self.count(session, other=other)

    def enter(self) -> None:
        self.query_one(Bars).focus()

    # showing

    def show_figures(self) -> None:
        found, session = self.found, self.session
        self.say()
        counting = "counted by the pass over all tokens (c)" if self.job is None else "being counted"
        counting = "not counted" if self.failure else counting
        lengths = None if found is None else found.lengths
        self.query_one(Bars).show(lengths, counting)
        ids = None if found is None else found.ids
        told = "text has no ids without --tokenizer" if found is not None and found.text else counting
        self.query_one(Curve).show(None if ids is None else ids.frequencies, told)
        pairs = [] if found is None else pairs_of(found, session)
        self._fill("#pairs", pairs, lambda name, text: Static(Content.assemble((f"{name}  ", "$foreground 55%"), text)))
        lists = [] if found is None else rankings_of(found, session)
        self._fill("#rankings", lists, Ranking)

    def _fill(self, place: str, content: Sequence[tuple[Any, Any]], make: Callable[[Any, Any], Static]) -> None:
        """Put a widget for each pair into a grid, unless these are there."""
        grid = self.query_one(place)
        if self._filled.get(place, []) == content:
            return
        self._filled[place] = content
        with self.app.batch_update():
            grid.remove_children()
            grid.mount_all(make(*pair) for pair in content)

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "wide")

    @on(Bars.Chosen)
    def _chosen(self, message: Bars.Chosen) -> None:
        self.app.filter(f"{message.low}<=len<{message.high}")  # type: ignore[attr-defined]
