"""The values of `tokfmt stats`, the same in Python, in JSON and in print.

`--expect` compares values with expectations, and `--baseline` compares them with an earlier document of `--json`. Both
use the dotted keys of that document, such as `tokens` and `duplicates.share`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from tokfmt.base.plain import plain
from tokfmt.commands.expectations import Expectation, Scalar, expectation, kinds_of, value_at, worded
from tokfmt.errors import CorruptError, OptionError, TokfmtError, UnsafeError
from tokfmt.files.file import File
from tokfmt.mix import TreeRow
from tokfmt.wording import counted, html_table

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Share:
    """A count, and its share of a total (0 to 1; 0 if the total is 0)."""

    count: int
    share: float

    @staticmethod
    def of(count: int, total: int) -> Share:
        """Return the share of `count` in `total`."""
        return Share(count, count / total if total else 0.0)


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts in half-open bins `edges[i] <= length < edges[i + 1]`.

    Attributes:
        scale: "linear" (bins of one width) or "log" (each bin about 1.4 or 2 times as wide as the one before).
        edges: The edges of the bins, one more than `counts`.
        counts: The number of sequences in each bin.
    """

    scale: str
    edges: list[int]
    counts: list[int]


@dataclass(frozen=True, slots=True)
class Lengths:
    """The lengths of sequences, empty ones included. All values are exact, and None without sequences.

    Attributes:
        unit: "tokens", or "characters" of text that is not tokenized.
        p1, p5, p25, p50, p75, p95, p99: The smallest length that at least so many percent of the sequences do not
            exceed (nearest rank), so it is always a length that occurs.
    """

    unit: str
    min: int | None
    mean: float | None
    p1: int | None
    p5: int | None
    p25: int | None
    p50: int | None
    p75: int | None
    p95: int | None
    p99: int | None
    max: int | None
    histogram: Histogram


@dataclass(frozen=True, slots=True)
class Id:
    """A token ID, its count, and its share of all tokens.

    Attributes:
        text: Its text; None without a tokenizer.
    """

    id: int
    count: int
    share: float
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Frequencies:
    """At most 200 points of the curve of frequency over rank (1: most frequent), evenly spaced on a log scale."""

    rank: list[int]
    count: list[int]


@dataclass(frozen=True, slots=True)
class Ids:
    """The token IDs in the sequences, without separators.

    Attributes:
        distinct: The number of distinct IDs.
        estimated: True if more than 2^18 distinct IDs of 2^20 and above occur. Then `distinct` is about 0.2 % off, and
            the lists may lack IDs of 2^20 and above.
        once: The number of IDs that occur exactly once.
        vocab_size: The size of the vocabulary, of --vocab-size or the tokenizer; None if unknown.
        coverage: The share of the vocabulary that occurs; None if `vocab_size` is.
        beyond: The number of tokens with an ID that is not in the vocabulary; None if `vocab_size` is.
        beyond_query: The query of `tokfmt show` for the sequences with such an ID; None if `vocab_size` is.
        most_frequent, least_frequent: Ten IDs each; among equally frequent IDs, the lowest come first.
        frequencies: The curve of frequency over rank, for a plot with logarithmic axes.
    """

    distinct: int
    estimated: bool
    once: int
    vocab_size: int | None
    coverage: float | None
    beyond: int | None
    beyond_query: str | None
    most_frequent: list[Id]
    least_frequent: list[Id]
    frequencies: Frequencies


@dataclass(frozen=True, slots=True)
class Ends:
    """The first (or last) tokens of the sequences that are not empty.

    Attributes:
        commonest: The most frequent ID, such as a BOS or EOS; None without sequences.
        share: The share of the sequences that begin (end) with it.
        distinct: The number of distinct IDs.
        top: The ten most frequent IDs.
    """

    commonest: int | None
    share: float
    distinct: int
    top: list[Id]


@dataclass(frozen=True, slots=True)
class RepeatedSequence:
    """A group of equal sequences.

    Attributes:
        count: The number of sequences.
        length: The length of each in tokens; in characters for text.
        sequence: The number of the first; None for a sample of text.
        ids: The first 32 IDs; None for text.
        text: The text of these IDs, or the first 200 characters of text; None without a tokenizer.
        path: The dataset of the first; None if there is only one dataset.
    """

    count: int
    length: int
    sequence: int | None
    ids: list[int] | None
    text: str | None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Duplicates:
    """The sequences that occur more than once; empty sequences do not count.

    Attributes:
        sequences: The number of sequences after the first of each group, which deduplication would remove.
        share: Their share of all sequences that are not empty.
        tokens: The number of their tokens; of characters for text.
        token_share: Their share of all tokens (characters).
        groups: The number of different sequences that occur more than once.
        largest: The ten groups with most sequences.
    """

    sequences: int
    share: float
    tokens: int
    token_share: float
    groups: int
    largest: list[RepeatedSequence]


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one way to make samples.

    Attributes:
        samples: The number of samples.
        padding: The number of padding positions.
        padding_share: Their share of all positions.
        documents_cut: The number of documents that are in more than one sample.
        cut_share: Their share of all documents.
    """

    samples: int
    padding: int
    padding_share: float
    documents_cut: int
    cut_share: float


@dataclass(frozen=True, slots=True)
class Packing:
    """The cost of samples of `seq_len` tokens, computed from the lengths of the sequences.

    Attributes:
        seq_len: The length of a sample in tokens.
        separator: True if one token is added to each sequence.
        concatenated: The cost of samples cut from one stream. `documents_cut` is the expected value for a random order:
            a document of m tokens is cut with the probability min(1, (m - 1) / seq_len).
        padded: The cost if every document begins a new sample and is padded.
    """

    seq_len: int
    separator: bool
    concatenated: Cost
    padded: Cost


@dataclass(frozen=True, slots=True)
class FieldCount:
    """A field of the records, and the number of records that have it."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class TextFacts:
    """Statistics of text that is not tokenized.

    Attributes:
        bytes: The size of the texts as UTF-8, in bytes.
        characters: The number of code points.
        field: The dotted path of the text in a record.
        fields: At most 100 top-level fields, the most frequent first.
        invalid: The number of lines that --allow-loss invalid-lines leaves out.
    """

    bytes: int
    characters: int
    field: str
    fields: list[FieldCount]
    invalid: int


@dataclass(frozen=True, slots=True)
class SampleFacts:
    """The sample from which statistics are estimated.

    Every value is an estimate for the complete dataset, except those in `exact`. The values `max_id`, `ids.distinct`,
    `ids.once`, `lengths.min` and `lengths.max` are those of the sample.

    Attributes:
        sequences: The number of sequences in the sample.
        tokens: The number of tokens in the sample; None for text.
        of: The number of sequences of the dataset; None if unknown.
        seed: The seed of the sample.
        exact: The keys of values that are those of the complete dataset.
    """

    sequences: int
    tokens: int | None
    of: int | None
    seed: int
    exact: list[str]


@dataclass(frozen=True, slots=True)
class SourceTokens:
    """What the samples of an interval take from one source of a recipe or a run.

    Attributes:
        name: The name of the source.
        tokens: The number of input tokens, without padding.
        samples: The number of samples with tokens of it.
        share: The share of all these tokens.
    """

    name: str
    tokens: int
    samples: int
    share: float


@dataclass(frozen=True, slots=True)
class Statistics:
    """The statistics of one dataset, or the total of several.

    Attributes:
        path: The path; "total" for the total.
        format: The name of the format; "mixed" for the total of several formats.
        layout: "documents", "samples", "stream" or "text"; "mixed" for the total of several layouts.
        variant: Facts of the format: layout, width, codec ...
        dtype: The dtype of the IDs as they are read; None for text.
        bytes: The size of the files in bytes.
        bytes_per_token: Bytes per token of the sequences; None if unknown.
        sequences: The number of sequences (documents or samples).
        tokens: The number of tokens in the sequences, without separators; None for text.
        max_id: The largest ID in the sequences; None without tokens. Separators between sequences do not count, so that
            the value is the same in every format.
        eos_id: The separator; None without one.
        eos_from: The origin of the separator.
        eos_seen: How many of the sequences end with it, in words: of all after a full walk, else of those looked at.
        eos_inferred: True if the separator is inferred.
        sample_length: The length of a sample in tokens; None for other layouts.
        estimated: True if the values are estimated from a sample.
        lengths: The lengths of the sequences.
        empty: The empty sequences.
        separators: The stored separators, also those inside sequences, and their share of all stored tokens.
        padding: The padding of samples, which is not on the token axis of a stream. None if the format has no
            padding.
        columns: What the columns beside token IDs state, in numbers by name.
        masked: The positions of samples whose label does not count in the loss; None if no mask is stored.
        ids: The IDs; None for text.
        first_tokens, last_tokens: The first and last tokens of the sequences; None for text.
        first_id, last_id: The ID that every sequence begins (ends) with, but for empty ones; None if they differ.
        duplicates: The repeated sequences; None if they are not counted.
        packing: The cost of packing; None without `seq_len`.
        text: The statistics of text; None for IDs.
        sampled: The sample from which values are estimated; None if every sequence was read.
        recipe: The contribution of each source of a recipe; see `tokfmt.mix.tree`.
        sources: The tokens of each source in the samples that `select` names, without a read of them. Then `sequences`,
            `tokens` and `padding` are of these samples, and values that depend on IDs are None.
        notes: Sentences on what tokfmt inferred, and on defects.
    """

    path: str
    format: str
    layout: str
    variant: Mapping[str, Any]
    dtype: str | None
    bytes: int
    bytes_per_token: float | None = None
    sequences: int = 0
    tokens: int | None = 0
    max_id: int | None = None
    eos_id: int | None = None
    eos_from: str = ""
    eos_seen: str = ""
    eos_inferred: bool = False
    sample_length: int | None = None
    estimated: bool = False
    lengths: Lengths | None = None
    empty: Share | None = None
    separators: Share | None = None
    padding: Share | None = None
    columns: Mapping[str, int] = field(default_factory=dict)
    masked: Share | None = None
    ids: Ids | None = None
    first_tokens: Ends | None = None
    last_tokens: Ends | None = None
    first_id: int | None = None
    last_id: int | None = None
    duplicates: Duplicates | None = None
    packing: Packing | None = None
    text: TextFacts | None = None
    sampled: SampleFacts | None = None
    recipe: Sequence[TreeRow] = ()
    sources: Sequence[SourceTokens] = ()
    notes: Sequence[str] = field(default_factory=tuple)

    def as_json(self) -> dict[str, Any]:
        """Return a dict for `json.dumps`."""
        document: dict[str, Any] = plain(self)
        return document


@dataclass(frozen=True, slots=True)
class Failure:
    """A dataset that cannot be read, and the error."""

    path: str
    error: TokfmtError


@dataclass(frozen=True, slots=True)
class FailedDataset:
    """A dataset that cannot be read.

    Attributes:
        path: The path as given.
        type: The class of the error.
        message: The error, one line.
    """

    path: str
    type: str
    message: str


@dataclass(frozen=True, slots=True)
class SeveralStatistics:
    """The statistics of several paths.

    Attributes:
        datasets: The statistics of each path, in order.
        total: The total of all datasets; None if one of them cannot be read.
        errors: The errors of paths that cannot be read.
    """

    datasets: list[Statistics]
    total: Statistics | None
    errors: list[FailedDataset]


@dataclass(frozen=True, slots=True)
class StatsReport:
    """The statistics of all datasets.

    Attributes:
        datasets: The statistics of each dataset, in the order of the paths.
        total: The total of several datasets; None if one of them cannot be read.
        failures: The datasets that cannot be read, if there are several datasets.
        unmet: The expectations of `tokfmt.stats` that do not hold.
    """

    datasets: list[Statistics]
    total: Statistics | None = None
    failures: Sequence[Failure] = ()
    unmet: Sequence[Unmet] = ()

    @property
    def several(self) -> bool:
        """True if there are several datasets."""
        return self.total is not None or bool(self.failures)

    def _repr_html_(self) -> str:
        """Return a table with a row per dataset, for notebooks."""
        heads = ("dataset", "format", "sequences", "tokens", "mean", "median", "longest", "largest ID", "duplicates")
        rows = list[tuple[object, ...]]()
        for statistics in (*self.datasets, *([self.total] if self.total is not None else [])):
            lengths, repeated = statistics.lengths, statistics.duplicates
            mean = None if lengths is None or lengths.mean is None else f"{lengths.mean:,.1f}"
            of_lengths = (mean, lengths.p50, lengths.max) if lengths is not None else (None, None, None)
            share = None if repeated is None else f"{repeated.sequences:,} ({repeated.share:.2%})"
            rows.append(
                (
                    statistics.path,
                    statistics.format,
                    statistics.sequences,
                    statistics.tokens,
                    *of_lengths,
                    statistics.max_id,
                    share,
                )
            )
        notes = [
            *(f"{failure.path}: {failure.error}" for failure in self.failures),
            *(f"{one.path}: {one.message}" for one in self.unmet),
        ]
        return html_table("stats", heads, rows, notes)

    def as_json(self) -> dict[str, Any]:
        """Return the document of `tokfmt stats --json`: the keys of one dataset, or `datasets` and `total`."""
        heading = {"schema": f"tokfmt.stats/{SCHEMA_VERSION}", "schema_version": SCHEMA_VERSION}
        if not self.several:
            return {**heading, **self.datasets[0].as_json()}
        errors = [
            FailedDataset(failure.path, type(failure.error).__name__, str(failure.error)) for failure in self.failures
        ]
        return {**heading, **plain(SeveralStatistics(self.datasets, self.total, errors))}


@cache
def known_keys() -> tuple[str, ...]:
    """Return every key that holds a single value, such as `tokens` and `duplicates.share`."""
    return tuple(kinds_of(Statistics))


@dataclass(frozen=True, slots=True)
class Unmet:
    """An expectation, or a comparison with a baseline, that does not hold.

    Attributes:
        path: The dataset; "total" for the total, "" for the complete baseline.
        message: The expected and the found value.
        expected: The expectation; None for a baseline.
    """

    path: str
    message: str
    expected: Expectation | None = None


_OF_ENDS = ("first_id", "last_id")
_TOTAL = "total."
_SHORT = {"vocabulary_used": "ids.coverage"}
"""Short names of keys."""


def parse_expectation(text: str, *, has_baseline: bool = False) -> Expectation:
    """Parse `KEY OP VALUE`, such as `duplicates.share < 1%` of each dataset, or `total.tokens > 10M` of all."""
    kinds = {**kinds_of(Statistics), **dict.fromkeys(_SHORT, float)}
    kinds |= {f"{_TOTAL}{key}": kind for key, kind in kinds.items()}
    return expectation(text, kinds, "tokfmt stats", has_baseline=has_baseline)


def unmet(report: StatsReport, expectations: Iterable[Expectation], baseline: Baseline | None = None) -> list[Unmet]:
    """Return the expectations that do not hold, in order."""
    misses = []
    for expected in expectations:
        is_total, key = expected.key.startswith(_TOTAL), expected.key.removeprefix(_TOTAL)
        key = _SHORT.get(key, key)
        if is_total and report.total is None and report.several:
            failed = report.failures[0].path
            misses.append(Unmet("total", f"expected {expected.text}, but {failed} could not be read", expected))
            continue
        asked = [report.total or report.datasets[0]] if is_total else report.datasets
        earlier: Sequence[Document] = [{}] * len(asked)
        if baseline is not None and expected.is_of_baseline:
            earlier = [baseline.total] if is_total else baseline.datasets
        if baseline is not None and len(earlier) != len(asked):
            misses.append(Unmet("", f"expected {expected.text}, but {_other_number(baseline, report)}", expected))
            continue
        for statistics, before in zip(asked, earlier, strict=True):
            value, was = value_at(statistics.as_json(), key), value_at(before, key)
            if not expected.holds(value, was):
                why = _why(statistics.as_json(), key)
                found = "several" if value is None and why and key in _OF_ENDS else worded(value)
                wanted = f" ({worded(expected.wanted(was))})" if expected.is_of_baseline else ""
                misses.append(Unmet(statistics.path, f"expected {expected.text}{wanted}, found {found}{why}", expected))
    return misses


def _why(document: Mapping[str, Any], expected: str) -> str:
    if value_at(document, expected) is None:
        parent = expected.partition(".")[0]
        hints = {
            "duplicates": "not counted, or not in a sample",
            "packing": "--seq-len asks for it",
            "text": "there is no text",
        }
        for end, key in (("begin", "first"), ("end", "last")):
            if (ends := document.get(f"{key}_tokens")) and ends["commonest"] is not None:
                hints[f"{key}_id"] = f"{100 * ends['share']:.4g} % of the sequences {end} with {ends['commonest']}"
        if expected == "ids.coverage":
            hints["ids"] = "--tokenizer or --vocab-size states the vocabulary"
        return f" ({hints[parent]})" if parent in hints else ""
    exact = (document.get("sampled") or {}).get("exact", ())
    return " (estimated from a sample)" if document.get("estimated") and expected not in exact else ""


_LARGEST = 1 << 28
_NOT_COMPARED = ("path", "estimated", "eos_from", "eos_seen", "eos_inferred")
_OF_STORAGE = (
    "format",
    "layout",
    "dtype",
    "bytes",
    "bytes_per_token",
    "sample_length",
    "eos_id",
    "separators",
    "padding",
    "masked",
)
_EXACT = (
    *("max_id", "eos_id", "first_tokens.commonest", "last_tokens.commonest", "first_id", "last_id"),
    *("ids.vocab_size", "sample_length"),
)
_SHARES = ("share", "coverage")

Document = Mapping[str, Any]


def parse_tolerance(text: str) -> float:
    """Parse a tolerance such as `1%` or `0.01`."""
    percent = text.strip().endswith("%")
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise OptionError(f"--tolerance {text!r}: expected a share such as 1% or 0.01", name="tolerance")
    return value / 100 if percent else value


class Baseline(NamedTuple):
    """An earlier document of `tokfmt stats --json`."""

    datasets: Sequence[Document]
    total: Document  # that of a single dataset is the dataset


def read_baseline(path: str | os.PathLike[str]) -> Baseline:
    """Read an earlier document of `tokfmt stats --json`."""
    file = File(path)
    try:
        if file.size > _LARGEST:
            raise UnsafeError(path, "is too large for a document of tokfmt stats", found=f"{file.size:,} bytes")
        content = json.loads(file.read(0, file.size))
    except (ValueError, RecursionError) as error:
        raise CorruptError(path, "is not JSON", remedy="tokfmt stats --json writes a baseline") from error
    finally:
        file.close()
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION:
        raise CorruptError(
            path,
            "is not a document of tokfmt stats that can be compared with",
            expected=f"schema_version {SCHEMA_VERSION}",
            found=version,
            remedy="tokfmt stats --json writes a baseline",
        )
    datasets, total = content.get("datasets", [content]), content.get("total", content)
    found = [dataset for dataset in datasets if isinstance(dataset, dict)] if isinstance(datasets, list) else []
    return Baseline(found, total if isinstance(total, dict) else {})


def deviations(report: StatsReport, baseline: Baseline, tolerance: float) -> list[Unmet]:
    """Return the values that differ from a baseline by more than a tolerance.

    - Counts and lengths may change by the tolerance times the old value.
    - Shares may change by the tolerance (0.01 is one percentage point).
    - IDs, types and names must be equal.
    - Lists, and values that one of the runs does not have, are not compared.
    - If the format has changed, values that depend on the storage are not compared.
    """
    if len(baseline.datasets) != len(report.datasets):
        return [Unmet("", _other_number(baseline, report))]
    return [
        Unmet(statistics.path, text)
        for statistics, before in zip(report.datasets, baseline.datasets, strict=True)
        for text in _changes(before, statistics.as_json(), tolerance)
    ]


def _other_number(baseline: Baseline, report: StatsReport) -> str:
    return f"the baseline is of {counted(len(baseline.datasets), 'dataset')}, this is of {len(report.datasets):,}"


def _changes(before: Document, now: Document, tolerance: float) -> Iterator[str]:
    moved = value_at(before, "format") != value_at(now, "format")
    for key in known_keys():
        parent = key.rpartition(".")[0]
        if moved and key.partition(".")[0] in _OF_STORAGE:
            continue
        if key in _NOT_COMPARED or key.startswith("sampled.") or (parent and _absent(before, now, parent)):
            continue
        old, new = value_at(before, key), value_at(now, key)
        if not _alike(key, old, new, tolerance):
            yield f"{key} was {worded(old)}, is {worded(new)}{_by(key, old, new)}"


def _absent(before: Document, now: Document, parent: str) -> bool:
    top = parent.partition(".")[0]
    return before.get(top) is None or now.get(top) is None


def _alike(key: str, old: Scalar, new: Scalar, tolerance: float) -> bool:
    if key in _EXACT or not isinstance(old, (int, float)) or not isinstance(new, (int, float)):
        return old == new
    room = tolerance if key.endswith(_SHARES) else tolerance * abs(old)
    return abs(new - old) <= room


def _by(key: str, old: Scalar, new: Scalar) -> str:
    if key in _EXACT or key.endswith(_SHARES):
        return ""
    if not isinstance(old, (int, float)) or not isinstance(new, (int, float)) or not old:
        return ""
    return f" ({(new - old) / old:+.2%})"
