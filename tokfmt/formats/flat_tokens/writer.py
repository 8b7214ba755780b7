"""Write flat tokens: one split, or a bare array."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.format import Receipt, Region, Target, TokenWriter, WriterTraits
from tokfmt.core.output import whole
from tokfmt.core.reader import INT32_MAX, WINDOW, TokenReader, check_ids, windows
from tokfmt.errors import OptionError
from tokfmt.files.file import writing
from tokfmt.formats.codecs import ENCODERS, GZIP_LEVEL, ZSTD_LEVEL
from tokfmt.formats.flat_tokens.layout import STARTS, TOKENS
from tokfmt.formats.flat_tokens.options import Codec, WriteOptions

_SPLIT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_SEQUENCES = 1 << 16

Json = Mapping[str, object]


def traits(options: WriteOptions) -> WriterTraits:
    """Return the traits of the writer: without separators, because `seq_starts` holds all boundaries.

    Raises:
        OptionError: The name of the split holds a character other than letters, digits, _, . and -.
    """
    if options.split is not None and not _SPLIT.fullmatch(options.split):
        raise OptionError(f"flat-tokens option split: {options.split!r} is not a plain name")
    return WriterTraits()


class FlatTokensWriter(TokenWriter):
    """Write a new store. A region is a run of whole chunks of tokens; the commit writes `seq_starts` and metadata."""

    def __init__(self, path: Path, options: WriteOptions, target: Target) -> None:
        self.path, self.options, self.keep_parts = path, options, target.keep_parts
        self.encode = ENCODERS[options.codec]
        self.group = path / options.split if options.split else path
        self._drafts = path.with_name(f"{path.name}.drafts")

    finishes_files = True

    def files_of(self, source: TokenReader, region: Region) -> Sequence[Path]:  # noqa: ARG002 - the region suffices
        """Return the chunks of tokens of a region."""
        chunk = self.options.chunk
        numbers = range(region.tokens.start // chunk, -(-region.tokens.stop // chunk))
        return [self._chunk(TOKENS, number) for number in numbers]

    def regions(self, source: TokenReader, size: int) -> Sequence[Region]:
        step = max(1, size // self.options.chunk) * self.options.chunk
        cuts = windows(0, source.info.tokens, step)
        return [Region(index, range(0), range(a, b)) for index, (a, b) in enumerate(cuts)]

    def create(self, source: TokenReader) -> None:  # noqa: ARG002 - the commit writes sizes
        for directory in (self._drafts, *(self._chunk(name, 0).parent for name in (TOKENS, STARTS))):
            with writing(directory):
                directory.mkdir(parents=True, exist_ok=True)

    def _chunk(self, name: str, number: int) -> Path:
        array = self.group / name
        return array / str(number) if self.options.zarr_format == 2 else array / "c" / str(number)

    def write(self, region: Region, source: TokenReader) -> Receipt:
        chunk, top, written = self.options.chunk, -1, 0
        step = max(1, WINDOW // chunk) * chunk
        buffer = np.empty(min(step, -(-len(region.tokens) // chunk) * chunk), np.dtype("<u4"))
        for a, b in windows(region.tokens.start, region.tokens.stop, step):
            items = buffer[: -(-(b - a) // chunk) * chunk]
            items[b - a :] = 0
            for c, d in windows(a, b):
                top = max(top, _encoded(source, c, d, items[c - a : d - a]))
            for c in range(0, len(items), chunk):
                data = self.encode(items[c : c + chunk])
                written += self._put(self._chunk(TOKENS, (a + c) // chunk), data)
        return Receipt(region.index, top, written)

    def commit(self, source: TokenReader, receipts: Sequence[Receipt]) -> None:
        info, size = source.info, self.options.starts_chunk
        entries = info.sequences + 1
        for a, b in windows(0, entries, size) if info.sequences else ():
            starts = np.zeros(size, np.dtype("<i8"))
            starts[: b - a] = source.offsets(a, b - 1)
            if self.options.zarr_format == 2:  # delta: a filter of v2; in v3 only zarr-python has it
                changing = min(b - a + 1, size)  # behind the last start all are 0, and so are their differences
                starts[1:changing] -= starts[: changing - 1].copy()
            self._put(self._chunk(STARTS, a // size), self.encode(starts))
        top = max((receipt.max_id for receipt in receipts), default=0)
        for path, content in self._metadata(info.tokens, entries, top):
            self._put(path, json.dumps(content, indent=4, sort_keys=True).encode())
        if not self.keep_parts:
            shutil.rmtree(self._drafts)

    def _metadata(self, tokens: int, entries: int, top: int) -> list[tuple[Path, Json]]:
        """Return path and content of each metadata file; those of the arrays last, without which nothing is read."""
        attributes, options = {"max_token_id": top}, self.options
        arrays = ((TOKENS, tokens, options.chunk, 4), (STARTS, entries, options.starts_chunk, 8))
        if options.zarr_format == 3:
            plain: Json = {"zarr_format": 3, "node_type": "group"}
            files = [(self.path / "zarr.json", plain)] if options.split else []
            files.append((self.group / "zarr.json", {**plain, "attributes": attributes}))
            made = [(self.group / a[0] / "zarr.json", _v3_array(*a[1:], options.codec)) for a in arrays]
            return [*files, *made]
        group: Json = {"zarr_format": 2}
        files = [(self.path / ".zgroup", group)]
        if options.split:
            files.append((self.group / ".zgroup", group))
        files.append((self.group / ".zattrs", attributes))
        return [*files, *((self.group / a[0] / ".zarray", _v2_array(*a[1:], options.codec)) for a in arrays)]

    def _put(self, path: Path, data: bytes) -> int:
        """Write a file atomically, because another task may write the same one; return its bytes."""
        with whole(path, self._drafts, stays=True) as file:
            return file.write(data)


def _encoded(source: TokenReader, start: int, stop: int, out: NDArray[np.uint32]) -> int:
    """Fill `out`, uint32[stop - start], with 2 * ID + start bit; return the largest ID."""
    ids = source.tokens(start, stop)
    top = check_ids(ids, INT32_MAX, start, "flat-tokens", "IDs above 2^31-1 leave no room for the start bit")
    np.left_shift(ids, 1, out=out, dtype=np.uint32, casting="unsafe")
    last = min(source.info.sequences, source.sequence_at(stop - 1) + 1)
    for a, b in windows(source.sequence_at(start), last, _SEQUENCES):
        begins = source.offsets(a, b)
        out[begins[np.searchsorted(begins, start) : np.searchsorted(begins, stop)] - start] |= 1
    return top


def _v2_array(length: int, chunk: int, itemsize: int, codec: Codec) -> Json:
    """Return the content of `.zarray` for an array of this length, chunk and item size."""
    compressors: dict[Codec, Json | None] = {
        "blosc": {"blocksize": 0, "clevel": 5, "cname": "lz4", "id": "blosc", "shuffle": 2},
        "zstd": {"id": "zstd", "level": ZSTD_LEVEL},
        "gzip": {"id": "gzip", "level": GZIP_LEVEL},
        "none": None,
    }
    delta = [{"astype": "<i8", "dtype": "<i8", "id": "delta"}]
    return {
        "chunks": [chunk],
        "compressor": compressors[codec],
        "dimension_separator": ".",
        "dtype": f"<u{itemsize}",
        "fill_value": 0,
        "filters": delta if itemsize == 8 else None,
        "order": "C",
        "shape": [length],
        "zarr_format": 2,
    }


def _v3_array(length: int, chunk: int, itemsize: int, codec: Codec) -> Json:
    """Return the content of `zarr.json` for an array of this length, chunk and item size."""
    blosc = {"blocksize": 0, "clevel": 5, "cname": "lz4", "shuffle": "bitshuffle", "typesize": itemsize}
    settings: dict[Codec, Json] = {
        "blosc": blosc,
        "zstd": {"level": ZSTD_LEVEL, "checksum": False},
        "gzip": {"level": GZIP_LEVEL},
    }
    behind = [{"name": codec, "configuration": settings[codec]}] if codec != "none" else []
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [length],
        "data_type": f"uint{itemsize * 8}",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [chunk]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, *behind],
        "attributes": {},
    }
