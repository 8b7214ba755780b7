"""The first line: tabs, the dataset, what is being loaded."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Static


class TabLabel(Static):
    """The name of a tab."""

    class Clicked(Message):
        """Somebody wants this tab."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, name: str, title: str, key: str) -> None:
        super().__init__(f"[$text-muted]{key}[/] {title}", classes="tab", id=f"label-{name}")
        self.tab = name

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.Clicked(self.tab))


class FilterLabel(Static):
    """What the list is filtered by; a click lists all again."""

    class Clicked(Message):
        """Somebody wants to see all."""

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.Clicked())


class TopBar(Horizontal):
    """Says where one is.

    Args:
        tabs: Name, title and key of each.
    """

    def __init__(self, tabs: Sequence[tuple[str, str, str]]) -> None:
        super().__init__(id="topbar")
        self._tabs = tabs

    def compose(self) -> ComposeResult:
        for name, title, key in self._tabs:
            yield TabLabel(name, title, key)
        yield FilterLabel("", id="filtered", markup=False)
        yield Static("", id="dataset", markup=False)
        yield Static("", id="loading", markup=False)

    def choose(self, name: str) -> None:
        """Mark a tab as the one that is shown."""
        for label in self.query(TabLabel):
            label.set_class(label.tab == name, "current")

    def on_mount(self) -> None:
        self.say_filter("")

    def say_filter(self, words: str) -> None:
        """What the list is filtered by; "" for nothing."""
        self.query_one("#filtered", Static).update(words)
        self.query_one("#filtered", Static).display = bool(words)

    def say(self, dataset: str, loading: str) -> None:
        """What is open, and what is being loaded."""
        self.query_one("#dataset", Static).update(dataset)
        self.query_one("#loading", Static).update(loading)
        self.query_one("#loading", Static).display = bool(loading)
