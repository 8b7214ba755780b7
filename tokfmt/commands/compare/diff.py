"""Compare two datasets of any formats sequence by sequence (`tokfmt diff`).

IDs are compared with IDs, text with text, and stored samples with stored samples. To compare text with IDs, a tokenizer
is needed. IDs of several tokenizers, given or by their manifests, are compared as text. A side may be several datasets,
such as splits, which are compared as if they were joined.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Any, Literal

import numpy as np

from tokfmt.commands.compare.alignment import Alignment, Difference, Kind, Surplus, align, first_unlike, surpluses
from tokfmt.commands.compare.fingerprint import AxisSide, Read, Side, Utf8, hands, read_records
from tokfmt.commands.compare.likeness import MOST, pairs
from tokfmt.core.format import Encoder, Format
from tokfmt.core.loss_mask import BEGINS, STARTS
from tokfmt.core.losses import READS, WRITES
from tokfmt.core.reader import Info, TokenReader
from tokfmt.core.records import RecordReader
from tokfmt.errors import OptionError, TokenizerMismatchError
from tokfmt.files.file import writing
from tokfmt.files.locks import Scratch
from tokfmt.files.place import Place, place_of
from tokfmt.files.replacing import begins_with
from tokfmt.files.spool import staging_for
from tokfmt.model.select import Concat
from tokfmt.run.execute import worker_count
from tokfmt.run.plan import Workers
from tokfmt.run.progress import Progress
from tokfmt.source.ingest import encoder_of, ingested
from tokfmt.source.open import find_groups, open_dataset, presuming
from tokfmt.source.request import Reading, SourceRequest, option_names, viewed
from tokfmt.source.stored import (
    Source,
    axes_of,
    boundaries_of,
    manifest_tokenizer,
    titled,
    tokenizer_note,
    tokenizer_of,
)
from tokfmt.text.decoded import DecodedRecords
from tokfmt.text.decoding import ByteLevelDecoder, TextDecoder
from tokfmt.text.tokenizer import TokenizerHandle
from tokfmt.wording import html_table, printable

_LOOKED_AT = 1 << 16  # values of a sequence by which it is paired with another
CONTEXT = 8
"""Tokens shown on either side of the first difference."""

_NAMES = ("tokens", "loss mask", "labels")
_WORDS: dict[Kind, str] = {
    "changed": "{} changed",
    "only_in_a": "{} only in A",
    "only_in_b": "{} only in B",
    "moved": "{} moved",
    "swapped": "{} swapped with another",
}


@dataclass(frozen=True, slots=True)
class OpenedPair:
    """Two datasets that are opened for a comparison."""

    source_a: Source
    source_b: Source
    a: Side  # the sequences to compare
    b: Side
    decoder: TextDecoder | None  # for excerpts
    unit: str  # "tokens", or "bytes" if text is compared with text
    scale: int  # units that are about as much text as one token
    scratch: tuple[Scratch, ...] = ()  # of recipes of text

    def close(self) -> None:
        self.source_a.reader.close()
        self.source_b.reader.close()
        for scratch in self.scratch:
            scratch.close()


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The tokens of one sequence around a difference.

    Attributes:
        sequence: The number of the sequence.
        length: The length of the complete sequence.
        start: The position within the sequence of the first token of the excerpt.
        values: The IDs, or the loss mask or labels if these differ.
        text: The text of the IDs; None without a decoder.
    """

    sequence: int
    length: int
    start: int
    values: list[int]
    text: str | None = None


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """The first difference of two datasets.

    Attributes:
        difference: The kind of the difference, and the sequences.
        what: "tokens", "loss mask" or "labels".
        position: The position within the sequence of the first different value; 0 if only one side has the sequence.
        values: The values of both sides at the position; None if a side has no such sequence, or it ends before.
        a, b: The excerpts of both sides; None if a side has no such sequence.
    """

    difference: Difference
    what: str
    position: int
    values: tuple[int | None, int | None]
    a: Excerpt | None
    b: Excerpt | None


@dataclass(frozen=True, slots=True)
class ComparedDataset:
    """One of the two compared datasets.

    Attributes:
        path: The path.
        format: The name of the format.
        sequences: The number of sequences.
        tokens: The number of tokens; of bytes if text is compared with text.
        notes: Sentences on what tokfmt inferred, and on defects.
    """

    path: str
    format: str
    sequences: int
    tokens: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DiffReport:
    """The result of `tokfmt diff`.

    Attributes:
        identical: True if there is no difference.
        unit: "tokens", or "bytes" if text is compared with text.
        compared: "tokens", and for stored samples also "loss mask" and "labels". The mask of packed rows is the mask of
            the token itself, with 4 where a part begins.
        a, b: Both datasets.
        same: The number of equal sequences; None if the order is ignored.
        counts: The number of differences by kind.
        first: The first of `differences`; None without one.
        excerpts: The first of `differences`, and those of them that are changed sequences, each with both sides.
        differences: The first differences, up to the limit: changed sequences, then others, and moved ones last.
        surplus: What A has more of, and what B has more of, if the order is ignored; else None.
        more: The number of differences beyond those that `differences` or `surplus` list.
        likeness: The share of runs that both sequences of each of `differences` hold, if they were paired by it.
        complete: True if `counts` has the minimum number of moved sequences. False if so many sequences are equal that
            only some pairs of them were compared.
    """

    identical: bool
    unit: str
    compared: tuple[str, ...]
    a: ComparedDataset
    b: ComparedDataset
    same: int | None
    counts: dict[str, int]
    first: FirstDifference | None
    differences: list[Difference]
    surplus: tuple[Surplus, Surplus] | None
    more: int = 0
    complete: bool = True
    likeness: list[float] | None = None
    excerpts: list[FirstDifference] = field(default_factory=list)

    def _repr_html_(self) -> str:
        """Return the number of differences of each kind, for notebooks."""
        title = f"diff {self.a.path} and {self.b.path}: {'identical' if self.identical else 'different'}"
        return html_table(title, ("difference", "sequences"), self.counts.items())


def diff(
    a: SourceRequest,
    b: SourceRequest,
    *,
    tokenizer: str | None = None,
    from_tokenizer: str | None = None,
    samples: bool = False,
    ignore_order: bool = False,
    limit: int = 10,
    output: Place | None = None,
    jobs: int | None = None,
    executor: Literal["threads", "auto"] = "threads",
    progress: Progress | None = None,
) -> DiffReport:
    """Compare two datasets sequence by sequence. Options that only the format of the other dataset has are ignored.
    With `samples`, stored samples are compared. With `ignore_order`, multisets are, by fingerprints of 128 bits.
    `limit` is the most differences that are listed, or examples if the order is ignored; 0 lists all. `output` receives
    all of them as JSON lines, with their text or IDs. `from_tokenizer` made the IDs of A, if `tokenizer` made others of
    B: then texts are compared.
    """
    watched = progress or Progress()
    if ignore_order and samples:
        raise OptionError("--samples compares rows in order. Leave out --ignore-order")
    if unread := sorted((a.allow_loss | b.allow_loss) & WRITES):
        why = "every sequence is compared as it is, and what a conversion gave up is a difference"
        raise OptionError(f"--allow-loss {unread[0]}: {why}. Leave the option out", name=unread[0])
    if samples and from_tokenizer is not None:
        raise OptionError("--samples compares IDs, and --from-tokenizer compares texts. Leave one of them out")
    jobs, made = worker_count(jobs), (from_tokenizer, tokenizer)

    def compared(*, every_end: bool) -> DiffReport:
        first, second = replace(a, every_end=every_end), replace(b, every_end=every_end)
        both = open_both(first, second, watched, tokenizers=made, samples=samples, jobs=jobs, executor=executor)
        try:
            with hands(jobs) as workers:
                compare = _unordered if ignore_order else _ordered
                return _advised(both, compare(both, limit or sys.maxsize, output, workers, watched))
        finally:
            both.close()

    return presuming(compared, watched.note)


def counted(differing: Mapping[Kind, int]) -> str:
    """Return the number of differences of each kind in words: `2 changed, 409 only in A`."""
    return ", ".join(words.format(f"{n:,}") for kind, words in _WORDS.items() if (n := differing.get(kind)))


def open_both(
    a: SourceRequest,
    b: SourceRequest,
    progress: Progress,
    *,
    tokenizers: tuple[str | None, str | None] = (None, None),
    samples: bool = False,
    jobs: int = 1,
    executor: Literal["threads", "auto"] = "threads",
) -> OpenedPair:
    """Open two datasets for a comparison. Records are read once, for their fingerprints. The tokenizers are that of A,
    if it differs, and that of both.
    """
    former, handle = map(tokenizer_of, tokenizers)
    datasets = [find_groups(one) for one in (a, b)]
    formats = [groups[0][0].format for groups in datasets]
    a, b = _as_rows(a, b, formats), _as_rows(b, a, formats[::-1])
    samples = samples or any(one.options.get("view") == "samples" for one in (a, b))
    try:
        opened = [
            [
                open_dataset(
                    _asked(one, group[0].format, formats, samples=samples), Reading(made, jobs, progress), group
                )
                for group in groups
            ]
            for one, groups, made in zip((a, b), datasets, (former or handle, handle), strict=True)
        ]
    except TokenizerMismatchError as error:
        error.add_note("--from-tokenizer OLD --tokenizer NEW compares the texts of IDs of two tokenizers")
        raise
    scratch = list[Scratch]()
    opened = [[_prepared(source, scratch, jobs, progress) for source in side] for side in opened]
    if former is not None:
        opened, handle = _decoded(opened, (former, handle), jobs), None
    elif handle is None:
        opened, handle = _by_manifests(opened, jobs, progress, samples=samples)
    is_text = all(source.reader.info.is_text for side in opened for source in side)
    sources = [_joined(side, handle, jobs, is_text=is_text) for side in opened]
    packed = _pack_samples(sources)
    for source in sources if samples else ():
        if not source.reader.info.is_samples:
            name = source.format.name
            raise OptionError(f"{printable(source.paths[0])}: {name} stores no samples here. Leave out --samples")
    decoder: TextDecoder | None = handle.decoder(lenient=True) if handle else None
    if is_text:
        decoder = ByteLevelDecoder({byte: bytes([byte]) for byte in range(256)}, lenient=True)
    labeled = [axis for axis in axes_of(sources) if axis.has_labels]
    masked = samples and len(labeled) == len(sources)
    if masked and len({reader.shifted for reader in labeled}) > 1:
        packed = all(reader.marks(0, 0) is not None for reader in labeled)
        masked = packed
    has_borders = all(reader.has_begins for reader in labeled)

    def side(source: Source) -> Side:
        reader = source.reader
        if isinstance(reader, RecordReader):
            encoder = _encoder(source, reader, handle, is_text=is_text)
            return read_records(reader, encoder, jobs, progress, processes=executor == "auto")
        return AxisSide(reader, _beside(reader, masked=masked, packed=packed, has_borders=has_borders))

    unit, scale = ("bytes", 4) if is_text else ("tokens", 1)
    return OpenedPair(sources[0], sources[1], side(sources[0]), side(sources[1]), decoder, unit, scale, tuple(scratch))


def _decoded(
    sides: list[list[Source]], handles: tuple[TokenizerHandle, TokenizerHandle | None], jobs: int
) -> list[list[Source]]:
    """Return sources as texts: IDs of A by its tokenizer, those of B by its own, or by that of their manifests."""
    if any(source.reader.info.is_text for source in sides[0]):
        place = printable(sides[0][0].paths[0])
        raise OptionError(f"{place}: holds text, which no tokenizer made. Leave --from-tokenizer out")

    def read(source: Source, handle: TokenizerHandle | None) -> Source:
        if source.reader.info.is_text:
            return source
        handle = handle or manifest_tokenizer([source])
        if handle is None:
            place = printable(source.paths[0])
            raise OptionError(
                f"{place}: no tokenizer of its token IDs is known. Add --tokenizer, which made those of B"
            )
        return _as_text(source, handle, jobs)

    return [[read(source, handle) for source in side] for side, handle in zip(sides, handles, strict=True)]


def _as_text(source: Source, handle: TokenizerHandle, jobs: int) -> Source:
    reader = source.reader
    if isinstance(reader, RecordReader):
        reader = ingested(reader, None, jobs)
    return source._replace(reader=DecodedRecords(reader, source.paths[0], handle.decoder(lenient=True)))


def _by_manifests(
    sides: list[list[Source]], jobs: int, progress: Progress, *, samples: bool
) -> tuple[list[list[Source]], TokenizerHandle | None]:
    """Return sources, and the tokenizer that the manifests of all IDs state. If that is several, IDs become texts."""
    sources = [source for side in sides for source in side]
    of_ids = {source.paths: source for source in sources if not source.reader.info.is_text}
    stated = [made for source in of_ids.values() for made in source.tokenizers]
    names = {str(made["digest"]): titled(made) for made in stated if made is not None}
    handles = {paths: manifest_tokenizer([source]) for paths, source in of_ids.items()} if all(stated) else {}
    if len(names) < 2:
        handle = next(iter(handles.values()), None)
        if handle is not None and any(source.reader.info.is_text for source in sources):  # It encodes text.
            progress.note(tokenizer_note(handle, next(iter(of_ids.values()))))
        return sides, handle
    is_decoded = not samples and len(handles) > 0 and all(handles.values())
    note = f"token IDs of {len(names)} tokenizers, {' and '.join(names.values())}: "
    note += "their texts are compared" if is_decoded else "they are compared as they are, and differ for equal texts"

    def read(source: Source) -> Source:
        handle, notes = handles.get(source.paths), (note,) if source.paths == next(iter(of_ids)) else ()
        source = source._replace(notes=(*source.notes, *notes))
        return _as_text(source, handle, jobs) if is_decoded and handle is not None else source

    return [[read(source) for source in side] for side in sides], None


def _encoder(source: Source, reader: RecordReader, handle: TokenizerHandle | None, *, is_text: bool) -> Encoder | None:
    """Return what makes the compared values of records: bytes of text, or IDs; None for records of IDs."""
    encoder: Encoder | None = Utf8() if is_text else encoder_of(reader, handle)
    if reader.info.is_text and encoder is None:
        place = printable(source.paths[0])
        raise OptionError(f"{place}: holds text, the other dataset holds token IDs. Add --tokenizer")
    return encoder


def _joined(sources: Sequence[Source], handle: TokenizerHandle | None, jobs: int, *, is_text: bool) -> Source:
    """Return several sources as one, whose sequences follow each other."""
    first = sources[0]
    if len(sources) == 1:
        return first
    readers = [
        ingested(source.reader, _encoder(source, source.reader, handle, is_text=is_text), jobs)
        if isinstance(source.reader, RecordReader)
        else source.reader
        for source in sources
    ]
    notes = tuple(f"{printable(source.paths[0])}: {note}" for source in sources for note in source.notes)
    paths = tuple(path for source in sources for path in source.paths)
    return first._replace(reader=Concat(readers), paths=paths, notes=notes)


def _beside(reader: TokenReader, *, masked: bool, packed: bool, has_borders: bool) -> Sequence[Any]:
    """Return the channels of a reader: IDs, and the values of each token that are compared with them."""
    if packed:
        return reader.tokens, reader.marks if has_borders else partial(_without_borders, reader)
    if masked and reader.has_labels:
        return reader.tokens, reader.masks, reader.labels
    return ()


def _without_borders(reader: TokenReader, start: int, stop: int) -> Any:
    marks = reader.marks(start, stop)
    return None if marks is None else marks & ~np.uint8(BEGINS)


def _prepared(source: Source, scratch: list[Scratch], jobs: int, progress: Progress) -> Source:
    """Return a recipe of text with the reader of what it makes, and add its directory; return other sources as is."""
    if not source.format.is_computed:
        return source
    from tokfmt.mix import TextRecipe, prepared_in  # only recipes need these imports

    if not isinstance(source.reader, TextRecipe):
        return source
    scratch.append(Scratch())
    return source._replace(reader=prepared_in(scratch[-1].path, source.reader, jobs, progress))


def _pack_samples(sources: list[Source]) -> bool:
    """Read the samples of a recipe as packed rows (parts, marks, no padding) if the other dataset holds those."""
    if all(not source.format.is_computed for source in sources):
        return False
    from tokfmt.mix import PackedRows, Samples  # only recipes need these imports

    for k, (source, other) in enumerate(zip(tuple(sources), sources[::-1], strict=True)):
        info = other.reader.info
        if (
            isinstance(source.reader, Samples)
            and isinstance(info, Info)
            and STARTS in info.fields
            and info.sample_length is None
        ):
            sources[k] = source._replace(reader=PackedRows(source.reader, source.reader.seq_len))
            return True
    return False


def _as_rows(request: SourceRequest, other: SourceRequest, formats: Sequence[Format]) -> SourceRequest:
    """Return a request that reads samples of the recipe's length if the other dataset is a recipe of samples."""
    mine, others = formats
    rows = viewed(request, mine, "samples") if others.is_computed else request
    if rows is request:
        return request
    from tokfmt.mix import read_recipe  # only recipes need these imports

    width = read_recipe(place_of(other.paths[0])).seq_len
    if width is None:
        return request
    lengths = {"seq_len": width} if "seq_len" in option_names(mine.read_options) else {}
    return replace(rows, options={**lengths, **rows.options})


def _asked(request: SourceRequest, mine: Format, formats: list[Format], *, samples: bool) -> SourceRequest:
    """Return a request without the options that only the other format has. Fields other than text are not compared."""
    own = option_names(mine.read_options)
    others = set().union(*(option_names(format_.read_options) for format_ in formats)) - own
    options = {name: value for name, value in request.options.items() if name.replace("-", "_") not in others}
    wanted = replace(request, format=mine.name, options=options).accepting(READS["diff"])
    return viewed(wanted, mine, "samples") if samples else wanted


def _datasets(both: OpenedPair) -> tuple[ComparedDataset, ComparedDataset]:
    datasets = [
        ComparedDataset(
            str(source.paths[0]) + (f" and {len(source.paths) - 1:,} more" if len(source.paths) > 1 else ""),
            source.format.name,
            side.count,
            side.tokens,
            (*source.notes, *_not_compared(source)),
        )
        for source, side in ((both.source_a, both.a), (both.source_b, both.b))
    ]
    return datasets[0], datasets[1]


def _not_compared(source: Source) -> Iterator[str]:
    """Yield notes on what a dataset states and `diff` does not compare."""
    info = source.reader.info
    for inner in info.inner:
        yield f"not compared: {boundaries_of(inner)}"


def _ordered(both: OpenedPair, limit: int, output: Place | None, workers: Workers, progress: Progress) -> DiffReport:
    a, b = _datasets(both)
    progress.phase("comparing", a.tokens + b.tokens, both.unit)
    alignment = align(both.a, both.b, workers, progress.advance)
    listed = _listed(alignment, limit)
    if output is not None:
        _write(output, both, alignment.differences())
    return DiffReport(
        identical=not listed,
        unit=both.unit,
        compared=_NAMES[: len(both.a.channels)],
        a=a,
        b=b,
        same=alignment.same,
        counts=dict(sorted(alignment.differing.items())),
        differences=listed,
        surplus=None,
        more=sum(alignment.differing.values()) - len(listed),
        complete=alignment.exact,
        **_excerpts(both, listed, workers),
    )


def _listed(alignment: Alignment, limit: int) -> list[Difference]:
    """Return up to `limit` differences: changed sequences, then others, and moved ones last."""
    listed, counts = list[Difference](), alignment.differing
    groups: tuple[tuple[Kind, ...], ...] = (("changed",), ("swapped", "only_in_a", "only_in_b"), ("moved",))
    for kinds in groups:
        wanted = min(limit - len(listed), sum(counts.get(kind, 0) for kind in kinds))
        if wanted:  # Millions may have moved, which are passed only in search of others.
            some = (difference for difference in alignment.differences() if difference.kind in kinds)
            listed += islice(some, wanted)
    return listed


def _excerpts(both: OpenedPair, listed: Sequence[Difference], workers: Workers) -> dict[str, Any]:
    """Return the first difference, and the excerpts, of a report."""
    changed = [difference for difference in listed[1:] if difference.kind == "changed"]
    excerpts = [_first(both, difference, workers) for difference in (*listed[:1], *changed)]
    return {"first": excerpts[0] if excerpts else None, "excerpts": excerpts}


def _advised(both: OpenedPair, report: DiffReport) -> DiffReport:
    """Return a report of IDs with a note if no sequence of two datasets is alike, and their tokenizers may differ."""
    unlike = report.counts.get("changed", 0) + report.counts.get("only_in_a", 0)
    tokenizers = [tokenizer for source in (both.source_a, both.source_b) for tokenizer in source.tokenizers]
    not_ids = any(source.reader.info.is_text for source in (both.source_a, both.source_b))
    digests = {None if tokenizer is None else tokenizer["digest"] for tokenizer in tokenizers}
    is_one = None not in digests and len(digests) == 1
    if report.unit == "bytes" or is_one or not_ids or not report.b.sequences or not 0 < report.a.sequences <= unlike:
        return report
    how = "--from-tokenizer OLD --tokenizer NEW compares texts"
    note = f"no sequence is equal. If A and B have IDs of two tokenizers, {how}"
    return replace(report, a=replace(report.a, notes=(*report.a.notes, note)))


def _first(both: OpenedPair, difference: Difference, workers: Workers) -> FirstDifference:
    i, j = difference.a, difference.b
    if difference.kind == "moved":  # show it at the position where B lacks it
        j = None
    if i is None or j is None:
        a = None if i is None else _excerpt(both, both.a, i, 0, 0)
        b = None if j is None else _excerpt(both, both.b, j, 0, 0)
        values = (a.values[0] if a and a.values else None, b.values[0] if b and b.values else None)
        return FirstDifference(difference, _NAMES[0], 0, values, a, b)
    lengths = both.a.length(i), both.b.length(j)
    channels = range(len(both.a.channels))
    reads = [(_within(both.a, i, channel), _within(both.b, j, channel)) for channel in channels]
    unlike = first_unlike(reads, min(lengths), workers)
    position = min(lengths) if unlike < 0 else unlike
    pairs = [
        tuple(
            int(read(position, position + 1)[0]) if position < length else None
            for read, length in zip(two, lengths, strict=True)
        )
        for two in reads
    ]
    channel = next((k for k, (x, y) in enumerate(pairs) if x != y), 0)
    return FirstDifference(
        difference,
        _NAMES[channel],
        position,
        (pairs[channel][0], pairs[channel][1]),
        _excerpt(both, both.a, i, position, channel),
        _excerpt(both, both.b, j, position, channel),
    )


def _within(side: Side, sequence: int, channel: int) -> Read:
    return lambda start, stop: side.values(sequence, start, stop, channel)


def _excerpt(both: OpenedPair, side: Side, sequence: int, position: int, channel: int) -> Excerpt:
    length = side.length(sequence)
    a, b = max(0, position - CONTEXT * both.scale), min(length, position + CONTEXT * both.scale + 1)
    values = [int(value) for value in side.values(sequence, a, b, channel)]
    text = None
    if both.decoder is not None:
        text = both.decoder.decode(side.values(sequence, a, b))
    return Excerpt(sequence, length, a, values, text)


# with the order ignored


def _unordered(both: OpenedPair, limit: int, output: Place | None, workers: Workers, progress: Progress) -> DiffReport:
    a, b = _datasets(both)
    progress.phase("hashing", a.tokens + b.tokens, both.unit)
    # 16 bytes per sequence of either side: in memory up to half of the machine's, else in a file in $TMPDIR
    prints_a, prints_b = (side.fingerprints(0, workers, progress.advance) for side in (both.a, both.b))
    most = max(prints_a.shape[0], prints_b.shape[0]) if output is not None else max(limit, MOST)
    more_a, more_b = surpluses(prints_a, prints_b, most)
    changed = _alike(both, more_a, more_b)
    in_pairs = {difference.a for difference, _ in changed}, {difference.b for difference, _ in changed}
    left = [
        Surplus(more.count - len(changed), tuple(n for n in more.examples if n not in paired))
        for more, paired in zip((more_a, more_b), in_pairs, strict=True)
    ]
    if output is not None:
        only_a = (Difference("only_in_a", n, None, n, n) for n in left[0].examples)
        only_b = (Difference("only_in_b", None, n, n, n) for n in left[1].examples)
        _write(output, both, chain((difference for difference, _ in changed), only_a, only_b))
    more_a, more_b = (Surplus(one.count, one.examples[:limit]) for one in left)
    listed = changed[:limit]
    counts: dict[Kind, int] = {
        "changed": len(changed), "only_in_a": more_a.count, "only_in_b": more_b.count,
    }  # fmt: skip
    return DiffReport(
        identical=not any(counts.values()),
        unit=both.unit,
        compared=_NAMES[:1],
        a=a,
        b=b,
        same=None,
        counts={kind: count for kind, count in counts.items() if count},
        differences=[difference for difference, _ in listed],
        surplus=(more_a, more_b),
        more=len(changed) - len(listed) + sum(one.count - len(one.examples) for one in (more_a, more_b)),
        likeness=[likeness for _, likeness in listed],
        **_excerpts(both, [difference for difference, _ in listed], workers),
    )


def _alike(both: OpenedPair, more_a: Surplus, more_b: Surplus) -> list[tuple[Difference, float]]:
    """Return the sequences of both sides that are versions of each other, with their likeness."""
    numbers = more_a.examples[:MOST], more_b.examples[:MOST]
    values = [
        [side.values(number, 0, min(side.length(number), _LOOKED_AT)) for number in some]
        for side, some in zip((both.a, both.b), numbers, strict=True)
    ]
    found = [(numbers[0][i], numbers[1][j], likeness) for i, j, likeness in pairs(*values)]
    return [(Difference("changed", i, j, i, j), likeness) for i, j, likeness in found]


def _write(output: Place, both: OpenedPair, differences: Iterable[Difference]) -> None:
    """Write differences as JSON lines, with the text of the sequences, or their IDs without a decoder."""
    with staging_for(output, overwrite=True, objection=begins_with("list of differences", b'{"kind": ')) as staging:
        with writing(output), open(staging.path, "w", encoding="utf-8") as out:
            for difference in differences:
                line: dict[str, object] = {"kind": difference.kind, "a": difference.a, "b": difference.b}
                for name, side, number in (("a", both.a, difference.a), ("b", both.b, difference.b)):
                    if number is not None:
                        values = side.values(number, 0, side.length(number))
                        if both.decoder is None:
                            line[f"{name}_ids"] = values.tolist()
                        else:
                            line[f"{name}_text"] = both.decoder.decode(values)
                out.write(json.dumps(line, ensure_ascii=False) + "\n")
        staging.publish()
