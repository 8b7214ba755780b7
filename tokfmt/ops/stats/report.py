"""What `tokfmt stats` says of a dataset: plain values, alike in Python, in JSON (schemas/stats.json) and on paper.

`--expect` and `--baseline` say what must hold of it, and what has changed since an earlier document of --json. Both
name values by the dotted keys of that document, such as `tokens` and `duplicates.share`.
"""

from __future__ import annotations

import json
import math
import operator
import os
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any

from tokfmt.core.errors import CorruptError, OptionError, TokfmtError, UnsafeError
from tokfmt.core.files import File
from tokfmt.core.messages import Message, Option
from tokfmt.core.options import nearest, parse_count
from tokfmt.recipes.tree import Row

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Share:
    """So many, and what part of all that is (0 to 1; 0 of nothing)."""

    count: int
    share: float

    @staticmethod
    def of(count: int, total: int) -> Share:
        """`count` of `total`."""
        return Share(count, count / total if total else 0.0)


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts in half-open bins `edges[i] <= length < edges[i + 1]`.

    Attributes:
        scale: "linear" (bins of one width) or "log" (each about 1.4 or 2 times as wide as the one before).
        edges: int, one more than counts.
        counts: How many lie in each bin.
    """

    scale: str
    edges: list[int]
    counts: list[int]


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths of sequences, empty ones included. All are exact; None where there is no sequence.

    A percentile pN is the smallest length that at least N % of the sequences do not exceed (nearest rank): always a
    length that occurs.
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
    """A token id, how often it occurs, its share of all, and what it stands for when a tokenizer is given."""

    id: int
    count: int
    share: float
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Frequencies:
    """Points of the curve of frequency over rank (1 = most frequent), at most 200, evenly spaced on a log scale."""

    rank: list[int]
    count: list[int]


@dataclass(frozen=True, slots=True)
class Ids:
    """Token ids in the sequences, separators left out.

    Attributes:
        distinct: How many different ids occur.
        estimated: More than 2^18 different ids of 2^20 and above occur: `distinct` is about 0.2 % off, and ids of
            2^20 and above may be missing from the lists.
        once: Ids that occur exactly once.
        vocab_size: That of --vocab-size or the tokenizer.
        coverage: Share of the vocabulary that occurs.
        beyond: Tokens with an id of vocab_size or more.
        most_frequent, least_frequent: Ten ids each; of those that are equally frequent the lowest first.
        frequencies: For a plot on log-log axes.
    """

    distinct: int
    estimated: bool
    once: int
    vocab_size: int | None
    coverage: float | None
    beyond: int | None
    most_frequent: list[Id]
    least_frequent: list[Id]
    frequencies: Frequencies


@dataclass(frozen=True, slots=True)
class Ends:
    """First (or last) tokens of the sequences that are not empty.

    Attributes:
        commonest: The id that is the commonest; a BOS or EOS shows here. None where there is no sequence.
        share: Of the sequences, how many begin (end) with it.
        distinct: How many different ids there are.
        top: The ten commonest.
    """

    commonest: int | None
    share: float
    distinct: int
    top: list[Id]


@dataclass(frozen=True, slots=True)
class RepeatedSequence:
    """Equal sequences: how many, tokens in each, the number of the first, and how that begins.

    Attributes:
        path: The dataset of the first, where several were looked at together.
    """

    count: int
    length: int
    sequence: int | None
    ids: list[int] | None
    text: str | None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Whole sequences that occur more than once; empty ones do not count.

    Attributes:
        sequences: Those beyond the first of each group: what deduplication would remove.
        share: Of all sequences that are not empty.
        tokens, token_share: What they hold; characters, for text.
        groups: Different sequences that occur more than once.
        largest: The ten groups of most sequences.
    """

    sequences: int
    share: float
    tokens: int
    token_share: float
    groups: int
    largest: list[RepeatedSequence]


@dataclass(frozen=True, slots=True)
class Cost:
    """What one way of making samples costs.

    Attributes:
        samples: How many there are.
        padding, padding_share: Positions without a token, and their share of all positions.
        documents_cut, cut_share: Documents that lie in more than one sample.
    """

    samples: int
    padding: int
    padding_share: float
    documents_cut: int
    cut_share: float


@dataclass(frozen=True, slots=True)
class Packing:
    """What samples of `seq_len` tokens would cost, computed from the lengths and a separator after each sequence.

    Attributes:
        seq_len: Tokens in a sample.
        separator: One token is added to each sequence.
        concatenated: Samples cut from one stream. `documents_cut` is what is to be expected when sequences come in
            random order: a document of m tokens is cut with probability min(1, (m - 1) / seq_len).
        padded: Every document begins a sample of its own and is padded.
    """

    seq_len: int
    separator: bool
    concatenated: Cost
    padded: Cost


@dataclass(frozen=True, slots=True)
class FieldCount:
    """A field of the records, and how many have it."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class TextFacts:
    """What is known of text that nobody tokenised.

    Attributes:
        bytes: Of the texts, as UTF-8.
        characters: Code points.
        field: Dotted path of the text in a record.
        fields: Top-level fields, the most frequent first; at most 100.
        invalid: Lines left out by --allow-loss invalid-lines.
    """

    bytes: int
    characters: int
    field: str
    fields: list[FieldCount]
    invalid: int


@dataclass(frozen=True, slots=True)
class Sampled:
    """Which sequences were looked at; every figure but `exact` is an estimate for the whole from them.

    What occurs at all is of the sample: `max_id`, `ids.distinct`, `ids.once`, `lengths.min` and `.max`.

    Attributes:
        sequences, tokens: Looked at.
        of: Sequences there are, if that is known.
        seed: Of the choice.
        exact: Keys that are of the whole dataset all the same.
    """

    sequences: int
    tokens: int | None
    of: int | None
    seed: int
    exact: list[str]


@dataclass(frozen=True, slots=True)
class Statistics:
    """One dataset, or the total of several.

    Attributes:
        path, format: Of the total: "total", and the format of all if they agree.
        layout: "documents", "samples", "stream" or "text".
        variant: What the format says of itself: layout, width, codec ...
        dtype: Of the ids as read.
        bytes, bytes_per_token: On disk; per token of the sequences.
        sequences: Sequences (documents; rows of samples).
        tokens: In the sequences, separators left out. None for text.
        max_id: The largest id in the sequences; a separator between them does not count, so that it is the same in
            every format. None when there is no token.
        eos_id, eos_from, eos_inferred: The separator and how it is known.
        estimated: The figures are of a sample.
        empty: Empty sequences.
        separators: How often the separator's id is stored, inside sequences too, and its share of what is stored.
        padding: Positions that hold nothing, and their share: separators in a row in a stream, padding of samples.
            None where the format has none.
        recipe: Of a recipe what each source gives; see `tokfmt.recipes.tree`.
        masked: Positions of samples whose label does not count in the loss. None where no mask is stored.
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
    eos_inferred: bool = False
    sample_length: int | None = None
    estimated: bool = False
    lengths: Lengths | None = None
    empty: Share | None = None
    separators: Share | None = None
    padding: Share | None = None
    masked: Share | None = None
    ids: Ids | None = None
    first_tokens: Ends | None = None
    last_tokens: Ends | None = None
    duplicates: Duplicates | None = None
    packing: Packing | None = None
    text: TextFacts | None = None
    sampled: Sampled | None = None
    recipe: Sequence[Row] = ()
    notes: Sequence[str] = field(default_factory=tuple)

    def as_json(self) -> dict[str, Any]:
        """Ready for `json.dumps`; see tokfmt/schemas/stats.json."""
        found: dict[str, Any] = plain(self)
        return found


@dataclass(frozen=True, slots=True)
class Failure:
    """A dataset that could not be read, and why."""

    path: str
    error: TokfmtError


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in all datasets.

    Attributes:
        datasets: In the order of the paths.
        total: Of several; None if some of them could not be read.
        failures: Those that could not be read, of several.
        unmet: Expectations of `tokfmt.stats` that do not hold.
    """

    datasets: list[Statistics]
    total: Statistics | None = None
    failures: Sequence[Failure] = ()
    unmet: Sequence[Unmet] = ()

    @property
    def several(self) -> bool:
        """More than one path was asked for."""
        return self.total is not None or bool(self.failures)

    def as_json(self) -> dict[str, Any]:
        """The document of `tokfmt stats --json`: one dataset's keys, or `datasets` and `total`."""
        known = {"schema": f"tokfmt.stats/{SCHEMA_VERSION}", "schema_version": SCHEMA_VERSION}
        if not self.several:
            return {**known, **self.datasets[0].as_json()}
        return {
            **known,
            "datasets": [one.as_json() for one in self.datasets],
            "total": None if self.total is None else self.total.as_json(),
            "errors": [
                {"path": one.path, "type": type(one.error).__name__, "message": str(one.error)} for one in self.failures
            ],
        }


def plain(value: Any) -> Any:
    """Dataclasses as dicts, sequences as lists, and what JSON does not know as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


Scalar = int | float | str | bool | None


@cache
def known_keys() -> tuple[str, ...]:
    """Every key that holds one value, such as `tokens` and `duplicates.share`."""
    return tuple(_kinds())


@cache
def _kinds() -> dict[str, type]:
    """The type of the value at each key: int, float, str or bool."""
    return dict(_keys(Statistics, ""))


def _keys(kind: type, prefix: str) -> Iterator[tuple[str, type]]:
    hints = typing.get_type_hints(kind)
    for one in fields(kind):
        hint = hints[one.name]
        if isinstance(hint, types.UnionType):
            hint = next(part for part in typing.get_args(hint) if part is not types.NoneType)
        if is_dataclass(hint) and isinstance(hint, type):
            yield from _keys(hint, f"{prefix}{one.name}.")
        elif hint in (int, float, str, bool):
            yield prefix + one.name, hint


def checked_key(key: str) -> str:
    """The key itself.

    Raises:
        OptionError: There is no such key; names the nearest.
    """
    if key not in known_keys():
        near = nearest(key, known_keys()) or next((one for one in known_keys() if one.startswith(f"{key}.")), None)
        raise OptionError(f"tokfmt stats has no value {key!r}", name=key, nearest=near)
    return key


def value_at(document: Mapping[str, Any], key: str) -> Scalar:
    """The value at a dotted key; None where it, or what should hold it, is null or missing."""
    value: Any = document
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value if isinstance(value, (int, float, str, bool)) else None


def worded(value: Scalar) -> str:
    """A value for people."""
    if value is None:
        return "unknown"
    if isinstance(value, (bool, str)):
        return str(value).lower() if isinstance(value, bool) else value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


_SHAPE = re.compile(r"\s*([\w.-]+?)\s*(<=|>=|==|!=|=|<|>)\s*([^\s<>=!].*?)\s*", re.DOTALL)
_GRAMMAR = (
    "Write KEY OP VALUE; OP is one of <, <=, >, >=, ==, !=, as in 'tokens >= 1e6', 'duplicates.share < 1%' or "
    "'dtype == uint16'"
)
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_WORDS: Mapping[str, Scalar] = {"true": True, "false": False, "null": None, "none": None}
_TOTAL = "total."


@dataclass(frozen=True, slots=True)
class Expectation:
    """One thing that must hold.

    Attributes:
        key: Dotted; `total` says that it is asked of all datasets together, else of each.
        sign: "<", "<=", ">", ">=", "==" or "!=".
        value: To compare with.
        text: As the user wrote it.
    """

    key: str
    sign: str
    value: Scalar
    total: bool = False
    text: str = ""

    def holds(self, found: Scalar) -> bool:
        """Whether a value is as expected. An unknown one only equals null."""
        if self.sign in ("==", "!="):
            return bool(_COMPARE[self.sign](found, self.value))
        if not isinstance(found, (int, float)) or not isinstance(self.value, (int, float)):
            return False
        return _COMPARE[self.sign](found, self.value)


@dataclass(frozen=True, slots=True)
class Unmet:
    """Something that does not hold.

    Attributes:
        path: The dataset; "total" for all of them, "" where it concerns the baseline as a whole.
        message: What was expected, and what was found.
        expected: The expectation; None for a value of a baseline.
    """

    path: str
    message: str
    expected: Expectation | None = None


def parse_expectation(text: str) -> Expectation:
    """`KEY OP VALUE`, as in `tokens >= 1e6`, `duplicates.share < 1%`, `dtype == uint16`, `total.tokens > 10M`.

    Raises:
        OptionError: It is not of that form, the key does not exist, or the value is not of the key's type.
    """
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise OptionError(f"{Option('expect', f'{text!r}')} is not an expectation. {_GRAMMAR}", name=text)
    name, sign, value = match.groups()
    total = name.startswith(_TOTAL)
    key = checked_key(name.removeprefix(_TOTAL).replace("-", "_"))
    sign = "==" if sign == "=" else sign
    parsed, problem = _value(value, _kinds()[key])
    if not problem and sign not in ("==", "!=") and (isinstance(parsed, (str, bool)) or parsed is None):
        problem = f"{sign} compares numbers (found {worded(parsed) if parsed is not None else 'null'})"
    if problem:
        raise OptionError(f"{Option('expect', f'{text!r}')}: {problem}. {_GRAMMAR}", name=text)
    return Expectation(key, sign, parsed, total, " ".join(text.split()))


def _value(text: str, kind: type) -> tuple[Scalar, str]:
    """A value of a key's type or null, and what is wrong with it ("" if nothing is)."""
    plain = text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
    word = _WORDS.get(plain.lower(), plain)
    if word is None or (isinstance(word, bool) and kind is bool):
        return word, ""
    if kind is str:
        return plain, ""
    if kind is bool:
        return None, f"{plain!r} is neither true nor false"
    try:
        return parse_count(plain), ""
    except OptionError:
        pass
    try:
        value = float(plain.removesuffix("%").replace("_", "").replace(",", ""))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        return None, f"{plain!r} is not a number"
    return value / 100 if plain.endswith("%") else value, ""


def unmet(report: Report, expectations: Iterable[Expectation]) -> list[Unmet]:
    """What does not hold of the datasets, in the order of the expectations."""
    found = []
    for expected in expectations:
        if expected.total and report.total is None and report.several:
            failed = report.failures[0].path
            found.append(Unmet("total", f"expected {expected.text}, but {failed} could not be read", expected))
            continue
        asked = [report.total or report.datasets[0]] if expected.total else report.datasets
        for one in asked:
            value = value_at(one.as_json(), expected.key)
            if not expected.holds(value):
                why = _why(one.as_json(), expected)
                found.append(Unmet(one.path, f"expected {expected.text}, found {worded(value)}{why}", expected))
    return found


def _why(document: Mapping[str, Any], expected: Expectation) -> str:
    if value_at(document, expected.key) is None:
        parent = expected.key.partition(".")[0]
        hints = {
            "duplicates": "not looked for, or not in a sample",
            "packing": Message(f"{Option('seq-len')} asks for it"),
            "text": "there is no text",
        }
        return f" ({hints[parent]})" if parent in hints else ""
    exact = (document.get("sampled") or {}).get("exact", ())
    return " (estimated from a sample)" if document.get("estimated") and expected.key not in exact else ""


_LARGEST = 1 << 28
_NOT_COMPARED = ("path", "estimated", "eos_from", "eos_inferred")
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
_EXACT = ("max_id", "eos_id", "first_tokens.commonest", "last_tokens.commonest", "ids.vocab_size", "sample_length")
_SHARES = ("share", "coverage")

Document = Mapping[str, Any]


def parse_tolerance(text: str) -> float:
    """`1%` or `0.01`.

    Raises:
        OptionError: It is neither.
    """
    percent = text.strip().endswith("%")
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise OptionError(f"{Option('tolerance', f'{text!r}')}: write it like 1% or 0.01", name="tolerance")
    return value / 100 if percent else value


def read_baseline(path: str | os.PathLike[str]) -> list[Document]:
    """The datasets of an earlier document.

    Raises:
        FormatError: It is none.
    """
    file = File(path)
    try:
        if file.size > _LARGEST:
            raise UnsafeError(path, "is too large for a document of tokfmt stats", found=f"{file.size:,} bytes")
        found = json.loads(file.read(0, file.size))
    except (ValueError, RecursionError) as error:
        raise CorruptError(path, "is not JSON", remedy="tokfmt stats --json writes a baseline") from error
    finally:
        file.close()
    version = found.get("schema_version") if isinstance(found, dict) else None
    if version != SCHEMA_VERSION:
        raise CorruptError(
            path,
            "is not a document of tokfmt stats that can be compared with",
            expected=f"schema_version {SCHEMA_VERSION}",
            found=version,
            remedy="tokfmt stats --json writes a baseline",
        )
    datasets = found.get("datasets", [found])
    return [one for one in datasets if isinstance(one, dict)] if isinstance(datasets, list) else []


def deviations(report: Report, baseline: list[Document], tolerance: float) -> list[Unmet]:
    """Values that have changed by more than the tolerance.

    Counts, lengths and the like may change by that part of what they were; shares by that much (0.01 is one percentage
    point); ids, types and names not at all. Lists and what was switched off in either run are not compared, nor is how
    the data is stored where that is another format than it was.
    """
    if len(baseline) != len(report.datasets):
        return [Unmet("", f"the baseline is of {len(baseline)} datasets, this is of {len(report.datasets)}")]
    return [
        Unmet(one.path, text)
        for one, before in zip(report.datasets, baseline, strict=True)
        for text in _changes(before, one.as_json(), tolerance)
    ]


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
