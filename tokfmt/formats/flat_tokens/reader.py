"""Read flat tokens as a token axis: find the groups of a store, check their metadata, decode their IDs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tokfmt.core.errors import (
    NO_DAMAGE,
    ContradictionError,
    CorruptError,
    FormatError,
    OptionError,
    SourceChangedError,
    TokfmtError,
    UnsafeError,
)
from tokfmt.core.files import natural_key
from tokfmt.core.format import Hints
from tokfmt.core.place import Place
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import (
    INT32_MAX,
    U32,
    WINDOW,
    ByteOffset,
    Damage,
    Info,
    Layout,
    Separators,
    TokenReader,
    check_interval,
    check_position,
    windows,
)
from tokfmt.formats.flat_tokens.options import ReadOptions
from tokfmt.formats.zarr_arrays.array import Array, Items, Json
from tokfmt.formats.zarr_arrays.store import Store, json_of, open_store

TOKENS, STARTS = "encoded_tokens", "seq_starts"
_DEFAULT = "train"
_COPY = "Copy the store again"
_PIECE = 1 << 16
"""Tokens that are decoded at once, so that they stay in the cache of the processor for four passes."""

_STARTS_BYTES = 1 << 30  # bytes of seq_starts that need no check against its stored bytes
_RATIO = 1100  # maximum ratio of larger ones; compressors reach no more


@dataclass(frozen=True, slots=True)
class Group:
    """A flat-tokens array: the zarr group of a split, or of a store without splits.

    Attributes:
        split: "train", "validation" ...; None for a bare array.
        zarr_format: 2 or 3.
    """

    split: str | None
    zarr_format: int

    def key(self, name: str) -> str:
        """Return the key of a file or array in the group."""
        return f"{self.split}/{name}" if self.split else name


def groups_of(store: Store) -> list[Group]:
    """Return the flat-tokens arrays of a store: one bare array, or the splits in natural order of their names.

    Raises:
        CorruptError: The store holds none, or metadata of two versions of zarr.
    """
    names, marks, wrong = store.names(""), {TOKENS, STARTS, "tokens"}, {STARTS, "tokens"}
    zarr_format = _zarr_format(store, names)
    if names & {TOKENS, STARTS} and names & marks != wrong:
        return [Group(None, zarr_format)]
    found, example, misnamed = [], "tokens" in names, False
    for child in sorted(names, key=natural_key):
        inside = frozenset() if child.startswith(".") else store.names(child)
        example, misnamed = example or "tokens" in inside, misnamed or inside & marks == wrong
        if inside & {TOKENS, STARTS}:
            found.append(Group(child, zarr_format))
    if found and not misnamed:
        return found
    if example:
        raise CorruptError(
            store.root,
            "holds an array tokens, the name in the documentation's example",
            expected=TOKENS,
            remedy=f"If its IDs are encoded (2 * ID + start bit), rename it to {TOKENS}",
        )
    raise CorruptError(store.root, f"holds no {TOKENS}, and no split that does", remedy="Name a store of flat tokens")


def _zarr_format(store: Store, names: frozenset[str]) -> int:
    v2, v3 = bool(names & {".zgroup", ".zattrs"}), "zarr.json" in names
    if v2 and v3:
        raise CorruptError(
            store.root,
            "holds metadata of zarr 2 and of zarr 3; they may differ",
            remedy="Remove zarr.json, or the files whose names begin with .z",
        )
    return 3 if v3 else 2


def choose(store: Store, groups: list[Group], split: str | None) -> Group:
    """Choose the group of a split; by default the only one, or "train".

    Raises:
        OptionError: The store lacks the split, or has several and none of them is "train".
    """
    splits = [group.split for group in groups if group.split]
    listed = ", ".join(splits)
    if not splits:
        if split is not None:
            raise OptionError(f"{store.root}: is one array without splits. Leave out --split {split}", name=split)
        return groups[0]
    if split is None and len(groups) > 1 and _DEFAULT not in splits:
        raise OptionError(f"{store.root}: has several splits ({listed}). Choose one with --split NAME")
    wanted = split or (_DEFAULT if len(groups) > 1 else splits[0])
    if wanted not in splits:
        raise OptionError(f"{store.root}: has no split {wanted!r} (found {listed})", name=wanted)
    return groups[splits.index(wanted)]


def attributes_path(store: Store, group: Group) -> Place:
    """Return the path of the file that holds the attributes of a group."""
    return store.root / group.key(".zattrs" if group.zarr_format == 2 else "zarr.json")


def attributes(store: Store, group: Group) -> Json:
    """Return the attributes of a group; {} if it has none."""
    raw: object = json_of(store, group.key(attributes_path(store, group).name))
    if group.zarr_format == 3 and isinstance(raw, dict):
        raw = raw.get("attributes")
    return raw if isinstance(raw, dict) else {}


def max_token_id(store: Store, group: Group) -> int:
    """Return the upper bound that the group states for its IDs.

    Raises:
        CorruptError: The bound is missing, or not a whole number from 0 to 2^31-1.
    """
    found = attributes(store, group).get("max_token_id")
    if type(found) is int and 0 <= found <= INT32_MAX:
        return found
    raise CorruptError(
        attributes_path(store, group),
        "has no usable max_token_id",
        expected=f"a whole number from 0 to {INT32_MAX:,}",
        found="nothing" if found is None else f"{type(found).__name__} {str(found)[:40]}",
        remedy="Set it to the largest ID, or read without it: --from-opt bound=ignore",
    )


def group_notes(store: Store, group: Group) -> list[str]:
    """Return notes on defects of a group's metadata that change no token; raise CorruptError for a wrong version."""
    missing = []
    for key in sorted({"", group.split or ""}):
        name = "/".join(filter(None, (key, ".zgroup" if group.zarr_format == 2 else "zarr.json")))
        raw = json_of(store, name)
        if raw is None:
            missing.append(f"{store.root.name}: {name} is missing; zarr does not open the group")
        elif raw.get("zarr_format") != group.zarr_format:
            raise CorruptError(
                store.root / name,
                "has a wrong zarr_format",
                expected=group.zarr_format,
                found=str(raw.get("zarr_format")),
            )
    return missing


class FlatTokensReader(TokenReader):
    """Read one split of a store, or a bare array.

    Opening reads and checks `seq_starts` and keeps it, 8 bytes per sequence. The reader checks every window of tokens:
    its start bits must match `seq_starts`, and no ID may be above `max_token_id`. Chunks have no checksum, so no other
    check can detect a damaged one.

    Args:
        paths: The store.
        options: Split to read, and the defects to accept.
        hints: With `partial`, read a damaged `seq_starts` up to the damage.
        glimpse: Do not read `seq_starts`: return all IDs as one stream, without checks.
    """

    def __init__(self, paths: Sequence[Place], options: ReadOptions, hints: Hints, *, glimpse: bool = False) -> None:
        store, damage = open_store(paths[0], (STARTS,)), tuple[Damage, ...]()
        groups = groups_of(store)
        group = choose(store, groups, options.split)
        fill, notes = options.holes == "fill", list[str]()
        self._array = Array(store, group.key(TOKENS), 4, group.zarr_format, fill=fill, partial=hints.allow_partial)
        self._bound: int | None = None
        self._glimpse, layout = glimpse, self._array.layout
        if glimpse:
            self._offsets = np.array([0, layout.length][: 1 + bool(layout.length)], np.int64)
        else:
            starts = Array(store, group.key(STARTS), 8, group.zarr_format, fill=fill, partial=hints.allow_partial)
            if hints.allow_partial:
                self._offsets, damage = certain_offsets(starts, self._array)
            else:
                self._offsets = checked_offsets(starts, self._array)
            notes = group_notes(store, group)
            notes += [
                f"{len(array.absent):,} of {array.layout.files:,} chunks of {array.key} are not there and read as "
                f"{array.layout.fill}"
                for array in (self._array, starts)
                if fill and len(array.absent)
            ]
            self._bound = max_token_id(store, group) if options.bound == "check" else None
            if layout.big_endian:
                notes.append(f"{store.root.name}: {TOKENS} is big-endian, which seqax refuses")
        self.info = Info(
            layout=Layout.STREAM if glimpse else Layout.DOCUMENTS,
            dtype=U32,
            sequences=len(self._offsets) - 1,
            tokens=int(self._offsets[-1]) if damage else layout.length,
            separators=Separators.NONE,
            notes=tuple(notes),
            split=group.split or "",
            other_splits=tuple(other.split or "" for other in groups if other is not group),
            extras={
                "zarr_format": group.zarr_format,
                "chunk": layout.chunk,
                "codec": " ".join(layout.codecs) or "none",
                "max_token_id": self._bound,
            },
            damage=damage,
        )

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self.info.sequences, "sequences")
        return self._offsets[first : last + 1]

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.info.tokens)
        if stop - start <= WINDOW:
            return self._window(start, stop)
        out = np.empty(stop - start, np.uint32)
        for a, b in windows(start, stop):
            out[a - start : b - start] = self._window(a, b)
        return out

    def _window(self, start: int, stop: int) -> Items:
        """Return the IDs of a window: stored items without their lowest bit, which marks the start of a sequence."""
        items = self._array.read(start, stop)
        if self._glimpse:
            items >>= 1
            return items
        flip_starts(items, self._offsets, start)
        bits, top = 0, -1
        for a in range(0, len(items), _PIECE):
            piece = items[a : a + _PIECE]
            bits |= int(np.bitwise_or.reduce(piece))
            piece >>= 1
            top = max(top, int(piece.max()))
        if bits & 1:
            raise wrong_bits(self._array, self._offsets, start, stop)
        if self._bound is not None and top > self._bound:
            raise above_bound(self._array, items, start, self._bound)
        return items

    def locate(self, position: int) -> ByteOffset:
        check_position(position, self.info.tokens)
        return self._array.byte_offset(position)

    def find(self, place: Place, byte: int) -> int | None:
        return self._array.position(place, byte)

    def close(self) -> None:
        self._array.close()


def checked_offsets(starts: Array, tokens: Array) -> Offsets:
    """Read and check `seq_starts`: int64[sequences + 1].

    Raises:
        FormatError: It does not begin with 0, decreases, does not end at the number of tokens, or is far too large for
            its stored bytes.
    """
    check_memory(starts)
    out = np.empty(starts.layout.length, np.int64)
    for error in starts_errors(starts, tokens.layout.length, out):
        raise error
    return out


def certain_offsets(starts: Array, tokens: Array) -> tuple[Offsets, tuple[Damage, ...]]:
    """Read `seq_starts` up to the first damaged chunk, and report what is lost.

    Raises:
        FormatError: The first entries cannot be read, or contradict the tokens in a way that no cut explains.
    """
    check_memory(starts)
    count, held, failure = starts.layout.length, list[Items](), None
    for a, b in windows(0, count, min(WINDOW, starts.layout.chunk)):
        try:
            held.append(starts.read(a, b))
        except NO_DAMAGE:
            raise
        except FormatError as error:
            failure = error
            break
    if failure is None:
        return checked_offsets(starts, tokens), ()
    found: Offsets = np.concatenate([np.empty(0, np.uint64), *held]).view(np.int64)
    if not len(found) or found[0] or (np.diff(found) < 0).any() or found[-1] > tokens.layout.length:
        raise failure
    lost = tokens.layout.length - int(found[-1])
    return found, (Damage(failure.sentence, count - len(found), lost),)


def check_memory(starts: Array) -> None:
    """Raise UnsafeError if `seq_starts` takes over 1 GiB of memory and over 1,100 times its stored bytes."""
    count = starts.layout.length
    if count * 8 > _STARTS_BYTES and count * 8 > _RATIO * starts.stored_bytes():
        raise UnsafeError(
            starts.path,
            f"would take {count * 8:,} bytes of memory",
            found=f"{starts.stored_bytes():,} bytes stored",
            remedy="Write seq_starts again without a compressor, if it is to be trusted",
        )


def starts_errors(starts: Array, total: int, out: Offsets) -> Iterator[FormatError]:
    """Yield all errors of `seq_starts`, and read it once in windows.

    Args:
        starts: The array.
        total: Number of tokens.
        out: int64 array of the same length; receives the entries.

    Yields:
        CorruptError: No entry, a first entry other than 0, the first decrease with the number of others, a wrong end.
    """
    count, path = starts.layout.length, starts.path
    if not count:
        yield CorruptError(path, "is empty", expected="at least the entry 0", remedy=_COPY)
        return
    last, decreases, first = 0, 0, (0, 0, 0)
    for a, b in windows(0, count):
        window = starts.read(a, b)
        out[a:b] = window.view(np.int64)
        if a == 0 and window[0]:
            yield CorruptError(path, "does not begin with 0", found=int(window[0]), remedy=_COPY)
        before = np.concatenate(([np.uint64(last if a else window[0])], window[:-1]))
        falls = np.flatnonzero(window < before)
        if len(falls) and not decreases:
            at = int(falls[0])
            first = (a + at, int(before[at]), int(window[at]))
        decreases += len(falls)
        last = int(window[-1])
    if decreases:
        yield CorruptError(
            path,
            f"decreases at entry {first[0]:,}" + (f" and {decreases - 1:,} times after" if decreases > 1 else ""),
            expected=f"at least {first[1]:,}",
            found=first[2],
            remedy=_COPY,
        )
    if last != total:
        yield CorruptError(
            path,
            f"does not end at the number of tokens in {TOKENS}",
            expected=total,
            found=last,
            remedy="An append or a copy was interrupted: append or copy again",
        )


def flip_starts(items: Items, offsets: Offsets, start: int) -> None:
    """Flip the start bits of stored items where sequences begin. Every bit that is set afterwards was wrong.

    Args:
        items: Tokens as stored; changed in place.
        offsets: `seq_starts`.
        start: Position of the first item.
    """
    first, last = np.searchsorted(offsets, (start, start + len(items)))
    items[offsets[first:last] - start] ^= 1


def wrong_bits(tokens: Array, offsets: Offsets, start: int, stop: int) -> FormatError:
    """Return the error for the first position of a window whose start bit contradicts `seq_starts`."""
    items = tokens.read(start, stop)
    flip_starts(items, offsets, start)
    wrong = (items & 1).astype(np.bool_)
    if not wrong.any():
        return SourceChangedError.while_read(tokens.path)
    at = start + int(np.argmax(wrong))
    begins = bool(np.searchsorted(offsets, at) < np.searchsorted(offsets, at, side="right"))
    says = "begins" if begins else "does not begin"
    remedy = "The IDs may not be encoded as 2 * ID + start bit, or the chunk is damaged: copy the store again"
    return ContradictionError(
        tokens.path,
        f"contradicts {STARTS}: token {at:,} {says} a sequence, by {STARTS}",
        expected=f"start bit {int(begins)}",
        found=int(not begins),
        remedy=remedy,
    )


def above_bound(tokens: Array, ids: Items, start: int, bound: int) -> FormatError:
    """Return the error for the first ID of a window above `max_token_id`."""
    at = int(np.argmax(ids > bound))
    return ContradictionError(
        tokens.path,
        f"holds an ID above max_token_id at token {start + at:,}",
        expected=f"at most {bound:,}",
        found=int(ids[at]),
        remedy="The chunk is damaged, or max_token_id is too low: --from-opt bound=ignore reads it as it is",
    )


def glimpse(paths: Sequence[Place], options: ReadOptions, hints: Hints) -> FlatTokensReader | None:
    """Return a reader of the IDs of a split without checks; None if it cannot be opened. See `Format.glimpse`."""
    try:
        return FlatTokensReader(paths, options, hints, glimpse=True)
    except TokfmtError:
        return None
