"""Documents of a recipe: quotas drawn by the seed, and the reader of a recipe without `seq_len`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import Info, Layout, Separators, TokenReader, check_interval, check_position, windows
from tokfmt.core.draws import DRAWN, draws
from tokfmt.core.errors import ShortfallError
from tokfmt.core.protocols import read_scattered
from tokfmt.core.ragged import Offsets, Tokens, offsets_of
from tokfmt.core.text_format import printable
from tokfmt.recipes.axis import Source, Span, numbered
from tokfmt.recipes.cache import Column, Numbers, columns, key_of
from tokfmt.recipes.language import VERSION, RecipeFile
from tokfmt.recipes.order import ORDER_DOCUMENTS, permutation
from tokfmt.views.select import Chosen, Concat

_AT_ONCE = 1 << 18  # sequences


def drawn(file: RecipeFile, number: int, source: Source, quota: int) -> Source:
    """The documents of a source that fill a quota of tokens, in order of the source.

    They are drawn in an order that depends on the seed and their numbers alone, up to the first that goes beyond.

    Args:
        file: The recipe; number: of the source in it.
        source: As opened.
        quota: Tokens, separators not counted.

    Raises:
        ShortfallError: The source has not so many in the passes allowed; says by how much it falls short.
    """
    reader, info = source.reader, source.info
    whole, rest = passes(file, number, source.name, info.tokens, quota)
    order = np.argsort(draws(file.seed, DRAWN, 0, info.sequences), kind="stable")
    lengths = np.diff(reader.offsets(0, info.sequences))
    fits = int(np.searchsorted(np.cumsum(lengths[order]), rest, side="right"))
    chosen = np.zeros(info.sequences, np.bool_)
    chosen[order[:fits]] = True
    every = [np.arange(info.sequences)] * whole
    parts: list[TokenReader] = [reader] * whole
    if chosen.any() or not parts:
        parts.append(Chosen(reader, lambda a, b: chosen[a:b]))
    return replace(
        source,
        reader=parts[0] if len(parts) == 1 else Concat(parts),
        drawn=Column(np.concatenate([*every, np.flatnonzero(chosen)])),
        whole=reader,
        state=[source.state, "quota", quota, file.seed],
        facts=[source.facts, "quota", quota],
    )


class Documents:
    """The sequences of a recipe without `seq_len`: those of its sources, or what quotas draw of them, in order.

    A `TokenReader`; picklable; threads may share it.

    Attributes:
        file: The recipe as written.
        sources: As opened, in order, quotas drawn.
        eos_id: The separator that they agree on, None for none.
    """

    def __init__(self, file: RecipeFile, sources: Sequence[Source], eos_id: int | None) -> None:
        self.file, self.sources, self.eos_id = file, tuple(sources), eos_id
        self._members = [
            k for turn in range(max(map(file.passes, range(len(sources)))))
            for k in range(len(sources)) if turn < file.passes(k)
        ]  # fmt: skip
        self._base = Concat([self.sources[k].reader for k in self._members])
        self._firsts = offsets_of([self.sources[k].info.sequences for k in self._members])
        self._order = self._starts = self._begins = None
        count, info = int(self._firsts[-1]), self._base.info
        if file.shuffle == "documents":
            key = key_of(VERSION, file.seed, self._members, [source.state for source in self.sources])
            names = ("order", "ordered", "begins")
            self._order, self._starts, self._begins = columns(key, 24 * (count + 1), names, self._walk)
        tokens = info.tokens
        if file.tokens is not None and not file.weighted:
            count, tokens = self._within(count, file.tokens)
        self._info = replace(
            info, layout=Layout.DOCUMENTS, sequences=count, tokens=tokens, separators=Separators.NONE, eos_id=eos_id,
            eos_from="recipe" if eos_id is not None else "", sample_length=None, extras={}, inferred=(),
            notes=tuple(f"{source.name}: {note}" for source in self.sources for note in source.notes),
        )  # fmt: skip

    def _walk(self) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
        """Which document comes at each place, where it begins there, and where it begins among the sources."""
        count, at = int(self._firsts[-1]), 0
        order = permutation(max(1, count), self.file.seed, ORDER_DOCUMENTS, 0)
        begins = self._base.offsets(0, count)
        lengths = np.diff(begins)
        for a, b in windows(0, count, _AT_ONCE):
            numbers = order.many(np.arange(a, b))
            found = offsets_of(lengths[numbers]) + at
            yield numbers, found[:-1], begins[numbers]
            at = int(found[-1])
        none = np.empty(0, np.int64)
        yield none, np.array([at], np.int64), none

    def _within(self, count: int, budget: int) -> tuple[int, int]:
        """How many sequences, and tokens, stay within a budget.

        Raises:
            ShortfallError: There are not so many tokens.
        """
        total = int(self._offset(count))
        if budget > total:
            raise ShortfallError(
                f"{printable(self.file.where)}: the sources have {total:,} tokens, and {budget:,} are asked for: short "
                f"by {budget - total:,}. Give sources more epochs, or ask for fewer"
            )
        low, high = 0, count + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._offset(middle) <= budget else (low, middle)
        return low, self._offset(low)

    def _offset(self, sequence: int) -> int:
        found = self._base.offsets(sequence, sequence) if self._starts is None else self._starts.array[sequence:]
        return int(found[0])

    @property
    def info(self) -> Info:
        return self._info

    @cached_property
    def fingerprint(self) -> str:
        """What decides the order of documents, as 32 hexadecimal digits."""
        facts = [VERSION, self.file.shuffle, self.file.seed, self._members, self.eos_id]
        facts += [source.facts for source in self.sources]
        return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:32]

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self._info.sequences, "sequences")
        return self._base.offsets(first, last) if self._starts is None else self._starts.array[first : last + 1]

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self._info.tokens)
        if self._starts is None or self._begins is None:
            return self._base.tokens(start, stop)
        if start == stop:
            return np.empty(0, self._info.dtype)
        bounds, out = self._starts.array, np.empty(stop - start, self._info.dtype)
        first = int(np.searchsorted(bounds, start, side="right")) - 1
        last = int(np.searchsorted(bounds, stop, side="left"))
        edges = np.clip(bounds[first : last + 1], start, stop)
        begins, lengths = self._begins.array[first:last] + (edges[:-1] - bounds[first:last]), np.diff(edges)
        filled = lengths > 0
        read_scattered(self._base, begins[filled], edges[:-1][filled] - start, lengths[filled], out)
        return out

    def spans(self, sequence: int) -> list[Span]:
        """Which sequence of which source a document is.

        Raises:
            IndexError: There is no such document.
        """
        start, stop = self.offsets(sequence, sequence + 1).tolist()
        (source,), (number,) = self.origins(np.array([sequence]))
        return [Span(int(source), int(number), 0, stop - start)]

    def origins(self, sequences: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which sequences of which sources documents are: two times int64[n]."""
        numbers = sequences if self._order is None else self._order.array[sequences]
        turn = np.searchsorted(self._firsts, numbers, side="right") - 1
        source = np.array(self._members, np.int64)[turn]
        return source, numbered(self.sources, source, numbers - self._firsts[turn])

    def beneath(self, position: int) -> tuple[TokenReader, int]:
        """See `protocols.Underlying`."""
        check_position(position, self._info.tokens)
        if self._starts is None or self._begins is None:
            return self._base, position
        place = int(np.searchsorted(self._starts.array, position, side="right")) - 1
        return self._base, position + int(self._begins.array[place]) - int(self._starts.array[place])

    def above(self, reader: TokenReader, position: int) -> int | None:
        """Nobody knows: a token may be there in each pass, or not at all."""
        return position if reader is self._base and self._starts is None and position < self._info.tokens else None

    def readers(self) -> Sequence[TokenReader]:
        """See `protocols.Underlying`."""
        return [self._base]

    def close(self) -> None:
        """Release open files."""
        self._base.close()


def quota_of(file: RecipeFile, number: int) -> int | None:
    """The quota of a source in tokens: its own, or by weight a share of the budget; None if it has none."""
    entry = file.sources[number]
    if file.seq_len is None and file.tokens is not None and entry.weight is not None:
        total: Any = sum(one.weight or 0 for one in file.sources)
        return int(entry.weight / total * file.tokens)
    return entry.tokens


def passes(file: RecipeFile, number: int, name: str, tokens: int, quota: int) -> tuple[int, int]:
    """How often all of a source goes into its quota, and how many tokens are left to be drawn then.

    Args:
        file: The recipe; number, name: of the source.
        tokens: That the source has; quota: that are asked for.

    Raises:
        ShortfallError: It has not so many in the passes allowed; says by how much it falls short.
    """
    most = file.cap(number)
    if quota > tokens * most:
        times = "once" if most == 1 else f"{most:,} times"
        raise ShortfallError(
            f'{printable(file.where)}: source "{printable(name)}" has {tokens:,} tokens, which may be read {times}, '
            f"and {quota:,} are asked for: short by {quota - tokens * most:,}. "
            f"Allow epochs = {-(-quota // max(1, tokens))}, or ask for fewer"
        )
    return divmod(quota, max(1, tokens))


def quotas(file: RecipeFile, sources: Sequence[Source]) -> list[Source]:
    """Sources, with the documents drawn of those that have a quota."""
    found: list[Source] = []
    for number, source in enumerate(sources):
        quota = quota_of(file, number)
        found.append(source if quota is None else drawn(file, number, source, quota))
    return found
