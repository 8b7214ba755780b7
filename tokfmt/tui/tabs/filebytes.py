"""The bytes of a dataset's files: shown, asked for, led from."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from tokfmt.core.errors import OptionError, TokfmtError
from tokfmt.core.inside import Target
from tokfmt.core.options import parse_count
from tokfmt.tui.bytesview import Bytes
from tokfmt.tui.screens.question import Question
from tokfmt.tui.session import row_at
from tokfmt.tui.tabs.leads import Leads
from tokfmt.tui.widgets.hexview import HexView


class FileBytes(Leads):
    """The part of a tab that has a `HexView`.

    Attributes:
        bytes: Where they are read from, once that is known.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "byte", "Byte offset"),
        Binding("z", "zoom", "Zoom", show=False),
    ]
    bytes: Bytes | None = None
    _wish: tuple[Path, int, int] | None = None

    @property
    def hex(self) -> HexView:
        """The bytes."""
        return self.query_one(HexView)

    def reveal_bytes(self, path: Path, offset: int, length: int) -> None:
        self._wish = (path, offset, length)
        self.hex.focus()
        if self.bytes is not None:
            self._wish = None
            self.hex.show(self.bytes, path, offset, length)

    def reveal_wanted(self) -> None:
        """Show what was asked for before anything could be read."""
        if self._wish is not None:
            self.reveal_bytes(*self._wish)

    async def action_byte(self) -> None:
        """Ask for a byte, and go there."""

        def answered(answer: str | None) -> None:
            try:
                if answer:
                    self._to_byte(answer)
            except TokfmtError as error:
                self.notify(str(error), severity="error", markup=False)

        await self.app.push_screen(Question("byte offset, or file:offset"), answered)

    def _to_byte(self, answer: str) -> None:
        name, _, number = answer.rpartition(":")
        shown = self.hex.path or self.session.path
        path = (shown.parent if self.session.path.is_file() else self.session.path) / name if name else shown
        offset = parse_count(number)
        if path == self.hex.path and not 0 <= offset < self.hex.file_size:
            raise OptionError(f"{path.name} has {self.hex.file_size:,} bytes")
        self.reveal_bytes(path, offset, 1)

    @on(HexView.Chosen)
    def _chosen(self, message: HexView.Chosen) -> None:
        session, target = self.session, Target(message.path, message.offset)
        self.lead(lambda: row_at(session, target))

    def action_zoom(self) -> None:
        self.toggle_class("zoomed")
        self.hex.focus()
