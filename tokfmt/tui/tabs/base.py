"""Base classes of tabs: what a tab is to the app, long work, and going to a sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol

from textual.binding import Binding, BindingType
from textual.containers import Container

from tokfmt.core.errors import OptionError, TokfmtError
from tokfmt.core.options import parse_count
from tokfmt.core.text_format import counted
from tokfmt.tui.session import Session, Where
from tokfmt.tui.widgets.row_view import WithLoader
from tokfmt.tui.workers import Job

if TYPE_CHECKING:
    from tokfmt.ops.source.request import SourceRequest


class Entry(NamedTuple):
    """A line of the table of tabs.

    Attributes:
        name: Name of the tab, and ID of its widget.
        title: Title on the screen.
        key: Key that shows the tab.
        widget: Where the class is: "module:Class", the module within `tokfmt.tui.tabs`.
        pair: Show the tab only where two datasets are open.
    """

    name: str
    title: str
    key: str
    widget: str
    pair: bool = False

    def make(self, host: Host) -> Tab:
        """Make the widget. Its module is imported only now, as the modules of all tabs take a quarter of a second."""
        module, _, name = self.widget.partition(":")
        kind: type[Tab] = getattr(import_module(f"tokfmt.tui.tabs.{module}"), name)
        tab = kind(id=self.name)
        tab.host = host
        return tab


class Host(Protocol):
    """The app around the tabs, as a tab sees it."""

    @property
    def requests(self) -> Sequence[SourceRequest]:
        """The datasets that are open, in order."""
        ...

    @property
    def entry(self) -> Entry:
        """The tab that is shown."""
        ...

    def pair(self) -> tuple[Session, Session] | None: ...
    def pair_waits(self) -> str: ...
    def action_cancel(self) -> None: ...
    def refresh_tabs(self) -> None: ...
    def show_view(self, name: str) -> None: ...
    def next_view(self) -> None: ...
    def filter(self, words: str) -> None: ...
    def go_to_where(self, where: Where) -> None: ...
    def go_to_bytes(self, path: Path, offset: int, length: int = 0) -> None: ...

    def show_split(
        self, split: str, numbers: Sequence[int] | None = None, then: Callable[[], None] = lambda: None
    ) -> None: ...

    async def ask_line(
        self,
        text: str,
        then: Callable[[str], object],
        value: str = "",
        check: Callable[[str], str] | None = None,
        refused: str = "",
    ) -> None: ...


class Tab(WithLoader, Container):
    """A tab.

    Attributes:
        host: The app.
        session: The dataset that the tab shows.
    """

    host: Host
    session: Session
    job: Job | None = None
    """Long work that the tab does, None when it does none."""

    @property
    def idle(self) -> bool:
        """Nothing long is under way here that a picture should wait for."""
        return self.job is None

    def show(self, session: Session) -> None:
        """Show a dataset: another one, or the same after something of it was loaded.

        Called on the thread of the screen, also while the tab is hidden; reads nothing.
        """
        self.session = session

    def enter(self) -> None:
        """The tab is shown: take the focus."""

    def go_to_sequence(self, find: Callable[[], Where | None], otherwise: str = "no sequence lies there") -> None:
        """Show what `find` finds, on a worker, in the tab of sequences; else say why not."""

        def tried() -> Where | str:
            try:
                return find() or otherwise
            except TokfmtError as error:
                return str(error)

        def then(found: Where | str) -> None:
            if isinstance(found, str):
                self.notify(found, severity="warning", markup=False)
            else:
                self.host.go_to_where(found)

        self.loader.ask(tried, then)


class Working(Tab):
    """One long piece of work at a time; a new one replaces the old one."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "stop", "Stop", show=False)]

    def begin(self, work: Callable[[Job], object], then: Callable[[object], object]) -> None:
        """Do work; `then` is called here with its result or error, unless it was stopped."""
        self.stop()

        def ended(outcome: object) -> None:
            if self.job is job:  # else it was stopped meanwhile
                self.job = None
                then(outcome)

        job = self.job = Job(work, lambda outcome: self.call_later(ended, outcome), lambda: self.call_later(self.say))
        self.say()

    def stop(self) -> None:
        """Call off what is being done."""
        self.loader.forget()
        if self.job is not None:
            self.job.cancel()
            self.job = None

    def say(self) -> None:
        """Show how far the work is."""

    def doing(self, what: str) -> str:
        """How far the work is, in words."""
        share = self.job.share if self.job else None
        name = (self.job.name if self.job else "") or what
        return f"◌ {name} …  esc stops" if share is None else f"◌ {name} {share:.1%}  esc stops"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Escape is the app's when nothing is done here."""
        return self.job is not None if action == "stop" else super().check_action(action, parameters)

    def action_stop(self) -> None:
        self.stop()
        self.say()

    def on_unmount(self) -> None:
        self.stop()


def number_words(what: str, count: int) -> str:
    """Asks for a number that `parse_number` takes."""
    return f"{what}, 0 to {max(0, count - 1):,}; -1 is the last, 50% the middle"


def parse_number(answer: str, count: int, what: str) -> int:
    """A number below `count` as people type it: `17`, `-1` from the end, `50%` of the way; `what` is counted.

    Raises:
        OptionError: It is none, or there are not so many.
    """
    plain, number = answer.strip(), count
    if plain.endswith("%"):
        try:
            share = float(plain[:-1]) / 100
        except ValueError:
            raise OptionError(f"{plain!r} is no share; write it like 50% or 99.5%") from None
        if 0 <= share <= 1:
            number = min(int(share * count), count - 1)
    else:
        number = parse_count(plain)
        number += count if number < 0 else 0
    if not 0 <= number < count:
        raise OptionError(f"there are {counted(count, what)}: 0 to {max(0, count - 1):,}, or 0% to 100%")
    return number
