"""The filters a chunk may have gone through, undone: fletcher32, deflate, shuffle.

They come from the file in the order in which the writer applied them; undoing goes backwards. A bit k of a chunk's
filter mask says that filter k was skipped for that chunk (deflate is, when it could not shrink it).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import deflate
import numpy as np
from numpy.typing import NDArray

DEFLATE, SHUFFLE, FLETCHER32 = 1, 2, 3
CHECKSUM_BYTES = 4
_WORDS = 1 << 20

Bytes: TypeAlias = NDArray[np.uint8]


class DamagedChunkError(Exception):
    """A chunk does not decode; the caller knows which one it is and where it lies."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """How the chunks of one dataset are stored.

    Attributes:
        filters: Filter numbers in the order of writing.
        nominal: Bytes of a decoded chunk.
        itemsize: Bytes of a value, which the shuffle filter works with.
    """

    filters: tuple[int, ...]
    nominal: int
    itemsize: int

    def most_stored(self) -> int:
        """The most bytes that a chunk can take in the file: deflate may add 0.2 %."""
        if DEFLATE in self.filters:
            return self.nominal + self.nominal // 500 + 64 + CHECKSUM_BYTES
        return self.nominal + CHECKSUM_BYTES * (FLETCHER32 in self.filters)

    def decode(self, stored: Bytes, skipped: int) -> Bytes:
        """Undo the filters of one chunk.

        Args:
            stored: The chunk's bytes in the file.
            skipped: Its filter mask.

        Returns:
            uint8[nominal].

        Raises:
            DamagedChunkError: It decodes to another size, or its checksum is wrong.
        """
        data = stored
        for number in range(len(self.filters) - 1, -1, -1):
            if skipped >> number & 1:
                continue
            if self.filters[number] == DEFLATE:
                data = _inflated(data, self._before(number, skipped))
            elif self.filters[number] == SHUFFLE:
                if len(data) % self.itemsize:  # nominal is a multiple of it
                    raise DamagedChunkError(f"it decodes to {len(data):,} bytes instead of {self.nominal:,}")
                data = data.reshape(self.itemsize, -1).T.reshape(-1)
            else:
                data = _checked(data)
        if len(data) != self.nominal:
            raise DamagedChunkError(f"it decodes to {len(data):,} bytes instead of {self.nominal:,}")
        return data

    def _before(self, number: int, skipped: int) -> int:
        """Bytes of a chunk before filter `number` was applied."""
        earlier = [f for k, f in enumerate(self.filters[:number]) if not skipped >> k & 1]
        return self.nominal + CHECKSUM_BYTES * earlier.count(FLETCHER32)


def _inflated(data: Bytes, size: int) -> Bytes:
    try:
        found = np.frombuffer(deflate.zlib_decompress(data, size), np.uint8)
    except deflate.DeflateError as error:  # it overruns `size` just as well as being no zlib stream
        raise DamagedChunkError(f"it does not inflate to {size:,} bytes") from error
    if len(found) != size:
        raise DamagedChunkError(f"it inflates to {len(found):,} bytes instead of {size:,}")
    return found


def _checked(data: Bytes) -> Bytes:
    body, stored = data[:-CHECKSUM_BYTES], data[-CHECKSUM_BYTES:]
    if len(stored) != CHECKSUM_BYTES:
        raise DamagedChunkError("it is too short for its checksum")
    found = fletcher32(body)
    claimed = int.from_bytes(stored.tobytes(), "little")
    halves = (claimed >> 16) % 65535, (claimed & 0xFFFF) % 65535  # 0 and 65535 are the same sum
    if halves != found:
        raise DamagedChunkError("its Fletcher checksum is wrong")
    return body


def fletcher32(data: Bytes) -> tuple[int, int]:
    """The two sums of HDF5's Fletcher checksum, modulo 65535, over big-endian 16-bit words: (second, first)."""
    padded = np.append(data, np.uint8(0)) if len(data) % 2 else data
    words = padded.view(">u2")
    total, first, second = len(words), 0, 0
    for a in range(0, total, _WORDS):
        part = words[a : a + _WORDS].astype(np.uint64)
        weights = np.arange(total - a, total - a - len(part), -1, dtype=np.int64).astype(np.uint64) % 65535
        first += int(part.sum())
        second += int((part * weights).sum())
    return second % 65535, first % 65535
