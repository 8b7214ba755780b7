"""Documents drawn from a source: those that its filters let pass, that nobody has kept before, up to its quota.

What is known of each record stands in a table of entries, in order of records. Records are drawn in the order of a key
that depends on the seed and their number alone, so neither on workers nor on how they are stored; a quota ends before
the first document that goes beyond it, and with that everything behind it counts as never seen. Nothing here grows with
a source but a bit or so for each of its records, and 18 bytes for each document kept where equal ones are looked for,
26 where these are to be listed.
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

from tokfmt.core.reader import windows
from tokfmt.core.seeds import DRAWN, draws
from tokfmt.text.ingest import UNREAD

_AT_ONCE = 1 << 20  # records
_HELD = 1 << 22  # hashes that are merged at once


@dataclass(slots=True)
class Tally:
    """What became of the documents of a source that were drawn.

    Attributes:
        documents, chars: All that were looked at before the quota was full.
        rejected: Documents and characters by rule.
        duplicates: Documents by the number of the source whose document they equal.
        kept, tokens: What is left; without separators.
        beyond: Tokens of the document that the quota has no room for; None: there is none.
    """

    documents: int = 0
    chars: int = 0
    rejected: dict[int, tuple[int, int]] = field(default_factory=dict)
    duplicates: Counter[int] = field(default_factory=Counter)
    kept: int = 0
    tokens: int = 0
    beyond: int | None = None


class Kept:
    """Hashes of the documents kept so far, and the source of each: sorted, in files beyond a share of memory.

    A context manager's directory holds them; they are mapped.
    """

    def __init__(self, home: Path, most: int, *, numbered: bool = False) -> None:
        """Begin with none.

        Args:
            home: A directory for what memory does not hold.
            most: Bytes that may be held in memory.
            numbered: The record of each document is kept as well, in 8 bytes more; see `records`.
        """
        self._home, self._most, self._kind = home, most, _NUMBERED if numbered else _HASH
        self._runs: list[NDArray[np.void]] = []
        self._files = 0

    def branch(self) -> Kept:
        """The same, to which documents are added that this one does not get to know."""
        other = Kept(self._home, self._most, numbered=self._kind is _NUMBERED)
        other._runs, other._files = list(self._runs), self._files
        return other

    def sources(self, entries: NDArray[np.void]) -> NDArray[np.int64]:
        """The source that holds an equal document, for each entry; -1 where none does."""
        return self._of_equal(entries, "source")

    def records(self, entries: NDArray[np.void]) -> NDArray[np.int64]:
        """The number of that document in its source; only of those that are `numbered`."""
        return self._of_equal(entries, "record")

    def _of_equal(self, entries: NDArray[np.void], column: str) -> NDArray[np.int64]:
        found = np.full(len(entries), -1, np.int64)
        order = np.argsort(entries["high"], kind="stable")
        high, low = entries["high"][order], entries["low"][order]
        for run in self._runs:
            at = np.searchsorted(run["high"], high)
            open_ = np.arange(len(at))
            while len(open_):  # once, but for different documents whose first 64 bits agree
                open_ = open_[at[open_] < len(run)]
                open_ = open_[run["high"][at[open_]] == high[open_]]
                same = run["low"][at[open_]] == low[open_]
                found[order[open_[same]]] = run[column][at[open_[same]]]
                open_ = open_[~same]
                at[open_] += 1
        return found

    def add(self, entries: NDArray[np.void], source: int, records: NDArray[np.int64]) -> None:
        """Documents of a source that are kept from now on, and their numbers in it."""
        if not len(entries):
            return
        run = np.empty(len(entries), self._kind)
        run["high"], run["low"], run["source"] = entries["high"], entries["low"], source
        if self._kind is _NUMBERED:
            run["record"] = records
        runs, files = self._runs, self._files
        run.sort(order=("high", "low"))
        runs.append(run)
        # as many runs as there are powers of two in the whole: each hash is merged a few times
        while len(runs) - files > 1 and len(runs[-2]) < 2 * len(runs[-1]):
            merged = np.concatenate((runs.pop(), runs.pop()))
            merged.sort(order=("high", "low"))
            runs.append(merged)
        if sum(held.nbytes for held in runs[files:]) > self._most:
            spilled = np.concatenate(runs[files:])
            spilled.sort(order=("high", "low"))
            path = self._home / f"kept-{os.urandom(6).hex()}"
            spilled.tofile(path)
            runs[files:] = [np.memmap(path, self._kind, "r")]
            self._files += 1


_HASH = np.dtype([("high", "<u8"), ("low", "<u8"), ("source", "<u2")])
_NUMBERED = np.dtype([*_HASH.descr, ("record", "<i8")])


class Drawing(NamedTuple):
    """Documents drawn.

    Attributes:
        chosen: Whether each record is kept.
        looked: Whether it was looked at, before a quota was full.
        tally: What became of them.
        short: A record was wanted that had been passed over (`QuotaBudget`): it has to be read after all.
    """

    chosen: NDArray[np.bool_]
    looked: NDArray[np.bool_]
    tally: Tally
    short: bool = False


def in_order(seed: int, count: int, at_once: int = _AT_ONCE) -> Iterator[NDArray[np.int64]]:
    """The numbers of all records in the order in which they are drawn, about `at_once` at a time.

    That is the order of `draws(seed, DRAWN, 0, count)`, equal ones by number.
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
    kept: Kept | None,
    records: NDArray[np.int64] | None = None,
) -> Drawing:
    """Draw documents of a source.

    Args:
        entries: ENTRY[records]; may be mapped.
        order: Their indices as they are drawn, some at a time; see `in_order`.
        quota: Tokens at most; None: all documents.
        source: Its number in the recipe.
        kept: Documents that were kept of it and the sources before it; None: equal ones are not looked for. Those kept
            here are added.
        records: The number of each entry in the source; None: its index.
    """
    chosen, looked, tally = np.zeros(len(entries), np.bool_), np.zeros(len(entries), np.bool_), Tally()
    plain = entries.view(f"V{entries.itemsize}")  # taken whole, not field by field, which is slow
    for numbers in order:
        batch = plain[numbers].view(entries.dtype)
        passed = batch["rule"] == 0
        origins = np.full(len(batch), -1, np.int64)
        if kept is not None:
            origins[passed] = kept.sources(batch[passed])
            origins[_again(batch, passed & (origins < 0))] = source
        keep = passed & (origins < 0)
        total = tally.tokens + np.cumsum(np.where(keep, batch["tokens"], 0), dtype=np.int64)
        unread = batch["tokens"] == UNREAD
        beyond = np.flatnonzero(keep & ((total > (sys.maxsize if quota is None else quota)) | unread))
        stop = int(beyond[0]) if len(beyond) else len(batch)
        _count(tally, batch[:stop], keep[:stop], origins[:stop])
        chosen[numbers[:stop][keep[:stop]]] = True
        looked[numbers[:stop]] = True
        if kept is not None:
            new = numbers[:stop][keep[:stop]]
            kept.add(batch[:stop][keep[:stop]], source, new if records is None else records[new])
        if stop < len(batch):
            tally.beyond = int(batch["tokens"][stop])
            return Drawing(chosen, looked, tally, bool(unread[stop]))
    return Drawing(chosen, looked, tally)


def _again(batch: NDArray[np.void], among: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Which of some entries equal an earlier one of them."""
    there = np.flatnonzero(among)
    order = there[np.lexsort((batch["low"][there], batch["high"][there]))]  # stable: of equal ones the first is first
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
