"""What counts of ids tell: the most and least frequent, coverage of a vocabulary, the curve over the rank."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.dtypes import distinct
from tokfmt.core.format import Decoder
from tokfmt.ops.stats.counts import Counts
from tokfmt.ops.stats.report import Ends, Frequencies, Id, Ids
from tokfmt.ops.stats.table import Table

TOP = 10
_POINTS = 200

Spelling = Callable[[int], str | None]


def spelling(decoder: Decoder | None) -> Spelling:
    """What an id stands for by itself; nothing without a tokenizer."""
    return (lambda token: None) if decoder is None else (lambda token: decoder.decode([token]))


def ids_of(counts: Counts, vocab_size: int | None, spelled: Spelling) -> Ids:
    """All that is said of the ids in the sequences.

    Args:
        counts: Without separators.
        vocab_size: Of --vocab-size or a tokenizer.
        spelled: See `spelling`.
    """
    table = counts.table()
    total = table.total
    most = np.lexsort((table.keys, -table.counts))[:TOP]
    least = np.lexsort((table.keys, table.counts))[:TOP]
    beyond = coverage = None
    if vocab_size is not None:
        inside = int(np.searchsorted(table.keys, vocab_size))
        beyond = int(table.counts[inside:].sum())
        coverage = inside / vocab_size
    return Ids(
        distinct=counts.distinct,
        estimated=counts.clipped,
        once=int(np.count_nonzero(table.counts == 1)),
        vocab_size=vocab_size,
        coverage=coverage,
        beyond=beyond,
        most_frequent=_listed(table, most, total, spelled),
        least_frequent=_listed(table, least, total, spelled),
        frequencies=frequencies(table.counts),
    )


def ends_of(counts: Counts, spelled: Spelling) -> Ends:
    """What is said of first or last tokens."""
    table = counts.table()
    total = table.total
    top = _listed(table, np.lexsort((table.keys, -table.counts))[:TOP], total, spelled)
    return Ends(top[0].id if top else None, top[0].share if top else 0.0, counts.distinct, top)


def _listed(table: Table, rows: NDArray[np.intp], total: int, spelled: Spelling) -> list[Id]:
    found = zip(table.keys[rows].tolist(), table.counts[rows].tolist(), strict=True)
    return [Id(token, count, count / total, spelled(token)) for token, count in found]


def frequencies(counts: NDArray[np.int64]) -> Frequencies:
    """The curve of frequency over rank, at ranks evenly spaced on a log scale."""
    if not len(counts):
        return Frequencies([], [])
    falling = np.sort(counts)[::-1]
    ranks = distinct(np.geomspace(1, len(falling), _POINTS).round().astype(np.int64))
    return Frequencies(ranks.tolist(), falling[ranks - 1].tolist())
