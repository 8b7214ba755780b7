"""The columns of the list of sequences beside its own, and the column that orders it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tokfmt.browser.data.session import Session
from tokfmt.browser.data.state import recall, remember_later
from tokfmt.browser.tabs.base import Tab
from tokfmt.browser.widgets.sequence_list import SIGNS, SequenceList
from tokfmt.browser.work import Work
from tokfmt.wording import printable

if TYPE_CHECKING:
    from tokfmt.browser.data.columns import RowColumn


def columns_shown(session: Session) -> tuple[list[RowColumn], Sequence[str]]:
    """Return the columns of a dataset, and the names of those to show. Reads."""
    from tokfmt.browser.data.columns import columns_of

    found, names = columns_of(session), recall(session.path).get("columns")
    if isinstance(names, list):
        return found, [name for name in names if isinstance(name, str)]
    fill = any(one.name == "fill" for one in found)
    return found, ["fill", "source"] if fill else ["padding"]


class ListOrder:
    """The columns and the order of the list of a tab.

    Attributes:
        by: The column that orders the list, and whether its values fall; None for the stored order.
    """

    def __init__(
        self,
        tab: Tab,
        rows: Callable[[], NDArray[np.int64] | None],
        retitle: Callable[[], None],
        relist: Callable[[], None],
    ) -> None:
        """Begin without columns, in the stored order.

        Args:
            tab: The tab, which has a `SequenceList`.
            rows: Returns the rows that the filter leaves; None without a filter.
            retitle: Shows `words` in the title of the list.
            relist: Lists the rows in the stored order.
        """
        self.by: tuple[str, bool] | None = None
        self._tab, self._rows, self._retitle, self._relist = tab, rows, retitle, relist
        self._columns: Sequence[RowColumn] = ()  # all that the format has
        self._work = Work(tab)

    @property
    def _list(self) -> SequenceList:
        return self._tab.query_one(SequenceList)

    @property
    def idle(self) -> bool:
        """Return whether no column is being read for an order."""
        return not self._work

    def forget(self) -> None:
        """Drop the columns and the order of another view."""
        self.cancel()
        self._columns, self.by, self._list.others = (), None, ()
        self._list.more.forget()

    def show(self, found: Sequence[RowColumn], names: Sequence[str]) -> None:
        """Take the columns of the view, and show those with the names."""
        self._columns = found
        self._list.others = [one for one in found if one.name in names]
        self._list.fetch()
        self._list.refresh()

    async def ask(self) -> None:
        """Ask which columns to show, and which one orders the list."""
        from tokfmt.browser.dialogs import ColumnList

        shown, fixed = {one.name for one in self._list.others}, ["#", "length"]
        names = [*fixed, *(one.name for one in self._columns)]
        by, falling = self.by or ("#", False)

        def closed(name: str | None) -> None:
            self.show(self._columns, sorted(shown))
            remember_later(self._tab.session.path, columns=sorted(shown))
            if name is not None:
                self.choose(name)

        await self._tab.app.push_screen(ColumnList(names, shown, fixed, (by, SIGNS[falling])), closed)

    def choose(self, name: str) -> None:
        """Order the list by a column, or in the other direction if it is in that order; "#" is the stored order."""
        if name in ("#", "position"):
            self.cancel()
            self.by = None
            self._relist()
            return
        words = any(one.name == name and not one.numeric for one in self._columns)
        self.by = name, (not self.by[1] if self.by is not None and self.by[0] == name else not words)
        self.apply(to_top=True)

    def apply(self, *, to_top: bool = False) -> None:
        """Read the column of the order, and list the rows in that order; nothing happens in the stored order.

        Args:
            to_top: Put the cursor on the first row.
        """
        from tokfmt.browser.data.columns import Order, order_of

        self.cancel()
        if self.by is None:
            return
        name, falling = self.by
        tab, listed, session = self._tab, self._list, self._tab.session
        column = next((one for one in self._columns if one.name == name), None)
        if not session.port.whole:
            self.by = None
            tab.notify(f"The {session.view.name} are still being counted.", severity="warning")
            return
        rows = self._rows()

        def done(outcome: object) -> None:
            if isinstance(outcome, Order):
                listed.restrict(rows, outcome)
                if to_top:
                    listed.choose(0)
                if len(outcome.rows) < outcome.total:
                    tab.notify(f"The first {len(outcome.rows):,} by {name} are listed, of {outcome.total:,}.")
            else:
                self.by = None
                tab.notify(str(outcome), severity="error", markup=False)
            self._retitle()

        self._work.begin("", lambda job: order_of(session, column, rows, job, falling=falling), done, self._retitle)
        self._retitle()

    def cancel(self) -> bool:
        """End the reading of a column; return whether one was read."""
        return self._work.cancel()

    def stop(self) -> bool:
        """End the reading of a column, and keep the order that is listed; return whether one was read."""
        running, order = self.cancel(), self._list.order
        if running:
            self.by = None if order is None else (order.name, order.falling)
        return running

    def words(self) -> str:
        """Return the words about the order, for the title of the list."""
        job, order = self._work.get(""), self._list.order
        if job is not None:
            return f" · ◌ sorting {job.share or 0:.0%} · esc stops"
        return "" if order is None else f" · by {printable(order.name)} {SIGNS[order.falling]}"
