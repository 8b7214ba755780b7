"""Best-fit packing: pieces by falling length go to the open sample with the least room that is enough.

Lengths are whole numbers up to `width`, so pieces of one length are placed together: an open sample with room r takes
floor(r / length) of them one after the other (after the first it has the least room of all), then the next open sample
with that room, by number, then those with more. Each room is emptied a few times in all, so a plan costs about `width`
steps of numpy over its pieces, not a search for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import windows
from tokfmt.core.ragged import offsets_of
from tokfmt.recipes.cache import Numbers

GROUP = 1 << 24
"""Pieces that are planned together, in bounded memory."""

_NONE = np.empty(0, np.int64)


def plan(lengths: Iterable[Numbers], width: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Samples of pieces, group by group; about 20 bytes are held for each piece of a group.

    Args:
        lengths: Of the pieces, in order.
        width: Places of a sample; no piece is longer.

    Yields:
        Nothing, after each array of lengths; for each group its pieces by number, in order of samples, and which of
        these are the first of a sample.
    """
    held, count, base = list[NDArray[np.int32]](), 0, 0
    for some in lengths:
        done = 0
        while done < len(some):
            held.append(some[done : done + GROUP - count].astype(np.int32))
            count, done = count + len(held[-1]), done + len(held[-1])
            if count == GROUP:
                yield from _planned(held, width, base)
                count, base = 0, base + count
        yield _NONE, _NONE
    if count:
        yield from _planned(held, width, base)


def _planned(held: list[NDArray[np.int32]], width: int, base: int) -> Iterator[tuple[Numbers, Numbers]]:
    """A group; empties the list, so that nothing is held twice."""
    lengths = np.concatenate(held)
    held.clear()
    sample = fitted(lengths, width)
    del lengths
    order, counts = _ordered(sample, int(sample.max()) + 1)
    yield _NONE, offsets_of(counts)[:-1] + base
    for a, b in windows(0, len(order)):
        yield order[a:b].astype(np.int64) + base, _NONE


def fitted(lengths: NDArray[np.int32], width: int) -> NDArray[np.int32]:
    """The sample of each piece, int32[n]; samples are numbered by their first piece."""
    count = len(lengths)
    order, counts = _ordered(width - lengths, width + 1)
    sample = np.empty(count, np.int32)
    rooms = _Rooms(width)
    at = 0
    for room in np.flatnonzero(counts).tolist():
        some = order[at : at + int(counts[room])]
        at += len(some)
        _place(some, width - room, rooms, sample)
    del order
    first = np.full(rooms.samples, count, np.int32)
    for a, b in windows(0, count):
        np.minimum.at(first, sample[a:b], np.arange(a, b, dtype=np.int32))
    rank = np.empty(rooms.samples, np.int32)
    rank[np.argsort(first)] = np.arange(rooms.samples, dtype=np.int32)
    return rank[sample]


def _ordered(values: NDArray[np.int32], kinds: int) -> tuple[NDArray[np.int32], Numbers]:
    """Numbers that sort values below `kinds`, equal ones in order; and how many there are of each, int64[kinds].

    A counting sort, window by window: numpy's would hold 8 bytes a value twice.
    """
    counts = np.zeros(kinds, np.int64)
    for a, b in windows(0, len(values)):
        counts += np.bincount(values[a:b], minlength=kinds)
    order, at = np.empty(len(values), np.int32), np.cumsum(counts) - counts
    for a, b in windows(0, len(values)):
        local = np.argsort(values[a:b], kind="stable")
        sorted_, here = values[a:b][local], np.bincount(values[a:b], minlength=kinds)
        order[(at - np.cumsum(here) + here)[sorted_] + np.arange(b - a)] = local + a
        at += here
    return order, counts


class _Rooms:
    """Open samples by the room that they have.

    Attributes:
        samples: How many were opened.
    """

    def __init__(self, width: int) -> None:
        self.width, self.samples = width, 0
        self._by_room: list[list[NDArray[np.int32]]] = [[] for _ in range(width + 1)]
        self._set = np.zeros(width + 2, np.bool_)

    def least(self, length: int) -> int:
        """The least room that is enough for a length; 0 when no open sample has that."""
        found = int(np.argmax(self._set[length:]))
        return length + found if self._set[length + found] else 0

    def take(self, room: int, most: int) -> NDArray[np.int32]:
        """Up to so many open samples of a room, the first by number."""
        parts = self._by_room[room]
        ids = parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))
        taken, rest = ids[:most], ids[most:]
        self._by_room[room] = [rest] if len(rest) else []
        self._set[room] = bool(len(rest))
        return taken

    def open(self, count: int) -> NDArray[np.int32]:
        """New samples."""
        ids = np.arange(self.samples, self.samples + count, dtype=np.int32)
        self.samples += count
        return ids

    def put(self, ids: NDArray[np.int32], room: int) -> None:
        """Samples that have so much room now."""
        if len(ids) and room:
            self._by_room[room].append(ids)
            self._set[room] = True


def _place(pieces: NDArray[np.int32], length: int, rooms: _Rooms, sample: NDArray[np.int32]) -> None:
    """Place pieces of one length, in order."""
    done = 0
    while done < len(pieces):
        room = rooms.least(length)
        each = (room or rooms.width) // length
        wanted = -(-(len(pieces) - done) // each)
        ids = rooms.take(room, wanted) if room else rooms.open(wanted)
        room = room or rooms.width
        whole = min(len(ids), (len(pieces) - done) // each)
        sample[pieces[done : done + whole * each]] = np.repeat(ids[:whole], each)
        rooms.put(ids[:whole], room - each * length)
        done += whole * each
        if whole < len(ids):  # the last takes what is left
            rest = len(pieces) - done
            sample[pieces[done:]] = ids[whole]
            rooms.put(ids[whole:], room - rest * length)
            done = len(pieces)
