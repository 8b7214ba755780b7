"""What the list and the reader share: lines drawn one by one, a track beside them, a thread that loads for them."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.geometry import Region
from textual.strip import Strip

from tokfmt.tui.widgets.desked import Desked
from tokfmt.tui.widgets.track import Track


class Roller(Desked, can_focus=True):
    """A widget of lines without end. Subclasses draw them from what is cached, and ask for the rest."""

    _blank: Style

    def compose(self) -> ComposeResult:
        yield Track()

    @property
    def columns(self) -> int:
        """Cells of a line, the track aside."""
        return max(1, self.size.width - 1)

    def page(self, pages: int) -> None:
        """Move by screenfuls."""
        raise NotImplementedError

    def roll(self, lines: int) -> None:
        """Scroll; the cursor stays where it is."""
        raise NotImplementedError

    def drag(self, share: float) -> None:
        """Scroll to a share of the whole."""
        raise NotImplementedError

    def on_track_paged(self, message: Track.Paged) -> None:
        message.stop()
        self.page(message.pages)

    def on_track_dragged(self, message: Track.Dragged) -> None:
        message.stop()
        self.drag(message.share)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.roll(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.roll(-3)

    def render_lines(self, crop: Region) -> list[Strip]:
        self._blank = self.rich_style  # every widget around this one is asked for it, so once for all lines
        return super().render_lines(crop)

    def strip(self, segments: list[Segment], left: int = 0) -> Strip:
        """Segments as a whole line of this widget, from column `left` on."""
        strip = Strip(segments).crop(left, left + self.columns)
        return strip.extend_cell_length(self.size.width, self._blank)
