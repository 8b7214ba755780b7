"""How readers and writers travel to worker processes.

Pickle carries plans between our own processes, never anything from a file. Large arrays (offsets of millions of
sequences) go out of band: each is written once to scratch, and the workers map it, sharing one copy in the page cache.
"""

from __future__ import annotations

import mmap
import pickle
import threading
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_INLINE = 1 << 16
_KEPT = 2
_received: OrderedDict[str, Any] = OrderedDict()
_receiving = threading.Lock()


@dataclass(frozen=True, slots=True)
class Parcel:
    """An object on its way: its pickle, and its large buffers, inline or as files in scratch."""

    key: str
    pickled: bytes
    buffers: tuple[bytes | Path, ...]

    @staticmethod
    def pack(thing: object, scratch: Path) -> Parcel:
        """Pickle `thing` once, for any number of tasks."""
        key, out_of_band = uuid.uuid4().hex, list[pickle.PickleBuffer]()
        pickled = pickle.dumps(thing, protocol=5, buffer_callback=out_of_band.append)
        buffers: list[bytes | Path] = []
        for number, buffer in enumerate(out_of_band):
            raw = buffer.raw()
            if raw.nbytes <= _INLINE:
                buffers.append(bytes(raw))
                continue
            path = scratch / f"{key}-{number}.array"
            with open(path, "wb") as file:
                file.write(raw)
            buffers.append(path)
        return Parcel(key, pickled, tuple(buffers))


def receive(parcel: Parcel) -> Any:
    """The object, unpacked once a process and kept for the next tasks."""
    with _receiving:  # workers of a cluster have threads
        if parcel.key not in _received:
            _received[parcel.key] = pickle.loads(parcel.pickled, buffers=[_mapped(b) for b in parcel.buffers])
            while len(_received) > _KEPT:
                _received.popitem(last=False)
        return _received[parcel.key]


def _mapped(buffer: bytes | Path) -> bytes | mmap.mmap:
    if isinstance(buffer, bytes):
        return buffer
    with open(buffer, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
