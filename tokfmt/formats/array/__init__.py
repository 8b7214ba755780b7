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
    tokens.bin and an array of ends torchtitan: bare integers, and document_offsets.npy or one of those above
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

- One dimension is a stream. Two are rows, which are samples; `view=documents` reads them as one stream. Arrays of the
  same shape beside them in a file, with names of `model.rows` (attention_mask, labels, position_ids, ...), are read by
  its rule, unless `view=samples`.
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

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tokfmt.core.annotation import bounded_entries, shown
from tokfmt.core.findings import Audit, Finding, fatal
from tokfmt.core.format import Confidence, Hints, Probe, Target, TokenWriter, WriterTraits
from tokfmt.core.ragged import offsets_of
from tokfmt.core.reader import Separators
from tokfmt.errors import CorruptError, OptionError, UnsupportedError
from tokfmt.files.file import File, everything_in, names_in, open_file
from tokfmt.files.place import AnyPlace, Place
from tokfmt.formats.array.described import (
    FEW_ZEROS,
    TEXT,
    model_optimizer_layout,
    paddle_layout,
    stated_dtype,
    tatm_facts,
    zeros_at_end,
)
from tokfmt.formats.array.named import ENDS, IDS, MARKS, arrays_of_zip, hdf5_layout, npz_layout, zarr_layout
from tokfmt.formats.array.options import Dtype, ReadOptions, WriteOptions
from tokfmt.formats.array.shapes import array_length, bare_layout, boundaries_of, header_sections, npy_layout, side_of
from tokfmt.formats.array.writer import PairWriter, RowWriter, Writer
from tokfmt.formats.flat import (
    Column,
    FileLayout,
    FlatFormat,
    FlatInspection,
    files_named,
    joined,
    stated_tokens,
    whole_tokens,
)
from tokfmt.formats.folders import json_object
from tokfmt.formats.npy import MAGIC, header_of
from tokfmt.formats.zarr_arrays.store import Zipped, open_store
from tokfmt.wording import counted

INDEX, TATM, BARE = "index.npy", "metadata.yaml", "tokens.bin"
_BARE: dict[int, Dtype] = {2: "uint16", 4: "uint32", 8: "uint64"}
HDF5 = b"\x89HDF\r\n\x1a\n"
_IN_ZIP = re.compile(
    rb"PK\x01\x02[\s\S]{24}(\x07\0[\s\S]{16}\.z(array|group)|\x09\0[\s\S]{16}zarr\.json)"
)  # the entry of such a file in the directory of a zip
_INTEGERS = re.compile(rb'"(dtype|data_type)"\s*:\s*"([<>|][iu][1248]|u?int(8|16|32|64))"|"node_type"\s*:\s*"group"')
_ZARR_KEY = re.compile(r"(.+/)?(\.z(array|attrs|group|metadata)|zarr\.json|(c[./])?\d+([./]\d+)?)")
_SENTENCES = ("_ids.npy", "_idx.npz")  # endings of the two files of PaddleNLP


class ArrayInspection(FlatInspection):
    """The inspection of arrays."""

    def look(self, how: Audit) -> Iterator[Finding]:
        """See `Inspection.look`. A deep check compares the checksums of an .npz."""
        yield from super().look(how)
        for path in self.paths if how.deep and not self.is_fatal else ():
            if path.suffix == ".npz" and path.is_file():
                store = Zipped(path)
                yield from (
                    Finding.of("TF791", error)
                    for name in arrays_of_zip(store)
                    if (error := store.damage(f"{name}.npy"))
                )


class ArrayFormat(FlatFormat):
    """The format of arrays of token IDs."""

    name = "array"
    title = "NumPy, HDF5 and zarr arrays, bare integers"
    extensions = (".npy",)
    numbers_files = stores_rows = True
    stores = "sequences in order, empty ones too; samples of a recipe as rows; IDs up to 2^32-1"
    cannot_store = "sequences that contain the separator, unless boundaries=cu_seqlens"
    read_options, write_options, Writer = ReadOptions, WriteOptions, Writer
    pattern, unreadable = r"(?![._]).+\.(?:npy|h5)", "TF791"
    member, inspection, unsafe = "X.npy or X.h5", ArrayInspection, "TF795"
    masked = "TF797"

    def writer(self, path: Path, options: WriteOptions, target: Target) -> TokenWriter:
        if target.rows is not None:
            return RowWriter(path, options, target, target.rows)
        return (PairWriter if options.boundaries == "cu_seqlens" else Writer)(path, options, target)

    def writer_traits(self, options: WriteOptions) -> WriterTraits:
        return (PairWriter if options.boundaries == "cu_seqlens" else Writer).traits(options)

    def row_traits(self, options: WriteOptions, seq_len: int) -> WriterTraits:
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
        is_part = probe.path.name == INDEX or probe.path.stem in (*IDS, *ENDS)
        if is_part and _kind_of(names_in(probe.path.parent)) in ("pair", "index"):
            return None  # The folder is the dataset.
        if probe.head.startswith(MAGIC) and b"{" in (probe.head[10:11], probe.head[12:13]):
            return Confidence.STRUCTURE
        first = probe.head[30 : 30 + int.from_bytes(probe.head[26:28], "little")]
        if probe.head.startswith(b"PK\3\4") and re.fullmatch(rb"[^/]+\.npy", first):
            return Confidence.STRUCTURE
        if probe.head.startswith(b"PK\3\4") and (first.decode("latin-1") in MARKS or _IN_ZIP.search(probe.tail)):
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
            return [path / BARE]
        if kind == "zarr":
            return [path]
        if kind == "tatm":
            with_prefix = tatm_facts(path / TATM)["pattern"]
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
            return zarr_layout(open_store(path, ENDS), options, hints)
        layout = super().examine(paths, options, hints)
        if hints.allow_partial and kind == "arrays" and layout.starts is None and not layout.sample_length:
            number = re.search(r"(\d+)\D*$", layout.extents[0].file.path.stem)
            if number and int(number[1]):
                raise CorruptError(layout.extents[0].file.path, "is not numbered 0: it may begin inside a sequence")
        return layout

    def examine_file(self, file: File, options: ReadOptions, hints: Hints) -> FileLayout:
        if options.bare is not None:
            return bare_layout(file, options)
        if file.read(0, min(file.size, 4)) == b"PK\3\4":
            store = Zipped(file.path)
            if MARKS.isdisjoint(store.names("")):
                return npz_layout(file, store, options)
            return zarr_layout(store, options, hints)
        if file.read(0, min(file.size, len(HDF5))) == HDF5:
            return hdf5_layout(file, options)
        beside = file.path.with_name(f"{file.path.name}.json")
        if not file.read(0, min(file.size, 6)).startswith(MAGIC) and beside.is_file():
            return model_optimizer_layout(file, json_object(open_file(beside), TEXT), options)
        layout = npy_layout(file, options)
        beside = file.path.with_name(file.path.name.removesuffix(_SENTENCES[0]) + _SENTENCES[1])
        has_index = file.path.name.endswith(_SENTENCES[0]) and layout.sample_length is None and beside.is_file()
        return paddle_layout(layout, open_file(beside), options) if has_index else layout

    def _pair(self, path: Place, options: ReadOptions, hints: Hints) -> FileLayout:
        """Return the layout of an array of tokens and one of boundaries."""
        names = _pair_in(names_in(path))
        tokens, index = self.open_tokens(path / names[0], hints), open_file(path / names[1])
        ends = header_of(index)
        extent, problems = stated_tokens(index, ends.dtype, array_length(index, ends), "TF792", begin=ends.begin)
        bounded_entries(index.path, extent.tokens, tokens)
        if names[0] == BARE:  # The number of tokens shows their width.
            last = extent.file.array(extent.begin, extent.tokens, extent.dtype)
            count = int(last.sum() if index.path.stem == "lengths" else last[-1:].sum())
            bare: Dtype = next((name for width, name in _BARE.items() if count * width == tokens.size), "uint32")
            layout = bare_layout(tokens, replace(options, bare=bare))
        else:
            layout = npy_layout(tokens, options)
        stated = sum(one.tokens for one in layout.extents)
        starts, wrong = boundaries_of(index.path.stem, extent, stated, options)
        return replace(
            layout,
            starts=starts,
            sample_length=None,
            separators=Separators.TRAILING,
            problems=[*layout.problems, *problems, *wrong],
            sections=[
                *layout.sections,
                *header_sections(index, ends),
                Column(names[1], index, ends.begin, ends.dtype, extent.tokens),
            ],
            extras={**layout.extras, "boundaries": names[1]},
        )

    def _indexed(self, path: Place, options: ReadOptions, hints: Hints) -> FileLayout:  # noqa: ARG002
        """Return the layout of tokens.bin, index.npy and metadata.json."""
        tokens, index = self.open_tokens(path / BARE, hints), open_file(path / INDEX)
        described = path / "metadata.json"
        stated = json_object(open_file(described), TEXT) if described.is_file() else {}
        extent, problems = whole_tokens(tokens, stated_dtype(described, stated.get("dtype")), "TF792")
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
            sections=header_sections(index, header), extras={"dtype": extent.dtype.name, "boundaries": INDEX},
        )  # fmt: skip

    def _tatm(self, path: Place, options: ReadOptions, hints: Hints) -> FileLayout:
        """Return the layout of a folder of tatm, without the zeros that fill its files."""
        stated = tatm_facts(path / TATM)
        dtype, parts = stated_dtype(path / TATM, stated.get("dtype")), list[FileLayout]()
        for place in self.all_files([path]):
            extent, problems = whole_tokens(self.open_tokens(place, hints), dtype, "TF792")
            fill = 0 if options.fill == "keep" else zeros_at_end(extent)
            if options.fill is None and 0 < fill < FEW_ZEROS:
                what, remedy = f"ends with {counted(fill, 'zero')}", "--from-opt fill=drop or fill=keep says which"
                expected = "tatm fills files with zeros, and 0 may be a token"
                raise UnsupportedError(place, what, expected=expected, remedy=remedy)
            note = f"{place.name} ends with {fill:,} zeros, which tatm fills files with: they are left out; "
            note += "--from-opt fill=keep reads them"
            parts.append(FileLayout(
                extents=[extent._replace(tokens=extent.tokens - fill)], separators=side_of(options), problems=problems,
                notes=(note,) if fill else (), extras={"dtype": dtype.name},
            ))  # fmt: skip
        tokenizer = stated.get("tokenizer", "")
        layout = replace(joined(parts), tokenizers=(shown(tokenizer),) if tokenizer else ())
        return replace(layout, extras={**layout.extras, self.counted: len(parts), "written by": "tatm"})


def _kind_of(names: Sequence[str]) -> str:
    """Return what the names in a folder show: which of the layouts of the page it may have."""
    if not MARKS.isdisjoint(names):
        return "zarr"
    if {BARE, INDEX} <= set(names):
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
    tokens = next((name for name in IDS if name in arrays), "")
    ends = next((f"{name}.npy" for name in ENDS if name in arrays), "")
    if ends and BARE in names and not tokens:
        return BARE, ends
    if len(arrays) < 2 or not tokens or any(name.startswith(tokens) for name in arrays if name != tokens):
        return "", ""
    return f"{tokens}.npy", ends


FORMAT = ArrayFormat()
