"""The report of `tokfmt overlap`, which `--json` prints and `--expect` compares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tokfmt.base.plain import plain
from tokfmt.commands.expectations import Expectation, expectation, kinds_of, value_at, worded


@dataclass(frozen=True, slots=True)
class HitPlace:
    """An n-gram of an item in a document.

    Attributes:
        path: The dataset of the document.
        sequence: The number of the document in it: `tokfmt show PATH SEQUENCE` prints it.
        position: The word or token of the document at which the n-gram begins, from 0.
    """

    path: str
    sequence: int
    position: int


@dataclass(frozen=True, slots=True)
class ItemOverlap:
    """An item of which at least one n-gram was found.

    Attributes:
        item: The number of the item in the eval.
        ngrams: The n-grams of the item.
        found: Those of its n-grams that were found.
        share: The share of its n-grams that were found.
        longest: The words or tokens of the longest run of the item that found n-grams cover.
        documents: The documents that hold an n-gram of the item.
        examples: The first documents that hold one, at most 3.
    """

    item: int
    ngrams: int
    found: int
    share: float
    longest: int
    documents: int
    examples: Sequence[HitPlace]


@dataclass(frozen=True, slots=True)
class EvalOverlap:
    """An eval.

    Attributes:
        items: The records or sequences of the eval.
        short: The items with less than n words or tokens, which have no n-gram.
        ngrams: The n-grams of all items.
        found: Those that were found.
        share: The share of the n-grams that were found.
        longest: The longest run of an item.
        documents: The documents that hold an n-gram of the eval.
        max_share: The largest share of an item.
        hits: The items with a found n-gram, in order.
    """

    path: str
    items: int
    short: int
    ngrams: int
    found: int
    share: float
    longest: int
    documents: int
    max_share: float
    hits: Sequence[ItemOverlap]


@dataclass(frozen=True, slots=True)
class CorpusOverlap:
    """A dataset that was searched.

    Attributes:
        documents: The records or sequences of the dataset; of a task, the records that it read.
        hit_documents: Those that hold an n-gram of an eval.
    """

    path: str
    format: str
    documents: int
    hit_documents: int


@dataclass(frozen=True, slots=True)
class OverlapReport:
    """The n-grams of evals in datasets.

    Attributes:
        by: What n-grams consist of, "words" or "tokens".
        tokenizer: The tokenizer that decoded or encoded, by the name that was given or that a manifest states; None if
            none was needed.
        short_items: The items with fewer than n words or tokens, of which nothing can be found.
        hit_items: The items with a found n-gram.
        hit_documents: The documents that hold an n-gram of an eval.
        max_share: The largest share of an item.
        max_longest: The longest run of an item.
        unmet: The expectations that do not hold.
    """

    ngram: int
    by: str
    tokenizer: str | None
    short_items: int
    hit_items: int
    hit_documents: int
    max_share: float
    max_longest: int
    evals: Sequence[EvalOverlap]
    corpora: Sequence[CorpusOverlap]
    notes: Sequence[str] = ()
    unmet: Sequence[str] = ()


def parse_expectation(text: str) -> Expectation:
    """Parse an expectation of `tokfmt overlap`, such as `max_share < 1%` or `hit_items == 0`."""
    return expectation(text, kinds_of(OverlapReport), "tokfmt overlap")


def unmet(report: OverlapReport, expectations: Iterable[Expectation]) -> list[str]:
    """Return the expectations that do not hold."""
    document = plain(report)
    values = [(expected, value_at(document, expected.key)) for expected in expectations]
    return [
        f"expected {expected.text}, found {worded(value)}" for expected, value in values if not expected.holds(value)
    ]
