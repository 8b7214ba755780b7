"""MosaicML streaming's folders (MDS): `index.json` and shards of samples with a column of token IDs.

    file             content
    index.json       {"version": 2, "shards": [{"format": "mds", "column_names" (sorted), "column_encodings",
                      "column_sizes": [bytes or null], "samples", "compression", "raw_data": {"basename", "bytes",
                      "hashes"}, "zip_data": null or the same three, ...}]}
    shard.NNNNN.mds  u32 little-endian: N samples; u32[N + 1]: byte offset of each sample, and the size; JSON, which may
                     be missing; the samples
    sample           u32 bytes of each column whose size is null, then the columns

    encoding         bytes of a column
    ndarray:T        u8 ndim << 2 | log2(bytes of a number of the shape), the shape, values
    ndarray:T:N      values
    ndarray          u8 dtype: 8 u8, 9 i8, 16 u16, 17 i16, 32 u32, 33 i32, 64 u64, 65 i64; then as ndarray:T
    bytes            values; their dtype is not stored: int64 in old llm-foundry
    json             JSON
    pkl              a pickle, never loaded

- The column is `tokens` (llm-foundry: rows of one length) or `input_ids`. Arrays of integers beside it with names of
  `model.rows` (labels, attention_mask, position_ids, ...) are read by its rule. A note lists the other columns, which
  tokfmt does not read.
- A column `turns` of JSON (llm-foundry) is a list of {"input_ids", "labels"}: the IDs of a prompt, and of the response
  behind it, which counts in the loss. A sample is one document.
- Shards may be in subfolders. A compressed shard is read if the raw one does not exist. Hashes are of whole files.
- A separator may follow each document. The files do not state whether it does, or which ID it is.
- Upstream writes a shape in as few bytes as its largest number takes, tokfmt in 4. If exactly one of these fits the
  sizes of all samples of a shard, opening does not read the heads of its samples.
Source: mosaicml/streaming 89e7bb90, mosaicml-streaming 0.13.0, run.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.options import option
from tokfmt.core.annotation import shown
from tokfmt.core.findings import Problem, fatal
from tokfmt.core.format import Confidence, Probe
from tokfmt.core.loss_mask import MASK_CHOICES, MASKS, MaskChoice
from tokfmt.core.ragged import Offsets, Tokens, offsets_of
from tokfmt.core.widths import likely_width
from tokfmt.errors import CorruptError, FormatError, UnsafeError, UnsupportedError
from tokfmt.files.file import File, is_empty, names_in, natural_key, open_file
from tokfmt.files.place import Place
from tokfmt.formats.flat import FlatOptions
from tokfmt.formats.folders import Packed, begin_of, decoding_limit, ids_in, json_object, parsed_object, whole_number
from tokfmt.formats.row_reader import StoredRows
from tokfmt.formats.shards import (
    INDEX,
    Form,
    Heads,
    Ids,
    Listed,
    Listing,
    ShardFormat,
    ShardWriter,
    Values,
    Written,
    loss_masks_of,
)
from tokfmt.model.rows import Column as RowColumn
from tokfmt.model.rows import columns_to_read
from tokfmt.wording import counted

CODES = {8: "<u1", 9: "<i1", 16: "<u2", 17: "<i2", 32: "<u4", 33: "<i4", 64: "<u8", 65: "<i8"}
KINDS = {np.dtype(kind).name: np.dtype(kind) for kind in CODES.values()}
_SHARD = r"shard\.(\d+)\.mds(?:\.\w+)?"
_COLUMNS = re.compile(rb'"column_encodings"\s*:')
_LARGEST_HEADER = 1 << 20
_OWN = f"without {INDEX}, the shards are read by their own headers"
_TEXT = "tokfmt does not read text from MDS: write it as JSON Lines or Parquet, from which tokfmt encodes it"
_TURNS = "turns"
_LIKELY = {2: "uint16", 4: "int32", 8: "int64"}
_LOOKED_AT = 32  # Samples whose bytes show their dtype.


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading shards."""

    column: str | None = option(None, "column of token IDs; auto: input_ids or tokens")
    dtype: Literal["uint16", "int32", "uint32", "int64"] | None = option(None, "dtype of IDs in a column of bytes")
    hashes: Literal["check", "ignore"] = option("check", "compare shards with the hashes in the index")
    rows: Literal["documents", "blocks"] = option(
        "documents", "rows are documents, or blocks of a stream that --eos splits"
    )
    overlap: int | None = option(None, "tokens of a block that repeat the block before, which are left out", minimum=0)
    loss_mask: MaskChoice | None = option(None, MASK_CHOICES)


@dataclass(frozen=True, slots=True)
class WriteOptions(FlatOptions):
    """Options for writing shards."""

    column: str = option("input_ids", "name of the column; llm-foundry reads tokens")
    dtype: Literal["uint16", "uint32", "int32"] | None = option(
        None, "dtype of IDs; auto: uint16 if the largest ID allows it"
    )
    hashes: Literal["sha1", "none"] = option("sha1", "hashes of each shard in the index")
    shard_size: int = option(1 << 24, "tokens per shard; documents stay complete", minimum=1, maximum=1 << 29)
    compression: str = option(
        "none", "compression of each shard: none, zstd, gz, bz2, snappy, br; with a level zstd:7, gz:9, bz2:5"
    )


class Writer(ShardWriter):
    """A writer of shards and then of index.json."""

    head = 9  # bytes: u32 size of the sample, u8 for 1 dimension of 4 bytes, u32 length
    empties = "streaming reads them, and its MDSWriter refuses to write them again"
    codecs = ("zstd", "gz", "bz2", "snappy", "br")

    @property
    def hashed(self) -> Sequence[str]:  # type: ignore[override]
        return () if self.options.hashes == "none" else (self.options.hashes,)

    def name(self, number: int, codec: str) -> str:
        return f"shard.{number:05d}.mds{'.' if codec else ''}{codec.partition(':')[0]}"

    def heads(self, lengths: Offsets, dtype: np.dtype[Any]) -> NDArray[np.uint8]:
        heads = np.zeros(len(lengths), [("size", "<u4"), ("shape", "u1"), ("length", "<u4")])
        heads["size"], heads["shape"], heads["length"] = lengths * dtype.itemsize + 5, 1 << 2 | 2, lengths
        return heads.view(np.uint8).reshape(-1, self.head)

    def described(self, shards: Sequence[Written], dtype: np.dtype[Any]) -> Mapping[str, object]:
        listed = list[Mapping[str, object]]()
        for shard in shards:
            raw = {"basename": self.name(shard.cut.number, ""), "bytes": shard.size, "hashes": shard.hashes}
            packed = {"basename": shard.name, "bytes": shard.stored, "hashes": shard.stored_hashes}
            listed.append(
                {
                    "column_encodings": [f"ndarray:{dtype.name}"],
                    "column_names": [self.options.column],
                    "column_sizes": [None],
                    "compression": self.codec or None,
                    "format": "mds",
                    "samples": shard.cut.last - shard.cut.first,
                    "size_limit": 1 << 26,
                    "hashes": list(self.hashed),
                    "version": 2,
                    "raw_data": raw,
                    "zip_data": packed if self.codec else None,
                }
            )
        return {"shards": listed, "version": 2}


class Column(NamedTuple):
    """A column of integers of a shard: token IDs, labels or a mask."""

    name: str
    at: int  # its number among the columns of the shard
    sizes: Sequence[int | None]  # For each column its bytes, if all samples have the same size, else None
    dtype: np.dtype[Any] | None  # the dtype of IDs, if the encoding or the user states it, else None
    coded: bool  # true if a byte before the IDs of each sample states their dtype
    shaped: bool  # true if their shape is before the IDs of each sample
    is_json: bool = False  # true if it is the column of turns


class Turns(StoredRows):
    """The turns of samples: prompts and responses of IDs, as JSON. What a response holds counts in the loss."""

    item, names, dtype = "sample", (MASKS[0],), np.dtype("<u4")

    def __init__(self, values: Values) -> None:
        self.file = self.values = values
        self.sizes = np.diff(values.bounds) // 4  # about four characters each

    def read(self, first: int, last: int) -> tuple[Tokens, Offsets, Mapping[str, RowColumn]]:
        bounds, path = self.values.bounds[first : last + 1], self.file.path
        raw, parts, lengths = self.values.read(int(bounds[0]), int(bounds[-1] - bounds[0])), list[Any](), list[int]()
        for number, (start, stop) in enumerate(itertools.pairwise((bounds - bounds[0]).tolist()), first):
            try:
                lists = [turn[key] for turn in json.loads(raw[start:stop]) for key in ("input_ids", "labels")]
                parts += [ids_in(path, ids, of=f"the turns of sample {number:,}") for ids in lists]
            except (ValueError, TypeError, LookupError, RecursionError) as error:
                what, expected = f"sample {number:,} has other turns", 'a list of {"input_ids", "labels"} of IDs'
                raise CorruptError(path, what, expected=expected) from error
            lengths.append(sum(map(len, parts[-len(lists) :])) if lists else 0)
        offsets = offsets_of(lengths)
        counts = np.repeat(np.arange(len(parts)) % 2, [len(part) for part in parts])  # prompts and responses by turns
        tokens = np.concatenate([np.zeros(0, np.uint32), *parts]).astype(np.uint32)
        return tokens, offsets, {MASKS[0]: RowColumn(counts, offsets)}

    def byte_of(self, row: int, number: int) -> tuple[int | None, int | None]:  # noqa: ARG002 - of the JSON
        return self.values.below.to_stored_offset(int(self.values.byte_offsets[row])), None


class Mds(ShardFormat):
    """The format of MosaicML streaming's shards."""

    name = "mds"
    title = "MosaicML streaming (MDS): index.json and shards"
    stores = "sequences in order, empty ones too (upstream reads them, and refuses to write them); IDs up to 2^32-1"
    cannot_store = "IDs above 2^32-1; loss masks"
    read_options, write_options, Writer = ReadOptions, WriteOptions, Writer
    pattern, below, unreadable = _SHARD, rf"index\.json|{_SHARD}", "TF761"
    shard, item = "shard", "sample"
    missing, wrong_size, wrong_hash, wrong_items, wrong_name = "TF762", "TF763", "TF764", "TF765", "TF766"
    masked = "TF769"

    def sniff(self, probe: Probe) -> Confidence | None:
        """See `Format.sniff`. A shard is a dataset of its own if it, or the index beside it, states its columns."""
        if not probe.is_directory:
            if not probe.size or not re.fullmatch(_SHARD, probe.path.name):
                return None
            if _COLUMNS.search(probe.head):
                return Confidence.CERTAIN
            known = probe.path.suffix != ".mds" or (probe.path.parent / INDEX).is_file()
            return Confidence.STRUCTURE if known else None
        index, first = probe.entry(INDEX), next((name for name in probe.entries if re.fullmatch(_SHARD, name)), "")
        if index is None or not index.size:
            shard = probe.entry(first) if first else None
            return None if shard is None else self.sniff(shard)
        if not re.search(rb'"shards"\s*:\s*\[', index.head):
            return None
        shards = bool(first)
        kind = re.search(rb'"format"\s*:\s*"(mds|csv|tsv|xsv|json)"|"shards"\s*:\s*\[\s*\]', index.head)
        return Confidence.CERTAIN if shards or kind else None  # `listing` refuses shards of text.

    def listing(self, path: Place, options: ReadOptions) -> Listing:
        if path.parent.is_dir() and (is_empty(path) or not path.is_file()):
            return self._by_shards(path, options)
        index = json_object(open_file(path))
        shards = index.get("shards")
        if index.get("version") != 2 or not isinstance(shards, list):
            found = f"version {index.get('version')}"[:60]
            raise UnsupportedError(path, "is an unsupported index", expected="version 2, shards", found=found)
        beside = 0 if shards else sum(file.name != INDEX for file in self.files(path.parent))
        if beside:
            what = f"lists no shards, and {counted(beside, 'shard')} {'is' if beside == 1 else 'are'} there"
            raise CorruptError(path, what, remedy=f"Copy it again, or remove it: {_OWN}")
        return _listing([(path, shard) for shard in shards], options)

    def _by_shards(self, path: Place, options: ReadOptions) -> Listing:
        """Return the listing of a folder without index.json, or with an empty one, from the headers of its shards."""
        what = "is empty: its writer was killed" if path.is_file() else "no such file"
        folder, forms = path.parent, dict[int, str]()
        for name in sorted(names_in(folder), key=natural_key, reverse=True):  # the plain form of a shard is last
            if match := re.fullmatch(_SHARD, name):
                forms[int(match[1])] = name
        names = [forms[number] for number in sorted(forms)]
        if not names:
            raise FormatError(path, what, remedy="Copy it again, or write the dataset again")
        lost = next((number for number in range(max(forms)) if number not in forms), None)
        if lost is not None:
            remedy = "Copy the folder again, or name the shards one by one"
            raise CorruptError(folder / f"shard.{lost:05d}.mds", "is missing", remedy=remedy)
        found = _listing([(folder / name, _own_entry(folder / name)) for name in names], options)
        state, are = ("is empty" if path.is_file() else "is missing"), "is" if len(names) == 1 else "are"
        many = counted(len(names), "shard")
        note = f"{INDEX} {state}; {many} {are} read by their own headers. Later ones may be missing"
        error = FormatError(path, what, remedy=f"Copy it again, so that the number of shards is known; {_OWN}")
        return replace(found, problems=(*found.problems, Problem("TF768", "warning", error, note=note)))

    def located(self, path: Place, options: ReadOptions) -> tuple[Place, Listing]:
        """See `ShardFormat.located`. Of a single shard, the entry of the index is used if there is one."""
        if not re.fullmatch(_SHARD, path.name) or path.is_dir():
            return super().located(path, options)
        folder = path.parent
        if (folder / INDEX).is_file():
            with suppress(FormatError):
                whole = self.listing(folder / INDEX, options)
                for shard in whole.shards:
                    if isinstance(shard, Listed) and path.name in (form.name for form in shard.forms):
                        forms = [form for form in shard.forms if form.name == path.name]
                        return folder, replace(whole, shards=[replace(shard, forms=forms)], problems=())
        return folder, _listing([(path, _own_entry(path))], options)

    def known_lengths(self, one: Listed, file: File) -> Ids | None:
        column: Column = one.about
        dtype, (size, *others) = column.dtype, column.sizes
        if dtype is None or others or not one.count or column.shaped != (size is None):
            return None
        if size is not None:
            whole = 0 < size * one.count <= one.size and size % dtype.itemsize == 0
            return Ids(None, np.full(one.count, size), dtype) if whole else None
        table = self.table(one, file)
        shape = begin_of(file, int(table[0]) + 4, 1)[0] if table[0] + 5 < file.size else 0
        lengths = _by_shape(np.diff(table) - 5, shape, dtype.itemsize)
        return None if lengths is None else Ids(None, lengths, dtype)

    def rows(self, one: Listed, file: File, ids: Ids, hashes: Mapping[str, str]) -> StoredRows | None:
        return Turns(Values(file, ids, partial(self.find, one), hashes)) if one.about.is_json else None

    def ids(self, one: Listed, heads: Heads) -> Ids:
        cells = _cells(heads, one.about)
        return Ids(*cells, np.dtype("u1")) if one.about.is_json else _ids(heads, *cells, one.about)


def _listing(shards: Sequence[tuple[Place, Any]], options: ReadOptions) -> Listing:
    """Return the listing of entries, each with the file that states it."""
    listed = [_listed(path, shard, options) for path, shard in shards]
    names = [one.about.name for one in listed if isinstance(one, Listed)]
    every = {shown(name) for _, shard in shards for name in shard["column_names"]}
    read = list(dict.fromkeys(name for one in listed if isinstance(one, Listed) for name, _ in one.beside))
    others = every - {*names, *read}
    notes = (f"columns that are not read: {', '.join(sorted(others))}",) if others else ()
    extras = {"column": names[0] if names else "", "shards": len(shards)}
    masks = loss_masks_of(read, sorted(others), options.loss_mask, "sample")
    if any(isinstance(one, Listed) and one.about.is_json for one in listed):
        masks = f"loss masks of its samples ({_TURNS})"
    return Listing(listed, notes=notes, extras=extras, loss_masks=masks)


def _own_entry(path: Place) -> Mapping[str, object]:
    """Return the entry that the index would have for a shard, from the header of the shard."""
    plain, _, codec = path.name.partition(".mds")
    codec = codec.removeprefix(".")
    file = open_file(path)
    if codec:
        file = Packed(path, codec, decoding_limit(file.size))
    begin = 4 * (int.from_bytes(begin_of(file, 0, 4), "little") + 2)
    first = int.from_bytes(begin_of(file, 4, 4), "little")
    size = int.from_bytes(begin_of(file, begin - 4, 4), "little")
    if not 0 < first - begin <= _LARGEST_HEADER:
        what = "does not state its columns"
        raise FormatError(path, what, expected=f"{INDEX}, or JSON before its first sample", remedy=f"Copy {INDEX}")
    header = parsed_object(path, begin_of(file, begin, first - begin))
    packed = {"basename": path.name} if codec else None
    data = {"raw_data": {"basename": f"{plain}.mds", "bytes": size}, "zip_data": packed, "compression": codec or None}
    return {**header, **data, "samples": begin // 4 - 2}


def _listed(path: Place, shard: object, options: ReadOptions) -> Listed | Problem:
    """Return the entry of a shard from the index; a problem if its IDs are pickled."""
    if not isinstance(shard, dict) or shard.get("format") != "mds" or shard.get("version", 2) != 2:
        found = shard.get("format") if isinstance(shard, dict) else shard
        raise UnsupportedError(path, "an unsupported shard", expected="mds, version 2", found=str(found)[:60])
    names, kinds, sizes = columns = [shard.get(f"column_{key}") or [] for key in ("names", "encodings", "sizes")]
    if not all(isinstance(x, list) for x in columns) or not len(names) == len(kinds) == len(sizes):
        raise CorruptError(path, "the columns of a shard", expected="as many names as encodings and sizes")
    at = _column(path, names, kinds, options.column)
    if kinds[at] == "pkl":
        remedy = "Write the column as ndarray"
        return fatal("TF767", UnsafeError(path, f"column {shown(names[at])} is pickled", remedy=remedy))
    widths = [None if size is None else whole_number(path, "column_sizes", size) for size in sizes]
    column = _about(names, kinds, widths, at, None if str(kinds[at]).startswith("ndarray") else options.dtype)
    integers = [name for name, kind in zip(names, kinds, strict=True) if _is_of_integers(str(kind))]
    beside = [
        (name, _about(names, kinds, widths, names.index(name), None))
        for name in columns_to_read(path, integers, options.loss_mask, str(names[at]))
        if name != names[at]
    ]
    raw, packed, codec = shard.get("raw_data"), shard.get("zip_data"), str(shard.get("compression"))
    if not isinstance(raw, dict) or not isinstance(packed, dict | None):
        raise CorruptError(path, "a shard in the index", expected="raw_data and zip_data")
    forms = list[Form]()
    for entry, compression in ((raw, ""), (packed, codec)):
        if entry is not None:
            hashes = entry.get("hashes") if options.hashes == "check" else None
            known = {str(kind): str(value) for kind, value in hashes.items()} if isinstance(hashes, dict) else {}
            forms.append(Form(entry.get("basename"), compression, known))
    size = whole_number(path, "bytes", raw.get("bytes"))
    return Listed(forms, size, whole_number(path, "samples", shard.get("samples")), column, beside)


def _about(
    names: Sequence[Any], kinds: Sequence[Any], widths: Sequence[int | None], at: int, dtype: str | None
) -> Column:
    """Return a column by its number; `dtype` is that of the values in a column of bytes."""
    kind, *stated = str(kinds[at]).split(":")
    is_array = kind == "ndarray"
    known = KINDS.get((stated or [""])[0] if is_array else dtype or "")
    is_json = kind == "json"
    return Column(shown(names[at]), at, widths, known, is_array and not stated, is_array and not stated[1:], is_json)


def _is_of_integers(kind: str) -> bool:
    """Return whether an encoding is that of arrays of integers, as far as it states their dtype."""
    name, *stated = kind.split(":")
    return name == "ndarray" and (not stated or stated[0] in KINDS)


def _column(path: Place, names: list[Any], kinds: list[Any], wanted: str | None) -> int:
    """Return the number of the column of token IDs.

    Without `wanted`, that is `input_ids`, `tokens`, or the only column of arrays.
    """
    split = [str(kind).split(":") for kind in kinds]
    turns = [name for name, kind in zip(names, split, strict=True) if (name, *kind) == (_TURNS, "json")]
    usual = [name for name in ("input_ids", "tokens", *turns) if name in names]
    arrays = [name for name, kind in zip(names, split, strict=True) if kind[0] == "ndarray"]
    name = wanted or next(iter(usual or (arrays if len(arrays) == 1 else ())), None)
    listed = ", ".join(f"{name} ({kind})"[:80] for name, kind in zip(names, kinds, strict=True))[:400]
    if name not in names:
        what, remedy = "the column of token IDs is not known", "Name it with --from-opt column=NAME"
        if not {kind[0] for kind in split} & {"ndarray", "bytes", "pkl"}:
            what, remedy = "has no column of token IDs", _TEXT
        raise UnsupportedError(path, what, found=listed, remedy=remedy)
    kind, *stated = split[at := names.index(name)]
    if name in turns:
        return at
    if kind not in ("ndarray", "bytes", "pkl") or (stated and stated[0] not in KINDS):
        what, expected = f"column {shown(name)} does not hold token IDs", "ndarray or bytes"
        raise UnsupportedError(path, what, expected=expected, found=listed, remedy=_TEXT if kind == "str" else None)
    return at


def _by_shape(sizes: Offsets, first: int, width: int) -> Offsets | None:
    """Return int64[samples], the bytes of the IDs of each sample, if they follow from the first sample, else None."""
    own, rules = 1 << (first & 3), list[Offsets]()
    # Every shape has the width of the first one, or the smallest width that its number needs.
    for widths, minimum in (([own], [0]), ([1, 2, 4], [0, 1 << 8, 1 << 16])):
        count, rest = np.divmod(sizes[:, None] - widths, width)
        fits = (rest == 0) & (count >= minimum) & (count < 1 << np.minimum(8 * np.array(widths), 62))
        found = np.where(fits, count * width, -1).max(axis=1)
        if (found >= 0).all() and found[0] == sizes[0] - own:
            rules.append(found)
    return rules[0] if first >> 2 == 1 and rules and np.array_equal(rules[0], rules[-1]) else None


def _cells(heads: Heads, column: Column) -> tuple[Offsets, Offsets]:
    """Return int64[samples] twice: the byte offset of the column in each sample, and its bytes."""
    file, begins, lengths, sizes = heads.file, heads.begins, np.diff(heads.table), column.sizes
    free, fixed = [k for k, size in enumerate(sizes) if size is None], [size for size in sizes if size is not None]
    if not all(fixed) or (lengths < sum(fixed) + 4 * len(free)).any():
        raise CorruptError(file.path, "a sample is shorter than its columns", found=f"sizes {sizes}"[:60])
    widths = np.tile(np.array([size or 0 for size in sizes], np.int64), (len(begins), 1))
    widths[:, free] = heads.take(begins, 4 * len(free)).view("<u4")
    wrong = np.flatnonzero(widths.sum(axis=1) + 4 * len(free) != lengths)
    if len(wrong) or (widths > file.size).any():
        raise CorruptError(file.path, "a sample has another size than its columns", offset=int(begins[[*wrong, 0][0]]))
    return begins + 4 * len(free) + widths[:, : column.at].sum(axis=1), widths[:, column.at]


def _ids(heads: Heads, byte_offsets: Offsets, lengths: Offsets, column: Column) -> Ids:
    """Return the byte offsets and lengths of the IDs of each sample."""
    file, dtype = heads.file, column.dtype
    if column.coded:
        codes = np.unique(_front(heads, byte_offsets, lengths, 1))
        if len(codes) > 1 or (len(codes) and int(codes[0]) not in CODES):
            raise CorruptError(file.path, "dtypes of a column", expected="one, of integers", found=str(codes)[:60])
        dtype = np.dtype(CODES[int(codes[0])] if len(codes) else "<u2")
        byte_offsets, lengths = byte_offsets + 1, lengths - 1
    if dtype is None:
        likely = _LIKELY[likely_width(_beginnings(file, byte_offsets, lengths), _divisors(lengths))]
        remedy = f"Give it with --from-opt dtype={likely}, probably"
        what = f"the dtype of column {column.name}, of bytes, is not stored"
        raise UnsupportedError(file.path, what, remedy=remedy)
    if column.shaped:
        shape = _front(heads, byte_offsets, lengths, 1)[:, 0]
        widths, counted = np.int64(1) << (shape & 3).astype(np.int64), np.zeros((len(shape), 8), np.uint8)
        for width in np.unique(widths).tolist():
            alike = np.flatnonzero(widths == width)
            counted[alike, :width] = _front(heads, byte_offsets[alike] + 1, lengths[alike] - 1, width, alike)
        byte_offsets, lengths = byte_offsets + 1 + widths, lengths - 1 - widths
        wrong = (shape >> 2 != 1) | (counted.view("<u8")[:, 0] != (lengths // dtype.itemsize).astype(np.uint64))
        if wrong.any():
            at = int(byte_offsets[np.argmax(wrong)])
            raise CorruptError(file.path, "an array has another length than its shape, of one dimension", offset=at)
    return Ids(byte_offsets, lengths, dtype)


def _divisors(lengths: Offsets) -> list[int]:
    """Return the widths of more than 2 bytes that divide the bytes of all samples, the widest first."""
    return [width for width in (8, 4) if not (lengths % width).any()]


def _beginnings(file: File, byte_offsets: Offsets, lengths: Offsets) -> NDArray[np.uint8]:
    """Return the beginnings of some columns of bytes, each of whole IDs of 8 bytes."""
    found = [np.empty(0, np.uint8)]
    for at, length in zip(byte_offsets[:_LOOKED_AT].tolist(), lengths[:_LOOKED_AT].tolist(), strict=True):
        found.append(file.array(at, min(length, 1 << 12) // 8 * 8, "u1"))
    return np.concatenate(found)


def _front(
    heads: Heads, byte_offsets: Offsets, lengths: Offsets, width: int, samples: NDArray[np.intp] | None = None
) -> NDArray[np.uint8]:
    """Return uint8[n, width]: the first `width` bytes of the IDs of samples, of which `lengths` bytes are there."""
    if (short := lengths < width).any():
        what = "a column is too short for its array"
        raise CorruptError(heads.file.path, what, offset=int(byte_offsets[np.argmax(short)]))
    return heads.take(byte_offsets, width, samples)


FORMAT = Mds()
