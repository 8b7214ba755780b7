"""One line to type into, over everything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from tokfmt.core.errors import TokfmtError


class Question(ModalScreen[str | None]):
    """Asks for a line; dismissed with it, or with None by Escape.

    Args:
        text: What is asked for.
        value: What stands there already.
        check: Says, as one types, what an answer means; raises a TokfmtError when it means nothing, and is not taken.
    """

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Cancel")]

    def __init__(self, text: str, value: str = "", check: Callable[[str], str] | None = None) -> None:
        super().__init__()
        self._text, self._value, self._check = text, value, check

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Label(self._text, markup=False)
            yield Input(self._value, compact=True)
            if self._check is not None:
                yield Label("", id="meaning", markup=False)

    def on_mount(self) -> None:
        self.set_focus(self.query_one(Input))
        self._holds(self._value)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._holds(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if self.is_current and (not event.value.strip() or self._holds(event.value)):
            self.dismiss(event.value.strip())

    def _holds(self, answer: str) -> bool:
        """Whether an answer means something; says what, or why not."""
        if self._check is None:
            return True
        label, holds = self.query_one("#meaning", Label), False
        try:
            text, holds = self._check(answer), True
        except TokfmtError as error:
            text = str(error)
        label.update(text)
        label.set_class(not holds and bool(answer.strip()), "wrong")
        return holds

    def action_leave(self) -> None:
        self.dismiss(None)
