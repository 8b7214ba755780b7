"""Options of HDF5 samples, and the name of the metadata file that upstream writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tokfmt.base.options import option
from tokfmt.core.reader import INT32_MAX

PARAMS = "data_params.json"
"""Metadata file that the writers of upstream leave in a directory of samples."""

Order = Literal["writer", "trainer", "given"]
Stride = Literal["auto", "overlap", "disjoint", "bos", "per-document"]
_FILE_SAMPLES = 65_536


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of reading HDF5 samples."""

    view: Literal["documents", "samples"] = option(
        "documents", "documents that samples were cut from, or the input_ids of each sample"
    )
    order: Order = option("writer", "order of files: as written, as trainers sort them, or as given")
    stride: Stride = option(
        "auto", "how samples continue each other (auto: stated by the file, else inferred, else each is a sequence)"
    )
    gaps: Literal["refuse", "accept"] = option(
        "refuse", "missing files of a directory are an error, or documents are cut there"
    )
    mask: Literal["auto", "loss", "inverted"] = option("auto", "meaning of 1 in the mask row: counted, or padding")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of writing HDF5 samples."""

    seq_len: int = option(2048, "tokens per sample", minimum=1, maximum=1 << 22)
    stride: Literal["overlap", "disjoint"] = option(
        "overlap", "a sample starts with the last label of the one before it (overlap), or after it (disjoint)"
    )
    shard_size: int | None = option(
        None, "maximum tokens per file of a directory, in whole samples (auto: 65,536 samples)", minimum=1
    )
    pad: int | None = option(None, "padding ID of the last sample (auto: the separator)", minimum=0, maximum=INT32_MAX)
    layout: Literal["samples", "corpus"] = option("samples", "samples [n, 3, seq_len], or one plain array of tokens")
    shuffle: bool | None = option(None, "byte-shuffle before compression (auto: above 4,096 tokens per sample)")

    @property
    def file_samples(self) -> int:
        """Maximum number of samples per file of a directory, at least one."""
        return _FILE_SAMPLES if self.shard_size is None else max(1, self.shard_size // self.seq_len)
