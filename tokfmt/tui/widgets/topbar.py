"""The first line: tabs, the dataset, what is being loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from tokfmt.core.errors import printable


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


class SplitLabel(Static):
    """Which split is shown, and which others there are; a click shows another."""

    class Clicked(Message):
        """Somebody wants to see another split."""

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.post_message(self.Clicked())


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
        self._splits: tuple[Sequence[str], str] = ((), "")

    def compose(self) -> ComposeResult:
        for name, title, key in self._tabs:
            yield TabLabel(name, title, key)
        yield Static("", id="dataset", markup=False)

    def choose(self, name: str) -> None:
        """Mark a tab as the one that is shown."""
        for label in self.query(TabLabel):
            label.set_class(label.tab == name, "current")

    def say_filter(self, words: str) -> None:
        """What the list is filtered by; "" for nothing."""
        if words and not self.query(FilterLabel):
            self.mount(FilterLabel("", id="filtered", markup=False), after=f"#label-{self._tabs[-1][0]}")
        _tell(self.query(FilterLabel), words)

    def say_splits(self, names: Sequence[str], shown: str) -> None:
        """All splits, and the one that is shown; there is nothing to say of one alone."""
        self._splits = (names if len(names) > 1 else ()), shown
        if self._splits[0] and not self.query(SplitLabel):
            self.mount(SplitLabel("", id="split", markup=False), before="#dataset")
        self._tell_splits()

    def _tell_splits(self) -> None:
        names, shown = self._splits
        for label in self.query(SplitLabel):
            label.display = bool(names)
            if names:
                label.update(_splits(names, shown, self.app.size.width // 6))

    def on_resize(self) -> None:
        self._tell_splits()

    def say(self, dataset: str, loading: str) -> None:
        """What is open, and what is being loaded."""
        self.query_one("#dataset", Static).update(dataset)
        if loading and not self.query("#loading"):
            self.mount(Static("", id="loading", markup=False))
        _tell(self.query("#loading").results(Static), loading)


def _tell(labels: Iterable[Static], words: str) -> None:
    """Words in a label that is not there for none."""
    for label in labels:
        label.update(words)
        label.display = bool(words)


def _splits(names: Sequence[str], shown: str, room: int) -> Content:
    """All names where there is room for them, else the one that is shown and how many there are."""
    told = {name: printable(name) for name in names}
    if sum(len(name) + 1 for name in told.values()) > room:
        parts = [Content.styled(told[shown], "bold"), Content(f"{names.index(shown) + 1}/{len(names)}")]
    else:
        parts = [Content.styled(told[name], "bold reverse" if name == shown else "$text-muted") for name in names]
    return Content(" ").join([Content.styled("V", "$text-muted"), *parts])
