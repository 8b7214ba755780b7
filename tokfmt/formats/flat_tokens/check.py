"""What can be wrong with flat tokens: findings TF401 ... TF418; `codes` says what they mean.

All of `seq_starts` is read, and the header of every chunk; tokens of a store of up to 16 Mi, else 16 windows of 1 Mi,
or, deep, all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tokfmt.core.audit import Audit
from tokfmt.core.errors import FormatError, printable
from tokfmt.core.format import Finding
from tokfmt.formats.flat_tokens import blosc
from tokfmt.formats.flat_tokens.array import Array
from tokfmt.formats.flat_tokens.check_tokens import of, token_findings
from tokfmt.formats.flat_tokens.group import (
    STARTS,
    TOKENS,
    Group,
    group_notes,
    groups_of,
    max_token_id,
)
from tokfmt.formats.flat_tokens.store import Store, json_of, open_store

_MOST = 100
_SEQAX = "Write the store again with tokfmt convert, if seqax is to read it"


def findings(path: Path, split: str | None, how: Audit) -> Iterator[Finding]:
    """Every violation found in a store, or in one of its splits."""
    try:
        store = open_store(path)
        groups = groups_of(store)
    except FormatError as error:
        yield of("TF401", error)
        return
    yield from _container(store)
    seen = set[Finding]()
    for group in groups:
        for finding in _group(store, group, how) if split in (None, group.split) else ():
            if finding not in seen:  # a chunk whose header is wrong is met again when its tokens are read
                seen.add(finding)
                yield finding


def _container(store: Store) -> Iterator[Finding]:
    """What trainers ask of the store as a whole."""
    if not store.root.is_dir():
        yield Finding(
            "TF417",
            "info",
            str(store.root),
            "is a zip: zarr 3 opens it only as a ZipStore, seqax not at all",
            "Unpack it for seqax",
        )


def _group(store: Store, group: Group, how: Audit) -> Iterator[Finding]:
    home = str(store.root / group.key("")) if group.split else str(store.root)
    bound = None
    try:
        for note in group_notes(store, group):
            yield Finding("TF413", "warning", home, note, _SEQAX)
        bound = max_token_id(store, group)
    except FormatError as error:
        yield of("TF403", error)
    if group.split is None:
        yield Finding("TF414", "info", home, "is one array without splits; seqax looks for train and validation")
    arrays = {}
    for name, itemsize in ((TOKENS, 4), (STARTS, 8)):
        try:
            arrays[name] = Array(store, group.key(name), itemsize, group.zarr_format)
        except FormatError as error:
            yield of("TF401", error)
            continue
        yield from _stale(store, group, arrays[name])
        yield from _array(arrays[name])
    if len(arrays) == 2:
        yield from token_findings(store, group, (arrays[TOKENS], arrays[STARTS]), bound, how)
        if not arrays[TOKENS].layout.length:
            yield Finding("TF418", "info", home, "holds no tokens: seqax stops at a split without a whole block")


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
                yield of("TF409", error)
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
            yield of("TF401", error)
            continue
        path = ["metadata", f"{inside}/.zarray"]
        for step in path if group.zarr_format == 2 else ["consolidated_metadata", "metadata", inside]:
            raw = raw.get(step) if isinstance(raw, dict) else None
        if isinstance(raw, dict) and raw.get("shape") != [array.layout.length]:
            yield Finding("TF411", "warning", str(store.root / place), f"is out of date: it gives {array.key} the "
                          f"shape {printable(raw.get('shape'))}, its own metadata [{array.layout.length}]",
                          "Remove it, or consolidate again: zarr-python 3 reads what it says")  # fmt: skip
