"""Options of HDF5 samples, and the file beside them that upstream's writers leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tokfmt.core.axis import INT32_MAX
from tokfmt.core.options import option

PARAMS = "data_params.json"
"""What upstream's writers say of a directory of samples, beside them."""

Order = Literal["writer", "trainer", "given"]
Stride = Literal["auto", "overlap", "disjoint", "bos", "per-document"]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read HDF5 samples."""

    view: Literal["documents", "samples"] = option(
        "documents", "documents that samples were cut from, or input_ids of each"
    )
    order: Order = option("writer", "files in the order of writing, as trainers sort them, or as given")
    stride: Stride = option(
        "auto", "how samples continue each other; auto: as the file says or shows, else each is a sequence"
    )
    gaps: Literal["refuse", "accept"] = option(
        "refuse", "files that are missing from a directory are an error, or documents are cut there"
    )
    mask: Literal["auto", "loss", "inverted"] = option("auto", "what 1 in the mask row means: counted, or padding")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write HDF5 samples."""

    seq_len: int = option(2048, "tokens in a sample", least=1, most=1 << 22)
    stride: Literal["overlap", "disjoint"] = option(
        "overlap", "a sample starts with the last label of the one before it (overlap), or after it (disjoint)"
    )
    samples: int = option(65_536, "most samples in a file of a directory", least=1)
    pad: int | None = option(
        None, "id that fills up the last sample; the separator when left out", least=0, most=INT32_MAX
    )
    layout: Literal["samples", "corpus"] = option("samples", "samples [n, 3, seq_len], or one plain array of tokens")
    shuffle: bool | None = option(None, "byte-shuffle before compressing; when left out, above 4,096 tokens")
