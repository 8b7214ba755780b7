"""What a tab is to the app."""

from __future__ import annotations

from pathlib import Path

from textual.containers import Container, Horizontal
from textual.message import Message

from tokfmt.tui.jobs import Job
from tokfmt.tui.session import Session, Where


class SideBySide(Horizontal):
    """Panes side by side."""

    BLANK = True  # covered by what it holds


class Tab(Container):
    """A tab; `session` is the dataset it shows."""

    BLANK = True  # covered by what it holds
    session: Session
    job: Job | None = None
    """Long work that the tab does, None when it does none."""

    class Seen(Message):
        """There is something to see: paint."""

    @property
    def idle(self) -> bool:
        """Nothing long is under way here that a picture should wait for."""
        return self.job is None

    def show(self, session: Session) -> None:
        """Show a dataset: another one, or the same after something of it was loaded (compare `generation`).

        Called on the thread of the screen, also while the tab is hidden; reads nothing.
        """
        self.session = session

    def enter(self) -> None:
        """The tab is shown: take the focus."""

    def reveal(self, position: int) -> None:
        """Go to a token position, if this tab shows tokens."""

    def go(self, where: Where) -> None:
        """Show a row, the cursor on a token of it, if this tab shows rows."""

    def reveal_bytes(self, path: Path, offset: int, length: int) -> None:
        """Go to bytes of a file, if this tab shows files."""
