"""The browser: which datasets are open, which tab is shown, what is being loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding
from textual.message import Message
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Footer

from tokfmt.core.errors import TokfmtError, printable
from tokfmt.ops.sources import SourceRequest
from tokfmt.tui.about import about, help_blocks, summary
from tokfmt.tui.loading import Loading, Result
from tokfmt.tui.session import Session, open_session
from tokfmt.tui.tabs import TABS, Entry
from tokfmt.tui.tabs.tab import Tab
from tokfmt.tui.widgets.topbar import TabLabel, TopBar

DARK, LIGHT = "tokyo-night", "catppuccin-latte"


class Loaded(Message):
    """A worker has something for a session."""

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result


class Browser(App[None]):
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
    BINDINGS = [
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("i", "about", "About", show=False),
        Binding("d", "datasets", "Datasets", show=False),
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
        self._entry: Entry = TABS[0]
        self.theme = theme

    def compose(self) -> ComposeResult:
        yield TopBar([(tab.name, tab.title, tab.key) for tab in TABS])
        with ContentSwitcher(initial=TABS[0].name):
            yield TABS[0].make()
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self._show_dataset(0)
        self._show_tab(TABS[0])

    @property
    def session(self) -> Session:
        """The dataset that is shown."""
        return self.sessions[self.current]

    @property
    def tab(self) -> Tab:
        """The tab that is shown."""
        return self.query_one(f"#{self._entry.name}", Tab)

    @property
    def idle(self) -> bool:
        """Nothing is being loaded for anybody."""
        desks = [widget.desk for widget in self.query("*") if hasattr(widget, "desk")]
        return all(loading.job is None for loading in self.loadings.values()) and all(desk.idle for desk in desks)

    # datasets

    def _show_dataset(self, number: int) -> None:
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
            self.notify(f"There are only {session.view.name} here.")

    # tabs

    def _show_tab(self, entry: Entry) -> None:
        switcher, self._entry = self.query_one(ContentSwitcher), entry
        if not switcher.query(f"#{entry.name}"):
            tab = entry.make()
            switcher.add_content(tab, id=entry.name)
            self.call_after_refresh(tab.show, self.session)
        switcher.current = entry.name
        self.query_one(TopBar).choose(entry.name)
        self.call_after_refresh(lambda: self.tab.enter())

    def action_tab(self, name: str) -> None:
        self._show_tab(next(entry for entry in TABS if entry.name == name))

    def on_tab_label_clicked(self, message: TabLabel.Clicked) -> None:
        self.action_tab(message.name)

    def go_to(self, position: int) -> None:
        """Show a token position in the tab of sequences."""
        self._show_tab(TABS[0])
        self.tab.reveal(position)

    # over everything else

    def action_help(self) -> None:
        from tokfmt.tui.screens.page import Page

        self.push_screen(Page("Keys", help_blocks(self)))

    def action_about(self) -> None:
        from tokfmt.tui.screens.page import Page

        self.push_screen(Page(printable(self.session.path), about(self.session)))

    def action_datasets(self) -> None:
        from tokfmt.tui.screens.choice import OneOf

        if len(self.requests) == 1:
            self.notify("Only one dataset is open: tokfmt browse A B opens several.")
            return
        names = [printable(request.paths[0]) for request in self.requests]
        then: Callable[[int | None], None] = lambda number: None if number is None else self._show_dataset(number)  # noqa: E731
        self.push_screen(OneOf("Datasets", names, self.current), then)

    def action_cancel(self) -> None:
        if self.loadings[self.current].cancel():
            self._say()

    def get_system_commands(self, screen: Screen[object]):  # type: ignore[no-untyped-def] # noqa: ANN201
        """What the command palette offers: what Textual does, and every action of the tab that is shown."""
        yield from super().get_system_commands(screen)
        for owner in (self.tab, self):
            for _, binding in owner._bindings:
                yield SystemCommand(binding.description, f"key {binding.key}", lambda b=binding, o=owner: o.run_action(b.action))

    def on_unmount(self) -> None:
        for loading in self.loadings.values():
            loading.cancel()
