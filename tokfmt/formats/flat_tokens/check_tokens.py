"""What `seq_starts` and `encoded_tokens` say of each other, and what the ids say of `max_token_id`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tokfmt.core.audit import Audit
from tokfmt.core.axis import WINDOW
from tokfmt.core.dtypes import largest_id
from tokfmt.core.errors import FormatError, UnsafeError, printable
from tokfmt.core.format import Finding
from tokfmt.core.ragged import Offsets
from tokfmt.formats.flat_tokens.array import Array, Items
from tokfmt.formats.flat_tokens.group import Group, attributes_path
from tokfmt.formats.flat_tokens.reader import above_bound, check_memory, starts_errors, wrong_bits
from tokfmt.formats.flat_tokens.store import Store

_WINDOWS = 16
_WRAPS_AT = 1 << 15
"""uint16 ids from here on lose their highest bit when they are doubled in 16 bits."""
_ENOUGH = 1 << 12
"""Tokens: in fewer, an id near the bound may be missing by chance."""


def of(code: str, error: FormatError, severity: str = "error", more: str = "") -> Finding:
    """An error as a line of a check: the same words. What is unsafe has a code of its own."""
    words = str(error).removeprefix(f"{printable(error.path)}: ")
    message = words.removesuffix(f". {error.remedy}") if error.remedy else words
    code = "TF410" if isinstance(error, UnsafeError) else code
    return Finding(code, severity, error.path, message + more, error.remedy or "", error.offset)


@dataclass(slots=True)
class _Seen:
    """What was found in windows so far: the largest id, ids above the bound, wrong start bits, and the first of "
    "each.
    """

    top: int = -1
    above: int = 0
    wrong: int = 0
    first_above: FormatError | None = None
    first_wrong: FormatError | None = None
    damaged: FormatError | None = None

    def add(self, other: _Seen) -> None:
        self.top = max(self.top, other.top)
        self.above, self.wrong = self.above + other.above, self.wrong + other.wrong
        self.first_above = self.first_above or other.first_above
        self.first_wrong = self.first_wrong or other.first_wrong


def token_findings(
    store: Store, group: Group, arrays: tuple[Array, Array], bound: int | None, how: Audit
) -> Iterator[Finding]:
    """Compare the arrays of a group: all of `seq_starts`, and some windows of the tokens, or all.

    Args:
        store, group: Where they are.
        arrays: `encoded_tokens` and `seq_starts`.
        bound: `max_token_id`, if it can be read.
        how: How thoroughly.
    """
    tokens, starts = arrays
    total, sound = tokens.layout.length, True
    try:
        check_memory(starts)
        offsets = np.empty(starts.layout.length, np.int64)
        for error in starts_errors(starts, total, offsets):
            sound = False
            yield of("TF404", error)
    except FormatError as error:
        yield of("TF409", error)
        return
    step = WINDOW if how.deep else max(WINDOW, -(-total // _WINDOWS))
    places = sorted({*range(0, total, step), *([] if how.deep else [max(0, total - WINDOW)])}) if total else []

    def look(start: int) -> _Seen:
        stop = min(start + WINDOW, total)
        how.advance(stop - start)
        return _look(tokens, offsets if sound else None, bound, (start, stop))

    seen, whole = _Seen(), how.deep or total <= WINDOW * _WINDOWS
    for part in how.spread(look, places):
        if part.damaged is not None:
            whole = False
            yield of("TF409", part.damaged)
        seen.add(part)
    yield from _worded(seen, deep=how.deep)
    if whole and total:
        yield from _of_bound(str(attributes_path(store, group)), seen.top, bound, total)


def _look(tokens: Array, offsets: Offsets | None, bound: int | None, window: tuple[int, int]) -> _Seen:
    start, stop = window
    seen = _Seen()
    try:
        ids = tokens.read(start, stop)
        if offsets is not None:
            seen.wrong = _wrong(ids & ids.dtype.type(1), offsets, window)
            seen.first_wrong = wrong_bits(tokens, offsets, start, stop) if seen.wrong else None
        ids >>= 1
    except FormatError as error:
        seen.damaged = error
        return seen
    seen.top = largest_id(ids)
    if bound is not None and seen.top > bound:
        seen.above = int(np.count_nonzero(ids > bound))
        seen.first_above = above_bound(tokens, ids, start, bound)
    return seen


def _wrong(bits: Items, offsets: Offsets, window: tuple[int, int]) -> int:
    """How many start bits are not what `seq_starts` says. `bits` is changed."""
    first, last = np.searchsorted(offsets, window)
    begins = np.unique(offsets[first:last]) - window[0]
    bits[begins] ^= 1
    return int(np.count_nonzero(bits))


def _worded(seen: _Seen, *, deep: bool) -> Iterator[Finding]:
    for code, error, count, what in (
        ("TF406", seen.first_above, seen.above, "such ids"),
        ("TF405", seen.first_wrong, seen.wrong, "wrong start bits"),
    ):
        if error is not None:
            yield of(code, error, more=f" ({count:,} {what} in all)" if deep and count > 1 else "")


def _of_bound(path: str, top: int, bound: int | None, total: int) -> Iterator[Finding]:
    if bound is None or top >= bound:
        return
    if top < _WRAPS_AT <= bound < 2 * _WRAPS_AT and total >= _ENOUGH:
        yield Finding("TF415", "warning", path, f"max_token_id is {bound:,}, yet no id is {_WRAPS_AT:,} or more (the "
                      f"largest is {top:,}): uint16 ids from there on wrap when they are encoded",
                      "Compare some sequences with their source, and encode uint32 ids")  # fmt: skip
        return
    yield Finding("TF407", "info", path, f"max_token_id is {bound:,}, the largest id is {top:,}: legal, but a trainer "
                  "may ask for a larger vocabulary", "tokfmt check --fix OUT.zarr writes the exact one")  # fmt: skip
