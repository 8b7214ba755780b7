"""What a check has found, a line each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.message import Message

from tokfmt.core.errors import printable
from tokfmt.core.format import Finding
from tokfmt.tui.widgets.fields import fitted
from tokfmt.tui.widgets.lines import Lines

MARKS = {"error": "✗", "warning": "▲", "info": "·"}
_PLACE = 36


class FindingList(Lines):
    """Findings; the cursor chooses one."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"findings--{part}" for part in (*MARKS, "code", "place", "message", "cursor", "cursor-blurred")
    }
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "choose", "To the bytes")]

    class Moved(Message):
        """The cursor is on another finding."""

    class Followed(Message):
        """Somebody wants to see where it is."""

    def __init__(self) -> None:
        super().__init__(id="findings-list")
        self.findings: Sequence[Finding] = ()
        self._place = 0

    @property
    def count(self) -> int:
        return len(self.findings)

    @property
    def finding(self) -> Finding | None:
        """The one under the cursor."""
        return self.findings[self.cursor] if self.findings else None

    def show(self, findings: Sequence[Finding]) -> None:
        """List findings."""
        self.findings = findings
        self._place = min(_PLACE, max((cell_len(place_text(finding)) for finding in findings), default=0))
        self.choose(0)

    def moved(self) -> None:
        self.post_message(self.Moved())

    def action_choose(self) -> None:
        if self.finding is not None:
            self.post_message(self.Followed())

    def clicked(self, column: int, times: int) -> None:  # noqa: ARG002 - anywhere on the line
        if times > 1:
            self.action_choose()

    def draw(self, line: int) -> list[Segment]:
        finding = self.findings[line]
        severity = finding.severity if finding.severity in MARKS else "info"
        cells = [
            (f" {MARKS[severity]} {finding.severity:<8}", severity),
            (f"{finding.code:<7}", "code"),
            (f"{fitted(place_text(finding), self._place)}  ", "place"),
        ]
        room = max(0, self.columns - sum(cell_len(text) for text, _ in cells))
        cells.append((fitted(printable(finding.message), room), "message"))
        chosen = "findings--cursor" if self.has_focus else "findings--cursor-blurred"
        names = [chosen] if line == self.cursor else []
        return [Segment(text, self.get_component_rich_style(f"findings--{kind}", *names)) for text, kind in cells]


def place_text(finding: Finding) -> str:
    """File and byte of a finding, in short."""
    name = printable(Path(finding.path).name)
    return name if finding.offset is None else f"{name}:{finding.offset:,}"
