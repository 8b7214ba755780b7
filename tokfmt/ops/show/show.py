"""`tokfmt show`: some sequences of a dataset, as ids and, with a tokenizer, as text. A long sequence needs
no more memory than a short one: it is read as far as somebody looks.

With --samples, rows as they are stored, input_ids, mask and labels, with what can be told of them.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import CorruptError, FormatError, OptionError
from tokfmt.core.format import Encoder
from tokfmt.core.loss_mask import padding_of
from tokfmt.core.messages import Option
from tokfmt.core.options import given_options, nearest, parse_count
from tokfmt.core.protocols import Reaching, Sampled, Segmented
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import Layout, TokenReader, windows
from tokfmt.core.records import RecordReader
from tokfmt.core.seeds import SHOW, check_seed, random_order
from tokfmt.core.text_format import printable
from tokfmt.ops.search.query import Hit, LengthQuery, Query, Search, is_query, parse_query
from tokfmt.ops.search.search import Spelling, find, find_records
from tokfmt.ops.source.discover import format_of
from tokfmt.ops.source.ingest import encoded, encoder_of, tokenized
from tokfmt.ops.source.open import open_one
from tokfmt.ops.source.request import (
    EosChoice,
    Options,
    Selection,
    SourceRequest,
    needed,
    parse_selection,
    selection_words,
    viewed,
)
from tokfmt.ops.source.stored import Source, tokenizer_of
from tokfmt.run.execute import NullProgress, Progress
from tokfmt.text.decoding import DecodeError, TextDecoder, VocabularyDecoder
from tokfmt.views.memory import MemoryReader

if TYPE_CHECKING:
    from tokfmt.ops.provenance import Origin

DEFAULT = 5
"""Sequences shown when nothing is selected."""

SEARCHED = 10
"""Sequences shown by a search that has no limit of its own."""

SAMPLES = 2
"""Samples shown when nothing is selected."""

_LITTLE = 1 << 22
"""Bytes of records that are counted whatever is asked."""

_RANDOM = re.compile(r"\s*random\s*:(.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Preview:
    """A dataset opened for looking: what it is, and the sequences selected, read as they are asked for.

    Attributes:
        sequences, tokens: How many there are; None where that was not needed to know.
        shown: The sequences; an iterator.
        cut: The limit, if it ended the selection (asked after `shown` has ended), else None.
    """

    path: str
    format: str
    sequences: int | None
    tokens: int | None
    eos_id: int | None
    eos_from: str
    extras: dict[str, object]
    notes: tuple[str, ...]
    shown: Iterator[Shown] = field(repr=False)
    cut: Callable[[], int | None] = field(repr=False)


def show(
    path: str | os.PathLike[str],
    selection: Selection = None,
    *,
    from_format: str | None = None,
    from_options: Options = (),
    tokenizer: str | None = None,
    text_field: str | None = None,
    eos: EosChoice = None,
    split: str | None = None,
    seed: int = 0,
    limit: int | None = None,
    allow_loss: Iterable[str] = (),
    recursive: bool = False,
    ignore_manifest: bool = False,
    progress: Progress | None = None,
) -> Preview:
    """Open a dataset and read the selected sequences.

    Args:
        path: A file or a directory.
        selection: `5`, `0:10`, `-3:`, `random:5`, a number, a slice, or a query (see `ops.search.query`); by default
            the first five.
        from_format, from_options, tokenizer, text_field, eos, split: As everywhere.
        seed: Of `random:5`: the same seed chooses the same sequences of datasets with as many.
        limit: At most so many sequences; by default ten of a search, all of any other selection. 0 for all.
        allow_loss, recursive, ignore_manifest: As everywhere.
        progress: Who watches a search.

    Raises:
        TokfmtError: One of its kinds.
    """
    selection = selection_words(selection)
    query = _query(selection)
    handle = tokenizer_of(tokenizer)
    decoder = handle.decoder() if handle else None
    said = SourceRequest.of(
        path, from_format, eos, from_options, text_field, split, allow_loss, recursive, ignore_manifest
    )
    request = replace(said, allow_loss=said.allow_loss | {"fields"})
    most = None if query is not None or _is_random(selection) else needed(selection, DEFAULT)
    source = open_one(request, handle, progress=progress, most=most, few=query is None)
    reader = source.reader
    watched = progress or NullProgress()
    if isinstance(reader, RecordReader):
        if reader.info.kind == "text" and tokenizer is None:
            return _of_texts(source, reader, selection, query, (seed, limit, most), watched)
        if query is None:
            return _of_records(source, reader, encoder_of(reader, handle), decoder, (selection, seed, limit, most))
        reader = tokenized(reader, handle)
    look = Look(reader, decoder, Spelling(decoder) if decoder is not None else None)
    if query is None:
        chosen: Iterator[Chosen] = (
            (i, None) for i in _numbers(source.paths[0], selection, reader.info.sequences, seed)
        )
    else:
        lengths, info = isinstance(query, LengthQuery), reader.info
        total, unit = (info.sequences, "sequences") if lengths else (info.tokens, "tokens")
        watched.phase("searching", total, unit)
        hits = find(reader, query, decoder=decoder, each=True, progress=watched.advance)
        chosen = ((hit.sequence, None if lengths else hit) for hit in hits)
    kept = _kept(chosen, limit, query)
    counts = (reader.info.sequences, reader.info.tokens) if not reader.info.beginning else (None, None)
    return _preview(source, counts, _sequences(reader, kept, look), kept)


def show_origins(path: str | os.PathLike[str], selection: Selection = None, **given: Any) -> Preview:
    """The same as `show`, and where each sequence comes from, by the ledger beside the dataset.

    Sequences are samples where the ledger is of samples.

    Raises:
        FormatError: There is no ledger, or it is damaged, cut, or of another dataset.
    """
    from tokfmt.ops.provenance import Ledgers  # with all of recipes

    format_ = format_of(path, given.get("from_format"))
    place, ledgers, options = format_.canonical(Path(path)), Ledgers(), dict(given_options(given["from_options"]))
    ledger = ledgers.of(place, format_.name)
    if ledger is None:
        raise FormatError(
            place, "has no ledger beside it", remedy=f"A recipe that is converted with {Option('ledger')} gets one"
        )
    if ledger.unit == "samples":
        options = dict(viewed(SourceRequest((path,), options=options), format_, "samples").options)
    preview = show(path, selection, **{**given, "from_format": format_.name, "from_options": options})
    if preview.sequences not in (None, ledger.sequences):
        raise CorruptError(
            place, "is read otherwise than it was written, and its ledger does not tell of these sequences",
            expected=f"{ledger.sequences:,} {ledger.unit}", found=f"{preview.sequences:,}",
            remedy="Leave out what says how to read it",
        )  # fmt: skip
    shown = (replace(one, origins=tuple(ledgers.origins(ledger, one.index))) for one in preview.shown)
    return replace(preview, shown=shown)


Chosen = tuple[int, Hit | None]


@dataclass(slots=True)
class _Kept:
    """What was chosen, up to a limit.

    Attributes:
        chosen: In order.
        limit: None or 0 for none.
        searched: To know whether there is more could take as long as the whole search: it is not looked at.
        cut: The limit, once it was reached.
    """

    chosen: Iterator[Chosen]
    limit: int | None
    searched: bool
    cut: int | None = None

    def __iter__(self) -> Iterator[Chosen]:
        count = 0
        for one in islice(self.chosen, self.limit or None):
            yield one
            count += 1
        if self.limit and count == self.limit and (self.searched or next(self.chosen, None) is not None):
            self.cut = self.limit


def _kept(chosen: Iterator[Chosen], limit: int | None, query: Query | None) -> _Kept:
    return _Kept(chosen, limit if limit is not None or query is None else SEARCHED, query is not None)


def _query(selection: str | None) -> Query | None:
    if selection is None or _RANDOM.fullmatch(selection) or not is_query(selection):
        return None
    try:
        return parse_query(selection)
    except OptionError as error:
        word = selection.partition(":")[0].strip()
        if error.nearest is None and nearest(word, ["random"]):
            raise OptionError(f"{selection!r} chooses nothing", name=word, nearest="random:5") from None
        raise


def _numbers(path: Path, selection: str | None, count: int, seed: int) -> Iterator[int]:
    """The numbers of the selected sequences."""
    match = _RANDOM.fullmatch(selection) if selection is not None else None
    if match is None:
        return iter(range(*_range(path, selection, count, DEFAULT)))
    wanted = min(parse_count(match[1]), count)
    if wanted < 0:
        raise OptionError(f"{selection}: expected how many, such as random:5", name="random")
    return iter(sorted(islice(random_order(count, check_seed(seed, f"{Option('seed')}"), SHOW), wanted)))


def _sequences(reader: TokenReader, chosen: _Kept, look: Look) -> Iterator[Shown]:
    for index, hit in chosen:
        start, stop = reader.offsets(index, index + 1).tolist()
        found = None if hit is None else (hit.start - start, hit.stop - start)
        yield Shown(index, stop - start, start, found, look)


def _of_texts(
    source: Source,
    records: RecordReader,
    selection: str | None,
    query: Query | None,
    how: tuple[int, int | None, int | None],
    progress: Progress,
) -> Preview:
    seed, limit, most = how
    count = _count(records, most)
    if query is None:
        chosen: Iterator[Chosen] = ((i, None) for i in _numbers(source.paths[0], selection, count, seed))
    else:
        progress.phase("searching", records.info.size, "bytes")
        hits = find_records(records, query, Search(each=True, progress=progress.advance))
        chosen = ((hit.sequence, None if isinstance(query, LengthQuery) else hit) for hit in hits)
    kept = _kept(chosen, limit, query)

    def shown() -> Iterator[Shown]:
        for index, hit in kept:
            text = str(records.record(index))
            yield Shown(index, len(text), 0, None if hit is None else (hit.start, hit.stop), Look(None), text)

    return _preview(source, (_all(records, most), None), shown(), kept)


def _of_records(
    source: Source,
    records: RecordReader,
    encoder: Encoder | None,
    decoder: TextDecoder | None,
    how: tuple[str | None, int, int | None, int | None],
) -> Preview:
    """Records whose ids are made, or read, one by one: only of those that are shown."""
    selection, seed, limit, most = how
    chosen: Iterator[Chosen] = ((i, None) for i in _numbers(source.paths[0], selection, _count(records, most), seed))
    kept = _kept(chosen, limit, None)
    spelling = Spelling(decoder) if decoder is not None else None

    def shown() -> Iterator[Shown]:
        for index, _ in kept:
            reader = MemoryReader(encoded(records, encoder, index, index + 1))
            yield Shown(index, reader.info.tokens, 0, None, Look(reader, decoder, spelling))

    return _preview(source, (_all(records, most), None), shown(), kept)


def _is_random(selection: str | None) -> bool:
    return selection is not None and _RANDOM.fullmatch(selection) is not None


def _count(records: RecordReader, most: int | None) -> int:
    """How many records there are; no more than `most` if that is not None: then none beyond them is looked for."""
    if most is not None and isinstance(records, Reaching) and records.info.size > _LITTLE:
        return records.reach(most)
    return records.count()


def _all(records: RecordReader, most: int | None) -> int | None:
    """How many records there are, if all were counted."""
    much = most is not None and isinstance(records, Reaching) and records.info.size > _LITTLE
    return records.info.records if much else records.count()


def _preview(source: Source, counts: tuple[int | None, int | None], shown: Iterator[Shown], kept: _Kept) -> Preview:
    sequences, tokens = counts
    return Preview(
        path=str(source.paths[0]),
        format=source.format.name,
        sequences=sequences,
        tokens=tokens,
        eos_id=None if isinstance(source.reader, RecordReader) else source.separator.eos_id,
        eos_from="" if isinstance(source.reader, RecordReader) else source.separator.source,
        extras=dict(source.reader.info.facts),
        notes=source.notes,
        shown=shown,
        cut=lambda: kept.cut,
    )


AT_ONCE = 1 << 16
"""Tokens read at once."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Look:
    """How sequences are read.

    Attributes:
        reader: Where from; None for records of text.
        decoder: Strict; None without a tokenizer.
        spelling: Of its ids.
    """

    reader: TokenReader | None
    decoder: TextDecoder | None = None
    spelling: Spelling | None = None

    def spelled(self, tokens: Tokens) -> bytes:
        """What ids stand for, one after the other; nothing without a tokenizer."""
        return b"" if self.spelling is None else b"".join(map(self.spelling.__getitem__, tokens.tolist()))


@dataclass(frozen=True, slots=True)
class Shown:
    """One sequence.

    Attributes:
        index: Its number.
        length: Tokens; characters when there are no ids.
        start: Where it begins on the axis.
        found: What a search found in it, positions within the sequence; None without a search for something inside.
        record: The text of a record that nobody tokenised.
        origins: Where its pieces come from, in order; None where nobody asked.
    """

    index: int
    length: int
    start: int
    found: Span | None
    look: Look = field(repr=False)
    record: str | None = None
    origins: tuple[Origin, ...] | None = None

    @property
    def ids(self) -> list[int] | None:
        """All its ids; None for text that nobody tokenised."""
        if self.look.reader is None:
            return None
        return [token for tokens in self.tokens(0, self.length) for token in tokens.tolist()]

    @property
    def text(self) -> str | None:
        """All its text; None without a tokenizer. A byte that is no text is `\\xff`, an id without a token ⟨id⟩."""
        if self.record is None and self.look.decoder is None:
            return None
        return "".join(self.texts([(0, self.length)]))

    def tokens(self, start: int, stop: int) -> Iterator[Tokens]:
        """The ids at positions `start <= p < stop` within the sequence, some at a time."""
        if self.look.reader is not None:
            for a, b in windows(self.start + start, self.start + stop, AT_ONCE):
                yield self.look.reader.tokens(a, b)

    def texts(self, spans: list[Span]) -> Iterator[str]:
        """The text of adjoining spans of positions, in pieces; a character of several spans belongs to the last."""
        if self.record is not None:
            yield from (self.record[a:b] for a, b in spans)
            return
        whole = spans == [(0, self.length)] and self.length <= AT_ONCE
        if whole and isinstance(self.look.decoder, VocabularyDecoder):
            yield self._decoded(self.look.decoder)
            return
        utf8 = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        for k, (a, b) in enumerate(spans):
            text = ""
            for tokens in self.tokens(a, b):
                text += utf8.decode(self.look.spelled(tokens))
                if len(spans) == 1:
                    yield text
                    text = ""
            if k == len(spans) - 1:
                text += utf8.decode(b"", final=True)
            yield text

    def _decoded(self, decoder: VocabularyDecoder) -> str:
        """Such a tokenizer has rules of its own for what stands at the beginning, or between tokens."""
        tokens = np.concatenate([np.empty(0, np.uint8), *self.tokens(0, self.length)])
        try:
            return decoder.decode(tokens)
        except DecodeError:
            return self.look.spelled(tokens).decode("utf-8", "backslashreplace")


Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One row.

    Attributes:
        index: Its number.
        ids: Its input_ids.
        mask: uint8, 1 where the label counts in the loss; None when no mask is stored.
        labels: int64, None when none are stored: then they are the next ids.
        begins: bool, where a document begins inside the row, as far as can be told.
        padding: Tokens at its end that only fill it up.
        pieces: What each id stands for, None without a tokenizer.
    """

    index: int
    ids: Tokens
    mask: NDArray[np.uint8] | None
    labels: NDArray[np.int64] | None
    begins: Flags
    padding: int
    pieces: list[str] | None = None


@dataclass(frozen=True, slots=True)
class SampleView:
    """A dataset opened for looking at its rows, read as they are asked for.

    `bordered`: it can be told where documents begin in rows.
    """

    path: str
    format: str
    samples: int
    sample_length: int | None
    eos_id: int | None
    eos_from: str
    pad_id: int | None
    bordered: bool
    notes: tuple[str, ...]
    shown: Iterator[Sample] = field(repr=False)


def samples(source: SourceRequest, selection: str | None = None, *, tokenizer: str | None = None) -> SampleView:
    """Open a dataset of samples and read the rows selected.

    Args:
        selection: `5`, `0:10`, `-3:`; the first two by default.
        tokenizer: Name, directory or tokenizer.json: says what ids stand for.

    Raises:
        OptionError: The format has no samples.
        TokfmtError: Another of its kinds.
    """
    handle, path = tokenizer_of(tokenizer), source.paths[0]
    chosen = format_of(path, source.format)
    found = open_one(viewed(replace(source, format=chosen.name), chosen, "samples"), handle)
    reader, decoder = found.reader, handle.decoder(lenient=True) if handle else None
    if isinstance(reader, RecordReader) or reader.info.layout is not Layout.SAMPLES:
        raise OptionError(f"{printable(path)}: {chosen.name} stores no samples here. Leave {Option('samples')} away")
    first, last = _range(found.paths[0], selection, reader.info.sequences, SAMPLES)
    look = _Rows(reader, found.separator.eos_id, reader.info.pad_id, decoder)
    return SampleView(
        path=str(Path(path)),
        format=chosen.name,
        samples=reader.info.sequences,
        sample_length=reader.info.sample_length,
        eos_id=look.eos_id,
        eos_from=found.separator.source,
        pad_id=look.pad_id,
        bordered=look.eos_id is not None or isinstance(reader, Segmented),
        notes=found.notes,
        shown=look.rows(first, last),
    )


def _range(path: Path, selection: str | None, count: int, default: int) -> tuple[int, int]:
    """What is selected; the first `default` when nothing is."""
    return (0, min(default, count)) if selection is None else parse_selection(selection, count, (path,))


@dataclass(frozen=True, slots=True)
class _Rows:
    """What is known of a dataset of samples, and how its rows are made of it."""

    reader: TokenReader
    eos_id: int | None
    pad_id: int | None
    decoder: TextDecoder | None

    def rows(self, first: int, last: int) -> Iterator[Sample]:
        """Rows `first <= i < last`, some at a time."""
        info = self.reader.info
        step = max(1, AT_ONCE * info.sequences // max(info.tokens, 1))
        for a in range(first, last, step):
            b = min(last, a + step)
            bounds = self.reader.offsets(a, b)
            start, stop = bounds[[0, -1]].tolist()
            ids, (masks, labels) = self.reader.tokens(start, stop), self._beside(start, stop)
            begins = self._begins(ids, bounds)
            for k, (first_token, end) in enumerate(pairwise((bounds - start).tolist())):
                part = slice(first_token, end)
                mask, label = None if masks is None else masks[part], None if labels is None else labels[part]
                # rows of lengths of their own are not filled up
                fill = padding_of(ids[part], mask, label, self.pad_id) if info.sample_length else 0
                inner = begins[part] & (np.arange(end - first_token) < end - first_token - fill)
                yield Sample(a + k, ids[part], mask, label, inner, fill, self._pieces(ids[part]))

    def _beside(self, start: int, stop: int) -> tuple[NDArray[np.uint8] | None, NDArray[np.int64] | None]:
        if not isinstance(self.reader, Sampled):
            return None, None
        return self.reader.masks(start, stop), self.reader.labels(start, stop)

    def _begins(self, ids: Tokens, bounds: Offsets) -> Flags:
        if isinstance(self.reader, Segmented):
            return self.reader.begins(*bounds[[0, -1]].tolist())
        begins = np.zeros(len(ids), np.bool_)
        if self.eos_id is not None:
            begins[1:] = ids[:-1] == self.eos_id
            begins[(bounds[:-1] - bounds[0])[np.diff(bounds) > 0]] = False
        return begins

    def _pieces(self, ids: Tokens) -> list[str] | None:
        if self.decoder is None:
            return None
        pieces = self.decoder.pieces(ids)
        return [p.decode("utf-8", "backslashreplace") if isinstance(p, bytes) else p for p in pieces]
