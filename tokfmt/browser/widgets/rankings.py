"""Rankings of the tab of statistics: IDs by frequency, and groups of equal rows that open to their members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from tokfmt.browser.layout import HEAD, TokenStyle, words_of
from tokfmt.browser.rows import Damage, RowSource
from tokfmt.browser.widgets.reader import spelling
from tokfmt.browser.widgets.row_view import DragsRange, RowView
from tokfmt.commands.stats.lists import RankedGroups, RankedIds
from tokfmt.wording import bar, counted, short

MOST_CHOSEN = 1000
"""Limit of lines that are listed together."""

_BAR = 8
_WORDS = 200  # cells of the beginning of a row


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a ranking.

    Attributes:
        name: The ID, or the row.
        count: Its count.
        share: Its share of all, 0 to 1.
        text: Its text; None if it is not loaded.
    """

    name: str
    count: int
    share: float
    text: str | None


class Ranked(Protocol):
    """The lines of a ranking."""

    @property
    def title(self) -> str:
        """Return the title."""

    @property
    def bars(self) -> bool:
        """Return whether the lines have bars of their shares."""

    @property
    def count(self) -> int:
        """Return the number of lines."""

    @property
    def name_cells(self) -> int:
        """Return the width of the longest name."""

    @property
    def largest(self) -> float:
        """Return the largest share, for the bars."""

    def line(self, number: int) -> Line:
        """Return a line, from loaded data only."""

    def missing(self, lines: range) -> list[int]:
        """Return the rows of lines whose text is not loaded."""

    def load(self, rows: Sequence[int]) -> None:
        """Load the text of rows. For a worker."""

    def words(self, lines: range) -> str:
        """Return the query for the rows of some lines."""

    def record(self, number: int) -> Mapping[str, object]:
        """Return a line for an export."""


@dataclass(frozen=True, eq=False)
class TokenLines:
    """IDs by their frequency.

    Attributes:
        title: The title.
        ranked: The IDs.
        total: The number of all tokens, or rows, that are counted.
        style: The interpretation of the IDs.
        query: The word of a query for one ID: "token", "first", "last".
        rarest_first: The lines begin with the least frequent IDs, and have no bars.
    """

    title: str
    ranked: RankedIds
    total: int
    style: TokenStyle
    query: str
    rarest_first: bool = False

    @property
    def bars(self) -> bool:
        return not self.rarest_first

    @property
    def count(self) -> int:
        return len(self.ranked.ids)

    @cached_property
    def name_cells(self) -> int:
        return len(str(int(self.ranked.ids.max()))) if self.count else 0

    @property
    def largest(self) -> float:
        return int(self.ranked.counts[0]) / max(1, self.total) if self.count else 0

    def _at(self, number: int) -> tuple[int, int]:
        ids, counts = self.ranked.ids, self.ranked.counts
        at = number
        if self.rarest_first:  # equally frequent IDs keep their order
            rising = self._rising
            first, last = (int(np.searchsorted(rising, rising[number], side)) for side in ("left", "right"))
            at = self.count - last + number - first
        return int(ids[at]), int(counts[at])

    @cached_property
    def _rising(self) -> NDArray[np.int64]:
        return np.ascontiguousarray(self.ranked.counts[::-1])

    def line(self, number: int) -> Line:
        token, count = self._at(number)
        return Line(str(token), count, count / max(1, self.total), spelling(self.style, token)[1] or "")

    def missing(self, lines: range) -> list[int]:  # noqa: ARG002 - texts of IDs need no reading
        return []

    def load(self, rows: Sequence[int]) -> None:
        pass

    def words(self, lines: range) -> str:
        ids = sorted(self._at(number)[0] for number in lines)
        word = "any" if self.query == "token" and len(ids) > 1 else self.query
        return f"{word}:{','.join(map(str, ids))}"

    def record(self, number: int) -> Mapping[str, object]:
        line = self.line(number)
        text = {} if self.style.decoder is None else {"text": line.text}
        return {"id": int(line.name), "count": line.count, "share": line.share, **text}


@dataclass(frozen=True, eq=False)
class GroupLines:
    """Groups of equal rows, by their number of rows.

    Attributes:
        title: The title.
        ranked: The groups.
        total: The number of all rows.
        port: The rows; None if they are not known yet.
        style: The interpretation of their units.
    """

    title: str
    ranked: RankedGroups
    total: int
    port: RowSource | None
    style: TokenStyle

    @property
    def bars(self) -> bool:
        return True

    @property
    def count(self) -> int:
        return len(self.ranked.numbers)

    @cached_property
    def name_cells(self) -> int:
        return len(f"#{int(self.ranked.numbers.max()):,}") if self.count else 0

    @property
    def largest(self) -> float:
        return int(self.ranked.counts[0]) / max(1, self.total) if self.count else 0

    def row(self, number: int) -> int:
        """Return the first row of a group."""
        return int(self.ranked.numbers[number])

    def line(self, number: int) -> Line:
        row, count = self.row(number), int(self.ranked.counts[number])
        piece = None if self.port is None else self.port.peek(row, 0, HEAD)
        if piece is None:
            text = None if self.port is not None else ""
        elif isinstance(piece, Damage):
            text = f"✗ {piece.why}"
        else:
            text = "".join(text for text, _, _ in words_of(piece, self.style, _WORDS))
        return Line(f"#{row:,}", count, count / max(1, self.total), text)

    def missing(self, lines: range) -> list[int]:
        port, rows = self.port, map(self.row, lines)
        return [] if port is None else [row for row in rows if row < port.count and port.peek(row, 0, HEAD) is None]

    def load(self, rows: Sequence[int]) -> None:
        if self.port is not None:
            for row in rows:
                self.port.load_spans(row, row + 1)
                self.port.load(row, 0, HEAD)

    def words(self, lines: range) -> str:
        return f"same:{','.join(str(row) for row in sorted(map(self.row, lines)))}"

    def record(self, number: int) -> Mapping[str, object]:
        counts, lengths = self.ranked.counts, self.ranked.lengths
        return {"sequence": self.row(number), "count": int(counts[number]), "length": int(lengths[number])}


class Ranking(DragsRange, RowView):
    """A list of lines with name, count, share, bar and text; the cursor chooses a line, or a range of lines.

    Attributes:
        ranked: The lines; None for none.
        range_from: The other end of a chosen range; None without one.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"ranking--{part}" for part in ("name", "count", "bar", "text", "cursor", "cursor-blurred")
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "List"),
        Binding("g", "to(0)", "First", system=True),
        Binding("shift+down", "extend(1)", "Choose a range", system=True),
        Binding("shift+up", "extend(-1)", "Choose a range", system=True),
    ]

    class Chosen(Message):
        """The user wants the rows that a query finds, and the cursor on one of them."""

        def __init__(self, words: str, row: int | None = None) -> None:
            super().__init__()
            self.words, self.row = words, row

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id, classes="ranking")
        self.ranked: Ranked | None = None
        self.range_from: int | None = None

    def show(self, ranked: Ranked | None) -> None:
        """Show lines; the widget is hidden for None or no lines."""
        self.set_class(ranked is None or not ranked.count, "empty")
        before, self.ranked = self.ranked, ranked
        if before is None or ranked is None or before.count != ranked.count:
            self.cursor, self.range_from = 0, None
        self.loader.forget()
        self.retitle()
        self.point_at(self.cursor)

    def retitle(self) -> None:
        """Update the titles."""
        ranked = self.ranked
        if ranked is not None:
            self.border_title = f"{ranked.title} · {ranked.count:,}"
            chosen = f"{len(self.chosen):,} chosen" if self.range_from is not None else ""
            self.border_subtitle = chosen

    @property
    def count(self) -> int:
        return self.ranked.count if self.ranked is not None else 0

    def fetch(self) -> None:
        ranked = self.ranked
        missing = ranked.missing(self.seen) if ranked is not None else []
        if ranked is not None and missing:
            self.loader.ask(lambda: ranked.load(missing), lambda _: self.refresh())

    # choosing

    @property
    def chosen(self) -> range:
        """Return the chosen lines: that of the cursor, or a range."""
        other = self.cursor if self.range_from is None else self.range_from
        return range(min(self.cursor, other), max(self.cursor, other) + 1)

    def action_extend(self, step: int) -> None:
        self._extend_to(self.cursor + step)

    def _extend_to(self, line: int) -> None:
        self.choose_range(self.cursor if self.range_from is None else self.range_from, line)

    def number_at(self, event: events.MouseEvent) -> int | None:
        line = self.top + event.get_content_offset_capture(self).y
        return max(0, min(line, self.count - 1)) if self.count else None

    def choose_range(self, begun: int, end: int) -> None:
        self.choose(end)
        self.range_from = begun
        self.retitle()
        self.refresh()

    def moved(self) -> None:
        if self.range_from is not None:
            self.range_from = None
            self.retitle()
            self.refresh()

    def on_click(self, event: events.Click) -> None:
        inside = event.get_content_offset(self)
        if event.shift and inside is not None and self.top + inside.y < self.count:
            event.prevent_default()
            self._extend_to(self.top + inside.y)

    def clicked(self, column: int, times: int) -> None:  # noqa: ARG002 - anywhere on the line
        if times > 1:
            self.action_choose()

    def action_choose(self) -> None:
        ranked, chosen = self.ranked, self.chosen
        if ranked is None or not self.count:
            return
        if len(chosen) > MOST_CHOSEN:
            self.notify(f"At most {MOST_CHOSEN:,} lines can be listed together.", severity="warning")
            return
        self.post_message(self.Chosen(ranked.words(chosen)))

    def records(self) -> Iterator[Mapping[str, object]]:
        """Return the chosen lines for an export; all of them without a chosen range."""
        ranked = self.ranked
        if ranked is None:
            return iter(())
        return map(ranked.record, range(ranked.count) if self.range_from is None else self.chosen)

    # drawing

    def draw(self, line: int) -> list[Segment]:
        return self._line_of(line, "", line in self.chosen)

    def _line_of(self, number: int, mark: str, chosen: bool) -> list[Segment]:
        """Return the segments of a line of the ranking, with a mark before it."""
        ranked = self.ranked
        if ranked is None:
            return []
        line = ranked.line(number)
        cells = [
            (f"{mark}{line.name:>{ranked.name_cells}} ", "name"),
            (f"{short(line.count):>7} {_percent(line.share):>6} ", "count"),
        ]
        if ranked.bars:
            cells.append((set_cell_size(bar(line.share / (ranked.largest or 1), _BAR), _BAR), "bar"))
        cells.append((" …" if line.text is None else f" “{line.text}”" if line.text else "", "text"))
        return self._segments(cells, chosen)

    def _segments(self, cells: Sequence[tuple[str, str]], chosen: bool) -> list[Segment]:
        blurred = [] if self.range_from is None else ["ranking--cursor-blurred"]  # several cursors would be confusing
        cursor = [] if not chosen else ["ranking--cursor"] if self.has_focus else blurred
        rest = max(0, self.columns - sum(cell_len(text) for text, _ in cells))
        return [
            Segment(text, self.get_component_rich_style(f"ranking--{kind}", *cursor))
            for text, kind in (*cells, (" " * rest, "text"))
            if text
        ]


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.001 or not share else "<0.1%"


Numbers = NDArray[np.int64]


class GroupRanking(Ranking):
    """A ranking of groups, of which one at a time is open and lists its members below it.

    Attributes:
        open: The number of the open group; None without one.
        members: The rows of the open group that are found so far.
        finding: The search for members is running.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "open", "Members"),
        Binding("left,h", "close", "Close a group", system=True),
    ]

    class Opened(Message):
        """The user opened the group that begins with a row, or closed it (None)."""

        def __init__(self, row: int | None) -> None:
            super().__init__()
            self.row = row

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self.open: int | None = None
        self.members: Numbers = np.empty(0, np.int64)
        self.finding = False

    def show(self, ranked: Ranked | None) -> None:
        if ranked is None or self.ranked is None or ranked.count != self.ranked.count:
            self._close()
        super().show(ranked)

    def retitle(self) -> None:
        super().retitle()
        ranked = self.ranked
        if isinstance(ranked, GroupLines) and ranked.ranked.total > ranked.count:
            self.border_title = f"{ranked.title} · {ranked.count:,} of {ranked.ranked.total:,} groups"
        elif ranked is not None:
            self.border_title = f"{ranked.title} · {counted(ranked.count, 'group')}"

    @property
    def count(self) -> int:
        return super().count + len(self.members)

    def group_at(self, line: int) -> tuple[int, int | None]:
        """Return the group of a line, and the number of the member if the line is one."""
        if self.open is None or line <= self.open:
            return line, None
        inside = line - self.open - 1
        return (self.open, inside) if inside < len(self.members) else (line - len(self.members), None)

    def fetch(self) -> None:
        ranked, seen = self.ranked, self.seen
        if ranked is not None and seen:
            groups = range(self.group_at(seen[0])[0], self.group_at(seen[-1])[0] + 1)
            missing = ranked.missing(groups)
            if missing:
                self.loader.ask(lambda: ranked.load(missing), lambda _: self.refresh())

    # opening

    def action_open(self) -> None:
        ranked, group = self.ranked, self.group_at(self.cursor)[0]
        if not isinstance(ranked, GroupLines) or not ranked.count or self.open == group:
            return
        if ranked.port is None:
            self.notify("The documents are not known yet. v in the tab of sequences finds them.")
        else:
            self._close()
            self.open, self.finding, self.range_from = group, True, None
            self.point_at(group)
            self.post_message(self.Opened(ranked.row(group)))

    def action_close(self) -> None:
        if self.open is not None:
            group = self.open
            self._close()
            self.point_at(group)
            self.post_message(self.Opened(None))

    def _close(self) -> None:
        self.open, self.finding, self.members = None, False, np.empty(0, np.int64)

    def show_members(self, rows: Numbers, *, finding: bool) -> None:
        """Show the members of the open group that are found so far."""
        if self.open is not None:
            line = self.cursor
            _, member = self.group_at(line)
            moved = 0 if member is not None or line <= self.open else len(rows) - len(self.members)
            self.members, self.finding = rows, finding
            self.point_at(line + moved)

    # choosing

    def action_choose(self) -> None:
        ranked, chosen = self.ranked, self.chosen
        if not isinstance(ranked, GroupLines) or not self.count:
            return
        groups = sorted({self.group_at(line)[0] for line in chosen})
        member = self.group_at(self.cursor)[1]
        if len(groups) > MOST_CHOSEN:
            self.notify(f"At most {MOST_CHOSEN:,} groups can be listed together.", severity="warning")
        elif member is not None and len(groups) == 1:
            self.post_message(self.Chosen(ranked.words(range(groups[0], groups[0] + 1)), int(self.members[member])))
        else:
            self.post_message(self.Chosen(ranked.words(range(groups[0], groups[-1] + 1))))

    def clicked(self, column: int, times: int) -> None:
        if times == 1 and column < len(_CLOSED) and self.group_at(self.cursor)[1] is None:
            if self.open == self.group_at(self.cursor)[0]:
                self.action_close()
            else:
                self.action_open()
        super().clicked(column, times)

    def records(self) -> Iterator[Mapping[str, object]]:
        ranked, opened, members = self.ranked, self.open, self.members.tolist()
        if ranked is None:
            return iter(())
        groups = sorted({self.group_at(line)[0] for line in self.chosen})

        def record(group: int) -> Mapping[str, object]:
            known = {"sequences": members} if group == opened and not self.finding else {}
            return {**ranked.record(group), **known}

        return map(record, range(ranked.count) if self.range_from is None else groups)

    # drawing

    def draw(self, line: int) -> list[Segment]:
        group, member = self.group_at(line)
        chosen = line in self.chosen
        if member is not None:
            return self._segments([(f"{'':{_INDENT}}#{int(self.members[member]):,}", "name")], chosen)
        mark = _CLOSED if group != self.open else _FINDING if self.finding else _OPEN
        return self._line_of(group, mark, chosen)


_CLOSED, _FINDING, _OPEN = "▸ ", "◌ ", "▾ "
_INDENT = 4
