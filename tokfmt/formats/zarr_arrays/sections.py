"""List the metadata of an array in a zarr store, key by key."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from tokfmt.core.annotation import shown
from tokfmt.files.fields import Field
from tokfmt.formats.zarr_arrays.store import Store, json_of

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
    """Return the keys of a JSON file as fields, with byte offset and length of each. `explained` returns what a name
    and its value mean, and whether that is a defect; "" to say what zarr states.
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
