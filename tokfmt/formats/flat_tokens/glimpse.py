"""The tokens of a split before `seq_starts` has been read, which is 8 bytes a sequence."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tokfmt.core.axis import Info, Layout, Separators, frozen
from tokfmt.core.dtypes import U32
from tokfmt.core.errors import TokfmtError
from tokfmt.formats.flat_tokens.array import Array, Items
from tokfmt.formats.flat_tokens.group import TOKENS, choose, groups_of
from tokfmt.formats.flat_tokens.options import ReadOptions
from tokfmt.formats.flat_tokens.reader import FlatTokensReader
from tokfmt.formats.flat_tokens.store import open_store


class Glimpse(FlatTokensReader):
    """All ids of a split as one stream; nothing is checked against `seq_starts` yet."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        store = open_store(path)
        groups = groups_of(store)
        group = choose(store, groups, options.split)
        self._array = Array(store, group.key(TOKENS), 4, group.zarr_format)
        tokens = self._array.layout.length
        self._offsets = np.array([0, tokens] if tokens else [0], np.int64)
        self._bound = None
        self._info = Info(
            layout=Layout.STREAM,
            dtype=U32,
            sequences=len(self._offsets) - 1,
            tokens=tokens,
            separators=Separators.NONE,
            extras=frozen(
                split=group.split or "", other_splits=tuple(other.split for other in groups if other is not group)
            ),
        )

    def _window(self, start: int, stop: int) -> Items:
        items = self._array.read(start, stop)
        items >>= 1
        return items


def glimpse(path: Path, options: ReadOptions) -> Glimpse | None:
    """The ids of a split; None when opening it properly is what will say what is wrong."""
    try:
        return Glimpse(path, options)
    except TokfmtError:
        return None
