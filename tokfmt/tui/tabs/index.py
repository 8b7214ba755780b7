"""The format's own structure: parts of the files and their fields, beside the bytes they are."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.widgets import Static

from tokfmt.core.errors import OptionError, TokfmtError, printable
from tokfmt.core.inside import Field, Target
from tokfmt.core.options import parse_count
from tokfmt.ops.raw import Raw, sections
from tokfmt.ops.sources import read_options
from tokfmt.tui.bytesview import Bytes
from tokfmt.tui.jobs import Job
from tokfmt.tui.opening import is_small
from tokfmt.tui.outline import Outline, Row, first_open, lead_of
from tokfmt.tui.screens.question import Question
from tokfmt.tui.session import Session, row_at
from tokfmt.tui.tabs.leads import Leads
from tokfmt.tui.widgets.desked import Fetched
from tokfmt.tui.widgets.hexview import HexView
from tokfmt.tui.widgets.parts import Parts

WIDE = 134
"""Columns from which the bytes stand beside the parts, not beneath."""

Opened = tuple[Raw, dict[int, int]]


class IndexTab(Leads):
    """Parts, and bytes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "byte", "Byte offset"),
        Binding("z", "zoom", "Zoom", show=False),
    ]

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self.bytes: Bytes | None = None
        self._counting = 0
        self._wish: tuple[Path, int, int] | None = None

    def compose(self) -> ComposeResult:
        with Container(id="inside"):
            with Vertical(id="parting"):
                yield Parts()
                yield Static(id="field", markup=False)
            yield HexView()

    @property
    def parts(self) -> Parts:
        """The sections and fields."""
        return self.query_one(Parts)

    @property
    def hex(self) -> HexView:
        """The bytes."""
        return self.query_one(HexView)

    def show(self, session: Session) -> None:
        if hasattr(self, "session") and session is self.session:
            return
        self.session, self.bytes, self._counting = session, None, 0
        self.generation += 1
        self.parts.show(Outline(()))
        self.parts.border_title = "reading …"
        self.ask(lambda: _opened(session), self._show)

    def _show(self, found: Opened | str) -> None:
        if isinstance(found, str):
            self.parts.border_title = f"✗ {found}"
            return
        raw, counts = found
        outline = Outline(raw.sections)
        for section, count in counts.items():
            outline.open(section, count)
        parts = len(raw.sections)
        self.parts.border_title = f"{parts:,} part{'' if parts == 1 else 's'} of {printable(raw.path.name)}"
        self.parts.border_subtitle = " · ".join(map(printable, raw.notes))
        self.bytes = Bytes(raw)
        self.parts.show(outline)
        if self._wish is not None:
            self.reveal_bytes(*self._wish)

    @property
    def idle(self) -> bool:
        return not self._counting

    def enter(self) -> None:
        self.parts.focus()

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "wide")

    # bytes

    def reveal_bytes(self, path: Path, offset: int, length: int) -> None:
        self._wish = (path, offset, length)
        self.hex.focus()
        if self.bytes is not None:
            self._wish = None
            self.hex.show(self.bytes, path, offset, length)

    @on(Parts.Moved)
    def _moved(self) -> None:
        section, field = self.parts.section, self.parts.field
        self.query_one("#field", Static).update("" if field is None else _told(field))
        if section is None or self.bytes is None or self.hex.has_focus:  # somebody looks at other bytes
            return
        if field is not None and field.offset is not None:
            self.hex.show(self.bytes, field.path or section.path, field.offset, field.length)
        elif field is not None and field.path is not None:
            self.hex.show(self.bytes, field.path, 0, 0)

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

    # sequences

    @on(Parts.Followed)
    def _followed(self, message: Parts.Followed) -> None:
        session = self.session
        self.lead(lambda: lead_of(session, message.section, message.field))

    @on(HexView.Chosen)
    def _chosen(self, message: HexView.Chosen) -> None:
        session, target = self.session, Target(message.path, message.offset)
        self.lead(lambda: row_at(session, target))

    # parts

    @on(Parts.Opening)
    def _opening(self, message: Parts.Opening) -> None:
        outline, number, generation = self.parts.outline, message.section, self.generation
        section = outline.sections[number]

        def done(count: object) -> None:
            self.post_message(Fetched(generation, lambda: self._counted(outline, number, count)))

        self._counting += 1
        Job(lambda job: section.count, done)

    def _counted(self, outline: Outline, section: int, count: object) -> None:
        self._counting -= 1
        self.parts.opening.discard(section)
        if outline is self.parts.outline and isinstance(count, int):
            on_it = self.parts.row == Row(section)
            outline.open(section, count)
            self.parts.changed(Row(section) if on_it else None)
        elif isinstance(count, Exception):
            self.notify(str(count), severity="error", markup=False)

    def action_zoom(self) -> None:
        self.toggle_class("zoomed")
        self.hex.focus()


def _opened(session: Session) -> Opened | str:
    """The parts of a dataset, and which are open from the beginning; what is wrong, if they cannot be told."""
    format_ = session.opened.format
    try:
        options = read_options(session.request, format_) if format_ else ()
        raw = sections(session.path, format=session.format_name, options=options)
        return raw, first_open(raw.sections, small=is_small(session.path))
    except TokfmtError as error:
        return str(error)


def _told(field: Field) -> str:
    """A field in full, of which the lines may show less."""
    value = f"{field.name}: {field.value}"
    return f"{value} · {field.meaning}" if field.meaning else value
