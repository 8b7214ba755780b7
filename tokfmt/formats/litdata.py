"""LitData's folders for TokensLoader, which litgpt trains on: `index.json` and chunks of token ids.

    index.json       {"chunks": [{"filename", "chunk_bytes", "chunk_size": items, "dim": tokens or null}],
                      "config": {"data_format": ["no_header_tensor:K" or "no_header_numpy:K"], "compression", ...}}
    chunk-R-K.bin    u32 little-endian, as all: n items; u32[n + 1]: byte at which each begins, and the size of the
                     file; then the items, each the raw ids of a document

    K of numpy: 1 i16, 2 i32, 3 i64, 4 u8, 5 u16, 6 u32, 7 u64
    K of tensors: 11 u8, 13 and 14 i16, 15 and 16 i32, 17 and 18 i64, 20 u16

- Chunks are in the order of the index. compression zstd: a chunk is one frame; sizes and places are those inside.
- A separator may follow each document; nothing says whether, or which. TokensLoader ignores where documents begin.
- With another item_loader, the default, each item has its size in front (u32): TokensLoader cannot read that.
  The same with a `dim` of null, which upstream writes where the first item of a chunk is empty. tokfmt reads both.
- Only {rank}.index.json: the writers were not merged.
Source: Lightning-AI/litData 8805bae0, litdata 0.2.76, run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tokfmt.core.axis import Separators, TokenReader, windows
from tokfmt.core.errors import CorruptError, FormatError, UnsupportedError
from tokfmt.core.files import File
from tokfmt.core.format import Confidence, Hints, Probe, Problem, fatal
from tokfmt.core.options import option
from tokfmt.core.protocols import Code, Section
from tokfmt.core.ragged import Offsets, offsets_of
from tokfmt.core.sections import shown
from tokfmt.formats.flat import Column, Cut, Extent, FlatFormat, FlatWriter, Laid
from tokfmt.formats.folders import Packed, Values, inside, json_object, whole_number

NUMPY = {1: "<i2", 2: "<i4", 3: "<i8", 4: "<u1", 5: "<u2", 6: "<u4", 7: "<u8"}
TENSOR = {11: "<u1", 13: "<i2", 14: "<i2", 15: "<i4", 16: "<i4", 17: "<i8", 18: "<i8", 20: "<u2"}
_CHUNK = r"chunk-\d+-(\d+)(\.\w+)?\.bin"
_SPEC = '[1, {"type": null, "context": null, "children_spec": []}]'
_AT_ONCE = 1 << 20  # places of items


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read chunks."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write chunks."""

    eos: Literal["always", "none"] = option("always", "a separator after each document, or none")
    codes: Literal["numpy", "tensor"] = option(
        "numpy", "what readers make of ids: numpy's u16, u32 or torch's u16, i32"
    )
    chunk_tokens: int = option(1 << 24, "tokens in a chunk; documents stay whole", least=1, most=1 << 29)


class Writer(FlatWriter):
    """Writes a folder: chunks, and last index.json."""

    whole, needs_max_id, folder, most_bytes = True, True, True, (1 << 32) - 1

    @property
    def separators(self) -> Separators:  # type: ignore[override]
        return Separators.TRAILING if self.options.eos == "always" else Separators.NONE

    def dtype(self, top: int) -> np.dtype[Any]:
        wide = "<i4" if self.options.codes == "tensor" else "<u4"
        return np.dtype("<u2" if top < 1 << 16 else wide)

    def file_tokens(self) -> int:
        return int(self.options.chunk_tokens)

    def file(self, number: int) -> Path:
        return self.path / f"chunk-0-{number}.bin"

    def begins(self, cut: Cut) -> int:
        return 4 * (cut.last - cut.first + 2)

    def index(self, stored: TokenReader, dtype: np.dtype[Any]) -> Iterator[tuple[Path, int, bytes]]:
        chunks = []
        for cut in self.cuts(stored):
            path, begin, count = self.file(cut.number), self.begins(cut), cut.last - cut.first
            size = begin + (cut.stop - cut.start) * dtype.itemsize
            for a, b in list(windows(cut.first, cut.last, _AT_ONCE)) or [(cut.first, cut.first)]:
                places = (stored.offsets(a, b) - cut.start) * dtype.itemsize + begin
                yield path, 4 * (a - cut.first + 1), places.astype("<u4").tobytes()
            yield path, 0, count.to_bytes(4, "little")  # last: what begins at byte 0 is a file of its own
            dim = cut.stop - cut.start
            chunks.append({"chunk_bytes": size, "chunk_size": count, "dim": dim, "filename": path.name})
        kind, code = {"u2": (20, 5), "u4": (0, 6), "i4": (16, 0)}[dtype.str[1:]]
        named = f"no_header_tensor:{kind}" if self.options.codes == "tensor" else f"no_header_numpy:{code}"
        config = {"chunk_bytes": None, "chunk_size": self.options.chunk_tokens, "compression": None, "encryption": None}
        config |= {"data_format": [named], "data_spec": _SPEC, "item_loader": "TokensLoader"}
        said = json.dumps({"chunks": chunks, "config": config, "updated_at": "0"}, sort_keys=True)
        yield self.path / "index.json", 0, said.encode()


class LitData(FlatFormat):
    """LitData's token chunks."""

    name = "litdata"
    title = "LitData folders for TokensLoader: index.json and chunks"
    carries = "sequences in order, empty ones too; ids up to 2^32-1"
    cannot = "ids above 2^32-1, or 2^31-1 with codes=tensor"
    read_options, write_options, Writer = ReadOptions, WriteOptions, Writer
    pattern, unreadable = _CHUNK, "TF741"
    member = "index.json"
    meanings = {
        "TF741": Code("no chunks of tokens", "index.json is missing, damaged, or of other data than token ids; it is "
                       "encrypted; or only {rank}.index.json are there: run litdata's merge again."),
        "TF742": Code("a chunk is missing", "index.json names it, and it is not there: a copy was cut off, or it was "
                       "removed. Copy the folder again."),
        "TF743": Code("a chunk is not as long as the index says", "It was cut, or its compressed data are damaged. "
                       "Copy it again, or leave it out of index.json."),
        "TF744": Code("places of items contradict the chunk", "They decrease, leave the chunk, split an id, or are not "
                       "as many as the index says. Write the folder again."),
        "TF745": Code("TokensLoader cannot read it", "`dim` is null: the folder was written without "
                       "item_loader=TokensLoader(), or the first item of a chunk is empty (litData#482). tokfmt reads "
                       "it; writing it again (tokfmt convert) mends it."),
        "TF746": Code("a name that leaves the folder", "index.json names a file by `..`, by an absolute path or an "
                       "address, or a link leads out. Do not read it, unless you made it yourself.", unsafe=True),
    }  # fmt: skip

    def sniff(self, probe: Probe) -> Confidence | None:
        index = probe.entry("index.json")
        if index is None:
            parts = [name for name in probe.entries if re.fullmatch(r"\d+\.index\.json", name)]
            chunks = [name for name in probe.entries if re.fullmatch(_CHUNK, name)]
            return Confidence.CERTAIN if parts and chunks else None
        listed = re.search(rb'"chunks"\s*:\s*\[', index.head) and b'"data_format"' in index.head + index.tail
        return Confidence.CERTAIN if listed else None

    def files(self, path: Path) -> list[Path]:
        return [file for file in (path / "index.json", *super().files(path)) if file.is_file()]

    def examine(self, paths: Sequence[Path], options: ReadOptions, hints: Hints) -> Laid:  # noqa: ARG002
        folder = paths[0]
        if not (folder / "index.json").is_file() and any(folder.glob("*.index.json")):
            what, remedy = "the indexes of its writers were never merged", "Run litdata's merge again"
            raise FormatError(folder, what, expected="index.json", remedy=remedy)
        index = json_object(File(folder / "index.json"))
        chunks, config = index.get("chunks"), index.get("config")
        if not isinstance(chunks, list) or not isinstance(config, dict):
            raise CorruptError(folder / "index.json", "is no index of LitData", expected="chunks and config")
        dtype = _dtype(folder / "index.json", config)
        sized = config.get("item_loader", "TokensLoader") != "TokensLoader"
        looks = [_look(folder, chunk, config.get("compression"), dtype, sized=sized) for chunk in chunks]
        problems = [problem for _, _, wrong, _ in looks for problem in wrong]
        if sized or any(isinstance(chunk, dict) and chunk.get("dim") is None for chunk in chunks):
            what = "dim is null in the index: TokensLoader cannot read that"
            error = CorruptError(folder / "index.json", what, remedy="tokfmt convert to litdata mends it")
            problems.append(Problem("TF745", "warning", error))
        lengths = np.concatenate([np.zeros(0, np.int64), *(found for _, found, _, _ in looks)])
        return Laid(
            extents=[extent for extents, *_ in looks for extent in extents],
            starts=offsets_of(lengths),
            separators=Separators.TRAILING,
            problems=problems,
            sections=[section for *_, sections in looks for section in sections],
            extras={
                "dtype": dtype.name,
                "chunks": len(chunks),
                "compression": shown(config.get("compression") or "none"),
            },
        )


def _dtype(path: Path, config: Mapping[str, Any]) -> np.dtype[Any]:
    if config.get("encryption") is not None:
        raise UnsupportedError(path, "the chunks are encrypted", remedy="Decrypt them with litdata")
    said = config.get("data_format")
    match = (
        re.fullmatch(r"no_header_(numpy|tensor):(\d{1,3})", str(said[0])) if isinstance(said, list) and said else None
    )
    kind = (NUMPY if match[1] == "numpy" else TENSOR).get(int(match[2])) if match and len(said or ()) == 1 else None
    if kind is None:
        expected = "one no_header_numpy:K or no_header_tensor:K of integers"
        raise UnsupportedError(path, "holds other data than token ids", expected=expected, found=str(said)[:60])
    return np.dtype(kind)


Look = tuple[list[Extent], Offsets, list[Problem], list[Section]]


def _look(folder: Path, chunk: object, codec: object, dtype: np.dtype[Any], *, sized: bool) -> Look:
    """Tokens of a chunk, length of each item, problems and named bytes."""
    nothing = np.zeros(0, np.int64)
    if not isinstance(chunk, dict):
        raise CorruptError(folder / "index.json", "a chunk in the index", expected="an object", found=str(chunk)[:60])
    size, count = (whole_number(folder / "index.json", key, chunk.get(key)) for key in ("chunk_bytes", "chunk_size"))
    try:
        path = inside(folder, chunk.get("filename"))
    except FormatError as error:
        return [], nothing, [fatal("TF746", error)], []
    if not path.is_file():
        return [], nothing, [fatal("TF742", CorruptError(path, "is missing", remedy="Copy the folder again"))], []
    try:
        file = Packed(path, str(codec).split(":")[0], size) if codec else File(path)
        if file.size != size:
            raise CorruptError(path, "bytes of the chunk", expected=size, found=file.size, remedy="Copy it again")
        if 4 * (count + 2) > size:
            raise CorruptError(
                path, "is too short for its items", expected=f"{count:,} places", found=f"{size:,} bytes"
            )
        head = file.head(4 * (count + 2)) if isinstance(file, Packed) else file.read(0, 4 * (count + 2))
        places = np.frombuffer(head, "<u4").astype(np.int64)
    except FormatError as error:
        return [], nothing, [fatal("TF743", error)], []
    sections: list[Section] = [Column(f"places in {path.name}", file, 4, "<u4", count + 1)] if file.plain else []
    lengths = np.diff(places[1:]) - 4 * sized
    whole = (places[0], places[1], places[-1]) == (count, len(head), size)
    if not whole or (lengths < 0).any() or (lengths % dtype.itemsize).any():
        wanted = f"{count:,} items from byte {len(head):,} to {size:,}, of whole {dtype.itemsize}-byte ids"
        found = f"{places[0]:,} items from {places[1]:,} to {places[-1]:,}"
        return (
            [],
            nothing,
            [fatal("TF744", CorruptError(path, "places of items", offset=0, expected=wanted, found=found))],
            sections,
        )
    lengths //= dtype.itemsize
    if not sized:
        return [Extent(file, len(head), int(lengths.sum()), dtype)], lengths, [], sections
    values = Values(file, places[1:-1] + 4, offsets_of(lengths * dtype.itemsize), {})
    return [Extent(values, 0, int(lengths.sum()), dtype)], lengths, [], sections


FORMAT = LitData()
