"""Count the hits of evals in documents, so that memory follows the evals.

Regions of the datasets add up in any order. An n-gram that several items have, such as an instruction that all items
begin with, would count in each of them for each document. So n-grams belong to *groups*: group i < items is item i
alone, and each further group is a set of items that share an n-gram. Documents are counted by the combination of groups
in them; combinations are dealt to items when there are many, and at the end. A document in several regions is *open*
until its groups in all of them are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.ragged import Offsets, offsets_of
from tokfmt.text.ngrams import Found, NgramIndex

EXAMPLES = 3
"""The first documents that are listed of each item."""
_LARGE = 16  # items of a group from which its items are counted together
_COMBINATIONS = 1 << 16  # that are kept before they are dealt to items

Examples = NDArray[np.int64]
"""int64[n, 5]: group, region, document in the region, position in the document, number of the n-gram."""


class Example(NamedTuple):
    """An n-gram of an item in a document."""

    item: int  # of all evals
    corpus: int
    sequence: int
    position: int
    ngram: int


Combinations = dict[bytes, int]
"""The number of documents by their groups, which are ascending int64."""


class Groups(NamedTuple):
    """The groups of n-grams."""

    of: NDArray[np.integer]  # the group of the n-gram with each number; -1 for other positions
    items: int
    bounds: Offsets  # of the members of each further group
    members: Offsets  # items

    def sizes(self, groups: Offsets) -> Offsets:
        """Return the number of items in each of some groups."""
        further = np.maximum(groups - self.items, -1)
        return np.concatenate([np.diff(self.bounds), [1]])[further]

    def expanded(self, groups: Offsets) -> tuple[Offsets, Offsets]:
        """Return the items of groups, and for each the index of its group."""
        which, counts = np.maximum(groups - self.items, 0), self.sizes(groups)
        rows = np.repeat(np.arange(len(groups)), counts)
        at = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        items = groups[rows]
        shared = np.flatnonzero(items >= self.items)
        items[shared] = self.members[self.bounds[which[rows[shared]]] + at[shared]]
        return items, rows


def groups_of(index: NgramIndex) -> Groups:
    """Return the groups of the n-grams of evals."""
    items = len(index.bounds) - 1
    at = np.flatnonzero(index.grams >= 0)
    pairs = np.stack([index.grams[at].astype(np.int64), np.searchsorted(index.bounds, at, side="right") - 1])
    pairs = pairs[:, np.lexsort(pairs[::-1])]
    pairs = pairs[:, np.append(True, (np.diff(pairs) != 0).any(axis=0))] if pairs.size else pairs
    begins = np.flatnonzero(np.diff(pairs[0], prepend=-1))
    counts = np.diff(begins, append=pairs.shape[1])
    group = pairs[1, begins]
    numbers, members = dict[bytes, int](), list[Offsets]()
    for k in np.flatnonzero(counts > 1).tolist():
        own = pairs[1, begins[k] : begins[k] + counts[k]]
        group[k] = numbers.setdefault(own.tobytes(), items + len(numbers))
        if len(members) < len(numbers):
            members.append(own)
    kind: Any = np.int32 if items + len(numbers) < 1 << 31 else np.int64
    of = np.full(len(index.ids), -1, kind)
    of[pairs[0, begins]] = group
    joined = np.concatenate([np.empty(0, np.int64), *members])
    return Groups(of, items, offsets_of([len(own) for own in members]), joined)


class Part(NamedTuple):
    """What one region holds."""

    region: int
    corpus: int
    documents: int  # of records; 0 for a token axis, whose sequences are numbered
    size: int  # for the progress
    grams: Offsets  # that were found, each once
    combinations: Combinations
    open: Mapping[int, Offsets]  # the groups of documents that other regions have too
    examples: Examples
    hits: int  # documents with any n-gram, without open ones


def tallied(found: Found, groups: Groups, region: int, still_open: frozenset[int] = frozenset()) -> Part:
    """Return what is found in one region; documents of `still_open` are in other regions too."""
    group = groups.of[found.grams].astype(np.int64)
    order = np.lexsort((found.positions, group, found.texts))
    rows = np.stack([found.texts, group, found.positions, found.grams])[:, order]
    rows = rows[:, (np.diff(rows[:2], prepend=-1) != 0).any(axis=0)]
    texts, group, positions, grams = rows
    begins = np.flatnonzero(np.diff(texts, prepend=-1))
    combinations, opened, hits = Combinations(), dict[int, Offsets](), 0
    bounds = [*begins.tolist(), len(texts)]
    for text, a, b in zip(texts[begins].tolist(), bounds, bounds[1:], strict=False):
        if text in still_open:
            opened[text] = group[a:b]
            continue
        key = group[a:b].tobytes()
        combinations[key] = combinations.get(key, 0) + 1
        hits += 1
    examples = first_examples(np.stack([group, np.full(len(group), region), texts, positions, grams], axis=1))
    return Part(region, 0, 0, 0, np.unique(found.grams), combinations, opened, examples, hits)


def first_examples(rows: Examples) -> Examples:
    """Return the first documents of each group, in order."""
    rows = rows[np.lexsort(rows.T[3::-1])]
    rows = rows[(np.diff(rows[:, :3], axis=0, prepend=-1) != 0).any(axis=1)]  # the first position in each document
    begins = np.diff(rows[:, 0], prepend=-1) != 0
    rank = np.arange(len(rows)) - np.maximum.accumulate(np.where(begins, np.arange(len(rows)), 0))
    kept: Examples = rows[rank < EXAMPLES]
    return kept


class Totals:
    """The sum of all regions."""

    def __init__(self, index: NgramIndex, groups: Groups, evals: Sequence[int], corpora: int) -> None:
        """Begin with nothing. `evals` are the numbers of items of the evals."""
        self._groups, self._bounds = groups, offsets_of(evals)
        self.found = np.zeros(len(index.ids), np.bool_)  # by number of n-gram
        self.documents = np.zeros(groups.items, np.int64)  # with an n-gram of each item
        self.of_evals = np.zeros(len(evals), np.int64)
        self.of_corpora = np.zeros(corpora, np.int64)
        self.counts = dict[int, int]()  # documents of each region of records
        self.open = dict[tuple[int, int], Offsets]()  # by corpus and sequence
        self.examples: Examples = np.empty((0, 5), np.int64)
        self._more, self._waiting = list[Examples](), 0
        self._combinations = Combinations()

    def add(self, part: Part) -> None:
        """Add a region."""
        self.found[part.grams] = True
        self.counts[part.region] = part.documents
        self.of_corpora[part.corpus] += part.hits
        for text, groups in part.open.items():
            key = (part.corpus, text)
            self.open[key] = np.union1d(self.open[key], groups) if key in self.open else groups
        for own, count in part.combinations.items():
            self._combinations[own] = self._combinations.get(own, 0) + count
        if len(self._combinations) > _COMBINATIONS:
            self._deal()
        self._more.append(part.examples)
        self._waiting += len(part.examples)
        if self._waiting > max(_COMBINATIONS, len(self.examples)):
            self._settle()

    def _settle(self) -> None:
        self.examples, self._more, self._waiting = first_examples(np.concatenate([self.examples, *self._more])), [], 0

    def _deal(self) -> None:
        """Count the documents of all combinations in their items and evals.

        The items of large groups are counted once for all documents that have the same large groups.
        """
        alike = dict[bytes, list[tuple[Offsets, int]]]()
        for own, count in self._combinations.items():
            groups = np.frombuffer(own, np.int64)
            is_large = self._groups.sizes(groups) > _LARGE
            alike.setdefault(groups[is_large].tobytes(), []).append((groups[~is_large], count))
        self._combinations.clear()
        eval_of = np.repeat(np.arange(len(self.of_evals)), np.diff(self._bounds))
        for large, documents in alike.items():
            is_held = np.zeros(self._groups.items, np.bool_)
            is_held[self._groups.expanded(np.frombuffer(large, np.int64))[0]] = True
            held = np.unique(eval_of[is_held])
            small, counts = [groups for groups, _ in documents], np.array([count for _, count in documents])
            self.documents[is_held] += counts.sum()
            self.of_evals[held] += counts.sum()
            items, rows = self._groups.expanded(np.concatenate(small))
            rows = np.repeat(np.arange(len(small)), [len(groups) for groups in small])[rows]
            rows, items = _distinct(rows[~is_held[items]], items[~is_held[items]])
            np.add.at(self.documents, items, counts[rows])
            rows, evals = _distinct(rows, eval_of[items])
            is_other = ~np.isin(evals, held)
            np.add.at(self.of_evals, evals[is_other], counts[rows[is_other]])

    def settled(self) -> dict[str, NDArray[np.generic]]:
        """Return the sum of the regions so far as arrays, which a later `merge` adds to others."""
        self._settle()
        self._deal()
        opened = [(*key, group) for key, groups in self.open.items() for group in groups.tolist()]
        return {
            "found": np.packbits(self.found),
            "documents": self.documents,
            "of_evals": self.of_evals,
            "of_corpora": self.of_corpora,
            "counts": np.array(list(self.counts.items()), np.int64).reshape(-1, 2),
            "open": np.array(opened, np.int64).reshape(-1, 3),
            "examples": self.examples,
        }

    def merge(self, arrays: Mapping[str, NDArray[np.generic]], regions: int) -> None:
        """Add the arrays of another sum, over some of so many regions.

        Raises:
            ValueError: They number items, regions or datasets that there are not.
        """
        groups = self._groups.items + len(self._groups.bounds) - 1
        for name, columns in {
            "counts": (regions, None),
            "open": (len(self.of_corpora), None, groups),
            "examples": (groups, regions, None, None, len(self.found)),
        }.items():
            for values, end in zip(arrays[name].T, columns, strict=True):
                if len(values) and (values.min() < 0 or (end is not None and values.max() >= end)):
                    raise ValueError(f"{name} are out of bounds")
        self.found |= np.unpackbits(arrays["found"].astype(np.uint8), count=len(self.found)).astype(np.bool_)
        for name in ("documents", "of_evals", "of_corpora"):
            getattr(self, name)[:] += arrays[name]
        self.counts.update(arrays["counts"].tolist())
        for corpus, text, group in arrays["open"].tolist():
            known = self.open.get((corpus, text), np.empty(0, np.int64))
            self.open[corpus, text] = np.union1d(known, [group])
        self._more.append(arrays["examples"].astype(np.int64))

    def close(self) -> None:
        """Count the open documents, once all regions are added."""
        for (corpus, _), groups in self.open.items():
            key = groups.tobytes()
            self._combinations[key] = self._combinations.get(key, 0) + 1
            self.of_corpora[corpus] += 1
        self.open.clear()
        self._settle()
        self._deal()


def _distinct(rows: Offsets, values: Offsets) -> tuple[Offsets, Offsets]:
    """Return the distinct pairs of two columns, sorted."""
    pairs = np.stack([rows, values])[:, np.lexsort([values, rows])]
    pairs = pairs[:, (np.diff(pairs, prepend=-1) != 0).any(axis=0)]
    return pairs[0], pairs[1]


def runs_of(index: NgramIndex, found: NDArray[np.bool_]) -> tuple[Offsets, Offsets, Offsets]:
    """Return for each item its n-grams, those of them that were found, and the longest run that they cover."""
    lengths = np.diff(index.bounds)
    is_found = found[np.maximum(index.grams, 0)] & (index.grams >= 0)
    sums = offsets_of(is_found)
    longest = np.zeros(len(lengths), np.int64)
    before = np.append(False, is_found)[:-1]
    before[index.bounds[:-1][lengths > 0]] = False
    begins = np.flatnonzero(is_found & ~before)
    goes_on = np.append(is_found[1:] & before[1:], False) if len(is_found) else is_found
    ends = np.flatnonzero(is_found & ~goes_on)
    np.maximum.at(longest, np.searchsorted(index.bounds, begins, side="right") - 1, ends - begins + index.n)
    return np.maximum(lengths - index.n + 1, 0), np.diff(sums[index.bounds]), longest


def examples_of(
    groups: Groups, examples: Examples, regions: Mapping[int, tuple[int, int]], hit: Offsets
) -> dict[int, list[Example]]:
    """Return the examples of the items that were hit. `regions` have the dataset and the first document of each."""
    listed = dict[int, list[Example]]((item, []) for item in hit.tolist())
    items, rows = groups.expanded(examples[:, 0])
    chosen = np.column_stack([items, examples[rows][:, 1:]])
    for item, region, document, position, ngram in first_examples(chosen).tolist():
        corpus, first = regions[region]
        listed[item].append(Example(item, corpus, first + document, position, ngram))
    return listed
