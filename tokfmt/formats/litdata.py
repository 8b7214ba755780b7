"""LitData's folders for TokensLoader, which litgpt trains on: `index.json` and chunks of token IDs.

    file             content
    index.json       {"chunks": [{"filename", "chunk_bytes", "chunk_size": items, "dim": tokens or null}],
                      "config": {"data_format": ["no_header_tensor:K" or "no_header_numpy:K"], "compression", ...}}
    chunk-R-K.bin    u32 little-endian: n items; u32[n + 1]: byte offset of each item, and the size; the items, each the
                     raw IDs of a document

    data_format         dtype of each K
    no_header_numpy:K   1 i16, 2 i32, 3 i64, 4 u8, 5 u16, 6 u32, 7 u64
    no_header_tensor:K  11 u8, 13 and 14 i16, 15 and 16 i32, 17 and 18 i64, 20 u16

- With compression zstd or zstd:LEVEL, a chunk is one frame, in a file chunk-R-K.zstd:LEVEL.bin.
- A separator may follow each document. The files do not state whether it does, or which ID it is. TokensLoader ignores
  the starts of documents.
- With the default item_loader, `dim` is null, and the size of each item (u32) is before its IDs. If the first item of a
  chunk is empty, `dim` is null without sizes. TokensLoader cannot read either; tokfmt reads both.
- An item of several fields has the size of each (u32) before them. The field of IDs is `input_ids` or `tokens`, or the
  only array of integers. Arrays of integers beside it with names of `model.rows` (labels, attention_mask, ...) are
  read by its rule.
- Older indexes do not state the item_loader. tokfmt then infers from the items whether they have sizes.
- A folder with only {rank}.index.json is incomplete: the indexes of its writers were not merged.
Source: Lightning-AI/litData 8805bae0, litdata 0.2.76, run.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from tokfmt.base.options import option
from tokfmt.core.annotation import shown
from tokfmt.core.findings import Problem
from tokfmt.core.format import Confidence, Probe
from tokfmt.core.loss_mask import MASK_CHOICES, MaskChoice
from tokfmt.core.ragged import Offsets
from tokfmt.core.reader import TokenReader
from tokfmt.errors import CorruptError, FormatError, UnsupportedError
from tokfmt.files.file import matching, open_file
from tokfmt.files.place import Place
from tokfmt.formats.flat import FlatOptions
from tokfmt.formats.folders import json_object, whole_number
from tokfmt.formats.shards import (
    INDEX,
    Form,
    Heads,
    Ids,
    Listed,
    Listing,
    ShardFormat,
    ShardWriter,
    Written,
    loss_masks_of,
)
from tokfmt.model.rows import columns_to_read

NUMPY = {1: "<i2", 2: "<i4", 3: "<i8", 4: "<u1", 5: "<u2", 6: "<u4", 7: "<u8"}
TENSOR = {11: "<u1", 13: "<i2", 14: "<i2", 15: "<i4", 16: "<i4", 17: "<i8", 18: "<i8", 20: "<u2"}
_TOKENS = "TokensLoader"
_MENDS = "Write it again with tokfmt convert to litdata"
_MOST_FIELDS = 1 << 10
_CHUNK = r"chunk-\d+-(\d+)(\.[\w:]+)?\.bin"
_SPEC = '[1, {"type": null, "context": null, "children_spec": []}]'


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading chunks."""

    column: str | None = option(None, "field of token IDs; auto: input_ids, tokens, or the only array of integers")
    seq_len: int | None = option(None, "block_size of TokensLoader; a note reports what it drops", minimum=1)
    rows: Literal["documents", "blocks"] = option(
        "documents", "rows are documents, or blocks of a stream that --eos splits"
    )
    overlap: int | None = option(None, "tokens of a block that repeat the block before, which are left out", minimum=0)
    loss_mask: MaskChoice | None = option(None, MASK_CHOICES)


@dataclass(frozen=True, slots=True)
class WriteOptions(FlatOptions):
    """Options for writing chunks."""

    codes: Literal["numpy", "tensor"] = option(
        "numpy", "type of the IDs for readers: numpy's u16, u32 or torch's u16, i32"
    )
    shard_size: int = option(1 << 24, "tokens per chunk; documents stay complete", minimum=1, maximum=1 << 29)
    compression: str = option("none", "compression of each chunk: none, zstd, or with a level zstd:7")
    seq_len: int | None = option(None, "block_size of TokensLoader; a note reports what it will drop", minimum=1)


class Writer(ShardWriter):
    """A writer of chunks and then of index.json."""

    codecs = ("zstd",)
    empties = "TokensLoader, which reads a chunk as one stream, cannot tell that they are there"

    def dtype(self, top: int) -> np.dtype[Any]:
        wide = "<i4" if self.options.codes == "tensor" else "<u4"
        return np.dtype("<u2" if top < 1 << 16 else wide)

    def notes(self, source: TokenReader) -> Iterator[str]:
        yield from super().notes(source)
        yield from _dropped([cut.stop - cut.start for cut in self.cuts(source)], self.options.seq_len)

    def remedy(self, dtype: np.dtype[Any]) -> str:
        return "--to-opt codes=numpy has room for IDs up to 4,294,967,295" if dtype.kind == "i" else ""

    def name(self, number: int, codec: str) -> str:
        return f"chunk-0-{number}{f'.{codec}' if codec else ''}.bin"

    def described(self, shards: Sequence[Written], dtype: np.dtype[Any]) -> Mapping[str, object]:
        chunks = [
            {
                "chunk_bytes": shard.size,
                "chunk_size": shard.cut.last - shard.cut.first,
                "dim": shard.cut.stop - shard.cut.start,
                "filename": shard.name,
            }
            for shard in shards
        ]
        kinds = TENSOR if self.options.codes == "tensor" else NUMPY
        code = max(code for code, kind in kinds.items() if np.dtype(kind) == dtype)
        config = {
            "chunk_bytes": None,
            "chunk_size": self.options.shard_size,
            "compression": self.codec or None,
            "encryption": None,
            "data_format": [f"no_header_{self.options.codes}:{code}"],
            "data_spec": _SPEC,
            "item_loader": _TOKENS,
        }
        return {"chunks": chunks, "config": config, "updated_at": "0"}


class LitData(ShardFormat):
    """The format of LitData's token chunks."""

    name = "litdata"
    title = "LitData folders for TokensLoader: index.json and chunks"
    stores = "sequences in order, empty ones too; IDs up to 2^32-1"
    cannot_store = "IDs above 2^32-1, or 2^31-1 with codes=tensor"
    read_options, write_options, Writer = ReadOptions, WriteOptions, Writer
    pattern, below, unreadable = _CHUNK, rf"index\.json|{_CHUNK}", "TF741"
    shard, item = "chunk", "item"
    missing, wrong_size, wrong_items, wrong_name, masked = "TF742", "TF743", "TF744", "TF746", "TF748"

    def sniff(self, probe: Probe) -> Confidence | None:
        index = probe.entry(INDEX)
        if index is None:
            parts = any(re.fullmatch(r"\d+\.index\.json", name) for name in probe.entries)
            return Confidence.CERTAIN if parts and any(re.fullmatch(_CHUNK, name) for name in probe.entries) else None
        listed = re.search(rb'"chunks"\s*:\s*\[', index.head) and b'"data_format"' in index.head + index.tail
        return Confidence.CERTAIN if listed else None

    def listing(self, path: Place, options: ReadOptions) -> Listing:
        if not path.is_file() and matching(path.parent, "*.index.json"):
            what, remedy = "the indexes of its writers were never merged", "Run litdata's merge again"
            raise FormatError(path.parent, what, expected=INDEX, remedy=remedy)
        index = json_object(open_file(path))
        chunks, config = index.get("chunks"), index.get("config")
        if not isinstance(chunks, list) or not isinstance(config, dict):
            raise CorruptError(path, "is not an index of LitData", expected="chunks and config")
        _check_readable(path, config)
        fields, problems = _fields(path, config), list[Problem]()
        chosen = _chosen(path, fields, config["data_format"], options.column)
        integers = [name for name, dtype in fields.items() if dtype is not None]
        beside = [name for name in columns_to_read(path, integers, options.loss_mask, chosen) if name != chosen]
        shards = [_listed(path, chunk, config, fields, chosen, beside) for chunk in chunks]
        if any(chunk.get("dim") is None for chunk in chunks):
            what = "dim is null in the index: TokensLoader cannot read that"
            problems.append(Problem("TF745", "warning", CorruptError(path, what, remedy=_MENDS)))
        (name, times), *_ = Counter(str(chunk.get("filename")) for chunk in chunks).most_common(1) or [("", 0)]
        if times > 1:
            what, remedy = f"lists {shown(name)} {times:,} times", "Leave the repeated entries out"
            problems.append(Problem("TF749", "warning", CorruptError(path, what, remedy=remedy)))
        codec = shown(config.get("compression") or "none")
        notes = tuple(_dropped([chunk["dim"] for chunk in chunks if type(chunk.get("dim")) is int], options.seq_len))
        others = [name for name in fields if name not in (chosen, *beside)]
        if others:
            notes += (f"fields that are not read: {', '.join(map(shown, others))}",)
        extras = {"dtype": np.dtype(fields[chosen]).name, "chunks": len(chunks), "compression": codec}
        extras |= {"column": shown(chosen)} if len(fields) > 1 else {}
        return Listing(shards, problems, notes, extras, loss_masks_of(beside, others, options.loss_mask, "item"))

    def contradictions(self, one: Listed, path: Place, tokens: int) -> Iterator[Problem]:
        stated = one.about.dim
        if stated is not None and stated != tokens:
            what = "dim of the chunk in index.json, by which TokensLoader cuts windows, is not its number of tokens"
            error = CorruptError(path, what, expected=f"{tokens:,}", found=shown(stated), remedy=_MENDS)
            yield Problem(
                "TF747",
                "error",
                error,
                note=f"{path.name}: dim in index.json is {shown(stated)}, but the chunk holds {tokens:,} tokens",
            )

    def ids(self, one: Listed, heads: Heads) -> Ids:
        dtype, loader, _, _, fields = one.about
        file, byte_offsets, lengths, begin = heads.file, heads.begins, np.diff(heads.table), 4 * (one.count + 2)
        if heads.table[0] != begin:
            found = int(heads.table[0])
            raise CorruptError(file.path, "offset of the first item", offset=4, expected=begin, found=found)
        if fields > 1:
            return _of_field(heads, lengths, one.about)
        sized = loader != _TOKENS and (lengths >= 4).all()
        sized = sized and np.array_equal(heads.take(byte_offsets, 4).view("<u4")[:, 0], lengths - 4)
        if loader not in ("", _TOKENS) and not sized:
            raise CorruptError(file.path, f"items do not begin with their sizes, as {loader} writes them", offset=begin)
        return Ids(byte_offsets + 4, lengths - 4, dtype) if sized else Ids(byte_offsets, lengths, dtype)


def _dropped(tokens: Sequence[int], block_size: int | None) -> Iterator[str]:
    """Yield a note on the tokens that TokensLoader drops at the ends of chunks, if there are any."""
    if block_size and (dropped := sum(count % block_size for count in tokens)):
        of = f"{dropped:,} of {sum(tokens):,} tokens, at the ends of {len(tokens):,} chunks"
        yield f"TokensLoader(block_size={block_size}) drops {of}"


class Field(NamedTuple):
    """A field of integers of each item: token IDs, labels or a mask."""

    dtype: np.dtype[Any]
    loader: str  # the item_loader of the index; "" if it states none
    dim: object  # the tokens of the chunk that the index states; None if it does not
    number: int  # the number of the field
    fields: int  # the number of fields of an item


def _of_field(heads: Heads, lengths: Offsets, field: Field) -> Ids:
    """Return the byte offsets and lengths of one of several fields: before them, an item has the size of each."""
    head, byte_offsets = 4 * field.fields, heads.begins
    short = lengths < head
    sizes = np.zeros((len(lengths), field.fields), np.int64)
    sizes[~short] = heads.take(byte_offsets[~short], head, np.flatnonzero(~short)).view("<u4").reshape(-1, field.fields)
    wrong = np.flatnonzero(short | (sizes.sum(axis=1) + head != lengths))
    if len(wrong):
        what = f"the sizes of the {field.fields:,} fields of item {int(wrong[0]):,} are not those of the item"
        raise CorruptError(heads.file.path, what, offset=int(byte_offsets[wrong[0]]))
    return Ids(byte_offsets + head + sizes[:, : field.number].sum(axis=1), sizes[:, field.number], field.dtype)


def _listed(
    path: Place,
    chunk: object,
    config: Mapping[str, Any],
    fields: Mapping[str, np.dtype[Any] | None],
    chosen: str,
    beside: Sequence[str],
) -> Listed:
    if not isinstance(chunk, dict):
        raise CorruptError(path, "a chunk in the index", expected="an object", found=str(chunk)[:60])
    size, count = (whole_number(path, key, chunk.get(key)) for key in ("chunk_bytes", "chunk_size"))
    loader = shown(config.get("item_loader") or "") if chunk.get("dim") is None else _TOKENS
    names = list(fields)
    about = {
        name: Field(np.dtype(fields[name]), loader, chunk.get("dim"), names.index(name), len(names))
        for name in (chosen, *beside)
    }
    forms = [Form(chunk.get("filename"), str(config.get("compression") or ""))]
    return Listed(forms, size, count, about[chosen], [(name, about[name]) for name in beside])


def _check_readable(path: Place, config: Mapping[str, Any]) -> None:
    """Raise UnsupportedError if chunks are encrypted, or not compressed whole."""
    if config.get("encryption") is not None:
        raise UnsupportedError(path, "the chunks are encrypted", remedy="Decrypt them with litdata")
    if (level := config.get("compression_level") or "chunk") != "chunk":
        what = f"its items are compressed in parts (compression_level {shown(level)[:60]})"
        remedy = "tokfmt reads chunks that are compressed whole, or not: write it again without compression_batch_size"
        raise UnsupportedError(path, what, remedy=remedy)


def _fields(path: Place, config: Mapping[str, Any]) -> dict[str, np.dtype[Any] | None]:
    """Return the dtype of each field of an item by its name, None if it is not an array of integers.

    Fields of a tuple or a list have their numbers as names.
    """
    kinds = config.get("data_format")
    if not isinstance(kinds, list) or not kinds or len(kinds) > _MOST_FIELDS:
        what = "does not state the type of its items (data_format)"
        raise UnsupportedError(path, what, found=shown(kinds)[:60])
    names = list(map(str, range(len(kinds))))
    if len(kinds) > 1:
        try:
            _, spec = json.loads(config["data_spec"])
            context = json.loads(spec["context"] or "null")
            inner = [child["children_spec"] for child in spec["children_spec"]]
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise UnsupportedError(path, "does not state the fields of its items (data_spec)") from error
        if any(inner) or len(inner) != len(kinds) or (isinstance(context, list) and len(set(context)) != len(kinds)):
            what = "its items are nested"
            raise UnsupportedError(path, what, expected="a dict, tuple or list of arrays", found=shown(spec)[:200])
        names = list(map(str, context)) if isinstance(context, list) else names
    return dict(zip(names, map(_dtype, kinds), strict=True))


def _dtype(kind: object) -> np.dtype[Any] | None:
    """Return the dtype of a type of `data_format`; None if it is not one of arrays of integers."""
    match = re.fullmatch(r"no_header_(numpy|tensor):(\d{1,3})", str(kind))
    known = (NUMPY if match[1] == "numpy" else TENSOR).get(int(match[2])) if match else None
    return None if known is None else np.dtype(known)


def _chosen(
    path: Place, fields: Mapping[str, np.dtype[Any] | None], kinds: Sequence[object], wanted: str | None
) -> str:
    """Return the name of the field of token IDs: the given one, input_ids or tokens, or the only one of integers."""
    integers = [name for name, dtype in fields.items() if dtype is not None]
    usual = [name for name in ("input_ids", "tokens") if name in integers]
    found = [wanted] if wanted else usual[:1] or integers
    if len(found) == 1 and found[0] in integers:
        return found[0]
    listed = ", ".join(f"{shown(name)} ({shown(kind)})" for name, kind in zip(fields, kinds, strict=True))[:400]
    listed = shown(kinds[0])[:60] if len(kinds) == 1 else listed
    if wanted and len(fields) > 1:
        raise UnsupportedError(path, f"field {shown(wanted)} does not hold token IDs", found=listed)
    if len(integers) > 1:
        what = "the field of token IDs is not known"
        raise UnsupportedError(path, what, found=listed, remedy="Name it with --from-opt column=NAME")
    expected = "no_header_numpy:K or no_header_tensor:K of integers"
    raise UnsupportedError(path, "does not hold token IDs", expected=expected, found=listed)


FORMAT = LitData()
