"""List the parts of HDF5 files: superblock, objects of the root group, attributes, chunks.

As in `container`, the HDF5 library reads headers only. Soft and external links are listed and never followed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from tokfmt.core.annotation import Part, broken, shown
from tokfmt.errors import CorruptError
from tokfmt.files.fields import Field, Section
from tokfmt.files.file import File, open_file
from tokfmt.files.place import Place
from tokfmt.formats.chunks import ChunkFields
from tokfmt.formats.hdf5.problems import examples_problem, stated_by
from tokfmt.formats.hdf5.stored import header_at, header_of, open_data
from tokfmt.formats.hdf5_arrays.container import (
    FILTER_NAMES,
    attribute_of,
    root_names,
    shape_of,
    storage_of,
    superblock_fields,
    within,
)
from tokfmt.formats.hdf5_arrays.places import FILTERS, Places, box_of
from tokfmt.formats.hdf5_arrays.table import Table, contiguous

_NAMES = {**FILTERS, **FILTER_NAMES}
_ATTRIBUTES = 64  # attributes of an object that are listed
_ANY = np.dtype("<i4")  # dtype of values that are not read
_MEANINGS = {
    "n_examples": "samples in the file",
    "stride": "how samples continue each other (tokfmt)",
    "eos_id": "separator (tokfmt)",
    "pad_id": "padding ID of the last sample (tokfmt)",
    "first_token": "position of the file's first token in the stream (tokfmt)",
    "stream_tokens": "tokens of the whole stream (tokfmt)",
}


def sections(files: Sequence[Place]) -> Sequence[Section]:
    """Return the sections of each file: superblock, root group, attributes, and the storage of `data`."""
    parts: list[Part] = []
    for file in files:
        of = "" if len(files) == 1 else f" of {file.name}"
        parts += [
            Part(f"superblock{of}", file, partial(_superblock, file)),
            Part(f"root group{of}", file, partial(within, file, _objects)),
            Part(f"attributes{of}", file, partial(within, file, _attributes)),
            Part(f"storage of /data{of}", file, partial(within, file, _storage)),
        ]
    return parts


def _superblock(path: Place) -> list[Field]:
    return superblock_fields(open_file(path))


def _objects(file: File, handle: Any) -> list[Field]:
    return [field for name in sorted(root_names(handle)) for field in _object(file, handle, name)]


def _object(file: File, handle: Any, name: str) -> Iterator[Field]:
    from h5py import h5d, h5l, h5o

    key = name.encode()
    if key not in handle.id and not handle.id.links.exists(key):  # a name that had to be escaped
        yield Field(f"/{name}", None, 0, "?")
        return
    if handle.id.links.get_info(key).type != h5l.TYPE_HARD:
        kind = {h5l.TYPE_SOFT: "a soft link", h5l.TYPE_EXTERNAL: "an external link"}.get(
            handle.id.links.get_info(key).type, "a link"
        )
        yield Field(f"/{name}", None, 0, kind, "not followed: it may point outside of the file", wrong=name == "data")
        return
    if h5o.get_info(handle.id, key).type != h5o.TYPE_DATASET:
        yield Field(f"/{name}", None, 0, "a group or a type", "", wrong=name == "data")
        return
    dataset = h5d.open(handle.id, key)
    lengths, kind = tuple(int(n) for n in dataset.shape or ()), dataset.dtype
    properties = dataset.get_create_plist()
    meaning, odd = _layout(properties, h5d), ""
    if name == "data" and len(lengths) == 3:
        table = contiguous(file, box_of(lengths), _ANY, 0)
        foreign = header_of(file, handle, dataset, table).foreign
        odd = f"{foreign}, not GPT samples" if foreign else "" if all(lengths[1:]) else "holds no tokens"
    elif name == "data" and len(lengths) != 1:
        odd = "should have 3 dimensions (samples) or 1 (a corpus)"
    description = "; ".join(filter(None, (odd, meaning)))
    yield Field(f"/{name}", None, 0, f"{list(lengths)} of {kind}", description, bool(odd))


def _layout(properties: Any, h5d: Any) -> str:
    if properties.get_external_count():
        return "values in other files (external storage)"
    layout = properties.get_layout()
    if layout != h5d.CHUNKED:
        words = {h5d.CONTIGUOUS: "contiguous", h5d.VIRTUAL: "virtual: values in other files", h5d.COMPACT: "compact"}
        return words.get(layout, "unknown layout")
    chunk = [int(n) for n in properties.get_chunk()]
    numbers = [int(properties.get_filter(k)[0]) for k in range(properties.get_nfilters())]
    filters = ", ".join(_NAMES.get(number, f"filter {number}") for number in numbers)
    return f"chunks of {chunk}, {filters or 'no filter'}"


def _attributes(file: File, handle: Any) -> list[Field]:
    """Return the attributes of the root group and of `data`; mark `n_examples` if it is not the number of samples."""
    from h5py import h5d, h5l, h5o

    links, found = handle.id.links, list(_of("/", handle.id))
    if b"data" not in handle.id or links.get_info(b"data").type != h5l.TYPE_HARD:
        return found
    found += _of("/data", h5o.open(handle.id, b"data"))
    if h5o.get_info(handle.id, b"data").type != h5o.TYPE_DATASET:
        return found
    dataset = h5d.open(handle.id, b"data")
    stored = header_of(file, handle, dataset, contiguous(file, box_of(shape_of(file, dataset)), _ANY, 0))
    if isinstance(stated := stated_by(stored), CorruptError):
        found.append(broken(stated))
    problem = examples_problem(stored) if stored.rank == 3 else None
    if problem is None:
        return found
    name, statement = "/ n_examples", problem.error.statement
    if not any(field.name == name for field in found):
        return [*found, Field(name, None, 0, "not there", statement, wrong=True)]
    return [field._replace(meaning=statement, wrong=True) if field.name == name else field for field in found]


def _of(owner: str, of: Any) -> Iterator[Field]:
    from h5py import h5a

    for k in range(min(_ATTRIBUTES, h5a.get_num_attrs(of))):
        name = h5a.open(of, index=k).name.decode("utf-8", "backslashreplace")
        value = attribute_of(of, name)
        text = "of another kind" if value is None or value == "?" else shown(value)
        yield Field(f"{owner} {shown(name)}", None, 0, text, _MEANINGS.get(name, ""))


def _storage(file: File, handle: Any) -> ChunkFields | _Values:
    """Return the chunks of `data`, or its values if it is contiguous."""
    table = storage_of(file, open_data(file, handle), header=header_at(handle)).table
    return ChunkFields(table) if isinstance(table.map, Places) else _Values(table)


class _Values:
    """The rows of contiguous `data` as fields; single values of a corpus."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.count = len(table) if math.prod(table.shape[1:]) else 0

    def fields(self, first: int, last: int) -> list[Field]:
        last, size = max(first, min(last, self.count)), math.prod(self.table.shape[1:]) * self.table.dtype.itemsize
        fields = []
        for k, row in enumerate(self.table.rows(first, last).reshape(last - first, -1) if last > first else ()):
            name = f"{'token' if row.size == 1 else 'sample'} {first + k:,}"
            value = " ".join(map(str, row[:8].tolist())) + (" …" if row.size > 8 else "")
            fields.append(Field(name, self.table.offset(first + k), size, value, wrong=int(row.min(initial=0)) < 0))
        return fields
