"""Find indexes that were not written with the tokens beside them, from the positions of the separator.

An index of another run may have the same size and the same total, and then contradicts nothing. If the last token of a
file occurs exactly as often as there are sequences, it is the separator, and each sequence should end with it. If fewer
than half of the sequences do, the index belongs to other tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tokfmt.core.annotation import Extent
from tokfmt.core.reader import Layout, TokenReader, windows
from tokfmt.errors import CorruptError
from tokfmt.files.place import Place

_FEW = 8  # sequences: below this number, an ID that is not a separator may occur as often by chance
_SAMPLED = 256
_REMEDY = "Copy the index that was written with these tokens, or write both again"


ParallelMap = Callable[[Callable[[tuple[int, int]], int], Iterable[tuple[int, int]]], Iterator[int]]


def indexes_of_others(reader: TokenReader, extents: Sequence[Extent], spread: Any) -> Iterator[CorruptError]:
    """Yield an error for each file whose index seems to belong to other tokens. `spread` maps a function over intervals
    with threads; see `Audit`.
    """
    if reader.info.layout is not Layout.DOCUMENTS or reader.info.sequences < _FEW:
        return
    ends, begin = reader.offsets(0, reader.info.sequences)[1:], 0
    for path, stop in _files(extents):
        first, last = np.searchsorted(ends, [begin, stop], side="right").tolist()
        own = ends[first if begin else 0 : last]
        error = _error(reader, path, (begin, stop), own, spread) if len(own) >= _FEW else None
        if error is not None:
            yield error
        begin = stop


def _files(extents: Sequence[Extent]) -> Iterator[tuple[Place, int]]:
    """Yield each file, and the position after its last token."""
    stop = 0
    for k, extent in enumerate(extents):
        stop += extent.tokens
        if k + 1 == len(extents) or extents[k + 1].file is not extent.file:
            yield extent.file.path, stop


def _error(
    reader: TokenReader, path: Place, interval: tuple[int, int], ends: np.ndarray[Any, Any], spread: ParallelMap
) -> CorruptError | None:
    """Return the error of the index of one file; None if it belongs to the tokens at the positions of `interval`.
    `ends` has the position after each of its sequences.
    """
    start, stop = interval
    lasts = np.unique(ends)
    lasts = lasts[lasts > start]  # without empty sequences at the start
    if not len(lasts):
        return None
    last = int(reader.tokens(stop - 1, stop)[0])
    some = lasts[np.linspace(0, len(lasts) - 1, min(len(lasts), _SAMPLED)).astype(np.int64)]
    if 4 * sum(int(reader.tokens(end - 1, end)[0]) == last for end in some.tolist()) > 3 * len(some):
        return None  # More than 3 of 4 in a sample: all tokens need not be counted.
    found = sum(spread(lambda cut: int(np.count_nonzero(reader.tokens(*cut) == last)), windows(start, stop)))
    if found != len(ends):
        return None

    def ended_in(cut: tuple[int, int]) -> int:
        a, b = np.searchsorted(lasts, cut, side="right").tolist()
        return int(np.count_nonzero(reader.tokens(*cut)[lasts[a:b] - 1 - cut[0]] == last))

    ended = sum(spread(ended_in, windows(start, stop)))
    if 2 * ended >= len(ends):
        return None
    what = (
        f"the ID {last:,} ends the file and occurs as often as there are sequences ({found:,}), but ends only "
        f"{ended:,} of them: the index seems to belong to other tokens"
    )
    return CorruptError(path, what, remedy=_REMEDY)
