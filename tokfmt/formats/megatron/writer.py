"""Writes PREFIX.bin and PREFIX.idx."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tokfmt.core.axis import INT32_MAX, Separators, TokenReader, windows
from tokfmt.core.errors import ConversionError, UnsupportedError
from tokfmt.core.options import option
from tokfmt.formats.flat import FlatWriter, Pieces
from tokfmt.formats.megatron.index import HEADER, MAGIC, columns_of

_AT_ONCE = 1 << 20  # index entries


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How to write indexed datasets."""

    eod: Literal["always", "none"] = option("always", "a separator after each document, as --append-eod, or none")
    dtype: Literal["uint16", "int32"] | None = option(None, "of the tokens; uint16 where the largest id allows it")


class Writer(FlatWriter):
    """Writes PREFIX.bin and, last, PREFIX.idx."""

    needs_max_id, limit = True, INT32_MAX

    @property
    def separators(self) -> Separators:  # type: ignore[override]
        return Separators.TRAILING if self.options.eod == "always" else Separators.NONE

    def dtype(self, top: int) -> np.dtype[Any]:
        return np.dtype(self.options.dtype or ("<u2" if top < 1 << 16 else "<i4"))

    def create(self, source: TokenReader) -> None:
        if self.path.suffix != ".bin":  # a file of that name was there already, and so it is no prefix
            raise ConversionError(f"{self.path}: is a file. Name PREFIX.bin, which is written with PREFIX.idx")
        super().create(source)

    def index(self, stored: TokenReader, dtype: np.dtype[Any]) -> Pieces:
        path, count = self.path.with_suffix(".idx"), stored.info.sequences
        cuts = list(windows(0, count, _AT_ONCE))
        held = longest = number = 0
        for first, last in cuts:
            lengths = np.diff(stored.offsets(first, last))
            held, longest = held + int(np.count_nonzero(lengths)), max(longest, int(lengths.max()))
        if longest > INT32_MAX:
            what = "a document of more tokens than an int32 counts"
            raise UnsupportedError(path, what, expected=f"{INT32_MAX:,} at most", found=longest)
        columns, code = columns_of(held, count + 1), {2: 8, 4: 4}[dtype.itemsize]
        yield path, 0, HEADER.write(magic=MAGIC, version=1, dtype_code=code, sequences=held, document_indices=count + 1)
        yield path, columns.at("document_indices"), np.zeros(1, "<i8")
        for first, last in cuts:
            bounds = stored.offsets(first, last)
            documents = np.diff(bounds) > 0
            yield path, columns.at("lengths", number), np.diff(bounds)[documents].astype("<i4")
            yield path, columns.at("pointers", number), (bounds[:-1][documents] * dtype.itemsize).astype("<i8")
            yield path, columns.at("document_indices", first + 1), (number + np.cumsum(documents)).astype("<i8")
            number += int(np.count_nonzero(documents))
