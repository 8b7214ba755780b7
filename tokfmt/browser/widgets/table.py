"""The table of the overview: lines of any number, from a model, of which the cursor chooses one or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from tokfmt.browser.data import Lengths, RankedGroups, RankedIds
from tokfmt.browser.layout import HEAD, TokenStyle, words_of
from tokfmt.browser.packing import FillHistogram
from tokfmt.browser.rows import Damage, RowSource
from tokfmt.browser.widgets.outline import fitted
from tokfmt.browser.widgets.reader import spelling
from tokfmt.browser.widgets.row_view import DragsRange, RowView
from tokfmt.wording import bar, counted, percent, short

MOST_CHOSEN = 1000
"""Limit of lines that are listed together."""

_BAR = 8
_LABEL = 15  # cells of the name of a fact at most
_WORDS = 200  # cells of the beginning of a row

Cells = list[tuple[str, str]]
"""The parts of a line: text, and the name of its style."""


class Lines(Protocol):
    """The model of a table."""

    @property
    def title(self) -> str:
        """Return the title."""

    @property
    def count(self) -> int:
        """Return the number of lines."""

    def cells(self, line: int, width: int) -> Cells:
        """Return the parts of a line, from loaded data only."""

    def missing(self, lines: range) -> list[int]:
        """Return the rows of lines whose text is not loaded."""

    def load(self, rows: Sequence[int]) -> None:
        """Load the text of rows. For a worker."""

    def query(self, lines: Sequence[int]) -> str:
        """Return the query for the rows of some lines; "" if they lead to none."""

    def record(self, line: int) -> Mapping[str, object]:
        """Return a line for an export."""


class Loaded:
    """A model whose lines need no reading."""

    def missing(self, lines: range) -> list[int]:  # noqa: ARG002 - nothing is
        return []

    def load(self, rows: Sequence[int]) -> None:
        pass


class Fact(NamedTuple):
    """A fact.

    Attributes:
        name: Its name; "" for a heading.
        value: Its value.
        action: The action of the tab that leads on; "" for none.
        odd: It deviates from what is usual.
    """

    name: str
    value: str
    action: str = ""
    odd: bool = False


@dataclass(frozen=True)
class FactLines(Loaded):
    """Facts, with their names on the right and their values on the left.

    Attributes:
        facts: The facts and headings.
    """

    facts: Sequence[Fact]
    title: str = ""

    @property
    def count(self) -> int:
        return len(self.facts)

    @cached_property
    def _name_cells(self) -> int:
        return min(_LABEL, max((cell_len(fact.name) for fact in self.facts), default=0))

    def cells(self, line: int, width: int) -> Cells:
        fact = self.facts[line]
        if not fact.name:
            return [(fact.value, "heading")]
        kind = "odd" if fact.odd else "leads" if fact.action else "value"
        name = fitted(fact.name, self._name_cells).strip()
        return [
            (f"{' ' * (self._name_cells - cell_len(name))}{name}  ", "count"),
            (fitted(fact.value, max(1, width - self._name_cells - 2)).rstrip(), kind),
        ]

    def query(self, lines: Sequence[int]) -> str:  # noqa: ARG002 - actions lead on
        return ""

    def record(self, line: int) -> Mapping[str, object]:
        return {"name": self.facts[line].name, "value": self.facts[line].value}


@dataclass(frozen=True)
class LengthLines(Loaded):
    """The lengths of rows, a line for each interval.

    Attributes:
        lengths: The lengths.
        row_name: The noun for a row: "sample" or "sequence".
    """

    lengths: Lengths
    row_name: str

    @property
    def title(self) -> str:
        found = self.lengths
        marks = (("p5", found.p5), ("p50", found.p50), ("p95", found.p95), ("max", found.max))
        return f"lengths, {found.unit} · " + " · ".join(
            f"{name} {value:,}" for name, value in marks if value is not None
        )

    @property
    def count(self) -> int:
        return len(self.lengths.histogram.counts)

    @property
    def fullest(self) -> int:
        """Return the line with the most rows."""
        counts = self.lengths.histogram.counts
        return counts.index(max(counts)) if counts else 0

    @cached_property
    def _total(self) -> int:
        return max(1, sum(self.lengths.histogram.counts))

    def _interval(self, line: int) -> str:
        low, high = self.lengths.histogram.edges[line : line + 2]
        return f"{low:,}" if high == low + 1 else f"{low:,}–{high - 1:,}"  # noqa: RUF001

    @cached_property
    def _name_cells(self) -> int:
        return max((len(self._interval(line)) for line in range(self.count)), default=0)

    def cells(self, line: int, width: int) -> Cells:
        counts = self.lengths.histogram.counts
        tail = f" {counts[line]:>9,} {percent(counts[line] / self._total):>6}"
        room = max(4, width - self._name_cells - 1 - len(tail))
        drawn = set_cell_size(bar(counts[line] / max(1, *counts), room), room)
        return [(f"{self._interval(line):>{self._name_cells}} ", "name"), (drawn, "bar"), (tail, "count")]

    def query(self, lines: Sequence[int]) -> str:
        edges = self.lengths.histogram.edges
        return f"{edges[min(lines)]}<=len<{edges[max(lines) + 1]}"

    def record(self, line: int) -> Mapping[str, object]:
        low, high = self.lengths.histogram.edges[line : line + 2]
        return {"low": low, "high": high, f"{self.row_name}s": self.lengths.histogram.counts[line]}


@dataclass(frozen=True)
class FillLines(Loaded):
    """The fill of samples, a line for each interval.

    Attributes:
        histogram: The histogram.
    """

    histogram: FillHistogram

    @property
    def title(self) -> str:
        fills = self.histogram.fills
        positions = fills.length * len(fills.filled)
        return f"samples by fill · {percent(1 - int(fills.filled.sum()) / (positions or 1))} padding"

    @property
    def count(self) -> int:
        return len(self.histogram.counts)

    @property
    def fullest(self) -> int:
        """Return the line with the most samples."""
        counts = self.histogram.counts
        return counts.index(max(counts))

    def cells(self, line: int, width: int) -> Cells:
        counts = self.histogram.counts
        tail = f" {counts[line]:>9,} {percent(counts[line] / max(1, sum(counts))):>6}"
        room = max(4, width - 9 - len(tail))
        drawn = set_cell_size(bar(counts[line] / max(1, *counts), room), room)
        return [(f"{self.histogram.name(line):>8} ", "name"), (drawn, "bar"), (tail, "count")]

    def query(self, lines: Sequence[int]) -> str:
        return self.histogram.query(min(lines), max(lines))

    def record(self, line: int) -> Mapping[str, object]:
        return {"fill": self.histogram.name(line), "samples": self.histogram.counts[line]}


@dataclass(frozen=True, eq=False)
class TokenLines(Loaded):
    """IDs by their frequency.

    Attributes:
        title: The title.
        ranked: The IDs.
        total: The number of all tokens, or rows, that are counted.
        style: The interpretation of the IDs.
        word: The word of a query for one ID: "token", "first", "last".
        rarest_first: The lines begin with the least frequent IDs.
    """

    title: str
    ranked: RankedIds
    total: int
    style: TokenStyle
    word: str
    rarest_first: bool = False

    @property
    def count(self) -> int:
        return len(self.ranked.ids)

    @cached_property
    def _name_cells(self) -> int:
        return len(str(int(self.ranked.ids.max()))) if self.count else 0

    def _at(self, line: int) -> tuple[int, int]:
        ids, counts = self.ranked.ids, self.ranked.counts
        at = line
        if self.rarest_first:  # equally frequent IDs keep their order
            rising = self._rising
            first, last = (int(np.searchsorted(rising, rising[line], side)) for side in ("left", "right"))
            at = self.count - last + line - first
        return int(ids[at]), int(counts[at])

    @cached_property
    def _rising(self) -> NDArray[np.int64]:
        return np.ascontiguousarray(self.ranked.counts[::-1])

    def cells(self, line: int, width: int) -> Cells:
        token, count = self._at(line)
        share, largest = count / max(1, self.total), int(self.ranked.counts[0]) / max(1, self.total)
        spelled = spelling(self.style, token)[1]
        tail = f" {short(count):>7} {percent(share):>6} "
        room = max(0, width - self._name_cells - 1 - len(tail))
        bars = _BAR if room >= 2 * _BAR else 0  # of two facts and a bar, the text leaves out the bar first
        room -= bars
        text = f"“{spelled}”" if spelled else ""
        text = set_cell_size(text, room) if cell_len(text) > room else text + " " * (room - cell_len(text))
        drawn = set_cell_size(bar(share / (largest or 1), bars), bars) if bars else ""
        return [(f"{token:>{self._name_cells}} ", "name"), (text, "text"), (tail, "count"), (drawn, "bar")]

    def query(self, lines: Sequence[int]) -> str:
        ids = sorted(self._at(line)[0] for line in lines)
        word = "any" if self.word == "token" and len(ids) > 1 else self.word
        return f"{word}:{','.join(map(str, ids))}"

    def record(self, line: int) -> Mapping[str, object]:
        token, count = self._at(line)
        text = {} if self.style.decoder is None else {"text": spelling(self.style, token)[1] or ""}
        return {"id": token, "count": count, "share": count / max(1, self.total), **text}


@dataclass(eq=False)
class GroupLines:
    """Groups of equal rows, by their number of rows. One at a time is open, with its rows below it.

    Attributes:
        row_name: The noun for a row.
        ranked: The groups.
        port: The rows; None if they are not known yet.
        style: The interpretation of their units.
        opened: The number of the open group; None without one.
        members: The rows of the open group that are found so far.
        finding: The search for members is running.
    """

    row_name: str
    ranked: RankedGroups
    port: RowSource | None
    style: TokenStyle
    opened: int | None = None
    members: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    finding: bool = False

    @property
    def title(self) -> str:
        groups, total = len(self.ranked.numbers), self.ranked.total
        of = f"{groups:,} of {counted(total, 'group')}" if total > groups else counted(groups, "group")
        return f"repeated {self.row_name}s · {of}"

    @property
    def count(self) -> int:
        return len(self.ranked.numbers) + len(self.members)

    def at(self, line: int) -> tuple[int, int | None]:
        """Return the group of a line, and the number of the member if the line is one."""
        if self.opened is None or line <= self.opened:
            return line, None
        inside = line - self.opened - 1
        return (self.opened, inside) if inside < len(self.members) else (line - len(self.members), None)

    def row(self, line: int) -> int:
        """Return the row of a line: of a member, or the first one of a group."""
        group, member = self.at(line)
        return int(self.ranked.numbers[group] if member is None else self.members[member])

    def _text(self, row: int) -> str:
        piece = None if self.port is None else self.port.peek(row, 0, HEAD)
        if piece is None:
            return "" if self.port is None else "…"
        if isinstance(piece, Damage):
            return f"✗ {piece.why}"
        return f"“{''.join(text for text, _, _ in words_of(piece, self.style, _WORDS))}”"

    @cached_property
    def _cells(self) -> tuple[int, int]:
        numbers, counts = self.ranked.numbers, self.ranked.counts
        return len(f"{int(counts.max()):,}×"), len(f"#{int(numbers.max()):,}")  # noqa: RUF001

    def cells(self, line: int, width: int) -> Cells:  # noqa: ARG002 - the text is cut by the table
        group, member = self.at(line)
        times, number = self._cells
        row = self.row(line)
        if member is not None:
            return [(f"  {'':{times}} #{row:<{number},} ", "name"), (self._text(row), "text")]
        mark = "▸ " if group != self.opened else "◌ " if self.finding else "▾ "
        count = f"{int(self.ranked.counts[group]):,}×"  # noqa: RUF001
        return [(f"{mark}{count:>{times}} ", "count"), (f"{f'#{row:,}':<{number}} ", "name"), (self._text(row), "text")]

    def missing(self, lines: range) -> list[int]:
        port, rows = self.port, map(self.row, lines)
        return [] if port is None else [row for row in rows if row < port.count and port.peek(row, 0, HEAD) is None]

    def load(self, rows: Sequence[int]) -> None:
        if self.port is not None:
            for row in rows:
                self.port.load_spans(row, row + 1)
                self.port.load(row, 0, HEAD)

    def query(self, lines: Sequence[int]) -> str:
        groups = sorted({self.at(line)[0] for line in lines})
        return f"same:{','.join(str(row) for row in sorted(int(self.ranked.numbers[group]) for group in groups))}"

    def record(self, line: int) -> Mapping[str, object]:
        group, _ = self.at(line)
        members = {"sequences": self.members.tolist()} if group == self.opened and not self.finding else {}
        counts, lengths = self.ranked.counts, self.ranked.lengths
        row = int(self.ranked.numbers[group])
        return {"sequence": row, "count": int(counts[group]), "length": int(lengths[group]), **members}


_PARTS = ("name", "count", "bar", "text", "value", "leads", "odd", "heading", "none", "cursor", "cursor-blurred")


class Table(DragsRange, RowView):
    """The lines of a model; space selects lines, and Enter opens them.

    Attributes:
        lines: The lines; None for none.
        nothing: Why there are none.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"table--{part}" for part in _PARTS}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "List"),
        Binding("g", "to(0)", "First", system=True),
    ]
    selects = True

    class Chosen(Message):
        """The user opens lines."""

        def __init__(self, table: Table, lines: list[int]) -> None:
            super().__init__()
            self.table, self.lines = table, lines

        @property
        def control(self) -> Table:
            """Return the table."""
            return self.table

    def __init__(self, id: str, title: str = "") -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id, classes="table")
        self.title = title  # without lines
        self.lines: Lines | None = None
        self.nothing = ""

    def show(self, lines: Lines | None, nothing: str = "", first: Callable[[], int] = lambda: 0) -> None:
        """Show lines, or why there are none, with the cursor on the first one if they are others."""
        before, self.lines, self.nothing = self.lines, lines, nothing
        if before is None or lines is None or before.count != lines.count:
            self.cursor = first() if lines is not None else 0
            self.selected.clear()
        self.loader.forget()
        self.selection_changed()
        self.point_at(self.cursor)

    @property
    def count(self) -> int:
        """Return the number of lines."""
        return self.lines.count if self.lines is not None else 0

    def fetch(self) -> None:
        lines, seen = self.lines, self.seen
        missing = lines.missing(seen) if lines is not None and seen else []
        if lines is not None and missing:
            self.loader.ask(lambda: lines.load(missing), lambda _: self.refresh())

    # choosing

    @property
    def chosen(self) -> list[int]:
        """Return the selected lines; that of the cursor if none is selected."""
        return sorted(self.selected) or ([self.cursor] if self.count else [])

    def selection_changed(self) -> None:
        """Show the number of selected lines."""
        self.border_title = self.lines.title if self.lines is not None else self.title
        self.border_subtitle = f"{len(self.selected):,} selected" if self.selected else ""
        self.refresh()

    def number_at(self, event: events.MouseEvent) -> int | None:
        line = self.top + event.get_content_offset_capture(self).y
        return max(0, min(line, self.count - 1)) if self.count else None

    def choose_range(self, begun: int, end: int) -> None:
        self.choose(end)
        self.selected = set(range(min(begun, end), max(begun, end) + 1))
        self.selection_changed()

    def clicked(self, column: int, times: int) -> None:  # noqa: ARG002 - anywhere on the line
        if times > 1:
            self.action_choose()

    def action_choose(self) -> None:
        chosen = self.chosen
        if len(chosen) > MOST_CHOSEN:
            self.notify(f"At most {MOST_CHOSEN:,} lines can be listed together.", severity="warning")
        elif chosen:
            self.post_message(self.Chosen(self, chosen))

    def records(self) -> Iterator[Mapping[str, object]]:
        """Return the selected lines for an export; all of them if none is selected."""
        lines = self.lines
        return iter(()) if lines is None else map(lines.record, sorted(self.selected) or range(lines.count))

    # drawing

    def draw(self, line: int) -> list[Segment]:
        if self.lines is None:
            return []
        chosen = line in self.selected or (line == self.cursor and self.has_focus)
        cursor = [] if not chosen else ["table--cursor" if self.has_focus else "table--cursor-blurred"]
        cells = self.lines.cells(line, self.columns)
        rest = max(0, self.columns - sum(cell_len(text) for text, _ in cells))
        return [
            Segment(text, self.get_component_rich_style(f"table--{kind}", *cursor))
            for text, kind in (*cells, (" " * rest, "text"))
            if text
        ]

    def render_line(self, y: int) -> Strip:
        if y == 0 and not self.count and self.nothing:
            return self.strip([Segment(self.nothing, self.get_component_rich_style("table--none"))])
        return super().render_line(y)


class TokenTable(Table):
    """IDs: the frequent ones, the rare ones, the first and the last ones of rows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "turn(1)", "Rare ones", tooltip="Turn to rare, first and last tokens"),
        Binding("left,h", "turn(-1)", "Turn back", system=True),
    ]

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self.choices: Mapping[str, Lines] = {}
        self.turned = ""

    def offer(self, choices: Mapping[str, Lines], nothing: str) -> None:
        """Show one of several rankings by its name."""
        self.choices = choices
        self.turned = self.turned if self.turned in choices else next(iter(choices), "")
        self.show(choices.get(self.turned), nothing)

    def selection_changed(self) -> None:
        super().selection_changed()
        others = (f"[reverse] {name} [/]" if name == self.turned else f" {name} " for name in self.choices)
        self.border_title = "".join(others) if self.choices else "tokens"

    def turn_to(self, name: str) -> None:
        """Show another ranking."""
        if name in self.choices:
            self.turned, self.cursor = name, 0
            self.selected.clear()
            self.show(self.choices[name])

    def action_turn(self, step: int) -> None:
        names = list(self.choices)
        if names:
            self.turn_to(names[(names.index(self.turned) + step) % len(names)])


class GroupTable(Table):
    """Groups of equal rows, which open to their members."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "open", "Members"),
        Binding("left,h", "close", "Close a group", system=True),
    ]

    class Opened(Message):
        """The user opened the group that begins with a row, or closed it (None)."""

        def __init__(self, row: int | None) -> None:
            super().__init__()
            self.row = row

    @property
    def groups(self) -> GroupLines | None:
        """Return the groups; None for none."""
        return self.lines if isinstance(self.lines, GroupLines) else None

    def action_open(self) -> None:
        groups = self.groups
        if groups is None or not groups.count:
            return
        group, _ = groups.at(self.cursor)
        if groups.port is None:
            self.notify("The documents are not known yet. v in the first tab finds them.")
        elif groups.opened != group:
            self._set(group)
            groups.finding = True
            self.post_message(self.Opened(groups.row(group)))

    def action_close(self) -> None:
        groups = self.groups
        if groups is not None and groups.opened is not None:
            self._set(None)
            self.post_message(self.Opened(None))

    def _set(self, group: int | None) -> None:
        """Open a group without its members, or close the open one."""
        groups = self.groups
        if groups is not None:
            line = groups.at(self.cursor)[0]
            groups.opened, groups.finding, groups.members = group, False, np.empty(0, np.int64)
            self.selected.clear()
            self.point_at(line)

    def show_members(self, rows: NDArray[np.int64], *, finding: bool) -> None:
        """Show the members of the open group that are found so far."""
        groups = self.groups
        if groups is not None and groups.opened is not None:
            line = self.cursor
            _, member = groups.at(line)
            moved = 0 if member is not None or line <= groups.opened else len(rows) - len(groups.members)
            groups.members, groups.finding = rows, finding
            self.point_at(line + moved)

    def clicked(self, column: int, times: int) -> None:
        groups = self.groups
        if groups is not None and times == 1 and column < 2 and groups.at(self.cursor)[1] is None:
            if groups.opened == groups.at(self.cursor)[0]:
                self.action_close()
            else:
                self.action_open()
        super().clicked(column, times)
