"""What can be wrong with flat tokens: findings TF401 ... TF414.

    TF401 error    not a store of flat tokens, or an array whose metadata cannot be read
    TF402 error    items of a kind that seqax refuses (big-endian)
    TF403 error    max_token_id is missing or no whole number from 0 to 2^31-1
    TF404 error    seq_starts does not begin with 0, decreases, or does not end at the number of tokens
    TF405 error    start bits contradict seq_starts
    TF406 error    an id above max_token_id
    TF407 info     max_token_id is above every id
    TF408 warning  chunks are absent and read as the fill value
    TF409 error    a chunk that is short, long, or damaged
    TF411 warning  consolidated metadata disagrees with an array's own
    TF412 info     chunk files beyond the shape
    TF413 warning  a group without its metadata file
    TF414 info     an array without splits, which seqax does not find

All of `seq_starts` is read, and the header of every chunk; tokens of a store of up to 16 Mi, else 16 windows of 1 Mi.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tokfmt.core.axis import WINDOW
from tokfmt.core.dtypes import largest_id
from tokfmt.core.errors import FormatError, printable
from tokfmt.core.format import Finding
from tokfmt.core.ragged import Offsets
from tokfmt.formats.flat_tokens import blosc
from tokfmt.formats.flat_tokens.array import Array
from tokfmt.formats.flat_tokens.group import (
    STARTS,
    TOKENS,
    Group,
    attributes_path,
    group_notes,
    groups_of,
    max_token_id,
)
from tokfmt.formats.flat_tokens.reader import above_bound, starts_errors, wrong_bits
from tokfmt.formats.flat_tokens.store import Store, json_of, open_store

_WINDOWS = 16
_MOST = 100
_SEQAX = "Write the store again with tokfmt convert, if seqax is to read it"


def findings(path: Path, split: str | None) -> Iterator[Finding]:
    """Every violation found in a store, or in one of its splits."""
    try:
        store = open_store(path)
        groups = groups_of(store)
    except FormatError as error:
        yield _of("TF401", error)
        return
    seen = set[Finding]()
    for group in groups:
        for finding in _group(store, group) if split in (None, group.split) else ():
            if finding not in seen:  # a chunk whose header is wrong is met again when its tokens are read
                seen.add(finding)
                yield finding


def _of(code: str, error: FormatError, severity: str = "error") -> Finding:
    words = str(error).removeprefix(f"{printable(error.path)}: ")
    message = words.removesuffix(f". {error.remedy}") if error.remedy else words
    return Finding(code, severity, error.path, message, error.remedy or "", error.offset)


def _group(store: Store, group: Group) -> Iterator[Finding]:
    home = str(store.root / group.key("")) if group.split else str(store.root)
    bound = None
    try:
        for note in group_notes(store, group):
            yield Finding("TF413", "warning", home, note, _SEQAX)
        bound = max_token_id(store, group)
    except FormatError as error:
        yield _of("TF403", error)
    if group.split is None:
        yield Finding("TF414", "info", home, "is one array without splits; seqax looks for train and validation")
    arrays = {}
    for name, itemsize in ((TOKENS, 4), (STARTS, 8)):
        try:
            arrays[name] = Array(store, group.key(name), itemsize, group.zarr_format)
        except FormatError as error:
            yield _of("TF401", error)
            continue
        yield from _stale(store, group, arrays[name])
        yield from _array(arrays[name])
    if len(arrays) == 2:
        yield from _semantics(store, group, arrays[TOKENS], arrays[STARTS], bound)


def _array(array: Array) -> Iterator[Finding]:
    layout, path = array.layout, str(array.path)
    if layout.big_endian:
        yield Finding("TF402", "error", path, "is big-endian, which seqax refuses", _SEQAX)
    if len(array.absent) and not (layout.length == 1 and layout.itemsize == 8):
        yield Finding("TF408", "warning", path, f"{len(array.absent):,} of {layout.files:,} chunk files are not there "
                      f"(first: {int(array.absent[0]):,}); they read as {layout.fill}",
                      "Make sure that nothing was lost in a copy")  # fmt: skip
    if len(array.extra):
        yield Finding("TF412", "info", path, f"holds {len(array.extra):,} chunk files beyond its shape (first: "
                      f"{int(array.extra[0]):,}), which mean nothing", "Remove them")  # fmt: skip
    wrong = 0
    for number in range(layout.chunks):
        try:
            _chunk(array, number)
        except FormatError as error:
            wrong += 1
            if wrong <= _MOST:
                yield _of("TF409", error)
    if wrong > _MOST:
        yield Finding("TF409", "error", path, f"has {wrong - _MOST:,} more chunks that are damaged")


def _chunk(array: Array, number: int) -> None:
    """Raise what a look at a chunk's header and size tells."""
    layout, blob = array.layout, array.blob(number)
    if blob is None:
        return
    if layout.codecs == ("blosc",):
        blosc.frame(blob, layout.chunk * layout.itemsize, layout.itemsize)
    elif number in (0, layout.chunks - 1) or not layout.codecs:
        array.decoded(blob)


def _stale(store: Store, group: Group, array: Array) -> Iterator[Finding]:
    """Consolidated metadata that shows another shape: zarr-python 3 believes it, zarr 2 does not look at it."""
    for home in sorted({"", group.split or ""}):
        inside = array.key.removeprefix(f"{home}/") if home else array.key
        place = "/".join(filter(None, (home, ".zmetadata" if group.zarr_format == 2 else "zarr.json")))
        try:
            raw: object = json_of(store, place)
        except FormatError as error:
            yield _of("TF401", error)
            continue
        path = ["metadata", f"{inside}/.zarray"]
        for step in path if group.zarr_format == 2 else ["consolidated_metadata", "metadata", inside]:
            raw = raw.get(step) if isinstance(raw, dict) else None
        if isinstance(raw, dict) and raw.get("shape") != [array.layout.length]:
            yield Finding("TF411", "warning", str(store.root / place), f"is out of date: it gives {array.key} the "
                          f"shape {printable(raw.get('shape'))}, its own metadata [{array.layout.length}]",
                          "Remove it, or consolidate again: zarr-python 3 reads what it says")  # fmt: skip


def _semantics(store: Store, group: Group, tokens: Array, starts: Array, bound: int | None) -> Iterator[Finding]:
    total = tokens.layout.length
    offsets = np.empty(starts.layout.length, np.int64)
    sound = True
    try:
        for error in starts_errors(starts, total, offsets):
            sound = False
            yield _of("TF404", error)
    except FormatError as error:
        yield _of("TF409", error)
        return
    step = max(WINDOW, -(-total // _WINDOWS))
    looked_at = sorted({*range(0, total, step), max(0, total - WINDOW)})
    top, seen, whole = -1, set[str](), total <= WINDOW * _WINDOWS
    for start in looked_at if total else ():
        stop = min(start + WINDOW, total)
        try:
            ids = tokens.read(start, stop)
            ids >>= 1
        except FormatError as error:
            yield _of("TF409", error)
            whole = False
            continue
        if bound is not None and largest_id(ids) > bound and "TF406" not in seen:
            seen.add("TF406")
            yield _of("TF406", above_bound(tokens, ids, start, bound))
        top = max(top, largest_id(ids))
        if sound and "TF405" not in seen:
            yield from _bits(tokens, offsets, start, stop, seen)
    if bound is not None and top < bound and whole and total:
        yield Finding("TF407", "info", str(attributes_path(store, group)), f"max_token_id is {bound:,}, the largest id "
                      f"is {top:,}: legal, but a trainer may ask for a larger vocabulary")  # fmt: skip


def _bits(tokens: Array, offsets: Offsets, start: int, stop: int, seen: set[str]) -> Iterator[Finding]:
    error = wrong_bits(tokens, offsets, start, stop)
    if error is not None:
        seen.add("TF405")
        yield _of("TF405", error)
