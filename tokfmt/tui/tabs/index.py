"""The format's own structure: parts of the files and their fields, beside the bytes they are."""

from __future__ import annotations

from pathlib import Path

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widgets import Static

from tokfmt.core.errors import TokfmtError, printable
from tokfmt.core.inside import Field
from tokfmt.ops.raw import Raw, sections
from tokfmt.ops.sources import read_options
from tokfmt.tui.bytesview import Bytes
from tokfmt.tui.jobs import Job
from tokfmt.tui.opening import is_small
from tokfmt.tui.outline import Outline, Row, first_open, lead_of
from tokfmt.tui.session import Session
from tokfmt.tui.tabs.filebytes import FileBytes
from tokfmt.tui.widgets.desked import Fetched
from tokfmt.tui.widgets.hexview import HexView
from tokfmt.tui.widgets.parts import Parts

WIDE = 134
"""Columns from which the bytes stand beside the parts, not beneath."""

Opened = tuple[Raw, dict[int, int]]


class IndexTab(FileBytes):
    """Parts, and bytes."""

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

    @property
    def parts(self) -> Parts:
        """The sections and fields."""
        return self.query_one(Parts)

    def show(self, session: Session) -> None:
        if hasattr(self, "session") and session is self.session:
            return
        self.session, self.bytes, self._counting, self._left = session, None, 0, None
        self.generation += 1
        self.hex.clear()
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
        self.reveal_wanted()

    @property
    def idle(self) -> bool:
        return not self._counting

    def enter(self) -> None:
        self.parts.focus()

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "wide")

    def reveal_bytes(self, path: Path, offset: int, length: int) -> None:
        super().reveal_bytes(path, offset, length)
        self._left = self.parts.row

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
        self.lead(lambda: lead_of(session, message.section, message.field))

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
