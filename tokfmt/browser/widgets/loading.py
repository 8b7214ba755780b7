"""Widgets that read beside the screen, each with a loader of what it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.scrollbar import ScrollDown, ScrollUp
from textual.widget import Widget

from tokfmt.browser.work import Loader


class WithLoader(Widget):
    """A widget with a loader, for widgets that read."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.loader = Loader(self)
        self.leaving: Callable[[], object] = lambda: None  # called before a key goes to an end, for the way back

    def on_unmount(self) -> None:
        self.loader.forget()

    def action_pages(self, pages: int) -> None:
        """Move by a number of screens."""

    def on_scroll_down(self, message: ScrollDown) -> None:
        """Go one screen down after a click below the thumb of the scrollbar."""
        message.prevent_default().stop()
        self.action_pages(1)

    def on_scroll_up(self, message: ScrollUp) -> None:
        message.prevent_default().stop()
        self.action_pages(-1)
