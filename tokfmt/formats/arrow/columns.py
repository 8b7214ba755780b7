"""Which column of a table is read: ids, packed rows, or text, by its name and its type."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tokfmt.core.errors import UnsupportedError
from tokfmt.core.records import CHATS, are_chats
from tokfmt.core.text_format import counted, printable
from tokfmt.formats.arrow.container import ArrowContainer, Container, ParquetContainer, arrow

if TYPE_CHECKING:
    from tokfmt.formats.arrow import Columnar, ReadOptions

IDS, TEXT = ("input_ids", "tokens", "token_ids", "ids"), "text"
PACKED = ("input_ids", "loss_mask", "seq_start_id")
_NAME = "--text-field NAME names one of text, --from-opt column=NAME any"


class Column(NamedTuple):
    """What is read: its kind (ids or text), its name, and the columns beside it that say what counts."""

    kind: str
    name: str
    beside: tuple[str, ...] = ()


def open_containers(format_: Columnar, files: Sequence[Path], *, tail: bool = False) -> list[Container]:
    """The files of a dataset, opened.

    Raises:
        FormatError: One is not what it should be.
    """
    kind = ParquetContainer if format_.name == "parquet" else ArrowContainer
    return [kind(path, tail=tail) for path in files]


def own_blocks(container: Container) -> bool:
    """Whether tokfmt wrote the rows as blocks of a stream."""
    try:
        said = json.loads((container.schema.metadata or {}).get(b"tokfmt", b"{}"))
    except (ValueError, RecursionError):
        return False
    return isinstance(said, dict) and said.get("rows") == "blocks"


def typed(schema: Any, name: str) -> Any:
    """The type of a column, by its dotted path; None where there is none, or several of that name."""
    if schema.get_field_index(name) >= 0:
        return schema.field(name).type
    kind = schema
    for word in name.split("."):
        if (kind is not schema and not arrow().types.is_struct(kind)) or kind.get_field_index(word) < 0:
            return None
        kind = kind.field(word).type
    return kind


def kind_of(kind: Any) -> str:
    """What a type may hold: "ids", "text", or ""."""
    if kind is None:
        return ""
    types = arrow().types
    if types.is_dictionary(kind):
        kind = kind.value_type
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list, types.is_list_view, types.is_large_list_view)
    if any(is_it(kind) for is_it in lists):
        return "ids" if types.is_integer(kind.value_type) else ""
    return "text" if str(kind).removeprefix("large_").removesuffix("_view") in ("string", "binary") else ""


def chosen(container: Container, options: ReadOptions) -> Column:
    """The column to read.

    Raises:
        UnsupportedError: None is what is looked for; lists what there is.
    """
    schema = container.schema
    every = {name: kind_of(typed(schema, name)) for name in schema.names}
    listed = printable(", ".join(f"{name}: {schema.field(k).type}" for k, name in enumerate(schema.names[:20])))
    if name := options.text_field or options.column:
        kind = kind_of(typed(schema, name))
        if not kind or (options.text_field and kind != TEXT):
            what = f'column "{printable(name)}" holds no {"text" if options.text_field else "ids and no text"}'
            raise UnsupportedError(container.path, what, found=listed)
        labels = ("labels",) if every.get("labels") == "ids" and kind == "ids" else ()
        return Column(kind, name, labels)
    if all(every.get(name) == "ids" for name in PACKED):
        return Column("ids", "input_ids", PACKED[1:])
    for name in IDS:
        if every.get(name) == "ids":
            return Column("ids", name, ("labels",) if every.get("labels") == "ids" else ())
        if name in every and str(typed(schema, name)).startswith(("list", "large_list", "fixed_size_list")):
            what = f'column "{name}" is no list of ids'
            raise UnsupportedError(container.path, what, expected="list<int32>", found=str(typed(schema, name)))
    texts = [name for name, kind in every.items() if kind == TEXT and "binary" not in str(typed(schema, name))]
    if every.get(TEXT) == TEXT:
        return Column(TEXT, TEXT)
    if len(texts) == 1:
        return Column(TEXT, texts[0])
    what = "has several columns of text" if texts else "has no column of ids (input_ids, tokens, ...) and none of text"
    if are_chats(every):
        what = CHATS
    raise UnsupportedError(container.path, what, found=listed, remedy=_NAME)


def values_of(batch: Any, name: str) -> Any:
    """An array of a batch by its dotted path; NULL wherever a struct around it is."""
    if (at := batch.schema.get_field_index(name)) >= 0:
        return batch.column(at)
    first, *rest = name.split(".")
    return arrow().compute.struct_field(batch.column(batch.schema.get_field_index(first)), rest)


def unread(containers: Sequence[Container], column: Column, *, nulls: bool) -> tuple[str, ...]:
    """In sentences, which columns are not read, and with `nulls` how many rows are read as empty that are NULL.

    Decodes a column of which no footer tells that.
    """
    notes, count = list[str](), 0
    for container in containers if nulls else ():
        for group in container.groups:
            known = container.facts(group, column.name).nulls  # of lists: NULL and empty ones
            if known is None or (known and column.kind != TEXT):
                batches = container.batches(group, [column.name])
                known = sum(values_of(batch, column.name).null_count for batch in batches)
            count += known
    if count:
        notes.append(f"{counted(count, 'row')} of NULL read as empty (--drop null-rows)")
    own = {column.name.split(".")[0], *column.beside}
    if others := [name for name in containers[0].schema.names if name not in own]:
        notes.append(f'columns beside "{printable(column.name)}" are not read: {printable(", ".join(others[:12]))}')
    return tuple(notes)
