"""Files and stores that hold several arrays by name: `.npz`, HDF5 and zarr."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tokfmt.core.annotation import Part, bounded_entries, shown
from tokfmt.core.findings import Problem, fatal
from tokfmt.core.format import Hints
from tokfmt.core.loss_mask import COUNTING, LENGTHS, STARTS
from tokfmt.core.ragged import offsets_of
from tokfmt.core.reader import Separators
from tokfmt.errors import CorruptError, UnsafeError, UnsupportedError, missing_package
from tokfmt.files.fields import Section
from tokfmt.files.file import File, natural_key, open_file
from tokfmt.files.place import Place
from tokfmt.formats.array.options import ReadOptions
from tokfmt.formats.array.shapes import boundaries_of, shaped
from tokfmt.formats.blocks import Virtual
from tokfmt.formats.cells import chunked_tokens
from tokfmt.formats.chunks import KEPT_BAND, ChunkFields
from tokfmt.formats.flat import Extent, FileLayout
from tokfmt.formats.npy import MAGIC, header_of
from tokfmt.formats.row_reader import ExtentRows, StoredColumn
from tokfmt.formats.zarr_arrays.array import Array as ZarrArray
from tokfmt.formats.zarr_arrays.array import arrays_in, dtype_of, metadata_key
from tokfmt.formats.zarr_arrays.sections import key_fields
from tokfmt.formats.zarr_arrays.store import Store, Zipped, zarr_format_of
from tokfmt.model.rows import ROLES, columns_to_read
from tokfmt.wording import human_bytes, printable

if TYPE_CHECKING:
    from tokfmt.formats.hdf5_arrays.container import Array

IDS = ("tokens", "input_ids")
ENDS = ("cu_seqlens", "offsets", "lengths", "document_offsets")
MARKS = frozenset((".zarray", ".zgroup", "zarr.json"))  # one of them is at the root of a zarr store
_LOOKED_INTO = 64  # arrays of an .npz that are not read, whose headers are looked at


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


def npz_layout(file: File, store: Zipped, options: ReadOptions) -> FileLayout:
    """Return the layout of an `.npz`: one array, one with boundaries, or one document in each of several."""
    arrays = arrays_of_zip(store)
    if not options.member and len(arrays) > 1 and all(re.fullmatch(r"arr_\d+", name) for name in arrays):
        looks = [member_of(file, store, name) for name in arrays]
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
    extent, shape, problems = member_of(file, store, chosen)
    index, _, wrong = member_of(file, store, ends) if ends and len(shape) == 1 else (None, (), [])
    if index is not None:
        bounded_entries(file.path, index.tokens, extent.file)
    beside = dict[str, Extent]()
    for name in _beside(file.path, chosen, shape, arrays, options):
        with suppress(UnsupportedError):  # floats, or more dimensions
            column, its, cut = member_of(file, store, name, flags=True)
            if its == shape:
                beside[name], problems = column, [*problems, *cut]
    others = [name for name in arrays if name not in (chosen, ends, *beside)]
    for name in () if options.member else others[:_LOOKED_INTO]:
        _refuse_pickle(file.path, name, store.beginning(f"{name}.npy", 1 << 8))
    return _named(chosen, extent, shape, ends, index, beside, others, [*problems, *wrong], options)


def _chosen(
    path: Place,
    kind: str,
    names: Sequence[str],
    arrays: Sequence[str],
    options: ReadOptions,
    listed: Sequence[str] = (),
) -> tuple[str, str]:
    """Return the name of the array to read, of several, and of the array that states boundaries; "" without one."""
    if options.member is not None and options.member not in names:
        raise UnsupportedError(path, f"has no {kind} {printable(options.member)}", found=_names(names))
    named = [name for name in arrays if name.rpartition("/")[2] in IDS]
    groups = sorted({name.rpartition("/")[0] for name in named}, key=lambda group: group.count("/") + bool(group))
    beside = f"{groups[0]}/" if groups and groups[0] else ""
    unique = len(groups) == 1 or "" in groups
    chosen = options.member or next((name for one in IDS if unique and (name := f"{beside}{one}") in named), None)
    chosen = arrays[0] if chosen is None and len(arrays) == 1 else chosen
    if chosen is None and not arrays:
        what, remedy = f"holds no {kind} of integers with one or two dimensions", "Name the file of the token IDs"
        raise UnsupportedError(path, what, found=_names(listed or names), remedy=remedy)
    if chosen is None:
        what, remedy = f"holds several {kind}s of integers", _reads((named or arrays)[0])
        raise UnsupportedError(path, what, expected="tokens or input_ids", found=_names(arrays), remedy=remedy)
    lead = chosen[: chosen.rfind("/") + 1]
    return chosen, next((name for one in ENDS if (name := f"{lead}{one}") in names and name != chosen), "")


def _beside(path: Place, chosen: str, shape: Sequence[int], there: Sequence[str], options: ReadOptions) -> list[str]:
    """Return the names of the arrays that may be read beside rows of IDs, in the group of the array of IDs."""
    if len(shape) != 2 or options.view == "samples":
        return []
    lead = chosen[: chosen.rfind("/") + 1]
    names = [
        name
        for name in ROLES
        if name not in (LENGTHS, STARTS) and f"{lead}{name}" in there and f"{lead}{name}" != chosen
    ]
    return [f"{lead}{name}" for name in columns_to_read(path, names, options.loss_mask, chosen.rpartition("/")[2])]


def _reads(name: str) -> str:
    return f"--from-opt member={printable(name)} reads one"


def hdf5_layout(file: File, options: ReadOptions) -> FileLayout:
    """Return the layout of a dataset of an HDF5 file, or of one with boundaries."""
    arrays: Sequence[str] = ()

    def choose(names: Sequence[str], integers: Sequence[str], kinds: Sequence[str]) -> Sequence[str]:
        nonlocal arrays
        arrays = sorted(integers, key=natural_key)
        ordered = sorted(names, key=natural_key)
        chosen, ends = _chosen(file.path, "dataset", ordered, arrays, options, sorted(kinds))
        beside = _beside(file.path, chosen, (0, 0), arrays, options)
        return [chosen, *filter(None, [ends]), *(name for name in beside if name != ends)]

    try:
        from tokfmt.formats.hdf5_arrays.container import open_arrays

        chosen, *rest = open_arrays(file.path, choose)
    except ModuleNotFoundError as error:
        raise missing_package(error, "array of HDF5", ["h5py", "deflate"]) from error
    ends = next((array.name for array in rest if array.name.rpartition("/")[2] in ENDS), "")
    index = next((array for array in rest if array.name == ends), None) if len(chosen.shape) == 1 else None
    if index is not None and len(index.shape) != 1:
        raise CorruptError(file.path, f"dimensions of {index.name}", expected=1, found=len(index.shape))
    if index is not None:  # They are read at once: the bytes of the file bound them, not what chunks claim to hold.
        bounded_entries(file.path, index.shape[0], file)
    beside = {
        array.name: _dataset(file, array)
        for array in rest
        if array.name != ends and array.shape == chosen.shape and len(chosen.shape) == 2
    }
    others = [name for name in arrays if name not in (chosen.name, ends, *beside)]
    extents = [_dataset(file, array) for array in (chosen, index) if array is not None]
    return _named(
        chosen.name, extents[0], chosen.shape, ends, extents[1] if index is not None else None, beside, others, [],
        options,
    )  # fmt: skip


def zarr_layout(store: Store, options: ReadOptions, hints: Hints) -> FileLayout:
    """Return the layout of an array of a zarr store, or of one with boundaries."""
    version = zarr_format_of(store)
    stated = arrays_in(store, version)
    arrays = [name for name, raw in stated.items() if _may_be_tokens(raw, version)]
    listed = [f"{printable(name or store.root.name)} ({_kind_of_array(raw, version)})" for name, raw in stated.items()]
    chosen, ends = _chosen(store.root, "array", [*stated], arrays, options, listed)
    if chosen not in arrays:
        what, found = f"{printable(chosen)} does not hold token IDs", _kind_of_array(stated[chosen], version)
        raise UnsupportedError(store.root, what, expected="integers of one or two dimensions", found=found)
    fill = options.holes == "fill"
    tokens = ZarrArray(store, chosen, version, ranks=(1, 2), stated=stated[chosen], fill=fill)
    read, problems = [tokens], [] if hints.allow_partial else _holes(tokens)  # Reading them shows what is lost.
    if ends and len(tokens.layout.shape) == 1:
        index = ZarrArray(store, ends, version, stated=stated[ends], fill=fill)
        index.check_memory()
        read, problems = [tokens, index], [*problems, *_holes(index)]
    file = open_file(tokens.layout.where if store.root.is_dir() else store.root)
    extents = [chunked_tokens(array, file) for array in read]
    file.close()
    for entries in extents[1:]:
        bounded_entries(read[1].path, entries.tokens, extents[0].file)
    is_whole = len(read) > 1 and not _holes(read[1])
    shape, beside = tokens.layout.shape, dict[str, Extent]()
    for name in _beside(store.root, chosen, shape, arrays, options):
        if stated[name].get("shape") == [*shape]:
            column = ZarrArray(store, name, version, ranks=(2,), stated=stated[name], fill=fill)
            beside[name], read = chunked_tokens(column, file), [*read, column]
            problems = problems if hints.allow_partial else [*problems, *_holes(column)]
    layout = _named(
        chosen, extents[0], tokens.layout.shape, ends, extents[1] if is_whole else None, beside,
        [name for name in arrays if name not in (chosen, ends, *beside)], problems, options,
    )  # fmt: skip
    return replace(
        layout,
        extras={**layout.extras, "zarr_format": version},
        notes=(*layout.notes, *_slow(tokens)),
        sections=[part for array in read for part in _parts_of(store, array, version)],
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


def _slow(array: ZarrArray) -> list[str]:
    """Return a note if the chunks of a few rows take so much memory that they are decoded for each read."""
    band = array.layout.band * array.layout.chunk_bytes
    if band <= KEPT_BAND:
        return []
    rows, columns = array.layout.chunk
    what = f"each read decodes {human_bytes(band)}, as chunks of {array.name} have {rows:,} rows of"
    return [f"{what} {columns:,} columns; an array with chunks of whole rows is read faster"]


def _parts_of(store: Store, array: ZarrArray, version: int) -> list[Section]:
    """Return the metadata and the chunks of a zarr array as sections."""
    key, name = metadata_key(array.key, version), printable(array.name)
    fields = partial(key_fields, store, key, lambda *_: ("", False))
    return [
        Part(f"metadata of {name}", array.layout.where, fields),
        Part(f"chunks of {name}", array.path, partial(ChunkFields, array)),
    ]


def _dataset(file: File, array: Array) -> Extent:
    """Return the integers of a dataset of HDF5."""
    table = array.table
    if table.map.begin is not None:
        return Extent(file, table.map.begin, table.length, table.layout.dtype)
    return chunked_tokens(table, file)


def _named(
    name: str,
    extent: Extent,
    shape: Sequence[int],
    ends: str,
    index: Extent | None,
    beside: Mapping[str, Extent],
    others: Sequence[str],
    problems: Sequence[Problem],
    options: ReadOptions,
) -> FileLayout:
    """Return the layout of one array of several that a file names. `index` has the integers of the array of boundaries,
    `ends`; None if they are not read.
    """
    layout = shaped(extent, shape[1] if len(shape) > 1 else None, options)
    notes = (*layout.notes, *((f"other arrays are not read: {_names(others)}",) if others else ()))
    extras = {**layout.extras, **({"array": printable(name)} if name else {})}
    if beside:
        bounds = np.arange(shape[0] + 1, dtype=np.int64) * shape[1]
        columns = {key.rpartition("/")[2]: StoredColumn(column, bounds) for key, column in beside.items()}
        masks = ", ".join(key for key in columns if key in COUNTING)
        return replace(
            layout, problems=problems, notes=notes, extras=extras, sample_length=None, separators=Separators.TRAILING,
            starts=bounds, rows=[ExtentRows(StoredColumn(extent, bounds), columns, "row")],
            loss_masks=f"loss masks of its rows ({masks})" if masks else "",
        )  # fmt: skip
    if index is None:
        return replace(layout, problems=problems, notes=notes, extras=extras)
    starts, wrong = boundaries_of(ends, index, extent.tokens, options)
    return replace(
        layout, problems=[*problems, *wrong], notes=notes, starts=starts, separators=Separators.TRAILING,
        extras={**extras, "boundaries": ends},
    )  # fmt: skip


def _refuse_pickle(path: Place, name: str, head: bytes) -> None:
    """Raise an error if an array that is not read holds pickled objects, as whoever opens it might load them."""
    if head.startswith(MAGIC) and re.search(rb"'descr'\s*:\s*'[|=<>]?O", head):
        what = f"holds pickled objects in {printable(name)}, which can run code when they are loaded"
        raise UnsafeError(path, what, remedy="--from-opt member=NAME reads one array, and never those")


def arrays_of_zip(store: Zipped) -> list[str]:
    """Return the names of the arrays of an `.npz`, without .npy, in natural order."""
    return sorted((name[:-4] for name in store.names("") if name.endswith(".npy")), key=natural_key)


def _names(arrays: Sequence[str]) -> str:
    first = ", ".join(printable(name) for name in arrays[:9])
    return f"{first}, ... ({len(arrays):,})" if len(arrays) > 9 else first or "nothing"


def member_of(
    file: File, store: Zipped, name: str, *, flags: bool = False
) -> tuple[Extent, tuple[int, ...], list[Problem]]:
    """Return the integers of an array of an `.npz`, or its flags, its shape, and its problems."""
    key = f"{name}.npy"
    origin, size = store.origin(key), store.length(key)
    base: File = file if origin.exact else Inflated(file, store=store, key=key)
    begin = origin.start if origin.exact else 0
    header = header_of(base, begin, size, flags=flags)
    count = int(np.prod([int(n) for n in header.shape], dtype=object))
    problems, stored = list[Problem](), size - header.begin
    if stored != count * header.dtype.itemsize:
        what = f"bytes of {printable(key)}"
        error = CorruptError(file.path, what, expected=count * header.dtype.itemsize, found=stored)
        problems, count = [fatal("TF792", error)], 0
    return Extent(base, begin + header.begin, count, header.dtype), header.shape, problems
