"""Put `max_token_id` and start bits right in a copy of a store."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tokfmt.core.axis import WINDOW, windows
from tokfmt.core.dtypes import INT32_MAX, largest_id
from tokfmt.core.errors import CorruptError, UnsupportedError
from tokfmt.core.ragged import Offsets
from tokfmt.formats.flat_tokens.array import Array
from tokfmt.formats.flat_tokens.codecs import encode
from tokfmt.formats.flat_tokens.group import STARTS, TOKENS, Group, attributes_path, groups_of, max_token_id
from tokfmt.formats.flat_tokens.options import Codec
from tokfmt.formats.flat_tokens.reader import check_memory, starts_errors
from tokfmt.formats.flat_tokens.store import Directory, Store, json_of, open_store

_CODECS: dict[tuple[str, ...], Codec] = {("blosc",): "blosc", ("zstd",): "zstd", ("gzip",): "gzip", (): "none"}


def patch(copy: Path, split: str | None) -> None:
    """Make each split (or the one named) say what its arrays hold.

    Raises:
        FormatError: It is not certain what would be right: `seq_starts` is damaged, ids are not encoded, or more is
            wrong than bits and the bound.
    """
    store = open_store(copy)
    if not isinstance(store, Directory):
        raise UnsupportedError(copy, "a zip is not repaired in place", remedy="Unpack it first")
    for group in groups_of(store):
        if split in (None, group.split):
            _patch(store, group)


def _patch(store: Store, group: Group) -> None:
    tokens = Array(store, group.key(TOKENS), 4, group.zarr_format)
    starts = Array(store, group.key(STARTS), 8, group.zarr_format)
    offsets = _checked(starts, tokens)
    top, wrong = -1, 0
    for start, stop in windows(0, tokens.layout.length):
        items = _marked(tokens, offsets, start, stop)
        wrong += int(np.count_nonzero(items & 1))
        top = max(top, largest_id(items >> 1))
    told = _told(store, group)
    if wrong:
        if told != top or wrong > len(offsets):  # only a right maximum proves that ids are encoded at all
            raise CorruptError(
                tokens.path, f"{wrong:,} start bits are wrong, and perhaps ids: they may not be encoded",
                expected=f"the largest id {'nothing' if told is None else f'{told:,}'} (max_token_id)", found=top,
                remedy="Write the store again from its source",
            )  # fmt: skip
        _set_bits(tokens, offsets)
    if told is None or top < told:
        _set_bound(store, group, max(top, 0))


def _checked(starts: Array, tokens: Array) -> Offsets:
    check_memory(starts)
    offsets = np.empty(starts.layout.length, np.int64)
    for error in starts_errors(starts, tokens.layout.length, offsets):
        raise error
    return offsets


def _marked(tokens: Array, offsets: Offsets, start: int, stop: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Stored items whose lowest bit is 1 where the start bit is wrong."""
    items = tokens.read(start, stop).astype(np.uint32, copy=False)
    first, last = np.searchsorted(offsets, (start, stop))
    items[np.unique(offsets[first:last]) - start] ^= 1
    return items


def _told(store: Store, group: Group) -> int | None:
    """The bound as stated; None when there is none.

    Raises:
        CorruptError: It is too large, so the ids it was made from have wrapped.
    """
    try:
        return max_token_id(store, group)
    except CorruptError:
        found = _attributes(store, group).get("max_token_id")
        if type(found) is int and found > INT32_MAX:
            raise
        return None


def _attributes(store: Store, group: Group) -> dict[str, object]:
    raw: object = json_of(store, group.key(attributes_path(store, group).name))
    if group.zarr_format == 3 and isinstance(raw, dict):
        raw = raw.get("attributes")
    return dict(raw) if isinstance(raw, dict) else {}


def _set_bound(store: Store, group: Group, top: int) -> None:
    path = attributes_path(store, group)
    content: dict[str, object] = {**_attributes(store, group), "max_token_id": top}
    if group.zarr_format == 3:
        whole: object = json_of(store, group.key(path.name))
        content = {**(whole if isinstance(whole, dict) else {}), "attributes": content}
    path.write_bytes(json.dumps(content, indent=4, sort_keys=True).encode())


def _set_bits(tokens: Array, offsets: Offsets) -> None:
    """Encode every chunk with a wrong bit again."""
    layout = tokens.layout
    codec = _CODECS.get(layout.codecs)
    if codec is None or layout.shard is not None or layout.delta:
        how = "in shards" if layout.shard is not None else f"with {' '.join(layout.codecs) or 'a delta filter'}"
        raise UnsupportedError(tokens.path, f"is stored {how}, which is not repaired in place",
                               remedy="--from-opt bound=ignore reads it, if seq_starts can be trusted")  # fmt: skip
    for number in range(layout.chunks):
        start, stop = number * layout.chunk, min((number + 1) * layout.chunk, layout.length)
        wrong = any((_marked(tokens, offsets, a, b) & 1).any() for a, b in windows(start, stop, WINDOW))
        blob = tokens.blob(number)
        if not wrong:
            continue
        if blob is None:
            raise CorruptError(tokens.path, f"chunk {number:,} is absent, and its start bits are wrong",
                               remedy="Write the store again from its source")  # fmt: skip
        items = tokens.decoded(blob).astype(np.uint32)
        part = items[: stop - start]
        part &= ~np.uint32(1)
        first, last = np.searchsorted(offsets, (start, stop))
        part[np.unique(offsets[first:last]) - start] |= 1
        blob.path.write_bytes(encode(items.astype(">u4" if layout.big_endian else "<u4"), codec))
