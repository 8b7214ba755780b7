"""The browser: which datasets are open, which tab is shown, what is being loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widgets import ContentSwitcher

from tokfmt.core.errors import TokfmtError
from tokfmt.ops.sources import SourceRequest
from tokfmt.tui.about import summary
from tokfmt.tui.loading import Loading, Result
from tokfmt.tui.overlays import Overlays
from tokfmt.tui.screens.first import First
from tokfmt.tui.session import Session, open_session
from tokfmt.tui.tabs import TABS, Entry
from tokfmt.tui.tabs.tab import Tab
from tokfmt.tui.widgets.keys import Keys
from tokfmt.tui.widgets.topbar import TabLabel, TopBar

DARK, LIGHT = "tokyo-night", "catppuccin-latte"


class Loaded(Message):
    """A worker has something for a session."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result


class Browser(Overlays):
    """Shows datasets.

    Args:
        session: The first dataset, opened.
        others: How to open the others, which happens when they are first shown.
        tokenizer: As the user gave it.
        theme: A theme's name.
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
        self, session: Session, others: Sequence[SourceRequest] = (), tokenizer: str | None = None, theme: str = DARK
    ) -> None:
        super().__init__()
        self.requests = [session.request, *others]
        self.sessions: dict[int, Session] = {0: session}
        self.loadings: dict[int, Loading] = {}
        self.current, self._tokenizer = 0, tokenizer
        self.entry: Entry = TABS[0]
        if theme != DARK:
            self.theme = theme

    def get_default_screen(self) -> Screen[None]:
        return First()

    def compose(self) -> ComposeResult:
        yield TopBar([(tab.name, tab.title, tab.key) for tab in TABS])
        with ContentSwitcher(initial=TABS[0].name):
            yield TABS[0].make()
        yield Keys()

    def on_mount(self) -> None:
        self.show_dataset(0)
        self._show_tab(TABS[0])

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
        return all(loading.job is None for loading in self.loadings.values()) and all(desk.idle for desk in desks)

    # datasets

    def show_dataset(self, number: int) -> None:
        """Show a dataset, opening it when that has not been done."""
        if number not in self.sessions:
            try:
                self.sessions[number] = open_session(self.requests[number], self._tokenizer)
            except TokfmtError as error:
                self.notify(str(error), severity="error", timeout=15, markup=False)
                return
        self.current = number
        if number not in self.loadings:
            self.loadings[number] = Loading(self.session, lambda result: self.post_message(Loaded(result)))
            self.loadings[number].start()
        self._changed()

    def _changed(self) -> None:
        """Tell everybody of the session."""
        for tab in self.query(Tab):
            tab.show(self.session)
        self._say()

    def _say(self) -> None:
        self.query_one(TopBar).say(*summary(self.session, self.loadings.get(self.current), len(self.requests)))

    def on_loaded(self, message: Loaded) -> None:
        result = message.result
        loading = next(one for one in self.loadings.values() if one.session is result.session)
        if result.outcome is not None:
            loading.take(result)
            if isinstance(result.outcome, Exception):
                self.notify(result.session.failure, severity="warning", timeout=10, markup=False)
            elif result.session is self.session:
                self._changed()
        self._say()

    def next_view(self) -> None:
        """Documents, samples, documents; or begin to look for the documents."""
        session, loading = self.session, self.loadings[self.current]
        if len(session.opened.views) > 1:
            session.switch()
            self._changed()
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

    def _show_tab(self, entry: Entry) -> None:
        switcher, self.entry = self.query_one(ContentSwitcher), entry
        if not switcher.query(f"#{entry.name}"):
            tab = entry.make()
            switcher.add_content(tab, id=entry.name)
            self.call_after_refresh(tab.show, self.session)
        switcher.current = entry.name
        self.query_one(TopBar).choose(entry.name)
        self.call_after_refresh(self.tab.enter)

    def action_tab(self, name: str) -> None:
        self._show_tab(next(entry for entry in TABS if entry.name == name))

    def on_tab_label_clicked(self, message: TabLabel.Clicked) -> None:
        self.action_tab(message.name)

    def go_to(self, position: int) -> None:
        """Show a token position in the tab of sequences."""
        self._show_tab(TABS[0])
        self.tab.reveal(position)

    def action_cancel(self) -> None:
        if self.loadings[self.current].cancel():
            self._say()

    def on_unmount(self) -> None:
        for loading in self.loadings.values():
            loading.cancel()
