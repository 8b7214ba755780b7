"""How the panes stand beside each other, and how the reader shows a row."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from tokfmt.tui.layout import Mode
from tokfmt.tui.tabs.rows import RowsTab
from tokfmt.tui.widgets.divider import Divider

NARROWEST, WIDEST, STEP = 20, 80, 5  # per cent


class Panes(RowsTab):
    """The part of a tab that has a list beside a reader; both are the tab's."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("w", "toggle_reader('whitespace')", "Whitespace", show=False),
        Binding("l", "toggle_reader('wrap')", "Wrap lines", show=False),
        Binding("z", "zoom", "Zoom", show=False),
        Binding("less_than_sign", "resize(-1)", "Narrower list", show=False),
        Binding("greater_than_sign", "resize(1)", "Wider list", show=False),
    ]
    share = 40

    def action_mode(self) -> None:
        modes = list(Mode)
        self.reader.mode = modes[(modes.index(self.reader.mode) + 1) % len(modes)]

    def action_toggle_reader(self, what: str) -> None:
        setattr(self.reader, what, not getattr(self.reader, what))

    def action_zoom(self) -> None:
        self.toggle_class("zoomed")
        self.reader.focus()

    def action_resize(self, step: int) -> None:
        self._split(self.share + step * STEP)

    @on(Divider.Dragged)
    def _dragged(self, message: Divider.Dragged) -> None:
        self._split(round(100 * message.column / max(1, self.size.width)))

    def _split(self, share: int) -> None:
        self.share = max(NARROWEST, min(WIDEST, share))
        self.list.styles.width = f"{self.share}%"
