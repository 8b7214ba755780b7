"""What the parts of a tab that shows rows know of each other."""

from __future__ import annotations

from collections.abc import Callable

from tokfmt.tui.session import Where
from tokfmt.tui.tabs.tab import Tab
from tokfmt.tui.widgets.reader import Reader
from tokfmt.tui.widgets.sequences import SequenceList


class RowsTab(Tab):
    """A tab with a list of rows beside a reader of one of them; the parts of its behaviour are mixed in."""

    @property
    def list(self) -> SequenceList:
        """The rows."""
        raise NotImplementedError

    @property
    def reader(self) -> Reader:
        """The row that is shown."""
        raise NotImplementedError

    @property
    def where(self) -> Where:
        """The row that is shown, and the token under the cursor."""
        raise NotImplementedError

    def ask_where(self, find: Callable[[], Where | None]) -> None:
        """Go to what `find` finds, on a worker."""
        raise NotImplementedError
