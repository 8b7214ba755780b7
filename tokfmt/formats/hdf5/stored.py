"""One file of Cerebras samples: its dataset `data`, and what its headers and attributes state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from tokfmt.errors import CorruptError, UnsupportedError
from tokfmt.files.file import File, open_file
from tokfmt.files.place import Place
from tokfmt.formats.hdf5_arrays.container import (
    Attribute,
    attribute_of,
    opened,
    root_names,
    shape_of,
    storage_of,
    within,
)
from tokfmt.formats.hdf5_arrays.places import Places
from tokfmt.formats.hdf5_arrays.table import Table


class WriterAttributes(NamedTuple):
    """The attributes that tokfmt writes on `data` of each file."""

    stride: str  # overlap, disjoint, corpus, or `core.rows.ROWS`
    eos_id: int | None  # the separator; None for rows without one, and for an empty stream
    pad_id: int | None  # padding ID of the last sample
    first_token: int  # position of the file's first token in the stream
    stream_tokens: int  # tokens of the whole stream, with separators and without padding
    # 1 if the file's first token counts, which is not a label in the file; None if the mask is 0 on padding only
    first_mask: int | None = None


@dataclass(frozen=True, slots=True)
class Hdf5File:
    """One opened file: the rows of `data`, and the facts of its headers."""

    path: Place  # the file
    shape: tuple[int, ...]  # shape of `data` as declared, of rank 3 or 1
    table: Table  # rows of `data`
    names: frozenset[str]  # names in the root group, up to 64
    n_examples: Attribute  # root attribute as stored, an int, float or str; None if missing
    facts: Mapping[str, Attribute]  # the attributes of `WriterAttributes` that `data` has, unchecked
    chunk: tuple[int, ...] | None  # shape of a chunk; None if contiguous
    filters: tuple[int, ...]  # filter numbers in the order of writing

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def foreign(self) -> str:
        """Name of the kind of samples if tokfmt does not read it; "" for GPT samples, packed sequences and corpora."""
        if self.rank == 1 or self.shape[1] == 3:
            return ""
        if self.shape[1] == 5:
            return "multimodal samples" if "img_path" in self.names else ""
        if self.shape[1] == 2 and "labels" in self.names:
            return "masked language model samples (MLM)"
        known = {4: "packed masked language model samples (VSL MLM)", 6: "preference samples (DPO)"}
        return known.get(self.shape[1], f"samples of {self.shape[1]:,} fields")


def open_hdf5(path: Place, *, few: bool = False, opened: Callable[[Place], File] = open_file) -> Hdf5File:
    """Open one file. With `few`, chunks are looked up when their rows are read, not all at once."""
    return within(path, partial(_stored, few=few), opened)


def _stored(file: File, handle: Any, *, few: bool) -> Hdf5File:
    dataset = open_data(file, handle)
    # the library asks for the nodes of an index one after the other, which takes a request each from a store
    later = few or not file.path.is_local
    _, table, chunk, filters = storage_of(file, dataset, header=header_at(handle), later=later)
    if isinstance(table.map, Places) and not (few and table.map.look_up is not None):
        table.map.check()
    return header_of(file, handle, dataset, table, chunk, filters)


def header_of(
    file: File,
    handle: Any,
    dataset: Any,
    table: Table,
    chunk: tuple[int, ...] | None = None,
    filters: tuple[int, ...] = (),
) -> Hdf5File:
    """Return an opened file: the facts of its headers with an existing table, chunk shape and filters."""
    return Hdf5File(
        file.path,
        shape_of(file, dataset),
        table,
        frozenset(root_names(handle)),
        attribute_of(handle.id, "n_examples"),
        {name: value for name in WriterAttributes._fields if (value := attribute_of(dataset, name)) is not None},
        chunk,
        filters,
    )


def header_at(handle: Any) -> int:
    """Return the byte offset of the object header of the dataset `data` of a file that the library opened."""
    return int(handle.id.links.get_info(b"data").u)


def open_data(file: File, handle: Any) -> Any:
    """Open the dataset `data` with the library."""
    names = set(root_names(handle))
    if b"data" not in handle.id:
        if "data_0" in names:
            raise UnsupportedError(
                file.path,
                "holds samples of mixed shapes (data_0, data_1, ...), not one dataset",
                remedy="tokfmt reads files with one dataset 'data'",
            )
        listed = ", ".join(sorted(names)[:8]) or "nothing"
        remedy = "--from array reads datasets of other names" if names else "Copy the file again, or write it again"
        raise CorruptError(file.path, "holds no dataset 'data'", found=listed, remedy=remedy)
    return opened(file, handle, "data")
