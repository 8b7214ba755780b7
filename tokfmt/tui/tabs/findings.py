"""What `tokfmt check` finds in the dataset, and the way to it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from tokfmt.core.errors import TokfmtError
from tokfmt.core.inside import Target
from tokfmt.ops.check import Demands, Verdict, check, explain
from tokfmt.tui.jobs import Job
from tokfmt.tui.screens.page import Page
from tokfmt.tui.session import Session, row_at
from tokfmt.tui.tabs.leads import Leads
from tokfmt.tui.tabs.working import Working
from tokfmt.tui.verdicts import ORDER, in_full, nothing_found, summary
from tokfmt.tui.widgets.findinglist import FindingList

_HIGH = 28
"""Lines from which the code of a finding is explained without being asked."""


class FindingsTab(Working, Leads):
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
        request = session.asked or session.request  # of all splits, unless one was asked for
        demands = Demands(
            deep, session.format_name, tuple(request.options), request.eos, request.split, request.text_field
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
            self.list.show(sorted(verdict.findings, key=lambda finding: ORDER.get(finding.severity, 2)))
        self.say()

    def say(self) -> None:
        """How far the check is, or what it came to."""
        verdict = self.session.verdict
        told = self.doing("checking") if self.job else "" if verdict is None else summary(verdict)
        self.list.border_title = told
        self.list.border_subtitle = "" if verdict is None or verdict.deep or self.job else "c checks every token"
        self._moved()

    @on(FindingList.Moved)
    def _moved(self) -> None:
        finding = self.list.finding
        if not hasattr(self, "session"):
            return
        if finding is not None:
            told = in_full(finding, explained=self.size.height >= _HIGH)
        elif self.session.verdict is not None and not self.job:
            told = nothing_found(self.session.verdict)
        else:
            told = Content("")
        self.query_one("#finding", Static).update(told)
        self.refresh_bindings()

    # going

    @on(FindingList.Followed)
    def _followed(self) -> None:
        finding = self.list.finding
        if finding is not None and Path(finding.path).is_dir():
            self.notify("This finding is about the whole directory, not about a place in it.")
        elif finding is not None:
            length = 0 if finding.offset is None else 1
            self.app.go_to_bytes(Path(finding.path), finding.offset or 0, length)  # type: ignore[attr-defined]

    def on_resize(self) -> None:
        self._moved()

    def action_sequence(self) -> None:
        session, finding = self.session, self.list.finding
        if finding is None or finding.offset is None:
            self.notify("This finding is not about one place.")
            return
        target = Target(Path(finding.path), finding.offset)

        self.lead(lambda: row_at(session, target), "no sequence lies at that byte: Enter shows the bytes")

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

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What was checked need not be checked."""
        if action == "all":
            verdict = self.session.verdict if hasattr(self, "session") else None
            return self.job is None and not (verdict is not None and verdict.deep)
        if action in ("sequence", "explain"):
            return self.is_mounted and self.list.finding is not None
        return super().check_action(action, parameters)

    def action_all(self) -> None:
        self._check(deep=True)
