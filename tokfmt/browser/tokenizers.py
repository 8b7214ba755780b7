"""Tokenizers of the browser: the dialog that chooses one, and two of them side by side over one row."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widgets import Footer, Input, Label, OptionList
from textual.widgets.option_list import Option

from tokfmt.browser import keys
from tokfmt.browser.data import MemoryReader, Ragged, RecordReader, Tokens
from tokfmt.browser.dialogs import Dialog, Line, Menu
from tokfmt.browser.layout import Mode, TokenStyle
from tokfmt.browser.rows import Damage, Viewport, fetched, fetched_span, padded_from
from tokfmt.browser.session import Choice, Session, Vocabulary, Where, load
from tokfmt.browser.state import tokenizers_of_all
from tokfmt.browser.widgets.frame import KeyBar, StatusLine
from tokfmt.browser.widgets.reader import Reader
from tokfmt.browser.workers import Job
from tokfmt.errors import OptionError, TokfmtError
from tokfmt.wording import counted, printable, short

NONE = "none"
"""The word for no tokenizer."""


class Wanted(NamedTuple):
    """The answer of the dialog.

    Attributes:
        name: Name, directory or file of a tokenizer; `NONE` for none.
        beside: Show it beside the one in use, instead of using it.
    """

    name: str
    beside: bool = False


def known_tokenizers(session: Session) -> list[Choice]:
    """Return the tokenizers to choose from: the one in use, and those of other datasets, the last used first."""
    used = [] if session.choice is None else [session.choice]
    found = {_place(one.name): one for one in used}
    for name in tokenizers_of_all():
        found.setdefault(_place(name), Choice(name, "used before"))
    return list(found.values())


def _place(name: str) -> str:
    """Return the path of a tokenizer that is a file or a directory here, else its name."""
    return os.path.realpath(name) if os.path.exists(name) else name


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

_MOST = 1 << 16  # units of a row that are compared
_ROWS, _BYTES = 256, 1 << 20  # rows, and bytes of their text, of the mean


class Cut(NamedTuple):
    """A text as a tokenizer cuts it.

    Attributes:
        tokens: The IDs.
        ends: The end of each token, in bytes of the text.
    """

    tokens: Tokens
    ends: Sequence[int]

    @property
    def starts(self) -> Sequence[int]:
        """Return the start of each token."""
        return [0, *self.ends[:-1]]


@dataclass(frozen=True)
class Both:
    """One row as two tokenizers cut it.

    Attributes:
        row: Number of the row.
        size: Bytes of its text.
        cuts: The row by A and by B.
        whole: The row is not longer than what is compared.
        units: The position in the row of each token of A; None if none is left out.
    """

    row: int
    size: int
    cuts: tuple[Cut, Cut]
    whole: bool
    units: NDArray[np.int64] | None = None

    @cached_property
    def differing(self) -> tuple[list[range], list[range]]:
        """Return the runs of tokens of A, and of B, that the other does not have."""
        return self._runs(0), self._runs(1)

    def _runs(self, side: int) -> list[range]:
        mine, other = self.cuts[side], self.cuts[1 - side]
        there = set(zip(other.starts, other.ends, strict=True))
        found: list[range] = []
        for k, span in enumerate(zip(mine.starts, mine.ends, strict=True)):
            if span in there:
                continue
            if found and found[-1].stop == k:
                found[-1] = range(found[-1].start, k + 1)
            else:
                found.append(range(k, k + 1))
        return found

    def token_of(self, unit: int) -> int:
        """Return the token of A at a position in the row, or the next one."""
        token = unit if self.units is None else int(np.searchsorted(self.units, unit))
        return max(0, min(token, len(self.cuts[0].tokens) - 1))

    def across(self, side: int, token: int) -> int:
        """Return the token of the other side that holds the first byte of a token of A (0) or B (1)."""
        return self.overlapping(side, token).start

    def overlapping(self, side: int, token: int) -> range:
        """Return the tokens of the other side that have bytes of a token of A (0) or B (1), or the one at its place."""
        mine, other = self.cuts[side], self.cuts[1 - side]
        if not len(mine.ends) or not len(other.ends):
            return range(1)
        token = min(token, len(mine.ends) - 1)
        start, stop = mine.ends[token - 1] if token else 0, mine.ends[token]
        first = min(bisect_right(other.ends, start), len(other.ends) - 1)
        last = bisect_left(other.ends, stop, first)  # the token with the last byte
        return range(first, max(first, min(last, len(other.ends) - 1)) + 1)


def _cut(vocabulary: Vocabulary, tokens: Tokens, text: bytes) -> Cut:
    spelled = _spelled(vocabulary, tokens)
    # tokenizers of the kind of SentencePiece put a blank before a text
    before = int(bool(spelled) and spelled[0][:1] == b" " != text[:1])
    return Cut(tokens, [max(0, end - before) for end in accumulate(map(len, spelled))])


def _spelled(vocabulary: Vocabulary, tokens: Tokens) -> list[bytes]:
    found = vocabulary.decoder.pieces(tokens.tolist())
    return [one.encode("utf-8", "surrogatepass") if isinstance(one, str) else one for one in found]


class RowText(NamedTuple):
    """The text of a row.

    Attributes:
        text: The text, without special tokens, separators and padding.
        whole: It is not cut.
        tokens: Its tokens if the dataset stores them.
        units: Their positions in the row.
    """

    text: str
    whole: bool
    tokens: Tokens | None = None
    units: NDArray[np.int64] | None = None


def text_of_row(session: Session, row: int) -> RowText:
    """Return the text of a row. Reads.

    Raises:
        TokfmtError: The row cannot be read.
    """
    view, vocabulary = session.view, session.vocabulary
    if isinstance(view.reader, RecordReader) and view.reader.info.kind == "text":
        record = view.reader.record(row)
        text = record if isinstance(record, str) else ""
        return RowText(text[:_MOST], len(text) <= _MOST)
    port = view.port
    span = fetched_span(port, row)
    if isinstance(span, Damage):
        raise TokfmtError(span.why)
    if vocabulary is None:
        raise OptionError("IDs have no text without a tokenizer")
    end = min(span.length, padded_from(port, row))
    piece = fetched(port, row, 0, min(end, _MOST))
    if isinstance(piece, Damage):
        raise TokfmtError(piece.why)
    separator = session.opened.separator.eos_id
    left_out = [*vocabulary.specials, *([] if separator is None else [separator])]
    units = np.flatnonzero(~np.isin(piece.units, left_out))
    tokens = piece.units[units]
    text = b"".join(_spelled(vocabulary, tokens)).decode("utf-8", "replace")
    return RowText(text, end <= _MOST, tokens, units)


def both_of(session: Session, row: int, a: Vocabulary, b: Vocabulary) -> Both:
    """Return a row as two tokenizers cut it; IDs of the dataset are those of A. Reads.

    Raises:
        TokfmtError: The row cannot be read, or a tokenizer cannot encode it.
    """
    text, whole, tokens, units = text_of_row(session, row)
    mine = tokens if tokens is not None else _encoded(a, text)
    data = text.encode("utf-8", "surrogatepass")
    return Both(row, len(data), (_cut(a, mine, data), _cut(b, _encoded(b, text), data)), whole, units)


def _encoded(vocabulary: Vocabulary, text: str) -> Tokens:
    if vocabulary.encoder is None:
        raise OptionError("the tokenizer was loaded without its encoder")
    return vocabulary.encoder.encode([text]).tokens


class Totals(NamedTuple):
    """The tokens of A and of B over the first rows of a dataset.

    Attributes:
        rows: Number of rows.
        size: Bytes of their text.
        tokens: Tokens of A and of B.
    """

    rows: int
    size: int
    tokens: tuple[int, int]


def totals_of(session: Session, a: Vocabulary, b: Vocabulary, job: Job) -> Totals:
    """Count the tokens of two tokenizers over the first 256 rows, or the first mebibyte of their text. Reads.

    Raises:
        TokfmtError: A row cannot be read.
    """
    rows = size = x = y = 0
    for row in range(min(_ROWS, session.view.port.count)):
        both = both_of(session, row, a, b)
        rows, size = rows + 1, size + both.size
        x, y = x + len(both.cuts[0].tokens), y + len(both.cuts[1].tokens)
        job.advance(1)
        if size >= _BYTES:
            break
    return Totals(rows, size, (x, y))


def rate(size: int, tokens: int) -> str:
    """Return the bytes per token in words."""
    return f"{size / tokens:.2f} bytes per token" if tokens else "no tokens"


def more_words(x: int, y: int) -> str:
    """Return how many more or fewer tokens B needs than A."""
    if not x or x == y:
        return "as many tokens"
    return f"{abs(y - x) / x:.1%} {'more' if y > x else 'fewer'} tokens in B"


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
        self._job: Job | None = None
        self._adding: Job | None = None

    @property
    def idle(self) -> bool:
        """Return whether no work is running."""
        return self._job is None and self._adding is None

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
        if self._job is not None:
            self._job.cancel()

        def ended(outcome: object) -> None:
            if self._job is job:
                self._job = None
                if isinstance(outcome, Exception):
                    self._say([(f"✗ {printable(outcome)}", "bad")])
                else:
                    then(outcome)

        job = self._job = Job(work, lambda outcome: self.call_later(ended, outcome))

    def _loaded(self, found: tuple[Vocabulary, Vocabulary]) -> None:
        self.vocabularies = found
        session = self.session
        self._cut_row()

        def counted_all(outcome: object) -> None:
            self._adding = None
            if isinstance(outcome, Totals):
                self.totals = outcome
            self._say_totals()

        self._adding = Job(lambda job: totals_of(session, *found, job), lambda one: self.call_later(counted_all, one))
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
            pane.show(Viewport(MemoryReader(Ragged.of([cut.tokens]))), token_style, 0, cursors[side])
            self.query_one(f"#{'ab'[side]}").border_title = self._title(side)
        self._mark()
        view = self.session.view
        x, y = (len(cut.tokens) for cut in both.cuts)
        part = "" if both.whole else f", the first {short(_MOST)} units"
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
            line.say([("◌ counting the first rows", "busy")] if self._adding else [])
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
        for job in (self._job, self._adding):
            if job is not None:
                job.cancel()
