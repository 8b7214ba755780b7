"""Tokenizers of the browser: the dialog that chooses one, and two of them side by side over one row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widgets import Footer, Input, Label, OptionList
from textual.widgets.option_list import Option

from tokfmt.browser import keys
from tokfmt.browser.data.layout import Mode, TokenStyle
from tokfmt.browser.data.session import Choice, Session, Vocabulary, Where, load
from tokfmt.browser.data.tokenizers import MOST_UNITS, NONE, Both, Totals, both_of, more_words, rate, totals_of
from tokfmt.browser.data.workers import Job
from tokfmt.browser.dialogs import Dialog, Line, Menu
from tokfmt.browser.widgets.frame import KeyBar, StatusLine
from tokfmt.browser.widgets.reader import Reader
from tokfmt.browser.work import Work
from tokfmt.errors import OptionError
from tokfmt.wording import counted, printable, short


class Wanted(NamedTuple):
    """The answer of the dialog.

    Attributes:
        name: Name, directory or file of a tokenizer; `NONE` for none.
        beside: Show it beside the one in use, instead of using it.
    """

    name: str
    beside: bool = False


class TokenizerList(Dialog[Wanted]):
    """Ask for a tokenizer; the result is the answer, or None after Escape.

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
            self.dismiss(Wanted(name, beside))


# two tokenizers over one row


class TokenizerPair(Dialog[None]):
    """One row of a dataset as two tokenizers cut it; tokens that only one has are marked.

    Args:
        session: The dataset; its tokenizer is A.
        name: The tokenizer B.
        where: The row at first, and the token of A that is under the cursor then.
    """

    BINDINGS = keys.TOKENIZER_PAIR
    wide = 110  # columns from which both sides are next to each other
    both: Both | None = None

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
        yield StatusLine("verdict")
        with Container(id="sides"):
            for name in "ab":
                with Vertical(id=name, classes="side"):
                    yield Reader()
        yield StatusLine("pairline")
        yield KeyBar()

    @property
    def panes(self) -> list[Reader]:
        """Return the readers of A and B."""
        return list(self.query(Reader))

    def ready(self) -> None:
        self._lay()
        self.panes[0].focus()
        used, name, of_text = self.session.choice, self.name_b, self.session.of_text
        vocabulary = self.session.vocabulary
        self._say([(f"◌ loading {printable(name)}", "busy")])

        def work(_: Job) -> tuple[Vocabulary, Vocabulary]:
            if vocabulary is None or used is None:
                raise OptionError("no tokenizer is in use")
            a = vocabulary if not of_text or vocabulary.encoder else load(used.name, encoding=True)
            return a, load(name, encoding=True)

        self._begin(work, self._loaded)

    def _begin(self, work: Callable[[Job], object], then: Callable[[Any], object]) -> None:
        def ended(outcome: object) -> None:
            if isinstance(outcome, Exception):
                self._say([(f"✗ {printable(outcome)}", "bad")])
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
        self.both, token = both, both.token_of(self._unit)
        cursors = token, both.across(0, token)
        for side, (pane, cut, vocabulary) in enumerate(
            zip(self.panes, both.cuts, self.vocabularies or (), strict=True)
        ):
            token_style = TokenStyle(vocabulary.decoder, vocabulary.specials)
            pane.show(cut.port, token_style, 0, cursors[side])
            self.query_one(f"#{'ab'[side]}").border_title = self._title(side)
        self._mark()
        view = self.session.view
        x, y = (len(cut.tokens) for cut in both.cuts)
        part = "" if both.whole else f", the first {short(MOST_UNITS)} units"
        count = len(both.differing[0])
        parts = [(f"{view.singular} {both.row:,}{part}", "plain"), (counted(both.size, "byte"), "dim")]
        parts.append((more_words(x, y), "plain"))
        parts.append((f"differs in {counted(count, 'place')}", "bad") if count else ("cut alike", "good"))
        self._say(parts)

    def _title(self, side: int) -> str:
        both, used = self.both, self.session.choice
        name = used.short if used is not None and not side else Choice(self.name_b, "").short
        if both is None:
            return ""
        tokens = len(both.cuts[side].tokens)
        return f"{'AB'[side]} · {name} · {counted(tokens, 'token')} · {rate(both.size, tokens)}"

    def _say(self, parts: list[tuple[str, str]]) -> None:
        self.query_one("#verdict", StatusLine).say(parts)

    def _say_totals(self) -> None:
        line, found = self.query_one("#pairline", StatusLine), self.totals
        if found is None:
            line.say([("◌ counting the first rows", "busy")] if "totals" in self._work else [])
            return
        a, b = found.tokens
        line.say([
            (f"the first {counted(found.rows, self.session.view.singular)}", "dim"),
            (f"A {rate(found.size, a)}", "plain"),
            (f"B {rate(found.size, b)}", "plain"),
            (more_words(a, b), "plain"),
        ])  # fmt: skip

    # both in step

    @on(Reader.Moved)
    def _moved(self, message: Reader.Moved) -> None:
        message.stop()
        both, panes, leader = self.both, self.panes, self._leader
        if both is not None and not any(pane.opening for pane in panes):
            token = both.across(leader, panes[leader].cursor)
            if panes[1 - leader].cursor != token:
                panes[1 - leader].go_to(token)
        self._mark()

    @property
    def _leader(self) -> int:
        """Return the side with the focus, which the other follows."""
        return next((k for k, pane in enumerate(self.panes) if pane.has_focus), 0)

    def on_descendant_focus(self) -> None:
        self._mark()

    def _mark(self) -> None:
        """Mark the tokens that only one side has, and those that overlap the token under the cursor."""
        both, panes, leader = self.both, self.panes, self._leader
        for side, pane in enumerate(panes):
            pane.hits = both.differing[side] if both is not None else []
            follows = both is not None and side != leader
            pane.beside = both.overlapping(leader, panes[leader].cursor) if both is not None and follows else range(0)
            pane.refresh()

    # actions

    def action_row(self, step: int) -> None:
        self.row, self._unit = max(0, min(self.row + step, self.session.view.port.count - 1)), 0
        self._cut_row()

    def action_difference(self, step: int) -> None:
        """Go to the next or previous place where the tokenizers cut differently."""
        if self.both is None:
            return
        leader = self._leader
        pane, runs = self.panes[leader], self.both.differing[leader]
        runs = runs if step > 0 else runs[::-1]
        found = next((run.start for run in runs if (run.start - pane.cursor) * step > 0), None)
        if found is None:
            self.notify("No more differences in this row; ] shows the next row.")
        else:
            pane.go_to(found)

    def action_first(self) -> None:
        """Go to the first token."""
        for pane in self.panes:
            pane.action_to(0)

    def action_mode(self) -> None:
        modes = list(Mode)
        mode = modes[(modes.index(self.panes[0].mode) + 1) % len(modes)]
        for pane in self.panes:
            pane.mode = mode

    def on_resize(self) -> None:
        self._lay()

    def _lay(self) -> None:
        self.set_class(self.size.width < self.wide, "stacked")

    def on_unmount(self) -> None:
        self._work.cancel()
