"""The last line: which keys work here. Drawn at once; Textual's footer mounts a widget for each key, three times."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.binding import ActiveBinding, Binding
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget


class Keys(Widget):
    """Shows the bindings that are active and meant to be shown, as many as fit; a click presses the key."""

    ALLOW_SELECT: ClassVar[bool] = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"keys--key", "keys--description"}

    def __init__(self) -> None:
        super().__init__(id="keys")
        self._shown: list[Binding] = []
        self._palette: Binding | None = None
        self._places: list[tuple[range, Binding]] = []

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._changed)
        self._changed(self.screen)

    def _changed(self, screen: Screen[object]) -> None:
        active = screen.active_bindings
        shown = _once([one for one in active.values() if one.binding.show])
        palette = active.get(self.app.COMMAND_PALETTE_BINDING) if self.app.ENABLE_COMMAND_PALETTE else None
        if (shown, palette and palette.binding) != (self._shown, self._palette):
            self._shown, self._palette = shown, palette.binding if palette else None
            self.refresh()

    def render_line(self, y: int) -> Strip:  # noqa: ARG002 - there is one
        style, width = self.rich_style, self.size.width
        last = self._label(self._palette) if self._palette else []
        room = width - sum(segment.cell_length for segment in last)
        at, segments, self._places = 0, list[Segment](), []
        for binding in self._shown:
            label = self._label(binding)
            cells = sum(segment.cell_length for segment in label)
            if at + cells > room:
                break
            self._places.append((range(at, at + cells), binding))
            segments += [*label, Segment(" ", style)]
            at += cells + 1
        if self._palette is not None:
            self._places.append((range(room, width), self._palette))
            segments += [Segment(" " * (room - at), style), *last]
        return Strip(segments).adjust_cell_length(width, style)

    def _label(self, binding: Binding) -> list[Segment]:
        key, description = self.app.get_key_display(binding), f" {binding.description}"
        return [
            Segment(key, self.get_component_rich_style("keys--key")),
            Segment(description, self.get_component_rich_style("keys--description")),
        ]

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        for cells, binding in self._places:
            if at is not None and at.x in cells:
                self.app.simulate_key(binding.key)


def _once(active: list[ActiveBinding]) -> list[Binding]:
    """The first of the keys of each action."""
    return list({one.binding.action: one.binding for one in reversed(active)}.values())[::-1]
