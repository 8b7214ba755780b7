"""Instances of runs: slices of files, sequences of sources, and documents that order files list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.findings import Finding
from tokfmt.errors import CorruptError
from tokfmt.files.file import open_file
from tokfmt.files.place import Place
from tokfmt.formats.folders import json_object
from tokfmt.model.dataset import Dataset
from tokfmt.runs.arrays import WINDOW, Numbers, Stored, places_of, repeated, searched
from tokfmt.runs.order import Pieces


class Slices:
    """Instances that follow each other in files without overlap. A part is a source, where its files begin on its axis,
    and how many instances each of them has.
    """

    def __init__(self, parts: Sequence[tuple[int, Numbers, Numbers]], width: int) -> None:
        self.width = width
        self.counts = np.array([int(counts.sum()) for _, _, counts in parts], np.int64)
        self.firsts = np.cumsum(self.counts) - self.counts  # the first instance of each part
        self.count = int(self.counts.sum())
        self._sources = np.repeat([source for source, *_ in parts], [len(counts) for *_, counts in parts])
        self._begins = np.concatenate([begins for _, begins, _ in parts])
        self._counts = np.concatenate([counts for *_, counts in parts])
        self._firsts = np.cumsum(self._counts) - self._counts

    def pieces(self, numbers: Numbers, rows: Numbers) -> Pieces:
        """Return the pieces of instances. `rows` are the indexes of their samples."""
        file = np.searchsorted(self._firsts, numbers, side="right") - 1
        start = self._begins[file] + (numbers - self._firsts[file]) * self.width
        return Pieces(rows, self._sources[file], start, np.full(len(numbers), self.width))

    def holding(self, source: int, sequence: int, start: int, stop: int) -> Numbers:  # noqa: ARG002
        """Return the instances with some of the tokens `start <= p < stop` of a source."""
        low = np.maximum((start - self._begins) // self.width, 0)
        high = np.minimum(-((self._begins - stop) // self.width), self._counts)
        files = np.flatnonzero((self._sources == source) & (low < high))
        parts = [np.arange(*interval) for interval in zip(low[files].tolist(), high[files].tolist(), strict=True)]
        counts = [len(part) for part in parts]
        found: Numbers = np.repeat(self._firsts[files], counts) + np.concatenate([np.empty(0, np.int64), *parts])
        return found


class Sequences:
    """Instances that are the sequences of sources, cut at `most` tokens."""

    def __init__(self, datasets: Sequence[Dataset], most: int) -> None:
        self.datasets, self.most = datasets, most
        self.firsts = np.cumsum([0, *(dataset.spans.count for dataset in datasets)])
        self.count = int(self.firsts[-1])

    def pieces(self, numbers: Numbers, rows: Numbers) -> Pieces:
        """Return the pieces of instances. `rows` are the indexes of their samples."""
        source = np.searchsorted(self.firsts, numbers, side="right") - 1
        start, length = np.empty(len(numbers), np.int64), np.empty(len(numbers), np.int64)
        for k in np.unique(source).tolist():
            mine = source == k
            begins, ends = self.datasets[k].spans.extents_of(numbers[mine] - self.firsts[k])[:2]
            start[mine], length[mine] = begins, np.minimum(ends - begins, self.most)
        return Pieces(rows, source, start, length)

    def holding(self, source: int, sequence: int, start: int, stop: int) -> Numbers:  # noqa: ARG002
        """Return the instance of a sequence of a source."""
        return np.array([self.firsts[source] + sequence])


@dataclass(frozen=True, slots=True)
class Listed:
    """The instances of some files that follow each other, by order files."""

    sources: Numbers  # of the files
    ends: Numbers  # int64[files + 1], tokens before each file
    documents: Stored  # [n, 2]: where documents, or parts of them, begin and end in all these files
    numbers: Stored | None = None  # the documents of instances in turn; None: instance k is document k
    places: Stored | None = None  # [m, 2]: the `numbers` of each instance

    @property
    def count(self) -> int:
        """The number of instances."""
        return len(self.documents if self.places is None else self.places)


class Documents:
    """Instances of documents, or of parts of them, that together have at most `width` tokens."""

    def __init__(self, groups: Sequence[Listed], width: int) -> None:
        self.groups, self.width = groups, width
        counts = np.array([group.count for group in groups], np.int64)
        self.firsts, self.count = np.cumsum(counts) - counts, int(counts.sum())

    def pieces(self, numbers: Numbers, rows: Numbers) -> Pieces:
        """Return the pieces of instances. `rows` are the indexes of their samples."""
        of = np.searchsorted(self.firsts, numbers, side="right") - 1
        parts = [
            self._of_group(self.groups[k], numbers[of == k] - self.firsts[k], rows[of == k]) for k in np.unique(of)
        ]
        return Pieces.joined(parts)

    def _of_group(self, group: Listed, inner: Numbers, rows: Numbers) -> Pieces:
        documents, row = inner, np.arange(len(inner))
        if group.places is not None and group.numbers is not None:
            low, high = group.places.take(inner).T
            counts = high - low
            _check(group.places, (counts < 0) | (counts > self.width) | (high > len(group.numbers)), inner)
            row = np.repeat(row, counts)
            inside = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
            documents = group.numbers.take(low[row] + inside)
        pieces = self.of_documents(group, documents)
        over = np.bincount(row, pieces.length, len(inner)) > self.width
        _check(group.documents if group.places is None else group.places, over, inner)
        return pieces._replace(row=rows[row])

    def of_documents(self, group: Listed, documents: Numbers) -> Pieces:
        """Return the pieces of documents of a group."""
        start, stop = group.documents.take(documents).T
        file = np.minimum(np.searchsorted(group.ends, start, side="right"), len(group.sources)) - 1
        _check(group.documents, (stop < start) | (stop > group.ends[file + 1]), documents)
        return Pieces(documents, group.sources[file], start - group.ends[file], stop - start)

    def holding(self, source: int, sequence: int, start: int, stop: int) -> Numbers:  # noqa: ARG002
        """Return the instances with some of the tokens `start <= p < stop` of a source."""
        found = [np.empty(0, np.int64)]
        for first, group in zip(self.firsts.tolist(), self.groups, strict=True):
            for file in np.flatnonzero(group.sources == source).tolist():
                low, high = start + group.ends[file], min(stop + group.ends[file], group.ends[file + 1])
                inner = [np.empty(0, np.int64)]
                for a, rows in searched(group.documents):
                    inner.append(a + np.flatnonzero((rows[:, 0] < high) & (rows[:, 1] > low)))
                if group.places is not None and group.numbers is not None:
                    listed = places_of(group.numbers, np.concatenate(inner))
                    inner = [np.empty(0, np.int64)]
                    for a, rows in searched(group.places):  # which rise, as a check finds out
                        at = np.searchsorted(rows[:, 0], listed, side="right") - 1
                        inner.append(a + at[(at >= 0) & (listed < rows[at, 1])])
                found += [first + some for some in inner]
        return np.unique(np.concatenate(found))


def counts_in(index: Place, listing: str, field: str, total: int, least: int = 0) -> Numbers:
    """Return how much each part of a dataset has, by its `index.json`, of which all together have `total`."""
    listed = json_object(open_file(index)).get(listing)
    parts = listed if isinstance(listed, list) else []
    counts: list[Any] = [part.get(field) for part in parts if isinstance(part, dict)]
    if not all(type(count) is int and least <= count <= total for count in counts) or sum(counts) != total:
        raise CorruptError(index, f"{field} of its {listing} does not sum to what they hold", expected=f"{total:,}")
    return np.array(counts, np.int64)


def _check(file: Stored, wrong: NDArray[np.bool_], numbers: Numbers) -> None:
    """Raise the error of an entry of an order file that is wrong."""
    if wrong.any():
        raise CorruptError(
            file.file.path,
            f"entry {int(numbers[np.argmax(wrong)]):,} leads beyond the tokens, or beyond the length of a sample",
            remedy="Copy it again, or the token files that the run read",
        )


def stale_documents(data: Documents, datasets: Sequence[Dataset], eos_id: int | None) -> Iterator[Finding]:
    """Compare the documents of instances with the tokens: each ends with the separator, or is as long as a sample."""
    for group in data.groups:
        where, documents = str(group.documents.file.path), np.arange(len(group.documents))
        if group.numbers is not None and group.places is not None:
            rows = group.places.read(0, len(group.places))
            if repeated(group.numbers) is not None or (np.diff(rows.reshape(-1)) < 0).any():
                where = str(group.places.file.path)
                yield Finding("TF813", "error", where, "the instances do not have each of the documents once")
        for some in np.array_split(documents, len(documents) // WINDOW + 1) if eos_id is not None else ():
            pieces = data.of_documents(group, some)
            for source in np.unique(pieces.source).tolist():
                mine = pieces.source == source
                ends = (pieces.start + pieces.length)[mine & (pieces.length > 0)] - 1
                cut = pieces.length[mine & (pieces.length > 0)] == data.width
                if (cut | (datasets[source].axis.gather(ends, np.ones_like(ends)) == eos_id)).all():
                    continue
                yield Finding(
                    "TF814",
                    "error",
                    where,
                    "the order is stale: documents that it lists do not end with the separator. The tokens were "
                    "replaced by as many others after it was made",
                )
