"""Compress samples for the writer: only input IDs are searched for matches, as they determine the rest of a sample.

Measured: libdeflate at its fastest level (1) compresses whole samples of 2,048 tokens at 357 MB per CPU second, ISA-L
(level 3) at 322, the method of this module at 493, and h5py's gzip 4 at 99. The goal of `make bench` is 4.5 times h5py.
"""

from __future__ import annotations

import deflate
import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

REACH = 4096
"""Maximum tokens of a sample whose labels deflate can copy from its inputs."""
_LEVEL = 3
_HEADER = b"\x78\x01"
_LONGEST = 258  # bytes of the longest match of deflate


class Packer:
    """Compress samples of one width into zlib streams, fast and with reproducible bytes.

    The input_ids determine the rest of a full sample: the mask is all 1, and the labels are the inputs shifted by one.
    So only the inputs are searched for matches. The rest is a constant that is made once per width:

        bytes     content
        2         zlib header
        any       deflate blocks of the 4 * width bytes of input_ids, flushed to a byte border
        constant  one block with fixed codes: 1 0 0 0, repeated (distance 4) to the end of the mask; then all labels
                  but the last, copied from 8 * width - 4 bytes back; the header of a stored block of 4 bytes
        4         the last label
        4         Adler-32 of the sample, big-endian

    Deflate reaches back 32,768 bytes, so this works up to 4,096 tokens. Longer, padded and byte-shuffled samples are
    compressed completely. Only the levels 0 and 3 of ISA-L return the same bytes for every previous content of memory;
    the levels 1 and 2 do not.

    Args:
        width: Tokens per sample.
        shuffle: Shuffle the bytes first: all first bytes of the values, then all second ones, and so on.
    """

    def __init__(self, width: int, *, shuffle: bool) -> None:
        self.shuffle = shuffle
        self._rest = b"" if shuffle or width > REACH else _mask_and_labels(width)

    def pack(self, sample: NDArray[np.int32], *, full: bool) -> tuple[bytes, bool]:
        """Compress one sample to a chunk.

        Args:
            sample: <i4[3, width], contiguous.
            full: True if the mask is all 1 and the labels are the next tokens.

        Returns:
            The bytes, and True if they are raw because compression would not make them fewer.
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


def _mask_and_labels(width: int) -> bytes:
    """Return the constant bytes between the inputs and the last label."""
    bits = "0" + "10"  # not the last block; with fixed codes
    bits += "".join(f"{0x30 + value:08b}" for value in (1, 0, 0, 0))
    bits += _copied(4 * width - 4, 4) + _copied(4 * width - 4, 8 * width - 4)
    bits += "0000000" + "1" + "00"  # end of block; the last block; stored: its data start at a byte border
    sizes = (4).to_bytes(2, "little") + (0xFFFF - 4).to_bytes(2, "little")
    return int(bits[::-1], 2).to_bytes(-(-len(bits) // 8), "little") + sizes


def _copied(total: int, distance: int) -> str:
    """Return matches that copy `total` bytes (0, or 4 and more) from `distance` bytes back."""
    code, extra = _code_of(distance - 1, 2)
    back, matches = f"{code:05b}{extra}", ""
    while total:
        length = min(total, _LONGEST)
        if 0 < total - length < 3:  # a match is at least 3 bytes long
            length -= 3
        code, extra = (28, "") if length == _LONGEST else _code_of(length - 3, 4)
        matches += (f"{code + 1:07b}" if code < 23 else f"{0xC0 + code - 23:08b}") + extra + back
        total -= length
    return matches


def _code_of(value: int, per: int) -> tuple[int, str]:
    """Return a code of deflate and its extra bits, of which every `per` codes have one more.

    Args:
        value: A length minus 3, or a distance minus 1.
        per: Number of codes with the same number of extra bits: 4 of lengths, 2 of distances.
    """
    width = max(0, value.bit_length() - per.bit_length())
    extra = f"{value & (1 << width) - 1:0{width}b}"[::-1] if width else ""
    return per * width + (value >> width), extra
