"""How readers and writers travel to worker processes.

Pickle carries plans between our own processes, never anything from a file of a user's. What is large (offsets of
millions of sequences, thousands of readers) is written once to a file in scratch, which the workers map, sharing one
copy in the page cache; a task carries its name.
"""

from __future__ import annotations

import mmap
import pickle
import threading
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_INLINE = 1 << 16
_ALIGNED = 64
_KEPT = 2
_received: OrderedDict[str, Any] = OrderedDict()
_receiving = threading.Lock()


@dataclass(frozen=True, slots=True)
class Parcel:
    """An object on its way: its pickle and then its large buffers, inline or as a file in scratch."""

    key: str
    parts: tuple[bytes, ...] | Path

    @staticmethod
    def pack(thing: object, scratch: Path) -> Parcel:
        """Pickle `thing` once, for any number of tasks."""
        key, out_of_band = uuid.uuid4().hex, list[pickle.PickleBuffer]()
        pickled = pickle.dumps(thing, protocol=5, buffer_callback=out_of_band.append)
        parts = [memoryview(pickled), *(buffer.raw() for buffer in out_of_band)]
        if sum(part.nbytes for part in parts) <= _INLINE:
            return Parcel(key, tuple(bytes(part) for part in parts))
        path = scratch / f"{key}.parcel"
        _store(parts, path)
        return Parcel(key, path)


def receive(parcel: Parcel) -> Any:
    """The object, unpacked once a process and kept for the next tasks."""
    with _receiving:  # workers of a cluster have threads
        if parcel.key not in _received:
            pickled, *buffers = parcel.parts if isinstance(parcel.parts, tuple) else _mapped(parcel.parts)
            _received[parcel.key] = pickle.loads(pickled, buffers=buffers)
            while len(_received) > _KEPT:
                _received.popitem(last=False)
        return _received[parcel.key]


def _store(parts: Sequence[memoryview], path: Path) -> None:
    """One file: how many parts, where each begins and how long it is (u64 each), and the parts."""
    lengths = np.array([part.nbytes for part in parts], np.uint64)
    taken = np.concatenate(([8 + 16 * len(parts)], lengths)) + (_ALIGNED - 1)
    begins = np.cumsum(taken.astype(np.int64) // _ALIGNED * _ALIGNED)[:-1]
    with open(path, "wb") as file:
        file.write(np.array([len(parts), *np.column_stack((begins, lengths)).ravel()], np.uint64).tobytes())
        for begin, part in zip(begins.tolist(), parts, strict=True):
            file.seek(begin)
            file.write(part)


def _mapped(path: Path) -> list[memoryview]:
    with open(path, "rb") as file:
        held = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    count = int.from_bytes(held[:8], "little")
    spans = np.frombuffer(held, np.uint64, 2 * count, 8).reshape(-1, 2).tolist()
    return [held[begin : begin + length] for begin, length in spans]
