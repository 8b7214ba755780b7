"""The reader: one row token by token, with the facts about the token under the cursor.

These facts are its ID, bytes, position, byte offset in the file, mask and label.
"""

from __future__ import annotations

import textwrap
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scrollbar import ScrollBar, ScrollTo
from textual.strip import Strip
from textual.style import Style
from textual.widgets import Static

from tokfmt.browser import keys
from tokfmt.browser.colors import tone_of
from tokfmt.browser.data.facts import TokenFacts
from tokfmt.browser.data.layout import (
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
from tokfmt.browser.data.rows import Damage, RowSource, fetched_span
from tokfmt.browser.data.workers import said
from tokfmt.browser.keys import pressed
from tokfmt.browser.widgets.loading import WithLoader
from tokfmt.browser.widths import roomy
from tokfmt.wording import printable

if TYPE_CHECKING:
    from tokfmt.browser.data.parts import RowParts

STYLES = {kind: f"reader--{kind.name.lower()}" for kind in Kind}
_HUES = 6
_BLANK = 1  # number of the hue of white space
_PARTS = (
    *(f"hue-{number}" for number in range(_HUES)),
    *(f"hue-odd-{number}" for number in range(_HUES)),
    *("trained", "trained-odd", "masked", "hit", "last-hit", "cursor", "cursor-blurred", "marked"),
)
CLASSES = {*STYLES.values(), *(f"reader--{part}" for part in _PARTS)}
_TINTED = {Kind.TEXT, Kind.BREAK, Kind.CONTROL}
_PLAIN = {Kind.RULE, Kind.DAMAGE}


AROUND = 3
"""Lines that are shown above and below the target of a jump."""

_TURN = 3
"""Lines that a turn of the wheel scrolls."""

Step = Callable[[ReaderPosition], None]


class Reader(WithLoader, can_focus=True):
    """Show a row of a port, with the cursor on a token.

    While a row is loading, the reader is `opening` and cannot move. `hits` are intervals of tokens of the row to mark:
    set them and call `refresh`. If the rows are those of a recipe (`of_recipe`), the tokens have the colors of their
    sources, which `color_by` states.
    """

    BINDINGS = keys.READER
    ALLOW_SELECT = False  # a drag marks tokens
    COMPONENT_CLASSES: ClassVar[set[str]] = CLASSES
    mode: reactive[Mode] = reactive(Mode.TEXT)
    mark_from: int | None = None
    _pressed: int | None = None  # the token under a pressed button
    _dragging = _dragged = False

    class Moved(Message):
        """The cursor is on another token, or in another row."""

    def __init__(self) -> None:
        super().__init__(id="reader")
        self.port: RowSource | None = None
        self.token_style = TokenStyle()
        self.row = 0
        self.scroll: ReaderPosition | None = None
        self.damage: Damage | None = None
        self.hits: list[range] = []
        self.of_recipe = False
        self._parts: RowParts | None = None
        self.lines: list[Line] = []
        self.opening, self._asked = False, (0, 0)
        self._steps: deque[tuple[Step, int | None]] = deque()  # moves that wait for a chunk, and lines around it
        self._loading, self._empty = False, True

    @property
    def options(self) -> LayoutOptions:
        """Return the current layout options."""
        return LayoutOptions(self.mode, self.columns - 1)

    def color_by(self, parts: RowParts | None) -> None:
        """Color the tokens of a row by the sources of its parts."""
        self._parts = parts
        if self.of_recipe:
            self.refresh()

    @property
    def cursor(self) -> int:
        """Return the token under the cursor."""
        return self.scroll.cursor if self.scroll else 0

    @property
    def bound_for(self) -> tuple[int, int]:
        """Return the row and the unit that are loading, or else those on the screen."""
        return self._asked if self.opening else (self.row, self.cursor)

    def show(self, port: RowSource, token_style: TokenStyle, row: int, unit: int = 0) -> None:
        """Show a row with the cursor on one of its units. The old row stays until the new one is loaded."""
        self._forget()
        self.port, self.token_style, options = port, token_style, self.options
        self.opening, self._asked, self._empty = True, (row, unit), False
        if not self.size.width:
            return  # `on_resize` lays it out

        def work() -> ReaderPosition | Damage:
            span = fetched_span(port, row)
            return span if isinstance(span, Damage) else _opened(RowLayout(port, row, span, token_style, options), unit)

        def then(found: ReaderPosition | Damage) -> None:
            if row != self.row:
                self.row, self.hits, self.mark_from = row, [], None
            self.damage = found if isinstance(found, Damage) else None
            self.scroll = found if isinstance(found, ReaderPosition) else None
            self.opening = False
            self._steps.appendleft((_nothing, AROUND))
            self._step()

        self.loader.ask(work, then)

    def _forget(self) -> None:
        """Drop the request for a row and the waiting moves."""
        self.loader.forget()
        self._steps.clear()
        self._loading = False

    def clear(self, port: RowSource) -> None:
        """Show nothing, for a port without rows, or a list without any, until a row is shown."""
        self._forget()
        self.port, self.scroll, self.damage, self.opening, self._empty = port, None, None, False, True
        self.row, self.hits, self.mark_from, self.lines = 0, [], None, []
        self._settle()

    def lay_out(self) -> None:
        """Lay out the row again."""
        if self.port is not None and not self._empty and self.size.width:
            self.show(self.port, self.token_style, *self.bound_for)

    def watch_mode(self) -> None:
        self.lay_out()

    def on_resize(self, event: events.Resize) -> None:  # noqa: ARG002 - the reader reads its own size
        self.lay_out()

    def compose(self) -> ComposeResult:
        yield ScrollBar()

    @property
    def columns(self) -> int:
        """Return the cells of a line without the scrollbar."""
        return max(1, self.size.width - 1)

    # moves

    def move(self, step: Step, *, around: int | None = 0) -> None:
        """Do a move after those that wait for a chunk; show lines `around` the cursor, or scroll nowhere for None."""
        self._steps.append((step, around))
        self._step()

    def _step(self) -> None:
        """Do the waiting moves; if a move lacks a chunk, load the chunk and try again."""
        if self.opening or self._loading:
            return
        scroll = self.scroll
        while self._steps:
            step, around = self._steps.popleft()
            if scroll is not None:
                try:
                    step(scroll)
                    step = _nothing  # so that the move is not repeated if only `reveal` lacks a chunk
                    if around is not None:
                        scroll.reveal(max(1, self.size.height), around)
                except NotLoadedError as error:
                    self._steps.appendleft((step, around))
                    self._loading = True
                    self._load(scroll, error.chunk)
                    return
        self.lines, missing = scroll.visible(max(1, self.size.height)) if scroll else ([], None)
        self._settle()
        self.post_message(self.Moved())
        if scroll is not None and missing is not None:
            self._load(scroll, missing)  # moves do not wait for chunks that are only shown

    def _load(self, scroll: ReaderPosition, chunk: int) -> None:
        def load() -> str:
            try:
                scroll.roll.load(chunk)
            except Exception as error:  # noqa: BLE001 - a bug of a plug-in, which must not leave moves waiting
                return said(error)
            return ""

        def loaded(why: str) -> None:
            self._loading = False
            if not why:
                self._step()
            else:
                self._steps.clear()
                self.notify(why, severity="error", markup=False)

        self.loader.ask(load, loaded)

    def _settle(self) -> None:
        length = self.scroll.roll.span.length if self.scroll else 0
        if self.lines and self.is_mounted:
            self._show_bar(self.lines[0].first, self.lines[-1].last, length)
        self.refresh()

    def _show_bar(self, first: int, last: int, length: int) -> None:
        """Set the scrollbar to the share of the row's tokens that is on the screen."""
        bar, height = self.query_one(ScrollBar), max(1, self.size.height)
        bar.display = last - first < length
        bar.window_size, bar.window_virtual_size = height, max(height, round(length * height / max(1, last - first)))
        bar.position = first / max(1, length - (last - first)) * (bar.window_virtual_size - height)

    def render_line(self, y: int) -> Strip:
        if self.damage is not None:
            return self.strip(self._damaged(self.damage, y))
        if y < len(self.lines) and self.scroll is not None:
            return self.strip(self.painted(self.scroll, self.lines[y]))
        return self.strip([])

    def strip(self, segments: list[Segment]) -> Strip:
        """Return segments as a line of this widget; Textual fills the rest."""
        return Strip(segments).crop(0, self.columns)

    def painted(self, scroll: ReaderPosition, line: Line) -> list[Segment]:
        """Return the segments of a line."""
        if line.runs and line.runs[0].kind is Kind.RULE:
            rule = "╌╌ next document ".ljust(self.columns, "╌")
            return [Segment(rule, self.get_component_rich_style(STYLES[Kind.RULE]))]
        under = -1
        if line.first <= scroll.cursor < line.last:
            under = max((run.token for run in line.runs if run.token <= scroll.cursor), default=-1)
        hits = [hit for hit in self.hits if hit.start < line.last and hit.stop > line.first]
        segments, marked, hue, token = [], self.marked, -1, -1
        words = {run.token for run in line.runs if run.kind is not Kind.BREAK and run.text.strip()}
        for run in line.runs:
            if run.token != token:  # tokens within a character have no glyph, so that neighbors may have one hue
                hue = (run.token + (run.token % _HUES == hue)) % _HUES
            token = run.token
            blank = f"{'odd-' if token % 2 else ''}{_BLANK}"  # white space has two shades of one hue
            names = self._kind(scroll, run, str(hue) if token in words else blank)
            if run.kind not in _PLAIN:
                is_hit = any(run.token in hit for hit in hits)
                if run.token in marked:
                    names.append("reader--marked")
                if run.token == under:
                    names.append("reader--cursor" if self.has_focus else "reader--cursor-blurred")
                if is_hit:  # a hit is seen below the cursor, too
                    names.append("reader--last-hit" if run.token == under else "reader--hit")
            segments.append(Segment(run.text, self.get_component_rich_style(*names)))
        return segments

    def _kind(self, scroll: ReaderPosition, run: Run, hue: str) -> list[str]:
        """Return the style names of a run: its kind, and its hue, or whether its token is trained."""
        names = [STYLES[run.kind]]
        if run.kind in _PLAIN or run.kind is Kind.PADDING:
            return names
        is_trained = scroll.is_trained(run.token)
        if is_trained is False:
            return [*names, "reader--masked"]
        if is_trained and scroll.roll.masked:
            return [*names, "reader--trained-odd" if run.token & 1 else "reader--trained"]
        if run.kind in _TINTED and not self.token_style.characters:
            names += self._hue(run.token, hue)
        return names

    def _hue(self, token: int, hue: str) -> list[str]:
        """Return the style of the ground of a token: that of its source in a row of a recipe, else that of `hue`."""
        if not self.of_recipe:
            return [f"reader--hue-{hue}"]
        parts = self._parts if self._parts is not None and self._parts.row == self.row else None
        part = None if parts is None else parts.at(token)
        if parts is None or part is None:  # not found yet, or padding
            return []
        return [f"reader--hue-{'odd-' if token % 2 else ''}{tone_of(parts.parts[part].shade)}"]

    def _damaged(self, damage: Damage, y: int) -> list[Segment]:
        """Return a line of the message in place of a damaged row."""
        lines = ["", *textwrap.wrap(f"✗ {damage.why}", max(10, self.columns - 4))]
        part = lines[y] if y < len(lines) else ""
        return [Segment(f"  {part}", self.get_component_rich_style(STYLES[Kind.DAMAGE]))]

    # keys and mouse

    @property
    def marked(self) -> range:
        """Return the marked tokens."""
        if self.mark_from is None or self.scroll is None:
            return range(0)
        return range(min(self.mark_from, self.scroll.cursor), max(self.mark_from, self.scroll.cursor) + 1)

    def action_tokens(self, count: int) -> None:
        self.move(lambda scroll: scroll.to(scroll.cursor + count))

    def action_by(self, count: int) -> None:
        self.move(lambda scroll: scroll.by_lines(count))

    def action_pages(self, pages: int) -> None:
        self.move(lambda scroll: scroll.by_lines(pages * max(1, self.size.height - 1)))

    def action_halves(self, halves: int) -> None:
        self.move(lambda scroll: scroll.by_lines(halves * max(1, self.size.height // 2)))

    def action_to(self, token: int) -> None:
        self.leaving()
        self.move(lambda scroll: scroll.to(token if token >= 0 else scroll.roll.span.length - 1))

    def action_line_end(self, step: int) -> None:
        self.move(lambda scroll: scroll.to_line_end(step))

    def action_mark(self) -> None:
        """Start a mark at the token under the cursor, or remove the mark."""
        self.mark_from = self.scroll.cursor if self.mark_from is None and self.scroll else None
        self._dragged = False
        self.move(_nothing)

    def go_to(self, token: int) -> None:
        """Put the cursor on a token."""
        self.move(lambda scroll: scroll.to(token), around=AROUND)

    def action_roll(self, lines: int) -> None:
        """Scroll without moving the cursor."""
        self.move(lambda scroll: scroll.by_view(lines, self.size.height), around=None)

    def on_scroll_to(self, message: ScrollTo) -> None:
        """Scroll to the share of the row where the thumb of the scrollbar is dragged to."""
        message.prevent_default().stop()
        bar = self.query_one(ScrollBar)
        share = min(1.0, max(0.0, (message.y or 0) / max(1, bar.window_virtual_size - bar.window_size)))

        def step(scroll: ReaderPosition) -> None:
            scroll.top = scroll.find(round(share * (scroll.roll.span.length - 1)))

        self.move(step, around=None)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.action_roll(_TURN)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.action_roll(-_TURN)

    def on_click(self, event: events.Click) -> None:
        if event.y < len(self.lines) and not self._dragging:
            line, column = self.lines[event.y], event.x
            self.move(lambda scroll: scroll.to(line.token_at(column)), around=None)
        self._dragging = False

    def on_mouse_down(self, event: events.MouseDown) -> None:
        inside = event.get_content_offset(self)
        self._dragging = False
        if self._dragged:  # a mark made with the mouse ends with the next press, as elsewhere
            self.mark_from, self._dragged = None, False
        if event.button == 1 and inside is not None and inside.y < len(self.lines):
            self._pressed = self.lines[inside.y].token_at(inside.x)
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._pressed is None or not self.lines:
            return
        y = min(max(0, event.y), len(self.lines) - 1)
        token = self.lines[y].token_at(max(0, event.x))
        if not self._dragging and token == self._pressed:
            return
        if not self._dragging:
            self.mark_from, self._dragging, self._dragged = self._pressed, True, True
        beyond = -1 if event.y < 0 else 1 if event.y >= self.size.height else 0

        def step(scroll: ReaderPosition) -> None:
            scroll.to(token)
            if beyond:
                scroll.by_view(beyond, self.size.height)
                scroll.by_lines(beyond)

        self.move(step, around=None)

    def on_mouse_up(self) -> None:
        if self._pressed is not None:
            self._pressed = None
            self.release_mouse()


def _nothing(scroll: ReaderPosition) -> None:
    """Do not move."""


def _opened(roll: RowLayout, unit: int) -> ReaderPosition:
    """Return a position with the loaded chunks of the first screen."""
    scroll = ReaderPosition(roll, unit)
    number = min(scroll.cursor // roll.size, roll.count - 1)
    for chunk in range(max(0, number - 1), min(number + 2, roll.count)):
        roll.load(chunk)
    return scroll


# the token under the cursor


NARROW = 88
"""Width in cells below which the facts take three lines instead of two."""

_TO_ORIGIN, _TO_BYTES = pressed("O"), pressed("x")
_BYTES = 12
_MARK = "$text-warning"
_GAP = "   "


class TokenDetails(Static):
    """Show the facts about a token in two or three lines. A click on its ID, origin or byte follows it."""

    def __init__(self) -> None:
        super().__init__(id="detail")
        self._facts: TokenFacts | Damage | None = None
        self._unit = self._origin = self._found = ""

    def show(self, facts: TokenFacts | Damage | None, unit: str, origin: str = "", found: str = "") -> None:
        """Show the facts about a token or a character, its origin and its frequency in words; nothing for None."""
        taller = bool(origin) != bool(self._origin)
        self._facts, self._unit, self._origin, self._found = facts, unit, origin, found
        self.refresh(layout=taller)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002 - Textual's
        return (3 if width < NARROW else 2) + bool(self._origin)

    def render(self) -> Content:
        facts, parts = self._facts, []
        if isinstance(facts, TokenFacts):
            parts = [*self._what(facts, self._unit), *self._sample(facts), *self._where(facts)]
        elif facts is not None:
            parts = [Content.styled(facts.why, "$text-error")]
        return self._flowing(parts)

    def _flowing(self, parts: list[Content]) -> Content:
        """Return the parts in lines, without breaking a part."""
        lines: list[list[Content]] = [[]]
        for part in parts:
            used = sum(one.cell_length + len(_GAP) for one in lines[-1])
            if lines[-1] and used + part.cell_length > self.content_size.width:
                lines.append([])
            lines[-1].append(part)
        return Content("\n").join(Content(_GAP).join(line) for line in lines)

    def _pair(self, name: str, value: str, style: str = "$foreground", leads: Style | None = None) -> Content:
        words = Content.styled(value, style)
        return Content.assemble((f"{name} ", "$quiet"), words if leads is None else words.stylize(leads))

    def _what(self, facts: TokenFacts, unit: str) -> Iterator[Content]:
        yield self._pair(unit, f"{facts.unit:,} of {facts.length:,}")
        if unit == "token":
            leads = Style.from_meta({"@click": f"app.list('token:{facts.value}')"})
            yield self._pair("ID", str(facts.value), "bold $text-accent", leads)
        else:
            yield self._pair("code point", str(facts.value), "bold $text-accent")
        if facts.spelled is not None:
            yield Content.styled(f"“{roomy(facts.spelled)}”", "bold $text-success")
        if facts.special:
            yield Content.styled(facts.special, _MARK)

    def _sample(self, facts: TokenFacts) -> Iterator[Content]:
        if facts.is_trained is not None:
            # the first token of a sample has a label, which is the next token, and is the label of none
            alone = not facts.unit and facts.mask != 0 and facts.label is not None and facts.label >= 0
            other = "no label before it" if alone else "not trained"
            yield Content.styled("trained", "$foreground") if facts.is_trained else Content.styled(other, _MARK)
        if facts.label is not None:
            spelled = "" if facts.label_spelled is None else f" “{roomy(facts.label_spelled)}”"
            yield self._pair("label", f"{facts.label}{spelled}{', masked' if facts.mask == 0 else ''}")

    def _where(self, facts: TokenFacts) -> Iterator[Content]:
        if self._origin:
            yield self._pair("from", self._origin, leads=_TO_ORIGIN)
        if facts.position is not None:
            stored = "" if facts.stored in (None, facts.position) else f", {facts.stored:,} with separators"
            yield self._pair("position", f"{facts.position:,}{stored}")
        if facts.place is not None:
            inside = f" ({facts.place.detail})" if facts.place.detail else ""
            place = f"{facts.place.offset:,} of {printable(facts.place.path.name)}{inside}"
            yield self._pair("byte", place, leads=_TO_BYTES)
        if facts.raw is not None:
            yield self._pair("bytes", facts.raw[:_BYTES].hex(" ") + (" …" if len(facts.raw) > _BYTES else ""))
        if self._found:
            yield self._pair("found", self._found)
