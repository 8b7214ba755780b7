"""The axes that statistics walk: as stored, separators included, because masking them away costs more than counting.

Indexed    sequences are told by offsets; each may end with a separator, which is looked at and counted off
Streamed   one stream; sequences are what lies between separators, found while it is counted: one read, not two
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tokfmt.core.axis import WINDOW, Info, TokenReader, sequence_at, windows
from tokfmt.core.errors import CorruptError
from tokfmt.core.inside import Sampled
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.ops.stats.tally import Loose, Span, Stats, Tally
from tokfmt.views.separated import WithoutTrailing
from tokfmt.views.split import SplitAt

_SEQUENCES = 1 << 16
_PROBE, _PROBES = 1 << 12, 16


@dataclass(frozen=True, slots=True)
class Indexed:
    """A stored axis with offsets.

    Attributes:
        stored: The reader; sequences with their separators, if they have any.
        eos_id: The separator with which every sequence ends, None if there is none.
        path: For messages.
    """

    stored: TokenReader
    eos_id: int | None
    path: str

    @property
    def info(self) -> Info:
        """Of the stored axis."""
        return self.stored.info

    @property
    def content_tokens(self) -> int:
        """Tokens in the sequences."""
        return self.info.tokens - (self.info.sequences if self.eos_id is not None else 0)

    def regions(self, size: int) -> Iterator[tuple[int, int]]:
        """Disjoint parts that cover the axis; one of no token when there are empty sequences only."""
        info = self.stored.info
        yield from windows(0, info.tokens, size)
        if not info.tokens and info.sequences:
            yield 0, 0

    def mean_length(self) -> float:
        """Tokens in a sequence, separators included."""
        return self.info.tokens / max(self.info.sequences, 1)

    def walk(self, start: int, stop: int, tally: Tally) -> None:
        """Tell the tally of every token in a part, and of every sequence that begins there."""
        first = self._begun_before(start)
        opened: tuple[Tokens, int, int] | None = None  # what was read of a sequence that goes on, and where it lies
        for a, b in list(windows(start, stop)) or [(start, stop)]:
            tokens = self.stored.tokens(a, b)
            tally.count(tokens)
            if opened is not None:
                piece, begin, end = opened
                self._tell(tally, np.concatenate([piece, tokens[: end - a]]), begin, np.array([begin, end]))
                opened = None
            until = self.info.sequences if b == self.info.tokens else self._begun_before(b)
            while first < until:
                bounds = self.stored.offsets(first, min(until, first + _SEQUENCES))
                first += len(bounds) - 1
                begin, end = bounds[-2:].tolist()
                if end > b:
                    bounds = bounds[:-1]
                    if end > stop or end - begin > WINDOW:
                        tally.later(begin, end)
                    else:
                        opened = tokens[begin - a :].copy(), begin, end
                self._tell(tally, tokens, a, bounds)
        self._mask(start, stop, tally)

    def _begun_before(self, position: int) -> int:
        """How many sequences begin before a position."""
        return sequence_at(self.stored, position - 1) + 1 if position and self.info.sequences else 0

    def _tell(self, tally: Tally, tokens: Tokens, base: int, bounds: Offsets) -> None:
        starts, stops = bounds[:-1] - base, bounds[1:] - base
        if self.eos_id is not None:
            stops = stops - 1
            if (stops < starts).any() or (tokens[stops] != self.eos_id).any():
                raise self._unended(tokens, base, starts, stops)
        tally.sequences(tokens, starts, stops, base)

    def _unended(self, tokens: Tokens, base: int, starts: Offsets, stops: Offsets) -> CorruptError:
        wrong = (stops < starts) | (tokens[np.maximum(stops, 0)] != self.eos_id)
        k = int(np.argmax(wrong))
        before = int(np.count_nonzero(starts[:k] == starts[k]))  # empty ones begin at the same place
        return CorruptError(
            self.path,
            f"sequence {self._begun_before(base + int(starts[k])) + before:,} does not end with the separator "
            f"{self.eos_id}",
            found=int(tokens[stops[k]]) if stops[k] >= starts[k] else "nothing",
            remedy="--eos none reads the sequences as they are stored, with whatever ends them",
        )

    def _mask(self, start: int, stop: int, tally: Tally) -> None:
        stored = self.stored
        if isinstance(stored, Sampled):
            for a, b in windows(start, stop):
                tally.mask(b - a - int(np.count_nonzero(stored.masks(a, b))))

    def content(self, loose: Loose) -> Loose:
        """A loose sequence without the separator at its end, which is looked at."""
        if self.eos_id is None:
            return loose
        end = loose.stop - 1
        last = self.stored.tokens(end, loose.stop)
        if int(last[0]) != self.eos_id:
            raise self._unended(last, end, np.array([loose.start - end]), np.array([0]))
        return Loose(loose.start, loose.stop - 1)

    def leftover(self, stats: Stats) -> list[Loose]:
        """Sequences that no part has told of: none."""
        return list(stats.loose)

    def separators(self, stats: Stats) -> int:
        """Separators on the axis that are not part of a sequence."""
        return stats.lengths.total if self.eos_id is not None else 0

    def number(self, position: int, begun: Sequence[tuple[int, int]]) -> int:  # noqa: ARG002 - offsets tell it
        """The number of the sequence that begins at a position and is not empty."""
        return sequence_at(self.stored, position)


@dataclass(frozen=True, slots=True)
class Streamed:
    """A stored stream, split at a separator; runs of separators are padding.

    Attributes:
        stored: The reader.
        eos_id: Where to split.
    """

    stored: TokenReader
    eos_id: int

    @property
    def info(self) -> Info:
        """Of the stored stream."""
        return self.stored.info

    def regions(self, size: int) -> Iterator[tuple[int, int]]:
        """Disjoint parts that cover the stream."""
        return windows(0, self.stored.info.tokens, size)

    def mean_length(self) -> float:
        """Tokens in a sequence, separators included; estimated by a look at some places of the stream."""
        total = self.info.tokens
        looked = found = 0
        for start in range(0, total, max(_PROBE, -(-total // _PROBES))):
            tokens = self.stored.tokens(start, min(start + _PROBE, total))
            looked += len(tokens)
            found += int(np.count_nonzero(tokens == self.eos_id))
        return looked / max(found, 1)

    def walk(self, start: int, stop: int, tally: Tally) -> None:
        """Tell the tally of every token in a part, and of every sequence between two separators in it."""
        first = last = -1
        begun = 0
        piece: Tokens | None = None  # what was read of the sequence after the last separator
        for a, b in windows(start, stop):
            tokens = self.stored.tokens(a, b)
            tally.count(tokens)
            begun += a > start and last == a - 1 and int(tokens[0]) != self.eos_id
            at = np.flatnonzero(tokens == self.eos_id)
            if not len(at):
                piece = None  # it goes on through a whole window, or beyond the part
                continue
            head = int(at[0])
            if first < 0:
                first = a + head
            elif piece is None:
                tally.later(last + 1, a + head)
            elif len(piece) + head:
                whole = np.concatenate([piece, tokens[:head]])
                tally.sequences(whole, np.array([0]), np.array([len(whole)]), last + 1)
            filled = np.flatnonzero(np.diff(at) > 1)
            tally.sequences(tokens, at[filled] + 1, at[filled + 1], a)
            last = a + int(at[-1])
            begun += len(filled) + (last + 1 < b)
            piece = tokens[int(at[-1]) + 1 :].copy()
        if last == stop - 1 and stop < self.info.tokens:
            begun += int(self.stored.tokens(stop, stop + 1)[0]) != self.eos_id
        tally.span(Span(start, stop, first, last), begun)

    def content(self, loose: Loose) -> Loose:
        """A loose sequence as it is; separators are outside."""
        return loose

    def leftover(self, stats: Stats) -> list[Loose]:
        """Loose sequences, with what lies before the first separator and after the last."""
        found = list(stats.loose)
        total = self.stored.info.tokens
        for span in stats.spans:
            before, after = (span.first, span.last + 1) if span.first >= 0 else (total, total)
            found += [Loose(a, b) for a, b in ((0, before), (after, total)) if a < b]
        return found

    def separators(self, stats: Stats) -> int:
        """Separators in the stream."""
        return stats.ids.count(self.eos_id)

    def number(self, position: int, begun: Sequence[tuple[int, int]]) -> int:
        """The number of the sequence that begins at a position, from what the parts have counted."""
        before = position - 1  # the separator that it follows; the sequences of those before that come before it
        if before < 0:
            return 0
        count = int(int(self.stored.tokens(0, 1)[0]) != self.eos_id)
        start = 0
        for part, sequences in begun:
            if part <= before:
                start = part
                count += sequences
        count -= dict(begun)[start]
        for a, b in windows(start, before):
            tokens = self.stored.tokens(a, b + 1)
            count += int(np.count_nonzero((tokens[:-1] == self.eos_id) & (tokens[1:] != self.eos_id)))
        return count


StatsAxis = Indexed | Streamed


def axis_of(reader: TokenReader, path: str) -> StatsAxis:
    """The axis beneath a reader without separators, as `ops.open` gives them."""
    if isinstance(reader, WithoutTrailing):
        return Indexed(reader.stored, reader.eos_id, path)
    if isinstance(reader, SplitAt):
        return Streamed(reader.stored, reader.eos_id)
    return Indexed(reader, None, path)
