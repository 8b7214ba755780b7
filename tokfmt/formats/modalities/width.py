"""The token width of layouts that do not store it, from what documents end with."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tokfmt.core.files import File
from tokfmt.formats.modalities.index import Index

_LOOKED_AT = 4096
_ALMOST_ALL = 0.9
_DEFAULT = 4


def infer_width(file: File, begin: int, index: Index) -> int:
    """The widest of 4, 2 and 1 bytes that divides every length and under which (almost) all documents end alike.

    They end with the separator, so its bytes repeat; a width too large takes in part of the token before, which
    varies. Layout A was written with 4 bytes unless a program asked for another width; that is the default as well.
    """
    endings = _endings(file, begin, index)
    for width in (4, 2, 1):
        last = Counter(ending[-width:] for ending in endings)
        if index.uneven(width) is None and last and max(last.values()) >= _ALMOST_ALL * len(endings):
            return width
    return next(width for width in (_DEFAULT, 2, 1) if index.uneven(width) is None)


def _endings(file: File, begin: int, index: Index) -> list[bytes]:
    """The last four bytes (or fewer) of documents spread over the file."""
    count = index.documents
    looked = np.unique(np.linspace(0, count - 1, min(count, _LOOKED_AT)).astype(np.int64)).tolist() if count else []
    endings = []
    for entry in looked:
        start, stop = index.starts[entry : entry + 2].tolist()
        if start < stop:
            length = min(4, stop - start)
            endings.append(file.read(begin + stop - length, length))
    return endings
