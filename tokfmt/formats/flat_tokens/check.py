"""Check flat tokens: findings TF401 to TF418, and the repairs of a copy.

A check reads all of `seq_starts`, the header of every chunk, and the tokens of a store of up to 16 Mi tokens. Of a
larger store it reads 16 windows of 1 Mi tokens, or all tokens if it is deep.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tokfmt.core.findings import Audit, Finding, Repair, raise_fatal
from tokfmt.core.ragged import Offsets
from tokfmt.core.reader import INT32_MAX, WINDOW, largest_id, windows
from tokfmt.errors import CorruptError, FormatError, UnsupportedError
from tokfmt.files.place import LocalPlace, Place, local_path
from tokfmt.formats.chunks import Items
from tokfmt.formats.codecs import ENCODERS
from tokfmt.formats.flat_tokens.layout import STARTS, TOKENS, GroupLayout, StoreLayout, code_of
from tokfmt.formats.flat_tokens.options import Codec, ReadOptions
from tokfmt.formats.flat_tokens.reader import above_bound, flip_starts, wrong_bits
from tokfmt.formats.zarr_arrays.array import Array
from tokfmt.formats.zarr_arrays.store import Directory
from tokfmt.wording import printable

_REPORTED = 100  # damaged chunks of an array that are reported one by one


def findings(store: StoreLayout, how: Audit) -> Iterator[Finding]:
    """Yield the findings of the groups of a store, or of the split that the options choose."""
    seen = set[Finding]()
    for group in store.wanted():
        for finding in _group(group, how):
            if finding not in seen:  # reading the tokens of a chunk with a wrong header reports it again
                seen.add(finding)
                yield finding


def _group(group: GroupLayout, how: Audit) -> Iterator[Finding]:
    """Yield the findings of one group: metadata, chunks of its arrays, and their agreement."""
    yield from (problem.finding() for problem in group.problems)
    arrays = list[Array]()
    for name in (TOKENS, STARTS):
        with suppress(FormatError):  # It is one of the problems.
            array = group.array(name).filled()
            arrays.append(array.complete())
            yield from _stale(group, array)
            yield from _chunks(array, severity="warning" if group.options.holes == "fill" else "error")
    if len(arrays) == 2:
        yield from _tokens(group, arrays, how)
        if not arrays[0].layout.length:
            what = "holds no tokens: seqax stops at a split without a whole block"
            yield Finding("TF418", "info", str(group.path), what)


def _chunks(array: Array, *, severity: str) -> Iterator[Finding]:
    """Yield damaged chunks of an array, and those that shards lack."""
    wrong, lost = 0, list[tuple[int, Place]]()
    for number, error in array.damaged(deep=False):
        if error is not None:
            wrong += 1
            if wrong <= _REPORTED:
                yield _finding("TF409", error)
        elif (shard := array.map.shard(number)) is not None:
            lost.append((number, shard))
    if lost:
        yield Finding.of("TF408", array.map.hole_at(lost[0][0], len(lost), lost[0][1]), severity)
    if wrong > _REPORTED:
        yield Finding("TF409", "error", str(array.path), f"has {wrong - _REPORTED:,} more damaged chunks")


def _stale(layout: GroupLayout, array: Array) -> Iterator[Finding]:
    """Report consolidated metadata with another shape than the array's: zarr-python 3 uses it, zarr 2 ignores it."""
    group = layout.group
    for home in sorted({"", group.split or ""}):
        inside = array.key.removeprefix(f"{home}/") if home else array.key
        place = "/".join(filter(None, (home, ".zmetadata" if group.zarr_format == 2 else "zarr.json")))
        try:
            raw: object = layout.json(place)
        except FormatError as error:
            yield _finding("TF401", error)
            continue
        path = ["metadata", f"{inside}/.zarray"]
        for step in path if group.zarr_format == 2 else ["consolidated_metadata", "metadata", inside]:
            raw = raw.get(step) if isinstance(raw, dict) else None
        if isinstance(raw, dict) and raw.get("shape") != [array.layout.length]:
            yield Finding(
                "TF411",
                "warning",
                str(layout.store.root / place),
                f"is out of date: it gives {array.key} the "
                f"shape {printable(raw.get('shape'))}, its own metadata [{array.layout.length}]",
                "Remove it, or consolidate again: zarr-python 3 reads it",
            )


_WINDOWS = 16  # windows of tokens that a check reads unless it is deep
_WRAPS_AT = 1 << 15
"""The smallest uint16 ID that loses its highest bit if it is doubled in 16 bits."""
_ENOUGH = 1 << 12
"""Minimum number of tokens for TF415: in fewer, IDs near the bound may be missing by chance."""


def _finding(code: str, error: FormatError, more: str = "") -> Finding:
    return Finding.of(code_of(code, error), error, more=more)


@dataclass(slots=True)
class _Seen:
    """Result of a check of one or more windows of tokens."""

    top: int = -1  # largest ID; -1 if none was read
    above: int = 0  # number of IDs above the bound
    wrong: int = 0  # number of wrong start bits
    first_above: FormatError | None = None  # error for the first ID above the bound
    first_wrong: FormatError | None = None  # error for the first wrong start bit
    damaged: FormatError | None = None  # error of a window that cannot be read

    def add(self, other: _Seen) -> None:
        self.top = max(self.top, other.top)
        self.above, self.wrong = self.above + other.above, self.wrong + other.wrong
        self.first_above = self.first_above or other.first_above
        self.first_wrong = self.first_wrong or other.first_wrong


def _tokens(group: GroupLayout, arrays: Sequence[Array], how: Audit) -> Iterator[Finding]:
    """Compare the arrays of a group with each other and with the bound that it states, if any."""
    tokens, starts = arrays
    total, bound = tokens.layout.length, group.bound
    offsets, problems = group.examined_offsets(starts)
    yield from (problem.finding() for problem in problems)
    if any(problem.code != "TF404" for problem in problems):
        return
    sound = not problems
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
            yield _finding("TF409", part.damaged)
        seen.add(part)
    yield from _worded(seen, deep=how.deep)
    if whole and total:
        yield from _of_bound(str(group.attributes_path), seen.top, bound, total)


def _ids(tokens: Array, offsets: Offsets | None, start: int, stop: int) -> tuple[Items, int]:
    """Return the IDs of a window and the number of wrong start bits, 0 if there are no offsets to compare with."""
    items, wrong = tokens.read(start, stop), 0
    if offsets is not None:
        flip_starts(items, offsets, start)
        wrong = int(np.count_nonzero(items & 1))
    items >>= 1
    return items, wrong


def _look(tokens: Array, offsets: Offsets | None, bound: int | None, window: tuple[int, int]) -> _Seen:
    """Check one window of tokens."""
    start, stop = window
    seen = _Seen()
    try:
        ids, seen.wrong = _ids(tokens, offsets, start, stop)
        if offsets is not None and seen.wrong:
            seen.first_wrong = wrong_bits(tokens, offsets, start, stop)
    except FormatError as error:
        seen.damaged = error
        return seen
    seen.top = largest_id(ids)
    if bound is not None and seen.top > bound:
        seen.above = int(np.count_nonzero(ids > bound))
        seen.first_above = above_bound(tokens, ids, start, bound)
    return seen


def _worded(seen: _Seen, *, deep: bool) -> Iterator[Finding]:
    for code, error, count, what in (
        ("TF406", seen.first_above, seen.above, "such IDs"),
        ("TF405", seen.first_wrong, seen.wrong, "wrong start bits"),
    ):
        if error is not None:
            yield _finding(code, error, more=f" ({count:,} {what} in all)" if deep and count > 1 else "")


def _of_bound(path: str, top: int, bound: int | None, total: int) -> Iterator[Finding]:
    """Yield the finding of a bound that is above every ID."""
    if bound is None or top >= bound:
        return
    if top < _WRAPS_AT <= bound < 2 * _WRAPS_AT and total >= _ENOUGH:
        yield Finding(
            "TF415",
            "warning",
            path,
            f"max_token_id is {bound:,}, but no ID is {_WRAPS_AT:,} or more (the "
            f"largest is {top:,}): larger uint16 IDs wrap around when they are encoded",
            "Compare some sequences with their source, and encode uint32 IDs",
        )
        return
    yield Finding(
        "TF407",
        "info",
        path,
        f"max_token_id is {bound:,}, the largest ID is {top:,}: legal, but a trainer may demand a larger vocabulary",
        "tokfmt check --fix OUT.zarr writes the exact bound",
    )


_CODECS: dict[tuple[str, ...], Codec] = {("blosc",): "blosc", ("zstd",): "zstd", ("gzip",): "gzip", (): "none"}


def patch(copy: Path, options: ReadOptions, *, dry_run: bool = False) -> None:
    """Repair start bits and `max_token_id` of each split, or of the given one, in a copy of the store.

    With `dry_run`, change nothing.

    Raises:
        FormatError: The right values are not certain: `seq_starts` is damaged, IDs are not encoded, or other parts are
            wrong as well.
    """
    store = StoreLayout(LocalPlace(copy), replace(options, holes="refuse", bound="check"))
    raise_fatal(store.problems, frozenset())
    if not isinstance(store.store, Directory):
        raise UnsupportedError(copy, "a zip is not repaired in place", remedy="Unpack it first")
    for group in store.wanted():
        _patch(group, dry_run=dry_run)


def _patch(group: GroupLayout, *, dry_run: bool) -> None:
    """Repair one group: set its start bits from `seq_starts`, and its bound to the largest ID."""
    tokens = group.array(TOKENS).complete()
    group.array(STARTS).complete()
    offsets = group.offsets()
    top, wrong = -1, 0
    for start, stop in windows(0, tokens.layout.length):
        ids, more = _ids(tokens, offsets, start, stop)
        wrong, top = wrong + more, max(top, largest_id(ids))
    bound, stated = group.bound, group.attributes.get("max_token_id")
    if type(stated) is int and stated > INT32_MAX:  # IDs wrapped around when they were encoded.
        raise_fatal(group.problems, frozenset())
    if wrong:
        if bound != top or wrong > len(offsets):  # only a right maximum proves that IDs are encoded at all
            raise CorruptError(
                tokens.path,
                f"{wrong:,} start bits are wrong, and perhaps IDs: they may not be encoded",
                expected=f"the largest ID {'nothing' if bound is None else f'{bound:,}'} (max_token_id)",
                found=top,
                remedy="Write the store again from its source",
            )
        _set_bits(tokens, offsets, dry_run=dry_run)
    if not dry_run and (bound is None or top < bound):
        _set_bound(group, max(top, 0))


def _set_bound(group: GroupLayout, top: int) -> None:
    content: dict[str, object] = {**group.attributes, "max_token_id": top}
    path = group.attributes_path
    if group.group.zarr_format == 3:
        content = {**(group.json(group.group.key(path.name)) or {}), "attributes": content}
    local_path(path, "a store to repair").write_bytes(json.dumps(content, indent=4, sort_keys=True).encode())


def _set_bits(tokens: Array, offsets: Offsets, *, dry_run: bool) -> None:
    """Set the start bits of every chunk that has a wrong one, and store it again in place."""
    layout = tokens.layout
    codec, shard = _CODECS.get(layout.codecs), tokens.map.keys.shard
    if codec is None or shard is not None:
        how = "in shards" if shard is not None else f"with {' '.join(layout.codecs)}"
        raise UnsupportedError(
            tokens.path,
            f"is stored {how}, which is not repaired in place",
            remedy="--from-opt bound=ignore reads it, if seq_starts can be trusted",
        )
    for number in range(layout.chunks):
        start, stop = number * layout.items, min((number + 1) * layout.items, layout.length)
        if not any(_ids(tokens, offsets, a, b)[1] for a, b in windows(start, stop)):
            continue
        items, stored = tokens.chunk(number), tokens.map.find(number)
        if items is None or stored is None:
            raise CorruptError(
                tokens.path,
                f"chunk {number:,} is absent, and its start bits are wrong",
                remedy="Write the store again from its source",
            )
        if dry_run:
            continue
        items = items.astype(np.uint32)
        part = items[: stop - start]
        part &= ~np.uint32(1)
        flip_starts(part, offsets, start)
        local_path(stored.path, "a store to repair").write_bytes(ENCODERS[codec](items.astype(layout.dtype)))


REPAIRS: Mapping[str, Repair] = {
    "TF403": Repair("max_token_id was set to the largest ID", patch=patch),
    "TF405": Repair("start bits were set from seq_starts", patch=patch),
    "TF407": Repair("max_token_id was set to the largest ID", patch=patch),
}
