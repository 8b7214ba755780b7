"""The base of formats of folders of shards that `index.json` lists: LitData and MosaicML streaming (MDS).

    index.json  the shards, in order: name, bytes, items, compression
    shard       u32 little-endian: N items; u32[N + 1]: byte offset of each item, and the size; perhaps more; the items

A compressed shard is one stream of all these bytes. Sizes and byte offsets are those of the decompressed shard.

Opening a dataset reads at most the byte offsets of items. If the index states the lengths of items, opening reads no
shard. When a shard is first read, its items are compared with the index, and its file with its hashes. For a command
that reads few sequences, only the items that it reads are compared, if the shard is large and not compressed. The same
holds for the look at the ends of sequences that infers the separator.
"""

from __future__ import annotations

import hashlib
import json
import os
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.annotation import shown
from tokfmt.core.findings import Audit, Finding, Problem, fatal
from tokfmt.core.format import Hints, Receipt, Region, Target, WriterTraits
from tokfmt.core.loss_mask import COUNTING, LABELS, LOSS_MASK, MASK_OPTION
from tokfmt.core.output import Output
from tokfmt.core.ragged import Offsets, offsets_of
from tokfmt.core.reader import Damage, Separators, TokenReader, check_ids, windows
from tokfmt.core.scattered import Scattered
from tokfmt.errors import NO_DAMAGE, ConversionError, CorruptError, FormatError, UnsupportedError
from tokfmt.files.fields import Section
from tokfmt.files.file import File, open_file
from tokfmt.files.place import Place
from tokfmt.files.side_by_side import side_by_side
from tokfmt.formats.flat import Column, Cut, Extent, FileLayout, FlatFormat, FlatInspection, FlatWriter, Pieces
from tokfmt.formats.folders import LARGEST, Packed, begin_of, compressor, decoding_limit, digest, inside
from tokfmt.formats.row_reader import ExtentRows, StoredColumn, StoredRows
from tokfmt.wording import counted, printable

INDEX = "index.json"
_ITEMS = 1 << 20  # byte offsets of items per write
_HASHED = 1 << 28  # bytes of shards up to which `check` compares hashes without --deep
_LONG = 1 << 20  # bytes above which a shard is not read whole for a few of its items
_HEAD = 16  # bytes of an item that hold the sizes of a few columns, the dtype and the shape
_TOGETHER = 1 << 18  # items whose heads are taken at a time
_SPAN, _FAR = 1 << 23, 1 << 12  # bytes per read; bytes between items above which each item is read alone


@dataclass(frozen=True, slots=True)
class Form:
    """A form in which a shard may be stored: one file, plain or compressed."""

    name: object  # the name in the index; not validated
    codec: str = ""  # CODEC or CODEC:LEVEL; "" if the file is not compressed
    hashes: Mapping[str, str] = field(default_factory=dict)  # the hashes of the file, by their kind


@dataclass(frozen=True, slots=True)
class Listed:
    """The entry of a shard in the index."""

    forms: Sequence[Form]  # the files that may hold the shard; the first that exists is read
    size: int  # the decompressed size in bytes
    count: int  # the number of items
    about: Any = None  # More that the format needs to find IDs in items. Picklable.
    # the name of each column that is read with the IDs, and the same for its values
    beside: Sequence[tuple[str, Any]] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """The content of an index. An invalid entry is a problem; the other attributes are as in `FileLayout`."""

    shards: Sequence[Listed | Problem]
    problems: Sequence[Problem] = ()
    notes: tuple[str, ...] = ()
    extras: Mapping[str, object] = field(default_factory=dict)
    loss_masks: str = ""


class Ids(NamedTuple):
    """The byte offsets and lengths of the IDs of each item of a shard."""

    byte_offsets: Offsets | None  # int64[items], the byte offset of the IDs of each item; None if not looked up yet
    lengths: Offsets  # int64[items], their lengths in bytes
    dtype: np.dtype[Any]  # the dtype of an ID


class Looked(NamedTuple):
    """A shard that was looked at."""

    extent: Extent  # its IDs
    lengths: NDArray[np.uint32]  # the number of IDs of each item
    sections: list[Section]  # the sections for `show --raw`
    rows: StoredRows | None = None  # its IDs with the columns beside them; None if no column is read


def loss_masks_of(read: Sequence[str], names: Sequence[object], choice: str | None, item: str) -> str:
    """Return the words of `Listing.loss_masks`; "loss_mask" is not read if no option states what it speaks of."""
    read = [name for name in read if name in COUNTING]
    unread = [f'"{LOSS_MASK}": {MASK_OPTION}'] if LOSS_MASK in names and choice is None else []
    listed = [*([", ".join(read)] if read else []), *unread]
    return f"loss masks of its {item}s ({'; '.join(listed)})" if listed else ""


class Values(Scattered):
    """A virtual file of the IDs of one shard, item after item. Reads fetch the bytes from the shard."""

    def __init__(
        self, shard: File, ids: Ids, find: Callable[..., Ids], hashes: Mapping[str, str], *, few: bool = False
    ) -> None:
        super().__init__(shard)
        self.find, self.hashes, self.few, self._byte_offsets = find, hashes, few, ids.byte_offsets
        self.bounds = offsets_of(ids.lengths)

    def for_look(self) -> Values:
        """See `File.for_look`. Of the items of a large shard, only those that are read are compared with the index."""
        found = cast("Values", super().for_look())
        found.hashes, found.few = {}, self.below.is_plain and self.below.size > _LONG
        return found

    @property
    def size(self) -> int:
        return int(self.bounds[-1])

    @property
    def byte_offsets(self) -> Offsets:
        """int64[items], the byte offset in the shard of the IDs of each item."""
        return self._looked_up(0, len(self.bounds) - 1)

    def _looked_up(self, first: int, last: int) -> Offsets:
        """Return the byte offsets of some items, each of which is compared once. -1 stands for others."""
        if self._byte_offsets is None:
            self._byte_offsets = np.full(len(self.bounds) - 1, -1, np.int64)
        if (self._byte_offsets[first:last] < 0).any():
            found = self.find(self.below, first, last)
            lengths = np.diff(self.bounds[first : last + 1])
            if found.byte_offsets is None or not np.array_equal(found.lengths, lengths):
                raise CorruptError(self.path, "the lengths of items differ from the index or the heads of the items")
            self._byte_offsets[first:last] = found.byte_offsets
        return self._byte_offsets[first:last]

    def intervals(self, start: int, stop: int) -> tuple[Offsets, Offsets]:
        first = int(np.searchsorted(self.bounds, start, side="right")) - 1
        last = int(np.searchsorted(self.bounds, stop))
        bounds = np.clip(self.bounds[first : last + 1], start, stop)
        byte_offsets = self._looked_up(first, last) if self.few else self.byte_offsets[first:last]
        starts = byte_offsets + bounds[:-1] - self.bounds[first:last]
        return starts, starts + np.diff(bounds)

    def from_stored_offset(self, offset: int) -> int | None:
        k = int(np.searchsorted(self.byte_offsets, offset, side="right")) - 1
        if not self.below.is_plain or k < 0:
            return None
        at = int(self.bounds[k]) + offset - int(self.byte_offsets[k])
        return at if at < int(self.bounds[k + 1]) else None

    def read_into(self, offset: int, buffer: memoryview) -> None:
        self.verify()
        super().read_into(offset, buffer)

    def verify(self) -> None:
        """Compare the file with its hashes, once."""
        for kind, stated in self.hashes.items():
            found = digest(open_file(self.path), kind)
            if found and found != stated:
                remedy = "Copy it again; --from-opt hashes=ignore reads it as it is"
                raise CorruptError(self.path, f"does not fit its {kind}", expected=stated, found=found, remedy=remedy)
        self.hashes = {}


class ShardInspection(FlatInspection):
    """The inspection of such a folder."""

    format: ShardFormat

    def look(self, how: Audit) -> Iterator[Finding]:
        """See `Inspection.look`. Hashes are compared last; without `how.deep`, only up to 256 MiB of shards."""
        virtual = [extent.file for extent in self.layout.extents if isinstance(extent.file, Values)]
        hashes = [file.hashes for file in virtual]
        for file in virtual:  # Else the first read would compare them.
            file.hashes = {}
        wrong = list(self._of_items()) if not self.is_fatal else []
        yield from wrong or super().look(how)
        for file, stated in zip(virtual, hashes, strict=True):
            file.hashes = stated
        if how.deep or sum(file.identity.size for file in virtual if file.hashes) <= _HASHED:
            for file in virtual:
                try:
                    file.verify()
                except FormatError as error:
                    yield Finding.of(self.format.wrong_hash, error)

    def _of_items(self) -> Iterator[Finding]:
        """Yield a finding for each shard that does not decode, or whose items have other lengths than the index states.

        Opening leaves both until tokens are read.
        """
        for extent in self.layout.extents:
            file, code = extent.file, self.format.wrong_size
            below = file.below if isinstance(file, Values) else file
            try:
                if isinstance(below, Packed):
                    below.read(0, 0)  # decodes all of it
                code = self.format.wrong_items
                if isinstance(file, Values):
                    file.byte_offsets  # noqa: B018 - looks them up
            except FormatError as error:
                yield Finding.of(self.format.unreadable if isinstance(error, UnsupportedError) else code, error)


class ShardFormat(FlatFormat):
    """The base of formats of such folders. It defines `examine`; a subclass defines `listing` and `ids`.

    Attributes that a format states:
        shard, item: Upstream's words for them, for messages: "chunk", "item".
        wrong_name: Code for a name that leaves the folder.
        missing: Code for a shard that does not exist.
        wrong_size: Code for a shard whose size differs from the index.
        wrong_items: Code for items that contradict the index.
        wrong_hash: Code for a shard that does not fit its hash; "" if the index has no hashes.
    """

    member, inspection, describes_tokens = INDEX, ShardInspection, True
    entries = (INDEX,)
    shard: ClassVar[str]
    item: ClassVar[str]
    wrong_name: ClassVar[str]
    missing: ClassVar[str]
    wrong_size: ClassVar[str]
    wrong_items: ClassVar[str]
    wrong_hash: ClassVar[str] = ""

    @abstractmethod
    def listing(self, path: Place, options: Any) -> Listing:
        """Return the content of the index at `path`."""

    @abstractmethod
    def ids(self, one: Listed, heads: Heads) -> Ids:
        """Return the byte offsets and lengths of the IDs in items of a shard, whose offsets are valid."""

    def rows(self, one: Listed, file: File, ids: Ids, hashes: Mapping[str, str]) -> StoredRows | None:  # noqa: ARG002
        """Return the rows of a shard whose IDs are not in an extent; else None. The arguments are those of `looked`."""
        return None

    def contradictions(self, one: Listed, path: Place, tokens: int) -> Iterator[Problem]:  # noqa: ARG002 - nothing
        """Yield contradictions between the index and a shard of `tokens` tokens that do not prevent reading."""
        yield from ()

    def files(self, path: Place) -> list[Place]:
        """See `Format.files`. Of a folder on a web server, which lists no files, the index does."""
        if path.is_dir() or not (path / INDEX).is_file():
            return super().files(path)
        found = [path / INDEX]
        with suppress(FormatError):  # The reader reports it.
            shards = self.listing(path / INDEX, self.read_options()).shards
            for forms in [shard.forms for shard in shards if isinstance(shard, Listed)]:
                places = [inside(path, form.name) for form in forms]
                found += [place for place in places if place.is_file()][:1]
        return list(dict.fromkeys(found))

    def known_lengths(self, one: Listed, file: File) -> Ids | None:  # noqa: ARG002 - nothing
        """Return the lengths of the IDs of a shard if they are known without reading all items, else None.

        The first read of the shard compares these lengths with the items.
        """
        return None

    def examine(self, paths: Sequence[Place], options: Any, hints: Hints) -> FileLayout:
        few = hints.few_sequences and not hints.allow_partial
        return self._laid(paths[0], options, hints, few=few)

    def located(self, path: Place, options: Any) -> tuple[Place, Listing]:
        """Return the folder that the names of an index are relative to, and what the index lists."""
        return path, self.listing(path / INDEX, options)

    def _laid(self, path: Place, options: Any, hints: Hints, *, few: bool) -> FileLayout:
        folder, listing = self.located(path, options)
        if "loss-mask" in hints.allow_loss:
            shards = [shard if isinstance(shard, Problem) else _unmasked(shard) for shard in listing.shards]
            listing = replace(listing, shards=shards)
        listed = [form.name for shard in listing.shards if isinstance(shard, Listed) for form in shard.forms]
        own = set(map(str, listed))
        files = [file for file in self.files(path) if file.name != INDEX]
        spare = [file for file in files if str(file.relative(folder)) not in own]
        notes = [*listing.notes]
        if spare:
            names = ", ".join(shown(file.name) for file in spare[:3]) + " ..." * (len(spare) > 3)
            are = "is" if len(spare) == 1 else "are"
            notes.append(f"{counted(len(spare), self.shard)} {are} not in index.json, and not read: {names}")
        if len(set(map(str, listed))) < len(listed):
            notes.append(f"index.json lists a {self.shard} more than once: it is read as often")
        damage = list[Damage]()
        looks: list[Looked | Problem | None] = list(
            side_by_side(
                lambda one: one if isinstance(one, Problem) else self._look(folder, one, spare, few=few),
                listing.shards,
                are_stored=not folder.is_local,
            )
        )
        odd = [
            problem
            for one, look in zip(listing.shards, looks, strict=True)
            if isinstance(one, Listed) and look is not None and not isinstance(look, Problem)
            for problem in self.contradictions(one, look.extent.file.path, int(look.lengths.sum()))
        ]
        if hints.allow_partial:
            looks = [self._certain(folder, one, look, damage) for one, look in zip(listing.shards, looks, strict=True)]
        found = [look for look in looks if look is not None and not isinstance(look, Problem)]
        if unread := sum(isinstance(look.extent.file, Values) and look.extent.file.few for look in found):
            of = counted(unread, self.shard)
            notes.append(f"of {of}, only what was needed was compared; tokfmt check --deep compares all, and hashes")
        has_columns = any(look.rows for look in found)
        rows = [look.rows or _without_columns(look, self.item) for look in found] if has_columns else []
        starts = np.concatenate([np.zeros(1, np.int64), *(look.lengths for look in found)], dtype=np.int64)
        return FileLayout(
            extents=[look.extent for look in found],
            rows=rows,
            starts=np.cumsum(starts, out=starts),
            separators=Separators.TRAILING,
            problems=[*(look for look in looks if isinstance(look, Problem)), *odd, *listing.problems],
            sections=[section for look in found for section in look.sections],
            notes=tuple(notes),
            loss_masks=listing.loss_masks,
            extras=listing.extras,
            damage=tuple(damage),
        )

    def _certain(
        self, folder: Place, one: Listed | Problem, look: Looked | Problem | None, damage: list[Damage]
    ) -> Looked | Problem | None:
        """Return the items of a damaged shard that are complete, and add its damage; None if no item is certain."""
        if isinstance(one, Problem) or not isinstance(look, Problem) or isinstance(look.error, NO_DAMAGE):
            return look
        paths = [inside(folder, form.name) for form in one.forms if not form.codec]
        file = next((open_file(path) for path in paths if path.is_file()), None)
        lost, kept = one.count, cast("Looked | None", None)
        if file is not None and file.size < one.size:
            with suppress(FormatError):
                table = self.table(one, file)
                heads = Heads(file, table[: int(np.searchsorted(table, file.size, side="right"))])
                kept = self.looked(one, file, self.ids(one, heads), {}, heads)
                lost = one.count - len(kept.lengths)
        damage.append(Damage(look.error.sentence, lost))
        return kept

    def _look(self, folder: Place, one: Listed, spare: Sequence[Place], *, few: bool) -> Looked | Problem:
        """Return the IDs of a shard, the number of IDs per item, and sections; or the problem of the shard."""
        code = self.wrong_name
        try:
            forms = [(inside(folder, form.name), form) for form in one.forms]
            code = self.missing
            path, form = next((each for each in forms if each[0].exists()), forms[-1])
            if not path.exists():
                raise _missing(path, spare)
            file = open_file(path)
            code = self.wrong_size
            if form.codec:
                file = Packed(path, form.codec.split(":")[0], one.size)
            self._check_size(file, one)
            code = self.wrong_items
            known = self.known_lengths(one, file)
            few = few and known is not None and not form.codec and one.size > _LONG and not one.beside
            heads = Heads(file, self.table(one, file)) if known is None or one.beside else None
            ids = known or self._found(one, cast("Heads", heads))
            looked = self.looked(one, file, ids, {} if few else form.hashes, heads, few=few)
        except UnsupportedError:
            raise
        except FormatError as error:
            return fatal(code, error)
        sections: list[Section] = (
            [Column(f"offsets in {path.name}", file, 4, "<u4", one.count + 1)] if file.is_plain else []
        )
        return looked._replace(sections=sections)

    def looked(
        self, one: Listed, file: File, ids: Ids, hashes: Mapping[str, str], heads: Heads | None, *, few: bool = False
    ) -> Looked:
        """Return the IDs of a shard, with the columns beside them, which `heads` are for."""
        if (own := self.rows(one, file, ids, hashes)) is not None:
            return Looked(Extent(file, 0, 0, own.dtype), np.zeros(len(ids.lengths), np.uint32), [], own)
        lengths = (ids.lengths // ids.dtype.itemsize).astype(np.uint32)  # a shard's offsets are u32
        extent = _extent(file, ids, partial(self.find, one), hashes, few=few)
        beside = dict[str, StoredColumn]()
        for name, about in one.beside:
            of = replace(one, about=about)
            column = self._found(of, cast("Heads", heads))
            bounds = offsets_of(column.lengths // column.dtype.itemsize)
            beside[name] = StoredColumn(_extent(file, column, partial(self.find, of), {}), bounds)
        rows = ExtentRows(StoredColumn(extent, offsets_of(lengths)), beside, self.item) if beside else None
        return Looked(extent, lengths, [], rows)

    def _check_size(self, file: File, one: Listed) -> None:
        if file.size != one.size:
            what, remedy = f"bytes of the {self.shard}", "Copy it again"
            raise CorruptError(file.path, what, expected=one.size, found=file.size, remedy=remedy)
        if 4 * (one.count + 2) > one.size:
            what, expected = f"is too short for its {self.item}s", f"{one.count:,} offsets"
            raise CorruptError(file.path, what, expected=expected, found=f"{one.size:,} bytes")

    def table(self, one: Listed, file: File, first: int = 0, last: int | None = None) -> Offsets:
        """Return int64[items + 1]: the byte offset of each item from `first` to `last` (default: all), and the end."""
        begin, last = 4 * (one.count + 2), one.count if last is None else last
        table = np.frombuffer(begin_of(file, 4 * first, 4 * (last - first + 2)), "<u4").astype(np.int64)
        count, table = one.count if first else table[0], table[1:]
        ends = table[-1] == one.size if last == one.count else table[-1] <= one.size
        if count != one.count or table[0] < begin or not ends or (np.diff(table) < 0).any():
            expected = f"{one.count:,} {self.item}s from byte {begin:,} to {one.size:,}"
            order = ", not in order" if (np.diff(table) < 0).any() else ""
            found = f"{count:,} {self.item}s from {table[0]:,} to {table[-1]:,}{order}"
            raise CorruptError(file.path, f"offsets of {self.item}s", offset=0, expected=expected, found=found)
        return table

    def find(self, one: Listed, file: File, first: int = 0, last: int | None = None) -> Ids:
        """Return the byte offsets and lengths of the IDs of items `first <= i < last` (default: all), from the items of
        the shard.
        """
        return self._found(one, Heads(file, self.table(one, file, first, last)), first)

    def _found(self, one: Listed, heads: Heads, first: int = 0) -> Ids:
        ids = self.ids(one, heads)
        wrong = np.flatnonzero(ids.lengths % ids.dtype.itemsize)
        if len(wrong) and ids.byte_offsets is not None:
            what = f"the IDs of {self.item} {first + int(wrong[0]):,} end inside an ID of {ids.dtype.itemsize} bytes"
            raise CorruptError(heads.file.path, what, offset=int(ids.byte_offsets[wrong[0]]))
        return ids


def _unmasked(one: Listed) -> Listed:
    """Return a shard without its labels and masks; labels stay if they may show padding."""
    others = [each for each in one.beside if each[0] not in COUNTING]
    return replace(one, beside=[*others, *(each for each in one.beside if others and each[0] == LABELS)])


def _without_columns(look: Looked, item: str) -> StoredRows:
    return ExtentRows(StoredColumn(look.extent, offsets_of(look.lengths)), {}, item)


def _missing(path: Place, spare: Sequence[Place]) -> CorruptError:
    """Return the error of a shard that is not there. Of several folders that were merged, another one may hold it."""
    elsewhere = [file for file in spare if file.name == path.name]
    if not elsewhere:
        return CorruptError(path, "is missing", remedy="Copy the folder again")
    folders = ", ".join(printable(file.parent.name) for file in elsewhere[:3])
    what = f"is not where {INDEX} lists it; a file of that name is in {folders}"
    return CorruptError(path, what, remedy=f"Correct {INDEX}: upstream's merge_index writes names with their folders")


class Heads:
    """The first bytes of each item of a shard, which one pass over the shard reads, and the offsets of the items."""

    def __init__(self, file: File, table: Offsets) -> None:
        self.file, self.table, self.begins = file, table, table[:-1]

    @cached_property
    def _known(self) -> NDArray[np.uint8]:
        return gathered(self.file, self.begins[self.begins + _HEAD <= self.file.size], _HEAD)

    def take(self, byte_offsets: Offsets, width: int, items: NDArray[np.intp] | None = None) -> NDArray[np.uint8]:
        """Return uint8[n, width]: `width` bytes from a byte offset in each item, or in those numbered in `items`,
        ascending. Others than heads are read one by one.
        """
        items = np.arange(len(self.begins)) if items is None else items
        found = np.empty((len(items), width), np.uint8)
        for first in range(0, len(items), _TOGETHER):
            some = slice(first, first + _TOGETHER)
            found[some] = self._some(byte_offsets[some], width, items[some])
        return found

    def _some(self, byte_offsets: Offsets, width: int, items: NDArray[np.intp]) -> NDArray[np.uint8]:
        within = byte_offsets - self.begins[items]
        held = (items < len(self._known)) & (within + width <= _HEAD)
        found = np.empty((len(items), width), np.uint8)
        found[held] = self._known[items[held, None], within[held, None] + np.arange(width)]
        found[~held] = gathered(self.file, byte_offsets[~held], width)
        return found


def gathered(file: File, byte_offsets: Offsets, width: int) -> NDArray[np.uint8]:
    """Return uint8[n, width]: `width` bytes from each byte offset in `byte_offsets`, which ascend."""
    found, k = np.zeros((len(byte_offsets), width), np.uint8), 0
    while k < len(byte_offsets) and width:
        near = int(np.searchsorted(byte_offsets, byte_offsets[k] + _SPAN, side="right"))
        span = int(byte_offsets[near - 1] - byte_offsets[k]) + width
        if span > (near - k) * _FAR:
            near, span = k + 1, width
        raw = file.array(int(byte_offsets[k]), span, "u1")
        found[k:near] = raw[(byte_offsets[k:near] - byte_offsets[k])[:, None] + np.arange(width)]
        k = near
    return found


def _extent(file: File, ids: Ids, find: Callable[..., Ids], hashes: Mapping[str, str], *, few: bool = False) -> Extent:
    """Return the extent of the IDs of a shard.

    If the IDs of all items are contiguous and no hash is to be compared, the extent is in the shard itself, so that
    bytes can be copied. Else it is in a virtual file (`Values`).
    """
    width, byte_offsets, bounds = ids.dtype.itemsize, ids.byte_offsets, offsets_of(ids.lengths)
    if byte_offsets is not None and not hashes and np.array_equal(byte_offsets - byte_offsets[:1], bounds[:-1]):
        return Extent(file, int(byte_offsets[:1].sum()), int(bounds[-1]) // width, ids.dtype)
    return Extent(Values(file, ids, find, hashes, few=few), 0, int(bounds[-1]) // width, ids.dtype)


class Written(NamedTuple):
    """A shard that was written.

    Attributes:
        size, hashes: The size in bytes and the hashes of its decompressed content.
        stored, stored_hashes: The size in bytes and the hashes of its file.
    """

    cut: Cut  # the tokens and sequences in it
    name: str  # the name of its file
    size: int
    hashes: Mapping[str, str]
    stored: int
    stored_hashes: Mapping[str, str]


class ShardWriter(FlatWriter):
    """The base of writers of such folders: shards of whole documents, compressed one by one, and last the index.

    Besides the methods of `FlatWriter`, a subclass defines `name` and `described`. If an item holds more than IDs, it
    also defines `head` and `heads`.
    """

    separators, whole, needs_max_id, folder = Separators.TRAILING, True, True, True
    head: ClassVar[int] = 0  # number of bytes before the IDs of each item
    codecs: ClassVar[Sequence[str]]  # the codecs that upstream reads
    hashed: Sequence[str] = ()  # Kinds of hashes that the index states

    def __init__(self, path: Path, options: Any, target: Target) -> None:
        super().__init__(path, options, target)
        self.codec: str = "" if options.compression == "none" else options.compression
        self._packed: Mapping[int, Mapping[str, str]] = {}
        self._finished: dict[int, list[Any]] = {}

    def minimum_bytes(self, source: TokenReader) -> int | None:
        return None if self.codec else super().minimum_bytes(source)

    @classmethod
    def traits(cls, options: Any) -> WriterTraits:
        if options.compression != "none":
            compressor(options.compression, cls.codecs, 0)
        return replace(super().traits(options), file_suffixes=())

    @abstractmethod
    def name(self, number: int, codec: str) -> str:
        """Return the file name of shard `number`; `codec` is "" if it is not compressed."""

    @abstractmethod
    def described(self, shards: Sequence[Written], dtype: np.dtype[Any]) -> Mapping[str, object]:
        """Return the content of index.json."""

    def heads(self, lengths: Offsets, dtype: np.dtype[Any]) -> NDArray[np.uint8]:  # noqa: ARG002 - none
        """Return uint8[items, head]: the bytes before the IDs of items, given their numbers of IDs."""
        return np.zeros((len(lengths), 0), np.uint8)

    finishes_files = True

    def finish_files(self, source: TokenReader, regions: Sequence[Region], receipts: Sequence[Receipt]) -> object:
        """Complete a shard, and return [its number, hashes of its content, size and hashes of its file]."""
        dtype = self._dtype(source)
        cut = self.cut_at(source, regions[0].tokens.start)
        packed: dict[int, Mapping[str, str]] = dict(receipt.details for receipt in receipts if receipt.details)
        if not self.codec:
            with Output(self.file(cut.number)) as out:
                for at, content in self._beginning_and_end(source, dtype, cut):
                    out.write(at, content)
        facts = self._facts(cut, packed.get(cut.number))
        self.recall_files(facts)
        return facts

    def recall_files(self, facts: object) -> None:
        number, *rest = cast("list[Any]", facts)
        self._finished[number] = rest

    def _facts(self, cut: Cut, hashes: Mapping[str, str] | None) -> list[Any]:
        """Return the facts of a complete shard; see `finish_files`."""
        file = open_file(self.file(cut.number))
        own = {kind: digest(file, kind) for kind in self.hashed}
        file.close()
        return [cut.number, dict(own if hashes is None else hashes), file.size, own]

    def _beginning_and_end(self, stored: TokenReader, dtype: np.dtype[Any], cut: Cut) -> Iterator[tuple[int, bytes]]:
        """Yield what no region writes to a shard: byte offsets of items, empty items at the end, and last the count."""
        empty = self._empty(stored, dtype, cut)
        yield from self._offset_table(stored, dtype, cut)
        yield self._size(cut, dtype) - len(empty), empty
        # Last, as `commit` removes a file whose first piece begins at byte 0.
        yield 0, (cut.last - cut.first).to_bytes(4, "little")

    @property
    def max_bytes(self) -> int:  # type: ignore[override]
        return LARGEST if self.codec else (1 << 32) - 1

    def file(self, number: int) -> Path:
        return self.path / self.name(number, self.codec)

    def begins(self, cut: Cut) -> int:
        return 4 * (cut.last - cut.first + 2) + self.head * (cut.last - cut.first)

    def regions(self, source: TokenReader, size: int) -> Sequence[Region]:
        return super().regions(source, self.max_bytes if self.codec else size)  # A compressed shard is one region.

    def write(self, region: Region, source: TokenReader) -> Receipt:
        if not self.codec and not self.head:
            return super().write(region, source)
        dtype = self._dtype(source)
        cut = self.cut_at(source, region.tokens.start)
        with Output(self.file(cut.number)) as out:
            if self.codec:
                top, details = self._pack(out, source, dtype, cut)
                return Receipt(region.index, top, out.written, details)
            top = -1
            for at, content, largest in self._items(source, dtype, cut, region.tokens):
                out.write(at, content)
                top = max(top, largest)
        return Receipt(region.index, top, out.written)

    def _items(
        self, stored: TokenReader, dtype: np.dtype[Any], cut: Cut, tokens: range
    ) -> Iterator[tuple[int, NDArray[np.uint8], int]]:
        """Yield windows of items: byte offset, content, largest ID. The head of an item goes with its first ID."""
        limit, begin = int(np.iinfo(dtype).max), self.begins(cut) - self.head * (cut.last - cut.first)
        for a, b in windows(tokens.start, tokens.stop):
            ids = stored.tokens(a, b)
            top = check_ids(ids, limit, a, self.path.name, self.remedy(dtype))
            first, last = (_first_from(stored, at, cut) for at in (a, b))
            bounds = stored.offsets(first, last)
            heads = self.heads(np.diff(bounds), dtype)
            content = np.empty(heads.size + (b - a) * dtype.itemsize, np.uint8)
            free = np.ones(len(content), np.bool_)
            byte_offsets = (bounds[:-1] - a) * dtype.itemsize + self.head * np.arange(last - first)
            at = byte_offsets[:, None] + np.arange(self.head)
            content[at], free[at] = heads, False
            content[free] = ids.astype(dtype, copy=False).view(np.uint8)
            yield begin + self.head * (first - cut.first) + (a - cut.start) * dtype.itemsize, content, top

    def _offset_table(self, stored: TokenReader, dtype: np.dtype[Any], cut: Cut) -> Iterator[tuple[int, bytes]]:
        """Yield the byte offset and the content of pieces of the table: the offsets of items, and the size."""
        begin = 4 * (cut.last - cut.first + 2)
        for a, b in windows(cut.first, cut.last + 1, _ITEMS):
            byte_offsets = begin + (stored.offsets(a, b - 1) - cut.start) * dtype.itemsize
            byte_offsets += self.head * np.arange(a - cut.first, b - cut.first)
            yield 4 * (a - cut.first + 1), byte_offsets.astype("<u4").tobytes()

    def _empty(self, stored: TokenReader, dtype: np.dtype[Any], cut: Cut) -> bytes:
        """Return the bytes of empty items at the end of a shard, which no window of `_items` holds."""
        return self.heads(np.zeros(cut.last - _first_from(stored, cut.stop, cut), np.int64), dtype).tobytes()

    def _pack(self, out: Output, stored: TokenReader, dtype: np.dtype[Any], cut: Cut) -> tuple[int, list[Any]]:
        """Write a compressed shard from its first byte to its last.

        Returns:
            Its largest ID, and for the receipt [its number, the hashes of its decompressed content].
        """
        packer = compressor(self.codec, self.codecs, self._size(cut, dtype))
        raw, top, at = {kind: hashlib.new(kind) for kind in self.hashed}, -1, 0

        def pack(content: bytes) -> None:
            nonlocal at
            for found in raw.values():
                found.update(content)
            piece = packer.compress(content)
            out.write(at, piece)
            at += len(piece)

        pack((cut.last - cut.first).to_bytes(4, "little"))
        for _, table in self._offset_table(stored, dtype, cut):
            pack(table)
        for _, content, largest in self._items(stored, dtype, cut, range(cut.start, cut.stop)):
            pack(content.tobytes())
            top = max(top, largest)
        pack(self._empty(stored, dtype, cut))
        piece = packer.flush()
        out.write(at, piece)
        at += len(piece)
        if (size := self._size(cut, dtype)) > decoding_limit(at):
            what = f"{size:,} bytes compress to {at:,}, a ratio that tokfmt refuses to decode"
            raise ConversionError(f"{out.path.name}: {what}. Write it without compression")
        os.truncate(out.path, at)  # `create` made it with its decompressed size.
        return top, [cut.number, {kind: found.hexdigest() for kind, found in raw.items()}]

    def commit(self, source: TokenReader, receipts: Sequence[Receipt]) -> None:
        self._packed = dict(receipt.details for receipt in receipts if receipt.details)
        super().commit(source, receipts)

    def index(self, stored: TokenReader, dtype: np.dtype[Any]) -> Pieces:
        shards = list[Written]()
        for cut in self.cuts(stored):
            path, size, hashes = self.file(cut.number), self._size(cut, dtype), self._packed.get(cut.number)
            if cut.number not in self._finished:
                if not self.codec:
                    yield from ((path, at, content) for at, content in self._beginning_and_end(stored, dtype, cut))
                elif hashes is None:  # A shard without IDs is in no region.
                    with Output(path) as out:
                        _, (_, hashes) = self._pack(out, stored, dtype, cut)
                self.recall_files(self._facts(cut, hashes))
            raw, stored_size, own = self._finished[cut.number]
            shards.append(Written(cut, path.name, size, raw, stored_size, own))
        yield self.path / INDEX, 0, json.dumps(self.described(shards, dtype), sort_keys=True).encode()

    def _size(self, cut: Cut, dtype: np.dtype[Any]) -> int:
        """Return the decompressed size of a shard in bytes."""
        return self.begins(cut) + (cut.stop - cut.start) * dtype.itemsize


def _first_from(stored: TokenReader, position: int, cut: Cut) -> int:
    """Return the first sequence of a shard that begins at `position` or after it; `cut.last` if there is none."""
    return min(max(stored.sequence_at(position - 1) + 1 if position else 0, cut.first), cut.last)
