"""The dialog that chooses a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Footer, Input, Label, OptionList
from textual.widgets.option_list import Option

from tokfmt.browser import keys
from tokfmt.browser.data.session import Choice
from tokfmt.browser.data.tokenizers import NONE
from tokfmt.browser.dialogs import Choices, Dialog, Line
from tokfmt.wording import printable


class TokenizerList(Dialog[str]):
    """Ask for a tokenizer; the result is its name, directory or file, `NONE` for none, or None after Escape.

    Args:
        known: The tokenizers to choose from.
        used: The name of the one in use; "" without one.
    """

    BINDINGS = keys.TOKENIZERS

    def __init__(self, known: Sequence[Choice], used: str) -> None:
        super().__init__()
        self._used = used
        self._choices = [*known, *([Choice(NONE, "shows IDs, or characters of text")] if used else [])]

    def compose(self) -> ComposeResult:
        with Vertical(classes="box tall"):
            yield Label("Tokenizer: a name, a directory or a tokenizer.json", classes="title")
            yield Line(placeholder="gpt2", compact=True)
            yield Choices(markup=False)
        yield Footer(compact=True)

    def ready(self) -> None:
        rows = self.query_one(OptionList)
        rows.add_options(Option(self._line(one)) for one in self._choices)
        rows.display = bool(self._choices)
        self.set_focus(self.query_one(Input))

    def _line(self, one: Choice) -> str:
        source = "in use" if one.name == self._used else one.source
        return f"{printable(one.name)}  ({source})"

    def action_list(self) -> None:
        rows = self.query_one(OptionList)
        if self._choices and not rows.has_focus:
            rows.highlighted = 0
            rows.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._answer(event.value.strip())

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self._answer(self._choices[event.option_index].name)

    def _answer(self, name: str) -> None:
        if name and self.is_current:
            self.dismiss(name)
