"""The screen of a batch: the samples of a training step, one line each, as the model sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from tokfmt.base.options import parse_count
from tokfmt.browser import keys
from tokfmt.browser.colors import sign_of
from tokfmt.browser.data.batch import Batch, attention_words, batch_of, parse_sizes, step_of, text_of
from tokfmt.browser.data.cells import Cells, fitted
from tokfmt.browser.data.layout import TokenStyle
from tokfmt.browser.data.parts import RowParts, parts_of, target_of
from tokfmt.browser.data.rows import View
from tokfmt.browser.data.session import Session
from tokfmt.browser.data.spots import Spot
from tokfmt.browser.data.types import SourceRequest
from tokfmt.browser.dialogs import Dialog, Prompt
from tokfmt.browser.widgets.frame import KeyBar
from tokfmt.browser.widgets.strip import bar_of
from tokfmt.browser.widgets.virtual_table import TONED, VirtualTable, kinds
from tokfmt.browser.work import Loader
from tokfmt.errors import TokfmtError
from tokfmt.wording import counted, percent, printable, shortened

_AT_ONCE = 32  # samples that are read at once
_FACTS = 24  # cells of the source and the documents of a sample
_BESIDE = 9  # lines beside the samples, from which the text of a document has some
_NARROW = 60  # cells below which these are left out
_DRAWN = TONED | {"padding", "prompt", "trained"}  # kinds of the cells of bars


class BatchList(VirtualTable):
    """The samples of a step, each as a bar of its documents; the shown ones are read first, then the others."""

    COMPONENT_CLASSES: ClassVar[set[str]] = kinds("number", "here", "facts", "odd", *_DRAWN)
    BINDINGS = keys.BATCH_LIST
    above = _DRAWN | {f"{kind} here" for kind in _DRAWN}

    def __init__(self, session: Session, view: View) -> None:
        super().__init__(id="batch-list")
        self._session, self.view = session, view
        self.step: Batch | None = None
        self.parts: dict[int, RowParts | None] = {}
        self.part = 0
        self._asked = False

    @property
    def count(self) -> int:
        return 0 if self.step is None else len(self.step.rows)

    @property
    def idle(self) -> bool:
        """Return whether all samples are read."""
        return not self._asked and self.step is not None and len(self.parts) == self.count

    @property
    def current(self) -> RowParts | None:
        """Return the parts of the sample under the cursor."""
        return self.parts.get(self.cursor)

    @property
    def spot(self) -> Spot | None:
        """Return the place of the document under the cursor; None without a sample."""
        if self.step is None or not self.count:
            return None
        unit = self.current.parts[self.part].start if self.current is not None and self.current.parts else 0
        return Spot((self.step.rows[self.cursor].row, unit), self.view.name)

    @property
    def style(self) -> TokenStyle:
        """Return how tokens are shown: as IDs until the tokenizer is loaded."""
        return self._session.token_style

    def show(self, batch: Batch) -> None:
        """Show another step."""
        self.loader.forget()
        self.step, self.parts, self.part, self._asked = batch, {}, 0, False
        self.fit()
        self.point_at(0)
        self.refresh()
        self.fetch()

    def fit(self) -> None:
        """Take as many lines as there are samples, or all of the screen; the text of a document is below."""
        self.styles.height = self.count if self.count <= self.app.size.height - _BESIDE else "1fr"

    def fetch(self) -> None:
        batch = self.step
        if batch is None or self._asked:
            return
        wanted = [line for line in (*self.seen, *range(self.count)) if line not in self.parts][:_AT_ONCE]
        if not wanted:
            return
        self._asked, view, style = True, self.view, self.style

        def then(found: list[RowParts | None]) -> None:
            if batch is not self.step:
                return
            self._asked = False
            self.parts |= dict(zip(wanted, found, strict=True))
            self.refresh()
            self.post_message(self.Moved(self))
            self.fetch()

        self.loader.ask(lambda: [parts_of(view.port, style, batch.rows[line].row) for line in wanted], then)

    def moved(self) -> None:
        self.part = 0
        super().moved()

    def action_part(self, step: int) -> None:
        """Put the cursor on the next document of the sample, or on the one before with step -1."""
        parts = self.current
        if parts is not None and parts.parts:
            self.part = max(0, min(self.part + step, len(parts.parts) - 1))
            self.refresh()
            super().moved()

    def cells(self, line: int, width: int) -> Cells:
        batch = self.step
        if batch is None:
            return []
        one, last = batch.rows[line], batch.rows[-1]
        ranks = len(str(batch.ranks - 1)) if batch.ranks > 1 else 0
        first = line == 0 or batch.rows[line - 1].rank != one.rank
        margin = f"{f'r{one.rank}' if first else '':<{ranks + 2}}" if ranks else ""
        head = f"{margin}{one.number:>{len(f'{last.number:,}')},} "
        facts = _FACTS if width >= _NARROW else 0
        room = max(4, width - cell_len(head) - facts)
        if line not in self.parts:
            return [(head, "number"), ("…", "facts")]
        parts = self.parts[line]
        if parts is None:
            return [(head, "number"), ("cannot be read", "odd")]
        here, found = self.part if line == self.cursor else None, [(head, "number")]
        for text, tone, part, is_prompt in bar_of(parts, room):
            kind = "padding" if tone is None else f"tone-{tone}"
            if tone is not None and parts.prompts:
                kind = "prompt" if is_prompt else "trained"
            found.append((text, f"{kind} here" if part is not None and part == here else kind))
        return [*found, (fitted(f"  {_facts_of(parts)}", facts), "odd" if parts.odd else "facts")] if facts else found


def _facts_of(parts: RowParts) -> str:
    """Return the source of a sample, and its number of documents, or the share that is trained."""
    if parts.prompts and parts.trained is not None:
        return f"{'▲ ' if parts.odd else ''}{percent(parts.trained / (parts.filled or 1))} trained"
    documents = counted(len(parts.parts), "doc")
    shares = parts.shares
    if not shares:
        return documents if parts.divided else ""
    named = printable(shares[0][0]) if len(shares) == 1 else f"{len(shares)} sources"
    return f"{shortened(named, _FACTS - len(documents) - 4)}  {documents}"


Place = tuple[int, int, int]
"""A step, and the line of a sample and the number of a document in it."""


class BatchScreen(Dialog[None]):
    """A step on the whole screen: that of a row, or that of a place; `go` goes to a place below, and gets the one here.

    `planned` has the share that is asked for of each source, in words.
    """

    BINDINGS = keys.BATCH

    def __init__(
        self,
        session: Session,
        view: View,
        row: int,
        planned: Mapping[str, str],
        go: Callable[[tuple[SourceRequest | None, Spot], Place], None],
        place: Place | None = None,
    ) -> None:
        super().__init__()
        self._session, self._view, self._planned, self._go = session, view, planned, go
        self._place_at_first = place
        self._step = step_of(view, row, session.batch) if place is None else place[0]
        self._texts = Loader(self)

    @property
    def idle(self) -> bool:
        """Return whether the step is read."""
        return all(one.idle for one in self.query(BatchList))

    def compose(self) -> ComposeResult:
        yield Static("", id="batch-title", markup=False)
        yield Static("", id="batch-legend", markup=False)
        yield BatchList(self._session, self._view)
        yield Static("", id="batch-place", markup=False)
        yield Static("", id="batch-text", markup=False)
        yield KeyBar()

    def ready(self) -> None:
        shown = self.query_one(BatchList)
        shown.focus()
        self._show(self._step)
        if self._place_at_first is not None:
            shown.point_at(self._place_at_first[1])
            shown.part = self._place_at_first[2]

    def _show(self, step: int) -> None:
        try:
            batch = batch_of(self._view, step, self._session.batch)
        except TokfmtError as error:
            if self.query_one(BatchList).step is None and step:
                self._show(0)
            else:
                self.notify(str(error), severity="warning", markup=False)
            return
        self._step = step
        self.query_one(BatchList).show(batch)
        self._say()

    def _say(self) -> None:
        shown = self.query_one(BatchList)
        batch = shown.step
        if batch is None:
            return
        of = "" if batch.steps is None else f" of {batch.steps:,}"
        words = [printable(self._session.path.name), f"step {batch.step:,}{of}", f"batch {len(batch.rows):,}"]
        words += [counted(batch.ranks, "rank")] if batch.ranks > 1 else []
        if batch.sizes is not None:
            words.append("b sets the size")
        self.query_one("#batch-title", Static).update(" · ".join(words))
        self.query_one("#batch-legend", Static).update(self._legend(shown))
        self.query_one("#batch-place", Static).update(self._place_words(shown))

    def _legend(self, shown: BatchList) -> Content:
        """Return the sources of the samples that were read, with the share that is asked for and that of the step."""
        held, shades, padding, trained, length = Counter[str](), dict[str, int](), 0, 0, 0
        for parts in filter(None, shown.parts.values()):
            length, padding = length + parts.length, padding + parts.length - parts.filled
            trained += (parts.trained or 0) if parts.prompts else 0
            for part in parts.parts:
                held[part.source] += part.stop - part.start
                shades.setdefault(part.source, part.shade)
        found = list[Content]()
        for name in sorted(filter(None, shades), key=shades.__getitem__):
            asked = f"{self._planned[name]} → " if name in self._planned else ""
            share = f"{printable(name)} {asked}{percent(held[name] / (length or 1))}"
            found.append(Content.assemble(sign_of(shades[name]), share))
        if trained:
            share = f"trained {percent(trained / (length or 1))}"
            found.append(Content.assemble(("█ ", "$text-success"), share, ("  ░ prompt", "$quiet")))
        found.append(Content.styled(f"· padding {percent(padding / (length or 1))}", "$quiet"))
        return Content("   ").join(found) if length else Content("◌ reading")

    def _place_words(self, shown: BatchList) -> Content:
        batch, parts = shown.step, shown.current
        if batch is None or not batch.rows or parts is None:
            return Content("")
        words = [f"sample {batch.rows[shown.cursor].number:,}"]
        if parts.parts:
            part = parts.parts[shown.part]
            words.append(f"document {shown.part + 1} of {len(parts.parts)}")
            if part.document is not None:
                first = max(0, part.first)
                words += [part.label, f"tokens {first:,} to {first + part.stop - part.start:,}"]
            else:
                words.append(f"positions {part.start:,} to {part.stop:,}")
        odd = [Content.styled(f"▲ {parts.odd}", "bold $text-warning")] if parts.odd else []
        below = Content(" · ").join([*odd, Content(attention_words(self._view, parts))])
        return Content("\n").join((Content(" · ".join(words)), below))

    def on_virtual_table_moved(self) -> None:
        self._say()
        shown, text = self.query_one(BatchList), self.query_one("#batch-text", Static)
        batch, parts = shown.step, shown.current
        if batch is None or parts is None or not parts.parts:
            text.update("")
            return
        row, rest, view, style = batch.rows[shown.cursor].row, parts.parts[shown.part :], self._view, shown.style
        self._texts.ask(lambda: text_of(view, style, row, rest), text.update)

    def on_resize(self) -> None:
        for shown in self.query(BatchList):
            shown.fit()

    def on_unmount(self) -> None:
        self._texts.forget()

    def on_virtual_table_chosen(self) -> None:
        spot = self.query_one(BatchList).spot
        if spot is not None:
            self._leave_for((None, spot))

    def action_origin(self) -> None:
        """Show the document under the cursor in its source."""
        shown = self.query_one(BatchList)
        spot, session = shown.spot, replace(self._session, shown=self._view.name)
        if spot is not None and spot.where is not None:
            where = spot.where
            self._texts.ask(lambda: target_of(session, where), self._leave_for)

    def _leave_for(self, target: tuple[SourceRequest | None, Spot]) -> None:
        shown = self.query_one(BatchList)
        self.dismiss(None)
        self._go(target, (self._step, shown.cursor, shown.part))

    def action_step(self, step: int) -> None:
        """Show the next step, or the one before with -1."""
        self._show(max(0, self._step + step))

    async def action_ask_step(self) -> None:
        """Ask for the number of a step."""

        def check(words: str) -> str:
            return f"step {parse_count(words):,}"

        await Prompt("Step", lambda words: self._show(parse_count(words)), "from 0", check=check).ask(self)

    async def action_sizes(self) -> None:
        """Ask for the sizes of a batch, and show the step that has its first sample."""
        shown = self.query_one(BatchList)
        if shown.step is None or shown.step.sizes is None:
            self.notify("The run states the size of its batches.")
            return
        first = shown.step.rows[0].row if shown.step.rows else 0

        def answered(words: str) -> None:
            self._session.batch = parse_sizes(words)
            self._show(step_of(self._view, first, self._session.batch))

        def check(words: str) -> str:
            sizes = parse_sizes(words)
            return f"{counted(sizes.batch, 'sample')} for {counted(sizes.ranks, 'rank')}"

        before = self._session.batch
        text = f"{before.batch}/{before.ranks}" if before.ranks > 1 else f"{before.batch}"
        await Prompt("Batch", answered, "samples of a batch, and ranks: 512/64", text, check).ask(self)
