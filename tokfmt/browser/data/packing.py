"""The packing of a recipe: what it takes of each source, and how full its samples are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.browser.data.lines import HistogramLines
from tokfmt.browser.data.opening import recipe_of, samples_of
from tokfmt.browser.data.session import Session
from tokfmt.core.loss_mask import padding_of
from tokfmt.core.records import RecordReader
from tokfmt.errors import TokfmtError
from tokfmt.wording import percent, printable, short

if TYPE_CHECKING:
    from tokfmt.mix import Documents, Samples, TreeRow

MOST = 1 << 17
"""Limit of the samples whose fill is counted."""

_COUNTED = 1 << 26  # stored positions whose padding is counted
_AT_ONCE = 1 << 10  # stored samples that are read at once
_ODD = 0.1  # share of padding that a remedy is named for


class Fills(NamedTuple):
    """How full samples of one length are."""

    filled: NDArray[np.int64]  # the positions of each sample before its padding, int64[n]
    length: int  # the positions of a sample


class PackedSource(NamedTuple):
    """What a recipe takes of a source."""

    row: TreeRow  # its row of `tokfmt recipe --explain`
    shade: int  # number of the source in the recipe, for its color
    asked: str  # what the recipe asks for: a share, a number of tokens, or all

    def cells(self, width: int) -> tuple[str, ...]:
        """Return the columns in words; `width` is the number of positions of a sample."""
        row = self.row
        counts = ("" if count is None else short(count) for count in (row.samples, row.cut, row.padded))
        share = percent((row.padded or 0) / (row.samples * width)) if row.samples and width else ""
        name = f"{'  ' * (row.depth - 1)}{printable(row.name)}"
        return name, self.asked, percent(row.share), f"{row.passes:.2f}", short(row.drawn), *counts, share


@dataclass(frozen=True, eq=False)
class Packing:
    """The packing of a recipe. Of a recipe of documents, all but its sources is empty."""

    sources: Sequence[PackedSource]  # what it takes of each source
    pack: str  # name of the packing
    count: int  # the number of samples
    width: int  # positions of a sample
    padded: int  # positions of padding

    @property
    def used(self) -> float:
        """Return the share of positions that hold tokens."""
        return 1 - self.padded / (self.count * self.width or 1)

    @property
    def is_odd(self) -> bool:
        """Return whether a lot of the samples is padding."""
        return self.used < 1 - _ODD

    @property
    def words(self) -> str:
        """Return the share of padding in words, with a remedy for a lot of it."""
        remedy = "--pack bestfit joins documents" if self.pack == "document" else "--pack stream has the least"
        return f"{percent(1 - self.used)} padding; {remedy}"

    def table(self, room: int) -> list[tuple[str, ...]]:
        """Return the table of the sources, with a line of headings first, and as many columns as fit in some cells."""
        heads = ("source", "asked", "actual", "passes", "drawn", "samples", "cut", "padded", "% padded")
        lines = [heads, *(source.cells(self.width) for source in self.sources)]
        cells = [max(len(line[k]) for line in lines) + 2 for k in range(len(heads))]
        kept = [k for k in range(len(heads)) if any(line[k] for line in lines[1:])]
        for unneeded in (3, 5, 6, 7, 4, 1):  # the first ones are left out first
            if sum(cells[k] for k in kept) > room and unneeded in kept:
                kept.remove(unneeded)
        return [tuple(line[k] for k in kept) for line in lines]


def packing_of(session: Session) -> Packing | str:
    """Return the packing of the recipe of a view, or an error in words. Walks over sequences that are drawn in part."""
    from tokfmt.mix import explain

    recipe = recipe_of(session.view.reader)
    if recipe is None:
        return "not a recipe"
    try:
        whole, *rows = explain(recipe)
    except TokfmtError as error:
        return str(error)
    samples, sources, shade = samples_of(recipe), list[PackedSource](), -1
    for row in rows:
        shade += row.depth == 1
        sources.append(PackedSource(row, shade, _asked(recipe, shade) if row.depth == 1 else ""))
    if samples is None:
        return Packing(sources, "", 0, 0, 0)
    return Packing(sources, recipe.file.pack or "stream", samples.count, samples.advance, whole.padded or 0)


def _asked(recipe: Samples | Documents, number: int) -> str:
    """Return what a recipe asks of a source: its weight as a share, its quota in tokens, or all of it."""
    entry, file = recipe.file.sources[number], recipe.file
    if entry.weight is not None:
        return f"{float(entry.weight / sum(source.weight or 0 for source in file.sources)):.1%}"
    return "all" if entry.tokens is None else short(entry.tokens)


def _fills(samples: Samples) -> Fills | None:
    if samples.count > MOST or samples.file.pack == "stored":  # whose padding is found in its tokens
        return None
    return Fills(np.array([samples.filled(row) for row in range(samples.count)], np.int64), samples.seq_len)


def fills_of(session: Session) -> Fills | None:
    """Return how full the samples of the view are; None if nothing says it, or it takes long. Reads."""
    reader, count = session.view.reader, session.port.count
    if isinstance(reader, RecordReader) or session.view.name != "samples" or padding_of(reader, 0, 0) is None:
        return None
    from tokfmt.browser.data.columns import padded

    samples, shares, lengths = samples_of(reader), list[float | None](), np.empty(0, np.int64)
    try:
        if samples is not None and samples.file.pack != "stored":
            return _fills(samples)
        if 0 < count <= MOST and reader.info.tokens <= _COUNTED:
            lengths = np.unique(np.diff(reader.offsets(0, count)))
        for first in range(0, count if len(lengths) == 1 else 0, _AT_ONCE):
            shares += padded(reader, first, min(first + _AT_ONCE, count))
    except TokfmtError:
        return None  # the row that cannot be read shows the error
    if not shares:
        return None
    length = int(lengths[0])
    return Fills(np.array([round(length * (1 - (share or 0))) for share in shares], np.int64), length)


# the lines of the overview


@dataclass(frozen=True, eq=False)
class FillLines(HistogramLines):
    """Samples by their fill: the full ones, then intervals of equal shares, the fullest first."""

    fills: Fills  # the fill of each sample
    intervals: int  # the number of intervals

    @property
    def titles(self) -> Sequence[str]:
        positions = self.fills.length * len(self.fills.filled)
        return (f"samples by fill · {percent(1 - int(self.fills.filled.sum()) / (positions or 1))} padding",)

    @cached_property
    def counts(self) -> Sequence[int]:
        inside = self.fills.filled * self.intervals // max(1, self.fills.length)
        return [int(count) for count in np.bincount(inside, minlength=self.intervals + 1)[::-1]]

    def interval(self, line: int) -> str:
        low = self.intervals - line
        if low == self.intervals:
            return "full"
        return f"{100 * low // self.intervals}–{100 * (low + 1) // self.intervals}%"  # noqa: RUF001

    def query(self, lines: Sequence[int]) -> str:
        first, last = min(lines), max(lines)
        low = 0 if first == 0 else self._padding(self.intervals - first + 1) + 1
        return f"{low}<=padding<={self._padding(self.intervals - last)}"

    def _padding(self, interval: int) -> int:
        """Return the most padding of a sample in an interval, or in a fuller one."""
        return self.fills.length - -(-interval * self.fills.length // self.intervals)

    def record(self, line: int) -> Mapping[str, object]:
        return {"fill": self.interval(line), "samples": self.counts[line]}
