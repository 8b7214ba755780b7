"""The tab of the file: its parts with the findings of the check, and the bytes of the line under the cursor.

Bytes are read in windows, cached, and shown in hexadecimal and as tokens. A part that cannot be read is `Damage`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.content import Content
from textual.widgets import Static

from tokfmt.base.options import parse_count
from tokfmt.browser import keys
from tokfmt.browser.data.check import explained, row_of_finding
from tokfmt.browser.data.lines import SEVERITIES
from tokfmt.browser.data.outline import (
    Bytes,
    OpenedParts,
    Outline,
    Row,
    full_text,
    opened_parts,
    placed,
    row_of_byte,
    sequence_of,
)
from tokfmt.browser.data.session import Session, Where, row_at
from tokfmt.browser.data.spots import ByteSpot, Spot
from tokfmt.browser.data.types import Finding, Place, Pointer, place_of
from tokfmt.browser.keys import pressing
from tokfmt.browser.tabs.base import Working
from tokfmt.browser.widgets.hex_view import FileBar, HexView
from tokfmt.browser.widgets.outline import Parts
from tokfmt.browser.work import Loader, Work
from tokfmt.errors import OptionError, TokfmtError
from tokfmt.wording import counted, printable

if TYPE_CHECKING:
    from tokfmt.browser.data.layout import TokenStyle
    from tokfmt.browser.data.types import CheckReport

WIDE = 100
"""Width in columns from which the bytes are next to the parts instead of below."""

_QUIET = "$quiet"
_STYLES = {"error": "bold $text-error", "warning": "bold $text-warning", "info": "$text-muted"}


class FileTab(Working):
    """Parts, findings and bytes."""

    BINDINGS = keys.FILE
    bytes: Bytes | None = None  # the reader of the bytes; None before the parts are loaded
    parts = getters.query_one(Parts)
    """The sections, findings and fields."""
    hex = getters.query_one(HexView)
    """The bytes."""
    _wish: ByteSpot | None = None
    _style: TokenStyle | None = None
    _notes: Sequence[str] = ()
    _listed: CheckReport | None = None  # the verdict whose findings are listed
    _looks: Loader
    _reveals = False  # a jump shows bytes; the focus may arrive later
    _left: Row | None = None  # the line of the cursor when a jump showed other bytes
    _about: Row | None = None  # the line that describes the byte under the cursor
    _before: Row | None = None  # the line of the cursor before the same dataset was opened again

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self._looks, self._counts, self._places = Loader(self), Work(self), Loader(self)

    def on_unmount(self) -> None:
        super().on_unmount()
        self._looks.forget()
        self._places.forget()
        self._counts.cancel()

    def compose(self) -> ComposeResult:
        yield FileBar(self._bar_chosen)
        yield Static(id="checked", markup=False)
        with Container(id="inside"):
            yield Parts(self._opening)
            with Vertical(id="evidence"):
                yield Static(id="field", markup=False)
                yield HexView()

    def show(self, session: Session) -> None:
        style, self._style = self._style, session.token_style  # of the text of tokens beside their bytes
        if hasattr(self, "session") and session is self.session and style == self._style:
            self.judged()
            return
        if not hasattr(self, "session") or session.path != self.session.path:
            self._before = None
        else:
            self._before = self.parts.row or self._before
            if self.hex.has_focus and self.hex.path is not None:
                self._wish = self.spot()
        self.stop()
        self.session, self.bytes, self._left, self._listed, self.failure = session, None, None, None, ""
        self._counts.cancel()
        self.hex.clear()
        self.parts.show(Outline(()))
        self._places.forget()
        self._places.ask(lambda: opened_parts(session), self._show)  # a check forgets what the other loader does
        self.judged()

    def _show(self, opened: OpenedParts) -> None:
        self.bytes, self._notes = opened.content, opened.notes
        self.parts.show(opened.outline, self._before)
        self._list()
        if self._wish is not None:
            self.show_inside(self._wish)

    @property
    def idle(self) -> bool:
        return super().idle and not self._counts and self._looks.idle and self._places.idle

    def enter(self) -> None:
        self.parts.focus()

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "wide")

    # the check

    def judged(self) -> None:
        if self.session.verdict is None and self.job is None and not self.failure:
            self.check(deep=False)
        self._list()

    def _list(self) -> None:
        """List the findings below their parts, when both are known."""
        verdict, outline, session = self.session.verdict, self.parts.outline, self.session
        self.say()
        if verdict is None or self.bytes is None or verdict is self._listed:
            return
        self._listed = verdict
        order = [*SEVERITIES, *(finding.severity for finding in verdict.findings)]
        findings = sorted(verdict.findings, key=lambda finding: order.index(finding.severity))
        if session.failure and session.refused is None:  # of the tokenizer: the check does not know it
            findings.insert(0, Finding("", "error", str(session.path), session.failure))

        def then(by_section: Mapping[int, Sequence[Finding]]) -> None:
            before, row = self.parts.finding, self.parts.row
            elsewhere = self._before is not None and self._before.finding is None
            is_first = not outline.findings and not elsewhere and not self.hex.has_focus
            outline.mark(by_section)
            if findings and (before is not None or is_first):
                row = outline.row_of(before or findings[0]) or row
            self.parts.changed(row)

        self._places.ask(lambda: placed(outline, findings), then)

    def say(self) -> None:
        """Show the progress of the check."""
        line = self.query_one("#checked", Static)
        line.display = self.job is not None or bool(self.failure)
        line.update(pressing(self.doing("checking")) if self.job else Content.styled(self.failure, "$text-error"))
        self.refresh_bindings()

    # the line under the cursor

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
        self._explain(None)  # its text is about other bytes

    @on(Parts.Moved, "#parts")
    def _moved(self) -> None:
        row, section, field, finding = self.parts.row, self.parts.section, self.parts.field, self.parts.finding
        looks_elsewhere = self.hex.has_focus or row == self._left  # the focus and this message may arrive late
        self._explain(row if row == self._about or not looks_elsewhere else None)
        self.refresh_bindings()
        if self.bytes is None or looks_elsewhere:
            return
        self._left = None
        self.hex.set_class(finding is not None, "wrong")
        if finding is not None:
            if finding.offset is not None and self.session.path.is_local:  # a store is not asked without a key
                self.hex.show(self.bytes, place_of(finding.path), finding.offset, 1)
            elif self.hex.bytes is None and self.session.is_file and self.session.identity is not None:
                self.hex.show(self.bytes, self.session.path, 0, 0)
        elif section is not None and field is not None and field.offset is not None:
            self.hex.show(self.bytes, field.path or section.path, field.offset, field.length)
        elif field is not None and field.path is not None:
            self.hex.show(self.bytes, field.path, 0, 0)
        elif row is not None and section is not None and row.field is None:
            self._show_part(self.bytes, row.section)

    def _show_part(self, content: Bytes, section: int) -> None:
        """Show the bytes of a part, from its first one on."""
        outline = self.parts.outline

        def then(start: Pointer | None) -> None:
            if start is not None:
                self.hex.show(content, start.path, start.offset, 0)
            elif self.hex.bytes is None and self.session.is_file:
                self.hex.show(content, self.session.path, 0, 0)

        self._places.ask(lambda: outline.start_of(section), then)

    def _explain(self, row: Row | None) -> None:
        """Show a finding or a field in full above the bytes; nothing for None."""
        outline, notes = self.parts.outline, [Content.styled(printable(note), _QUIET) for note in self._notes]
        field, finding = (None, None) if row is None else (outline.peek(row), outline.finding(row))
        if finding is not None:
            lines = in_full(finding)
        elif field is not None:
            lines = [Content(printable(full_text(field)))]
        elif row is not None and row.field is None:
            lines = [Content(printable(outline.sections[row.section].title)), *notes]
        else:
            lines = [] if outline.sections else notes
        self.query_one("#field", Static).update(Content("\n").join(lines))

    @on(HexView.Moved, "#hex")
    def _byte_moved(self) -> None:
        """Let the parts follow the byte under the cursor, and find out what it holds."""
        session, outline, path, offset = self.session, self.parts.outline, self.hex.path, self.hex.at
        follows, self._reveals = self.hex.has_focus or self._reveals, False
        if path is None:
            return

        def look() -> tuple[Row | None, Where | None, list[tuple[str, int]]]:
            titles = [(printable(outline.sections[k].title), at) for at, k in outline.starts_in(path)]
            return row_of_byte(outline, path, offset) if follows else None, _held(session, path, offset), titles

        def then(place: tuple[Row | None, Where | None, list[tuple[str, int]]]) -> None:
            row, where, titles = place
            words = "" if where is None else f"{session.view.singular} {where[0]:,}, {session.port.unit} {where[1]:,}"
            leads = session.refused is None and not (path.is_local and session.port.whole)
            self.hex.say(words, leads=leads or where is not None)
            self.query_one(FileBar).show(titles, self.hex.file_size, offset, self._signs(outline))
            if follows:
                self._about = row
                if row is None:  # the parts are about other bytes
                    self._explain(None)
                elif outline is self.parts.outline and row != self.parts.row:
                    self._left = row
                    self.parts.changed(row)
            self.refresh_bindings()

        self._looks.ask(look, then)

    def _signs(self, outline: Outline) -> dict[int, tuple[str, str]]:
        """Return the sign of each finding in the file of the bytes, and its style, by byte offset."""
        findings = [finding for those in outline.findings.values() for finding in those]
        return {
            finding.offset: (SEVERITIES.get(finding.severity, "·"), _STYLES.get(finding.severity, _QUIET))
            for finding in reversed(findings)
            if finding.offset is not None and place_of(finding.path) == self.hex.path
        }

    def _bar_chosen(self, offset: int) -> None:
        self.hex.focus()
        self.hex.goto(offset)

    # sequences

    @on(Parts.Chosen, "#parts")
    def _followed(self) -> None:
        session, section, field, finding = self.session, self.parts.section, self.parts.field, self.parts.finding
        if finding is not None:
            self._list_alike(session, finding)
        elif section is not None and field is not None:
            self.go_to_sequence(lambda: sequence_of(session, section, field))

    def _list_alike(self, session: Session, finding: Finding) -> None:
        """List the sequences that a finding is about: those of its query, or of all findings of its code."""
        alike = [finding] if finding.query else [one for one in self._findings if one.code == finding.code]

        def find() -> list[tuple[Finding, Where]]:
            places = [(one, row_of_finding(session, one)) for one in alike]
            return [(one, where) for one, where in places if where is not None]

        def then(places: list[tuple[Finding, Where]]) -> None:
            rows = sorted({row for _, (row, _) in places})
            where = next((where for one, where in places if one is finding), None)
            if finding.query or rows:
                words = finding.query or f"seq:{','.join(map(str, rows))}"
                self.host.go(Spot(where or ((rows[0], 0) if rows else None), words=words))
            else:
                self.notify("This finding is about no single sequence.")

        self.loader.ask(find, then)

    @property
    def _findings(self) -> Sequence[Finding]:
        return () if self.session.verdict is None else self.session.verdict.findings

    async def action_export(self) -> None:
        """Ask for a file, and write all findings."""
        name = f"{Path(self.session.path.name).stem}-findings"
        await self.host.export_lines(map(asdict, self._findings), counted(len(self._findings), "finding"), name)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action applies; a complete check is not repeated."""
        if not hasattr(self, "session"):
            return False
        if action == "all":
            return self.job is None and not (self.session.verdict is not None and self.session.verdict.deep)
        if action == "export":
            return bool(self._findings)
        return super().check_action(action, parameters)

    def action_all(self) -> None:
        self.check(deep=True)

    # parts

    def _opening(self, number: int) -> None:
        outline = self.parts.outline
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
        from tokfmt.browser.dialogs import Prompt

        pane = self.hex if self.hex.has_focus else self.parts
        await Prompt("Go to", self._to_byte, "byte offset, or file:offset", ends=pane.action_to).ask(self.screen)

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

    def on_mount(self) -> None:
        self.parts.leaving = self.host.leave

    @on(HexView.Chosen, "#hex")
    def _chosen(self) -> None:
        if self.hex.path is not None and self.hex.file_size:
            session, target = self.session, Pointer(self.hex.path, self.hex.at)
            self.go_to_sequence(lambda: row_at(session, target))

    def action_zoom(self) -> None:
        """Let the bytes fill the screen; Escape shows all again."""
        self.hex.focus()
        self.screen.maximize(self.hex, container=False)


def _held(session: Session, path: Place, offset: int) -> Where | None:
    """Return the row and the token at a byte; None if it holds none, or a store would be asked for it. Reads."""
    if session.refused is not None or not (path.is_local and session.port.whole):
        return None
    try:
        return row_at(session, Pointer(path, offset))
    except TokfmtError:
        return None


def in_full(finding: Finding) -> list[Content]:
    """Return the lines of a finding in full: place, message, remedy, and the explanation of its code."""
    place = printable(finding.path) + ("" if finding.offset is None else f", byte {finding.offset:,}")
    lines = [
        Content.assemble((f"{finding.code} " if finding.code else "", "bold"), place),
        Content(printable(finding.message)),
    ]
    if finding.remedy:
        lines.append(Content.assemble(("→ ", "bold"), printable(finding.remedy)))
    code = explained(finding.code)
    if code is not None:
        lines.append(Content.assemble((f"{code.title}. ", f"bold {_QUIET}"), (code.text, _QUIET)))
    return lines
