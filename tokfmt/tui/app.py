"""The browser: which datasets are open, which tab is shown, what is being loaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.message import Message
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import ContentSwitcher

from tokfmt.core.errors import TokfmtError
from tokfmt.ops.sources import SourceRequest
from tokfmt.tui.about import summary
from tokfmt.tui.loading import Loading, Result
from tokfmt.tui.overlays import Overlays
from tokfmt.tui.screens.first import First
from tokfmt.tui.session import Session, Where, open_session, other_split, refused_session
from tokfmt.tui.tabs import TABS, Entry
from tokfmt.tui.tabs.tab import Tab
from tokfmt.tui.vocabulary import Vocabulary
from tokfmt.tui.widgets.keys import Keys
from tokfmt.tui.widgets.topbar import TabLabel, TopBar

DARK, LIGHT = "tokyo-night", "catppuccin-latte"


class Loaded(Message):
    """A worker has something for a session."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result


class Switcher(ContentSwitcher):
    """Shows one tab."""

    BLANK = True  # covered by that


class Browser(Overlays):
    """Shows datasets.

    Args:
        session: The first dataset, opened.
        others: How to open the others, which happens when they are first shown.
        tokenizer: As the user gave it.
        theme: A theme's name.
        compared: The second dataset, opened: begin by comparing both.
    """

    TITLE = "tokfmt browse"
    CSS_PATH = "browse.tcss"
    ENABLE_COMMAND_PALETTE = True
    # so that the stylesheet is parsed once, not again for a theme that is set later
    theme: Reactive[str] = Reactive(DARK, init=False)
    BINDINGS: ClassVar[list[BindingType]] = [
        *Overlays.BINDINGS,
        Binding("escape", "cancel", "Stop loading", show=False),
        Binding("q", "quit", "Quit"),
        *(Binding(tab.key, f"tab('{tab.name}')", tab.title, show=False) for tab in TABS),
    ]

    def __init__(
        self,
        session: Session,
        others: Sequence[SourceRequest] = (),
        tokenizer: str | None = None,
        theme: str = DARK,
        compared: Session | None = None,
    ) -> None:
        super().__init__()
        self.requests = [session.request, *others]
        self.sessions: dict[int, Session] = {0: session, **({} if compared is None else {1: compared})}
        self.tabs = [tab for tab in TABS if len(self.requests) == 2 or not tab.pair]
        self.loadings: dict[int, Loading] = {}
        self._new: list[Tab] = []  # tabs that have not been laid out
        self._aside: dict[tuple[int, str], Session] = {}  # other splits, as they were left
        self.current, self._tokenizer = 0, tokenizer
        self.entry: Entry = TABS[0] if compared is None else next(tab for tab in TABS if tab.pair)
        if theme != DARK:
            self.theme = theme

    def get_default_screen(self) -> Screen[None]:
        return First()

    def compose(self) -> ComposeResult:
        yield TopBar([(tab.name, tab.title, tab.key) for tab in self.tabs])
        with Switcher(initial=self.entry.name):
            yield TABS[0].make()
            if self.entry is not TABS[0]:
                yield self._made(self.entry)
        yield Keys()

    def on_mount(self) -> None:
        self.screen.screen_layout_refresh_signal.subscribe(self, self._laid_out)
        self.show_dataset(0)
        self._show_tab(self.entry)
        # the footer keeps still while the app is in the background, as a page is until it has the focus
        self.watch(self, "app_focus", self._footer, init=False)

    def _footer(self) -> None:
        self.call_after_refresh(self.screen.refresh_bindings)

    @property
    def session(self) -> Session:
        """The dataset that is shown."""
        return self.sessions[self.current]

    @property
    def tab(self) -> Tab:
        """The tab that is shown."""
        return self.query_one(f"#{self.entry.name}", Tab)

    @property
    def idle(self) -> bool:
        """Nothing is being loaded for anybody."""
        desks = [widget.desk for widget in self.query("*") if hasattr(widget, "desk")]
        loaded = all(loading.job is None for loading in self.loadings.values())
        places = [*self.query(Tab), self.screen]
        return loaded and all(desk.idle for desk in desks) and all(getattr(place, "idle", True) for place in places)

    # datasets

    def show_dataset(self, number: int) -> None:
        """Show a dataset, opening it when that has not been done."""
        self._open(number)
        self.current = number
        self.refresh_tabs()

    def _open(self, number: int) -> Session:
        """A dataset, opened, the rest of it being loaded; `refused` when it cannot be."""
        if number not in self.sessions:
            try:
                self.sessions[number] = open_session(self.requests[number], self._tokenizer)
            except TokfmtError as error:
                self.sessions[number] = refused_session(self.requests[number], error)
        if number not in self.loadings:
            self._load(number)
        return self.sessions[number]

    def _load(self, number: int, vocabulary: Vocabulary | None = None) -> None:
        """Load what is still to come of a dataset."""
        loading = Loading(self.sessions[number], lambda result: self.post_message(Loaded(result)))
        self.loadings[number] = loading
        loading.start(vocabulary)

    def show_split(self, split: str, numbers: Sequence[int] | None = None) -> None:
        """Show another split of the dataset that is shown, or of some by number; those that do not have it stay."""
        for number in (self.current,) if numbers is None else numbers:
            before = self._open(number)
            if split in before.splits and split != before.split:
                self.loadings[number].cancel()
                self._aside[number, before.split] = before
                after = self._aside.get((number, split)) or other_split(before, split, self._tokenizer)
                after.verdict, after.choice = before.verdict, before.choice  # of the whole dataset
                self.sessions[number] = after
                self._load(number, before.vocabulary)
        self.refresh_tabs()

    def pair(self) -> tuple[Session, Session]:
        return self._open(0), self._open(1)

    def pair_waits(self) -> str:
        for number in (0, 1):
            session, other = self.sessions[number], self.sessions[1 - number]
            if session.refused is not None:
                continue
            if session.of_text and not (session.choice or session.failure or other.of_text) and other.vocabulary:
                session.choice = other.choice  # text is compared as the tokens of the other side
                self.loadings[number].start()
            self.loadings[number].start_documents()
        names = [name for number, name in ((0, "A"), (1, "B")) if self.loadings[number].stage is not None]
        return f"opening {' and '.join(names)}" if names else ""

    def refresh_tabs(self) -> None:
        for tab in self.query(Tab):
            if tab.is_mounted:  # else it is about to be shown
                tab.show(self.session)
        self._say()

    def _say(self) -> None:
        bar, session = self.query_one(TopBar), self.session
        bar.say(*summary(session, self.loadings.get(self.current), len(self.requests)))
        bar.say_splits(session.splits, session.split)
        self.refresh_bindings()

    def on_loaded(self, message: Loaded) -> None:
        result = message.result
        loading = next((one for one in self.loadings.values() if one.session is result.session), None)
        if loading is None:  # it came too late: another split is shown
            return
        if result.outcome is not None:
            loading.take(result)
            if isinstance(result.outcome, Exception):
                self.notify(result.session.failure, severity="warning", timeout=10, markup=False)
            self.refresh_tabs()
        self._say()

    def show_view(self, name: str) -> None:
        """Documents, samples: one of the views that are known."""
        self.session.see(name)
        self.refresh_tabs()

    def next_view(self) -> None:
        """Documents, samples, documents; or begin to look for the documents."""
        session, loading = self.session, self.loadings[self.current]
        if len(session.opened.views) > 1:
            session.switch()
            self.refresh_tabs()
        elif session.opened.pending:
            loading.start_documents()
            self._say()
        else:
            why = f" {session.opened.notes[-1]}" if session.opened.notes else ""
            self.notify(f"There are only {session.view.name} here.{why}", markup=False)

    def on_tab_seen(self) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, First):
                screen.show()

    # tabs

    def _made(self, entry: Entry) -> Tab:
        """Another tab than the first; with the styles of those, which the first screen does not wait for."""
        sheet = Path(__file__).with_name("tabs.tcss")
        if not self.stylesheet.has_source(str(sheet)):
            self.stylesheet.read(sheet)
            self.stylesheet.parse()
        return entry.make()

    def _show_tab(self, entry: Entry) -> None:
        switcher, self.entry = self.query_one(Switcher), entry
        if not switcher.query(f"#{entry.name}"):
            tab = self._made(entry)
            switcher.mount(tab)  # known to the switcher at once, unlike with its add_content
            self._new.append(tab)
            tab.call_later(lambda: tab.show(self.session))  # in its own queue, so that it has its widgets by then
        switcher.current = entry.name
        self.query_one(TopBar).choose(entry.name)
        self.tab.call_after_refresh(self.tab.enter)

    def _laid_out(self, screen: Screen[object]) -> None:  # noqa: ARG002 - the signal's
        """Tell the widgets of new tabs their size.

        Textual does not where anything on the screen was touched between mounting and laying out: a widget that asks
        for its place then makes it known, and at the layout nothing seems new.
        """
        for tab in [tab for tab in self._new if tab.size]:
            self._new.remove(tab)
            for widget in tab.walk_children(Widget, with_self=True):
                widget.post_message(Resize(widget.size, widget.virtual_size, widget.container_size))

    def action_tab(self, name: str) -> None:
        entry = next(entry for entry in TABS if entry.name == name)
        if entry in self.tabs:
            self._show_tab(entry)
        else:
            self.notify("This takes two datasets: tokfmt browse A B --diff")

    def on_tab_label_clicked(self, message: TabLabel.Clicked) -> None:
        self.action_tab(message.name)

    def go_to(self, position: int) -> None:
        """Show a token position in the tab of sequences."""
        self._show_tab(TABS[0])
        self.tab.reveal(position)

    def filter(self, words: str) -> None:
        """List only the rows that a query finds (`10<=len<20`, see `ops.query`), in the tab of sequences."""
        self._show_tab(TABS[0])
        self.tab.filter(words)  # type: ignore[attr-defined]

    async def on_split_label_clicked(self) -> None:
        await self.action_split()

    def on_filter_label_clicked(self) -> None:
        self.query_one(f"#{TABS[0].name}", Tab).filter("")  # type: ignore[attr-defined]

    def go_to_where(self, where: Where) -> None:
        """Show a row in the tab of sequences, the cursor on a token of it."""
        self._show_tab(TABS[0])
        self.tab.go(where)

    def go_to_bytes(self, path: Path, offset: int, length: int = 0) -> None:
        """Show bytes of a file in the tab of the index."""
        self.action_tab("index")
        tab = self.tab
        tab.call_after_refresh(lambda: tab.reveal_bytes(path, offset, length))

    def action_cancel(self) -> None:
        self.cancel()

    def cancel(self) -> None:
        if self.loadings[self.current].cancel():
            self._say()

    def on_unmount(self) -> None:
        for loading in self.loadings.values():
            loading.cancel()
