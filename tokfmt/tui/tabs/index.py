"""The format's own structure: parts of the files and their fields, beside the bytes they are."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.widgets import Static

from tokfmt.core.errors import OptionError, TokfmtError
from tokfmt.core.options import parse_count
from tokfmt.core.protocols import Field, Pointer
from tokfmt.core.text_format import counted, printable
from tokfmt.ops.look.parts import Raw, sections
from tokfmt.ops.source.request import given_to
from tokfmt.tui.session import Session, is_small, row_at
from tokfmt.tui.tabs import Tab
from tokfmt.tui.widgets.hex_view import Bytes, HexView
from tokfmt.tui.widgets.outline import Outline, Parts, Row, first_open, sequence_of
from tokfmt.tui.workers import Job

WIDE = 134
"""Columns from which the bytes stand beside the parts, not beneath."""

Opened = tuple[Raw, dict[int, int]]


class IndexTab(Tab):
    """Parts, and bytes.

    Attributes:
        bytes: Where they are read from, once that is known.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "byte", "Byte offset"),
        Binding("z", "zoom", "Zoom", show=False),
    ]
    bytes: Bytes | None = None
    parts = getters.query_one(Parts)
    """The sections and fields."""
    hex = getters.query_one(HexView)
    """The bytes."""
    _wish: tuple[Path, int, int] | None = None

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self._counting = 0
        self._left: Row | None = None  # the line the cursor was on when other bytes were asked for

    def compose(self) -> ComposeResult:
        with Container(id="inside"):
            with Vertical(id="parting"):
                yield Parts()
                yield Static(id="field", markup=False)
            yield HexView()

    def show(self, session: Session) -> None:
        if hasattr(self, "session") and session is self.session:
            return
        self.session, self.bytes, self._counting, self._left = session, None, 0, None
        self.loader.forget()
        self.hex.clear()
        self.parts.show(Outline(()))
        self.parts.border_title = "reading …"
        self.loader.ask(lambda: _opened(session), self._show)

    def _show(self, found: Opened | str) -> None:
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
        self.parts.show(outline)
        self.reveal_wanted()

    @property
    def idle(self) -> bool:
        return not self._counting

    def enter(self) -> None:
        self.parts.focus()

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "wide")

    def reveal_bytes(self, path: Path, offset: int, length: int) -> None:
        """Go to bytes of a file."""
        self._wish = (path, offset, length)
        self.hex.focus()
        if self.bytes is not None:
            self._wish = None
            self.hex.show(self.bytes, path, offset, length)
        self._left = self.parts.row
        self.query_one("#field", Static).update("")  # what stands there is about other bytes

    @on(Parts.Moved)
    def _moved(self) -> None:
        section, field, row = self.parts.section, self.parts.field, self.parts.row
        self.query_one("#field", Static).update("" if field is None else _told(field))
        looks_elsewhere = self.hex.has_focus or row == self._left  # the focus, and this message, may come late
        if section is None or self.bytes is None or looks_elsewhere:
            return
        self._left = None
        if field is not None and field.offset is not None:
            self.hex.show(self.bytes, field.path or section.path, field.offset, field.length)
        elif field is not None and field.path is not None:
            self.hex.show(self.bytes, field.path, 0, 0)
        elif self.hex.bytes is None and self.session.path.is_file():
            self.hex.show(self.bytes, self.session.path, 0, 0)

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
        self._counting += 1
        Job(lambda job: section.count, lambda count: self.call_later(self._counted, outline, number, count))

    def _counted(self, outline: Outline, section: int, count: object) -> None:
        if outline is not self.parts.outline:  # it came too late
            return
        self._counting -= 1
        self.parts.opening.discard(section)
        if isinstance(count, int):
            on_it = self.parts.row == Row(section)
            outline.open(section, count)
            self.parts.changed(Row(section) if on_it else None)
        elif isinstance(count, Exception):
            self.notify(str(count), severity="error", markup=False)

    # bytes

    def reveal_wanted(self) -> None:
        """Show what was asked for before anything could be read."""
        if self._wish is not None:
            self.reveal_bytes(*self._wish)

    async def action_byte(self) -> None:
        """Ask for a byte, and go there."""
        await self.app.ask_line("byte offset, or file:offset", self._to_byte)

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
        session, target = self.session, Pointer(message.path, message.offset)
        self.go_to_sequence(lambda: row_at(session, target))

    def action_zoom(self) -> None:
        self.toggle_class("zoomed")
        self.hex.focus()


def _opened(session: Session) -> Opened | str:
    """The parts of a dataset, and which are open from the beginning; what is wrong, if they cannot be told."""
    format_ = session.opened.format
    try:
        options = given_to(format_, session.request) if format_ else {}
        raw = sections(session.path, format=session.format_name, options=options)
        return raw, first_open(raw.sections, small=is_small(session.path))
    except TokfmtError as error:
        return str(error)


def _told(field: Field) -> str:
    """A field in full, of which the lines may show less."""
    value = f"{field.name}: {field.value}"
    return f"{value} · {field.meaning}" if field.meaning else value
