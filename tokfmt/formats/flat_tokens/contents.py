"""The items of a store's arrays, named for people: tokens with their start bits, and where sequences begin."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tokfmt.core.errors import FormatError
from tokfmt.core.inside import Field, Place, Target
from tokfmt.formats.flat_tokens.array import Array
from tokfmt.formats.flat_tokens.group import STARTS, TOKENS, Group
from tokfmt.formats.flat_tokens.store import Store

_BITS = 1 << 20  # tokens read at most to look at the start bits of some sequences


class Contents:
    """Both arrays of a group, opened when they are looked at."""

    def __init__(self, store: Store, group: Group) -> None:
        self.store, self.group = store, group

    @cached_property
    def tokens(self) -> Array:
        return Array(self.store, self.group.key(TOKENS), 4, self.group.zarr_format)

    @cached_property
    def starts(self) -> Array:
        return Array(self.store, self.group.key(STARTS), 8, self.group.zarr_format)

    @cached_property
    def _first(self) -> Place | None:
        try:
            return self.tokens.place(0) if self.tokens.layout.length else None
        except FormatError:
            return None

    def target(self, item: int) -> Target | None:
        """A token by its number; None when there is no telling where the first one is."""
        return None if self._first is None else Target(self._first.path, self._first.offset, item)


class Items:
    """Tokens as they are stored: id and start bit."""

    def __init__(self, contents: Contents) -> None:
        self.contents, self.array = contents, contents.tokens
        self.count = self.array.layout.length

    def fields(self, first: int, last: int) -> list[Field]:
        last, fields = min(last, self.count), list[Field]()
        if first >= last:
            return fields
        for item, value in enumerate(self.array.read(first, last).tolist(), first):
            place = self.array.place(item)
            length = place.width or 0
            meaning = "begins a sequence" if value & 1 else ""
            fields.append(
                Field(f"token {item:,}", place.offset if length else None, length, str(value >> 1), meaning,
                      path=place.path, target=self.contents.target(item))
            )  # fmt: skip
        return fields


class Sequences:
    """The entries of `seq_starts`: where each sequence begins, and the end of the last."""

    def __init__(self, contents: Contents) -> None:
        self.contents, self.array = contents, contents.starts
        self.count = max(1, self.array.layout.length)
        try:
            self.total: int | None = contents.tokens.layout.length
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
            place = self.array.place(first + k)
            length = place.width or 0
            wrong = self._wrong(first + k, here, after, bits)
            told = "the end of the last" if after is None else f"{after - here:,} tokens"
            fields.append(
                Field(f"entry {first + k:,}", place.offset if length else None, length, f"{here:,}", wrong or told,
                      bool(wrong), place.path, self.contents.target(here))
            )  # fmt: skip
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
        """Start bits at some entries; none if they are far from each other, or the tokens cannot be read."""
        low, high = min(values), max(values)
        if self.total is None or not 0 <= low <= high <= self.total or high - low > _BITS:
            return {}
        try:
            bits = self.contents.tokens.read(low, high) & 1
        except FormatError:
            return {}
        inside = np.asarray([value for value in values if value < high], np.int64)
        return dict(zip(inside.tolist(), bits[inside - low].astype(bool).tolist(), strict=True))
