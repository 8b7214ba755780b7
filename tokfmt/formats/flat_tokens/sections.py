"""List the parts of a flat-tokens store: metadata key by key, chunks, and entries of `seq_starts`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from tokfmt.core.annotation import Listed, Part, broken
from tokfmt.core.reader import INT32_MAX
from tokfmt.errors import FormatError
from tokfmt.files.fields import Field, Pointer, Section
from tokfmt.files.file import natural_key
from tokfmt.formats.chunks import ChunkFields
from tokfmt.formats.flat_tokens.layout import STARTS, TOKENS, Group, GroupLayout, StoreLayout
from tokfmt.formats.zarr_arrays.sections import key_fields
from tokfmt.formats.zarr_arrays.store import METADATA, Store, json_of

_FILES = 4096  # files of an array that cannot be opened
_UNBOUNDED = Field("max_token_id", None, 0, "not there", "seqax does not open the array", wrong=True)


def sections(layout: StoreLayout) -> Sequence[Section]:
    """Return the sections of a store: its metadata, then metadata and chunks of each array, and entries."""
    store, path = layout.store, layout.path
    if store is None:
        return [Part("store", path, partial(Listed, (broken(layout.problems[0].error),)))]
    groups = layout.groups or [Group(None, 3 if "zarr.json" in store.names("") else 2)]
    parts = list(_metadata(store, "", bounded=groups[0].split is None))
    for group in groups:
        if group.split:
            parts += _metadata(store, group.split, bounded=True)
        for name in (TOKENS, STARTS):
            key = group.key(name)
            chunks = partial(_chunks, layout.of(group), name)
            parts += [*_metadata(store, key), Part(f"chunks of {key}", store.root / key, chunks)]
        key = group.key(STARTS)
        parts.append(Part(f"entries of {key}", store.root / key, partial(_Starts, layout.of(group))))
    return parts or [Part("store", path, lambda: [Field("content", None, 0, "nothing of zarr", wrong=True)])]


def _metadata(store: Store, key: str, *, bounded: bool = False) -> Iterator[Part]:
    """Yield the metadata files of a directory; if `bounded`, they must state `max_token_id`."""
    try:
        names = store.names(key)
    except FormatError as error:
        yield Part(key, store.root / key, partial(Listed, (broken(error),)))
        return
    if bounded and not names & {".zattrs", "zarr.json"}:
        yield Part(f"{key}/.zattrs" if key else ".zattrs", store.root / key, lambda: (_UNBOUNDED,))
    for name in METADATA:
        if name in names:
            file = f"{key}/{name}" if key else name
            states = bounded and name in (".zattrs", "zarr.json")
            yield Part(file, store.root / file, partial(_keys, store, file, states=states))


def _keys(store: Store, key: str, *, states: bool) -> list[Field]:
    """Return the keys of a JSON file as fields; if `states`, it must state `max_token_id`."""
    known = json_of(store, key) or {}
    attributes = known.get("attributes") if key.endswith("zarr.json") else known
    missing = states and not (isinstance(attributes, Mapping) and "max_token_id" in attributes)
    return [*key_fields(store, key, _explained), *([_UNBOUNDED] if missing else [])]


def _explained(name: str, value: object) -> tuple[str, bool]:
    """Return what a key of the metadata means that only flat tokens have, and whether its value has a defect."""
    odd = _odd(name, value)
    return odd or ("no ID may be above it" if name == "max_token_id" else ""), bool(odd)


def _odd(name: str, value: object) -> str:
    """Return the defect of a value, "" if none is known."""
    if name == "attributes" and isinstance(value, dict) and "max_token_id" in value:
        return _odd("max_token_id", value["max_token_id"])
    if name != "max_token_id" or (type(value) is int and 0 <= value <= INT32_MAX):
        return ""
    return f"should be a whole number from 0 to {INT32_MAX:,}"


def _chunks(layout: GroupLayout, name: str) -> ChunkFields | Listed:
    try:
        return ChunkFields(layout.array(name).filled())
    except FormatError as error:
        return Listed([broken(error), *_files(layout.store, layout.group.key(name))])


def _files(store: Store, key: str) -> Iterator[Field]:
    """Yield the files in the place of chunks of an array that cannot be opened."""
    for name in sorted(store.names(key), key=natural_key)[:_FILES]:
        if name not in METADATA:
            try:
                blob = store.blob(f"{key}/{name}")
            except FormatError as error:
                yield broken(error)
                continue
            if blob is not None:
                origin = store.origin(f"{key}/{name}")
                at, length = (origin.start, blob.size) if origin.exact else (None, 0)
                yield Field(name, at, length, f"{blob.size:,} bytes", path=origin.path)


class _Starts:
    """Entries of `seq_starts` as fields: the position where each sequence begins, and the end of the last."""

    def __init__(self, layout: GroupLayout) -> None:
        self.array = layout.array(STARTS).filled()
        self.count, self.total, self._first = max(1, self.array.length), None, None
        with suppress(FormatError):
            tokens = layout.array(TOKENS).filled()
            self.total = tokens.length
            self._first = tokens.byte_offset(0) if tokens.length else None

    def fields(self, first: int, last: int) -> list[Field]:
        last = min(last, self.count)
        if first >= last:
            return []
        if not self.array.length:
            return [Field("entry 0", None, 0, "not there", "at least the entry 0 is expected", wrong=True)]
        values = self.array.read(first, min(last + 1, self.count)).tolist()
        return [self._field(first + k, here, values[k + 1 :]) for k, here in enumerate(values[: last - first])]

    def _field(self, entry: int, here: int, after: Sequence[int]) -> Field:
        place, wrong = self.array.byte_offset(entry), ""
        if entry == 0 and here:
            wrong = "the first should be 0"
        elif not after and self.total not in (None, here):
            wrong = f"the last should be {self.total:,}, the number of tokens"
        elif after and after[0] < here:
            wrong = f"the next is {after[0]:,}: entries should not decrease"
        meaning = wrong or (f"{after[0] - here:,} tokens" if after else "the end of the last")
        offset, length = (None, 0) if place.width is None else (place.offset, place.width)
        target = None if self._first is None else Pointer(self._first.path, self._first.offset, here)
        return Field(f"entry {entry:,}", offset, length, f"{here:,}", meaning, bool(wrong), place.path, target)
