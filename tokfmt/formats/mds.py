"""MosaicML streaming's folders (MDS): `index.json` and shards of samples, a column of which holds token ids.

    index.json       {"version": 2, "shards": [{"format": "mds", "column_names" (sorted), "column_encodings",
                      "column_sizes": [bytes or null], "samples", "compression", "raw_data": {"basename", "bytes",
                      "hashes"}, "zip_data": null or the same three, ...}]}
    shard.NNNNN.mds  u32 little-endian, as all: N samples; u32[N + 1]: byte at which each begins, and the size; JSON
                     (it may be missing); the samples
    sample           u32 bytes of each column whose size is null, then the columns

    encoding         bytes of a column
    ndarray:T        u8 ndim << 2 | log2(bytes of a number of the shape), the shape, values
    ndarray:T:N      values
    ndarray          u8 dtype: 8 u8, 9 i8, 16 u16, 17 i16, 32 u32, 33 i32, 64 u64, 65 i64; then as ndarray:T
    bytes            values, of a dtype that nothing stores: int64 in old llm-foundry
    pkl              a pickle, never loaded

- The column is `tokens` (llm-foundry: rows of one length) or `input_ids`. Others are left out, and named.
- Shards are in the order of the index, and may lie in folders below. A compressed one is used where the raw one is
  not there. Hashes are of whole files; they are compared when a shard is first read, and by check.
- A separator may follow each document; nothing says whether, or which.
Source: mosaicml/streaming 89e7bb90, mosaicml-streaming 0.13.0, run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import Separators, TokenReader, check_ids, sequence_at, windows
from tokfmt.core.errors import CorruptError, FormatError, TruncatedError, UnsafeError, UnsupportedError
from tokfmt.core.files import File, walk
from tokfmt.core.format import Confidence, Finding, Hints, Probe, Problem, Receipt, Region, fatal
from tokfmt.core.options import option
from tokfmt.core.output import Output
from tokfmt.core.protocols import Audit, Code, Section
from tokfmt.core.ragged import Offsets, offsets_of
from tokfmt.core.sections import shown
from tokfmt.formats.flat import Column, Cut, Extent, FlatFormat, FlatWriter, Laid
from tokfmt.formats.folders import Packed, Values, digest, inside, json_object, whole_number

CODES = {8: "<u1", 9: "<i1", 16: "<u2", 17: "<i2", 32: "<u4", 33: "<i4", 64: "<u8", 65: "<i8"}
KINDS = {np.dtype(kind).name: np.dtype(kind) for kind in CODES.values()}
_HEAD = 9  # bytes in front of the ids of a sample that is written: its size, 1 dimension of 4 bytes, its length
_SHARD = r"shard\.\d+\.mds(\.\w+)?"
_AT_ONCE = 1 << 20  # samples
_SPAN, _FAR = 1 << 23, 1 << 12  # bytes read together; between samples, beyond which each is read by itself
_HASHED = 1 << 28  # bytes of shards that check compares with their hashes without --deep


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read shards."""

    column: str | None = option(None, "the column of token ids; input_ids or tokens if left out")
    dtype: Literal["uint16", "int32", "uint32", "int64"] | None = option(None, "of ids in a column of bytes")
    hashes: Literal["check", "ignore"] = option("check", "compare shards with the hashes in the index")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write shards."""

    eos: Literal["always", "none"] = option("always", "a separator after each document, or none")
    column: str = option("input_ids", "name of the column; llm-foundry calls it tokens")
    dtype: Literal["uint16", "uint32", "int32"] | None = option(None, "of ids; uint16 where the largest allows it")
    hashes: Literal["sha1", "none"] = option("sha1", "of each shard, in the index")
    shard_tokens: int = option(1 << 24, "tokens in a shard; documents stay whole", least=1, most=1 << 29)


class Writer(FlatWriter):
    """Writes a folder: shards, and last index.json."""

    whole, needs_max_id, folder, most_bytes = True, True, True, (1 << 32) - 1

    @property
    def separators(self) -> Separators:  # type: ignore[override]
        return Separators.TRAILING if self.options.eos == "always" else Separators.NONE

    def dtype(self, top: int) -> np.dtype[Any]:
        return KINDS[self.options.dtype or ("uint16" if top < 1 << 16 else "uint32")]

    def file_tokens(self) -> int:
        return int(self.options.shard_tokens)

    def file(self, number: int) -> Path:
        return self.path / f"shard.{number:05d}.mds"

    def begins(self, cut: Cut) -> int:
        return 4 * (cut.last - cut.first + 2) + _HEAD * (cut.last - cut.first)

    def write(self, region: Region, source: TokenReader) -> Receipt:
        """The ids of a region, each sample's behind its head, which goes with its first id."""
        stored, dtype, top = self.stored(source), self._dtype(source), -1
        cut = self.cut_at(stored, region.tokens.start)
        with Output(self.file(cut.number)) as out:
            for a, b in windows(region.tokens.start, region.tokens.stop):
                ids = stored.tokens(a, b)
                top = max(top, check_ids(ids, int(np.iinfo(dtype).max), a, self.path.name))
                first, last = (min(max(_first_from(stored, at), cut.first), cut.last) for at in (a, b))
                bounds = stored.offsets(first, last)
                heads = _heads(np.diff(bounds), dtype)
                places = (bounds[:-1] - a) * dtype.itemsize + _HEAD * np.arange(last - first)
                content = np.empty(heads.size + (b - a) * dtype.itemsize, np.uint8)
                free = np.ones(len(content), np.bool_)
                at = places[:, None] + np.arange(_HEAD)
                content[at], free[at] = heads, False
                content[free] = ids.astype(dtype, copy=False).view(np.uint8)
                table = 4 * (cut.last - cut.first + 2)
                out.write(table + _HEAD * (first - cut.first) + (a - cut.start) * dtype.itemsize, content)
        return Receipt(region.index, top, out.written)

    def index(self, stored: TokenReader, dtype: np.dtype[Any]) -> Iterator[tuple[Path, int, bytes]]:
        shards = list[Mapping[str, Any]]()
        for cut in self.cuts(stored):
            path, count = self.file(cut.number), cut.last - cut.first
            table, size = 4 * (count + 2), self.begins(cut) + (cut.stop - cut.start) * dtype.itemsize
            for a, b in list(windows(cut.first, cut.last, _AT_ONCE)) or [(cut.first, cut.first)]:
                places = table + (stored.offsets(a, b) - cut.start) * dtype.itemsize
                places += _HEAD * np.arange(a - cut.first, b - cut.first + 1)
                yield path, 4 * (a - cut.first + 1), places.astype("<u4").tobytes()
            empty = cut.last - min(max(_first_from(stored, cut.stop), cut.first), cut.last)  # with no first id
            yield path, size - _HEAD * empty, _heads(np.zeros(empty, np.int64), dtype).tobytes()
            yield path, 0, count.to_bytes(4, "little")  # last: what begins at byte 0 is a file of its own
            hashes = {} if self.options.hashes == "none" else {"sha1": digest(File(path), "sha1")}
            shards.append({
                "column_encodings": [f"ndarray:{dtype.name}"], "column_names": [self.options.column],
                "column_sizes": [None], "compression": None, "format": "mds", "samples": count, "size_limit": 1 << 26,
                "hashes": [*hashes], "version": 2, "zip_data": None,
                "raw_data": {"basename": path.name, "bytes": size, "hashes": hashes},
            })  # fmt: skip
        yield self.path / "index.json", 0, json.dumps({"shards": shards, "version": 2}, sort_keys=True).encode()


def _first_from(stored: TokenReader, position: int) -> int:
    """The first sequence that begins at a position or after it."""
    return sequence_at(stored, position - 1) + 1 if position else 0


def _heads(lengths: Offsets, dtype: np.dtype[Any]) -> NDArray[np.uint8]:
    """uint8[samples, 9]: what stands in front of the ids of each sample."""
    heads = np.zeros(len(lengths), [("size", "<u4"), ("shape", "u1"), ("length", "<u4")])
    heads["size"], heads["shape"], heads["length"] = lengths * dtype.itemsize + 5, 1 << 2 | 2, lengths
    return heads.view(np.uint8).reshape(-1, _HEAD)


class Mds(FlatFormat):
    """MosaicML streaming's shards."""

    name = "mds"
    title = "MosaicML streaming (MDS): index.json and shards"
    carries = "sequences in order, empty ones too (upstream reads them, and refuses to write them); ids up to 2^32-1"
    cannot = "ids above 2^32-1; loss masks"
    read_options, write_options, Writer = ReadOptions, WriteOptions, Writer
    pattern, unreadable = _SHARD, "TF761"
    member = "index.json"
    meanings = {
        "TF761": Code("no shards of tokens", "index.json is missing, empty or damaged, of another version or kind of "
                       "shards, or no column holds token ids. The message says which."),
        "TF762": Code("a shard is missing", "index.json names it, and neither it nor its compressed form is there. "
                       "Copy the folder again."),
        "TF763": Code("a shard is not as long as the index says", "It was cut, or its compressed data are damaged "
                       "(streaming#399, #677). Copy it again."),
        "TF764": Code("a shard does not fit its hash", "Some of its bytes changed (streaming#759). Copy it again; "
                       "--from-opt hashes=ignore reads it as it is."),
        "TF765": Code("samples contradict the shard", "Their places decrease or leave the shard, or a column is not as "
                       "long as its sample says. Write the shard again."),
        "TF766": Code("a name that leaves the folder", "index.json names a file by `..`, by an absolute path or an "
                       "address, or a link leads out. Do not read it, unless you made it yourself.", unsafe=True),
        "TF767": Code("a column of pickles", "Reading it would execute what is in it; upstream refuses it too. Write "
                       "the column as ndarray.", unsafe=True),
    }  # fmt: skip

    def sniff(self, probe: Probe) -> Confidence | None:
        index = probe.entry("index.json")
        if index is None or (index.size and not re.search(rb'"shards"\s*:\s*\[', index.head)):
            return None
        shards = any(re.fullmatch(_SHARD, name) for name in probe.entries)
        return Confidence.CERTAIN if shards or re.search(rb'"format"\s*:\s*"mds"', index.head) else None

    def files(self, path: Path) -> list[Path]:
        own = rf"index\.json|{_SHARD}"
        return sorted(home / name for home, names in walk(path) for name in names if re.fullmatch(own, name))

    def examine(self, paths: Sequence[Path], options: ReadOptions, hints: Hints) -> Laid:  # noqa: ARG002
        folder, path = paths[0], paths[0] / "index.json"
        if not path.is_file() or not File(path).size:
            what = "is empty: its writer was killed" if path.is_file() else "no such file"
            raise FormatError(path, what, remedy="Write it again, or streaming's merge_index")
        index = json_object(File(path))
        shards = index.get("shards")
        if index.get("version") != 2 or not isinstance(shards, list):
            found = f"version {index.get('version')}"[:60]
            raise UnsupportedError(path, "is an index that is not read", expected="version 2, shards", found=found)
        looks = [_look(folder, shard, options) for shard in shards]
        others = sorted({name for look in looks for name in look.others})
        left = f"columns that are not read: {', '.join(others)}"
        return Laid(
            extents=[look.extent for look in looks if look.extent],
            starts=offsets_of(np.concatenate([np.zeros(0, np.int64), *(look.lengths for look in looks)])),
            separators=Separators.TRAILING,
            problems=[problem for look in looks for problem in look.problems],
            sections=[section for look in looks for section in look.sections],
            notes=(left,) if others else (),
            extras={"column": looks[0].column if looks else "", "shards": len(shards)},
        )

    def audit(self, path: Path, options: ReadOptions, how: Audit) -> Iterator[Finding]:
        """See `FlatFormat.audit`; hashes are compared once, before."""
        unhashed = replace(options, hashes="ignore")
        yield from super().audit(path, unhashed, how)
        try:
            laid = self.examine([path], replace(options, hashes="check"), Hints())
        except FormatError:
            return
        files = [extent.file for extent in laid.extents if isinstance(extent.file, Values)]
        if not how.deep and sum(file.identity.size for file in files) > _HASHED:
            return
        for file in files:
            try:
                file.verify()
            except FormatError as error:
                yield Finding.of("TF764", error)


class Look(NamedTuple):
    """What one shard holds."""

    extent: Extent | None
    lengths: Offsets
    problems: list[Problem]
    column: str = ""
    others: Sequence[str] = ()
    sections: Sequence[Section] = ()


def _look(folder: Path, shard: object, options: ReadOptions) -> Look:
    """The ids of a shard. What is wrong with the index is raised, what is wrong with the shard is a problem."""
    path, none = folder / "index.json", np.zeros(0, np.int64)
    if not isinstance(shard, dict) or shard.get("format") != "mds" or shard.get("version", 2) != 2:
        found = shard.get("format") if isinstance(shard, dict) else shard
        raise UnsupportedError(path, "a shard that is not read", expected="mds, version 2", found=str(found)[:60])
    names, kinds, sizes = columns = [shard.get(f"column_{key}") or [] for key in ("names", "encodings", "sizes")]
    if not all(isinstance(x, list) for x in columns) or not len(names) == len(kinds) == len(sizes):
        raise CorruptError(path, "the columns of a shard", expected="as many names as encodings and sizes")
    at = _column(path, names, kinds, options.column)
    column = shown(names[at])
    if kinds[at] == "pkl":
        error = UnsafeError(path, f"column {column} is pickled", remedy="Write the column as ndarray")
        return Look(None, none, [fatal("TF767", error)])
    code = "TF766"
    try:
        place, codec, size, said = _place(folder, shard)
        code = "TF762"
        file = Packed(place, codec, size) if codec else File(place)
        code = "TF763"
        count = _whole(file, size, whole_number(path, "samples", shard.get("samples")))
        code = "TF765"
        places, lengths = _columns(file, count, sizes, at)
        places, lengths, dtype = _ids(file, places, lengths, str(kinds[at]).split(":"), options.dtype)
    except FormatError as error:
        return Look(None, none, [fatal(code, error)])
    bounds = offsets_of(lengths)
    values = Values(file, places, bounds, said if options.hashes == "check" else {})
    if dtype is None:
        odd = values.array(0, min(values.size, _FAR) // 8 * 2, "<u4")[1::2]
        remedy = f"--from-opt dtype=NAME does ({'uint16' if odd.any() else 'int64'}, it seems)"
        raise UnsupportedError(path, f"nothing tells the dtype of column {column}, of bytes", remedy=remedy)
    named = Column(f"samples of {place.name}", file, 4, "<u4", count + 1)
    extent, tokens = Extent(values, 0, int(bounds[-1]) // dtype.itemsize, dtype), lengths // dtype.itemsize
    others = [shown(name) for name in names if name != names[at]]
    return Look(extent, tokens, [], column, others, [named] if file.plain else [])


def _column(path: Path, names: list[Any], kinds: list[Any], wanted: str | None) -> int:
    """Which column holds the ids."""
    usual = [name for name in ("input_ids", "tokens") if name in names]
    arrays = [name for name, kind in zip(names, kinds, strict=True) if str(kind).split(":")[0] == "ndarray"]
    name = wanted or next(iter(usual or (arrays if len(arrays) == 1 else ())), None)
    listed = ", ".join(f"{name} ({kind})"[:80] for name, kind in zip(names, kinds, strict=True))[:400]
    if name not in names:
        what, remedy = "which column holds token ids is not known", "--from-opt column=NAME says it"
        raise UnsupportedError(path, what, found=listed, remedy=remedy)
    kind = str(kinds[names.index(name)]).split(":")
    if kind[0] not in ("ndarray", "bytes", "pkl") or (len(kind) > 1 and kind[1] not in KINDS):
        raise UnsupportedError(
            path, f"column {shown(name)} holds no token ids", expected="ndarray or bytes", found=listed
        )
    return names.index(name)


def _place(folder: Path, shard: Mapping[str, Any]) -> tuple[Path, str, int, Mapping[str, str]]:
    """Where a shard lies, how it is compressed, bytes of what it holds, and hashes of the file."""
    path, raw, zipped = folder / "index.json", shard.get("raw_data"), shard.get("zip_data")
    if not isinstance(raw, dict) or not isinstance(zipped, dict | None):
        raise CorruptError(path, "a shard in the index", expected="raw_data and zip_data")
    place, size, held, codec = inside(folder, raw.get("basename")), raw.get("bytes"), raw, ""
    if zipped is not None and not place.exists():
        place, held, codec = inside(folder, zipped.get("basename")), zipped, str(shard.get("compression"))
    hashes = held.get("hashes")
    said = {str(kind): str(value) for kind, value in hashes.items()} if isinstance(hashes, dict) else {}
    return place, codec.split(":")[0], whole_number(path, "bytes", size), said


def _whole(file: File, size: int, count: int) -> int:
    if file.size != size:
        what = "bytes of the shard"
        raise TruncatedError(file.path, what, expected=size, found=file.size, remedy="Copy it again")
    file.read(0, min(4, size))  # decodes what is compressed
    if 4 * (count + 2) > size:
        raise CorruptError(file.path, "is too short for its samples", expected=f"{count:,}", found=f"{size:,} bytes")
    return count


def _columns(file: File, count: int, sizes: Sequence[object], at: int) -> tuple[Offsets, Offsets]:
    """int64[samples] twice: where one column of each sample begins, and its bytes."""
    table = file.array(0, count + 2, "<u4").astype(np.int64)
    begins, lengths = table[1:-1], np.diff(table[1:])
    free = [k for k, size in enumerate(sizes) if size is None]
    if table[0] != count or table[1] < 4 * (count + 2) or table[-1] != file.size or (lengths < 4 * len(free)).any():
        expected = f"{count:,} samples, of at least {4 * len(free)} bytes, up to {file.size:,}"
        raise CorruptError(file.path, "places of samples", offset=0, expected=expected, found=f"{table[0]:,} samples")
    fixed = {k: whole_number(file.path, "column_sizes", size) for k, size in enumerate(sizes) if size is not None}
    if not all(fixed.values()) or (lengths < sum(fixed.values())).any():
        raise CorruptError(file.path, "a sample is shorter than its columns", found=f"sizes {sizes}"[:60])
    widths = np.zeros((count, len(sizes)), np.int64)
    widths[:, free] = _gathered(file, begins, 4 * len(free)).view("<u4")
    for k, size in fixed.items():
        widths[:, k] = size
    wrong = np.flatnonzero(widths.sum(axis=1) + 4 * len(free) != lengths)
    if len(wrong) or (widths > file.size).any():
        raise CorruptError(file.path, "a sample is not as long as its columns", offset=int(begins[[*wrong, 0][0]]))
    return begins + 4 * len(free) + widths[:, :at].sum(axis=1), widths[:, at]


def _ids(
    file: File, places: Offsets, lengths: Offsets, kind: Sequence[str], told: str | None
) -> tuple[Offsets, Offsets, np.dtype[Any] | None]:
    """Where the ids of each sample begin, their bytes, and their dtype; None where nothing tells it."""
    dtype = KINDS[told] if told else None
    if kind[0] == "ndarray" and len(kind) == 1:
        _at_least(file, places, lengths, 1)
        codes = np.unique(_gathered(file, places, 1))
        if len(codes) > 1 or (len(codes) and int(codes[0]) not in CODES):
            raise CorruptError(file.path, "dtypes of a column", expected="one, of integers", found=str(codes)[:60])
        dtype = np.dtype(CODES[int(codes[0])] if len(codes) else "<u2")
        places, lengths = places + 1, lengths - 1
    elif kind[0] == "ndarray":
        dtype = KINDS[kind[1]]
    if kind[0] == "ndarray" and len(kind) < 3 and dtype is not None:
        _at_least(file, places, lengths, 1)
        shape = _gathered(file, places, 1)[:, 0]
        width = np.int64(1) << (shape & 3).astype(np.int64)
        _at_least(file, places, lengths, 1 + width)
        counted = np.zeros((len(shape), 8), np.uint8)
        for one in (1, 2, 4, 8):
            counted[width == one, :one] = _gathered(file, places[width == one] + 1, one)
        places, lengths = places + 1 + width, lengths - 1 - width
        wrong = (shape >> 2 != 1) | (counted.view("<u8")[:, 0] != (lengths // dtype.itemsize).astype(np.uint64))
        if wrong.any():
            at = int(places[np.argmax(wrong)])
            raise CorruptError(file.path, "an array is not as long as its shape, of one dimension", offset=at)
    if dtype is not None and (lengths % dtype.itemsize).any():
        at = int(places[np.argmax(lengths % dtype.itemsize > 0)])
        raise CorruptError(file.path, f"the ids of a sample end inside one of {dtype.itemsize} bytes", offset=at)
    return places, lengths, dtype


def _at_least(file: File, places: Offsets, lengths: Offsets, least: Offsets | int) -> None:
    if (wrong := lengths < least).any():
        at = int(places[np.argmax(wrong)])
        raise CorruptError(file.path, "a column is too short for its array", offset=at)


def _gathered(file: File, places: Offsets, width: int) -> NDArray[np.uint8]:
    """uint8[places, width]: so many bytes from each place of those in ascending order."""
    found, k = np.zeros((len(places), width), np.uint8), 0
    while k < len(places) and width:
        near = int(np.searchsorted(places, places[k] + _SPAN, side="right"))
        span = int(places[near - 1] - places[k]) + width
        if span > (near - k) * _FAR:
            near, span = k + 1, width
        raw = file.array(int(places[k]), span, "u1")
        found[k:near] = raw[(places[k:near] - places[k])[:, None] + np.arange(width)]
        k = near
    return found


FORMAT = Mds()
