"""The tab of findings: the result of `tokfmt check`, with links to the bytes and the sequences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from tokfmt.browser import keys
from tokfmt.browser.data.check import checked, explained, known, place_of_finding, row_of_finding
from tokfmt.browser.data.lines import SEVERITIES, FindingLines
from tokfmt.browser.data.outline import Bytes, bytes_of
from tokfmt.browser.data.session import Session, may_hold
from tokfmt.browser.data.spots import ByteSpot, Spot
from tokfmt.browser.data.types import Finding, Pointer
from tokfmt.browser.keys import pressing
from tokfmt.browser.tabs.base import Working
from tokfmt.browser.widgets.hex_view import HexView
from tokfmt.browser.widgets.table import Table
from tokfmt.browser.widgets.virtual_table import kinds
from tokfmt.wording import counted, printable

if TYPE_CHECKING:
    from tokfmt.browser.data.types import CheckReport

_QUIET = "$quiet"


def summary(verdict: CheckReport) -> str:
    """Return the number of findings by severity, and the depth of the check."""
    depth = "every token checked" if verdict.deep else "headers and index checked"
    counts = [
        f"{verdict.severities[name]:,} info" if name == "info" else counted(verdict.severities[name], name)
        for name in SEVERITIES
        if verdict.severities.get(name)
    ]
    kept = f" · {len(verdict.findings):,} of them listed" if verdict.left_out else ""
    return f"{', '.join(counts) or 'no findings'} · {depth}{kept}"


def looked_at(session: Session, verdict: CheckReport) -> Content:
    """Return what a check without findings looked at, and what the check of every token would add."""
    port, view = session.port, session.view
    words = "" if view.axis is None else counted(view.tokens, "token")
    count = counted(port.count, view.singular) if port.whole else view.name
    seen = ["headers", f"index of {count}" if words else count, "metadata"]
    seen += [f"all {words or 'texts'}"] if verdict.deep else []
    lines = [Content.assemble(("✓ ", "$text-success"), one) for one in seen]
    lines = [Content.styled("No problem found", "bold $text-success"), Content(""), *lines]
    if not verdict.deep:
        rest = f"· {words or 'texts'}: "
        lines.append(Content.assemble((rest, _QUIET), ("c", "bold $text-accent"), (" checks each of them", _QUIET)))
    return Content("\n").join(lines)


def in_full(finding: Finding) -> Iterator[Content]:
    """Yield the lines of a finding in full: place, message, remedy, and the explanation of its code."""
    place = printable(finding.path) + ("" if finding.offset is None else f", byte {finding.offset:,}")
    yield Content.assemble((f"{finding.code} ", "bold"), place)
    yield Content(printable(finding.message))
    if finding.remedy:
        yield Content.assemble(("→ ", "bold"), printable(finding.remedy))
    code = explained(finding.code)
    if code is not None:
        yield Content.assemble((f"{code.title}. ", f"bold {_QUIET}"), (code.text, _QUIET))


class FindingTable(Table):
    """The list of findings; the cursor chooses one."""

    COMPONENT_CLASSES: ClassVar[set[str]] = kinds("error", "warning", "info", "code", "place", "message")
    BINDINGS = keys.FINDINGS
    blurs = True
    filler = "message"

    class Moved(Message):
        """The cursor is on another finding."""

    @property
    def findings(self) -> Sequence[Finding]:
        """Return all findings of the list."""
        return self.lines.findings if isinstance(self.lines, FindingLines) else ()

    @property
    def finding(self) -> Finding | None:
        """Return the finding under the cursor."""
        return self.findings[self.cursor] if self.count else None

    def offers(self, action: str, parameters: tuple[object, ...]) -> bool:  # noqa: ARG002 - none has any
        """Return whether an action would do something now (`keys.is_offered`)."""
        return action != "choose" or self.finding is not None

    def moved(self) -> None:
        self.post_message(self.Moved())


WIDE = 118
"""Width in columns from which a finding is next to the list instead of below."""


class FindingsTab(Working):
    """The list of findings, and the finding under the cursor in full below it."""

    BINDINGS = keys.PROBLEMS

    _listed: CheckReport | None = None  # the verdict that is listed
    _holds: Finding | None = None  # a finding with a byte that holds a token
    _bytes: Bytes | None = None  # of the files of the dataset
    _before: Finding | None = None  # the one under the cursor before the same dataset was opened again
    list = getters.query_one(FindingTable)
    """The list of findings."""

    def compose(self) -> ComposeResult:
        yield Static(id="checked", markup=False)
        with Container(id="found"):
            yield FindingTable("findings-list")
            with Vertical(id="evidence"):
                yield Static(id="finding", markup=False)
                yield HexView()

    def show(self, session: Session) -> None:
        same = hasattr(self, "session") and session is self.session
        if same and session.verdict is not None and session.verdict is self._listed:
            return
        self.stop()
        again = hasattr(self, "session") and session.path == self.session.path
        self._before = (self.list.finding or self._before) if again else None
        self.session, self._bytes = session, None
        self.list.show(None)
        if session.verdict is None:
            self._check(deep=False)
        else:
            self.begin(lambda _: known(session), self._found)

    def enter(self) -> None:
        self.list.focus()

    # the check

    def _check(self, *, deep: bool) -> None:
        session = self.session
        self.begin(lambda job: checked(session, job, deep=deep), self._found)

    def _found(self, outcome: object) -> None:
        if not isinstance(outcome, Exception):
            self.session.verdict = outcome  # type: ignore[assignment]
            self.host.show_health()
            self._list()
        else:
            line = self.query_one("#checked", Static)
            line.display = True
            line.update(Content.styled(f"✗ {printable(outcome)}", "$text-error"))

    def _list(self) -> None:
        verdict = self._listed = self.session.verdict
        if verdict is not None:
            found = sorted(verdict.findings, key=lambda one: (*SEVERITIES, one.severity).index(one.severity))
            before = self.list.finding or self._before
            at = found.index(before) if before in found else 0
            self.list.show(FindingLines(found, self.session.path), first=lambda: at)
        self.say()

    def say(self) -> None:
        """Show the progress or the summary of the check."""
        verdict = self.session.verdict
        words = self.doing("checking") if self.job else "" if verdict is None else summary(verdict)
        line = self.query_one("#checked", Static)
        line.display = bool(self.job or verdict is None or verdict.findings)
        line.update(pressing(words))
        self._moved()

    @on(FindingTable.Moved)
    def _moved(self) -> None:
        finding = self.list.finding
        if not hasattr(self, "session"):
            return
        if finding is not None:
            content = Content("\n").join(in_full(finding))
        elif self.session.verdict is not None and not self.job:
            content = looked_at(self.session, self.session.verdict)
        else:
            content = Content("")
        if (
            self.session.failure and self.session.refused is None
        ):  # of the tokenizer, or of what is opened second: the check knows neither
            failure = Content.styled(f"✗ {printable(self.session.failure)}", "$text-error")
            content = Content("\n").join((failure, Content(""), content))
        self.query_one("#finding", Static).update(content)
        self.set_class(finding is None, "nothing")
        self._show_bytes(finding)
        self._look(finding)
        self.refresh_bindings()

    def _show_bytes(self, finding: Finding | None) -> None:
        """Show the bytes around the byte of a finding; nothing of a store, which would be asked for them."""
        view = self.query_one(HexView)
        shown = finding is not None and finding.offset is not None and self.session.path.is_local
        view.display = shown
        if finding is not None and finding.offset is not None and shown:
            if self._bytes is None:
                self._bytes = bytes_of(self.session)
            view.show(self._bytes, place_of_finding(finding), finding.offset, 1)

    @on(HexView.Chosen)
    def _byte_chosen(self, message: HexView.Chosen) -> None:
        self.host.go(Spot(tab="index", inside=ByteSpot(message.path, message.offset, 1)))

    def _look(self, finding: Finding | None) -> None:
        """Find out whether the byte of a finding holds a token, so that only then the key to it is listed."""
        session, self._holds = self.session, None
        if finding is None or finding.offset is None:
            return
        target = Pointer(place_of_finding(finding), finding.offset)

        def then(found: bool) -> None:
            self._holds = finding if found else None
            self.refresh_bindings()

        self.loader.ask(lambda: may_hold(session, target), then)

    def offers(self, action: str, parameters: tuple[object, ...]) -> bool:
        """Return whether an action would do something now (`keys.is_offered`)."""
        finding = self.list.finding
        if action in ("sequence", "list"):
            known = action == "list" and finding is not None and bool(finding.query)
            return known or (self._holds is not None and self._holds is finding)
        return super().offers(action, parameters)

    # links

    @on(Table.Chosen)
    def _followed(self) -> None:
        finding = self.list.finding
        if finding is None:
            return
        place = place_of_finding(finding)
        whole = not self.session.is_file and place == self.session.path  # a store is not asked while a key is handled
        if place.is_dir() if place.is_local else whole:
            self.notify("This finding is about the whole directory.")
        else:
            length = 0 if finding.offset is None else 1
            self.host.go(Spot(tab="index", inside=ByteSpot(place, finding.offset or 0, length)))

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "wide")
        self._moved()

    def action_sequence(self) -> None:
        session, finding = self.session, self.list.finding
        if finding is None or finding.offset is None:
            self.notify("This finding has no byte offset.")
            return
        self.go_to_sequence(
            lambda: row_of_finding(session, finding), "no sequence is at that byte; Enter shows the bytes"
        )

    def action_list(self) -> None:
        """List the sequences that the finding is about: those of its query, or of all findings of its code."""
        session, finding = self.session, self.list.finding
        if finding is None:
            return
        if finding.query:
            self.host.go(Spot(words=finding.query))
            return
        alike = [one for one in self.list.findings if one.code == finding.code and one.offset is not None]

        def find() -> dict[int, int]:
            places = {number: row_of_finding(session, one) for number, one in enumerate(alike)}
            return {number: where[0] for number, where in places.items() if where is not None}

        def then(rows: dict[int, int]) -> None:
            if not rows:
                self.notify("This finding is about no single sequence.")
                return
            numbers = sorted({*rows.values()})
            row = next((row for number, row in rows.items() if alike[number] is finding), numbers[0])
            self.host.go(Spot((row, 0), words=f"seq:{','.join(map(str, numbers))}"))

        self.loader.ask(find, then)

    async def action_export(self) -> None:
        """Ask for a file, and write all findings."""
        count = len(self.list.selected) or self.list.count
        name = f"{Path(self.session.path.name).stem}-findings"
        await self.host.export_lines(self.list.records(), counted(count, "finding"), name)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action applies; a complete check is not repeated."""
        if action == "all":
            verdict = self.session.verdict if hasattr(self, "session") else None
            return self.job is None and not (verdict is not None and verdict.deep)
        if action in ("sequence", "list", "export"):
            return self.is_mounted and self.list.finding is not None
        return super().check_action(action, parameters)

    def action_all(self) -> None:
        self._check(deep=True)
