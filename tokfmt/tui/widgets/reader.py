"""The reader: one row, token by token; how it is moved through, and how its lines are painted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.scrollbar import ScrollBar, ScrollDown, ScrollTo, ScrollUp
from textual.strip import Strip

from tokfmt.tui.layout import (
    UNBOUNDED,
    Kind,
    LayoutOptions,
    Line,
    Mode,
    NotLoadedError,
    ReaderPosition,
    RowLayout,
    Run,
    TokenStyle,
)
from tokfmt.tui.rows import Damage, RowSource, fetched_span
from tokfmt.tui.workers import WithLoader

STYLES = {kind: f"reader--{kind.name.lower()}" for kind in Kind}
_PARTS = ("odd", "even", "masked", "padding", "hit", "cursor", "cursor-blurred", "marked")
CLASSES = {*STYLES.values(), *(f"reader--{part}" for part in _PARTS)}
_TINTED = {Kind.TEXT, Kind.SPACE, Kind.BREAK, Kind.CONTROL}
_PLAIN = {Kind.RULE, Kind.DAMAGE}


Step = Callable[[ReaderPosition], None]


class Reader(WithLoader, can_focus=True):
    """Shows a row of a port; the cursor is on a token.

    `hits` are intervals of tokens of the row that is shown, to be marked; set it and call `refresh`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right", "tokens(1)", "Next token", show=False),
        Binding("left", "tokens(-1)", "Previous token", show=False),
        Binding("down,j", "lines(1)", "Down", show=False),
        Binding("up,k", "lines(-1)", "Up", show=False),
        Binding("pagedown,space", "pages(1)", "Page down", show=False),
        Binding("pageup", "pages(-1)", "Page up", show=False),
        Binding("home", "to(0)", "First token", show=False),
        Binding("end", "to(-1)", "Last token", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = CLASSES
    mode: reactive[Mode] = reactive(Mode.TEXT)
    whitespace: reactive[bool] = reactive(False)
    wrap: reactive[bool] = reactive(True)
    mark_from: int | None = None

    class Moved(Message):
        """The cursor is on another token, or another row is shown."""

    def __init__(self) -> None:
        super().__init__(id="reader")
        self.port: RowSource | None = None
        self.token_style = TokenStyle()
        self.row = 0
        self.scroll: ReaderPosition | None = None
        self.damage: Damage | None = None
        self.hits: list[range] = []
        self.lines: list[Line] = []
        self.left, self._opening, self._asked = 0, False, (0, 0)
        self._steps: deque[tuple[Step, bool]] = deque()  # that wait for what is being loaded
        self._loading = False

    @property
    def options(self) -> LayoutOptions:
        """How it is laid out now."""
        return LayoutOptions(self.mode, self.columns - 1 if self.wrap else UNBOUNDED, self.whitespace)

    @property
    def cursor(self) -> int:
        """The token under the cursor."""
        return self.scroll.cursor if self.scroll else 0

    def show(self, port: RowSource, token_style: TokenStyle, row: int, unit: int = 0) -> None:
        """Show a row, the cursor on one of its units. What was shown stays until it is there."""
        self._forget()
        self.port, self.token_style, options = port, token_style, self.options
        self._opening, self._asked = True, (row, unit)
        if not self.size.width:
            return  # it is laid out when it has a width

        def work() -> ReaderPosition | Damage:
            span = fetched_span(port, row)
            return span if isinstance(span, Damage) else _opened(RowLayout(port, row, span, token_style, options), unit)

        def then(found: ReaderPosition | Damage) -> None:
            if row != self.row:
                self.row, self.hits, self.mark_from = row, [], None
            self.damage = found if isinstance(found, Damage) else None
            self.scroll = found if isinstance(found, ReaderPosition) else None
            self.left, self._opening = 0, False
            self._steps.appendleft((_nothing, True))
            self._step()

        self.loader.ask(work, then)

    def _forget(self) -> None:
        """What was asked for, and moves in it, are no longer wanted."""
        self.loader.forget()
        self._steps.clear()
        self._loading = False

    def clear(self, port: RowSource) -> None:
        """Show nothing of a port that has no rows."""
        self._forget()
        self.port, self.scroll, self.damage, self._opening = port, None, None, False
        self.row, self.hits, self.mark_from, self.lines = 0, [], None, []
        self._settle()

    def lay_out(self) -> None:
        """The same row laid out anew."""
        if self.port is not None and self.port.count and self.size.width:
            row, unit = self._asked if self._opening else (self.row, self.cursor)
            self.show(self.port, self.token_style, row, unit)

    def watch_mode(self) -> None:
        self.lay_out()

    def watch_whitespace(self) -> None:
        self.lay_out()

    def watch_wrap(self) -> None:
        self.lay_out()

    def on_resize(self, event: events.Resize) -> None:  # noqa: ARG002 - whatever the size was
        self.lay_out()

    def compose(self) -> ComposeResult:
        yield ScrollBar()

    @property
    def columns(self) -> int:
        """Cells of a line, the scrollbar aside."""
        return max(1, self.size.width - 1)

    # moving

    def move(self, step: Step, *, reveal: bool = True) -> None:
        """Do a step, after those that wait for what is being loaded."""
        self._steps.append((step, reveal))
        self._step()

    def _step(self) -> None:
        """Do the steps that wait; if a chunk is missing for one, load that first, with the loader, and try again."""
        if self._opening or self._loading:
            return
        scroll = self.scroll
        while self._steps:
            step, reveal = self._steps.popleft()
            if scroll is not None:
                try:
                    step(scroll)
                    step = _nothing  # is not to be done again when only what it revealed is missing
                    if reveal:
                        scroll.reveal(max(1, self.size.height))
                except NotLoadedError as error:
                    self._steps.appendleft((step, reveal))
                    self._loading = True
                    self._load(scroll, error.chunk)
                    return
        self.lines, missing = scroll.visible(max(1, self.size.height)) if scroll else ([], None)
        self._settle()
        self.post_message(self.Moved())
        if scroll is not None and missing is not None:
            self._load(scroll, missing)  # a step need not wait for what is only to be seen

    def _load(self, scroll: ReaderPosition, chunk: int) -> None:
        def load() -> Exception | None:
            try:
                scroll.roll.load(chunk)
            except Exception as error:  # noqa: BLE001 - of a plug-in: what waits for this chunk waits for ever
                return error
            return None

        def loaded(error: Exception | None) -> None:
            self._loading = False
            if error is None:
                self._step()
            else:
                self._steps.clear()
                self.notify(f"unexpected {type(error).__name__}: {error}", severity="error", markup=False)

        self.loader.ask(load, loaded)

    def _settle(self) -> None:
        length = self.scroll.roll.span.length if self.scroll else 0
        if self.lines and self.is_mounted:
            self._show_bar(self.lines[0].first, self.lines[-1].last, length)
            if not self.wrap and self.scroll:
                self._follow(self.scroll)
        self.refresh()

    def _show_bar(self, first: int, last: int, length: int) -> None:
        """The scrollbar: of the row's tokens those that are seen, in lines of as many tokens as these have."""
        bar, height = self.query_one(ScrollBar), max(1, self.size.height)
        bar.display = last - first < length
        bar.window_size, bar.window_virtual_size = height, max(height, round(length * height / max(1, last - first)))
        bar.position = first / max(1, length - (last - first)) * (bar.window_virtual_size - height)

    def _follow(self, scroll: ReaderPosition) -> None:
        """Unwrapped lines: bring the cursor's column into view."""
        line = next((line for line in self.lines if line.leads and line.first <= scroll.cursor < line.last), None)
        if line is not None:
            start, stop = line.column_of(scroll.cursor)
            if not self.left <= start < max(self.left + 1, self.left + self.columns - (stop - start)):
                self.left = max(0, start - self.columns // 2)

    def render_line(self, y: int) -> Strip:
        if self.damage is not None:
            return self.strip(self._damaged(self.damage, y))
        if y < len(self.lines) and self.scroll is not None:
            return self.strip(self.painted(self.scroll, self.lines[y]), self.left)
        return self.strip([])

    def strip(self, segments: list[Segment], left: int = 0) -> Strip:
        """Segments as a whole line of this widget, from column `left` on."""
        return Strip(segments).crop(left, left + self.columns).extend_cell_length(self.size.width, self.rich_style)

    def painted(self, scroll: ReaderPosition, line: Line) -> list[Segment]:
        """The segments of a line."""
        if line.runs and line.runs[0].kind is Kind.RULE:
            rule = "╌╌ next document ".ljust(max(0, min(self.columns, 200)), "╌")
            return [Segment(rule, self.get_component_rich_style(STYLES[Kind.RULE]))]
        under = -1
        if line.first <= scroll.cursor < line.last:
            under = max((run.token for run in line.runs if run.token <= scroll.cursor), default=-1)
        hits = [hit for hit in self.hits if hit.start < line.last and hit.stop > line.first]
        segments, marked = [], self.marked
        for run in line.runs:
            names = self._kind(scroll, run)
            if run.kind not in _PLAIN:
                if any(run.token in hit for hit in hits):
                    names.append("reader--hit")
                if run.token in marked:
                    names.append("reader--marked")
                if run.token == under:
                    names.append("reader--cursor" if self.has_focus else "reader--cursor-blurred")
            segments.append(Segment(run.text, self.get_component_rich_style(*names)))
        return segments

    def _kind(self, scroll: ReaderPosition, run: Run) -> list[str]:
        """What a token is: its kind, its tint, whether it counts."""
        if run.kind in _PLAIN:
            return [STYLES[run.kind]]
        if run.token >= scroll.roll.padded:
            return ["reader--padding"]
        names = [STYLES[run.kind]]
        if run.kind in _TINTED and not self.token_style.characters:
            names.append("reader--odd" if run.token & 1 else "reader--even")
        return names if scroll.counts(run.token) else [*names, "reader--masked"]

    def _damaged(self, damage: Damage, y: int) -> list[Segment]:
        """A line of the message in place of a row that cannot be read."""
        width = max(10, self.columns - 4)
        text = f"✗ {damage.why}"
        part = text[max(0, y - 1) * width : y * width] if y else ""
        return [Segment(f"  {part}", self.get_component_rich_style(STYLES[Kind.DAMAGE]))]

    # by keys and by mouse

    @property
    def marked(self) -> range:
        """The tokens that are marked."""
        if self.mark_from is None or self.scroll is None:
            return range(0)
        return range(min(self.mark_from, self.scroll.cursor), max(self.mark_from, self.scroll.cursor) + 1)

    def action_tokens(self, count: int) -> None:
        self.move(lambda scroll: scroll.by_tokens(count))

    def action_lines(self, count: int) -> None:
        self.move(lambda scroll: scroll.by_lines(count))

    def action_pages(self, pages: int) -> None:
        self.move(lambda scroll: scroll.by_lines(pages * max(1, self.size.height - 1)))

    def action_to(self, token: int) -> None:
        self.move(lambda scroll: scroll.to(token if token >= 0 else scroll.roll.span.length - 1))

    def toggle_mark(self) -> None:
        """Mark from the token under the cursor on; again: no mark."""
        self.mark_from = self.scroll.cursor if self.mark_from is None and self.scroll else None
        self.move(lambda scroll: None)

    def go_to(self, token: int) -> None:
        """Put the cursor on a token."""
        self.move(lambda scroll: scroll.to(token))

    def roll(self, lines: int) -> None:
        """Scroll; the cursor stays where it is."""
        self.move(lambda scroll: scroll.by_view(lines, self.size.height), reveal=False)

    def drag(self, share: float) -> None:
        """Scroll to a share of the row."""

        def step(scroll: ReaderPosition) -> None:
            scroll.top = scroll.find(round(share * (scroll.roll.span.length - 1)))

        self.move(step, reveal=False)

    def on_scroll_to(self, message: ScrollTo) -> None:
        """The thumb of the scrollbar was dragged."""
        message.prevent_default().stop()
        bar = self.query_one(ScrollBar)
        if message.y is not None:
            self.drag(min(1.0, max(0.0, message.y / max(1, bar.window_virtual_size - bar.window_size))))

    def on_scroll_down(self, message: ScrollDown) -> None:
        message.prevent_default().stop()
        self.action_pages(1)

    def on_scroll_up(self, message: ScrollUp) -> None:
        message.prevent_default().stop()
        self.action_pages(-1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.roll(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.roll(-3)

    def on_click(self, event: events.Click) -> None:
        if event.y < len(self.lines):
            line, column = self.lines[event.y], self.left + event.x
            self.move(lambda scroll: scroll.to(line.token_at(column)), reveal=False)


def _nothing(scroll: ReaderPosition) -> None:
    """Stay."""


def _opened(roll: RowLayout, unit: int) -> ReaderPosition:
    """A scroll with what the first screen needs."""
    scroll = ReaderPosition(roll, unit)
    number = min(scroll.cursor // roll.size, roll.count - 1)
    for chunk in range(max(0, number - 1), min(number + 2, roll.count)):
        roll.load(chunk)
    return scroll
