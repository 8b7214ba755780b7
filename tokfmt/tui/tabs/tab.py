"""What a tab is to the app."""

from __future__ import annotations

from textual.containers import Container
from textual.message import Message

from tokfmt.tui.session import Session


class Tab(Container):
    """A tab; `session` is the dataset it shows."""

    session: Session

    class Seen(Message):
        """There is something to see: paint."""

    def show(self, session: Session) -> None:
        """Show a dataset: another one, or the same after something of it was loaded (compare `generation`).

        Called on the thread of the screen, also while the tab is hidden; reads nothing.
        """
        self.session = session

    def enter(self) -> None:
        """The tab is shown: take the focus."""

    def reveal(self, position: int) -> None:
        """Go to a token position, if this tab shows tokens."""
