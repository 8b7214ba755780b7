"""Integers of order files, read where they are asked for, and orders that are built again and held.

An order may have 10^9 entries: nothing here reads a whole file unless it is searched, in windows.
"""

from __future__ import annotations

import warnings
from array import array as native
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.reader import windows
from tokfmt.errors import CorruptError, LoaderWarning
from tokfmt.files.file import File, open_file
from tokfmt.files.place import Place
from tokfmt.formats.npy import header_of
from tokfmt.mix import columns, key_of
from tokfmt.wording import human_bytes

Numbers = NDArray[np.int64]
Parts = Iterator[Sequence[NDArray[Any]]]
"""Parts of some arrays, one after another."""
WINDOW = 1 << 22
"""Entries that a search holds at once."""
_LOW_BITS = (1 << 18) - 1  # of an entry that is searched
_NEAR = 1 << 12  # Entries between two that are asked for, which take less time to read than another read does.


class Integers(Protocol):
    """An array of integers, or of rows of two."""

    def __len__(self) -> int: ...

    def read(self, first: int, last: int) -> Numbers:
        """Return the entries `first <= i < last`."""

    def take(self, numbers: Numbers) -> Numbers:
        """Return the entries with these numbers, in this order."""


class Held:
    """An array in memory."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def read(self, first: int, last: int) -> Numbers:
        return self.array[first:last].astype(np.int64, copy=False)

    def take(self, numbers: Numbers) -> Numbers:
        return self.array[numbers].astype(np.int64, copy=False)


class Wrapped:
    """Numbers of samples in their sources, each of which begins again at its end. `which` are the sources."""

    def __init__(self, numbers: Integers, which: Integers, counts: Sequence[int]) -> None:
        self.numbers, self.which, self.counts = numbers, which, np.array(counts, np.int64)

    def __len__(self) -> int:
        return len(self.numbers)

    def read(self, first: int, last: int) -> Numbers:
        found: Numbers = self.numbers.read(first, last) % self.counts[self.which.read(first, last)]
        return found

    def take(self, numbers: Numbers) -> Numbers:
        found: Numbers = self.numbers.take(numbers) % self.counts[self.which.take(numbers)]
        return found


class Stored:
    """The integers of a file. Entries are bounded where they are read: `most` is the largest that can be right."""

    def __init__(self, file: File, begin: int, dtype: np.dtype[Any], count: int, width: int = 1) -> None:
        self.file, self.begin, self.dtype, self.count, self.width = file, begin, dtype, count, width
        self.most: int | None = None
        if begin + count * width * dtype.itemsize != file.size:
            raise CorruptError(
                file.path,
                "has another size than its entries",
                offset=begin,
                expected=f"{count * width * dtype.itemsize:,} bytes",
                found=f"{file.size - begin:,}",
                remedy="Copy it again",
            )

    def __len__(self) -> int:
        return self.count

    def read(self, first: int, last: int) -> Numbers:
        size = self.dtype.itemsize * self.width
        raw = self.file.array(self.begin + first * size, (last - first) * self.width, self.dtype)
        if raw.dtype.kind == "u" and raw.dtype.itemsize == 8 and len(raw) and int(raw.max()) > np.iinfo(np.int64).max:
            raise CorruptError(self.file.path, "has an entry beyond 2^63", offset=self.begin, remedy="Copy it again")
        found = raw.astype(np.int64, copy=False)
        self._bound(found, first)
        return found.reshape(-1, self.width) if self.width > 1 else found

    def _bound(self, found: Numbers, first: int) -> None:
        top = self.most
        if not len(found):
            return
        wrong = int(np.argmin(found)) if int(found.min()) < 0 else -1
        if wrong < 0 and top is not None and self.width == 1 and int(found.max()) > top:
            wrong = int(np.argmax(found))
        if wrong >= 0:
            raise CorruptError(
                self.file.path,
                f"entry {first + wrong // self.width:,} is wrong",
                offset=self.begin + (first * self.width + wrong) * self.dtype.itemsize,
                expected="0 or more" if top is None else f"0 to {top:,}",
                found=int(found[wrong]),
                remedy="Copy it again",
            )

    def take(self, numbers: Numbers) -> Numbers:
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        out = np.empty((len(numbers), self.width) if self.width > 1 else len(numbers), np.int64)
        cuts = np.flatnonzero(np.diff(ordered) > _NEAR) + 1
        for at in np.split(np.arange(len(ordered)), cuts):
            if len(at):
                low, high = int(ordered[at[0]]), int(ordered[at[-1]]) + 1
                out[order[at]] = self.read(low, high)[ordered[at] - low]
        return out

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def kept(
    facts: Sequence[object],
    count: int,
    names: Sequence[str],
    parts: Callable[[], Parts],
    *,
    cost: tuple[float, int] = (5e-7, 64),
    least: int = 1 << 22,
) -> list[Held]:
    """Return arrays of `count` entries that are built again, which the facts decide. From `least` entries on, they are
    built once per machine, after a note on what that takes, and kept in the cache. `cost` is in seconds and bytes of
    memory per entry.
    """

    def announced() -> Parts:
        seconds, size = count * cost[0], human_bytes(count * cost[1])
        warnings.warn(
            f"builds the order of {count:,} samples again, once: about {seconds:,.0f} s and up to {size} of memory",
            LoaderWarning,
            stacklevel=2,
        )
        yield from parts()

    if count < least:
        empty = [np.empty(0, np.int64) for _ in names]
        return [Held(np.concatenate(some)) for some in zip(empty, *parts(), strict=True)]
    return [Held(one.array) for one in columns(key_of("order of a run", *facts), 8 * count, names, announced)]


def stored_npy(path: Place, width: int = 1) -> Stored:
    """Open a `.npy` of integers. Nothing in it is evaluated, and no pickle is loaded."""
    file = open_file(path)
    header = header_of(file)
    if header.shape[1:] != (() if width == 1 else (width,)):
        file.close()
        raise CorruptError(path, "has another shape", expected=f"{width} columns", found=str(header.shape))
    return Stored(file, header.begin, header.dtype, header.shape[0], width)


def stored_raw(
    path: Place, dtype: str, width: int = 1, *, count: int | None = None, below: int | None = None
) -> Stored:
    """Open a file of integers without a header, of `count` entries `below` a number, if these are known."""
    file = open_file(path)
    each = np.dtype(dtype).itemsize * width
    stored = Stored(file, 0, np.dtype(dtype), file.size // each if count is None else count, width)
    stored.most = None if below is None else below - 1
    return stored


def searched(
    integers: Integers, first: int = 0, last: int | None = None, *, step: int = WINDOW
) -> Iterator[tuple[int, Numbers]]:
    """Yield entries in windows, each with the number of its first."""
    for a, b in windows(first, len(integers) if last is None else last, step):
        yield a, integers.read(a, b)


def places_of(integers: Integers, wanted: Numbers, first: int = 0, last: int | None = None) -> Numbers:
    """Return the numbers, ascending, of the entries that are among the `wanted`, by a search of all."""
    found, is_like = list[Numbers](), np.zeros(_LOW_BITS + 1, np.bool_)
    is_like[wanted & _LOW_BITS] = True  # by the lowest bits, few entries are like some that are wanted
    for a, entries in searched(integers, first, last) if len(wanted) else ():
        at = np.flatnonzero(is_like[entries & _LOW_BITS])
        found.append(a + at[np.isin(entries[at], wanted)])
    return np.concatenate(found) if found else np.empty(0, np.int64)


def are_equal(ours: Integers, theirs: Integers) -> bool:
    """Return True if two arrays have the same entries. They are read in windows."""
    if len(ours) != len(theirs):
        return False
    return all(np.array_equal(ours.read(a, b), theirs.read(a, b)) for a, b in windows(0, len(ours), WINDOW))


@lru_cache(maxsize=2)
def random_permutation(count: int, seed: int) -> Numbers:
    """Return what `torch.randperm(count)` gives after `Generator.manual_seed(seed)`."""
    parts = ("randperm", count, seed), count, ["permutation"], lambda: iter([[_permuted(count, seed)]])
    return kept(*parts, cost=(5e-7, 16))[0].array


def _permuted(count: int, seed: int) -> Numbers:
    bits = np.random.MT19937()
    seeded: Any = np.random.RandomState(seed & 0xFFFFFFFF).get_state(legacy=False)  # without SeedSequence
    bits.state = seeded
    places = native("q", np.arange(count, dtype=np.int64).tobytes())
    for a, b in windows(0, max(count - 1, 0), WINDOW):
        swaps = np.arange(a, b) + bits.random_raw(b - a).astype(np.int64) % np.arange(count - a, count - b, -1)
        for at, other in enumerate(swaps.tolist(), a):
            places[at], places[other] = places[other], places[at]
    return np.frombuffer(places, np.int64)


def repeated(integers: Integers, most: int = 1 << 28) -> tuple[int, int] | None:
    """Return the first and the last entry that no permutation has: one beyond the length, or one that an entry before
    has too; None of a permutation. Holds a byte for each of `most` numbers, and searches once for each such range.
    """
    ranges = [(low, min(low + most, len(integers))) for low in range(0, len(integers), most)]
    if all(_are_all_there(integers, *one) for one in ranges):
        return None
    places = [place for one in ranges for place in _places_of_repeated(integers, *one)]
    return min(places), max(places)


def _are_all_there(integers: Integers, low: int, high: int) -> bool:
    seen = np.zeros(high - low, np.bool_)
    for _, entries in searched(integers):
        seen[entries[(entries >= low) & (entries < high)] - low] = True
    return bool(seen.all())


def _places_of_repeated(integers: Integers, low: int, high: int) -> Iterator[int]:
    seen = np.zeros(high - low, np.bool_)
    for a, entries in searched(integers):
        beyond = (entries < 0) | (entries >= len(integers))
        at = np.flatnonzero((entries >= low) & (entries < high))
        numbers = entries[at] - low
        is_first = np.zeros(len(at), np.bool_)
        is_first[np.unique(numbers, return_index=True)[1]] = True
        wrong = np.concatenate([np.flatnonzero(beyond), at[seen[numbers] | ~is_first]])
        seen[numbers] = True
        if len(wrong):
            yield from (a + int(wrong.min()), a + int(wrong.max()))
