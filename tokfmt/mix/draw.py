"""Draw the documents of a source that pass its filters and equal no document kept before, up to its quota.

A table of entries has the facts on each record, in the order of records. Records are drawn in the order of a key that
depends only on the seed and on the number of the record, not on the workers or the storage. A quota ends before the
first document that exceeds it. That document and those after it do not count as read.

Memory takes a few bits for each record of a source. If equal documents are left out, it also takes 18 bytes for each
document that is kept, or 26 bytes if equal documents are listed.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.seeds import DRAWN, draws
from tokfmt.core.reader import windows
from tokfmt.text.ingest import UNREAD

_AT_ONCE = 1 << 20  # records that are drawn at a time


@dataclass(slots=True)
class Tally:
    """The counts of the documents of a source that were drawn."""

    documents: int = 0  # drawn before the quota was full
    chars: int = 0  # of these documents
    # documents and characters that break each rule, by its number
    rejected: dict[int, tuple[int, int]] = field(default_factory=dict)
    # documents that equal a kept one, by the number of the source of that
    duplicates: Counter[int] = field(default_factory=Counter)
    kept: int = 0  # documents that are kept
    tokens: int = 0  # of the kept documents, without separators
    beyond: int | None = None  # tokens of the first document that exceeds the quota


class Kept:
    """The 128-bit hashes of the documents kept so far, and their sources, in sorted runs, some in mapped files."""

    def __init__(self, home: Path, limit_bytes: int, *, numbered: bool = False) -> None:
        """Begin without documents; runs beyond `limit_bytes` are in `home`; `numbered`, records are stored too."""
        self._home, self._limit_bytes, self._kind = home, limit_bytes, _NUMBERED if numbered else _HASH
        self._runs: list[NDArray[np.void]] = []
        self._files = 0

    def branch(self) -> Kept:
        """Return a copy; documents that are added to the copy are not added here."""
        other = Kept(self._home, self._limit_bytes, numbered=self._kind is _NUMBERED)
        other._runs, other._files = list(self._runs), self._files
        return other

    def sources(self, entries: NDArray[np.void]) -> NDArray[np.int64]:
        """Return the number of the source that holds an equal document, int64[entries]; -1 if none does."""
        return self._of_equal(entries, "source")

    def records(self, entries: NDArray[np.void]) -> NDArray[np.int64]:
        """Return the number of the equal document in its source, int64[entries]; -1 if none. Requires `numbered`."""
        return self._of_equal(entries, "record")

    def _of_equal(self, entries: NDArray[np.void], column: str) -> NDArray[np.int64]:
        values = np.full(len(entries), -1, np.int64)
        order = np.argsort(entries["high"], kind="stable")
        high, low = entries["high"][order], entries["low"][order]
        for run in self._runs:
            candidates = np.searchsorted(run["high"], high)
            open_ = np.arange(len(candidates))
            while len(open_):  # one pass, unless the first 64 bits of different documents agree
                open_ = open_[candidates[open_] < len(run)]
                open_ = open_[run["high"][candidates[open_]] == high[open_]]
                same = run["low"][candidates[open_]] == low[open_]
                values[order[open_[same]]] = run[column][candidates[open_[same]]]
                open_ = open_[~same]
                candidates[open_] += 1
        return values

    def add(self, entries: NDArray[np.void], source: int, records: NDArray[np.int64]) -> None:
        """Add documents of a source that are kept, with their numbers in it."""
        if not len(entries):
            return
        run = np.empty(len(entries), self._kind)
        run["high"], run["low"], run["source"] = entries["high"], entries["low"], source
        if self._kind is _NUMBERED:
            run["record"] = records
        runs, files = self._runs, self._files
        run.sort(order=("high", "low"))
        runs.append(run)
        # The lengths of runs at least double from the last to the first, so each hash is merged only a few times.
        while len(runs) - files > 1 and len(runs[-2]) < 2 * len(runs[-1]):
            merged = np.concatenate((runs.pop(), runs.pop()))
            merged.sort(order=("high", "low"))
            runs.append(merged)
        if sum(sorted_run.nbytes for sorted_run in runs[files:]) > self._limit_bytes:
            spilled = np.concatenate(runs[files:])
            spilled.sort(order=("high", "low"))
            path = self._home / f"kept-{os.urandom(6).hex()}"
            spilled.tofile(path)
            runs[files:] = [np.memmap(path, self._kind, "r")]
            self._files += 1


_HASH = np.dtype([("high", "<u8"), ("low", "<u8"), ("source", "<u2")])
_NUMBERED = np.dtype([*_HASH.descr, ("record", "<i8")])


class Drawing(NamedTuple):
    """The documents that were drawn from a source."""

    chosen: NDArray[np.bool_]  # bool[records], whether each is kept
    looked: NDArray[np.bool_]  # bool[records], whether each was drawn before the quota was full
    tally: Tally
    short: bool = False  # a record was drawn that `QuotaBudget` had skipped, so the source has to be read again


def in_order(seed: int, count: int, at_once: int = _AT_ONCE) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of all records in the order in which they are drawn, about `at_once` at a time.

    The order is that of the keys `draws(seed, DRAWN, 0, count)`; records with equal keys are in order of their numbers.
    """
    parts = max(1, -(-count // at_once))
    bounds = [(1 << 64) * part // parts for part in range(parts + 1)]
    for low, high in zip(bounds, bounds[1:], strict=False):
        numbers, keys = [], []
        for a, b in windows(0, count, at_once):
            drawn = draws(seed, DRAWN, a, b)
            inside = np.flatnonzero((drawn >= np.uint64(low)) & (drawn <= np.uint64(high - 1)))
            numbers.append(inside + a)
            keys.append(drawn[inside])
        together = np.concatenate(numbers) if numbers else np.empty(0, np.int64)
        yield together[np.argsort(np.concatenate(keys), kind="stable")] if len(together) else together


def draw(
    entries: NDArray[np.void],
    order: Iterable[NDArray[np.int64]],
    quota: int | None,
    source: int,
    duplicates: Kept | None,
    records: NDArray[np.int64] | None = None,
) -> Drawing:
    """Draw documents of a source. The entries are ENTRY[records], and may be mapped. `order` has the indices of entries
    as they are drawn, some at a time. `duplicates` are the documents that were kept so far, to which those that are
    kept here are added; None keeps equal documents. `records` is the number of each entry's record in the source; None
    if it is the index of the entry.
    """
    chosen, looked, tally = np.zeros(len(entries), np.bool_), np.zeros(len(entries), np.bool_), Tally()
    plain = entries.view(f"V{entries.itemsize}")  # numpy gathers opaque items faster than fields
    for numbers in order:
        batch = plain[numbers].view(entries.dtype)
        passed = batch["rule"] == 0
        origins = np.full(len(batch), -1, np.int64)
        if duplicates is not None:
            origins[passed] = duplicates.sources(batch[passed])
            origins[_again(batch, passed & (origins < 0))] = source
        keep = passed & (origins < 0)
        total = tally.tokens + np.cumsum(np.where(keep, batch["tokens"], 0), dtype=np.int64)
        unread = batch["tokens"] == UNREAD
        beyond = np.flatnonzero(keep & ((total > (sys.maxsize if quota is None else quota)) | unread))
        stop = int(beyond[0]) if len(beyond) else len(batch)
        _count(tally, batch[:stop], keep[:stop], origins[:stop])
        chosen[numbers[:stop][keep[:stop]]] = True
        looked[numbers[:stop]] = True
        if duplicates is not None:
            new = numbers[:stop][keep[:stop]]
            duplicates.add(batch[:stop][keep[:stop]], source, new if records is None else records[new])
        if stop < len(batch):
            tally.beyond = int(batch["tokens"][stop])
            return Drawing(chosen, looked, tally, bool(unread[stop]))
    return Drawing(chosen, looked, tally)


def _again(batch: NDArray[np.void], among: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the indices of entries, of those in the mask `among`, that equal an earlier one."""
    there = np.flatnonzero(among)
    order = there[np.lexsort((batch["low"][there], batch["high"][there]))]  # stable: the first of equal entries leads
    high, low = batch["high"][order], batch["low"][order]
    return np.asarray(order[1:][(high[1:] == high[:-1]) & (low[1:] == low[:-1])], np.int64)


def _count(tally: Tally, batch: NDArray[np.void], keep: NDArray[np.bool_], origins: NDArray[np.int64]) -> None:
    tally.documents += len(batch)
    tally.chars += int(batch["chars"].sum(dtype=np.int64))
    tally.kept += int(keep.sum())
    tally.tokens += int(batch["tokens"][keep].sum(dtype=np.int64))
    equal, counts = np.unique(origins[origins >= 0], return_counts=True)
    tally.duplicates.update(dict(zip(equal.tolist(), counts.tolist(), strict=True)))
    for rule in np.unique(batch["rule"][batch["rule"] > 0]).tolist():
        broken = batch["chars"][batch["rule"] == rule]
        documents, chars = tally.rejected.get(rule, (0, 0))
        tally.rejected[rule] = documents + len(broken), chars + int(broken.sum(dtype=np.int64))
