"""The tab of the index: the parts and fields of the files, next to their bytes.

Bytes are read in windows, cached, and shown in hexadecimal and as characters. A part that cannot be read is `Damage`.
"""

from __future__ import annotations

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widgets import Static

from tokfmt.base.options import parse_count
from tokfmt.browser import keys
from tokfmt.browser.data.outline import (
    Bytes,
    OpenedParts,
    Outline,
    Row,
    full_text,
    opened_parts,
    row_of_byte,
    sequence_of,
)
from tokfmt.browser.data.session import Session, may_hold, row_at
from tokfmt.browser.data.spots import ByteSpot, Spot
from tokfmt.browser.data.types import Pointer
from tokfmt.browser.tabs.base import Tab
from tokfmt.browser.widgets.hex_view import HexView
from tokfmt.browser.widgets.loading import Leaping, Loader
from tokfmt.browser.widgets.outline import Parts
from tokfmt.browser.work import Work
from tokfmt.errors import OptionError
from tokfmt.wording import counted, printable

WIDE = 134
"""Width in columns from which the bytes are next to the parts instead of below."""


class IndexTab(Tab):
    """Parts and bytes."""

    BINDINGS = keys.BYTES
    bytes: Bytes | None = None  # the reader of the bytes; None before the parts are loaded
    parts = getters.query_one(Parts)
    """The sections and fields."""
    hex = getters.query_one(HexView)
    """The bytes."""
    _wish: ByteSpot | None = None
    _looks: Loader
    _reveals = False  # a jump shows bytes; the focus may arrive later
    _left: Row | None = None  # the line of the cursor when a jump showed other bytes
    _about: Row | None = None  # the line that describes the byte under the cursor
    _before: Row | None = None  # the line of the cursor before the same dataset was opened again

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self._looks, self._counts = Loader(self), Work(self)

    def on_unmount(self) -> None:
        self._looks.close()
        self._counts.cancel()

    def compose(self) -> ComposeResult:
        with Container(id="inside"):
            with Vertical(id="parting"):
                yield Parts()
                yield Static(id="field", markup=False)
            yield HexView()

    def show(self, session: Session) -> None:
        if hasattr(self, "session") and session is self.session:
            return
        if not hasattr(self, "session") or session.path != self.session.path:
            self._before = None
        else:
            self._before = self.parts.row or self._before
            if self.hex.has_focus and self.hex.path is not None:
                self._wish = self.spot()
        self.session, self.bytes, self._left = session, None, None
        self.loader.forget()
        self._counts.cancel()
        self.hex.clear()
        self.parts.show(Outline(()))
        self.parts.border_title = "reading …"
        self.loader.ask(lambda: opened_parts(session), self._show)

    def _show(self, found: OpenedParts | str) -> None:
        if isinstance(found, str):
            self.parts.border_title = f"✗ {found}"
            return
        raw, counts = found
        outline = Outline(raw.sections)
        for section, count in counts.items():
            outline.open(section, count)
        self.parts.border_title = f"{counted(len(raw.sections), 'part')} of {printable(raw.path.name)}"
        self.parts.border_subtitle = " · ".join(map(printable, raw.notes))
        self.bytes = Bytes(raw)
        self.parts.show(outline, self._before)
        if self._wish is not None:
            self.show_inside(self._wish)

    @property
    def idle(self) -> bool:
        return not self._counts and self._looks.idle

    def enter(self) -> None:
        self.parts.focus()

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "wide")

    def show_inside(self, inside: ByteSpot) -> None:
        """Show bytes of a file as soon as the parts are loaded."""
        self._wish, self._reveals = inside, True
        self.hex.focus()
        if self.bytes is not None:
            self._wish = None
            if inside.opened:
                self.bytes.admit(inside.path)
            self.hex.show(self.bytes, inside.path, inside.offset, inside.length)
        self._left, self._about = self.parts.row, None
        self.query_one("#field", Static).update("")  # its text is about other bytes

    @on(Parts.Moved)
    def _moved(self) -> None:
        section, field, row = self.parts.section, self.parts.field, self.parts.row
        looks_elsewhere = self.hex.has_focus or row == self._left  # the focus and this message may arrive late
        told = row == self._about or not looks_elsewhere
        self.query_one("#field", Static).update(full_text(field) if field is not None and told else "")
        if section is None or self.bytes is None or looks_elsewhere:
            return
        self._left = None
        if field is not None and field.offset is not None:
            self.hex.show(self.bytes, field.path or section.path, field.offset, field.length)
        elif field is not None and field.path is not None:
            self.hex.show(self.bytes, field.path, 0, 0)
        elif self.hex.bytes is None and self.session.is_file:
            self.hex.show(self.bytes, self.session.path, 0, 0)

    @on(HexView.Moved)
    def _byte_moved(self) -> None:
        """Let the parts follow the byte under the cursor, and find out whether it holds a token."""
        session, outline, path, offset = self.session, self.parts.outline, self.hex.path, self.hex.at
        follows, self._reveals = self.hex.has_focus or self._reveals, False
        if path is None or not follows:
            return

        def look() -> tuple[Row | None, bool]:
            return row_of_byte(outline, path, offset), may_hold(session, Pointer(path, offset))

        def then(found: tuple[Row | None, bool]) -> None:
            row, self.hex.leads = found
            self._about = row
            if row is None:  # the parts are about other bytes
                self.query_one("#field", Static).update("")
            if row is not None and outline is self.parts.outline and row != self.parts.row:
                self._left = row
                self.parts.changed(row)
            self.refresh_bindings()

        self._looks.ask(look, then)

    # sequences

    @on(Parts.Followed)
    def _followed(self, message: Parts.Followed) -> None:
        session = self.session
        self.go_to_sequence(lambda: sequence_of(session, message.section, message.field))

    # parts

    @on(Parts.Opening)
    def _opening(self, message: Parts.Opening) -> None:
        outline, number = self.parts.outline, message.section
        section = outline.sections[number]
        self._counts.begin(number, lambda _: section.count, lambda count: self._counted(outline, number, count))

    def _counted(self, outline: Outline, section: int, count: object) -> None:
        self.parts.opening.discard(section)
        if isinstance(count, int):
            on_it = self.parts.row == Row(section)
            outline.open(section, count)
            self.parts.changed(Row(section) if on_it else None)
        elif isinstance(count, Exception):
            self.notify(str(count), severity="error", markup=False)

    # bytes

    async def action_byte(self) -> None:
        """Ask for a byte offset, and go to it."""
        from tokfmt.browser.dialogs import Question

        pane = self.hex if self.hex.has_focus else self.parts
        await Question("byte offset, or file:offset", self._to_byte, ends=pane.action_to).ask(self.app)

    def _to_byte(self, answer: str) -> None:
        name, _, number = answer.rpartition(":")
        shown = self.hex.path or self.session.path
        path = (shown.parent if self.session.is_file else self.session.path) / name if name else shown
        offset = parse_count(number)
        if path == self.hex.path and not 0 <= offset < self.hex.file_size:
            raise OptionError(f"{path.name} has {self.hex.file_size:,} bytes")
        self.host.go(Spot(tab=self.id or "", inside=ByteSpot(path, offset, 1)))

    # the way back

    def spot(self) -> ByteSpot | None:
        """Return the byte under the cursor."""
        return None if self.hex.path is None else ByteSpot(self.hex.path, self.hex.at)

    @on(Leaping)
    def _leaping(self) -> None:
        self.host.leave()

    @on(HexView.Chosen)
    def _chosen(self, message: HexView.Chosen) -> None:
        session, target = self.session, Pointer(message.path, message.offset)
        self.go_to_sequence(lambda: row_at(session, target))

    def action_zoom(self) -> None:
        self.toggle_class("zoomed")
        self.hex.focus()
