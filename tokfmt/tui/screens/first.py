"""The screen of the browser: nothing is painted before there is something to see."""

from __future__ import annotations

from textual import events
from textual.screen import Screen

PATIENCE = 0.1
"""Seconds after which the frame is painted without content: a disk may be slow."""


class First(Screen[None]):
    """Held until `show`: starting would paint four times, the frames, the lines, the reader, the facts."""

    BLANK = True  # covered by what it holds; lines of a background would be drawn, and cut where that begins

    def __init__(self) -> None:
        super().__init__(id="_default")
        self.held = True

    def on_mount(self) -> None:
        self.set_timer(PATIENCE, self.show)

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.ScreenResume) and self.held:
            event.refresh_styles = False  # each widget got its styles when it was mounted
        await super().on_event(event)

    def show(self) -> None:
        """Paint from now on."""
        if self.held:
            self.held = False
            self.refresh()

    def _compositor_refresh(self) -> None:
        """Textual's; should it get another name, starting only takes longer."""
        if not self.held:
            super()._compositor_refresh()
