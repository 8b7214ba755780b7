"""Examine a store of flat tokens: its groups, their metadata, and what contradicts the format.

The reader raises the first problem that prevents reading. `check` prints all, and then looks at chunks and tokens.
Metadata are read when a group is examined, and `seq_starts` when its sequences are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial

import numpy as np

from tokfmt.core.findings import Problem, fatal, noted, raise_fatal
from tokfmt.core.ragged import Offsets
from tokfmt.core.reader import INT32_MAX, WINDOW, Damage, windows
from tokfmt.errors import NO_DAMAGE, CorruptError, FormatError, OptionError, UnsafeError
from tokfmt.files.file import natural_key
from tokfmt.files.place import Place
from tokfmt.formats.chunks import Items
from tokfmt.formats.flat_tokens.options import ReadOptions
from tokfmt.formats.zarr_arrays.array import Array, Json
from tokfmt.formats.zarr_arrays.store import Store, json_of, open_store, zarr_format_of

TOKENS, STARTS = "encoded_tokens", "seq_starts"
Metadata = Callable[[str], Json | None]

ITEMS = {TOKENS: "uint32", STARTS: "uint64"}
"""The dtype of each array."""

SEQAX = "Write the store again with tokfmt convert, if seqax is to read it"
_DEFAULT = "train"
_COPY = "Copy the store again"


def code_of(code: str, error: FormatError) -> str:
    """Return the code of the finding of an error: TF410 if it is an UnsafeError, else the given code."""
    return "TF410" if isinstance(error, UnsafeError) else code


@dataclass(frozen=True, slots=True)
class Group:
    """The place of a flat-tokens array: the zarr group of a split, or of a store without splits."""

    split: str | None  # "train", "validation" ...; None for a bare array
    zarr_format: int  # 2 or 3

    def key(self, name: str) -> str:
        """Return the key of a file or array in the group."""
        return f"{self.split}/{name}" if self.split else name


def groups_of(store: Store) -> list[Group]:
    """Return the flat-tokens arrays of a store: one bare array, or the splits in natural order of their names."""
    names, marks, wrong = store.names(""), {TOKENS, STARTS, "tokens"}, {STARTS, "tokens"}
    zarr_format = zarr_format_of(store)
    if names & {TOKENS, STARTS} and names & marks != wrong:
        return [Group(None, zarr_format)]
    groups, example, misnamed = [], "tokens" in names, False
    for child in sorted(names, key=natural_key):
        inside = frozenset() if child.startswith(".") else store.names(child)
        example, misnamed = example or "tokens" in inside, misnamed or inside & marks == wrong
        if inside & {TOKENS, STARTS}:
            groups.append(Group(child, zarr_format))
    if groups and not misnamed:
        return groups
    if example:
        raise CorruptError(
            store.root,
            "holds an array tokens, the name in the documentation's example",
            expected=TOKENS,
            remedy=f"If its IDs are encoded (2 * ID + start bit), rename it to {TOKENS}",
        )
    remedy = "--from array reads arrays of other names"
    raise CorruptError(store.root, f"holds no {TOKENS}, and no split that does", remedy=remedy)


class GroupLayout:
    """A flat-tokens array: what its metadata state, its two arrays, and what is wrong with them.

    Args:
        store: The store.
        json: Returns the JSON object of a key; see `json_of`.
        group: The place of the array.
        options: The defects to accept.

    Attributes:
        array: Returns the array `TOKENS` or `STARTS`, and raises FormatError if its metadata are wrong.
        path: Path of the group, for messages.
        attributes_path: Path of the file that holds its attributes.
    """

    def __init__(self, store: Store, json: Metadata, group: Group, options: ReadOptions) -> None:
        self.store, self.json, self.group, self.options = store, json, group, options
        self.path = self.store.root / group.split if group.split else self.store.root
        self.attributes_path = self.store.root / group.key(".zattrs" if group.zarr_format == 2 else "zarr.json")
        fill, version = options.holes == "fill", group.zarr_format
        # What arrays keep of their chunks is freed with the layout, because its cache does not refer to it.
        self.array = cache(lambda name: Array(store, group.key(name), version, [ITEMS[name]], fill=fill))

    @cached_property
    def attributes(self) -> Json:
        """The attributes of the group; {} if it has none."""
        raw: object = self.json(self.group.key(self.attributes_path.name))
        if self.group.zarr_format == 3 and isinstance(raw, dict):
            raw = raw.get("attributes")
        return raw if isinstance(raw, dict) else {}

    @property
    def bound(self) -> int | None:
        """The upper bound that the group states for its IDs; None if it states no usable one."""
        try:
            stated = self.attributes.get("max_token_id")
        except FormatError:
            return None
        return stated if type(stated) is int and 0 <= stated <= INT32_MAX else None

    @cached_property
    def problems(self) -> Sequence[Problem]:
        """What the metadata and the names of files show."""
        found = [*self._of_groups(), *self._of_bound()]
        if self.group.split is None:
            bare = FormatError(self.path, "is one array without splits; seqax opens train and validation")
            found.append(Problem("TF414", "info", bare))
        for name in (TOKENS, STARTS):
            try:
                array = self.array(name)
            except FormatError as error:
                found.append(fatal(code_of("TF401", error), error))
            else:
                found += self._of_array(array, name)
        return found

    def _of_groups(self) -> Iterator[Problem]:
        """Yield the groups without metadata, which change no token, and a wrong version."""
        for key in sorted({"", self.group.split or ""}):
            name = "/".join(filter(None, (key, ".zgroup" if self.group.zarr_format == 2 else "zarr.json")))
            try:
                raw = self.json(name)
            except FormatError as error:
                yield fatal(code_of("TF403", error), error)
                return
            if raw is None:
                note = f"{self.store.root.name}: {name} is missing; zarr does not open the group"
                yield noted("TF413", FormatError(self.path, note, remedy=SEQAX), note)._replace(severity="warning")
            elif raw.get("zarr_format") != self.group.zarr_format:
                where, stated = self.store.root / name, str(raw.get("zarr_format"))
                what, expected = "has a wrong zarr_format", self.group.zarr_format
                yield fatal("TF403", CorruptError(where, what, expected=expected, found=stated))
                return

    def _of_bound(self) -> Iterator[Problem]:
        """Yield the problem of a bound that is missing, or not a whole number from 0 to 2^31-1."""
        if self.bound is not None:
            return
        try:
            stated = self.attributes.get("max_token_id")
        except FormatError as error:
            yield fatal(code_of("TF403", error), error)
            return
        unusable = CorruptError(
            self.attributes_path,
            "has no usable max_token_id",
            expected=f"a whole number from 0 to {INT32_MAX:,}",
            found="nothing" if stated is None else f"{type(stated).__name__} {str(stated)[:40]}",
            remedy="Set it to the largest ID, or read without it: --from-opt bound=ignore",
        )
        yield Problem("TF403", "error", unusable, is_fatal=self.options.bound == "check")

    def _of_array(self, array: Array, name: str) -> Iterator[Problem]:
        """Yield the byte order of an array, and its absent and extra files."""
        layout = array.layout
        if layout.dtype.byteorder == ">":
            error = FormatError(array.path, "is big-endian, which seqax refuses", remedy=SEQAX)
            note = f"{self.store.root.name}: {TOKENS} is big-endian, which seqax refuses" * (name == TOKENS)
            yield noted("TF402", error, note)
        hole = array.map.hole
        if hole is not None and layout.fill is None:
            yield fatal("TF401", hole, is_truncated=True)
        elif hole is not None and not array.map.fill:
            yield fatal("TF408", hole, is_truncated=True)
        elif hole is not None:
            absent = f"{len(array.map.absent):,} of {array.map.files:,} chunks of {array.key}"
            note = f"{absent} are not there and read as {layout.fill}"
            yield noted("TF408", hole, note)._replace(severity="warning")
        if len(array.map.extra):
            extra = array.map.extra
            beyond = f"holds {len(extra):,} chunk files beyond its shape (first: {int(extra[0]):,}), which"
            yield Problem("TF412", "info", FormatError(array.path, f"{beyond} no reader reads", remedy="Remove them"))

    def offsets(self) -> Offsets:
        """Read and check `seq_starts`: int64[sequences + 1]."""
        offsets, problems = self.examined_offsets(self.array(STARTS))
        raise_fatal(problems, frozenset())
        return offsets

    def examined_offsets(self, starts: Array) -> tuple[Offsets, list[Problem]]:
        """Read `seq_starts` once, and return it with its problems. With one, the offsets are not valid.

        Problems are that it is far too large for its stored bytes or cannot be read, does not begin with 0, decreases,
        or does not end at the number of tokens.
        """
        total = self.array(TOKENS).layout.length
        problems = list[Problem]()
        try:
            starts.check_memory()
            offsets = np.empty(starts.layout.length, np.int64)
            problems += (fatal("TF404", error) for error in _starts_errors(starts, total, offsets))
        except FormatError as error:
            offsets = np.empty(0, np.int64)
            problems.append(fatal(code_of("TF409", error), error))
        return offsets, problems

    def certain_offsets(self) -> tuple[Offsets, tuple[Damage, ...]]:
        """Read `seq_starts` up to the first damaged chunk, and report what is lost."""
        starts, total = self.array(STARTS), self.array(TOKENS).layout.length
        starts.check_memory()
        count, read, failure = starts.layout.length, list[Items](), None
        for a, b in windows(0, count, min(WINDOW, starts.layout.items)):
            try:
                read.append(starts.read(a, b))
            except NO_DAMAGE:
                raise
            except FormatError as error:
                failure = error
                break
        if failure is None:
            return self.offsets(), ()
        certain: Offsets = np.concatenate([np.empty(0, np.uint64), *read]).view(np.int64)
        if not len(certain) or certain[0] or (np.diff(certain) < 0).any() or certain[-1] > total:
            raise failure
        lost = Damage(failure.sentence, count - len(certain), total - int(certain[-1]), at_end=True)
        return certain, (lost,)


def _starts_errors(starts: Array, total: int, out: Offsets) -> Iterator[FormatError]:
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


class StoreLayout:
    """An examined store: its groups, and what is wrong with the store itself.

    Attributes:
        path: The store, as given.
        store: None if it cannot be opened.
        groups: Its flat-tokens arrays; without one, a problem says why.
        problems: What is wrong with the store itself; each group has its own.
    """

    def __init__(self, path: Place, options: ReadOptions) -> None:
        self.path, self.options = path, options
        self.store: Store | None = None
        self.groups: list[Group] = []
        self.problems: list[Problem] = []
        self._json: Metadata | None = None
        self._of = dict[Group, GroupLayout]()
        try:
            self.store = open_store(path, (STARTS,))
            self.groups = groups_of(self.store)
        except FormatError as error:
            self.problems.append(fatal(code_of("TF401", error), error))
        if self.groups and not path.is_dir():
            what = "is a zip: zarr 3 opens it only as a ZipStore, seqax not at all"
            self.problems.append(Problem("TF417", "info", FormatError(path, what, remedy="Unpack it for seqax")))

    def of(self, group: Group) -> GroupLayout:
        """Examine a group, once. Each JSON file of the store is read once."""
        if self.store is None:
            raise self.problems[0].error
        if self._json is None:
            self._json = cache(partial(json_of, self.store))
        if group not in self._of:
            self._of[group] = GroupLayout(self.store, self._json, group, self.options)
        return self._of[group]

    def wanted(self) -> list[GroupLayout]:
        """Examine the group that the option `split` names, or all groups."""
        return [self.of(group) for group in self.groups if self.options.split in (None, group.split)]

    def chosen(self) -> Group:
        """Return the group of the option `split`; by default the only one, or "train".

        Raises:
            FormatError: The store has no group.
            OptionError: The store lacks the split, or has several and none of them is "train".
        """
        raise_fatal(self.problems, frozenset())
        groups, split = self.groups, self.options.split
        splits = [group.split for group in groups if group.split]
        listed = ", ".join(splits)
        if not splits:
            if split is not None:
                raise OptionError(f"{self.path}: is one array without splits. Leave out --split {split}", name=split)
            return groups[0]
        if split is None and len(groups) > 1 and _DEFAULT not in splits:
            raise OptionError(f"{self.path}: has several splits ({listed}). Choose one with --split NAME")
        wanted = split or (_DEFAULT if len(groups) > 1 else splits[0])
        if wanted not in splits:
            raise OptionError(f"{self.path}: has no split {wanted!r} (found {listed})", name=wanted)
        return groups[splits.index(wanted)]
