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

    def pair(self) -> tuple[Session, Session] | None:
        """The first two datasets, opened; None when the second cannot be, which was said."""
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
                run = partial(owner.run_action, binding.action)
                yield SystemCommand(binding.description, f"key {self.get_key_display(binding)}", run)
