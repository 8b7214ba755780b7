"""Rows on the screen: the loader of shown rows, lists of any length, and the list of sequences.

A list draws its lines one by one, and is exact for up to 2^53 lines. The thread of a `Loader` is a daemon, unlike
Textual's workers, so that quitting never waits for a read. It does one request at a time and keeps only the last
request, so that rows scrolled past are not read. With `every`, it does all requests in order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollDown, ScrollUp
from textual.strip import Strip
from textual.widget import Widget

from tokfmt.browser import keys
from tokfmt.browser.data.layout import HEAD, Kind, TokenStyle, words_of
from tokfmt.browser.data.rows import Damage, RowSource, Span, Viewport
from tokfmt.browser.data.workers import said
from tokfmt.wording import bar, short

if TYPE_CHECKING:
    from tokfmt.browser.data.columns import Order, RowColumn
    from tokfmt.browser.data.excerpts import Excerpts
    from tokfmt.browser.data.search import SearchJob

Then = Callable[[Any], object]


class Loader:
    """A thread for a widget, started by the first request, that does the last request.

    Args:
        owner: The widget, in whose thread results are handled.
        every: Do all requests, in order.

    Attributes:
        generation: Number of calls of `forget`.
    """

    def __init__(self, owner: Widget, *, every: bool = False) -> None:
        self._owner, self._every = owner, every
        self._requests: deque[tuple[int, Callable[[], Any], Then]] = deque()
        self.generation = 0
        self._busy = self._closed = self._begun = False
        self._turn = 0
        self._changed = threading.Condition()

    def ask(self, work: Callable[[], Any], then: Then) -> None:
        """Do `work` next in the thread of the loader, then call `then` with its result in that of the owner."""
        with self._changed:
            if not self._every:
                self._requests.clear()
            self._requests.append((self.generation, work, then))
            begin, self._begun = not self._begun, True
            self._changed.notify()
        if begin:
            threading.Thread(target=self._run, args=(self._turn,), name="tokfmt-loader", daemon=True).start()

    def forget(self) -> None:
        """Drop all requests and the result of the current one."""
        with self._changed:
            self.generation += 1
            self._requests.clear()

    def leave(self) -> bool:
        """Drop all requests, and leave the current one to its thread: a store may not answer for long.

        Returns:
            True if there was one.
        """
        with self._changed:
            left = not self.idle
            self.generation += 1
            self._requests.clear()
            self._turn += 1
            self._busy = self._begun = False
            self._changed.notify_all()
        return left

    def close(self) -> None:
        """End the thread after its current request."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    @property
    def idle(self) -> bool:
        """Return whether no request is running or waiting."""
        return not self._requests and not self._busy

    def _run(self, turn: int) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._requests or self._closed or self._turn != turn)
                if self._closed or self._turn != turn:
                    return
                self._busy = True
                generation, work, then = self._requests.popleft()
            try:
                result: Any = work()
            except Exception as error:  # noqa: BLE001 - a plug-in's bug must not end the browser
                result, then = error, self._failed
            self._owner.call_later(self._deliver, generation, then, result)
            with self._changed:
                self._busy = self._busy and self._turn != turn

    def _deliver(self, generation: int, then: Then, result: object) -> None:
        if generation == self.generation:
            then(result)

    def _failed(self, error: Exception) -> None:
        self._owner.notify(said(error), severity="error", markup=False)


class WithLoader(Widget):
    """A widget with a loader, for widgets that read."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.loader = Loader(self)

    def on_unmount(self) -> None:
        self.loader.close()

    def action_pages(self, pages: int) -> None:
        """Move by a number of screens."""

    def on_scroll_down(self, message: ScrollDown) -> None:
        """Go one screen down after a click below the thumb of the scrollbar."""
        message.prevent_default().stop()
        self.action_pages(1)

    def on_scroll_up(self, message: ScrollUp) -> None:
        message.prevent_default().stop()
        self.action_pages(-1)


class Leaping(Message):
    """A key goes to an end of a list or a row.

    Attributes:
        token: The token that the cursor leaves; None in a list.
    """

    def __init__(self, token: int | None = None) -> None:
        super().__init__()
        self.token = token


_MOST_SELECTED = 1 << 16  # lines in one range


class RowView(WithLoader, ScrollView, can_focus=True):
    """A list of any number of lines; subclasses define their number and draw them.

    The first `head` lines on the screen are not lines of the list; a subclass draws them in `render_line`.
    """

    BINDINGS = keys.LINES

    head = 0
    cursor = 0
    selects = False
    """Lines can be selected; without, Space turns the page."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.selected: set[int] = set()  # what `name_of` returns of lines
        self._anchor: int | None = None  # the line where a range begins

    # for subclasses

    @property
    def count(self) -> int:
        """Return the number of lines."""
        return 0

    def draw(self, line: int) -> list[Segment]:  # noqa: ARG002 - subclasses draw it
        """Return the segments of a line, from loaded data only."""
        return []

    def fetch(self) -> None:
        """Request the shown lines that are not loaded."""

    def moved(self) -> None:
        """Handle a move of the cursor to another line."""

    def clicked(self, column: int, times: int) -> None:
        """Handle a click on the line under the cursor.

        Args:
            column: Column of the click.
            times: 1 for a single click, 2 for a double click.
        """

    def name_of(self, line: int) -> int:
        """Return what a selected line is known by: its number, unless that changes with what is listed."""
        return line

    def selection_changed(self) -> None:
        """Handle a change of the selected lines."""

    # selecting

    def action_select(self) -> None:
        """Select the line under the cursor, or not any more, and go to the next one."""
        if not self.selects:
            self.action_pages(1)
        elif self.count:
            self.selected ^= {self.name_of(self.cursor)}
            self._anchor = None
            self.action_by(1)
            self.selection_changed()

    def action_extend(self, step: int) -> None:
        """Select all lines from where the cursor was to the next one."""
        self.extend_to(self.cursor + step)

    def extend_to(self, line: int) -> None:
        """Select all lines from where the cursor was to another one."""
        if self.selects and self.count:
            anchor = self.cursor if self._anchor is None else self._anchor
            before = range(min(anchor, self.cursor), max(anchor, self.cursor) + 1)
            self.selected -= {self.name_of(one) for one in before}
            self.choose(line)
            self._anchor = anchor
            low, high = sorted((anchor, self.cursor))
            self.selected |= {self.name_of(one) for one in range(low, min(high, low + _MOST_SELECTED) + 1)}
            self.selection_changed()

    # moves

    @property
    def top(self) -> int:
        """Return the first line on the screen."""
        return self.scroll_offset.y

    @property
    def height(self) -> int:
        """Return the number of lines on the screen."""
        return max(1, self.size.height - self.head)

    @property
    def columns(self) -> int:
        """Return the cells of a line without the scrollbar."""
        return max(1, self.size.width - 1)

    @property
    def seen(self) -> range:
        """Return the lines on the screen."""
        return range(self.top, min(self.count, self.top + self.height))

    def point_at(self, line: int) -> None:
        """Put the cursor on a line and show it, without a message. Call it after any change of the lines too."""
        self._place(line)
        self.refresh()

    def _place(self, line: int) -> None:
        self.virtual_size = Size(0, self.count + self.head)
        self.cursor = max(0, min(line, self.count - 1))
        top, height = self.top, self.height
        if not top <= self.cursor < top + height:
            near = top - height <= self.cursor < top + 2 * height
            top = self.cursor - height // 2 if not near else min(top, self.cursor)
            top = max(top, self.cursor - height + 1)
        self.scroll_to(y=max(0, min(top, self.count - height)), animate=False, force=True)
        self.fetch()

    def choose(self, line: int) -> None:
        """Put the cursor on a line and call `moved`. Without scrolling, only two lines are drawn."""
        before, self._anchor = self.cursor, None
        self._place(line)
        for changed in (before, self.cursor):
            self.refresh_line(changed + self.head)
        self.moved()

    def action_by(self, count: int) -> None:
        self.choose(self.cursor + count)

    def action_pages(self, pages: int) -> None:
        self.choose(self.cursor + pages * max(1, self.height - 1))

    def action_halves(self, halves: int) -> None:
        self.choose(self.cursor + halves * max(1, self.height // 2))

    def action_roll(self, lines: int) -> None:
        top = max(0, min(self.top + lines, self.count - self.height))
        self.scroll_to(y=top, animate=False, force=True)

    def action_to(self, line: int) -> None:
        self.post_message(Leaping())
        self.choose(line if line >= 0 else self.count - 1)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.fetch()

    def on_resize(self) -> None:
        if self.cursor < self.height:
            self.scroll_to(y=0, animate=False, force=True)
        self.point_at(self.cursor)

    def on_click(self, event: events.Click) -> None:
        inside = event.get_content_offset(self)
        line = self.top + inside.y - self.head if inside is not None else -1
        if inside is not None and inside.y >= self.head and line < self.count:
            if event.shift:
                self.extend_to(line)
                return
            self.choose(line)
            self.clicked(inside.x, event.chain)

    # drawing

    def strip(self, segments: list[Segment]) -> Strip:
        """Return segments as a line of this widget, which Textual fills."""
        return Strip(segments).crop(0, self.columns)

    def render_line(self, y: int) -> Strip:
        line = self.top + y - self.head
        return self.strip(self.draw(line) if line < self.count else [])


class DragsRange(Widget, can_focus=True):
    """A widget of lines or bars, of which a drag chooses a range. It is the first base class."""

    _pressed: int | None = None  # the number below a pressed button
    _dragged = False

    def number_at(self, event: events.MouseEvent) -> int | None:
        """Return the number of the line or bar at the mouse, or nearest to it; None if there is none."""
        raise NotImplementedError

    def choose_range(self, begun: int, end: int) -> None:
        """Choose all from one number to another, where the cursor goes."""
        raise NotImplementedError

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._dragged = False
        inside = event.button == 1 and not event.shift and event.get_content_offset(self) is not None
        self._pressed = self.number_at(event) if inside else None
        if self._pressed is not None:
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        number = None if self._pressed is None else self.number_at(event)
        if self._pressed is not None and number is not None and (self._dragged or number != self._pressed):
            self._dragged = True
            self.choose_range(self._pressed, number)

    def on_mouse_up(self) -> None:
        if self._pressed is not None:
            self._pressed = None
            self.release_mouse()

    def on_click(self, event: events.Click) -> None:
        if self._dragged:  # the end of a drag is not a click on what is there
            event.prevent_default()
            self._dragged = False


class Columns(NamedTuple):
    """Width of each column in cells, 0 for none; `words` gets the rest.

    `others` are those that a user chose, or that the format has; those that do not fit are left out.
    """

    number: int
    position: int
    length: int
    words: int
    others: tuple[int, ...] = ()
    bar: int = 0


def columns(
    width: int,
    count: int,
    tokens: int | None,
    others: Sequence[int] = (),
    *,
    bars: bool = False,
    lengths: bool = True,
) -> Columns:
    """Return the columns that fit.

    Args:
        width: Cells of a line.
        count: Number of rows.
        tokens: Length of the token axis; None without one.
        others: Widths of more columns.
        bars: Show lengths as bars, if there is room.
        lengths: Show lengths and positions, if there is room.
    """
    number, length = max(2, len(f"{max(0, count - 1):,}")), 7 if lengths else 0
    position = max(8, len(f"{tokens:,}")) if tokens and lengths else 0
    beside, room = list[int](), width - number - length - 4 - (_LEAST_WORDS if lengths else _FEW_WORDS)
    for wide in others:
        if room < wide + 1:
            break
        beside.append(wide)
        room -= wide + 1
    more = sum(wide + 1 for wide in beside)
    wide_bar = _BAR if bars and room >= _BAR + 1 + _LEAST_WORDS else 0
    more += wide_bar + 1 if wide_bar else 0
    if width - number - length - position - more - 6 < 30:
        position = 0
    if width - number - length - 4 < 12:
        length = 0
    used = number + 1 + (position + 2 if position else 0) + (length + 1 if length else 0) + more
    return Columns(number, position, length, max(0, width - used - 1), tuple(beside), wide_bar)


_LEAST_WORDS = 10  # cells that other columns leave to the beginning of a row
_FEW_WORDS = 4  # of a sample, whose beginning is that of a document by chance
_BAR = 5  # cells of the bar of a length
_WIDEST = 16  # cells of another column
_SHARE = 5  # cells of a share beside a strip, and of a strip at least
_LONGEST_STRIP = 30  # cells

TONES = 6
"""Colors of sources."""


def tone_of(shade: int) -> int:
    """Return the color of a source by its number, so that those of the first ones are far apart."""
    return (0, 4, 2, 5, 1, 3)[shade % TONES]


SHADES = "█▓▒░"
"""Sources differ in a shade too, for terminals without colors."""

SIGNS = "▲▼"
"""The signs of an order that rises, and of one that falls."""

_PARTS = ("head", "number", "dim", "bar", "other", "words", "mark", "damage", "hit", "excerpt")
_CURSORS = ("cursor", "cursor-blurred")
_WORDS = {Kind.TEXT, Kind.SPACE, Kind.ID}
_STYLES = {kind: "list--words" if kind in _WORDS else "list--mark" for kind in Kind}


class SequenceList(RowView):
    """The list of rows; the cursor chooses one.

    Call `show` with a port, `restrict` with row numbers to list only these, and `mark` with a search.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"list--{part}" for part in (*_PARTS, *_CURSORS, *(f"tone-{number}" for number in range(TONES)))
    }
    BINDINGS = keys.ROWS
    head = 1
    selects = True

    class Chosen(Message):
        """The user chose a row."""

        def __init__(self, row: int) -> None:
            super().__init__()
            self.row = row

    class Opened(Message):
        """A double click opens the row under the cursor."""

    class Selected(Message):
        """Other rows are selected."""

    class Headed(Message):
        """The user clicked the heading of a column."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self) -> None:
        super().__init__(id="list")
        self.others: Sequence[RowColumn] = ()
        self.order: Order | None = None
        # of other columns and of excerpts, so that the beginnings of rows do not wait for them
        self.more, self._around = Loader(self), Loader(self)
        self.port: RowSource | None = None
        self.token_style = TokenStyle()
        self._rows: NDArray[np.int64] | None = None
        self._excerpts: Excerpts | None = None

    # the listed rows

    @property
    def count(self) -> int:
        """Return the number of lines."""
        return self.port.count if self._rows is None and self.port else 0 if self._rows is None else len(self._rows)

    @property
    def row(self) -> int:
        """Return the row under the cursor."""
        return self.row_of(self.cursor)

    def row_of(self, index: int) -> int:
        """Return the row of a line of the list."""
        return index if self._rows is None else int(self._rows[index]) if len(self._rows) else 0

    def show(self, port: RowSource, token_style: TokenStyle, row: int = 0) -> None:
        """List the rows of a port."""
        self.loader.forget()
        if port is not self.port:
            self.selected.clear()
        self.port, self.token_style, self._rows, self.order = port, token_style, None, None
        self.point_at_row(row)

    def restrict(self, rows: NDArray[np.int64] | None, order: Order | None = None) -> None:
        """List only some rows, or all for None. The cursor stays on its row, or goes to the next one.

        Args:
            rows: The rows, ascending.
            order: Some of these rows in another order, which is listed instead.
        """
        row, self._rows, self.order = self.row, rows if order is None else order.rows, order
        self.loader.forget()
        self.point_at_row(row)

    def point_at_row(self, row: int) -> None:
        """Put the cursor on a row or the next one listed, and show it, without a message."""
        if self._rows is None:
            self.point_at(row)
        elif self.order is None:
            self.point_at(int(np.searchsorted(self._rows, row)))
        else:
            found = np.flatnonzero(self._rows == row)
            self.point_at(int(found[0]) if len(found) else 0)

    def mark(self, search: SearchJob | None) -> None:
        """Mark the rows that a search has found, and show the words around their first hits; None marks none."""
        if search is None:
            self._excerpts = None
        elif self._excerpts is None or self._excerpts.search is not search:
            from tokfmt.browser.data.excerpts import Excerpts

            self._excerpts = Excerpts(search)
        self._fetch_excerpts()
        self.refresh()

    @property
    def idle(self) -> bool:
        """Return whether no columns and no excerpts are being read."""
        return self.more.idle and self._around.idle

    def fetch(self) -> None:
        port, seen = self.port, [self.row_of(line) for line in self.seen]
        if port is None or not seen:
            return
        self._fetch_others(seen)
        self._fetch_excerpts()
        missing = [row for row in seen if port.peek_span(row) is None or port.peek(row, 0, HEAD) is None]
        if not missing:
            return

        def work() -> None:
            for row in missing:
                port.load_spans(row, row + 1)
                port.load(row, 0, HEAD)

        self.loader.ask(work, lambda _: self.refresh())

    def _fetch_others(self, seen: Sequence[int]) -> None:
        wanted = [one for one in self.others if any(one.peek(row) is None for row in seen)]
        if wanted:
            rows = sorted(seen)

            def work() -> None:
                for column in wanted:
                    column.load(rows)

            self.more.ask(work, lambda _: self.refresh())

    def _fetch_excerpts(self) -> None:
        """Request the excerpts of the rows on the screen, again and again until none is missing."""
        excerpts = self._excerpts
        if excerpts is None or excerpts.search.scope.port is not self.port:
            return
        missing = excerpts.missing([self.row_of(line) for line in self.seen])

        def made(_: object) -> None:
            self.refresh()
            self._fetch_excerpts()

        if missing:
            self._around.ask(lambda: excerpts.load(missing), made)

    def name_of(self, line: int) -> int:
        return self.row_of(line)

    def selection_changed(self) -> None:
        self.refresh()
        self.post_message(self.Selected())

    @property
    def selected_rows(self) -> NDArray[np.int64]:
        """Return the selected rows, in the order of the list; those that are not listed come last."""
        rows = np.array(sorted(self.selected), np.int64)
        if self.order is None:
            return rows
        listed = self.order.rows[np.isin(self.order.rows, rows)]
        return np.concatenate([listed, np.setdiff1d(rows, listed)])

    def moved(self) -> None:
        if self.count:
            self.post_message(self.Chosen(self.row))

    def clicked(self, column: int, times: int) -> None:  # noqa: ARG002 - anywhere on the line
        if times > 1:
            self.post_message(self.Opened())

    def on_unmount(self) -> None:
        self.more.close()
        self._around.close()

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        if at is not None and at.y == 0:
            name = next((name for name, cells in self._headings() if at.x in cells), None)
            if name is not None:
                event.prevent_default()
                self.post_message(self.Headed(name))

    # drawing

    def render_line(self, y: int) -> Strip:
        if y == 0:
            return self.strip(self._head_line())
        if y == 1 and self.port is not None and not self.count:
            return self.strip([Segment("  nothing to list", self.get_component_rich_style("list--dim"))])
        return super().render_line(y)

    def _columns(self) -> Columns:
        port = self.port
        tokens = port.reader.info.tokens if isinstance(port, Viewport) else None
        widths = [self._width(one) for one in self.others]
        bars = port is not None and not port.sampled
        strips = any(one.has_strip for one in self.others)  # of samples that are all as long
        return columns(self.columns, port.count if port else 0, tokens, widths, bars=bars, lengths=not strips)

    def _longest(self) -> int:
        """Return the length of the longest row on the screen."""
        spans = [self.port.peek_span(self.row_of(line)) for line in self.seen] if self.port is not None else []
        return max((span.length for span in spans if isinstance(span, Span)), default=0)

    def _width(self, column: RowColumn) -> int:
        """Return the cells of a column: as many as the values on the screen take; a strip takes a quarter."""
        if column.has_strip:
            return max(_SHARE, min(_LONGEST_STRIP, self.columns // 4)) + _SHARE
        values = [column.peek(self.row_of(line)) or "" for line in self.seen]
        return min(_WIDEST, max(map(cell_len, (*values, column.name + SIGNS[0]))))

    def _headings(self) -> list[tuple[str, range]]:
        """Return the names of the columns on the screen that have an order, and their cells."""
        wide, found = self._columns(), list[tuple[str, range]]()
        at = wide.number + 1
        found.append(("#", range(at)))
        if wide.position:
            found.append(("position", range(at, at + wide.position + 2)))
            at += wide.position + 2
        if wide.length:
            found.append(("length", range(at, at + wide.length + 1)))
            at += wide.length + 1 + (wide.bar + 1 if wide.bar else 0)
        for column, cells in zip(self.others, wide.others, strict=False):
            found.append((column.name, range(at, at + cells + 1)))
            at += cells + 1
        return found

    def _head_line(self) -> list[Segment]:
        """Return the line with the names of the columns."""
        numeric = {one.name: one.numeric for one in self.others}
        text = ""
        for name, cells in self._headings():
            text = text.ljust(cells.start)
            room, order = len(cells) - 1, self.order
            words = name + (SIGNS[order.falling] if order is not None and order.name == name else "")
            words = set_cell_size(words, room) if cell_len(words) > room else words
            space = " " * (room - cell_len(words))
            text += f"{space}{words} " if numeric.get(name, True) else f" {words}{space}"
        wide = self._columns()
        text += " " * (wide.bar + 1 if wide.bar and not wide.others else 0)
        marks = self._excerpts is not None and self._excerpts.search.marks
        words = "hit, or beginning" if marks else "begins with"
        return [Segment(f"{text} {words}", self.get_component_rich_style("list--head"))]

    def _sign(self, row: int, style: Callable[[str], Style]) -> Segment:
        """Return the mark of a row in one cell: selected, a hit, or a blank."""
        if row in self.selected:
            return Segment("✓", style("list--hit"))
        if self._excerpts is not None and self._excerpts.has(row):
            return Segment("●", style("list--hit"))
        return Segment(" ", style("list--dim"))

    def draw(self, line: int) -> list[Segment]:
        port = self.port
        if port is None:
            return []
        row, wide = self.row_of(line), self._columns()
        cursor = "" if line != self.cursor else "list--cursor" if self.has_focus else "list--cursor-blurred"

        def style(name: str) -> Style:
            return self.get_component_rich_style(name, cursor) if cursor else self.get_component_rich_style(name)

        segments = [Segment(f"{row:>{wide.number},}", style("list--number")), self._sign(row, style)]
        span = port.peek_span(row)
        if isinstance(span, Span):
            at = f"{span.start:>{wide.position + 1},} " if wide.position and span.start is not None else ""
            length = f"{short(span.length):>{wide.length}} " if wide.length else ""
            segments.append(Segment(f"{at}{length}", style("list--dim")))
            if wide.bar:
                drawn = bar(span.length / max(1, self._longest()), wide.bar)
                segments.append(Segment(f"{drawn:<{wide.bar}} ", style("list--bar")))
            for column, cells in zip(self.others, wide.others, strict=False):
                segments += self._drawn(column, row, cells, style)
            segments.append(Segment(" ", style("list--dim")))
        for text, name in self._words(port, row, wide.words):
            # a hit is seen on the line of the cursor, too
            hit = name == "list--excerpt" and cursor
            segments.append(Segment(text, self.get_component_rich_style(cursor, name) if hit else style(name)))
        rest = self.columns - sum(segment.cell_length for segment in segments)
        return [*segments, Segment(" " * max(0, rest), style("list--words"))]

    def _drawn(self, column: RowColumn, row: int, cells: int, style: Callable[[str], Style]) -> list[Segment]:
        """Return the value of a column, with a strip of the sources before it if the column has one."""
        if not column.has_strip:
            return [Segment(_cell(column, row, cells), style("list--other"))]
        wide = max(0, cells - _SHARE)
        parts = [
            Segment(SHADES[shade % len(SHADES)] * many, style("list--dim") + self._tone(shade))
            if shade >= 0
            else Segment("·" * many, style("list--dim"))
            for many, shade in column.strip(row, wide)
        ]
        rest = wide - sum(segment.cell_length for segment in parts)
        value = f"{' ' * rest}{column.peek(row) or '…':>{cells - wide}} "
        return [Segment(" ", style("list--dim")), *parts, Segment(value, style("list--dim"))]

    def _tone(self, shade: int) -> Style:
        return Style(color=self.get_component_rich_style(f"list--tone-{tone_of(shade)}").color)

    def _words(self, port: RowSource, row: int, width: int) -> list[tuple[str, str]]:
        """Return the words around the hit of a row, or at its beginning, each with its style."""
        excerpts = self._excerpts
        excerpt = None if excerpts is None or excerpts.search.scope.port is not port else excerpts.peek(row)
        if excerpt is not None:
            words = excerpt.words(self.token_style, width - 1)
        else:
            found = None if port.peek_span(row) is None else port.peek(row, 0, HEAD)
            if found is None:
                return [(" …", "list--dim")]
            if isinstance(found, Damage):
                return [(f" ✗ {found.why}"[:width], "list--damage")]
            words = words_of(found, self.token_style, width - 1)
        return [(text, "list--excerpt" if is_hit else _STYLES[kind]) for text, kind, is_hit in words]


def _cell(column: RowColumn, row: int, cells: int) -> str:
    """Return the value of a column, aligned in its cells and a blank."""
    value = column.peek(row)
    text = "…" if value is None else value
    text = set_cell_size(text, cells) if cell_len(text) > cells else text
    space = " " * (cells - cell_len(text))
    return f"{space}{text} " if column.numeric else f" {text}{space}"
