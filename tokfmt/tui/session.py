"""One opened dataset, as the browser holds it. Only the thread of the screen changes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tokfmt.core.errors import TokfmtError
from tokfmt.core.files import natural_key
from tokfmt.core.inside import LocatedRecords, Target, place_of, position_of
from tokfmt.core.records import RecordReader
from tokfmt.ops.sources import SourceRequest
from tokfmt.tui.letters import Alphabet
from tokfmt.tui.opening import Opened, View, joined, open_first, refused
from tokfmt.tui.records import Characters, RecordPort
from tokfmt.tui.viewport import Damage, Port, Span, fetched_span
from tokfmt.tui.vocabulary import Choice, Vocabulary, choose

if TYPE_CHECKING:
    from tokfmt.ops.check import Verdict
    from tokfmt.ops.stats import Statistics

Where = tuple[int, int]
"""A row and a unit in it."""


@dataclass
class Session:
    """A dataset.

    Attributes:
        request: Where it is and how to read it.
        opened: What is known of it so far.
        shown: Name of the view that is shown.
        choice: The tokenizer that was named, if any; `vocabulary` when it is loaded.
        failure: Why the second stage, or the tokenizer, failed; "" when it did not.
        refused: Why nothing of it can be shown; None when something can.
        generation: Counts what changed; a worker's answer to an older one is stale.
        verdict: What a check has found, when there was one.
        statistics: What was counted, as far as it was.
        splits: Names of all splits; none where a dataset is not split. split: The one that is shown.
        asked: As the user asked for it, which `request` is not once another split is shown.
        where: Where somebody was in it, when it is shown again.
    """

    request: SourceRequest
    opened: Opened
    shown: str
    choice: Choice | None = None
    vocabulary: Vocabulary | None = None
    failure: str = ""
    refused: Exception | None = None
    generation: int = 0
    verdict: Verdict | None = None
    statistics: Statistics | None = None
    splits: tuple[str, ...] = ()
    split: str = ""
    asked: SourceRequest | None = None
    where: Where = (0, 0)
    _texts: dict[str, Port] = field(default_factory=dict, repr=False)

    @property
    def path(self) -> Path:
        """The first of its paths."""
        return Path(self.request.paths[0])

    @property
    def format_name(self) -> str | None:
        """Name of its format, None when nobody knows."""
        return self.opened.format.name if self.opened.format else None

    @property
    def view(self) -> View:
        """The view that is shown."""
        return next(view for view in self.opened.views if view.name == self.shown)

    @property
    def port(self) -> Port:
        """The rows of the view: of text that has a tokenizer, its tokens."""
        view, words = self.view, self.vocabulary
        if not (self.of_text and isinstance(view.port, RecordPort) and words and words.encoder):
            return view.port
        if view.name not in self._texts:
            self._texts[view.name] = view.port.with_encoder(words.encoder)
        return self._texts[view.name]

    @property
    def of_text(self) -> bool:
        """It holds text, not ids."""
        reader = self.view.reader
        return isinstance(reader, RecordReader) and reader.info.kind == "text"

    @property
    def alphabet(self) -> Alphabet:
        """How its ids are read."""
        if self.port.unit == "character":
            return Alphabet(Characters(), characters=True)
        reader, words = self.view.reader, self.vocabulary
        top = None if isinstance(reader, RecordReader) else reader.info.max_id
        narrow = not isinstance(reader, RecordReader) and reader.info.dtype.itemsize <= 2
        digits = max(5 if narrow else 6, len(str(top or 0)))
        separator = self.opened.separator.eos_id
        if words is None:
            return Alphabet(separator=separator, digits=digits)
        return Alphabet(words.decoder, words.specials, separator, digits=digits)

    def add(self, full: Opened) -> None:
        """The second stage is there: show what it found."""
        self.opened = joined(self.opened, full)
        self.where = (0, 0)
        self._texts.clear()
        self.shown = self.opened.views[0].name
        self.generation += 1

    def give_up(self, error: Exception, why: str) -> None:
        """The second stage has failed: what the first has found is all there is."""
        self.failure = why
        self.opened = self.opened._replace(notes=(*self.opened.notes, why), pending="")
        if not any(view.port.count for view in self.opened.views):
            self.refused = error
        self.generation += 1

    def use(self, vocabulary: Vocabulary) -> None:
        """The tokenizer is there."""
        self.vocabulary = vocabulary
        self._texts.clear()
        self.generation += 1

    def switch(self) -> None:
        """Show the next view."""
        names = [view.name for view in self.opened.views]
        self.see(names[(names.index(self.shown) + 1) % len(names)])

    def see(self, view: str) -> None:
        """Show a view."""
        self.shown, self.where = view, (0, 0)
        self.generation += 1

    def close(self) -> None:
        """Release open files."""
        for view in self.opened.views:
            view.reader.close()


def open_session(request: SourceRequest, tokenizer: str | None = None) -> Session:
    """Open the first stage of a dataset.

    Raises:
        TokfmtError: It cannot be read.
    """
    opened = open_first(request)
    extras = opened.views[0].reader.info.extras
    split, others = str(extras.get("split") or ""), extras.get("other_splits")
    splits = (split, *map(str, others if isinstance(others, tuple) else ())) if split else ()
    choice = choose(Path(request.paths[0]), tokenizer)
    names = tuple(sorted(splits, key=natural_key))
    return Session(request, opened, opened.views[0].name, choice, splits=names, split=split)


def refused_session(request: SourceRequest, error: TokfmtError) -> Session:
    """A dataset that cannot be opened: its files may still be looked at, and checked."""
    opened = refused(request)
    return Session(request, opened, opened.views[0].name, failure=str(error), refused=error)


def other_split(session: Session, split: str, tokenizer: str | None = None) -> Session:
    """Another split of the same dataset, opened."""
    request = session.request.of_split(split)
    try:
        opened = open_session(request, tokenizer)
    except TokfmtError as error:
        opened = refused_session(request, error)
    opened.splits, opened.split, opened.asked = session.splits, split, session.asked or session.request
    return opened


def carried(before: View, where: Where, after: View) -> Where:
    """Where in another view of the same dataset the token at a place of this one is. Reads.

    By its byte in the file where the readers know it, else by its share of the whole.
    """
    if isinstance(before.reader, RecordReader) or isinstance(after.reader, RecordReader):
        return where
    span = fetched_span(before.port, where[0])
    if isinstance(span, Damage) or span.start is None or not after.reader.info.tokens:
        return 0, 0
    at, total = span.start + where[1], before.reader.info.tokens
    position = None
    try:
        place = place_of(before.reader, at) if at < total else None
        if place is not None and place.width is not None:
            position = position_of(after.reader, place.path, place.offset)
    except TokfmtError:
        position = None
    if position is None:
        position = min(at * after.reader.info.tokens // max(1, total), after.reader.info.tokens - 1)
    return located(after.port, position) or (0, 0)


def located(port: Port, position: int) -> Where | None:
    """The row and unit of a token position. Reads. None where there is none."""
    row = port.row_at(position)
    span = None if row is None else fetched_span(port, row)
    if row is None or not isinstance(span, Span) or span.start is None:
        return None
    return row, position - span.start


def row_at(session: Session, target: Target) -> Where | None:
    """The row and token at a byte of a file. Reads. None when no token lies there.

    Raises:
        TokfmtError: What is needed to tell is damaged.
    """
    reader = session.view.reader
    if isinstance(reader, RecordReader):
        if not isinstance(reader, LocatedRecords):
            return None
        record = reader.record_at(target.path, target.offset)
        return None if record is None or record >= session.port.count else (record, 0)
    position = position_of(reader, target.path, target.offset)
    if position is None or not 0 <= position + target.beyond < reader.info.tokens:
        return None
    return located(session.port, position + target.beyond)
