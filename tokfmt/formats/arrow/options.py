"""Options of Parquet and Arrow, and what readers need of either format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from tokfmt.core.options import option


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read columns."""

    column: str | None = option(None, "column of IDs or text; a dotted path reaches into structs")
    text_field: str | None = option(None, "column of text, as --text-field names it")
    view: Literal["documents", "samples"] = option("documents", "documents, or rows with their masks and boundaries")
    rows: Literal["documents", "blocks"] | None = option(
        None, "rows are documents, or blocks of a stream that --eos splits; lists of fixed size are blocks"
    )
    split: str | None = option(None, "split of a folder to read: train, or the only one")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write columns."""

    column: str = option("input_ids", "name of the column")
    dtype: Literal["int32", "uint16", "uint32", "int64"] = option("int32", "dtype of IDs")
    seq_len: int | None = option(
        None, "tokens per row, as blocks of the stream with its separators", least=1, most=1 << 22
    )
    pack_size: int | None = option(
        None, "predictions per packed row of Megatron-Bridge, at most; documents stay in order", least=1,
        most=1 << 22,
    )  # fmt: skip
    tokens_per_file: int = option(1 << 28, "tokens per file of a folder, about", least=1)
    split: str | None = option(None, "split of a folder to write")


class Found(NamedTuple):
    """What a path is read as: files in order, its split, the other splits, and what else belongs to it."""

    files: list[Path]
    split: str | None = None
    others: tuple[str, ...] = ()
    beside: tuple[Path, ...] = ()


class Variant(Protocol):
    """Parquet or Arrow, as readers and checks see it.

    Attributes:
        name: Of the format.
        hundred: The first number of its findings.
        Container: The class of an open file.
    """

    name: ClassVar[str]
    hundred: ClassVar[int]
    Container: Any

    def find(self, path: Path, split: str | None = None) -> Found:
        """The files of a dataset; of a folder with several splits those of one."""
        ...
