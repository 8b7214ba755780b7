"""Several readers, one after the other, as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import Info, TokenReader, check_interval, check_position
from tokfmt.core.protocols import Piece, marks_of, pieces_of, read_scattered, restored
from tokfmt.core.ragged import Offsets, Tokens, offsets_of
from tokfmt.views.view import WithSeparators

_TOLD: dict[str, object] = {
    "pad_id": None, "split": None, "other_splits": (), "nonstandard_masks": None, "first_nonstandard": -1,
    "loss_masks": "",
}  # fmt: skip
"""Facts of a format that are told of several sources if all have the same; else these."""


class Concat:
    """The sequences of all sources, in order. No sequence runs across two sources."""

    def __init__(self, sources: Sequence[TokenReader]) -> None:
        self.sources = list(sources)
        self._restored: dict[tuple[int, bool, bool], TokenReader | None] = {}
        infos = [source.info for source in self.sources]
        self._starts = offsets_of([info.tokens for info in infos])
        self._firsts = offsets_of([info.sequences for info in infos])
        known = [info.max_id for info in infos if info.max_id is not None]
        free_of = {info.free_of for info in infos}
        lengths = {info.sample_length for info in infos}
        self._info = replace(
            infos[0],
            dtype=np.result_type(*(info.dtype for info in infos)),
            sequences=int(self._firsts[-1]),
            tokens=int(self._starts[-1]),
            max_id=max(known) if len(known) == len(infos) else None,
            sample_length=infos[0].sample_length if len(lengths) == 1 else None,
            free_of=infos[0].free_of if len(free_of) == 1 else None,
            segmented=any(info.segmented for info in infos),
            inferred=tuple(fact for info in infos for fact in info.inferred),
            notes=tuple(note for info in infos for note in info.notes),
            **_agreed(infos),
        )

    @property
    def info(self) -> Info:
        return self._info

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self._info.tokens)
        dtype = self._info.dtype
        pieces = [self.sources[k].tokens(a, b).astype(dtype, copy=False) for k, a, b in self._parts(start, stop)]
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate(pieces) if pieces else np.empty(0, self._info.dtype)

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        """Those of all sources; of one that has none every token counts. See `protocols.Marked`."""
        check_interval(start, stop, self._info.tokens)
        if all(marks_of(source) is None for source in self.sources):
            return None
        pieces = [np.empty(0, np.uint8)]
        for k, a, b in self._parts(start, stop):
            found = marks_of(self.sources[k], a, b)
            pieces.append(np.ones(b - a, np.uint8) if found is None else found)
        return np.concatenate(pieces)

    def scattered(self, begins: Offsets, places: Offsets, lengths: Offsets, out: Tokens) -> None:
        """By source; see `protocols.Scattered`."""
        sources = np.searchsorted(self._starts, begins, side="right") - 1
        for k in np.unique(sources).tolist():
            of = sources == k
            read_scattered(self.sources[k], begins[of] - self._starts[k], places[of], lengths[of], out)

    def restored(self, eos_id: int, *, read: bool = False, before: bool = False) -> TokenReader | None:
        """One after the other what the sources have; see `protocols.Restorable`."""
        key = eos_id, read, before
        if key not in self._restored:  # of thousands of sources it is not made for every region anew
            stored = [restored(source, eos_id, read=read, before=before) for source in self.sources]
            axes = [
                axis or WithSeparators(source, eos_id, before=before)
                for axis, source in zip(stored, self.sources, strict=True)
            ]
            self._restored[key] = Concat(axes) if any(axis is not None for axis in stored) else None
        return self._restored[key]

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        """Those of all sources; see `protocols.Verbatim`."""
        check_interval(start, stop, self._info.tokens)
        found: list[Piece] = []
        for k, a, b in self._parts(start, stop):
            pieces = pieces_of(self.sources[k], a, b)
            if pieces is None:
                return None
            found += pieces
        return found

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self._info.sequences, "sequences")
        pieces = [np.empty(0, np.int64)]
        for k in _touched(self._firsts, first, last):
            base = int(self._firsts[k])
            a, b = max(first - base, 0), min(last, int(self._firsts[k + 1])) - base
            pieces.append(self.sources[k].offsets(a, b)[:-1] + self._starts[k])
        return np.concatenate([*pieces, [self._end_before(last)]])

    def _end_before(self, last: int) -> int:
        """Offset where sequence `last` begins, or the end of the axis."""
        if last == self._info.sequences:
            return self._info.tokens
        k = int(np.searchsorted(self._firsts, last, side="right")) - 1
        local = last - int(self._firsts[k])
        return int(self.sources[k].offsets(local, local)[0]) + int(self._starts[k])

    def beneath(self, position: int) -> tuple[TokenReader, int]:
        check_position(position, self._info.tokens)
        k = int(np.searchsorted(self._starts, position, side="right")) - 1
        return self.sources[k], position - int(self._starts[k])

    def above(self, reader: TokenReader, position: int) -> int | None:
        """Of a reader that is there several times, in the first place."""
        for k, source in enumerate(self.sources):
            if source is reader:
                return int(self._starts[k]) + position
        return None

    def readers(self) -> Sequence[TokenReader]:
        return self.sources

    def _parts(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Which source, and which of its own positions, an interval of the axis is made of."""
        for k in _touched(self._starts, start, stop):
            base = int(self._starts[k])
            yield k, max(start - base, 0), min(stop, int(self._starts[k + 1])) - base

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_restored": {}}

    def close(self) -> None:
        for source in self.sources:
            source.close()


def _agreed(infos: Sequence[Info]) -> dict[str, Any]:
    """What formats tell of their data, as far as all sources tell the same."""
    found: dict[str, Any] = {}
    for name, nothing in _TOLD.items():
        values = [getattr(info, name) for info in infos]
        found[name] = values[0] if all(value == values[0] for value in values) else nothing
    extras = infos[0].extras.items()
    return {**found, "extras": {key: one for key, one in extras if all(i.extras.get(key) == one for i in infos)}}


def _touched(bounds: Offsets, start: int, stop: int) -> range:
    """Which sources an interval touches; empty ones in between may be among them."""
    if start == stop:
        return range(0)
    first = int(np.searchsorted(bounds, start, side="right")) - 1
    return range(first, int(np.searchsorted(bounds, stop, side="left")))
