"""Options of Parquet and Arrow, and the interface through which readers and checks use either format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from tokfmt.base.options import option
from tokfmt.core.loss_mask import MASK_CHOICES, MaskChoice
from tokfmt.files.place import Place


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of reading columns."""

    column: str | None = option(None, "column of IDs or text: a name, or a path such as messages.0.content")
    text_field: str | None = option(None, "column of text (the same as --text-field)")
    view: Literal["documents", "samples"] = option(
        "documents", "documents, or rows with their loss masks and boundaries"
    )
    rows: Literal["documents", "blocks"] | None = option(
        None, "rows are documents, or blocks of a stream that --eos splits (lists of fixed size are blocks)"
    )
    loss_mask: MaskChoice | None = option(None, MASK_CHOICES)
    split: str | None = option(None, "split of a folder to read: train, or the only one")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of writing columns."""

    column: str = option("input_ids", "name of the column of IDs")
    dtype: Literal["int32", "uint16", "uint32", "int64"] = option("int32", "dtype of IDs")
    seq_len: int | None = option(
        None, "tokens per row, as blocks of the stream with its separators", minimum=1, maximum=1 << 22
    )
    pack_size: int | None = option(
        None,
        "maximum predictions per packed row of Megatron-Bridge; documents stay in order",
        minimum=1,
        maximum=1 << 22,
    )
    shard_size: int = option(1 << 28, "approximate tokens per file of a folder", minimum=1)
    split: str | None = option(None, "split of a folder to write")


class Found(NamedTuple):
    """The files of a dataset."""

    files: list[Place]  # files with rows, in the order of reading
    split: str | None = None  # the split that was chosen; None if the folder has only one or no splits
    others: tuple[str, ...] = ()  # the splits that are not read
    metadata_files: tuple[Place, ...] = ()  # metadata files of the folder, as state.json


class Variant(Protocol):
    """Parquet or Arrow, as readers and checks use it."""

    name: ClassVar[str]  # name of the format
    hundred: ClassVar[int]  # base of the numbers of its findings: 660 means TF661 to TF669
    Container: Any  # class of an open file

    def find(self, path: Place, split: str | None = None) -> Found:
        """Return the files of a dataset; of a folder with several splits, those of one split."""
        ...
