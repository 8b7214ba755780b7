"""Options of Parquet and Arrow, and what readers need of either format."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, Protocol

from tokfmt.core.options import option


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read columns."""

    column: str | None = option(None, "the column of ids or of text; a dotted path reaches into structs")
    text_field: str | None = option(None, "the column of text, as --text-field names it")
    view: Literal["documents", "samples"] = option("documents", "documents, or rows with their masks and boundaries")
    rows: Literal["documents", "blocks"] | None = option(
        None, "a row is a document, or a block of a stream that --eos splits; lists of fixed size are blocks"
    )
    split: str | None = option(None, "of a folder with several: the split to read, train unless it is the only one")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write columns."""

    column: str = option("input_ids", "name of the column")
    dtype: Literal["int32", "uint16", "uint32", "int64"] = option("int32", "of an id")
    seq_len: int | None = option(None, "rows of so many tokens of the stream, separators in it", least=1, most=1 << 22)
    pack_size: int | None = option(
        None, "packed rows of Megatron-Bridge: documents in order, up to so many predictions a row", least=1,
        most=1 << 22,
    )  # fmt: skip
    tokens_per_file: int = option(1 << 28, "about how many tokens go to a file of a folder", least=1)
    split: str | None = option(None, "of a folder: the split to write")


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
    """

    name: ClassVar[str]
    hundred: ClassVar[int]

    def find(self, path: Path, split: str | None = None) -> Found:
        """The files of a dataset; of a folder with several splits those of one."""
        ...
