"""The order of the list of sequences by length, or by bytes of text per token."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tokfmt.browser.tabs.base import Tab
from tokfmt.browser.widgets.sequence_list import SIGNS, SequenceList
from tokfmt.browser.work import Work


class ListOrder:
    """The order of the list of a tab."""

    def __init__(
        self,
        tab: Tab,
        rows: Callable[[], NDArray[np.int64] | None],
        retitle: Callable[[], None],
        relist: Callable[[], None],
    ) -> None:
        """Begin in the stored order, in which `relist` lists the rows that the filter leaves, which `rows` returns."""
        self.by: tuple[str, bool] | None = None  # the column, and whether it falls; None for the stored order
        self._tab, self._rows, self._retitle, self._relist = tab, rows, retitle, relist
        self._work = Work(tab)

    @property
    def _list(self) -> SequenceList:
        return self._tab.query_one(SequenceList)

    @property
    def idle(self) -> bool:
        """Return whether no lengths are being read for an order."""
        return not self._work

    def forget(self) -> None:
        """Drop the order of another view."""
        self.cancel()
        self.by = None

    def turn(self, name: str = "") -> None:
        """List the rows in the next order of a column, or of all columns, or after the last one as they are stored."""
        from tokfmt.browser.data.columns import DENSITY

        orders = [("length", True), ("length", False)]
        orders += [(one.name, falling) for one in self._list.others if one.name == DENSITY for falling in (False, True)]
        orders = [one for one in orders if name in ("", one[0])]
        last = orders.index(self.by) if self.by in orders else -1
        if last + 1 == len(orders):
            self.as_stored()
        else:
            self.by = orders[last + 1]
            self.apply(to_top=True)

    def as_stored(self) -> None:
        """List the rows in the stored order."""
        self.forget()
        self._relist()

    def apply(self, *, to_top: bool = False) -> None:
        """Read the column, and list the rows in its order; nothing happens in the stored order."""
        from tokfmt.browser.data.columns import Order, order_of

        self.cancel()
        if self.by is None:
            return
        (name, falling), tab, listed, session = self.by, self._tab, self._list, self._tab.session
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

        self._work.begin("", lambda job: order_of(session, rows, job, name, falling=falling), done, self._retitle)
        self._retitle()

    def cancel(self) -> bool:
        """End the reading of lengths; return whether they were being read."""
        return self._work.cancel()

    def stop(self) -> bool:
        """End the reading of lengths, and keep the order that is listed; return whether they were being read."""
        running, order = self.cancel(), self._list.order
        if running:
            self.by = None if order is None else (order.name, order.falling)
        return running

    def words(self) -> str:
        """Return the words about the order, for the title of the list."""
        job, order = self._work.get(""), self._list.order
        if job is not None:
            return f" · ◌ sorting {job.share or 0:.0%} · esc stops"
        return "" if order is None else f" · by {order.name} {SIGNS[order.falling]}"
