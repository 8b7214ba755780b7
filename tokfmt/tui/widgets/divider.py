"""The border between two panes, which can be dragged."""

from __future__ import annotations

from textual import events
from textual.message import Message
from textual.widget import Widget


class Divider(Widget):
    """Posts where it is dragged to."""

    BLANK = True

    class Dragged(Message):
        """To this column of the screen."""

        def __init__(self, column: int) -> None:
            super().__init__()
            self.column = column

    def on_mouse_down(self, event: events.MouseDown) -> None:
        event.stop()
        self.capture_mouse()
        self.add_class("held")

    def on_mouse_up(self, event: events.MouseUp) -> None:
        event.stop()
        self.release_mouse()
        self.remove_class("held")

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.has_class("held"):
            event.stop()
            self.post_message(self.Dragged(event.screen_x))
