"""A scrollbar for rows beyond counting: positions are shares of the whole, so 2^60 rows scroll like ten."""

from __future__ import annotations

from textual import events
from textual.message import Message
from textual.scrollbar import ScrollBar, ScrollDown, ScrollUp

STEPS = 100_000


class Track(ScrollBar):
    """Shows which part of a whole is seen; posts where it was dragged to, and clicks beside its thumb."""

    class Dragged(Message):
        """To a share of what lies above the last screenful, 0 to 1."""

        def __init__(self, share: float) -> None:
            super().__init__()
            self.share = share

    class Paged(Message):
        """A page up (-1) or down (1)."""

        def __init__(self, pages: int) -> None:
            super().__init__()
            self.pages = pages

    def show(self, start: float, share: float) -> None:
        """Where the part that is seen starts, 0 (top) to 1 (bottom), and how much of the whole it is."""
        self.set_class(share >= 1, "whole")
        size = max(share, 1 / max(1, self.size.height))  # a thumb is never smaller than a cell
        self.window_virtual_size = STEPS
        self.window_size = min(STEPS - 1, round(size * STEPS))
        self.position = start * (STEPS - self.window_size)

    async def _on_mouse_move(self, event: events.MouseMove) -> None:
        event.prevent_default()
        event.stop()
        if self.grabbed is None:
            return
        room = STEPS - self.window_size
        cells = max(1e-6, self.size.height * room / STEPS)  # that the thumb can move
        moved = (event.screen_y - self.grabbed.y) / cells
        self.post_message(self.Dragged(min(1.0, max(0.0, self.grabbed_position / room + moved))))

    def on_scroll_up(self, message: ScrollUp) -> None:
        message.prevent_default()
        self.post_message(self.Paged(-1))

    def on_scroll_down(self, message: ScrollDown) -> None:
        message.prevent_default()
        self.post_message(self.Paged(1))
