"""What a compressed chunk says of itself, for people; see the table of bytes in `blosc`."""

from __future__ import annotations

import struct
from pathlib import Path

from tokfmt.core.errors import FormatError
from tokfmt.core.inside import Field
from tokfmt.core.sections import broken
from tokfmt.formats.flat_tokens.array import Array
from tokfmt.formats.flat_tokens.blosc import HEADER, frame
from tokfmt.formats.flat_tokens.store import Blob

_CODECS = ("blosclz", "lz4", "snappy", "zlib", "zstd")
_DECODED = 1 << 20  # bytes of a chunk up to which it is decoded when it is looked at, to see whether it can be
_BLOCKS = 8


def summary(array: Array, blob: Blob) -> tuple[str, bool]:
    """How a chunk is stored, or what is wrong with it, and whether anything is."""
    layout = array.layout
    nbytes = layout.chunk * layout.itemsize
    try:
        if layout.codecs[-1:] == ("blosc",):
            head = frame(blob, nbytes, layout.itemsize)
            told = f"blosc {_flags(head.flags)}, {head.blocks:,} block{'' if head.blocks == 1 else 's'}"
        else:
            told = " ".join(reversed(layout.codecs)) or "not compressed"
        if nbytes <= _DECODED:
            array.decoded(blob)
    except FormatError as error:
        return broken(error).value, True
    return told, False


def _flags(flags: int) -> str:
    codec = flags >> 5
    name = _CODECS[codec] if codec < len(_CODECS) else f"codec {codec}"
    said = [word for bit, word in ((1, "byte shuffle"), (4, "bit shuffle"), (2, "stored as is")) if flags & bit]
    return ", ".join((name, *said))


def frame_fields(array: Array, blob: Blob, at: int | None, path: Path) -> list[Field]:
    """The header of a chunk that blosc compressed, field by field.

    Args:
        array: Whose chunk it is.
        blob: The chunk.
        at: Where it begins in a file, None when it is compressed there once more.
        path: That file.
    """
    layout = array.layout
    raw = blob.read(0, min(blob.size, HEADER + 4 * _BLOCKS))
    if len(raw) < HEADER:
        return [Field("header", at, len(raw), raw.hex(" "), "should be 16 bytes", wrong=True, path=path)]
    version, codec, flags, itemsize, nbytes, block, cbytes = struct.unpack("<4B3I", raw[:HEADER])
    whole = layout.chunk * layout.itemsize
    blocks = -(-nbytes // block) if block else 0
    rows = [
        (0, 1, "format version", version, "" if version == 2 else "should be 2", version != 2),
        (1, 1, "codec's version", codec, "", False),
        (2, 1, "flags", flags, _flags(flags), False),
        (3, 1, "item size", itemsize, "bytes", itemsize not in (1, layout.itemsize)),
        (4, 4, "decoded size", f"{nbytes:,}", _should(nbytes, whole), nbytes != whole),
        (8, 4, "block size", f"{block:,}", f"bytes decoded; {blocks:,} blocks", not 0 < block <= nbytes),
        (12, 4, "compressed size", f"{cbytes:,}", _should(cbytes, blob.size), cbytes != blob.size),
    ]  # fmt: skip
    if not flags & 2:
        shown = min(blocks, (len(raw) - HEADER) // 4, _BLOCKS)
        starts = " ".join(str(n) for n in struct.unpack(f"<{shown}I", raw[HEADER : HEADER + 4 * shown]))
        more = " …" if blocks > shown else ""
        rows.append((HEADER, 4 * shown, "block starts", starts + more, "bytes from the start of the chunk", False))
    return [
        Field(name, None if at is None else at + offset, 0 if at is None else length, str(value), meaning, wrong, path)
        for offset, length, name, value, meaning, wrong in rows
    ]


def _should(found: int, expected: int) -> str:
    return "bytes" if found == expected else f"bytes; should be {expected:,}"
