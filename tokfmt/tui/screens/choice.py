"""A list to choose from, over everything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option


class OneOf(ModalScreen[int | None]):
    """Asks which one; dismissed with its number, or with None by Escape."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Cancel")]

    def __init__(self, text: str, choices: Sequence[str], current: int = 0) -> None:
        super().__init__()
        self._text, self._choices, self._current = text, choices, current

    def compose(self) -> ComposeResult:
        with Vertical(classes="box tall"):
            yield Label(self._text, markup=False)
            yield OptionList(*(Option(choice) for choice in self._choices), markup=False)

    def on_mount(self) -> None:
        self.query_one(OptionList).highlighted = self._current

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_index)

    def action_leave(self) -> None:
        self.dismiss(None)
