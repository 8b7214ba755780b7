"""Options for reading and writing arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tokfmt.base.options import option
from tokfmt.core.loss_mask import MASK_CHOICES, MaskChoice
from tokfmt.formats.flat import FlatOptions

Dtype = Literal["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]


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
    view: Literal["samples", "documents"] | None = option(
        None, "rows are samples, or one stream that --eos splits; auto: samples, or what columns beside them state"
    )
    loss_mask: MaskChoice | None = option(None, MASK_CHOICES)
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
