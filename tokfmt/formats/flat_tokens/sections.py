"""The parts of a flat-tokens store, named for people: metadata key by key, chunks, the header of the first chunk."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from tokfmt.core.dtypes import INT32_MAX
from tokfmt.core.errors import FormatError, TokfmtError
from tokfmt.core.files import natural_key
from tokfmt.core.inside import Field, Section
from tokfmt.core.sections import Listed, Part, broken, shown
from tokfmt.formats.flat_tokens.array import Array
from tokfmt.formats.flat_tokens.contents import Contents, Items, Sequences
from tokfmt.formats.flat_tokens.frame_fields import frame_fields, summary
from tokfmt.formats.flat_tokens.group import STARTS, TOKENS, Group, groups_of
from tokfmt.formats.flat_tokens.store import Store, json_of, open_store

_METADATA = (".zgroup", ".zattrs", ".zarray", ".zmetadata", "zarr.json")
_MEANINGS = {
    "zarr_format": "version of zarr",
    "shape": "items in the array",
    "chunks": "items in a chunk",
    "chunk_grid": "items in a chunk, or in a shard",
    "dtype": "type of an item",
    "data_type": "type of an item",
    "compressor": "how chunks are compressed",
    "codecs": "what chunks go through, in the order of writing",
    "filters": "what chunks go through before that",
    "fill_value": "what an absent chunk reads as; with null its content is undefined",
    "max_token_id": "no id may be above it",
}
_FILES = 4096
_ITEMS = {TOKENS: 4, STARTS: 8}
_UNBOUNDED = Field("max_token_id", None, 0, "not there", "seqax does not open the array", wrong=True)
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[\s,]*")
_COLON = re.compile(r"\s*:\s*")


def sections(path: Path) -> Sequence[Section]:
    """Metadata of the store and of each group, then of each array: metadata, chunks, header of the first chunk."""
    try:
        store = open_store(path)
    except FormatError as error:
        return [Part("store", path, lambda error=error: (broken(error),))]  # type: ignore[misc]
    groups = _groups(store)
    parts = list(_metadata(store, "", bounded=groups[0].split is None))
    for group in groups:
        if group.split:
            parts += _metadata(store, group.split, bounded=True)
        contents = Contents(store, group)
        for name in (TOKENS, STARTS):
            key = group.key(name)
            parts += [*_metadata(store, key), *_chunks(store, group, name)]
            items = Items if name == TOKENS else Sequences
            parts.append(Part(f"items of {key}", store.root / key, partial(items, contents)))
    return parts or [Part("store", path, lambda: [Field("content", None, 0, "nothing of zarr", wrong=True)])]


def _groups(store: Store) -> list[Group]:
    try:
        return groups_of(store)
    except TokfmtError:
        return [Group(None, 3 if "zarr.json" in store.names("") else 2)]


def _metadata(store: Store, key: str, *, bounded: bool = False) -> Iterator[Part]:
    """The metadata files of a directory; `bounded`: they should say `max_token_id`."""
    try:
        names = store.names(key)
    except FormatError as error:
        yield Part(key, store.root / key, lambda error=error: (broken(error),))  # type: ignore[misc]
        return
    if bounded and not names & {".zattrs", "zarr.json"}:
        yield Part(f"{key}/.zattrs" if key else ".zattrs", store.root / key, lambda: (_UNBOUNDED,))
    for name in _METADATA:
        if name in names:
            file = f"{key}/{name}" if key else name
            states = bounded and name in (".zattrs", "zarr.json")
            yield Part(file, store.root / file, partial(_keys, store, file, states=states))


def _keys(store: Store, key: str, *, states: bool) -> list[Field]:
    """The keys of a JSON object, with the bytes that each takes."""
    known = json_of(store, key) or {}  # raises for what is no small JSON object
    attributes = known.get("attributes") if key.endswith("zarr.json") else known
    missing = states and not (isinstance(attributes, Mapping) and "max_token_id" in attributes)
    blob = store.blob(key)
    raw = blob.read(0, blob.size).decode() if blob else ""
    origin = store.origin(key)
    fields, at = [], raw.index("{") + 1
    while raw[(at := _end(_SPACE, raw, at))] != "}":
        name, after = _DECODER.raw_decode(raw, at)
        value, stop = _DECODER.raw_decode(raw, _end(_COLON, raw, after))
        begin = origin.start + len(raw[:at].encode()) if origin.exact else None
        length = len(raw[at:stop].encode()) if origin.exact else 0
        told = json.dumps(value, ensure_ascii=False)
        odd = _odd(name, value)
        meaning = odd or _MEANINGS.get(name, "")
        fields.append(Field(shown(name), begin, length, shown(told), meaning, bool(odd), origin.path))
        at = stop
    if missing:
        fields.append(_UNBOUNDED)
    return fields


def _odd(name: str, value: object) -> str:
    """What is wrong with a value, "" if nothing is known to be."""
    if name == "attributes" and isinstance(value, dict) and "max_token_id" in value:
        return _odd("max_token_id", value["max_token_id"])
    if name != "max_token_id" or (type(value) is int and 0 <= value <= INT32_MAX):
        return ""
    return f"should be a whole number from 0 to {INT32_MAX:,}"


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _chunks(store: Store, group: Group, name: str) -> Iterator[Part]:
    key = group.key(name)

    def table() -> _Chunks | Listed:
        try:
            return _Chunks(store, Array(store, key, _ITEMS[name], group.zarr_format))
        except FormatError as error:
            return Listed([broken(error), *_files(store, key)])

    chunks = Part(f"chunks of {key}", store.root / key, table)
    yield chunks

    def first() -> Sequence[Field]:
        opened = table()
        return opened.header() if isinstance(opened, _Chunks) else ()

    yield Part(f"header of the first chunk of {key}", store.root / key, first)


def _files(store: Store, key: str) -> Iterator[Field]:
    """What lies where chunks should, of an array that cannot be opened."""
    for name in sorted(store.names(key), key=natural_key)[:_FILES]:
        if name not in _METADATA:
            try:
                blob = store.blob(f"{key}/{name}")
            except FormatError as error:
                yield broken(error)
                continue
            if blob is not None:
                origin = store.origin(f"{key}/{name}")
                at, length = (origin.start, blob.size) if origin.exact else (None, 0)
                yield Field(name, at, length, f"{blob.size:,} bytes", path=origin.path)


class _Chunks:
    """The chunks of an array."""

    def __init__(self, store: Store, array: Array) -> None:
        self.store, self.array = store, array
        self.count = array.layout.chunks

    def fields(self, first: int, last: int) -> list[Field]:
        return [self._chunk(number) for number in range(first, min(last, self.count))]

    def _chunk(self, number: int) -> Field:
        layout, name = self.array.layout, f"chunk {number:,}"
        start = number * layout.chunk
        items = f"items {start:,} to {min(layout.length, start + layout.chunk) - 1:,}"
        try:
            blob = self.array.blob(number)
            if blob is None:
                return Field(name, None, 0, "absent", f"{items}, all {layout.fill or 0}")
            origin = self.array.origin(number)
            at, length = (origin.start + blob.start, blob.size) if origin.exact else (origin.start, 0)
            told, wrong = summary(self.array, blob)
        except FormatError as error:
            return Field(name, error.offset, 0, broken(error).value, error.remedy or "", True, Path(error.path))
        value = f"{blob.size:,} bytes of {layout.chunk * layout.itemsize:,}"
        return Field(name, at, length, value, told if wrong else f"{items}, {told}", wrong, origin.path)

    def header(self) -> Sequence[Field]:
        """The header of the first chunk, if its compressor gives it one."""
        blob = self.array.blob(0) if self.count else None
        if blob is None or self.array.layout.codecs[-1:] != ("blosc",):
            return ()
        origin = self.array.origin(0)
        return frame_fields(self.array, blob, origin.start + blob.start if origin.exact else None, origin.path)
