"""Show selected sequences (`tokfmt show`) or stored samples (`tokfmt show --samples`) of a dataset.

A sequence is IDs and, with a tokenizer, text. It is read only as far as the caller iterates, so a long sequence needs
no more memory than a short one. A sample is a stored row: input IDs, loss mask and labels, with the document borders
and the padding that follow from them.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Generic, NotRequired, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.options import nearest, parse_count
from tokfmt.base.seeds import SHOW, check_seed, random_order
from tokfmt.commands.search.query import (
    Hit,
    LengthQuery,
    Query,
    SameQuery,
    Search,
    affirmed,
    is_query,
    needs_tokenizer,
    parse_query,
)
from tokfmt.commands.search.search import Spelling, find, find_records
from tokfmt.core.format import Encoder
from tokfmt.core.loss_mask import counted_of, of_rows, padding_of
from tokfmt.core.losses import READS
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import TokenReader, windows
from tokfmt.core.records import RecordReader
from tokfmt.errors import CorruptError, FormatError, OptionError, UnendedError
from tokfmt.files.place import Place, place_of
from tokfmt.run.progress import Progress
from tokfmt.source.discover import format_of
from tokfmt.source.ingest import encoded, encoder_of, tokenized
from tokfmt.source.open import advising, find_one, open_dataset
from tokfmt.source.request import Reading, Selection, SourceRequest, needed, parse_selection, selection_words, viewed
from tokfmt.source.stored import Separator, Source, manifest_tokenizer, tokenizer_note, tokenizer_of
from tokfmt.text.decoding import DecodeError, TextDecoder, VocabularyDecoder
from tokfmt.wording import counted, html_table, printable, shortened

if TYPE_CHECKING:
    from tokfmt.commands.stats import Groups
    from tokfmt.mix import Origin
    from tokfmt.text.tokenizer import TokenizerHandle

DEFAULT = 5
"""Sequences shown without a selection."""

SEARCHED = 10
"""Sequences that the command line prints of a search without --limit."""

SAMPLES = 2
"""Samples shown without a selection."""

_LITTLE = 1 << 22
"""Bytes of records up to which all records are counted, even if only the first are shown."""

_ROWS, _CELL_IDS, _CELL = 100, 24, 400  # of the table for notebooks: rows, IDs and characters of a cell
_TOGETHER = 256  # sequences whose ends are looked at together
_NO_GROUPS: Mapping[int, Offsets] = {}
_RANDOM = re.compile(r"\s*random\s*:(.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Preview:
    """An opened dataset and its selected sequences, which are read while you iterate.

    Attributes:
        path: The path of the dataset.
        format: The name of its format.
        sequences: The number of sequences; None if it was not counted.
        tokens: The number of tokens; None if it was not counted.
        eos_id: The separator; None without one, and for text.
        eos_from: The origin of the separator.
        eos_seen: How many of the sequences that were looked at end with it, in words.
        extras: Facts of the format.
        notes: Sentences on what tokfmt inferred, and on defects.
        shown: The selected sequences.
        cut: Returns the limit if it ended the selection, else None. Valid once `shown` has ended.
    """

    path: str
    format: str
    sequences: int | None
    tokens: int | None
    eos_id: int | None
    eos_from: str
    eos_seen: str
    extras: dict[str, object]
    notes: tuple[str, ...]
    shown: Iterator[Shown] = field(repr=False)
    cut: Callable[[], int | None] = field(repr=False)

    def _repr_html_(self) -> str:
        """Return a table of the selected sequences, for notebooks, at most 100. Reads them from `shown`."""
        rows = []
        for sequence in islice(self.shown, _ROWS):
            ids = (
                None
                if sequence.decoding.reader is None
                else next(sequence.tokens(0, min(sequence.length, _CELL_IDS)), None)
            )
            text = (
                sequence.record
                if sequence.record is not None
                else sequence.text
                if sequence.length <= AT_ONCE
                else None
            )
            rows.append(
                (
                    sequence.index,
                    sequence.length,
                    None if ids is None else " ".join(map(str, ids.tolist())) + " …" * (sequence.length > _CELL_IDS),
                    None if text is None else shortened(text, _CELL),
                )
            )
        return html_table(f"{self.path}: {self.format}", ("sequence", "length", "tokens", "text"), rows, self.notes)


def show(
    asked: SourceRequest,
    selection: Selection = None,
    *,
    tokenizer: str | None = None,
    seed: int = 0,
    limit: int | None = None,
    only_ids: bool = False,
    progress: Progress | None = None,
) -> Preview:
    """Open a dataset and read the selected sequences. The selection is `5`, `0:10`, `-3:`, `random:5`, a number, a
    slice, `dup` (the first of each group of equal ones), or a query; without one, it is the first five sequences. A
    seed chooses the same numbers for every dataset with the same number of sequences. With `only_ids`, the tokenizer of
    the manifest is loaded only to search text.
    """
    selection = selection_words(selection)
    of_groups = _is_of_groups(selection)
    query = None if of_groups else _query(selection)
    plain = affirmed(query)
    handle = tokenizer_of(tokenizer)
    request = asked.accepting(READS["show"])
    is_random = selection is not None and _RANDOM.fullmatch(selection) is not None
    most = None if query is not None or of_groups or is_random else needed(selection, DEFAULT)

    def opened(every_end: bool) -> Source:
        asked, few = replace(request, every_end=every_end), query is None and not of_groups
        with advising(request):
            return open_dataset(asked, Reading(handle, None, progress, max_sequences=most, few_sequences=few))

    source = opened(of_groups or isinstance(plain, (LengthQuery, SameQuery)))  # These read few tokens.
    reader = source.reader
    watched = progress or Progress()
    numbers: Numbers = partial(_numbers, source.paths[0], selection, seed)
    equal = dict[int, Offsets]()
    if of_groups:
        from tokfmt.commands.stats import groups_in  # imports what no other selection needs

        groups = groups_in(request, handle, watched)
        equal = dict(zip(groups.first.tolist(), np.split(groups.members, groups.offsets[1:])[:-1], strict=True))
        source = source._replace(notes=(*source.notes, *_about(groups)))
        numbers = lambda _: iter(equal)  # noqa: E731
    if isinstance(reader, RecordReader) and reader.info.is_text and tokenizer is None:
        return _of_texts(source, reader, numbers, query, (limit, most), equal, watched)
    if not only_ids or needs_tokenizer(query):
        source, handle = with_tokenizer(source, request, handle)
    decoder = handle.decoder() if handle else None
    if isinstance(reader, RecordReader):
        if query is None:
            return _of_records(source, reader, encoder_of(reader, handle), decoder, numbers, (limit, most), equal)
        reader = tokenized(reader, handle)
    spelling = Spelling(decoder) if decoder is not None else None

    def sequences(reader: TokenReader) -> Iterator[Shown]:
        decoding, info = Decoding(reader, decoder, spelling), reader.info
        if query is None:
            chosen = ((i, None) for i in numbers(info.sequences))
            return _sequences(reader, chosen, decoding, together=_TOGETHER, equal=equal)
        total, unit = (info.sequences, "sequences") if query.whole else (info.tokens, "tokens")
        watched.phase("searching", total, unit)
        hits = find(reader, query, Search(each=True, progress=watched.advance), decoder=decoder)
        return _sequences(reader, ((hit.sequence, None if query.whole else hit) for hit in hits), decoding)

    def again(error: UnendedError) -> Iterator[Shown]:
        watched.note(f"{error.sentence}; the other sequences are read by their own ends")
        exact = opened(True).reader
        return sequences(exact) if isinstance(exact, TokenReader) else iter(())

    counts = (reader.info.sequences, reader.info.tokens) if not reader.info.beginning else (None, None)
    limited = _kept(_continued(sequences(reader), again), limit, query)
    return _preview(source, counts, iter(limited), limited)


def with_tokenizer(
    source: Source, request: SourceRequest, handle: TokenizerHandle | None
) -> tuple[Source, TokenizerHandle | None]:
    """Return the tokenizer in use, or else that of the manifest, which a note of the source then names."""
    if handle is not None or request.ignore_manifest or not any(source.tokenizers):
        return source, handle
    handle_of_manifest = manifest_tokenizer([source])
    if handle_of_manifest is None:
        return source, None
    return source._replace(notes=(*source.notes, tokenizer_note(handle_of_manifest, source))), handle_of_manifest


def show_origins(asked: SourceRequest, selection: Selection = None, **how: Any) -> Preview:
    """Show sequences, or samples if the ledger is one of samples, with the origins that the ledger lists."""
    from tokfmt.mix import Ledgers  # imports every module of recipes

    (path,) = asked.paths
    format_ = format_of(path, asked.format)
    place, ledgers = format_.canonical(place_of(path)), Ledgers()
    ledger = ledgers.of(place, format_.name)
    if ledger is None:
        raise FormatError(place, "has no ledger", remedy="Convert its recipe with --ledger")
    request = viewed(asked, format_, "samples") if ledger.unit == "samples" else asked
    preview = show(replace(request, format=format_.name), selection, **how)
    if preview.sequences not in (None, ledger.sequences):
        raise CorruptError(
            place,
            "is not read as it was written, so its ledger does not list these sequences",
            expected=f"{ledger.sequences:,} {ledger.unit}",
            found=f"{preview.sequences:,}",
            remedy="Leave out the read options",
        )
    shown = (replace(one, origins=tuple(ledgers.origins(ledger, one.index))) for one in preview.shown)
    return replace(preview, shown=shown)


Chosen = tuple[int, Hit | None]
T = TypeVar("T")


@dataclass(slots=True)
class _Kept(Generic[T]):
    """The chosen sequences, up to a limit."""

    chosen: Iterator[T]  # they, or their numbers and hits, in order
    limit: int | None  # None or 0 for no limit
    searched: bool  # decoding for one more hit could take as long as the search, so none is made
    cut: int | None = None  # the limit, once it has ended the selection

    def __iter__(self) -> Iterator[T]:
        count = 0
        for item in islice(self.chosen, self.limit or None):
            yield item
            count += 1
        if self.limit and count == self.limit and (self.searched or next(self.chosen, None) is not None):
            self.cut = self.limit


def _kept(chosen: Iterator[T], limit: int | None, query: Query | None) -> _Kept[T]:
    return _Kept(chosen, limit, query is not None)


def searches(selection: str | None) -> bool:
    """Return whether a selection looks for sequences, instead of naming them."""
    return _is_of_groups(selection) or _query(selection) is not None


def _query(selection: str | None) -> Query | None:
    if selection is None or _RANDOM.fullmatch(selection) or not is_query(selection):
        return None
    try:
        return parse_query(selection)
    except OptionError as error:
        word = selection.partition(":")[0].strip()
        near = nearest(word, ["random", "dup"]) if error.nearest is None and "dup" not in word.split() else None
        if near is not None:
            example = "random:5" if near == "random" else near
            raise OptionError(f"{selection!r} chooses nothing", name=word, nearest=example) from None
        raise


Numbers = Callable[[int], Iterator[int]]
"""Returns the numbers of the selected sequences of so many."""


def _is_of_groups(selection: str | None) -> bool:
    return selection is not None and selection.strip().lower() == "dup"


def _about(groups: Groups) -> Iterator[str]:
    """Yield notes about groups of equal sequences."""
    if not len(groups):
        return
    yield f"{counted(groups.total, 'group')} of equal sequences; same:{groups.first[0]} shows all of the first"
    if groups.total > len(groups):
        yield f"the {len(groups):,} largest are listed; tokfmt stats --duplicate-groups GROUPS.jsonl lists all"


def _numbers(path: Place, selection: str | None, seed: int, count: int) -> Iterator[int]:
    """Return the numbers of the selected sequences, ascending."""
    match = _RANDOM.fullmatch(selection) if selection is not None else None
    if match is None:
        return iter(range(*_range(path, selection, count, DEFAULT)))
    wanted = min(parse_count(match[1]), count)
    if wanted < 0:
        raise OptionError(f"{selection}: is not a number of sequences (expected random:N)", name="random")
    return iter(sorted(islice(random_order(count, check_seed(seed, "--seed"), SHOW), wanted)))


def _continued(first: Iterator[Shown], again: Callable[[UnendedError], Iterator[Shown]]) -> Iterator[Shown]:
    """Yield sequences; after an UnendedError, yield those of `again` that were not reached."""
    count = 0
    try:
        for sequence in first:
            yield sequence
            count += 1
    except UnendedError as error:
        yield from islice(again(error), count, None)


def _sequences(
    reader: TokenReader,
    chosen: Iterator[Chosen],
    decoding: Decoding,
    *,
    together: int = 1,
    equal: Mapping[int, Offsets] = _NO_GROUPS,
) -> Iterator[Shown]:
    """Yield sequences. The ends of `together` of them are looked at before the first of these is shown."""
    while block := list(islice(chosen, together)):
        if reader.presumes:
            numbers = np.unique([number for number, _ in block])
            behind = np.minimum(numbers + 1, reader.info.sequences - 1)  # It is looked at when they are read.
            reader.check_ends(np.unique(np.concatenate([numbers, behind])))
        yield from _shown(reader, block, decoding, equal)


def _shown(
    reader: TokenReader, chosen: Iterable[Chosen], decoding: Decoding, equal: Mapping[int, Offsets]
) -> Iterator[Shown]:
    for index, hit in chosen:
        start, stop = reader.offsets(index, index + 1).tolist()
        marked = None if hit is None else (hit.start - start, hit.stop - start)
        yield Shown(index, stop - start, start, marked, decoding, equal=equal.get(index))


def _of_texts(
    source: Source,
    records: RecordReader,
    numbers: Numbers,
    query: Query | None,
    how: tuple[int | None, int | None],
    equal: Mapping[int, Offsets],
    progress: Progress,
) -> Preview:
    limit, most = how
    count = _count(records, most)
    if query is None:
        chosen: Iterator[Chosen] = ((i, None) for i in numbers(count))
    else:
        progress.phase("searching", records.info.size, "bytes")
        hits = find_records(records, query, Search(each=True, progress=progress.advance))
        chosen = ((hit.sequence, None if query.whole else hit) for hit in hits)
    limited = _kept(chosen, limit, query)

    def shown() -> Iterator[Shown]:
        for index, hit in limited:
            text = str(records.record(index))
            span = None if hit is None else (hit.start, hit.stop)
            yield Shown(index, len(text), 0, span, Decoding(None), text, equal=equal.get(index))

    return _preview(source, (_all(records, most), None), shown(), limited)


def _of_records(
    source: Source,
    records: RecordReader,
    encoder: Encoder | None,
    decoder: TextDecoder | None,
    numbers: Numbers,
    how: tuple[int | None, int | None],
    equal: Mapping[int, Offsets],
) -> Preview:
    """Show records whose IDs are encoded or read one record at a time, only for those that are shown."""
    limit, most = how
    chosen: Iterator[Chosen] = ((i, None) for i in numbers(_count(records, most)))
    limited = _kept(chosen, limit, None)
    spelling = Spelling(decoder) if decoder is not None else None

    def shown() -> Iterator[Shown]:
        for index, _ in limited:
            reader = MemoryReader(encoded(records, encoder, index, index + 1))
            decoding = Decoding(reader, decoder, spelling)
            yield Shown(index, reader.info.tokens, 0, None, decoding, equal=equal.get(index))

    return _preview(source, (_all(records, most), None), shown(), limited)


def _count(records: RecordReader, most: int | None) -> int:
    """Return the number of records; if `most` is given, stop counting large sources at `most`."""
    return records.count_up_to(most) if most is not None and records.info.size > _LITTLE else records.count()


def _all(records: RecordReader, most: int | None) -> int | None:
    """Return the number of records; None if it is unknown, and only the first records were counted."""
    return records.info.records if most is not None and records.info.size > _LITTLE else records.count()


def _preview(
    source: Source, counts: tuple[int | None, int | None], shown: Iterator[Shown], limited: _Kept[Any]
) -> Preview:
    sequences, tokens = counts
    separator = Separator(None) if isinstance(source.reader, RecordReader) else source.separator
    return Preview(
        path=str(source.paths[0]),
        format=source.format.name,
        sequences=sequences,
        tokens=tokens,
        eos_id=separator.eos_id,
        eos_from=separator.source,
        eos_seen=separator.seen,
        extras=dict(source.reader.info.facts),
        notes=source.notes,
        shown=shown,
        cut=lambda: limited.cut,
    )


AT_ONCE = 1 << 16
"""Tokens read at once."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Decoding:
    """The reader and the tokenizer of shown sequences."""

    reader: TokenReader | None  # None for records of text
    decoder: TextDecoder | None = None  # strict
    spelling: Spelling | None = None  # the bytes of each ID

    def spelled(self, tokens: Tokens) -> bytes:
        """Return the joined bytes of IDs; no bytes without a tokenizer."""
        return b"" if self.spelling is None else b"".join(map(self.spelling.__getitem__, tokens.tolist()))


@dataclass(frozen=True, slots=True)
class Shown:
    """One shown sequence.

    Attributes:
        index: The number of the sequence.
        length: The length in tokens; in characters if the text is not tokenized.
        start: The position on the token axis at which the sequence begins.
        found: The hit of a search, `(start, stop)` within the sequence; None without one.
        decoding: The reader and the tokenizer.
        record: The text of a record that is not tokenized, else None.
        origins: The origins of its parts in order, by the ledger; None if they were not requested.
        equal: int64[n], the numbers of all sequences that are equal to it, ascending and with its own; None unless
            `dup` selected it.
    """

    index: int
    length: int
    start: int
    found: Span | None
    decoding: Decoding = field(repr=False)
    record: str | None = None
    origins: tuple[Origin, ...] | None = None
    equal: Offsets | None = None

    @property
    def ids(self) -> list[int] | None:
        """All IDs of the sequence; None for text that is not tokenized."""
        if self.decoding.reader is None:
            return None
        return [token for tokens in self.tokens(0, self.length) for token in tokens.tolist()]

    @property
    def text(self) -> str | None:
        """The complete text; None without a tokenizer. A byte that is not UTF-8 is `\\xff`, an unknown ID is ⟨id⟩."""
        if self.record is None and self.decoding.decoder is None:
            return None
        return "".join(self.texts([(0, self.length)]))

    def tokens(self, start: int, stop: int) -> Iterator[Tokens]:
        """Yield the IDs at positions `start <= p < stop` within the sequence, at most 64 Ki at a time."""
        if self.decoding.reader is not None:
            for a, b in windows(self.start + start, self.start + stop, AT_ONCE):
                yield self.decoding.reader.tokens(a, b)

    def texts(self, spans: list[Span]) -> Iterator[str]:
        """Yield the text of adjoining spans of positions in pieces.

        One piece per span; a single span comes in several pieces. A character whose bytes are in several spans belongs
        to the last of them.
        """
        if self.record is not None:
            yield from (self.record[a:b] for a, b in spans)
            return
        whole = spans == [(0, self.length)] and self.length <= AT_ONCE
        if whole and isinstance(self.decoding.decoder, VocabularyDecoder):
            yield self._decoded(self.decoding.decoder)
            return
        utf8 = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        for k, (a, b) in enumerate(spans):
            text = ""
            for tokens in self.tokens(a, b):
                text += utf8.decode(self.decoding.spelled(tokens))
                if len(spans) == 1:
                    yield text
                    text = ""
            if k == len(spans) - 1:
                text += utf8.decode(b"", final=True)
            yield text

    def _decoded(self, decoder: VocabularyDecoder) -> str:
        """Return the complete text by the tokenizer's own rules for the start and for neighboring tokens."""
        tokens = np.concatenate([np.empty(0, np.uint8), *self.tokens(0, self.length)])
        try:
            return decoder.decode(tokens)
        except DecodeError:
            return self.decoding.spelled(tokens).decode("utf-8", "backslashreplace")


Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One stored sample.

    Attributes:
        index: The number of the sample.
        ids: The input IDs.
        mask: uint8, 1 where the label counts in the loss; None if no mask is stored.
        labels: int64; None if no labels are stored: then the label of a token is the next ID.
        begins: bool, True where a document begins inside the sample, as far as the format or the separator shows it.
        padding: The number of padding tokens at the end.
        pieces: The text of each ID; None without a tokenizer.
    """

    index: int
    ids: Tokens
    mask: NDArray[np.uint8] | None
    labels: NDArray[np.int64] | None
    begins: Flags
    padding: int
    trained: int | None
    pieces: list[str] | None = None


class PrintedSample(TypedDict):
    """A sample, as --json prints it.

    Attributes:
        index: The number of the sample.
        mask: The loss mask: 1 where the label counts; None if none is stored.
        labels: The labels; None if none are stored.
        begins: The positions at which documents begin.
        padding: The number of padding positions at the end.
        pieces: The text of each ID; absent without a tokenizer.
    """

    index: int
    input_ids: list[int]
    mask: list[int] | None
    labels: list[int] | None
    begins: list[int]
    padding: int
    pieces: NotRequired[list[str]]


@dataclass(frozen=True, slots=True)
class SampleView:
    """An opened dataset of samples and the selected samples, which are read while you iterate.

    Attributes:
        path: The path of the dataset.
        format: The name of its format.
        samples: The number of samples.
        sample_length: The length in tokens; None if samples differ in length.
        eos_id: The separator; None without one.
        eos_from: The origin of the separator.
        eos_seen: How many of the sequences that were looked at end with it, in words.
        pad_id: The padding ID; None without one.
        bordered: True if the format or the separator shows where documents begin in a sample.
        notes: Sentences on what tokfmt inferred, and on defects.
        shown: The selected samples.
        decoder: Decodes their IDs; None without a tokenizer.
    """

    path: str
    format: str
    samples: int
    sample_length: int | None
    eos_id: int | None
    eos_from: str
    eos_seen: str
    pad_id: int | None
    bordered: bool
    notes: tuple[str, ...]
    shown: Iterator[Sample] = field(repr=False)
    decoder: TextDecoder | None = field(repr=False)
    cut: Callable[[], int | None] = field(repr=False)


def samples(
    source: SourceRequest, selection: str | None = None, *, tokenizer: str | None = None, limit: int | None = None
) -> SampleView:
    """Open a dataset and read the samples `5`, `0:10` or `-3:`, those that a query finds, or the first two."""
    query = _query(selection)
    handle, path = tokenizer_of(tokenizer), source.paths[0]
    files = find_one(source)
    chosen = files[0].format
    opened = open_dataset(viewed(replace(source, format=chosen.name), chosen, "samples"), Reading(handle), files)
    opened, handle = with_tokenizer(opened, source, handle)
    reader, decoder = opened.reader, handle.decoder(lenient=True) if handle else None
    if isinstance(reader, RecordReader) or not reader.info.is_samples:
        raise OptionError(f"{printable(path)}: {chosen.name} stores no samples here. Leave out --samples")
    rows = _Rows(reader, opened.separator.eos_id, reader.info.pad_id, decoder)
    if query is None:
        shown = rows.rows(*_range(opened.paths[0], selection, reader.info.sequences, SAMPLES))
    else:
        hits = find(reader, query, Search(each=True), decoder=handle.decoder() if handle else None)
        shown = (sample for hit in hits for sample in rows.rows(hit.sequence, hit.sequence + 1))
    kept = _kept(shown, limit, query)
    return SampleView(
        path=str(place_of(path)),
        format=chosen.name,
        samples=reader.info.sequences,
        sample_length=reader.info.sample_length,
        eos_id=rows.eos_id,
        eos_from=opened.separator.source,
        eos_seen=opened.separator.seen,
        pad_id=rows.pad_id,
        bordered=rows.eos_id is not None or reader.has_begins,
        notes=opened.notes,
        shown=iter(kept),
        decoder=decoder,
        cut=lambda: kept.cut,
    )


def _range(path: Place, selection: str | None, count: int, default: int) -> tuple[int, int]:
    """Return the selected interval; the first `default` numbers without a selection."""
    return (0, min(default, count)) if selection is None else parse_selection(selection, count, (path,))


@dataclass(frozen=True, slots=True)
class _Rows:
    """The reader, the separator and the padding of a dataset of samples, from which its rows are made."""

    reader: TokenReader
    eos_id: int | None
    pad_id: int | None
    decoder: TextDecoder | None

    def rows(self, first: int, last: int) -> Iterator[Sample]:
        """Yield the samples `first <= i < last`; about 64 Ki tokens are read at once."""
        info = self.reader.info
        step = max(1, AT_ONCE * info.sequences // max(info.tokens, 1))
        for a in range(first, last, step):
            b = min(last, a + step)
            bounds = self.reader.offsets(a, b)
            start, stop = bounds[[0, -1]].tolist()
            ids, (masks, labels) = self.reader.tokens(start, stop), self._beside(start, stop)
            begins, padding = self._begins(ids, bounds), of_rows(padding_of(self.reader, start, stop), bounds)
            counted = counted_of(self.reader, start, stop)
            trained = None if counted is None else of_rows(counted, bounds)
            for k, (first_token, end) in enumerate(pairwise((bounds - start).tolist())):
                part = slice(first_token, end)
                mask, label = None if masks is None else masks[part], None if labels is None else labels[part]
                fill, counts = int(padding[k]), None if trained is None else int(trained[k])
                inner = begins[part] & (np.arange(end - first_token) < end - first_token - fill)
                yield Sample(a + k, ids[part], mask, label, inner, fill, counts, self._pieces(ids[part]))

    def _beside(self, start: int, stop: int) -> tuple[NDArray[np.uint8] | None, NDArray[np.int64] | None]:
        if not self.reader.has_labels:
            return None, None
        return self.reader.masks(start, stop), self.reader.labels(start, stop)

    def _begins(self, ids: Tokens, bounds: Offsets) -> Flags:
        if self.reader.has_begins:
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
