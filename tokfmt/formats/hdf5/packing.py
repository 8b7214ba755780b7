"""Samples to zlib streams, fast and always the same.

Two thirds of a full sample are known once its input_ids are: the mask is 1 throughout, and the labels are the inputs
again, one token on. So only the inputs are searched for matches; the rest is a constant, spelled out once a width:

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

import deflate
import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

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
        blocks = inputs.compress(sample[0]) + inputs.flush(isal_zlib.Z_SYNC_FLUSH)
        check: int = deflate.adler32(plain, 1)
        return b"".join((_HEADER, blocks, self._rest, plain[-4:].tobytes(), check.to_bytes(4, "big")))


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
