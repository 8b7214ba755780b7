"""Arrays of token IDs as people save them: NumPy's `.npy` and `.npz`, HDF5 datasets, zarr arrays, and bare integers.

    file                            content
    X.npy                           the header below, and integers
    X.npz                           a zip of NAME.npy, stored or deflated
    X.h5                            datasets of integers, contiguous, or in chunks (deflate, shuffle, fletcher32)
    X.zarr                          a store of zarr v2 or v3, or a zip of one: an array of integers, or a group of
                                    arrays and groups, in chunks (blosc, zstd, lz4, gzip, zlib, delta, crc32c), shards
    X_ids.npy and X_idx.npz         PaddleNLP: the tokens; and lens, the length of each sentence, sents, 0 and the sums
                                    of lens, docs, 0 and the sentences up to the end of each document (without it,
                                    each sentence is one)
    FOLDER/*.npy, FOLDER/*.h5       one stream in natural order of the names, unless one of the next rows applies
    tokens.npy and cu_seqlens.npy   (N,) and (D + 1,): 0, and the ends of D documents; also input_ids.npy, and
                                    offsets.npy or lengths.npy (D,). Other arrays beside them are not read
    tokens.bin and index.npy        with metadata.json {"dtype"}; (D, 2): first token and length of each document
    PREFIX_K.bin and metadata.yaml  tatm, with tokenized_info: each file ends in zeros that fill it
    X and X.json                    Model-Optimizer: num_samples rows of seq_length + 1 u32, each of which begins with
                                    the last token of the row before; a new stream begins at row
                                    num_samples * w // workers of worker w

    bytes of X.npy   content
    0 .. 5           93 4E 55 4D 50 59
    6, 7             version: 1.0, 2.0 or 3.0
    8 ..             length of the header, u16 (1.0) or u32 (2.0, 3.0), little-endian
    10 .. or 12 ..   {'descr': '<u2', 'fortran_order': False, 'shape': (N,), }, spaces, 0A
    ..               the integers; the header states their dtype and byte order

- One dimension is a stream. Two are rows, which are samples; `view=documents` reads them as one stream.
- Of an .npz: the only array; or `tokens` or `input_ids`, with `cu_seqlens`, `offsets` or `lengths`; or arr_0, arr_1
  and so on, one document each, in the order of their numbers; or `member=NAME`.
- Of HDF5 and of zarr: the only one, or as of an .npz. An array in a group is named with it: `member=train/tokens`;
  its boundaries are in the same group. HDF5 files with a dataset `data` are those of the format hdf5.
- An absent chunk of zarr looks like a lost one, so both are refused unless `holes=fill`.
- `bounds=ends` reads cu_seqlens or offsets without the 0 in front, `bounds=starts` those without the last end.
- Nothing states the separator. `--eos ID` splits a stream, after the ID or, with `side=before`, before it.
- `bare=DTYPE` reads any file as bare integers, with `order=big`, `header=BYTES` to leave out, and `row=N`.
- An array of objects is a pickle, which runs code; tokfmt never loads it. NumPy's own reader ignores trailing bytes.
Source: numpy 2.4.6, zarr 3.1.6, h5py 3.16.0, build-nanogpt 6104ab1, KempnerForge 5666d0d1, tatm 5a2a4f9f,
Model-Optimizer 66aca27d, run; PaddleNLP 0813679d, read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tokfmt.base.options import option
from tokfmt.core.annotation import Part, bounded_entries, shown
from tokfmt.core.findings import Audit, Code, Finding, Problem, fatal
from tokfmt.core.format import Confidence, Hints, Probe, Target, TokenWriter, WriterTraits
from tokfmt.core.ragged import Offsets, offsets_of
from tokfmt.core.reader import Inner, Separators, TokenReader, windows
from tokfmt.errors import CorruptError, OptionError, UnsafeError, UnsupportedError, missing_package
from tokfmt.files.fields import Field, Section
from tokfmt.files.file import File, everything_in, names_in, natural_key, open_file
from tokfmt.files.place import AnyPlace, Place
from tokfmt.formats.cells import Cells, CellsReader
from tokfmt.formats.flat import (
    Column,
    Cut,
    Extent,
    FileLayout,
    FlatFormat,
    FlatInspection,
    FlatOptions,
    FlatWriter,
    Pieces,
    files_named,
    joined,
    stated_tokens,
    whole_tokens,
)
from tokfmt.formats.folders import json_object, whole_number
from tokfmt.formats.npy import HEAD, MAGIC, Header, header_bytes, header_of
from tokfmt.formats.zarr_arrays.array import KEPT_BAND, arrays_in, dtype_of
from tokfmt.formats.zarr_arrays.array import Array as ZarrArray
from tokfmt.formats.zarr_arrays.store import Store, Zipped, open_store, zarr_format_of
from tokfmt.wording import counted, human_bytes, printable

if TYPE_CHECKING:
    from tokfmt.formats.hdf5_arrays.container import Array

TOKENS, BOUNDARIES, INDEX, TATM = "tokens.npy", "cu_seqlens.npy", "index.npy", "metadata.yaml"
Dtype = Literal["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
HDF5 = b"\x89HDF\r\n\x1a\n"
_IDS = ("tokens", "input_ids")
_ENDS = ("cu_seqlens", "offsets", "lengths")
_MARKS = frozenset((".zarray", ".zgroup", "zarr.json"))  # one of them is at the root of a zarr store
_IN_ZIP = re.compile(
    rb"PK\x01\x02[\s\S]{24}(\x07\0[\s\S]{16}\.z(array|group)|\x09\0[\s\S]{16}zarr\.json)"
)  # the entry of such a file in the directory of a zip
_INTEGERS = re.compile(rb'"(dtype|data_type)"\s*:\s*"([<>|][iu][1248]|u?int(8|16|32|64))"|"node_type"\s*:\s*"group"')
_ZARR_KEY = re.compile(r"(.+/)?(\.z(array|attrs|group|metadata)|zarr\.json|(c[./])?\d+([./]\d+)?)")
_LOOKED_AT = 1 << 20  # IDs whose rows are compared with their neighbors
_FEW_ROWS, _FEW_ZEROS = 8, 8  # that many say enough: neighbors with one token in common, zeros that fill a file
_SENTENCES = ("_ids.npy", "_idx.npz")  # endings of the two files of PaddleNLP
_LOOKED_INTO = 64  # arrays of an .npz that are not read, whose headers are looked at
_TEXT = 1 << 20  # bytes of a description, at most


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading arrays."""

    bare: Dtype | None = option(None, "dtype of bare integers, whatever their header; auto: as the header states")
    order: Literal["little", "big"] = option("little", "byte order of bare integers")
    header: int | None = option(None, "bytes before the first of bare integers; auto: none", minimum=1)
    row: int | None = option(None, "tokens per row of bare integers; auto: one stream", minimum=1)
    member: str | None = option(
        None, "array of an .npz, HDF5 or zarr to read; auto: the only one, tokens, input_ids, or arr_0, arr_1, ..."
    )
    view: Literal["samples", "documents"] = option("samples", "rows are samples, or one stream that --eos splits")
    overlap: int | None = option(
        None, "tokens of a row that repeat the row before, which view=documents leaves out; auto: as stated", minimum=0
    )  # fmt: skip
    side: Literal["after", "before"] = option("after", "the separator of a stream is after documents, or before them")
    bounds: Literal["starts", "ends"] | None = option(
        None, "values of cu_seqlens or offsets are only starts, or only ends, of documents; auto: 0 and the ends"
    )
    unit: Literal["documents", "sequences"] = option(
        "documents", "sequences are documents, or, of PaddleNLP, the sentences of documents"
    )
    holes: Literal["refuse", "fill"] = option("refuse", "missing chunks of zarr are an error, or their fill value")
    fill: Literal["drop", "keep"] | None = option(None, "zeros at the end of files of tatm; auto: dropped if 8 or more")


@dataclass(frozen=True, slots=True)
class WriteOptions(FlatOptions):
    """Options for writing arrays."""

    dtype: Literal["uint16", "int32", "uint32", "int64"] | None = option(
        None, "dtype; auto: uint16 if all IDs fit, else uint32"
    )
    boundaries: Literal["separator", "cu_seqlens"] = option(
        "separator", "what bounds documents: the separator, or tokens.npy and cu_seqlens.npy in a folder"
    )
    shard_size: int | None = option(None, "tokens per file of a folder; auto: one file", minimum=1)


class Virtual(File):
    """A file whose bytes are computed from those of another one. Picklable."""

    is_plain = False
    base: File

    def __init__(self, base: File, **state: object) -> None:
        self.__setstate__({"path": base.path, "identity": base.identity, "may_be_page": False, "base": base, **state})

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def close(self) -> None:
        super().close()
        self.base.close()


class Inflated(Virtual):
    """The content of a deflated member of a zip, of which the last that was read is in memory."""

    store: Zipped
    key: str
    _content = b""

    @property
    def size(self) -> int:
        return self.store.length(self.key)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        content = self._content
        if not content:
            blob = self.store.blob(self.key)
            self._content = content = b"" if blob is None else blob.read(0, blob.size)
        buffer.cast("B")[:] = content[offset : offset + buffer.nbytes]

    def close(self) -> None:
        super().close()
        self._content = b""

    def to_stored_offset(self, offset: int) -> int | None:  # noqa: ARG002 - of no byte
        return None


class Unrepeated(Virtual):
    """Rows without the tokens at their beginning that repeat the row before."""

    begin: int
    rows: int
    row: int
    overlap: int
    width: int

    @property
    def size(self) -> int:
        return (self.overlap + self.rows * (self.row - self.overlap)) * self.width if self.rows else 0

    def to_stored_offset(self, offset: int) -> int | None:
        token, byte = divmod(offset, self.width)
        step = self.row - self.overlap
        row, column = divmod(token - self.overlap, step) if token >= self.overlap else (0, token - self.overlap)
        return self.base.to_stored_offset(self.begin + (row * self.row + self.overlap + column) * self.width + byte)

    def from_stored_offset(self, offset: int) -> int | None:
        stored = self.base.from_stored_offset(offset)
        if stored is None or not 0 <= stored - self.begin < self.rows * self.row * self.width:
            return None
        token, byte = divmod(stored - self.begin, self.width)
        row, column = divmod(token, self.row)
        if row and column < self.overlap:  # It repeats the end of the row before.
            row, column = row - 1, column + self.row - self.overlap
        return (row * (self.row - self.overlap) + column) * self.width + byte

    def read_into(self, offset: int, buffer: memoryview) -> None:
        out, step = buffer.cast("B"), (self.row - self.overlap) * self.width
        lead = self.overlap * self.width
        first = max(0, min(lead - offset, len(out)))
        out[:first] = self.base.read(self.begin + offset, first)
        if len(out) == first:
            return
        start = offset + first - lead
        row, last = start // step, -(-(start + len(out) - first) // step)
        size = self.row * self.width
        stored = np.frombuffer(self.base.read(self.begin + row * size, (last - row) * size), np.uint8).reshape(-1, size)
        out[first:] = stored[:, lead:].reshape(-1)[start - row * step :][: len(out) - first].data


class Writer(FlatWriter):
    """A writer of X.npy, or of shards in a folder: one stream with the separator after each sequence."""

    separators, suffix, begin, needs_max_id = Separators.AFTER, ".npy", HEAD, True
    names = "shard_{number:05d}.npy"

    def header(self, cut: Cut, dtype: np.dtype[Any]) -> bytes:
        return header_bytes(dtype, cut.tokens)


class RowWriter(Writer):
    """A writer of samples as the rows of one array."""

    separators, names = Separators.NONE, "shard_00000.npy"

    def __init__(self, path: Path, options: WriteOptions, target: Target, seq_len: int) -> None:
        super().__init__(path, options, target)
        self.seq_len = seq_len

    def file_tokens(self) -> int | None:
        return None

    def header(self, cut: Cut, dtype: np.dtype[Any]) -> bytes:
        return header_bytes(dtype, cut.tokens // self.seq_len, self.seq_len)


class PairWriter(Writer):
    """A writer of a folder with tokens.npy, and with the ends of documents in cu_seqlens.npy."""

    separators, names, suffix = Separators.TRAILING, TOKENS, ""

    @property
    def folder(self) -> bool:
        return True

    @classmethod
    def traits(cls, options: WriteOptions) -> WriterTraits:
        """See `Format.writer_traits`."""
        return replace(super().traits(options), file_suffixes=())

    def file_tokens(self) -> int | None:
        return None

    def index(self, stored: TokenReader, dtype: np.dtype[Any]) -> Pieces:  # noqa: ARG002 - of any
        path, count = self.path / BOUNDARIES, stored.info.sequences
        ends = np.dtype("<i8")
        yield path, 0, header_bytes(ends, count + 1)
        if not count:
            yield path, HEAD, bytes(8)
        for a, b in windows(0, count, 1 << 20):
            yield path, HEAD + 8 * a, stored.offsets(a, b).astype(ends)


class ArrayInspection(FlatInspection):
    """The inspection of arrays."""

    def look(self, how: Audit) -> Iterator[Finding]:
        """See `Inspection.look`. A deep check compares the checksums of an .npz."""
        yield from super().look(how)
        for path in self.paths if how.deep and not self.is_fatal else ():
            if path.suffix == ".npz" and path.is_file():
                store = Zipped(path)
                yield from (
                    Finding.of("TF791", error) for name in _arrays(store) if (error := store.damage(f"{name}.npy"))
                )


class ArrayFormat(FlatFormat):
    """The format of arrays of token IDs."""

    name = "array"
    title = "NumPy, HDF5 and zarr arrays, bare integers"
    extensions = (".npy",)
    joins_files = numbers_files = stores_rows = True
    stores = "sequences in order, empty ones too; samples of a recipe as rows; IDs up to 2^32-1"
    cannot_store = "sequences that contain the separator, unless boundaries=cu_seqlens"
    read_options, write_options, Writer = ReadOptions, WriteOptions, Writer
    pattern, unreadable = r"(?![._]).+\.(?:npy|h5)", "TF791"
    member, inspection, unsafe, Reader = "X.npy or X.h5", ArrayInspection, "TF795", CellsReader
    meanings = {
        "TF791": Code(
            "not an array of token IDs",
            "It has no header of NumPy, a damaged one, or one of floats, objects or more than two dimensions; or a "
            "member of an .npz, a dataset of an HDF5 file or an array of zarr cannot be read. The message has the "
            "cause.",
        ),
        "TF792": Code(
            "the size contradicts the header",
            "The file was cut, or something was appended, which NumPy's reader ignores. --allow-loss tail reads the "
            "tokens that are there, and leaves out what is too much.",
        ),
        "TF793": Code(
            "the boundaries contradict the tokens",
            "cu_seqlens begins with 0, never decreases, and ends with the number of tokens; an index of offsets and "
            "lengths lists documents one after the other. Write both files again.",
        ),
        "TF794": Code(
            "the description contradicts the file",
            "The .json of Model-Optimizer states another size, another version, or that the file is not complete; or "
            "metadata.yaml or metadata.json lacks the dtype. Upstream refuses it, too. Build it again.",
        ),
        "TF795": Code(
            "unsafe to read",
            "An array of objects is a pickle, which can run code when it is loaded; or a header or a member of an .npz "
            "states a size that would exhaust memory; or metadata of zarr state one, or a codec that tokfmt does not "
            "know, which could run code. tokfmt does not read it. Write its IDs as integers.",
            unsafe=True,
        ),
        "TF796": Code(
            "chunks are missing",
            "A copy lost them, or the writer left out chunks that hold only the fill value, as zarr does by default. "
            "Copy the store again, or read them as the fill value with --from-opt holes=fill.",
        ),
    }

    def writer(self, path: Path, options: WriteOptions, target: Target) -> TokenWriter:
        return (PairWriter if options.boundaries == "cu_seqlens" else Writer)(path, options, target)

    def writer_traits(self, options: WriteOptions) -> WriterTraits:
        return (PairWriter if options.boundaries == "cu_seqlens" else Writer).traits(options)

    def row_writer(
        self,
        path: Path,
        options: WriteOptions,
        target: Target,
        seq_len: int,
        shifted: bool,  # noqa: ARG002 - labels are not stored, as they follow from the rows
    ) -> RowWriter:
        """See `Format.row_writer`."""
        return RowWriter(path, options, target, seq_len)

    def row_traits(self, options: WriteOptions, seq_len: int) -> WriterTraits:
        """See `Format.row_traits`."""
        return replace(RowWriter.traits(options), sample_length=seq_len)

    def destination(self, path: AnyPlace, options: WriteOptions) -> AnyPlace:
        if options.boundaries == "cu_seqlens" and path.suffix == ".npy":
            raise OptionError(f"{path.name}: boundaries=cu_seqlens writes two files. Name a folder without .npy")
        return path

    # Detection, and the files of a dataset

    def sniff(self, probe: Probe) -> Confidence | None:
        if not probe.is_directory:
            return self.recognize(probe)
        if _kind_of(probe.entries) == "zarr":
            named = Confidence.NAME if probe.path.suffix == ".zarr" else None
            return Confidence.STRUCTURE if _is_zarr(probe) else named
        if _kind_of(probe.entries) != "arrays":
            return Confidence.CERTAIN if self._is_described(probe) else None
        return super().sniff(probe)

    def _is_described(self, probe: Probe) -> bool:
        """Return whether the files that state the boundaries or the dtype in a folder are what their names say."""
        if TATM in probe.entries:
            described = probe.entry(TATM)
            return described is not None and b"\ntokenized_info:" in described.head
        tokens, ends = _pair_in(probe.entries)
        array = probe.entry(ends or tokens if tokens else INDEX)
        return array is not None and array.head.startswith(MAGIC)

    def recognize(self, probe: Probe) -> Confidence | None:
        is_part = probe.path.name == INDEX or probe.path.stem in (*_IDS, *_ENDS)
        if is_part and _kind_of(names_in(probe.path.parent)) in ("pair", "index"):
            return None  # The folder is the dataset.
        if probe.head.startswith(MAGIC) and b"{" in (probe.head[10:11], probe.head[12:13]):
            return Confidence.STRUCTURE
        first = probe.head[30 : 30 + int.from_bytes(probe.head[26:28], "little")]
        if probe.head.startswith(b"PK\3\4") and re.fullmatch(rb"[^/]+\.npy", first):
            return Confidence.STRUCTURE
        if probe.head.startswith(b"PK\3\4") and (first.decode("latin-1") in _MARKS or _IN_ZIP.search(probe.tail)):
            return Confidence.STRUCTURE
        if probe.head.startswith(HDF5):
            return Confidence.STRUCTURE
        beside = probe.path.with_name(f"{probe.path.name}.json")
        if probe.path.suffix == ".bin" and beside.is_file():
            file = open_file(beside)
            head = file.read(0, min(file.size, 1 << 12))
            return Confidence.CERTAIN if b'"num_samples"' in head and b'"seq_length"' in head else None
        return None

    def members(self, path: Place) -> list[Place]:
        if not path.is_dir():
            return [path]
        names = names_in(path)
        kind = _kind_of(names)
        if kind in ("pair", "single"):
            return [path / _pair_in(names)[0]]
        if kind == "index":
            return [path / "tokens.bin"]
        if kind == "zarr":
            return [path]
        if kind == "tatm":
            with_prefix = _tatm(path / TATM)["pattern"]
            return files_named(path, re.compile(with_prefix))
        return super().members(path)

    def files(self, path: Place) -> list[Place]:
        if not path.is_dir():
            return [path, *(place for place in self.companions(path) if place.is_file())]
        if _kind_of(names_in(path)) == "zarr":
            there = ((file, file.relative(path)) for file in everything_in(path))
            return [file for file, key in there if key is not None and _ZARR_KEY.fullmatch(key.as_posix())]
        beside = {"pair": [_pair_in(names_in(path))[1]], "index": [INDEX, "metadata.json"], "tatm": [TATM]}
        described = [path / name for name in beside.get(_kind_of(names_in(path)), ())]
        members = self.members(path)
        described += [place for member in members for place in self.companions(member)]
        return [*members, *(place for place in described if place.is_file())]

    def companions(self, path: Place) -> Sequence[Place]:
        """See `Format.companions`. A .bin has the .json of Model-Optimizer, and X_ids.npy the index of PaddleNLP."""
        if path.name.endswith(_SENTENCES[0]):
            return [path.with_name(path.name.removesuffix(_SENTENCES[0]) + _SENTENCES[1])]
        return [path.with_name(f"{path.name}.json")] if path.suffix == ".bin" else []

    def canonical(self, path: AnyPlace) -> AnyPlace:
        """See `Format.canonical`. The index of PaddleNLP stands for its tokens, if they are there."""
        if not path.name.endswith(_SENTENCES[1]):
            return path
        tokens = path.with_name(path.name.removesuffix(_SENTENCES[1]) + _SENTENCES[0])
        return tokens if tokens.is_file() else path

    # Reading

    def examine(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> FileLayout:
        path = paths[0]
        kind = _kind_of(names_in(path)) if len(paths) == 1 and path.is_dir() else ""
        if options.bare is None and kind == "pair":
            return self._pair(path, options, hints)
        if options.bare is None and kind == "index":
            return self._indexed(path, options, hints)
        if options.bare is None and kind == "tatm":
            return self._tatm(path, options, hints)
        if kind == "zarr":
            return _zarr(open_store(path, _ENDS), options)
        layout = super().examine(paths, options, hints)
        if hints.allow_partial and kind == "arrays" and layout.starts is None and not layout.sample_length:
            number = re.search(r"(\d+)\D*$", layout.extents[0].file.path.stem)
            if number and int(number[1]):
                raise CorruptError(layout.extents[0].file.path, "is not numbered 0: it may begin inside a sequence")
        return layout

    def examine_file(self, file: File, options: ReadOptions, hints: Hints) -> FileLayout:  # noqa: ARG002
        if options.bare is not None:
            return _bare(file, options)
        if file.read(0, min(file.size, 4)) == b"PK\3\4":
            store = Zipped(file.path)
            return _zipped(file, store, options) if _MARKS.isdisjoint(store.names("")) else _zarr(store, options)
        if file.read(0, min(file.size, len(HDF5))) == HDF5:
            return _hdf5(file, options)
        beside = file.path.with_name(f"{file.path.name}.json")
        if not file.read(0, min(file.size, 6)).startswith(MAGIC) and beside.is_file():
            return _described(file, json_object(open_file(beside), _TEXT), options)
        layout = _array(file, options)
        beside = file.path.with_name(file.path.name.removesuffix(_SENTENCES[0]) + _SENTENCES[1])
        has_index = file.path.name.endswith(_SENTENCES[0]) and layout.sample_length is None and beside.is_file()
        return _of_sentences(layout, open_file(beside), options) if has_index else layout

    def _pair(self, path: Place, options: ReadOptions, hints: Hints) -> FileLayout:
        """Return the layout of an array of tokens and one of boundaries."""
        names = _pair_in(names_in(path))
        tokens, index = self.open_tokens(path / names[0], hints), open_file(path / names[1])
        layout, ends = _array(tokens, options), header_of(index)
        extent, problems = stated_tokens(index, ends.dtype, _length(index, ends), "TF792", begin=ends.begin)
        bounded_entries(index.path, extent.tokens, tokens)
        stated = sum(one.tokens for one in layout.extents)
        starts, wrong = _boundaries(index.path.stem, extent, stated, options)
        return replace(
            layout,
            starts=starts,
            sample_length=None,
            separators=Separators.TRAILING,
            problems=[*layout.problems, *problems, *wrong],
            sections=[
                *layout.sections,
                *_sections(index, ends),
                Column(names[1], index, ends.begin, ends.dtype, extent.tokens),
            ],
            extras={**layout.extras, "boundaries": names[1]},
        )

    def _indexed(self, path: Place, options: ReadOptions, hints: Hints) -> FileLayout:  # noqa: ARG002
        """Return the layout of tokens.bin, index.npy and metadata.json."""
        tokens, index = self.open_tokens(path / "tokens.bin", hints), open_file(path / INDEX)
        described = path / "metadata.json"
        stated = json_object(open_file(described), _TEXT) if described.is_file() else {}
        extent, problems = whole_tokens(tokens, _dtype(described, stated.get("dtype")), "TF792")
        header = header_of(index)
        if len(header.shape) != 2 or header.shape[1] != 2:
            expected, found = "a first token and a length for each document", f"shape {header.shape}"
            raise CorruptError(index.path, "is not an index", expected=expected, found=found)
        rows = header.shape[0]
        bounded_entries(index.path, rows, tokens)
        _, cut = stated_tokens(index, header.dtype, 2 * rows, "TF792", begin=header.begin)
        if cut:
            raise cut[0].error
        pairs = index.ids(header.begin, 2 * rows, header.dtype).reshape(rows, 2).astype(np.int64)
        starts = offsets_of(pairs[:, 1])
        if rows and (away := np.flatnonzero(pairs[:, 0] != starts[:-1])).size:
            k = int(away[0])
            what = f"document {k:,} does not begin where the one before ends"
            error = CorruptError(index.path, what, expected=int(starts[k]), found=int(pairs[k, 0]))
            problems.append(fatal("TF793", error))
        if int(starts[-1]) != extent.tokens:
            what = "tokens of the documents in the index"
            problems.append(
                fatal("TF793", CorruptError(index.path, what, expected=extent.tokens, found=int(starts[-1])))
            )
        return FileLayout(
            extents=[extent], starts=starts, separators=Separators.TRAILING, problems=problems,
            sections=_sections(index, header), extras={"dtype": extent.dtype.name, "boundaries": INDEX},
        )  # fmt: skip

    def _tatm(self, path: Place, options: ReadOptions, hints: Hints) -> FileLayout:
        """Return the layout of a folder of tatm, without the zeros that fill its files."""
        stated = _tatm(path / TATM)
        dtype, parts = _dtype(path / TATM, stated.get("dtype")), list[FileLayout]()
        for place in self.all_files([path]):
            extent, problems = whole_tokens(self.open_tokens(place, hints), dtype, "TF792")
            fill = 0 if options.fill == "keep" else _zeros_at_end(extent)
            if options.fill is None and 0 < fill < _FEW_ZEROS:
                what, remedy = f"ends with {counted(fill, 'zero')}", "--from-opt fill=drop or fill=keep says which"
                expected = "tatm fills files with zeros, and 0 may be a token"
                raise UnsupportedError(place, what, expected=expected, remedy=remedy)
            note = f"{place.name} ends with {fill:,} zeros, which tatm fills files with: they are left out; "
            note += "--from-opt fill=keep reads them"
            parts.append(FileLayout(
                extents=[extent._replace(tokens=extent.tokens - fill)], separators=_side(options), problems=problems,
                notes=(note,) if fill else (), extras={"dtype": dtype.name},
            ))  # fmt: skip
        tokenizer = stated.get("tokenizer", "")
        layout = replace(joined(parts), tokenizers=(shown(tokenizer),) if tokenizer else ())
        return replace(layout, extras={**layout.extras, self.counted: len(parts), "written by": "tatm"})


def _kind_of(names: Sequence[str]) -> str:
    """Return what the names in a folder show: which of the layouts of the page it may have."""
    if not _MARKS.isdisjoint(names):
        return "zarr"
    if {"tokens.bin", INDEX} <= set(names):
        return "index"
    tokens, ends = _pair_in(names)
    if tokens:
        return "pair" if ends else "single"
    return "tatm" if TATM in names and not any(name.endswith(".npy") for name in names) else "arrays"


def _is_zarr(probe: Probe) -> bool:
    """Return whether a directory with metadata of zarr is a group or an array of integers."""
    found = [probe.entry(name) for name in (".zarray", "zarr.json") if name in probe.entries]
    return ".zgroup" in probe.entries or any(one is not None and _INTEGERS.search(one.head) for one in found)


def _pair_in(names: Sequence[str]) -> tuple[str, str]:
    """Return the array of tokens in a folder that has other arrays, too, and that of the boundaries; "" without one.

    Arrays that begin with its name, as tokens_00001.npy, are further ones of tokens.
    """
    arrays = [name[:-4] for name in names if name.endswith(".npy") and not name.startswith((".", "_"))]
    tokens = next((name for name in _IDS if name in arrays), "")
    if len(arrays) < 2 or not tokens or any(name.startswith(tokens) for name in arrays if name != tokens):
        return "", ""
    ends = next((f"{name}.npy" for name in _ENDS if name in arrays), "")
    return f"{tokens}.npy", ends


def _side(options: ReadOptions) -> Separators:
    return Separators.BEFORE if options.side == "before" else Separators.AFTER


def _length(file: File, header: Header) -> int:
    """Return the number of entries of a one-dimensional array."""
    if len(header.shape) != 1:
        raise CorruptError(file.path, "dimensions", expected=1, found=len(header.shape))
    return header.shape[0]


def _array(file: File, options: ReadOptions) -> FileLayout:
    """Return the layout of a `.npy` file."""
    header = header_of(file)
    count = int(np.prod([int(n) for n in header.shape], dtype=object))
    extent, problems = stated_tokens(file, header.dtype, count, "TF792", begin=header.begin, short=True)
    layout = _shaped(extent, header.shape[1] if len(header.shape) > 1 else None, options)
    return replace(layout, problems=problems, sections=_sections(file, header))


def _shaped(extent: Extent, row: int | None, options: ReadOptions, stated: int | None = None) -> FileLayout:
    """Return the layout of the integers of an array: one stream, or rows of `row`.

    Args:
        extent: The integers.
        row: Integers per row; None for a stream.
        options: The parsed read options.
        stated: Tokens that each row repeats, as a description states.
    """
    extras: dict[str, object] = {"dtype": f"{'big-endian ' * (extent.dtype.byteorder == '>')}{extent.dtype.name}"}
    if not row:
        return FileLayout(extents=[extent], separators=_side(options), extras=extras)
    extras["row"] = row
    overlap = stated if options.overlap is None else options.overlap
    if overlap is not None and overlap >= row:
        raise OptionError(f"overlap={overlap}: a row has only {counted(row, 'token')}")
    if options.view == "samples":
        last = "last token" if overlap == 1 else f"last {overlap} tokens"
        repeated = f"each row begins with the {last} of the row before; --from-opt view=documents reads them once"
        note = repeated if overlap else _shared(extent, row) if overlap is None else ""
        return FileLayout(extents=[extent], sample_length=row, notes=(note,) * bool(note), extras=extras)
    if overlap:
        rows, width = extent.tokens // row, extent.dtype.itemsize
        file = Unrepeated(extent.file, begin=extent.begin, rows=rows, row=row, overlap=overlap, width=width)
        extent = Extent(file, 0, file.size // width, extent.dtype)
    return FileLayout(extents=[extent], separators=_side(options), extras=extras)


def _shared(extent: Extent, row: int) -> str:
    """Return a note if all neighboring rows at the beginning have the token between them in common."""
    rows = min(extent.tokens, _LOOKED_AT) // row
    if rows <= _FEW_ROWS or row == 1:
        return ""
    looked = extent.file.array(extent.begin, rows * row, extent.dtype).reshape(rows, row)
    if not (looked[1:, 0] == looked[:-1, -1]).all() or (looked[:, 0] == looked[0, 0]).all():
        return ""
    note = f"each of {rows - 1:,} rows looked at begins with the last token of the row before; "
    return note + "--from-opt view=documents --from-opt overlap=1 reads it once"


def _bare(file: File, options: ReadOptions) -> FileLayout:
    """Return the layout of bare integers, of which the options state all."""
    dtype = np.dtype(options.bare).newbyteorder("<" if options.order == "little" else ">")
    extent, problems = whole_tokens(file, dtype, "TF792", "the array", begin=min(options.header or 0, file.size))
    if options.row and (rest := extent.tokens % options.row):
        what = f"its last row has {rest:,} of {counted(options.row, 'token')}"
        remedy, lost = "--allow-loss tail leaves them out", f"the last {counted(rest, 'token')}, of an incomplete row"
        problems.append(fatal("TF792", CorruptError(file.path, what, remedy=remedy), "tail", lost=lost))
        extent = extent._replace(tokens=extent.tokens - rest)
    return replace(_shaped(extent, options.row, options), problems=problems)


def _described(file: File, stated: Mapping[str, Any], options: ReadOptions) -> FileLayout:
    """Return the layout of rows that a .json of Model-Optimizer describes."""
    beside = file.path.with_name(f"{file.path.name}.json")
    for key, expected in (("status", "complete"), ("version", 1), ("dtype", "uint32")):
        if stated.get(key) != expected:
            found = shown(stated.get(key))
            raise UnsupportedError(beside, key, expected=expected, found=found, remedy="Build it to its end")
    count, length = (whole_number(beside, key, stated.get(key)) for key in ("num_samples", "seq_length"))
    workers, dtype = max(1, min(count, int(stated.get("workers") or 1))), np.dtype("<u4")
    extent, wrong = stated_tokens(file, dtype, count * (length + 1), "TF794")
    tokenizer = stated.get("tokenizer_path")
    parts, row = list[FileLayout](), length + 1
    firsts = [count * worker // workers for worker in range(workers + 1)] if options.view == "documents" else [0, count]
    for first, last in zip(firsts, firsts[1:], strict=False):
        part = Extent(file, 4 * first * row, max(0, min(extent.tokens, last * row) - first * row), dtype)
        parts.append(_shaped(part, row, options, 1))
    layout, streams = joined(parts), sum(part.extents[0].tokens > 0 for part in parts)
    border = f"{streams} streams are read one after the other: a document at their border may have tokens of both"
    return replace(
        layout,
        notes=(*layout.notes, border) if streams > 1 else layout.notes,
        problems=[problem._replace(accepted_by="") for problem in wrong],
        sections=[
            Part(
                "description",
                beside,
                lambda: [Field(shown(key), None, 0, shown(value)) for key, value in stated.items()],
            )
        ],
        tokenizers=(shown(tokenizer),) if tokenizer else (),
    )


def _zipped(file: File, store: Zipped, options: ReadOptions) -> FileLayout:
    """Return the layout of an `.npz`: one array, one with boundaries, or one document in each of several."""
    arrays = _arrays(store)
    if not options.member and len(arrays) > 1 and all(re.fullmatch(r"arr_\d+", name) for name in arrays):
        looks = [_member(file, store, name) for name in arrays]
        for (_, shape, _), name in zip(looks, arrays, strict=True):
            if len(shape) > 1:
                what, remedy = f"{name} has rows, and is one of several arrays", _reads(name)
                raise UnsupportedError(file.path, what, found=_names(arrays), remedy=remedy)
        extents = [extent for extent, _, _ in looks]
        return FileLayout(
            extents=extents,
            starts=offsets_of([extent.tokens for extent in extents]),
            separators=Separators.TRAILING,
            problems=[problem for _, _, wrong in looks for problem in wrong],
            extras={"arrays": len(extents)},
        )
    chosen, ends = _chosen(file.path, "array", arrays, arrays, options)
    extent, shape, problems = _member(file, store, chosen)
    index, _, wrong = _member(file, store, ends) if ends and len(shape) == 1 else (None, (), [])
    if index is not None:
        bounded_entries(file.path, index.tokens, extent.file)
    others = [name for name in arrays if name not in (chosen, ends)]
    for name in () if options.member else others[:_LOOKED_INTO]:
        _refuse_pickle(file.path, name, store.beginning(f"{name}.npy", 1 << 8))
    return _named(chosen, extent, shape, ends, index, others, [*problems, *wrong], options)


def _chosen(
    path: Place,
    kind: str,
    names: Sequence[str],
    arrays: Sequence[str],
    options: ReadOptions,
    held: Sequence[str] = (),
) -> tuple[str, str]:
    """Return the name of the array to read, of several, and of the array that states boundaries; "" without one.

    Args:
        path: The file or the store.
        kind: What an array is called there: array, dataset.
        names: All names, those of arrays in groups with the groups.
        arrays: Those that may be arrays of token IDs, in natural order.
        options: The parsed read options.
        held: What each of `names` is, in words, for the message if no array may be one of token IDs.

    Raises:
        UnsupportedError: There is no such array, or there are several and nothing states which is to be read.
    """
    if options.member is not None and options.member not in names:
        raise UnsupportedError(path, f"has no {kind} {printable(options.member)}", found=_names(names))
    named = [name for name in arrays if name.rpartition("/")[2] in _IDS]
    groups = sorted({name.rpartition("/")[0] for name in named}, key=lambda group: group.count("/") + bool(group))
    beside = f"{groups[0]}/" if groups and groups[0] else ""
    unique = len(groups) == 1 or "" in groups
    chosen = options.member or next((name for one in _IDS if unique and (name := f"{beside}{one}") in named), None)
    chosen = arrays[0] if chosen is None and len(arrays) == 1 else chosen
    if chosen is None and not arrays:
        what, remedy = f"holds no {kind} of integers with one or two dimensions", "Name the file of the token IDs"
        raise UnsupportedError(path, what, found=_names(held or names), remedy=remedy)
    if chosen is None:
        what, remedy = f"holds several {kind}s of integers", _reads((named or arrays)[0])
        raise UnsupportedError(path, what, expected="tokens or input_ids", found=_names(arrays), remedy=remedy)
    lead = chosen[: chosen.rfind("/") + 1]
    return chosen, next((name for one in _ENDS if (name := f"{lead}{one}") in names and name != chosen), "")


def _reads(name: str) -> str:
    return f"--from-opt member={printable(name)} reads one"


def _hdf5(file: File, options: ReadOptions) -> FileLayout:
    """Return the layout of a dataset of an HDF5 file, or of one with boundaries."""
    arrays: Sequence[str] = ()

    def choose(names: Sequence[str], found: Sequence[str], kinds: Sequence[str]) -> Sequence[str]:
        nonlocal arrays
        arrays = sorted(found, key=natural_key)
        ordered = sorted(names, key=natural_key)
        return list(filter(None, _chosen(file.path, "dataset", ordered, arrays, options, sorted(kinds))))

    try:
        from tokfmt.formats.hdf5_arrays.container import open_arrays

        chosen, *rest = open_arrays(file.path, choose)
    except ModuleNotFoundError as error:
        raise missing_package(error, "array of HDF5", ["h5py", "deflate"]) from error
    index = rest[0] if rest and len(chosen.shape) == 1 else None
    if index is not None and len(index.shape) != 1:
        raise CorruptError(file.path, f"dimensions of {index.name}", expected=1, found=len(index.shape))
    if index is not None:  # They are read at once: the bytes of the file bound them, not what chunks claim to hold.
        bounded_entries(file.path, index.shape[0], file)
    ends = rest[0].name if rest else ""
    others = [name for name in arrays if name not in (chosen.name, ends)]
    extents = [_dataset(file, one) for one in (chosen, index) if one is not None]
    return _named(
        chosen.name, extents[0], chosen.shape, ends, extents[1] if index is not None else None, others, [], options
    )


def _zarr(store: Store, options: ReadOptions) -> FileLayout:
    """Return the layout of an array of a zarr store, or of one with boundaries."""
    version = zarr_format_of(store)
    stated = arrays_in(store, version)
    arrays = [name for name, raw in stated.items() if _may_be_tokens(raw, version)]
    held = [f"{printable(name or store.root.name)} ({_kind_of_array(raw, version)})" for name, raw in stated.items()]
    chosen, ends = _chosen(store.root, "array", [*stated], arrays, options, held)
    if chosen not in arrays:
        what, found = f"{printable(chosen)} does not hold token IDs", _kind_of_array(stated[chosen], version)
        raise UnsupportedError(store.root, what, expected="integers of one or two dimensions", found=found)
    fill = options.holes == "fill"
    tokens = ZarrArray(store, chosen, version, ranks=(1, 2), stated=stated[chosen], fill=fill)
    read, problems = [tokens], _holes(tokens)
    if ends and len(tokens.layout.shape) == 1:
        index = ZarrArray(store, ends, version, stated=stated[ends], fill=fill)
        index.check_memory()
        read, problems = [tokens, index], [*problems, *_holes(index)]
    file = open_file(tokens.layout.where if store.root.is_dir() else store.root)
    extents = [_cells(file, array) for array in read]
    file.close()
    for entries in extents[1:]:
        bounded_entries(read[1].path, entries.tokens, extents[0].file)
    is_whole = len(read) > 1 and not _holes(read[1])
    layout = _named(
        chosen, extents[0], tokens.layout.shape, ends, extents[1] if is_whole else None,
        [name for name in arrays if name not in (chosen, ends)], problems, options,
    )  # fmt: skip
    return replace(
        layout,
        extras={**layout.extras, "zarr_format": version},
        notes=(*layout.notes, *_slow(tokens)),
        sections=[_metadata(array, stated[array.key]) for array in read],
    )


def _may_be_tokens(raw: Mapping[str, object], version: int) -> bool:
    """Return whether the metadata of a zarr array are those of integers with one or two dimensions."""
    shape = raw.get("shape")
    return dtype_of(raw, version) is not None and isinstance(shape, list) and len(shape) in (1, 2)


def _kind_of_array(raw: Mapping[str, object], version: int) -> str:
    """Return the dtype and the shape of a zarr array in words, from its metadata."""
    shape = raw.get("shape")
    sizes = " x ".join(map(str, shape)) if isinstance(shape, list) and shape else "1"
    return shown(f"{sizes} {raw.get('dtype' if version == 2 else 'data_type')}")


def _holes(array: ZarrArray) -> list[Problem]:
    """Return the problem of an array whose chunks are missing."""
    try:
        array.complete()
    except CorruptError as error:
        return [fatal("TF796", error)]
    return []


def _cells(file: File, array: ZarrArray) -> Extent:
    """Return the integers of a zarr array; `file` shows whether the store changed."""
    return Extent(Cells(array.path, file.identity, array), 0, array.length, array.layout.dtype.newbyteorder("="))


def _slow(array: ZarrArray) -> list[str]:
    """Return a note if the chunks of a few rows take so much memory that they are decoded for each read."""
    if array.layout.band_bytes <= KEPT_BAND:
        return []
    rows, columns = array.layout.chunk_shape
    what = f"each read decodes {human_bytes(array.layout.band_bytes)}, as chunks of {array.name} have {rows:,} rows of"
    return [f"{what} {columns:,} columns; an array with chunks of whole rows is read faster"]


def _metadata(array: ZarrArray, stated: Mapping[str, object]) -> Section:
    """Return the metadata of a zarr array as a section."""
    return Part(
        f"metadata of {printable(array.name)}",
        array.layout.where,
        lambda: [Field(shown(key), None, 0, shown(json.dumps(value))) for key, value in stated.items()],
    )


def _dataset(file: File, array: Array) -> Extent:
    """Return the integers of a dataset of HDF5."""
    table, count = array.table, int(np.prod([int(n) for n in array.shape], dtype=object))
    if array.begin is not None:
        return Extent(file, array.begin, count, table.dtype)
    from tokfmt.formats.hdf5_arrays.table import Items

    return Extent(Cells(file.path, file.identity, Items(table)), 0, count, table.dtype.newbyteorder("="))


def _named(
    name: str,
    extent: Extent,
    shape: Sequence[int],
    ends: str,
    index: Extent | None,
    others: Sequence[str],
    problems: Sequence[Problem],
    options: ReadOptions,
) -> FileLayout:
    """Return the layout of one array of several that a file names.

    Args:
        name: Of the array.
        extent: Its integers.
        shape: Its shape.
        ends: Name of the array of boundaries; "" without one.
        index: The integers of `ends`; None if they are not read.
        others: Names of the arrays that are not read.
        problems: Those of both arrays.
        options: The parsed read options.
    """
    layout = _shaped(extent, shape[1] if len(shape) > 1 else None, options)
    notes = (*layout.notes, *((f"other arrays are not read: {_names(others)}",) if others else ()))
    extras = {**layout.extras, **({"array": printable(name)} if name else {})}
    if index is None:
        return replace(layout, problems=problems, notes=notes, extras=extras)
    starts, wrong = _boundaries(ends, index, extent.tokens, options)
    return replace(
        layout, problems=[*problems, *wrong], notes=notes, starts=starts, separators=Separators.TRAILING,
        extras={**extras, "boundaries": ends},
    )  # fmt: skip


def _refuse_pickle(path: Place, name: str, head: bytes) -> None:
    """Raise an error if an array that is not read holds pickled objects, as whoever opens it might load them."""
    if head.startswith(MAGIC) and re.search(rb"'descr'\s*:\s*'[|=<>]?O", head):
        what = f"holds pickled objects in {printable(name)}, which can run code when they are loaded"
        raise UnsafeError(path, what, remedy="--from-opt member=NAME reads one array, and never those")


def _arrays(store: Zipped) -> list[str]:
    """Return the names of the arrays of an `.npz`, without .npy, in natural order."""
    return sorted((name[:-4] for name in store.names("") if name.endswith(".npy")), key=natural_key)


def _names(arrays: Sequence[str]) -> str:
    shown_ = ", ".join(printable(name) for name in arrays[:9])
    return f"{shown_}, ... ({len(arrays):,})" if len(arrays) > 9 else shown_ or "nothing"


def _member(file: File, store: Zipped, name: str) -> tuple[Extent, tuple[int, ...], list[Problem]]:
    """Return the integers of an array of an `.npz`, its shape, and its problems."""
    key = f"{name}.npy"
    origin, size = store.origin(key), store.length(key)
    base: File = file if origin.exact else Inflated(file, store=store, key=key)
    begin = origin.start if origin.exact else 0
    header = header_of(base, begin, size)
    count = int(np.prod([int(n) for n in header.shape], dtype=object))
    problems, stored = list[Problem](), size - header.begin
    if stored != count * header.dtype.itemsize:
        what = f"bytes of {printable(key)}"
        error = CorruptError(file.path, what, expected=count * header.dtype.itemsize, found=stored)
        problems, count = [fatal("TF792", error)], 0
    return Extent(base, begin + header.begin, count, header.dtype), header.shape, problems


def _boundaries(name: str, index: Extent, tokens: int, options: ReadOptions) -> tuple[Offsets, list[Problem]]:
    """Return the starts of documents that an array states, and what contradicts the tokens.

    Args:
        name: Of the array: lengths, or 0 and the ends of all documents.
        index: The array.
        tokens: Number of tokens.
        options: The parsed read options.
    """
    values = index.file.array(index.begin, index.tokens, index.dtype).astype(np.int64)
    are_lengths = name.rpartition("/")[2] == "lengths"
    starts = offsets_of(values) if are_lengths and (values >= 0).all() else values
    if options.bounds == "ends":
        starts = np.concatenate([[0], values])
    elif options.bounds == "starts":
        starts = np.append(values, tokens)
    wrong, remedy = "", None
    if not are_lengths and options.bounds is None and len(values):
        if values[0] and values[-1] == tokens:
            remedy = "--from-opt bounds=ends reads them as ends, without the 0 in front"
        elif not values[0] and values[-1] < tokens:
            remedy = "--from-opt bounds=starts reads them as starts, without the end of the last document"
    if not len(starts) or starts[0]:
        wrong, expected, found = (
            f"{name} does not begin with 0",
            "0 and the ends of documents",
            shown(values[:3].tolist()),
        )
    elif (falls := np.flatnonzero(np.diff(starts) < 0)).size:
        k = int(falls[0])
        wrong, expected, found = (
            f"{name} decreases at document {k:,}",
            f"{int(starts[k]):,} or more",
            shown(int(starts[k + 1])),
        )
    elif int(starts[-1]) != tokens:
        wrong, expected, found = f"tokens up to the last end in {name}", shown(tokens), shown(int(starts[-1]))
    if not wrong:
        return starts, []
    error = CorruptError(index.file.path, wrong, expected=expected, found=found, remedy=remedy)
    return offsets_of([tokens]), [fatal("TF793", error)]


def _of_sentences(layout: FileLayout, index: File, options: ReadOptions) -> FileLayout:
    """Return the layout of tokens whose documents an index of PaddleNLP states; without `lens` in it, the given one."""
    store = Zipped(index.path)
    if "lens" not in (arrays := _arrays(store)):
        return layout
    tokens, problems = layout.extents[0].tokens, [*layout.problems]

    def values(name: str) -> Offsets:
        extent, shape, wrong = _member(index, store, name)
        if len(shape) != 1:
            raise CorruptError(index.path, f"dimensions of {name}", expected=1, found=len(shape))
        bounded_entries(index.path, extent.tokens, layout.extents[0].file)
        problems.extend(wrong)
        return extent.file.array(extent.begin, extent.tokens, extent.dtype).astype(np.int64)

    lengths = values("lens")
    ends = offsets_of(np.maximum(lengths, 0))
    docs = values("docs") if "docs" in arrays else np.arange(len(ends))
    wrong, expected, found = "", 0, 0
    if len(lengths) and int(lengths.min()) < 0:
        wrong, expected, found = "has a negative length in lens", 0, int(lengths.min())
    elif int(ends[-1]) != tokens:
        wrong, expected, found = "tokens of all sentences in lens", tokens, int(ends[-1])
    elif "sents" in arrays and not np.array_equal(sents := values("sents"), ends):
        wrong, expected, found = "tokens up to the last end in sents", tokens, int(sents[-1]) if len(sents) else 0
    elif not len(docs) or docs[0] or int(docs[-1]) != len(lengths) or (np.diff(docs) < 0).any():
        wrong, expected, found = "sentences up to the last end in docs", len(lengths), int(docs[-1]) if len(docs) else 0
    if wrong:
        problems.append(fatal("TF793", CorruptError(index.path, wrong, expected=expected, found=found)))
    docs = np.arange(len(ends)) if options.unit == "sequences" else docs
    several = not wrong and len(lengths) > len(docs) - 1
    return replace(
        layout,
        starts=offsets_of([tokens]) if wrong else ends[docs],
        separators=Separators.TRAILING,
        problems=problems,
        inner=(Inner(index.path, store.origin("docs.npy").start, len(lengths), len(docs) - 1),) if several else (),
        extras={**layout.extras, "boundaries": index.path.name},
    )


def _dtype(path: Place, name: object) -> np.dtype[Any]:
    """Return the dtype that a description names."""
    if not isinstance(name, str) or not re.fullmatch(r"u?int(8|16|32|64)", name):
        remedy = "--from-opt bare=DTYPE on its files reads them"
        raise CorruptError(path, "dtype", expected="an integer dtype", found=shown(name), remedy=remedy)
    return np.dtype(name).newbyteorder("<")


def _tatm(path: Place) -> Mapping[str, str]:
    """Return what the plain lines of tokenized_info in a metadata.yaml state, and the pattern of the files."""
    file = open_file(path)
    text = file.read(0, min(file.size, _TEXT)).decode("utf-8", "replace")
    block = re.search(r"^tokenized_info:[ \t]*\n((?:[ \t-].*\n?)*)", text, re.MULTILINE)
    lines = re.findall(r"^  (\w+):[ \t]*(['\"]?)(.*?)\2[ \t]*$", block[1] if block else "", re.MULTILINE)
    stated = {key: value for key, _, value in lines}
    prefix, ending = stated.get("file_prefix", "").rpartition("/")[2], stated.get("file_extension", "bin")
    return {**stated, "pattern": rf"{re.escape(prefix)}_(\d+)\.{re.escape(ending)}"}


def _zeros_at_end(extent: Extent) -> int:
    """Return the number of zeros at the end of a file."""
    end, width, piece = extent.tokens, extent.dtype.itemsize, 1 << 20
    while end:
        begin = max(0, end - piece)
        ids = np.flatnonzero(extent.file.array(extent.begin + begin * width, end - begin, extent.dtype))
        if len(ids):
            return extent.tokens - begin - int(ids[-1]) - 1
        end = begin
    return extent.tokens


def _sections(file: File, header: Header) -> list[Section]:
    """Return the header of a `.npy` file as a section."""

    def fields() -> list[Field]:
        raw = file.read(0, header.begin)
        width = 2 if raw[6] == 1 else 4
        text = 8 + width
        return [
            Field("magic number", 0, 6, raw[:6].hex(" ")),
            Field("version", 6, 2, f"{raw[6]}.{raw[7]}"),
            Field("length of the header", 8, width, shown(header.begin - text)),
            Field("header", text, header.begin - text, shown(raw[text:].decode("latin-1").strip())),
        ]

    return [Part(f"header of {file.path.name}", file.path, fields)]


FORMAT = ArrayFormat()
