"""The filters a chunk may have gone through, undone (fletcher32, deflate, shuffle), and samples made zlib streams.

They come from the file in the order in which the writer applied them; undoing goes backwards. A bit k of a chunk's
filter mask says that filter k was skipped for that chunk (deflate is, when it could not shrink it).

Samples are packed fast and always the same. Two thirds of a full sample are known once its input_ids are: the mask is 1
throughout, and the labels are the inputs again, one token on. So only the inputs are searched for matches; the rest is
a constant, spelled out once a width:

    bytes     content
    2         zlib header
    any       deflate blocks of the 4 * width bytes of input_ids, flushed to a byte border
    constant  one block with fixed codes: 1 0 0 0, copied on (distance 4) to the end of the mask; then all labels but
              the last, copied from 8 * width - 4 bytes back; the header of a stored block of 4 bytes
    4         the last label
    4         Adler-32 of the sample, big-endian

Deflate reaches back 32,768 bytes, so this works up to 4,096 tokens. Longer samples, padded ones and shuffled ones are
compressed as they are. Of ISA-L's levels only 0 and 3 give the same bytes whatever memory held before; 1 and 2 do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import deflate
import numpy as np
from isal import isal_zlib
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


REACH = 4096
"""Most tokens in a sample whose labels deflate can copy from its inputs."""
_LEVEL = 3
_HEADER = b"\x78\x01"
_LONGEST = 258


class Packer:
    """Packs samples of one width.

    Args:
        width: Tokens in a sample.
        shuffle: Whether its bytes are shuffled (all first bytes of the values, then all second ones, ...).
    """

    def __init__(self, width: int, *, shuffle: bool) -> None:
        self.shuffle = shuffle
        self._rest = b"" if shuffle or width > REACH else _mask_and_labels(width)

    def pack(self, sample: NDArray[np.int32], *, full: bool) -> tuple[bytes, bool]:
        """One chunk as it is stored.

        Args:
            sample: <i4[3, width], contiguous.
            full: Its mask is 1 throughout and its labels are the next tokens.

        Returns:
            The bytes, and whether they are raw because compressing would not make them fewer.
        """
        plain = sample.reshape(-1).view(np.uint8)
        if self.shuffle:
            plain = np.ascontiguousarray(plain.reshape(-1, 4).T).reshape(-1)
        packed = self._stitched(sample, plain) if full and self._rest else isal_zlib.compress(plain, level=_LEVEL)
        return (packed, False) if len(packed) < plain.nbytes else (plain.tobytes(), True)

    def _stitched(self, sample: NDArray[np.int32], plain: NDArray[np.uint8]) -> bytes:
        inputs = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, -isal_zlib.MAX_WBITS)
        blocks = inputs.compress(sample[0]), inputs.flush(isal_zlib.Z_SYNC_FLUSH)
        check: int = deflate.adler32(plain, 1)
        return b"".join((_HEADER, *blocks, self._rest, plain[-4:].tobytes(), check.to_bytes(4, "big")))


class _Bits:
    """Bits in deflate's order: filled from the least significant bit of each byte on."""

    def __init__(self) -> None:
        self._value, self._count = 0, 0

    def put(self, value: int, count: int) -> None:
        """A number, its lowest bit first."""
        self._value |= value << self._count
        self._count += count

    def put_code(self, code: int, count: int) -> None:
        """A Huffman code, its highest bit first."""
        self.put(int(f"{code:0{count}b}"[::-1], 2), count)

    def bytes(self) -> bytes:
        """All bits, the last byte filled up with zeros."""
        return self._value.to_bytes(-(-self._count // 8), "little")


def _mask_and_labels(width: int) -> bytes:
    """The constant part, from after the inputs to before the last label."""
    bits = _Bits()
    bits.put(0, 1)  # not the last block
    bits.put(1, 2)  # with fixed codes
    for value in (1, 0, 0, 0):
        bits.put_code(0x30 + value, 8)
    _copy(bits, 4 * width - 4, 4)
    _copy(bits, 4 * width - 4, 8 * width - 4)
    bits.put_code(0, 7)  # end of block
    bits.put(1, 1)  # the last block
    bits.put(0, 2)  # stored: goes on at a byte border
    return bits.bytes() + (4).to_bytes(2, "little") + (0xFFFF - 4).to_bytes(2, "little")


def _copy(bits: _Bits, total: int, distance: int) -> None:
    """Copy `total` bytes (none, or 4 and more) from `distance` bytes back."""
    while total:
        length = min(total, _LONGEST)
        if 0 < total - length < 3:  # a match is at least 3 bytes long
            length -= 3
        _put_length(bits, length)
        _put_distance(bits, distance)
        total -= length


def _put_length(bits: _Bits, length: int) -> None:
    """Codes 257..264 are lengths 3..10; each four after that share one more extra bit; 285 is 258."""
    if length == _LONGEST:
        code, extra, width = 285, 0, 0
    elif length <= 10:
        code, extra, width = 254 + length, 0, 0
    else:
        width = (length - 3).bit_length() - 3
        code, extra = 261 + 4 * width + ((length - 3 >> width) - 4), (length - 3) & (1 << width) - 1
    if code < 280:
        bits.put_code(code - 256, 7)
    else:
        bits.put_code(0xC0 + code - 280, 8)
    bits.put(extra, width)


def _put_distance(bits: _Bits, distance: int) -> None:
    """Codes 0..3 are distances 1..4; each two after that share one more extra bit."""
    if distance <= 4:
        bits.put_code(distance - 1, 5)
        return
    width = (distance - 1).bit_length() - 2
    bits.put_code(2 * width + 2 + ((distance - 1 >> width) - 2), 5)
    bits.put((distance - 1) & (1 << width) - 1, width)
