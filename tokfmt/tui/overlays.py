"""What the app lays over everything for a moment: help, facts, the choice of a dataset, the command palette."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from tokfmt.core.errors import TokfmtError, printable
from tokfmt.ops.sources import SourceRequest
from tokfmt.tui.about import about, bindings_of, help_blocks
from tokfmt.tui.keyed import Keyed
from tokfmt.tui.session import Session
from tokfmt.tui.tabs import Entry
from tokfmt.tui.tabs.tab import Tab


class Overlays(Keyed):
    """The part of the browser that opens screens."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("V", "split", "Split"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("i", "about", "About this dataset", show=False),
        Binding("d", "datasets", "Datasets", show=False),
        Binding("S", "picture", "Save a picture of the screen (SVG)", show=False),
    ]
    requests: Sequence[SourceRequest]
    current: int
    entry: Entry

    @property
    def session(self) -> Session:
        """The dataset that is shown."""
        raise NotImplementedError

    @property
    def tab(self) -> Tab:
        """The tab that is shown."""
        raise NotImplementedError

    def show_dataset(self, number: int) -> None:
        """Show one of the datasets."""
        raise NotImplementedError

    def show_split(self, split: str, numbers: Sequence[int] | None = None) -> None:
        """Show another split of the dataset that is shown, or of some by number; those that do not have it stay."""
        raise NotImplementedError

    def pair(self) -> tuple[Session, Session]:
        """The first two datasets, opened."""
        raise NotImplementedError

    def pair_waits(self) -> str:
        """What is being loaded of the first two datasets, begun now if need be; "" when both are there."""
        raise NotImplementedError

    def refresh_tabs(self) -> None:
        """Tell every tab that what is shown has changed."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Call off what is being loaded."""
        raise NotImplementedError

    def action_help(self) -> None:
        from tokfmt.tui.screens.page import Page

        self.push_screen(Page("Keys", help_blocks(self, self.entry.title, self.tab)))

    def action_about(self) -> None:
        from tokfmt.tui.screens.page import Page

        self.push_screen(Page(printable(self.session.path), about(self.session), 90))

    def action_datasets(self) -> None:
        from tokfmt.tui.screens.choice import OneOf

        if len(self.requests) == 1:
            self.notify("Only one dataset is open: tokfmt browse A B opens several.")
            return
        names = [printable(request.paths[0]) for request in self.requests]
        then: Callable[[int | None], None] = lambda number: None if number is None else self.show_dataset(number)  # noqa: E731
        self.push_screen(OneOf("Datasets", names, self.current), then)

    async def action_split(self) -> None:
        """Show the other split, or ask which one of several."""
        from tokfmt.tui.screens.choice import OneOf

        names = self.session.splits
        at = names.index(self.session.split)
        if len(names) == 2:
            self.show_split(names[1 - at])
            return
        then: Callable[[int | None], None] = lambda number: None if number is None else self.show_split(names[number])  # noqa: E731
        await self.push_screen(OneOf("Splits", list(map(printable, names)), at), then)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There is another split to show only where there are several."""
        return len(self.session.splits) > 1 if action == "split" else super().check_action(action, parameters)

    async def action_picture(self) -> None:
        from tokfmt.tui.pictures import free_name, refusal, saved
        from tokfmt.tui.screens.question import Question

        drawn = self.export_screenshot(title=self.TITLE)  # before the question covers it

        def answered(answer: str | None) -> None:
            try:
                if answer:
                    self.notify(printable(saved(drawn, answer)), title="Saved", markup=False)
            except TokfmtError as error:
                self.notify(str(error), title="Not saved", severity="error", markup=False)

        name = free_name(f"tokfmt-{Path(self.session.path.name).stem}", ".svg")
        await self.push_screen(Question("Save a picture of the screen as", name, refusal), answered)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the command palette offers: what Textual does, and every action of the tab that is shown."""
        yield from super().get_system_commands(screen)
        for owner in (self.tab, self):
            for binding in bindings_of(owner):
                if not owner.check_action(binding.action.partition("(")[0], ()):
                    continue
                run = partial(owner.run_action, binding.action)
                yield SystemCommand(binding.description, f"key {self.get_key_display(binding)}", run)
