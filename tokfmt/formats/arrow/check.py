"""Explain the findings of datasets of columns, and list the parts of files: footer, row groups, pages, messages."""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tokfmt.core.annotation import Part, broken, shown
from tokfmt.errors import FormatError
from tokfmt.files.fields import Field, Section
from tokfmt.files.place import Place
from tokfmt.formats.arrow.container import ArrowContainer, Container, ParquetContainer, open_containers, worded

if TYPE_CHECKING:
    from tokfmt.formats.arrow.options import ReadOptions, Variant

_SHOWN = 64  # the pages of this many row groups and columns are listed


def sections(format_: Variant, path: Place, options: ReadOptions) -> Sequence[Section]:
    """Return the sections of each file: its columns, then its messages, or its footer, row groups and pages."""
    found: list[Section] = []
    try:
        files = format_.find(path, options.split).files
    except FormatError as error:
        failed = broken(error)
        return [Part("files", path, lambda: (failed,))]
    for file in files:
        try:
            (container,) = open_containers(format_, [file], tail=True)
            found += _parts(container, file)
        except FormatError as error:
            found.append(Part(shown(file.name), file, functools.partial(tuple[Field], (broken(error),))))
    return found


def _parts(container: Container, path: Place) -> Iterator[Section]:
    """Yield the sections of one file."""
    name = shown(path.name)
    yield Part(
        f"columns of {name}",
        path,
        lambda: [
            Field(shown(column), None, 0, shown(str(container.schema.field(k).type)))
            for k, column in enumerate(container.schema.names)
        ],
    )
    if isinstance(container, ArrowContainer):
        yield Part(f"messages of {name}", path, lambda: _messages(container))
    else:
        yield Part(f"footer of {name}", path, lambda: _footer(container))
        yield Part(f"row groups of {name}", path, lambda: _groups(container))
        first = f"the first {_SHOWN} row groups of " if len(container.groups) > _SHOWN else ""
        yield Part(f"pages of {first}{name}", path, lambda: _pages(container))


def _messages(container: ArrowContainer) -> list[Field]:
    """Return one field per message of an Arrow file, and one for the end marker."""
    kinds, found = {1: "schema", 2: "dictionary", 3: "record batch"}, list[Field]()
    numbers: defaultdict[int, Iterator[int]] = defaultdict(itertools.count)
    for m in container.messages:
        name = f"{kinds[m.kind]} {next(numbers[m.kind]):,}" if m.kind > 1 else kinds[m.kind]
        rows, parts = f"{m.rows:,} rows" if m.kind == 3 else "", f"metadata {m.head:,} bytes, body {m.body:,}"
        found.append(Field(name, m.begin, m.head + m.body, rows, parts))
    ended = container.ended
    return [*found, Field("end marker", container.end, 8 * ended, "there" if ended else "missing", wrong=not ended)]


def _footer(container: ParquetContainer) -> list[Field]:
    """Return the fields of the footer of a Parquet file: counts, writer and metadata keys."""
    size = container.file.size
    length = int.from_bytes(container.file.read(size - 8, 4), "little")
    with worded(container.path, "the footer cannot be read"):
        metadata = container.metadata
        facts = {
            "version": metadata.format_version,
            "created by": metadata.created_by,
            "rows": metadata.num_rows,
            "row groups": metadata.num_row_groups,
        }
        more = (metadata.metadata or {}).items()
    facts |= {key.decode("utf-8", "replace"): f"{len(value):,} bytes" for key, value in more}
    found = [Field(shown(key), None, 0, shown(value)) for key, value in facts.items()]
    whole = Field("footer", size - 8 - length, length, f"{length:,} bytes")
    return [whole, *found, Field("footer length", size - 8, 4, f"{length:,}"), Field("magic", size - 4, 4, "PAR1")]


def _groups(container: ParquetContainer) -> list[Field]:
    """Return one field per row group."""
    return [
        Field(
            f"row group {group.number:,}",
            group.begin,
            group.size,
            f"{group.rows:,} rows",
            f"{container.metadata.row_group(group.number).num_columns:,} columns",
        )
        for group in container.groups
    ]


def _pages(container: ParquetContainer) -> list[Field]:
    """Return the pages of the first 64 row groups and columns as fields."""
    kinds, found = {0: "data", 2: "dictionary", 3: "data v2"}, list[Field]()
    for group in container.groups[:_SHOWN]:
        row = container.metadata.row_group(group.number)
        for k in range(min(row.num_columns, _SHOWN)):
            try:
                with worded(container.path, "the footer cannot be read"):
                    chunk = row.column(k)
                    where = shown(f"row group {group.number:,}, {chunk.path_in_schema}")
                for kind, at, plain, stored in container.pages(chunk):
                    value, meaning = f"{stored:,} bytes", f"{where}; {plain:,} decompressed"
                    found.append(Field(kinds.get(kind, f"page of kind {kind}"), at, stored, value, meaning))
            except FormatError as error:
                found.append(broken(error))
    return found
