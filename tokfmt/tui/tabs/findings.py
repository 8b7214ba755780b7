"""What `tokfmt check` finds in the dataset, and the way to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from tokfmt.core.errors import TokfmtError, printable
from tokfmt.core.format import Finding
from tokfmt.core.inside import Target
from tokfmt.ops.check import Demands, Verdict, check, explain
from tokfmt.tui.jobs import Job
from tokfmt.tui.outline import row_at
from tokfmt.tui.screens.page import Page
from tokfmt.tui.session import Session, Where
from tokfmt.tui.tabs.working import Working
from tokfmt.tui.widgets.findinglist import FindingList

_ORDER = {"error": 0, "warning": 1, "info": 2}


class FindingsTab(Working):
    """Findings, and beneath them the one under the cursor in full."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sequence", "To the sequence"),
        Binding("x", "explain", "Explain"),
        Binding("c", "all", "Check every token"),
    ]

    def compose(self) -> ComposeResult:
        yield FindingList()
        yield Static(id="finding", markup=False)

    @property
    def list(self) -> FindingList:
        """The findings."""
        return self.query_one(FindingList)

    def show(self, session: Session) -> None:
        if hasattr(self, "session") and session is self.session:
            return
        self.stop()
        self.session = session
        self.list.show(())
        if session.verdict is None:
            self._check(deep=False)
        else:
            self._list()

    def enter(self) -> None:
        self.list.focus()

    # checking

    def _check(self, *, deep: bool) -> None:
        session = self.session
        request = session.request
        demands = Demands(
            deep, session.opened.format.name, request.options, request.eos, request.split, request.text_field
        )

        def work(job: Job) -> Verdict:
            return next(check(request.paths[:1], demands, job))

        self.begin(work, self._found)

    def _found(self, outcome: object) -> None:
        if isinstance(outcome, Verdict):
            self.session.verdict = outcome
            self._list()
        else:
            self.list.border_title = f"✗ {outcome}"

    def _list(self) -> None:
        verdict = self.session.verdict
        if verdict is not None:
            self.list.show(sorted(verdict.findings, key=lambda finding: _ORDER.get(finding.severity, 2)))
        self.say()

    def say(self) -> None:
        """How far the check is, or what it came to."""
        verdict = self.session.verdict
        told = self.doing("checking") if self.job else "" if verdict is None else _summary(verdict)
        self.list.border_title = told
        self.list.border_subtitle = "" if verdict is None or verdict.deep or self.job else "c checks every token"
        self._moved()

    @on(FindingList.Moved)
    def _moved(self) -> None:
        finding = self.list.finding
        if finding is not None:
            told = Content("\n").join(_in_full(finding))
        elif self.session.verdict is not None and not self.job:
            depth = "every token" if self.session.verdict.deep else "headers, index and metadata"
            told = Content(f"Nothing is wrong, as far as {depth} tell.")
        else:
            told = Content("")
        self.query_one("#finding", Static).update(told)

    # going

    @on(FindingList.Followed)
    def _followed(self) -> None:
        finding = self.list.finding
        if finding is not None and Path(finding.path).is_dir():
            self.notify("This finding is about the whole directory, not about a place in it.")
        elif finding is not None:
            length = 0 if finding.offset is None else 1
            self.app.go_to_bytes(Path(finding.path), finding.offset or 0, length)  # type: ignore[attr-defined]

    def action_sequence(self) -> None:
        session, finding = self.session, self.list.finding
        if finding is None or finding.offset is None:
            self.notify("This finding is not about one place.")
            return
        target = Target(Path(finding.path), finding.offset)

        def find() -> Where | str:
            try:
                return row_at(session, target) or "no sequence lies at that byte: Enter shows the bytes"
            except TokfmtError as error:
                return str(error)

        self.ask(find, self._go)

    def _go(self, found: Where | str) -> None:
        if isinstance(found, str):
            self.notify(found, severity="warning", markup=False)
        else:
            self.app.go_to_where(found)  # type: ignore[attr-defined]

    def action_explain(self) -> None:
        finding = self.list.finding
        if finding is None:
            return
        try:
            told = explain(finding.code)
        except TokfmtError as error:
            self.notify(str(error), severity="warning", markup=False)
            return
        blocks = [(told.title, [("", told.text)]), ("Of", [("", told.owner)])]
        self.app.push_screen(Page(told.code, blocks, 90))

    def action_all(self) -> None:
        if self.job is None:
            self._check(deep=True)


def _summary(verdict: Verdict) -> str:
    depth = "checked every token" if verdict.deep else "checked without decoding"
    counts = [
        f"{verdict.severities[name]:,} {name}{'' if name == 'info' or verdict.severities[name] == 1 else 's'}"
        for name in _ORDER
        if verdict.severities.get(name)
    ]
    kept = f" · {len(verdict.findings):,} of them listed" if verdict.left_out else ""
    return f"{', '.join(counts) or 'no findings'} · {depth}{kept}"


def _in_full(finding: Finding) -> Iterator[Content]:
    place = printable(finding.path) + ("" if finding.offset is None else f", byte {finding.offset:,}")
    yield Content.assemble((f"{finding.code} ", "bold"), place)
    yield Content(printable(finding.message))
    if finding.remedy:
        yield Content.assemble(("→ ", "bold"), printable(finding.remedy))
