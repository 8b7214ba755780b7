"""Several datasets at a glance (`tokfmt info A B...`, `tokfmt info DIR --recursive`): facts of each, and what differs.

The facts are those of `commands.info`, which reads none of the datasets wholly. With `sample` or `deep`,
`commands.stats` counts them, and the first and last IDs of all sequences that it read.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tokfmt import registry
from tokfmt.commands.info import End, Overview, overview
from tokfmt.commands.stats import StatsRequest, stats
from tokfmt.commands.stats.report import Ends, FailedDataset, Statistics
from tokfmt.core.format import Format
from tokfmt.core.losses import READS
from tokfmt.errors import FormatError, TokfmtError
from tokfmt.files.listing import Listing
from tokfmt.files.place import Place
from tokfmt.files.side_by_side import side_by_side
from tokfmt.run.progress import Progress
from tokfmt.source.discover import Skipped, dataset_at, datasets_below
from tokfmt.source.request import BESIDE, SourceRequest, expanded
from tokfmt.source.stored import tokenizer_of
from tokfmt.wording import html_table

VARIED = "varied"
"""The first (last) ID of a dataset whose sequences begin (end) with different IDs."""

_ALL, _MOST = 1.0, 0.9
"""Shares of the sequences that begin (end) with one ID, from which the dataset is said to. A BOS begins all of them."""
_SEVERAL = 3  # datasets from which one differs from the others
_FILES = 10_000  # files whose times are looked at
_LISTED = 10  # files that no format recognizes

_FACTS: Mapping[str, Callable[[Overview], object]] = {
    "format": lambda one: one.format,
    "dtype": lambda one: one.dtype,
    "eos_id": lambda one: one.eos_id,
    "tokenizer": lambda one: (one.tokenizer or {}).get("name"),
    "first": lambda one: _usual(one.first, _ALL),
    "last": lambda one: _usual(one.last, _MOST),
}
"""The facts that datasets of one corpus share, each with the value of a dataset; None if it is not known."""


@dataclass(frozen=True, slots=True)
class Other:
    """A dataset in which a fact differs from most others."""

    path: str
    value: object


@dataclass(frozen=True, slots=True)
class Difference:
    """A fact in which some datasets differ from most.

    Attributes:
        fact: "format", "dtype", "eos_id", "tokenizer" (its name), "first" or "last".
        usual: Its value in more than half of the datasets of which it is known. The "first" ("last") of a dataset is
            the ID that all sequences begin with (nine of ten end with), or "varied".
        datasets: The number of datasets that have this value.
        others: The datasets that have another value.
    """

    fact: str
    usual: object
    datasets: int
    others: tuple[Other, ...]


@dataclass(frozen=True, slots=True)
class Total:
    """The sums over all datasets but recipes and runs, which have the tokens of others.

    Attributes:
        datasets: The number of these datasets.
        sequences, tokens, size_bytes: The sums of those whose number is known.
        uncounted: The number of datasets whose sequences or tokens are not known.
    """

    datasets: int
    sequences: int
    tokens: int
    size_bytes: int
    uncounted: int


@dataclass(frozen=True, slots=True)
class Fleet:
    """Several datasets.

    Attributes:
        datasets: The facts of each dataset, in the order of the paths, and of the names below a directory.
        total: The sums.
        differences: The facts in which some datasets differ from most.
        other_files: The number of files below the directories that are not datasets.
        unidentified: The first ten of these files that look like data, each with the option that reads it.
        errors: The datasets that cannot be read.
    """

    datasets: tuple[Overview, ...]
    total: Total
    differences: tuple[Difference, ...]
    other_files: int
    unidentified: tuple[FailedDataset, ...]
    errors: tuple[FailedDataset, ...]

    def _repr_html_(self) -> str:
        """Return a table with a row per dataset, for notebooks."""
        heads = ("dataset", "format", "sequences", "tokens", "dtype", "separator", "first", "last", "largest ID")
        rows = [
            (
                dataset.path,
                dataset.format,
                dataset.sequences,
                dataset.tokens,
                dataset.dtype,
                *map(_word, (dataset.eos_id, *_ends(dataset))),
                dataset.max_id,
            )
            for dataset in self.datasets
        ]
        notes = [
            f"{other.path}: {difference.fact} {other.value}"
            for difference in self.differences
            for other in difference.others
        ]
        return html_table("fleet", heads, rows, [*notes, *(f"{error.path}: {error.message}" for error in self.errors)])


def _word(value: object) -> str | None:
    return None if value is None else str(value)


def _ends(one: Overview) -> tuple[object, object]:
    return _usual(one.first, _ALL), _usual(one.last, _MOST)


def _usual(end: End | None, least: float) -> object:
    return None if end is None else end.id if end.share >= least else VARIED


def fleet(
    asked: SourceRequest,
    tokenizer: str | None = None,
    *,
    sample: int | None = None,
    deep: bool = False,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Fleet:
    """Return the facts of all datasets that a request names, with `recursive` of those below directories.

    Args:
        asked: The paths, each a dataset, or a directory with datasets.
        tokenizer: Decodes the first IDs, and those of `sample` and `deep`.
        sample: The number of sequences of each dataset to look at.
        deep: Look at all sequences.
        jobs: The number of workers of `sample` and `deep`.
        progress: Receives the number of datasets that were looked at.

    Raises:
        FormatError: A directory has no dataset. A dataset that cannot be read is among the errors.
    """
    request, handle, watched = asked.accepting(READS["info"]), tokenizer_of(tokenizer), progress or Progress()
    with Listing() as listing:
        found, others = _found(asked, listing)
        unidentified = [_failed(other.path, other.error) for other in others if other.error is not None]
        watched.phase("looking", len(found), "datasets")

        def look(one: tuple[Place, Format | TokfmtError | None]) -> Overview | FailedDataset:
            place, format_ = one
            try:
                if isinstance(format_, TokfmtError):
                    raise format_
                single = replace(request, paths=(place,), recursive=False)
                dataset = dataset_at(place, single, format_)
                facts = replace(overview([dataset], single, handle), written=_written_at(dataset.files))
                if (deep or sample is not None) and facts.layout != "text":
                    led = single if facts.tokens is None else replace(single, bos="none")  # A lead is the first ID.
                    counts = stats(StatsRequest(led, tokenizer, duplicates=False, sample=sample, jobs=jobs))
                    facts = _counted(facts, counts.datasets[0])
            except TokfmtError as error:
                return _failed(place, error)
            else:
                return facts
            finally:
                watched.advance(1)

        are_stored = not (deep or sample is not None) and any(not place.is_local for place, _ in found)
        looks = list(side_by_side(look, found, are_stored=are_stored))
    datasets = tuple({one.path: one for one in looks if isinstance(one, Overview)}.values())  # A pair of files is one.
    errors = tuple(one for one in looks if isinstance(one, FailedDataset))
    return Fleet(
        datasets, _total(datasets), tuple(differences(datasets)), len(others), tuple(unidentified[:_LISTED]), errors
    )


def _written_at(files: Sequence[Place]) -> str | None:
    """Return when the newest of some files was written; None if one of them is in a store."""
    if not files or len(files) > _FILES or not all(file.is_local for file in files):
        return None
    newest = max(os.stat(file.text).st_mtime for file in files)
    return datetime.fromtimestamp(newest, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _failed(place: Place, error: TokfmtError) -> FailedDataset:
    return FailedDataset(str(place), type(error).__name__, str(error))


def _found(
    asked: SourceRequest, listing: Listing
) -> tuple[list[tuple[Place, Format | TokfmtError | None]], list[Skipped]]:
    """Return the datasets of a request, each with its format or an error if known, and the other files."""
    found, others = list[tuple[Place, Format | TokfmtError | None]](), list[Skipped]()
    for path in expanded(asked.paths, listing):
        if not (asked.recursive and path.is_dir()):
            found += [] if path.name.endswith(BESIDE) else [(path, None)]
            continue
        before = len(found)
        for one in datasets_below(path, asked.format):
            if isinstance(one, Skipped):
                others.append(one)
            else:
                found.append(one)
        if len(found) == before:
            for other in others:
                if other.error is not None:
                    raise other.error
            raise FormatError(path, "holds no dataset, nor does a directory below it")
    return found, others


def _counted(facts: Overview, counts: Statistics) -> Overview:
    """Return facts with what was counted, or estimated from a sample; the numbers that are known stay."""
    sampled = counts.sampled
    looked = counts.sequences if sampled is None else sampled.sequences
    if facts.tokens is None:
        is_exact = sampled is None or "sequences" in sampled.exact
        origin = "dataset" if is_exact else "sample"
        facts = replace(facts, sequences=counts.sequences, tokens=counts.tokens, counts_from=origin)
    if facts.max_id is None or sampled is None or (counts.max_id or 0) > facts.max_id:
        facts = replace(facts, max_id=counts.max_id, max_id_from="dataset" if sampled is None else "sample")
    return replace(facts, first=_end(counts.first_tokens, looked), last=_end(counts.last_tokens, looked))


def _end(ends: Ends | None, looked: int) -> End | None:
    return None if ends is None or ends.commonest is None else End(ends.commonest, ends.share, looked)


def _total(every: Sequence[Overview]) -> Total:
    datasets = [one for one in every if not registry.get(one.format).is_computed]

    def summed(numbers: Iterable[int | None]) -> int:
        return sum(number for number in numbers if number is not None)

    return Total(
        len(datasets),
        summed(dataset.sequences for dataset in datasets),
        summed(dataset.tokens for dataset in datasets),
        summed(dataset.size_bytes for dataset in datasets),
        sum(dataset.sequences is None or (dataset.tokens is None and dataset.layout != "text") for dataset in datasets),
    )


def differences(datasets: Sequence[Overview]) -> Iterable[Difference]:
    """Yield each fact in which some datasets differ from more than half of those of which it is known."""
    for fact, of in _FACTS.items():
        known = [(dataset, value) for dataset in datasets if (value := of(dataset)) is not None]
        if len(known) < _SEVERAL:
            continue
        usual, count = Counter(value for _, value in known).most_common(1)[0]
        if len(known) // 2 < count < len(known):
            others = tuple(Other(one.path, value) for one, value in known if value != usual)
            yield Difference(fact, usual, count, others)
