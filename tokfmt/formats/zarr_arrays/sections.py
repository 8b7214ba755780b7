"""List the parts of an array in a zarr store: its metadata key by key, its chunks, the header of the first chunk."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Sequence

from tokfmt.core.annotation import broken, shown
from tokfmt.errors import FormatError
from tokfmt.files.fields import Field
from tokfmt.files.place import Place, place_of
from tokfmt.formats.zarr_arrays.array import Array, Layout
from tokfmt.formats.zarr_arrays.codecs import HEADER, blosc_errors, blosc_frame, blosc_header
from tokfmt.formats.zarr_arrays.store import Blob, Store, json_of
from tokfmt.wording import counted

_MEANINGS = {
    "zarr_format": "version of zarr",
    "shape": "items in the array",
    "chunks": "items in a chunk",
    "chunk_grid": "items in a chunk, or in a shard",
    "dtype": "type of an item",
    "data_type": "type of an item",
    "compressor": "how chunks are compressed",
    "codecs": "steps of encoding a chunk, in the order of writing",
    "filters": "steps before compression",
    "fill_value": "value of the items of an absent chunk; with null its content is undefined",
}
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[\s,]*")
_COLON = re.compile(r"\s*:\s*")


def key_fields(store: Store, key: str, explained: Callable[[str, object], tuple[str, bool]]) -> list[Field]:
    """Return the keys of a JSON file as fields, with byte offset and length of each.

    Args:
        store: The store.
        key: Key of the file.
        explained: Returns what a name and its value mean, and whether that is a defect; "" to say what zarr states.
    """
    json_of(store, key)  # raises unless the file is a JSON object of at most 1 MiB
    blob = store.blob(key)
    raw = blob.read(0, blob.size).decode() if blob else "{}"
    origin = store.origin(key)
    fields, at = list[Field](), raw.index("{") + 1
    while raw[(at := _end(_SPACE, raw, at))] != "}":
        name, after = _DECODER.raw_decode(raw, at)
        value, stop = _DECODER.raw_decode(raw, _end(_COLON, raw, after))
        begin = origin.start + len(raw[:at].encode()) if origin.exact else None
        length = len(raw[at:stop].encode()) if origin.exact else 0
        text = json.dumps(value, ensure_ascii=False)
        meaning, is_odd = explained(name, value)
        meaning = meaning or _MEANINGS.get(name, "")
        fields.append(Field(shown(name), begin, length, shown(text), meaning, is_odd, origin.path))
        at = stop
    return fields


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


class Chunks:
    """The chunks of an array as fields."""

    def __init__(self, array: Array) -> None:
        self.array, self.count = array, array.layout.chunks

    def fields(self, first: int, last: int) -> list[Field]:
        return [self._chunk(number) for number in range(first, min(last, self.count))]

    def _chunk(self, number: int) -> Field:
        layout, name = self.array.layout, f"chunk {number:,}"
        items = _items(layout, number)
        try:
            blob = self.array.blob(number)
            if blob is None:
                return Field(name, None, 0, "absent", f"{items}, all {layout.fill or 0}")
            origin = self.array.origin(number)
            at, length = (origin.start + blob.start, blob.size) if origin.exact else (origin.start, 0)
            description, wrong = _summary(self.array, blob)
        except FormatError as error:
            return Field(name, error.offset, 0, broken(error).value, error.remedy or "", True, place_of(error.place))
        value = f"{blob.size:,} bytes of {layout.chunk * layout.itemsize:,}"
        return Field(name, at, length, value, description if wrong else f"{items}, {description}", wrong, origin.path)


def _items(layout: Layout, number: int) -> str:
    """Return the items of a chunk in words: from one to another, or of some rows and columns."""
    first = layout.item_of(number, 0) or 0
    begins = (first,) if len(layout.shape) == 1 else divmod(first, layout.shape[1])
    sides = zip(
        ("items",) if len(begins) == 1 else ("rows", "columns"), begins, layout.chunk_shape, layout.shape, strict=True
    )
    return ", ".join(f"{name} {begin:,} to {min(end, begin + size) - 1:,}" for name, begin, size, end in sides)


def first_header(array: Array) -> Sequence[Field]:
    """Return the fields of the header of the first chunk; none unless it is compressed with blosc."""
    blob = array.blob(0) if array.layout.chunks else None
    if blob is None or array.layout.codecs[-1:] != ("blosc",):
        return ()
    origin = array.origin(0)
    return _frame_fields(array, blob, origin.start + blob.start if origin.exact else None, origin.path)


_CODECS = ("blosclz", "lz4", "snappy", "zlib", "zstd")
_DECODED = 1 << 20  # maximum bytes of a chunk that is decoded to see whether it can be
_BLOCKS = 8  # blocks whose byte offsets are shown


def _summary(array: Array, blob: Blob) -> tuple[str, bool]:
    """Return a description of how a chunk is stored, or of its defect, and True if it has one."""
    layout = array.layout
    nbytes = layout.chunk * layout.itemsize
    try:
        if layout.codecs[-1:] == ("blosc",):
            head = blosc_frame(blob, nbytes, layout.itemsize)
            description = f"blosc {_flags(head.flags)}, {counted(head.blocks, 'block')}"
        else:
            description = " ".join(reversed(layout.codecs)) or "not compressed"
        if nbytes <= _DECODED:
            array.decoded(blob)
    except FormatError as error:
        return broken(error).value, True
    return description, False


def _flags(flags: int) -> str:
    codec = flags >> 5
    name = _CODECS[codec] if codec < len(_CODECS) else f"codec {codec}"
    words = [word for bit, word in ((1, "byte shuffle"), (4, "bit shuffle"), (2, "stored as is")) if flags & bit]
    return ", ".join((name, *words))


def _frame_fields(array: Array, blob: Blob, at: int | None, path: Place) -> list[Field]:
    """Return the fields of the header of a blosc chunk.

    Args:
        array: Array that holds the chunk.
        blob: The chunk.
        at: Byte offset of the chunk in its file; None if a zip stores it compressed.
        path: File that holds the chunk.
    """
    layout, head = array.layout, blosc_header(blob)
    wrong: dict[int, str] = {}
    for field, error in blosc_errors(head, blob, layout.chunk * layout.itemsize, layout.itemsize):
        wrong.setdefault(field, error.statement)
    rows = [
        (0, 1, "format version", str(head.version), ""),
        (1, 1, "codec's version", str(head.codec), ""),
        (2, 1, "flags", str(head.flags), _flags(head.flags)),
        (3, 1, "item size", str(head.itemsize), "bytes"),
        (4, 4, "decoded size", f"{head.nbytes:,}", "bytes"),
        (8, 4, "block size", f"{head.blocksize:,}", f"bytes decoded; {head.blocks:,} blocks"),
        (12, 4, "compressed size", f"{head.cbytes:,}", "bytes"),
    ]
    if not head.flags & 2:
        count = min(head.blocks, (len(head.raw) - HEADER) // 4, _BLOCKS)
        starts = " ".join(str(n) for n in struct.unpack(f"<{count}I", head.raw[HEADER : HEADER + 4 * count]))
        more = " …" if head.blocks > count else ""
        rows.append((HEADER, 4 * count, "block starts", starts + more, "bytes from the start of the chunk"))
    return [
        Field(
            name,
            None if at is None else at + offset,
            0 if at is None else length,
            value,
            wrong.get(offset, meaning),
            offset in wrong,
            path,
        )
        for offset, length, name, value, meaning in rows
    ]
