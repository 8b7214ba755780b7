"""Base classes of tabs: what a tab is to the app, long work, and going to a sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from textual.containers import Container

from tokfmt.browser import keys
from tokfmt.browser.data.check import checked
from tokfmt.browser.data.session import Session, Where
from tokfmt.browser.data.spots import Spot
from tokfmt.browser.data.workers import Job
from tokfmt.browser.widgets.loading import WithLoader
from tokfmt.browser.work import Work
from tokfmt.wording import printable

if TYPE_CHECKING:
    from tokfmt.browser.data.types import SourceRequest


class Entry(NamedTuple):
    """A line of the table of tabs."""

    name: str  # name of the tab, and ID of its widget
    title: str  # title on the screen
    key: str  # key that shows the tab
    widget: str  # where the class is: "module:Class", the module within `tokfmt.browser.tabs`

    def make(self, host: Host) -> Tab:
        """Make the widget. Its module is imported only now, as the modules of all tabs take a quarter of a second."""
        module, _, name = self.widget.partition(":")
        kind: type[Tab] = getattr(import_module(f"tokfmt.browser.tabs.{module}"), name)
        tab = kind(id=self.name)
        tab.host = host
        return tab


class Host(Protocol):
    """The app around the tabs, as a tab sees it."""

    requests: list[SourceRequest]
    """The requests of the open datasets, in order."""
    entry: Entry
    """The tab on the screen."""

    @property
    def hides(self) -> bool:
        """Return whether the rows are not shown yet, as their text is coming."""

    def action_cancel(self) -> bool: ...
    def go_up(self) -> bool: ...
    def refresh_tabs(self) -> None: ...
    def say(self) -> None: ...
    def probe(self) -> None: ...
    def show_health(self) -> None: ...
    def next_view(self) -> None: ...
    def go(self, spot: Spot, *, leaves: bool = True) -> None: ...
    def leave(self, **left: Any) -> None: ...
    def copy(self, text: str, description: str) -> None: ...
    def number_of(self, request: SourceRequest) -> int: ...

    async def export(self, what: str, stem: str, write: Callable[[str, Job], int]) -> None: ...
    async def export_lines(self, records: Iterable[Mapping[str, object]], what: str, stem: str) -> None: ...


class Tab(WithLoader, Container):
    """A tab."""

    host: Host  # the app
    session: Session  # the dataset that the tab shows

    @property
    def idle(self) -> bool:
        """Return whether no long work is running, for which a picture should wait."""
        return True

    def show(self, session: Session) -> None:
        """Show a dataset: another one, or the same after a part of it was loaded.

        Called in the thread of the screen, even if the tab is hidden; it must not read.
        """
        self.session = session

    def judged(self) -> None:
        """Show the verdict of a check."""

    def enter(self) -> None:
        """Take the focus, as the tab is on the screen now."""

    def offers(self, action: str, parameters: tuple[object, ...]) -> bool:  # noqa: ARG002 - subclasses look at them
        """Return whether an action would do something now (`keys.is_offered`)."""
        return True

    def spot(self) -> object:
        """Return the place within the tab, for the way back (`Spot.inside`); None without one."""
        return None

    def show_inside(self, inside: Any) -> None:
        """Show a place within the tab, as `spot` returns it."""

    def here(self, where: Where) -> Spot:
        """Return the place of a row and a token in the view on the screen."""
        return Spot(where, self.session.shown)

    def go_to_sequence(self, find: Callable[[], Where | None], otherwise: str = "no sequence is there") -> None:
        """Show the position that `find` returns in a worker, in the tab of sequences, or a notification for None."""

        def then(found: Where | None) -> None:
            if found is None:
                self.notify(otherwise, severity="warning", markup=False)
            else:
                self.host.go(self.here(found))

        self.loader.ask(find, then)


class Working(Tab):
    """A tab with long work, one at a time; new work replaces the old one."""

    BINDINGS = keys.STOP
    failure = ""  # the error of the work

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._work = Work(self)

    @property
    def job(self) -> Job | None:
        """Return the long work of the tab; None without any."""
        return self._work.get("")

    @property
    def idle(self) -> bool:
        return not self._work

    def check(self, *, deep: bool) -> None:
        """Check the dataset; every token of it if the check is `deep`."""
        session = self.session

        def checked_now(outcome: object) -> None:
            if isinstance(outcome, Exception):
                self.failure = f"✗ {printable(outcome)}"
                self.judged()
            else:
                session.verdict, self.failure = outcome, ""  # type: ignore[assignment]
                self.host.show_health()

        self.begin(lambda job: checked(session, job, deep=deep), checked_now)

    def begin(self, work: Callable[[Job], object], then: Callable[[object], object]) -> None:
        """Start work in a thread; `then` is called in this thread with its result or error, unless it was stopped."""
        self.stop()
        self._work.begin("", work, then, self.say)
        self.say()

    def stop(self) -> None:
        """Cancel the work."""
        self.loader.forget()
        self._work.cancel()

    def say(self) -> None:
        """Show the progress of the work."""

    def doing(self, what: str) -> str:
        """Return the progress of the work in words."""
        share = self.job.share if self.job else None
        name = (self.job.name if self.job else "") or what
        return f"◌ {name} …  esc stops" if share is None else f"◌ {name} {share:.1%}  esc stops"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action applies; without work, Escape is for the app."""
        return self.job is not None if action == "stop" else super().check_action(action, parameters)

    def action_stop(self) -> None:
        self.stop()
        self.say()

    def on_unmount(self) -> None:
        self.stop()
