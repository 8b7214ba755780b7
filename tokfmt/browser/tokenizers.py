"""Tokenizers of the browser: the dialog that chooses one, and two of them side by side over one row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Footer, Input, Label, OptionList
from textual.widgets.option_list import Option

from tokfmt.browser import keys
from tokfmt.browser.data.layout import TokenStyle
from tokfmt.browser.data.session import Choice, Session, Vocabulary, Where, load
from tokfmt.browser.data.tokenizers import MOST_UNITS, NONE, Both, Totals, both_of, more_words, rate, totals_of
from tokfmt.browser.data.workers import Job
from tokfmt.browser.dialogs import Dialog, Line, Menu
from tokfmt.browser.widgets.frame import KeyBar
from tokfmt.browser.widgets.pair import PairScreen
from tokfmt.browser.work import Work
from tokfmt.errors import OptionError
from tokfmt.wording import counted, printable, short


class TokenizerList(Dialog[tuple[str, bool]]):
    """Ask for a tokenizer; the result is None after Escape, or its name, directory or file, `NONE` for none, and
    whether it is shown beside the one in use.

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
            yield Menu()
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
        self._answer(event.value.strip(), beside=False)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self._answer(self._choices[event.option_index].name, beside=False)

    def action_beside(self) -> None:
        rows = self.query_one(OptionList)
        typed = self.query_one(Input).value.strip()
        chosen = self._choices[rows.highlighted].name if rows.has_focus and rows.highlighted is not None else typed
        if not self._used:
            self.notify("No tokenizer is in use yet. Choose one first.", severity="warning")
        else:
            self._answer(chosen, beside=True)

    def _answer(self, name: str, *, beside: bool) -> None:
        if name and self.is_current and not (beside and name == NONE):
            self.dismiss((name, beside))


# two tokenizers over one row


class TokenizerPair(Dialog[None], PairScreen):
    """One row of a dataset as two tokenizers cut it; tokens that only one has are marked.

    Args:
        session: The dataset; its tokenizer is A.
        name: The tokenizer B.
        where: The row at first, and the token of A that is under the cursor then.
    """

    BINDINGS = keys.TOKENIZER_PAIR

    def __init__(self, session: Session, name: str, where: Where) -> None:
        super().__init__()
        self.session, self.name_b, (self.row, self._unit) = session, name, where
        self.vocabularies: tuple[Vocabulary, Vocabulary] | None = None
        self.totals: Totals | None = None
        self._work = Work(self)

    @property
    def idle(self) -> bool:
        """Return whether no work is running."""
        return not self._work

    def compose(self) -> ComposeResult:
        yield from super().compose()
        yield KeyBar()

    def ready(self) -> None:
        self.leader.pane.focus()
        used, name, of_text = self.session.choice, self.name_b, self.session.of_text
        vocabulary = self.session.vocabulary
        self.tell("verdict", [(f"◌ loading {printable(name)}", "busy")])

        def work(_: Job) -> tuple[Vocabulary, Vocabulary]:
            if vocabulary is None or used is None:
                raise OptionError("no tokenizer is in use")
            a = vocabulary if not of_text or vocabulary.encoder else load(used.name, encoding=True)
            return a, load(name, encoding=True)

        self._begin(work, self._loaded)

    def _begin(self, work: Callable[[Job], object], then: Callable[[Any], object]) -> None:
        def ended(outcome: object) -> None:
            if isinstance(outcome, Exception):
                self.tell("verdict", [(f"✗ {printable(outcome)}", "bad")])
            else:
                then(outcome)

        self._work.begin("row", work, ended)

    def _loaded(self, found: tuple[Vocabulary, Vocabulary]) -> None:
        self.vocabularies = found
        session = self.session
        self._cut_row()

        def counted_all(outcome: object) -> None:
            if isinstance(outcome, Totals):
                self.totals = outcome
            self._say_totals()

        self._work.begin("totals", lambda job: totals_of(session, *found, job), counted_all)
        self._say_totals()

    def _cut_row(self) -> None:
        if self.vocabularies is None:
            return
        session, row, found = self.session, self.row, self.vocabularies
        self._begin(lambda _: both_of(session, row, *found), self._show)

    def _show(self, both: Both) -> None:
        token = both.token_of(self._unit)
        cursors = token, both.across(0, token)
        for side, cut, vocabulary in zip(self.sides, both.cuts, self.vocabularies or (), strict=True):
            side.show(cut.port, TokenStyle(vocabulary.decoder, vocabulary.specials), 0, cursors[side.number])
            side.border_title = self._title(both, side.number)
        self.mark(both)
        view = self.session.view
        x, y = (len(cut.tokens) for cut in both.cuts)
        part = "" if both.whole else f", the first {short(MOST_UNITS)} units"
        count = len(both.hunks)
        parts = [(f"{view.singular} {both.row:,}{part}", "plain"), (counted(both.size, "byte"), "dim")]
        parts.append((more_words(x, y), "plain"))
        parts.append((f"differs in {counted(count, 'place')}", "bad") if count else ("cut alike", "good"))
        self.tell("verdict", parts)

    def _title(self, both: Both, side: int) -> str:
        used = self.session.choice
        name = used.short if used is not None and not side else Choice(self.name_b, "").short
        tokens = len(both.cuts[side].tokens)
        return f"{'AB'[side]} · {name} · {counted(tokens, 'token')} · {rate(both.size, tokens)}"

    def _say_totals(self) -> None:
        found = self.totals
        if found is None:
            self.tell("pairline", [("◌ counting the first rows", "busy")] if "totals" in self._work else [])
            return
        a, b = found.tokens
        self.tell("pairline", [
            (f"the first {counted(found.rows, self.session.view.singular)}", "dim"),
            (f"A {rate(found.size, a)}", "plain"),
            (f"B {rate(found.size, b)}", "plain"),
            (more_words(a, b), "plain"),
        ])  # fmt: skip

    # actions

    def action_by(self, step: int) -> None:
        self.row, self._unit = max(0, min(self.row + step, self.session.view.port.count - 1)), 0
        self._cut_row()

    def action_difference(self, direction: int) -> None:
        """Go to the next or previous place where the tokenizers cut differently."""
        if not self.hop(direction):
            self.notify("No more differences in this row; ] shows the next row.")

    def on_unmount(self) -> None:
        self._work.cancel()
