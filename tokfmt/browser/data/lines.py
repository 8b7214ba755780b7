"""The lines of a table of any number, without reading: facts, lengths, token IDs, groups of equal rows and findings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size

from tokfmt.browser.data.cells import Cells, Lines, fitted
from tokfmt.browser.data.facts import spelling
from tokfmt.browser.data.layout import HEAD, TokenStyle, words_of
from tokfmt.browser.data.rows import Damage, RowSource
from tokfmt.wording import bar, counted, percent, short

if TYPE_CHECKING:
    from tokfmt.commands.stats import Groups
    from tokfmt.commands.stats.lists import RankedIds
    from tokfmt.commands.stats.report import Lengths

_LABEL = 16  # cells of the name of a fact at most
_WORDS = 200  # cells of the beginning of a row
_TEXT, _BAR = 20, 10  # cells of a token beside a bar, and of a bar at least


class Fact(NamedTuple):
    """A fact."""

    name: str  # its name, or a sign; "" for an empty line
    value: str  # its value
    action: str = ""  # the action of the tab that leads on; "" for none
    odd: bool = False  # it deviates from what is usual


@dataclass(frozen=True)
class FactLines(Lines):
    """Facts, a name and a value each, or a sign and a sentence."""

    facts: Sequence[Fact]  # the facts

    @property
    def count(self) -> int:
        return len(self.facts)

    @cached_property
    def _name_cells(self) -> int:
        return min(_LABEL, max((cell_len(fact.name) for fact in self.facts), default=0))

    def cells(self, line: int, width: int) -> Cells:
        fact = self.facts[line]
        kind = "odd" if fact.odd else "leads" if fact.action else "value"
        room = 1 if len(fact.name) == 1 else self._name_cells + 1
        value = fitted(fact.value, max(1, width - room - 1)).rstrip()
        return [(f"{fitted(fact.name, room)} ", "good" if fact.name == "✓" else "count"), (value, kind)]

    def record(self, line: int) -> Mapping[str, object]:
        return {"name": self.facts[line].name, "value": self.facts[line].value}


class HistogramLines(Lines):
    """A histogram, a line with a bar for each interval."""

    @property
    @abstractmethod
    def counts(self) -> Sequence[int]:
        """Return the number of rows of each line."""

    @abstractmethod
    def interval(self, line: int) -> str:
        """Return the interval of a line in words."""

    @property
    def count(self) -> int:
        return len(self.counts)

    @property
    def fullest(self) -> int:
        """Return the line with the most rows."""
        return self.counts.index(max(self.counts)) if self.counts else 0

    @cached_property
    def _interval_cells(self) -> int:
        return max((len(self.interval(line)) for line in range(self.count)), default=0)

    def cells(self, line: int, width: int) -> Cells:
        count = self.counts[line]
        tail = f" {count:>9,} {percent(count / max(1, sum(self.counts))):>6}"
        room = max(4, width - self._interval_cells - 1 - len(tail))
        drawn = set_cell_size(bar(count / max(1, *self.counts), room), room)
        return [(f"{self.interval(line):>{self._interval_cells}} ", "name"), (drawn, "bar"), (tail, "count")]


@dataclass(frozen=True)
class LengthLines(HistogramLines):
    """The lengths of rows, a line for each interval; neighbors are joined, so that all fit."""

    lengths: Lengths  # the lengths
    row_name: str  # the noun for a row: "document", "sample", "row" or "record"
    most: int  # the number of lines at most

    @property
    def titles(self) -> Sequence[str]:
        lengths = self.lengths
        marks = (("p5", lengths.p5), ("p50", lengths.p50), ("p95", lengths.p95), ("max", lengths.max))
        known = [f"{name} {value:,}" for name, value in marks if value is not None]
        begins = f"lengths, {lengths.unit}", "lengths"
        tries = [(begins[0], known), (begins[1], known), (begins[1], known[:3])]  # the longest is a fact beside it
        return [*(" · ".join((begin, *some)) for begin, some in tries), " · ".join(known[:3]) or begins[1]]

    @cached_property
    def _edges(self) -> list[int]:
        """The bounds of the intervals: those of the histogram, every second or third one if there are too many."""
        edges = self.lengths.histogram.edges
        step = -(-(len(edges) - 1) // self.most)
        return [*edges[:-1:step], edges[-1]] if step > 1 else edges

    @cached_property
    def counts(self) -> Sequence[int]:
        edges, counts = self.lengths.histogram.edges, self.lengths.histogram.counts
        bounds = [edges.index(edge) for edge in self._edges]
        return [sum(counts[a:b]) for a, b in pairwise(bounds)]

    def interval(self, line: int) -> str:
        low, high = self._edges[line : line + 2]
        return f"{low:,}" if high == low + 1 else f"{low:,}–{high - 1:,}"  # noqa: RUF001

    def query(self, lines: Sequence[int]) -> str:
        return f"{self._edges[min(lines)]}<=len<{self._edges[max(lines) + 1]}"

    def record(self, line: int) -> Mapping[str, object]:
        low, high = self._edges[line : line + 2]
        return {"low": low, "high": high, f"{self.row_name}s": self.counts[line]}


@dataclass(frozen=True, eq=False)
class TokenLines(Lines):
    """IDs by their frequency."""

    ranked: RankedIds  # the IDs
    total: int  # the number of all tokens, or rows, that are counted
    style: TokenStyle  # the interpretation of the IDs
    word: str  # the word of a query for one ID: "token", "first", "last"

    @property
    def count(self) -> int:
        return len(self.ranked.ids)

    @cached_property
    def _name_cells(self) -> int:
        return len(str(int(self.ranked.ids.max()))) if self.count else 0

    def _at(self, line: int) -> tuple[int, int]:
        return int(self.ranked.ids[line]), int(self.ranked.counts[line])

    @cached_property
    def _at_most(self) -> int:
        return max(1, int(self.ranked.counts.max()))

    def cells(self, line: int, width: int) -> Cells:
        token, count = self._at(line)
        spelled = spelling(self.style, token)[1]
        share = count / max(1, self.total)
        tail = f" {short(count):>7} {percent(share):>6} " if count else ""
        room = width - self._name_cells - 1 - len(tail)
        drawn = "" if room < _TEXT + _BAR or not count else bar(count / self._at_most, room - _TEXT)
        text = set_cell_size(f"“{spelled}”" if spelled else "", max(0, _TEXT if drawn else room))
        return [(f"{token:>{self._name_cells}} ", "name"), (text, "text"), (tail, "count"), (drawn, "bar")]

    def query(self, lines: Sequence[int]) -> str:
        ids = sorted(token for token, count in map(self._at, lines) if count)
        if not ids:
            return ""
        word = "any" if self.word == "token" and len(ids) > 1 else self.word
        return f"{word}:{','.join(map(str, ids))}"

    def record(self, line: int) -> Mapping[str, object]:
        token, count = self._at(line)
        text = {} if self.style.decoder is None else {"text": spelling(self.style, token)[1] or ""}
        return {"id": token, "count": count, "share": count / max(1, self.total), **text}


@dataclass(frozen=True, eq=False)
class GroupLines(Lines):
    """Groups of equal rows, by their number of rows."""

    row_name: str  # the noun for a row
    ranked: Groups  # the groups
    port: RowSource | None  # the rows; None if they are not known yet
    style: TokenStyle  # the interpretation of their units

    @property
    def titles(self) -> Sequence[str]:
        groups, total = len(self.ranked), self.ranked.total
        of = f"{groups:,} of {counted(total, 'group')}" if total > groups else counted(groups, "group")
        return (f"repeated {self.row_name}s · {of}",)

    @property
    def count(self) -> int:
        return len(self.ranked)

    @cached_property
    def _first(self) -> NDArray[np.int64]:
        return self.ranked.first

    def _text(self, row: int) -> str:
        piece = None if self.port is None else self.port.peek(row, 0, HEAD)
        if piece is None:
            return "" if self.port is None else "…"
        if isinstance(piece, Damage):
            return f"✗ {piece.why}"
        return f"“{''.join(text for text, _, _ in words_of(piece, self.style, _WORDS))}”"

    @cached_property
    def _cells(self) -> tuple[int, int]:
        return len(f"{int(self.ranked.counts.max()):,}×"), len(f"#{int(self._first.max()):,}")  # noqa: RUF001

    def cells(self, line: int, width: int) -> Cells:  # noqa: ARG002 - the text is cut by the table
        (times, number), row = self._cells, int(self._first[line])
        start, stop = self.ranked.offsets[line : line + 2].tolist()
        count = f"{stop - start:,}×"  # noqa: RUF001
        return [(f"{count:>{times}} ", "count"), (f"{f'#{row:,}':<{number}} ", "name"), (self._text(row), "text")]

    def missing(self, lines: range) -> list[int]:
        port, rows = self.port, self._first[lines.start : lines.stop].tolist()
        return [] if port is None else [row for row in rows if row < port.count and port.peek(row, 0, HEAD) is None]

    def load(self, rows: Sequence[int]) -> None:
        if self.port is not None:
            for row in rows:
                self.port.load_spans(row, row + 1)
                self.port.load(row, 0, HEAD)

    def query(self, lines: Sequence[int]) -> str:
        return f"same:{','.join(map(str, sorted(self._first[list(lines)].tolist())))}"

    def record(self, line: int) -> Mapping[str, object]:
        start, stop = self.ranked.offsets[line : line + 2].tolist()
        members = self.ranked.members[start:stop].tolist()
        length = int(self.ranked.lengths[line])
        return {"sequence": members[0], "count": stop - start, "length": length, "sequences": members}


# findings

SEVERITIES = {"error": "✗", "warning": "▲", "info": "·"}
"""The mark of each severity, the worst first."""
