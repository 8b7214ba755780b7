"""A dataset or a split of it in the browser, opened in stages, with its tokenizer or the error that prevents reading.

The first stage takes constant time (`data`). A worker then loads the tokenizer, and all documents or records.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tokfmt.browser.data.layout import Pieces, TokenStyle
from tokfmt.browser.data.opening import UNKNOWN, Opening, Stamp, identity_of, opened, recipe_of, stamp_of
from tokfmt.browser.data.rows import Characters, Damage, RecordSource, RowSource, Span, View, Viewport, fetched_span
from tokfmt.browser.data.state import recall, remember, remember_later, tokenizers_of_all
from tokfmt.browser.data.workers import Job, said
from tokfmt.core.format import Encoder
from tokfmt.core.loss_mask import is_masked
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.core.reader import ByteOffset, Layout, TokenReader
from tokfmt.core.records import RecordReader
from tokfmt.errors import FormatError, SourceChangedError, TokfmtError
from tokfmt.files.fields import Pointer
from tokfmt.files.file import natural_key, read_whole
from tokfmt.files.listing import Listing
from tokfmt.files.named import place_named
from tokfmt.files.place import Place, place_of
from tokfmt.files.store import Identity
from tokfmt.source.content import Manifest
from tokfmt.source.discover import format_of
from tokfmt.source.manifest import located_tokenizer
from tokfmt.source.request import SourceRequest
from tokfmt.wording import printable

if TYPE_CHECKING:
    from tokfmt.commands.check import CheckReport
    from tokfmt.commands.stats import Statistics
    from tokfmt.commands.stats.lists import Lists
    from tokfmt.text.decoding import TextDecoder
    from tokfmt.text.tokenizer import TokenizerHandle


_PARAMS = "data_params.json"
_LIMIT = 1 << 20


class Choice(NamedTuple):
    """A tokenizer by name, with the source of the name, such as "--tokenizer" or "last time"."""

    name: str
    source: str

    @property
    def short(self) -> str:
        """Return the last part of the name, which is that of the directory for a tokenizer.json."""
        place = Path(self.name)
        return printable(place.parent.name if place.name == "tokenizer.json" and place.parent.name else place.name)


NAMED = ("--tokenizer", "key T")
"""Sources of a tokenizer that the user named in this run."""


class Vocabulary(NamedTuple):
    """A loaded tokenizer, with its encoder if the dataset holds text."""

    handle: TokenizerHandle
    decoder: TextDecoder
    encoder: Encoder | None = None

    @property
    def specials(self) -> frozenset[int]:
        """Return the IDs of special tokens."""
        eos = self.handle.eos_id
        return self.handle.added if eos is None else self.handle.added | {eos}


def choose(path: Place, given: str | None, made_by: Mapping[str, Any] | None, manifest: Manifest) -> Choice | None:
    """Return the tokenizer to show a dataset with; None if no option, file, source or earlier run names one."""
    if given is not None:
        return Choice(given, "--tokenizer")
    source = f"manifest of {path.name}"
    if manifest.tokenizer is None and made_by is not None:
        manifest, source = manifest._replace(content={"tokenizer": made_by}), "manifests of the sources"
    named = manifest.tokenizer.get("name") if manifest.tokenizer is not None else None
    if isinstance(named, str) and named:
        return Choice(located_tokenizer(path, manifest).place or named, source)
    named = _of_params(path)
    if named:
        return Choice(_located(named, path), _PARAMS)
    last = recall(path).get("tokenizer")
    return Choice(last, "last time") if isinstance(last, str) and last else None


NONE = "none"
"""The word for no tokenizer."""


def known_tokenizers(session: Session) -> list[Choice]:
    """Return the tokenizers to choose from: the one in use, and those of other datasets, the last used first."""
    used = [] if session.choice is None else [session.choice]
    found = dict[str, Choice]()
    for one in (*used, *(Choice(name, "used before") for name in tokenizers_of_all())):
        found.setdefault(os.path.realpath(one.name) if os.path.exists(one.name) else one.name, one)
    return list(found.values())


def _located(name: str, path: Place) -> str:
    """Return a path from a file, which is relative to the directory of the conversion or to that of the dataset."""
    if os.path.exists(name):
        return name
    with contextlib.suppress(TokfmtError):  # a file in a store may name only what is in that store
        sibling = place_named(path, name)
        return sibling.text if sibling.exists() else name
    return name


def _of_params(path: Place) -> str:
    place = (path if path.is_dir() else path.parent) / _PARAMS
    try:
        content: Any = json.loads(read_whole(place, _LIMIT)) if place.is_file() else None
    except (OSError, ValueError, RecursionError, FormatError):
        return ""
    for section in content.values() if isinstance(content, dict) else ():
        named = section.get("huggingface_tokenizer") if isinstance(section, Mapping) else None
        if isinstance(named, str):
            return named
    return ""


def load(name: str, *, encoding: bool = False, local: bool = False) -> Vocabulary:
    """Load a tokenizer, with its encoder for text, which takes a tenth of a second or more."""
    from tokfmt.text.tokenizer import load_tokenizer

    handle = load_tokenizer(name, local=local)
    decoder = handle.decoder(lenient=True)
    decoder.pieces([0])  # builds its tables now, not at the first key
    return Vocabulary(handle, decoder, handle.encoder() if encoding else None)


class _NoEncoder(Encoder):
    """An encoder that raises an error for every text, which the rows then show."""

    def __init__(self, error: TokfmtError) -> None:
        self.error = error

    def encode(self, texts: list[str]) -> Ragged:  # noqa: ARG002 - an encoder takes texts
        raise self.error


def _encoder_of(reader: RecordReader, words: Vocabulary) -> Encoder:
    """Return the encoder of the texts of a reader; one that always fails if the tokenizer has no chat template."""
    from tokfmt.source.ingest import encoder_of

    try:
        return encoder_of(reader, words.handle) or _NoEncoder(TokfmtError("holds no text"))
    except TokfmtError as error:
        return _NoEncoder(error)


class Counted(NamedTuple):
    """The result of a pass over all rows: the statistics, and the lists of which these hold the beginnings."""

    statistics: Statistics
    lists: Lists


Where = tuple[int, int]
"""The number of a row, and a unit in it."""


class Sizes(NamedTuple):
    """The sizes of a step: its samples over all ranks, and the ranks that share them."""

    batch: int
    ranks: int = 1


_SIZES = Sizes(16)


@dataclass
class Session:
    """A dataset."""

    request: SourceRequest  # the paths, and how to read them
    opened: Opening  # the dataset as far as it is opened
    shown: str  # name of the view on the screen
    choice: Choice | None = None  # the tokenizer by name, if any; `vocabulary` when it is loaded
    vocabulary: Vocabulary | None = None
    failure: str = ""  # the error of the second stage or of the tokenizer; "" without one
    chosen: bool = False  # the user chose that view
    refused: Exception | None = None  # the error that prevents showing anything; None without one
    verdict: CheckReport | None = None  # the result of a check, if one ran
    probed: bool = False  # the cheap check was started, which runs once
    splits: tuple[str, ...] = ()  # names of all splits; empty without splits
    split: str = ""  # the split on the screen; "" without splits
    # the request of the user, from which `request` differs after a change of the split
    asked: SourceRequest | None = None
    where: Where = (0, 0)  # the position of the cursor, for showing the session again
    batch: Sizes = _SIZES  # as the user set it, for a dataset that states no size of its batches
    # the share of padding of the rows of each view, by its name, as far as it is counted
    padding: dict[str, float] = field(default_factory=dict)
    identity: Identity | None = None  # identity of the file or directory at the path when it was opened
    is_file: bool = True  # the path is a file, not a directory
    stamp: Stamp | None = None  # the state of the dataset when it was opened; None in a store
    outdated: str = ""  # "grew", "changed" or "deleted" if its files did since then, or are gone; "" if not
    _texts: dict[str, RowSource] = field(default_factory=dict, repr=False)
    _counted: dict[bool, Counted] = field(default_factory=dict, repr=False)

    @property
    def path(self) -> Place:
        """Return the first path."""
        return shown_path(self.request)

    @property
    def format_name(self) -> str | None:
        """Return the name of the format; None if it is unknown."""
        return self.opened.format.name if self.opened.format else None

    @property
    def view(self) -> View:
        """Return the view on the screen."""
        return next(view for view in self.opened.views if view.name == self.shown)

    @property
    def statistics(self) -> Statistics | None:
        """Return the statistics of the rows of the view; None before the count."""
        found = self._counted.get(self.view.as_stored)
        return None if found is None else found.statistics

    @property
    def lists(self) -> Lists | None:
        """Return all IDs by frequency, and the groups of equal rows of the view; None before the count."""
        found = self._counted.get(self.view.as_stored)
        return None if found is None else found.lists

    def keep_statistics(self, found: Counted | None) -> None:
        """Keep the statistics of the rows of the view; None removes them."""
        if found is None:
            self._counted.pop(self.view.as_stored, None)
        else:
            self._counted[self.view.as_stored] = found

    @property
    def port(self) -> RowSource:
        """Return the rows of the view; text with a tokenizer has rows of tokens."""
        view, words = self.view, self.vocabulary
        if not (self.of_text and isinstance(view.port, RecordSource) and words and words.encoder):
            return view.port
        if view.name not in self._texts:
            self._texts[view.name] = view.port.with_encoder(_encoder_of(view.port.reader, words))
        return self._texts[view.name]

    @property
    def of_text(self) -> bool:
        """Return whether the dataset holds text."""
        reader = self.view.reader
        return isinstance(reader, RecordReader) and reader.info.kind == "text"

    @property
    def token_style(self) -> TokenStyle:
        """Return the interpretation of the IDs."""
        if self.port.unit == "character":
            return TokenStyle(Characters(), characters=True)
        reader, words = self.view.reader, self.vocabulary
        top = None if isinstance(reader, RecordReader) else reader.info.max_id
        narrow = not isinstance(reader, RecordReader) and reader.info.dtype.itemsize <= 2
        digits = max(5 if narrow else 6, len(str(top or 0)))
        separator = self.opened.separator.eos_id
        is_document = self.view.name == "documents" and not isinstance(reader, RecordReader) and is_masked(reader)
        if words is None:
            return TokenStyle(separator=separator, digits=digits, divides=not is_document)
        return TokenStyle(words.decoder, words.specials, separator, digits=digits, divides=not is_document)

    def add(self, grown: Opening) -> None:
        """Take the dataset with all its rows, and show its first view, unless the user chose another one."""
        self.opened = grown
        self._texts.clear()
        names = [view.name for view in grown.views]
        if not self.chosen or self.shown not in names:
            self.where, self.shown = (0, 0), names[0]

    def give_up(self, error: Exception, why: str) -> None:
        """Record that the second stage failed; the result of the first stays."""
        self.failure = why
        self.opened = self.opened._replace(notes=(*self.opened.notes, why), pending="")
        if not any(view.port.count for view in self.opened.views):
            self.refused = error

    def use(self, vocabulary: Vocabulary | None) -> None:
        """Use a loaded tokenizer, or none; figures and a verdict of another one are dropped."""
        if self.vocabulary is not None:
            self._counted.clear()
        if vocabulary is not self.vocabulary and not self.of_text:
            self.verdict, self.probed = None, False
        self.vocabulary = vocabulary
        self._texts.clear()

    def see(self, view: str) -> None:
        """Show a view."""
        self.shown, self.where, self.chosen = view, (0, 0), True

    @property
    def advice(self) -> tuple[str, SourceRequest] | None:
        """Return what the error or a note advises, in words, and the request with these options; None without any."""
        for text in (self.failure if self.refused else "", *self.opened.notes):
            if found := advised(self.request, text):
                return found
        return None

    def check_unchanged(self) -> None:
        """Raise SourceChangedError if another dataset is at the path now. Call it before opening the files again."""
        if self.identity != identity_of(self.path)[0]:
            what = "was replaced or changed since it was opened here"
            raise SourceChangedError(self.path, what, remedy="R opens it again")


_ADVICE = re.compile(r"--(from|from-opt|eos) ([a-z\d_]+(?:=[a-z\d_]+)?)(?![\w=])")
"""An option with a value: words for one are in capitals."""


def advised(request: SourceRequest, text: str) -> tuple[str, SourceRequest] | None:
    """Return the options that the first sentence with some advises, in words, and the request with them."""
    for sentence in re.split(r"\. (?=[-A-Z])", text):
        found = _ADVICE.findall(sentence)
        formats = {value for name, value in found if name == "from"}
        if not found or len(formats) > 1:
            continue
        given = dict(value.split("=", 1) for name, value in found if name == "from-opt" and "=" in value)
        eos = next((int(value) for name, value in found if name == "eos" and value.isdecimal()), request.eos)
        after = replace(
            request, format=next(iter(formats), request.format), options={**request.options, **given}, eos=eos
        )
        if after != request:
            return "read it with " + " ".join(f"--{name} {value}" for name, value in found), after
    return None


class SearchScope(NamedTuple):
    """The rows to search."""

    port: RowSource  # the rows
    decoder: Pieces | None  # decoder of IDs; None without a tokenizer
    singular: str  # the noun for one row

    @property
    def reader(self) -> TokenReader | RecordReader:
        """Return the token axis, or the records."""
        return self.port.reader

    @property
    def of_text(self) -> bool:
        """Return whether the rows hold text, not IDs."""
        return isinstance(self.reader, RecordReader) and self.reader.info.kind == "text"


def search_scope(session: Session) -> SearchScope:
    """Return the scope of the view on the screen."""
    words = session.vocabulary
    return SearchScope(session.port, words.decoder if words else None, session.view.singular)


def shown_path(request: SourceRequest) -> Place:
    """Return the dataset that the browser shows."""
    return place_of(request.paths[0])


def reopened(session: Session) -> Session:
    """Open the dataset of a session again, with the same split and tokenizer."""
    after = shown_session(session.request)
    after.choice = session.choice
    if session.asked is not None:
        after.splits, after.split, after.asked = session.splits, session.split, session.asked
    return after


def open_session(request: SourceRequest, tokenizer: str | None = None) -> Session:
    """Open a dataset in its first stage."""
    stamp = stamp_of(shown_path(request))
    (identity, is_file), first = identity_of(shown_path(request)), opened(request)
    if first.format is not None and first.format.prefix:
        stamp = stamp_of(shown_path(request), first.format)
    info = first.views[0].reader.info
    split = info.split or ""
    splits = (split, *info.other_splits) if split else ()
    choice = choose(shown_path(request), tokenizer, info.made_by, first.manifest)
    names = tuple(sorted(splits, key=natural_key))
    return Session(
        request,
        first,
        first.views[0].name,
        choice,
        splits=names,
        split=split,
        identity=identity,
        is_file=is_file,
        stamp=stamp,
    )


def shown_session(request: SourceRequest, tokenizer: str | None = None) -> Session:
    """Open a dataset; return a session with the error if it cannot be opened."""
    try:
        return open_session(request, tokenizer)
    except TokfmtError as error:
        return refused_session(request, error)


def refused_session(request: SourceRequest, error: TokfmtError) -> Session:
    """Return the session of a dataset that cannot be opened, whose bytes can still be shown and checked."""
    try:
        with Listing() as listing:  # else each name in a bucket is asked for with its first block
            format_ = format_of(place_of(request.paths[0]).asking(listing), request.format)
    except TokfmtError:
        format_ = None
    identity, is_file = identity_of(shown_path(request))
    return Session(
        request,
        Opening(request, format_, (View("documents", Viewport(MemoryReader(Ragged.of(())))),)),
        "documents",
        failure=str(error),
        refused=error,
        identity=identity,
        is_file=is_file,
    )


def other_split(session: Session, split: str, tokenizer: str | None = None) -> Session:
    """Open another split of the same dataset."""
    request = session.request.of_split(split)
    after = shown_session(request, tokenizer)
    after.splits, after.split, after.asked = session.splits, split, session.asked or session.request
    return after


def carried(before: View, where: Where, after: View) -> Where:
    """Return the position of a token of one view in another view of the same dataset. Reads.

    The position follows from the byte offset of the token if the readers know it, else from its share of all tokens.
    """
    if isinstance(before.reader, RecordReader) or isinstance(after.reader, RecordReader):
        return where
    span = fetched_span(before.port, where[0])
    if isinstance(span, Damage) or span.start is None or not after.reader.info.tokens:
        return 0, 0
    at, total = span.start + where[1], before.reader.info.tokens
    position = None
    try:
        place = before.reader.locate(at) if at < total else None
        if place is not None:
            position = after.reader.find(place.path, place.offset)
        if place is not None and place.width is None and position is not None:
            position = _within_chunk(after.reader, position, place)
    except TokfmtError:
        position = None
    if position is None:
        position = min(at * after.reader.info.tokens // max(1, total), after.reader.info.tokens - 1)
    return located(after.port, position) or (0, 0)


def has_parts(port: RowSource) -> bool:
    """Return whether a row may have parts: a sample, a row of a recipe, or a row with a loss mask, as a chat has."""
    reader = port.reader
    if isinstance(reader, RecordReader):
        return port.encoder is not None and bool(port.encoder.loss_masks)
    return reader.info.layout is Layout.SAMPLES or recipe_of(reader) is not None or is_masked(reader)


def _within_chunk(reader: TokenReader, first: int, place: ByteOffset) -> int | None:
    """Return the position of a token of a compressed chunk that begins with `first`; None without it. Reads.

    Tokens of one chunk differ in their detail, whose numbers ascend.
    """

    def reached(position: int) -> bool:
        for at in range(position, min(position + 2, reader.info.tokens)):  # a separator that was inserted has no place
            found = reader.locate(at)
            if found is not None:
                beyond = (found.path, found.offset) != (place.path, place.offset)
                return beyond or _numbers(found.detail) >= _numbers(place.detail)
        return True

    candidates = range(first, reader.info.tokens)
    found = bisect_left(candidates, True, key=reached)
    for position in candidates[found : found + 2]:
        if reader.locate(position) == place:
            return position
    return None


def _numbers(detail: str) -> list[int]:
    return [int(word) for word in re.findall(r"\d+", detail)]


def located(port: RowSource, position: int) -> Where | None:
    """Return the row and the unit of a position on the token axis; None without one. Reads."""
    row = port.row_at(position)
    span = None if row is None else fetched_span(port, row)
    if row is None or not isinstance(span, Span) or span.start is None:
        return None
    return row, position - span.start


def row_at(session: Session, target: Pointer) -> Where | None:
    """Return the row and the token at a byte of a file; None if the byte holds no token. Reads."""
    reader = session.view.reader
    if isinstance(reader, RecordReader):
        record = reader.record_at(target.path, target.offset)
        return None if record is None or record >= session.port.count else (record, 0)
    position = reader.find(target.path, target.offset)
    if position is None or not 0 <= position + target.beyond < reader.info.tokens:
        return None
    return located(session.port, position + target.beyond)


Stage = Literal["tokenizer", "documents"]


class Grown(NamedTuple):
    """The outcome of the second stage."""

    opening: Opening
    choice: Choice | None  # the tokenizer, if it is known only now


class Loading:
    """Load one session, one stage after the other.

    Workers call `post` with the session, a stage and its outcome: a Vocabulary, Grown or an error; None for
    progress. It must pass them to the thread of the screen, which calls `take`.
    """

    def __init__(self, session: Session, post: Callable[[Session, Stage, object], object]) -> None:
        self.session, self._post = session, post
        self.job: Job | None = None
        self.stage: Stage | None = None
        self.waits = True  # the documents may be there before rows of fixed length are worth a look
        self._choice: Choice | None = None  # the tokenizer that is loading

    def change(self, choice: Choice | None) -> None:
        """Use another tokenizer, or none for None. The one in use stays until the other is loaded."""
        self.cancel()
        if choice is not None:
            self._begin("tokenizer", choice)
            return
        self.session.use(None)
        self.session.choice = None
        remember_later(self.session.path, tokenizer=None)
        self.start()

    def start(self, vocabulary: Vocabulary | None = None) -> None:
        """Start the next stage; `vocabulary` is a tokenizer that another split of the dataset has loaded."""
        if vocabulary is not None and self.session.vocabulary is None:
            self.take("tokenizer", vocabulary)
        elif self.session.choice is not None and self.session.vocabulary is None:
            self._begin("tokenizer")
        elif self.session.opened.pending and self.session.opened.starts:
            self._begin("documents")

    @property
    def hides(self) -> bool:
        """Return whether the rows that are known now are not shown: their text, or soon the documents, will be."""
        if self.stage == "documents":
            return self.waits and self.session.shown == UNKNOWN
        return self.stage == "tokenizer" and self.session.vocabulary is None

    def start_documents(self) -> None:
        """Start the second stage, even if it takes long, while the rows that are known now are shown."""
        if self.stage is None and self.session.opened.pending:
            self._begin("documents")
            self.waits = False

    def cancel(self) -> bool:
        """Cancel the running stage; return False if none is running."""
        if self.job is None:
            return False
        self.job.cancel()
        self.job = self.stage = None
        return True

    def take(self, stage: Stage, outcome: object) -> None:
        """Put the outcome of a stage into the session, and start the next stage."""
        session = self.session
        self.job = self.stage = None
        choice, self._choice = self._choice or session.choice, None
        if isinstance(outcome, Vocabulary):
            session.use(outcome)
            session.choice = choice
            if self._splits_otherwise(outcome):
                self._begin("documents")
                return
        elif isinstance(outcome, Grown):
            session.add(outcome.opening)
            session.choice = session.choice or outcome.choice
        elif isinstance(outcome, Exception):
            why = said(outcome)
            if stage == "documents":
                session.give_up(outcome, why)
            elif session.vocabulary is None:
                session.failure = why
        if stage == "tokenizer":
            session.choice = session.choice if session.vocabulary is not None else None
        if stage == "tokenizer" or isinstance(outcome, Grown):
            self.start()

    def _splits_otherwise(self, vocabulary: Vocabulary) -> bool:
        """Return whether the opened dataset has another separator than the tokenizer that the user named."""
        opened, eos = self.session.opened, vocabulary.handle.eos_id
        named = self.session.choice is not None and self.session.choice.source in NAMED
        settled = opened.pending or opened.damage or self.session.request.eos is not None or eos is None
        return named and not settled and not self.session.of_text and opened.separator.eos_id != eos

    def _begin(self, stage: Stage, choice: Choice | None = None) -> None:
        session, self.stage, self.waits = self.session, stage, True
        choice = self._choice = choice or session.choice
        if stage == "tokenizer" and choice is not None:
            encoding = session.of_text
            work: Callable[[Job], object] = lambda job: _loaded(session.path, choice, encoding=encoding)  # noqa: E731
        else:
            work = partial(_grown, session, session.vocabulary)
        self.job = Job(
            work,
            lambda outcome: self._post(session, stage, outcome),
            lambda: self._post(session, stage, None),
        )


def _grown(session: Session, words: Vocabulary | None, job: Job) -> Grown:
    """Open all documents, and choose the tokenizer that only the manifests of files in a folder name."""
    before, after = session.opened, session.opened.grown(words.handle if words else None, job)
    made_by, is_new = after.views[0].reader.info.made_by, not before.manifest.content and bool(after.manifest.content)
    return Grown(after, choose(session.path, None, made_by, after.manifest) if is_new else None)


def _loaded(path: Place, choice: Choice, *, encoding: bool) -> Vocabulary:
    """Load a tokenizer, and remember it for the dataset if the user named it."""
    asked = choice.source in (*NAMED, "last time")
    vocabulary = load(choice.name, encoding=encoding, local=not asked)
    if choice.source in NAMED:
        name = os.path.abspath(choice.name) if os.path.exists(choice.name) else choice.name
        remember(path, tokenizer=name)
    return vocabulary
