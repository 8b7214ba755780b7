"""List the parts of a flat-tokens store: metadata key by key, chunks, the header of the first chunk, items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property, partial

import numpy as np

from tokfmt.core.annotation import Listed, Part, broken
from tokfmt.core.reader import INT32_MAX, ByteOffset
from tokfmt.errors import FormatError
from tokfmt.files.fields import Field, Pointer, Section
from tokfmt.files.file import natural_key
from tokfmt.formats.flat_tokens.layout import STARTS, TOKENS, Group, GroupLayout, StoreLayout
from tokfmt.formats.zarr_arrays.sections import Chunks, first_header, key_fields
from tokfmt.formats.zarr_arrays.store import METADATA, Store, json_of

_FILES = 4096  # files of an array that cannot be opened
_UNBOUNDED = Field("max_token_id", None, 0, "not there", "seqax does not open the array", wrong=True)


def sections(layout: StoreLayout) -> Sequence[Section]:
    """Return the sections of a store: its metadata, then metadata, chunks, first header and items of each array."""
    store, path = layout.store, layout.path
    if store is None:
        return [Part("store", path, partial(Listed, (broken(layout.problems[0].error),)))]
    groups = layout.groups or [Group(None, 3 if "zarr.json" in store.names("") else 2)]
    parts = list(_metadata(store, "", bounded=groups[0].split is None))
    for group in groups:
        if group.split:
            parts += _metadata(store, group.split, bounded=True)
        contents = _Contents(layout.of(group))
        for name, items in ((TOKENS, _Tokens), (STARTS, _Starts)):
            key, path = group.key(name), store.root / group.key(name)
            parts += [
                *_metadata(store, key),
                Part(f"chunks of {key}", path, partial(_chunks, contents, name)),
                Part(f"header of the first chunk of {key}", path, partial(_first_header, contents, name)),
                Part(f"items of {key}", path, partial(items, contents)),
            ]
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


def _chunks(contents: _Contents, name: str) -> Chunks | Listed:
    try:
        return Chunks(contents.array(name))
    except FormatError as error:
        return Listed([broken(error), *_files(contents.store, contents.group.key(name))])


def _first_header(contents: _Contents, name: str) -> Sequence[Field]:
    """Return the fields of the header of the first chunk; none unless it is compressed with blosc."""
    try:
        array = contents.array(name)
    except FormatError:  # the section of chunks reports it
        return ()
    return first_header(array)


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


_BITS = 1 << 20  # maximum tokens that are read for the start bits of some sequences


class _Contents:
    """Both arrays of a group, opened on first use. Their chunks may be absent."""

    def __init__(self, layout: GroupLayout) -> None:
        self.store, self.group = layout.store, layout.group
        self.array = cache(lambda name: layout.array(name).filled())
        """Opens the array `TOKENS` or `STARTS`."""

    @cached_property
    def _first(self) -> ByteOffset | None:
        try:
            tokens = self.array(TOKENS)
            return tokens.byte_offset(0) if tokens.layout.length else None
        except FormatError:
            return None

    def target(self, item: int) -> Pointer | None:
        """Return a pointer to the token at a position; None if the byte offset of the first token is unknown."""
        return None if self._first is None else Pointer(self._first.path, self._first.offset, item)


class _Tokens:
    """Stored tokens as fields: ID and start bit."""

    def __init__(self, contents: _Contents) -> None:
        self.contents, self.array = contents, contents.array(TOKENS)
        self.count = self.array.layout.length

    def fields(self, first: int, last: int) -> list[Field]:
        last, fields = min(last, self.count), list[Field]()
        if first >= last:
            return fields
        for item, value in enumerate(self.array.read(first, last).tolist(), first):
            place = self.array.byte_offset(item)
            length = place.width or 0
            meaning = "begins a sequence" if value & 1 else ""
            fields.append(
                Field(
                    f"token {item:,}",
                    place.offset if length else None,
                    length,
                    str(value >> 1),
                    meaning,
                    path=place.path,
                    target=self.contents.target(item),
                )
            )
        return fields


class _Starts:
    """Entries of `seq_starts` as fields: the position where each sequence begins, and the end of the last."""

    def __init__(self, contents: _Contents) -> None:
        self.contents, self.array = contents, contents.array(STARTS)
        self.count = max(1, self.array.layout.length)
        try:
            self.total: int | None = contents.array(TOKENS).layout.length
        except FormatError:
            self.total = None

    def fields(self, first: int, last: int) -> list[Field]:
        last = min(last, self.count)
        if first >= last:
            return []
        if not self.array.layout.length:
            return [Field("entry 0", None, 0, "not there", "at least the entry 0 is expected", wrong=True)]
        values = self.array.read(first, min(last + 1, self.count)).tolist()
        bits = self._bits(values)
        fields = []
        for k in range(last - first):
            here, after = values[k], values[k + 1] if k + 1 < len(values) else None
            place = self.array.byte_offset(first + k)
            length = place.width or 0
            wrong = self._wrong(first + k, here, after, bits)
            description = "the end of the last" if after is None else f"{after - here:,} tokens"
            fields.append(
                Field(
                    f"entry {first + k:,}",
                    place.offset if length else None,
                    length,
                    f"{here:,}",
                    wrong or description,
                    bool(wrong),
                    place.path,
                    self.contents.target(here),
                )
            )
        return fields

    def _wrong(self, entry: int, here: int, after: int | None, bits: dict[int, bool]) -> str:
        if entry == 0 and here:
            return "the first should be 0"
        if after is None:
            known = self.total is not None and here != self.total
            return f"the last should be {self.total:,}, the number of tokens" if known else ""
        if after < here:
            return f"the next is {after:,}: entries should not decrease"
        return "its token has no start bit" if after > here and not bits.get(here, True) else ""

    def _bits(self, values: list[int]) -> dict[int, bool]:
        """Return the start bit at each of some entries; {} if they are far apart, or the tokens cannot be read."""
        low, high = min(values), max(values)
        if self.total is None or not 0 <= low <= high <= self.total or high - low > _BITS:
            return {}
        try:
            bits = self.contents.array(TOKENS).read(low, high) & 1
        except FormatError:
            return {}
        inside = np.asarray([value for value in values if value < high], np.int64)
        return dict(zip(inside.tolist(), bits[inside - low].astype(bool).tolist(), strict=True))
