"""From hit to hit: what is looked for on threads of its own, so that no wish replaces another."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message

from tokfmt.tui.jobs import Job
from tokfmt.tui.session import Where
from tokfmt.tui.tabs.rows import RowsTab
from tokfmt.tui.widgets.desked import Desked
from tokfmt.tui.widgets.findbar import FindBar

if TYPE_CHECKING:  # what searches is loaded by the first search
    from tokfmt.tui.finding import Finding
    from tokfmt.tui.hits import Found


class Sought(Message):
    """A place to go to is known."""

    def __init__(self, then: Callable[[], None]) -> None:
        super().__init__()
        self.then = then


class Seeking(RowsTab, Desked):
    """The part of a tab that goes to hits; `list`, `reader`, `where` and `go` are the tab's.

    Attributes:
        finding: The search whose hits are marked. filtered: The one whose rows are listed. They may be the same.
        origin: Where the search began, until it has jumped.
        steps: To go, from where the cursor is.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("full_stop,f3", "hit(1)", "Next hit", show=False),
        Binding("comma,shift+f3", "hit(-1)", "Previous hit", show=False),
    ]
    finding: Finding | None = None
    filtered: Finding | None = None
    origin: Where | None = None
    steps = 0
    _seeking = 0  # places that are being looked for

    # what the tab has

    @property
    def idle(self) -> bool:
        """No search runs, and no hit is being gone to."""
        return not self._seeking and not self.searches

    @property
    def searches(self) -> bool:
        """A search runs, or has something left to tell."""
        return any(one.busy for one in (self.finding, self.filtered) if one)

    def _seek(self, work: Callable[[], Where | None], then: Callable[[Where | None], None]) -> None:
        """Look for a place on a thread of its own: on the desk, the next wish would replace it."""
        self._seeking += 1
        generation = self.generation

        def sought(outcome: object) -> None:
            self._seeking -= 1
            if isinstance(outcome, Exception):
                self.notify(f"{type(outcome).__name__}: {outcome}", severity="error", markup=False)
            elif generation == self.generation:
                then(cast("Where | None", outcome))

        Job(lambda _: work(), lambda outcome: self.post_message(Sought(partial(sought, outcome))))

    @on(Sought)
    def _sought(self, message: Sought) -> None:
        message.then()

    def jump_first(self, finding: Finding, origin: Where) -> None:
        """Go to the first hit from where the search began, unless somebody has moved on."""
        if self.where != origin or (not finding.running and not finding.kept.hits):
            self.origin = None  # somebody has moved on, or there is nothing
            return

        def first() -> Where | None:
            found = finding.first(origin)
            if found is not None and not self._listed(found):
                found = self._next(finding, (found.row, found.start), 1)
            if found is None or (found.wrapped and finding.running and not finding.kept.round):
                return None
            self.origin = None
            return self._arrived(finding, found)

        if finding.kept.hits:
            self._seek(first, lambda where: None if where is None else self.go(where))

    def action_hit(self, step: int) -> None:
        """Go to the next hit."""
        finding = self.finding
        if finding is not None and finding.ground.port is not self.reader.port:
            return  # another view is about to be shown
        if finding is None or not finding.kept.hits:
            self.notify("Nothing was found yet." if finding else "/ finds something first.")
            return
        self.steps += step
        steps, where, self.origin = self.steps, self.where, None

        def stepped() -> Where | None:
            found: Found | None = None
            place = (where[0], finding.at(where, end=steps > 0))
            for _ in range(abs(steps)):
                found = self._next(finding, place, 1 if steps > 0 else -1)
                if found is None:
                    return None
                place = (found.row, found.start)
            return None if found is None else self._arrived(finding, found)

        def then(place: Where | None) -> None:
            if place is None:
                self.steps = 0
                self.notify("No hit is in what is listed: F lists all.")
            else:
                self.go(place)

        self._seek(stepped, then)

    def _listed(self, found: Found) -> bool:
        return self.filtered is None or self.filtered.kept.has(found.row)

    def _next(self, finding: Finding, place: Where, step: int) -> Found | None:
        """The next hit that is listed."""
        for _ in range(finding.kept.held):
            found = finding.kept.following(*place, step)
            if found is None or self._listed(found):
                return found
            place = (found.row, found.start)
        return None

    def _arrived(self, finding: Finding, found: Found) -> Where:
        """Where a hit is. On the worker; what is said of it waits in the bar."""
        bar = self.query_one(FindBar)
        bar.number, bar.wrapped = found.number, found.wrapped
        return finding.where(found)
