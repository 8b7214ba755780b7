"""A global shuffle of sequences, in two passes over disk and constant memory.

Every sequence i has a key, `draws(seed, SHUFFLE, i)`; the shuffled order is by key (equal keys: by number). Keys are
independent and uniform, so every order is equally likely, and the order depends on the seed and the number of sequences
alone: not on tokens, windows, buckets, workers or the format. A bucket is a part of the range of keys:

1. tasks walk the source in order and spill each sequence to its bucket (`run.scatter`);
2. `Shuffled` reads: a bucket fits in memory, is sorted by key when it is first wanted, and a few are kept.

Nothing is held for each sequence: the shuffled offsets are a file as well. One copy of the tokens lies in scratch; when
the conversion may be continued (`run.journal`), spills are journaled as they are whole, and stay until its end.
"""

from __future__ import annotations

import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import Info, TokenReader, check_interval
from tokfmt.core.errors import IncompleteWriteError
from tokfmt.core.files import File
from tokfmt.core.ragged import Offsets, Ragged, Tokens, offsets_of, reordered
from tokfmt.run.journal import of_part
from tokfmt.run.plan import Kind, Workers, journaled
from tokfmt.run.scatter import ENTRY, LONG, MOST_BUCKETS, Scatter, Spill, cuts, scatter

_KEPT = 1 << 26  # bytes of all buckets kept in memory, about
_LARGEST, _SMALLEST = 1 << 24, 1 << 21  # bytes of one, about, while it is sorted
_SORTING = 4 * ENTRY.itemsize  # bytes a sequence takes meanwhile: its entry, twice, its places before and after


def _ignore(amount: int) -> None:
    """Nobody is watching."""


@contextmanager
def shuffled(
    source: TokenReader,
    seed: int,
    workers: Workers,
    *,
    part: str = "",
    bucket: int | None = None,
    progress: Callable[[int], None] = _ignore,
) -> Iterator[Shuffled]:
    """The sequences of `source` in the order that `seed` draws; its files in scratch go at the end.

    Args:
        source: What to shuffle. It is read again for long sequences.
        seed: 0..2^64-1.
        workers: Where to run; what its journal has is not done again.
        part: Name of what is shuffled, if it shares the journal with others.
        bucket: Bytes that a bucket takes while it is sorted, about; the order does not depend on it.
        progress: Told how many more tokens were spilled.
    """
    home, kept, journal = workers.scratch / of_part("done-shuffle", part), workers.jobs + 1, workers.journal
    size = bucket or min(max(_KEPT // kept, _SMALLEST), _LARGEST)
    info = source.info
    total = info.tokens * info.dtype.itemsize * 2 + info.sequences * _SORTING
    wanted = min(max(1, -(-total // size)), MOST_BUCKETS)
    job = Scatter(source, seed, journal.once(of_part("buckets", part), lambda: wanted), home)
    home.mkdir(exist_ok=True)
    try:
        spills = []
        for spill in journaled(_spills(job, part), scatter, job, cuts(source), workers):
            spills.append(spill)
            progress(spill.read)
        spills.sort(key=lambda spill: spill.number)
        yield Shuffled(source, _Buckets(spills, info.dtype, kept), home / "offsets")
    finally:
        if not journal.keeps:
            shutil.rmtree(home, ignore_errors=True)


def _spills(job: Scatter, part: str) -> Kind[tuple[int, int, int], Spill]:
    """How spills are journaled."""
    return Kind(
        of_part("spill", part),
        number=lambda item: item[0],
        finished=lambda spill: spill.number,
        facts=lambda spill: spill.facts(),
        recall=lambda number, facts: Spill.recalled(job, number, facts),
    )


class Shuffled:
    """The sequences of a source in order of their keys.

    The axis is a row of pieces, each the short sequences that follow one another in a bucket, or one long sequence,
    which lies in the source.
    """

    def __init__(self, source: TokenReader, buckets: _Buckets, path: Path) -> None:
        """Write the shuffled offsets to `path`, bucket by bucket."""
        self.source, self._buckets = source, buckets
        pieces: list[_Piece] = []
        count, at = 0, 0
        with open(path, "wb") as out:
            for number in range(buckets.count):
                entries = buckets.ordered(number)
                offsets = at + offsets_of(entries["length"])
                out.write(offsets[:-1].tobytes())  # tofile does not say that the disk is full
                pieces += _pieces(number, entries, offsets)
                count, at = count + len(entries), int(offsets[-1])
            out.write(np.array([at], np.int64).tobytes())
        self._offsets = File(path)
        self._info = source.info
        self._bucket = np.array([piece.bucket for piece in pieces], np.int64)
        self._shift = np.array([piece.shift for piece in pieces], np.int64)
        self._bounds = np.array([*(piece.start for piece in pieces), at], np.int64)
        if (count, at) != (self._info.sequences, self._info.tokens):
            raise IncompleteWriteError(f"{count:,} sequences of {at:,} tokens were spilled; the source holds others")

    @property
    def info(self) -> Info:
        return self._info

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self._info.sequences, "sequences")
        return self._offsets.array(first * 8, last - first + 1, np.dtype(np.int64))

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self._info.tokens)
        first = int(np.searchsorted(self._bounds, start, side="right")) - 1
        found = []
        for k in range(first, int(np.searchsorted(self._bounds, stop))) if start < stop else ():
            a, b = max(start, int(self._bounds[k])), min(stop, int(self._bounds[k + 1]))
            bucket, shift = int(self._bucket[k]), int(self._shift[k])
            if bucket < 0:
                found.append(self.source.tokens(a - shift, b - shift))
            else:
                found.append(self._buckets.tokens(bucket)[a - shift : b - shift])
        if len(found) == 1:
            return found[0]
        return np.concatenate(found) if found else np.empty(0, self._info.dtype)

    def close(self) -> None:
        self._offsets.close()
        self._buckets.close()
        self.source.close()


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the shuffled axis.

    Attributes:
        start: Its first position there.
        bucket: Where its tokens are, -1: in the source.
        shift: Taken from a position on the axis, this gives the position in the bucket, or in the source.
    """

    start: int
    bucket: int
    shift: int


def _pieces(bucket: int, entries: NDArray[np.void], offsets: Offsets) -> Iterator[_Piece]:
    """The pieces of a bucket whose sequences, in shuffled order, lie at `offsets` on the axis."""
    start = shift = int(offsets[0])
    for k in np.flatnonzero(entries["length"] > LONG).tolist():
        at, end = int(offsets[k]), int(offsets[k + 1])
        if start < at:
            yield _Piece(start, bucket, shift)
        yield _Piece(at, -1, at - int(entries["start"][k]))
        start, shift = end, shift + end - at
    if start < int(offsets[-1]):
        yield _Piece(start, bucket, shift)


class _Buckets:
    """The buckets of all spills. Picklable; threads may share it; keeps the buckets that were wanted last.

    Attributes:
        count: How many there are.
    """

    def __init__(self, spills: Sequence[Spill], dtype: np.dtype[np.unsignedinteger], kept: int) -> None:
        self.spills, self.dtype, self.kept = list(spills), dtype, kept
        self.count = len(self.spills[0].entries) - 1
        self._files = [File(spill.path) for spill in self.spills]
        self._forget()

    def _forget(self) -> None:
        self._recent: OrderedDict[int, Tokens] = OrderedDict()
        self._lock = threading.Lock()

    def entries(self, bucket: int) -> NDArray[np.void]:
        """What lies in a bucket, in order of the source; `ENTRY`[sequences]."""
        parts = []
        for file, spill in zip(self._files, self.spills, strict=True):
            a, b = spill.entries[bucket : bucket + 2].tolist()
            parts.append(file.array(a * ENTRY.itemsize, b - a, ENTRY))
        return np.concatenate(parts)

    def ordered(self, bucket: int) -> NDArray[np.void]:
        """What lies in a bucket, in shuffled order."""
        entries = self.entries(bucket)
        return entries[_order(entries["key"])]

    def tokens(self, bucket: int) -> Tokens:
        """The sequences of a bucket in shuffled order, without the long ones; not to be written to."""
        with self._lock:
            if bucket in self._recent:
                self._recent.move_to_end(bucket)
                return self._recent[bucket]
        tokens = self._load(bucket)
        with self._lock:
            self._recent[bucket] = tokens
            while len(self._recent) > self.kept:
                self._recent.popitem(last=False)
        return tokens

    def _load(self, bucket: int) -> Tokens:
        entries, at = self.entries(bucket), 0
        lengths = np.where(entries["length"] > LONG, 0, entries["length"])
        spilled = np.empty(int(lengths.sum()), self.dtype)
        for file, spill in zip(self._files, self.spills, strict=True):
            a, b = spill.tokens[bucket : bucket + 2].tolist()
            part = spilled[at : at + b - a]
            if len(part):
                file.read_into(int(spill.entries[-1]) * ENTRY.itemsize + a * part.itemsize, part.view(np.uint8).data)
            at += b - a
        return reordered(Ragged(spilled, offsets_of(lengths)), _order(entries["key"])).tokens

    def close(self) -> None:
        for file in self._files:
            file.close()

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in vars(self).items() if key not in ("_recent", "_lock")}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._forget()


def _order(keys: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Numbers that sort keys, equal ones in order."""
    order = np.argsort(keys)  # twice as fast as a stable sort, and the same unless keys are equal
    found = keys[order]
    return np.argsort(keys, kind="stable") if (found[1:] == found[:-1]).any() else order
