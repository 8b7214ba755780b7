"""The tab of statistics: counts, lengths and IDs, first from the index, then from a pass over all tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from rich.cells import set_cell_size
from rich.segment import Segment
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, ItemGrid, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from tokfmt.core.errors import TokfmtError
from tokfmt.core.records import RecordReader
from tokfmt.core.text_format import bar, counted, printable, short
from tokfmt.ops.source.open import open_stored
from tokfmt.ops.source.request import SourceFiles, viewed
from tokfmt.ops.source.stored import Source
from tokfmt.ops.stats import Statistics, glance, stats_of
from tokfmt.ops.stats.report import Duplicates, Ends, Frequencies, Id, Lengths, Share
from tokfmt.tui.session import LOOKING, Session, shown_path
from tokfmt.tui.tabs.base import Working
from tokfmt.tui.widgets.reader import spelling
from tokfmt.tui.workers import Job

AT_ONCE = 2 << 30
"""Limit of tokens for a pass that starts without a key."""

BYTES_AT_ONCE = 2 << 30
"""Limit of bytes of text for a pass that starts without a key."""

Pair = tuple[str, str]


def _opened(session: Session) -> Source:
    """Open the dataset again in the current view, as the end of a pass must not close the readers of the screen."""
    request, format_, known = session.request, session.opened.format, session.opened.separator
    if session.refused is not None or format_ is None:
        raise TokfmtError(session.failure)
    session.check_unchanged()
    wanted = replace(request, allow_loss=request.allow_loss | LOOKING, ignore_manifest=True)
    if session.view.as_stored:
        wanted = viewed(replace(wanted, allow_loss=wanted.allow_loss | {"tail"}), format_, "samples")
    elif request.eos is None:
        wanted = replace(wanted, eos=known.eos_id)
    handle = session.vocabulary.handle if session.vocabulary else None
    source = open_stored([SourceFiles(shown_path(request), format_, ())], wanted, handle)
    if session.view.as_stored or known.eos_id is None:
        return source
    # count with the separator of the listed rows, not with that of the tokenizer
    return source._replace(separator=known)


def first_look(session: Session) -> Statistics | None:
    """Return the statistics from header and index, or of a finished pass; None for text.

    Raises:
        TokfmtError: The dataset cannot be read.
    """
    opened = session.opened
    if session.refused is not None or opened.format is None:
        raise TokfmtError(session.failure)
    if session.statistics is not None or isinstance(session.view.reader, RecordReader):
        return session.statistics
    view = session.view
    if not view.as_stored and not opened.pending and not session.failure:  # its index has been read
        return glance(Source((session.path,), opened.format, view.reader, opened.separator, opened.notes))
    source = _opened(session)
    try:
        return glance(source)
    finally:
        source.reader.close()


def whole_pass(session: Session, job: Job) -> Statistics:
    """Return the statistics of all tokens, or of all texts without a tokenizer.

    Raises:
        TokfmtError: The dataset cannot be read, or the job was cancelled.
    """
    source = _opened(session)
    try:
        handle = session.vocabulary.handle if session.vocabulary else None
        return stats_of(source, tokenizer=handle, progress=job)
    finally:
        source.reader.close()


def is_settled(session: Session) -> bool:
    """Return whether the tokenizer of text is loaded, if one is named, so that a pass can start."""
    return not (session.of_text and session.choice is not None and session.vocabulary is None)


def is_outdated(session: Session) -> bool:
    """Return whether the finished pass counted text without the tokenizer that is loaded now."""
    found = session.statistics
    return session.of_text and session.vocabulary is not None and found is not None and found.tokens is None


def starts_alone(session: Session) -> bool:
    """Return whether the pass is short enough to start without a key."""
    reader = session.view.reader
    if isinstance(reader, RecordReader):
        return reader.info.size <= BYTES_AT_ONCE
    return reader.info.tokens <= AT_ONCE


# in words


def row_name(session: Session) -> str:
    """Return the noun for a counted row: "sample" or "sequence"."""
    return "sample" if session.view.name == "samples" else "sequence"


def pairs_of(found: Statistics, session: Session) -> list[Pair]:
    """Return the facts as pairs of name and value."""
    pairs = [(f"{row_name(session)}s", f"{found.sequences:,}" if found.sequences or found.lengths else "not split yet")]
    pairs += [(name, value) for name, value in _counts(found) if value]
    lengths = found.lengths
    if lengths is not None and lengths.mean is not None:
        pairs.append(("length", f"{lengths.mean:,.1f} mean, {lengths.min:,} to {lengths.max:,}"))
        pairs.append(("5/50/95 % of lengths", f"{lengths.p5:,} · {lengths.p50:,} · {lengths.p95:,}"))
    pairs += _shares(found)
    if found.ids is not None:
        pairs += _ids(found)
    if session.verdict is not None:
        counts = [counted(count, name) for name, count in session.verdict.severities.items()]
        pairs.append(("findings", ", ".join(counts) or "none"))
    return pairs


def _counts(found: Statistics) -> list[Pair]:
    separator = "" if found.eos_id is None else f"{found.eos_id} ({printable(found.eos_from)})"
    return [
        ("tokens", "" if found.tokens is None else f"{found.tokens:,}"),
        ("on disk", f"{found.bytes:,} bytes" if found.bytes < 10**6 else f"{short(found.bytes)} bytes"),
        ("per token", "" if found.bytes_per_token is None else f"{found.bytes_per_token:.2f} bytes on disk"),
        ("type", found.dtype or ""),
        ("largest ID", "" if found.max_id is None else f"{found.max_id:,}"),
        ("separator", separator),
        ("characters", "" if found.text is None else f"{found.text.characters:,}"),
    ]


def _shares(found: Statistics) -> list[Pair]:
    shares: list[tuple[str, Share | None]] = [
        ("empty", found.empty),
        ("separators", found.separators),
        ("padding", found.padding),
        ("masked", found.masked),
    ]
    pairs = [(name, f"{share.count:,} ({share.share:.2%})") for name, share in shares if share is not None]
    again = found.duplicates
    if again is not None:
        pairs.append(("duplicates", f"{again.sequences:,} ({again.share:.2%}, tokens {again.token_share:.2%})"))
    return pairs


def _ids(found: Statistics) -> list[Pair]:
    ids = found.ids
    if ids is None:
        return []
    of = f" of {ids.vocab_size:,} ({ids.coverage:.1%})" if ids.vocab_size and ids.coverage is not None else ""
    about = "about " if ids.estimated else ""
    pairs = [("different IDs", f"{about}{ids.distinct:,}{of}"), ("IDs seen once", f"{ids.once:,}")]
    return pairs + ([("beyond the vocabulary", f"{ids.beyond:,}")] if ids.beyond else [])


def rankings_of(found: Statistics, session: Session) -> list[tuple[str, list[Line]]]:
    """Return lists with headings: frequent and rare IDs, first and last tokens, repeated sequences."""
    lists: list[tuple[str, list[Line]]] = []
    if found.ids is not None:
        lists.append(("most frequent tokens", _of_ids(found.ids.most_frequent, session)))
        lists.append(("least frequent tokens", _of_ids(found.ids.least_frequent, session)))
    lists += [
        (f"{name} tokens of {row_name(session)}s", _of_ids(ends.top, session))
        for name, ends in (("first", found.first_tokens), ("last", found.last_tokens))
        if isinstance(ends, Ends)
    ]
    if found.duplicates is not None and found.duplicates.largest:
        lists.append((f"repeated {row_name(session)}s", _repeated(found.duplicates, session, found.sequences)))
    return lists


def _of_ids(ids: Sequence[Id], session: Session) -> list[Line]:
    return [Line(str(one.id), one.count, one.share, spelling(session.token_style, one.id)[1] or "") for one in ids]


def _repeated(found: Duplicates, session: Session, sequences: int) -> list[Line]:
    lines = []
    for one in found.largest:
        begins = one.text or "".join(spelling(session.token_style, token)[1] or f"{token} " for token in one.ids or ())
        name = "" if one.sequence is None else f"#{one.sequence:,}"
        lines.append(Line(name, one.count, one.count / max(1, sequences), printable(begins)))
    return lines


def _glanced(session: Session) -> Statistics | str | None:
    try:
        return first_look(session)
    except TokfmtError as error:
        return str(error)


# charts: a histogram with a cursor, a curve of braille dots, a ranking

EIGHTHS = " ▁▂▃▄▅▆▇█"
_LEVELS = 8
_WIDEST = 12
# the bit of each dot in a braille cell, by column and row
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


@dataclass(frozen=True, slots=True)
class BarPlan:
    """The positions of bars.

    Attributes:
        axis: Cells before the first bar, for the numbers of the y axis.
        bar: Cells of a bar.
        gap: Cells between two bars.
        rows: Lines of the bars.
    """

    axis: int
    bar: int
    gap: int
    rows: int

    def left(self, number: int) -> int:
        """Return the first column of a bar."""
        return self.axis + number * (self.bar + self.gap)

    def at(self, column: int, count: int) -> int | None:
        """Return the bar at a column, if any."""
        number = (column - self.axis) // (self.bar + self.gap)
        return number if column >= self.axis and number < count else None


def plan_bars(count: int, largest: int, width: int, height: int) -> BarPlan:
    """Place bars in a width and a height, of which two lines are for the x axis.

    Args:
        count: Number of bars, at least one.
        largest: The largest count, for the numbers of the y axis.
        width: Cells.
        height: Lines.
    """
    axis = len(short(largest)) + 2
    each = max(1, (width - axis) // max(1, count))
    gap = 1 if each >= 3 else 0
    return BarPlan(axis, min(_WIDEST, each - gap), gap, max(1, height - 2))


def bar_cells(count: int, largest: int, rows: int) -> str:
    """Return a bar from top to bottom, one character per row; a count above 0 is always visible."""
    eighths = round(count * rows * _LEVELS / largest) if largest else 0
    eighths = max(1, eighths) if count else 0
    cells = [EIGHTHS[max(0, min(_LEVELS, eighths - row * _LEVELS))] for row in range(rows)]
    return "".join(reversed(cells))


def edge_labels(plan: BarPlan, edges: Sequence[int], width: int) -> str:
    """Return the line with the edges of bins below their left borders, as many as fit."""
    line, end = [" "] * width, 0
    for number, edge in enumerate(edges):
        text, left = short(edge), plan.left(number) - (plan.gap if number else 0)
        if left >= end and left + len(text) <= width:
            line[left : left + len(text)] = text
            end = left + len(text) + 2
    return "".join(line)


@dataclass(frozen=True, slots=True)
class Scatter:
    """Points on logarithmic axes, as lines of braille characters.

    Attributes:
        lines: The lines from top to bottom.
        rows: Line of each power of ten on the y axis.
        columns: Column of each power of ten on the x axis.
    """

    lines: list[str]
    rows: dict[int, int]
    columns: dict[int, int]


def scatter(xs: Sequence[int], ys: Sequence[int], width: int, height: int) -> Scatter:
    """Plot points with positive x and y on axes from 1 to the largest value, in `width` by `height` cells."""
    right, top = math.log10(max(10, *xs, 10)), math.log10(max(10, *ys, 10))
    cells = [[0] * width for _ in range(height)]
    for x, y in zip(xs, ys, strict=True):
        if x < 1 or y < 1:
            continue
        column = round(math.log10(x) / right * (2 * width - 1))
        row = round((1 - math.log10(y) / top) * (4 * height - 1))
        cells[row // 4][column // 2] |= _DOTS[column % 2][row % 4]
    lines = ["".join(chr(0x2800 + cell) if cell else " " for cell in line) for line in cells]
    rows = {power: round((1 - power / top) * (4 * height - 1)) // 4 for power in range(math.floor(top) + 1)}
    columns = {power: round(power / right * (2 * width - 1)) // 2 for power in range(math.floor(right) + 1)}
    return Scatter(lines, rows, columns)


def power_text(power: int) -> str:
    """Return 10^power in short: 1, 10, 100, 1k, 10k, 100k, 1M."""
    name, digits = ("", "k", "M", "G", "T", "P", "E")[power // 3], "1" + "0" * (power % 3)
    return digits + name


class Bars(Widget, can_focus=True):
    """A histogram with a cursor."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"bars--{part}" for part in ("bar", "cursor", "cursor-blurred", "axis", "caption", "none")
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "by(-1)", "Shorter", show=False),
        Binding("right", "by(1)", "Longer", show=False),
        Binding("home", "to(0)", "Shortest", show=False),
        Binding("end", "to(-1)", "Longest", show=False),
        Binding("enter", "choose", "List these"),
    ]

    class Chosen(Message):
        """The user wants the rows of a bar: `low <= length < high`."""

        def __init__(self, low: int, high: int) -> None:
            super().__init__()
            self.low, self.high = low, high

    def __init__(self) -> None:
        super().__init__(id="bars")
        self.lengths: Lengths | None = None
        self.nothing, self.row_name = "", "sequence"
        self.cursor = 0

    def show(self, lengths: Lengths | None, nothing: str = "", row_name: str = "sequence") -> None:
        """Show the lengths of rows, or the text `nothing` if there are none."""
        known = lengths is not None and self.lengths is not None and self.lengths.histogram == lengths.histogram
        self.lengths, self.nothing, self.row_name = lengths, nothing, row_name
        if lengths is not None and not known:
            counts = lengths.histogram.counts
            self.cursor = counts.index(max(counts))
        of = " of samples" if row_name == "sample" else ""
        self.border_title = f"lengths{of}" + ("" if lengths is None else f", {lengths.unit}")
        self._settle()

    @property
    def count(self) -> int:
        """Return the number of bars."""
        return len(self.lengths.histogram.counts) if self.lengths else 0

    @property
    def plan(self) -> BarPlan:
        """Return the positions of the bars; the last line is for the caption."""
        largest = max(self.lengths.histogram.counts) if self.lengths else 0
        return plan_bars(self.count, largest, self.size.width, self.size.height - 1)

    def _settle(self) -> None:
        if self.lengths is not None:
            self.border_subtitle = self.lengths.histogram.scale.replace("log", "logarithmic") + " bins"
        self.refresh()

    def action_by(self, count: int) -> None:
        self.point_at(self.cursor + count)

    def action_to(self, number: int) -> None:
        self.point_at(number if number >= 0 else self.count - 1)

    def point_at(self, number: int) -> None:
        """Put the cursor on a bar."""
        self.cursor = max(0, min(number, self.count - 1))
        self._settle()

    def action_choose(self) -> None:
        if self.lengths is not None:
            edges = self.lengths.histogram.edges
            self.post_message(self.Chosen(edges[self.cursor], edges[self.cursor + 1]))

    def on_click(self, event: events.Click) -> None:
        inside = event.get_content_offset(self)
        number = self.plan.at(inside.x, self.count) if inside is not None else None
        if number is not None:
            self.point_at(number)
            if event.chain > 1:
                self.action_choose()

    # drawing

    def render_line(self, y: int) -> Strip:
        width, height, plan = self.size.width, self.size.height, self.plan
        if self.lengths is None:
            segments = [self._segment(f" {self.nothing}" if y == height // 2 else "", "none")]
        elif y == height - 1:
            segments = [self._segment(self._caption(), "caption")]
        elif y == plan.rows + 1:
            segments = [self._segment(edge_labels(plan, self.lengths.histogram.edges, width), "axis")]
        elif y == plan.rows:
            segments = [self._segment(f"{'0 └':>{plan.axis + 1}}".ljust(width, "─"), "axis")]
        else:
            segments = self._row(plan, y)
        return Strip(segments).crop(0, width)

    def _segment(self, text: str, *kinds: str) -> Segment:
        return Segment(text, self.get_component_rich_style(*(f"bars--{kind}" for kind in kinds)))

    def _row(self, plan: BarPlan, y: int) -> list[Segment]:
        counts = self.lengths.histogram.counts if self.lengths else []
        largest = max(counts)
        label = short(largest) if y == 0 else short(largest // 2) if plan.rows > 4 and y == plan.rows // 2 else ""
        segments = [self._segment(f"{label:>{plan.axis - 2}} │", "axis")]
        cursor = "cursor" if self.has_focus else "cursor-blurred"
        for number, count in enumerate(counts):
            cell = bar_cells(count, largest, plan.rows)[y]
            kinds = ["bar", cursor] if number == self.cursor else ["bar"]
            segments += [self._segment(cell * plan.bar, *kinds), self._segment(" " * plan.gap, "axis")]
        return segments

    def _caption(self) -> str:
        if self.lengths is None:
            return ""
        edges, counts = self.lengths.histogram.edges, self.lengths.histogram.counts
        low, high, count = edges[self.cursor], edges[self.cursor + 1], counts[self.cursor]
        span = f"length {low:,}" if high == low + 1 else f"{low:,} ≤ length < {high:,}"
        share = count / max(1, sum(counts))
        return f" {span}: {counted(count, self.row_name)} ({share:.1%})"


_AXIS = 6


class Curve(Widget):
    """The plot of frequency over rank, which is a straight line for natural text."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"curve--{part}" for part in ("point", "axis", "none")}

    def __init__(self) -> None:
        super().__init__(id="curve")
        self._frequencies: Frequencies | None = None
        self._nothing = ""
        self._drawn: Scatter | None = None

    def show(self, frequencies: Frequencies | None, nothing: str = "") -> None:
        """Show the curve, or the text `nothing` if there is none."""
        self._frequencies, self._nothing = frequencies, nothing
        self.border_title = "frequency of IDs by rank"
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        known = self._frequencies
        self._drawn = None
        if known is not None and known.rank and self.size.width > _AXIS + 4 and self.size.height > 3:
            self._drawn = scatter(known.rank, known.count, self.size.width - _AXIS, self.size.height - 2)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        drawn, width, height = self._drawn, self.size.width, self.size.height
        if drawn is None:
            segments = [self._segment(f" {self._nothing}" if y == height // 2 else "", "none")]
        elif y == len(drawn.lines):
            segments = [self._segment(f"{'└':>{_AXIS}}".ljust(width, "─"), "axis")]
        elif y > len(drawn.lines):
            segments = [self._segment(_labels(drawn, width), "axis")]
        else:
            labels = {row: power_text(power) for power, row in drawn.rows.items()}
            segments = [self._segment(f"{labels.get(y, ''):>{_AXIS - 2}} │", "axis")]
            segments.append(self._segment(drawn.lines[y], "point"))
        return Strip(segments).crop(0, width)

    def _segment(self, text: str, kind: str) -> Segment:
        return Segment(text, self.get_component_rich_style(f"curve--{kind}"))


def _labels(drawn: Scatter, width: int) -> str:
    line, end = [" "] * width, 0
    for power, column in drawn.columns.items():
        text, left = power_text(power), min(_AXIS + column, width - 4)
        if left >= end:
            line[left : left + len(text)] = text
            end = left + len(text) + 1
    return "".join(line[:width])


_BAR = 8


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a ranking: an ID or a sequence, its count, its share of all, its text."""

    name: str
    count: int
    share: float
    text: str


class Ranking(Static):
    """A list of lines with name, count, share and text."""

    def __init__(self, title: str, lines: Sequence[Line]) -> None:
        name = max((len(line.name) for line in lines), default=0)
        largest = max((line.share for line in lines), default=0) or 1
        alike = len({line.count for line in lines}) == 1 < len(lines)  # then bars are left out
        rows = []
        for line in lines:
            cells = [
                (f"{line.name:>{name}} ", "$text-accent"),
                (f"{short(line.count):>7} {_percent(line.share):>6} ", "$foreground 60%"),
                (set_cell_size("" if alike else bar(line.share / largest, _BAR), 0 if alike else _BAR), "$primary"),
                (f" “{line.text}”" if line.text else "", "$text-success"),
            ]
            rows.append(Content.assemble(*cells))
        super().__init__(Content("\n").join(rows), classes="ranking")
        self.border_title = title


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.001 or not share else "<0.1%"


# the tab

WIDE = 110
"""Width in columns from which the charts are side by side."""


class StatisticsTab(Working):
    """Facts, charts and rankings.

    Attributes:
        failure: The error of the count; "" without one.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "all", "Count every token"),
    ]
    failure = ""
    _glance: Statistics | None = None
    _as_stored = False
    _called_off = False

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self._filled: dict[str, Sequence[tuple[Any, Any]]] = {}

    def compose(self) -> ComposeResult:
        yield Static(id="counting", markup=False)
        with VerticalScroll(id="figures", can_focus=False):
            yield ItemGrid(id="pairs", min_column_width=34)
            with Container(id="charts"):
                yield Bars()
                yield Curve()
            yield ItemGrid(id="rankings", min_column_width=50)

    def show(self, session: Session) -> None:
        as_stored = session.view.as_stored
        other = not hasattr(self, "session") or session is not self.session or as_stored != self._as_stored
        self.session, self._as_stored = session, as_stored
        if is_outdated(session):
            session.keep_statistics(None)
        if other:
            self.stop()
            self._glance, self._called_off, self.failure = None, False, ""
            self.show_figures()
            self.loader.ask(lambda: _glanced(session), self._glanced)
        else:
            self.show_figures()
            self._start()

    def enter(self) -> None:
        self.query_one(Bars).focus(scroll_visible=False)  # so that the facts above it stay visible

    # the figures

    def show_figures(self) -> None:
        found, session = self.found, self.session
        self.say()
        counting = "counted by the pass over all tokens (c)" if self.job is None else "being counted"
        counting = "not counted" if self.failure else counting
        lengths = None if found is None else found.lengths
        self.query_one(Bars).show(lengths, counting, row_name(session))
        ids = None if found is None else found.ids
        reason = "IDs of text need --tokenizer" if found is not None and found.text else counting
        self.query_one(Curve).show(None if ids is None else ids.frequencies, reason)
        pairs = [] if found is None else pairs_of(found, session)
        self._fill("#pairs", pairs, lambda name, text: Static(Content.assemble((f"{name}  ", "$foreground 55%"), text)))
        lists = [] if found is None else rankings_of(found, session)
        self._fill("#rankings", lists, Ranking)

    def _fill(self, place: str, content: Sequence[tuple[Any, Any]], make: Callable[[Any, Any], Static]) -> None:
        """Replace the widgets of a grid by one per pair, if the pairs changed."""
        grid = self.query_one(place)
        if self._filled.get(place, []) == content:
            return
        self._filled[place] = content
        with self.app.batch_update():
            grid.remove_children()
            grid.mount_all(make(*pair) for pair in content)

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "wide")

    @on(Bars.Chosen)
    def _chosen(self, message: Bars.Chosen) -> None:
        self.host.filter(f"{message.low}<=len<{message.high}")

    # the count

    @property
    def found(self) -> Statistics | None:
        """Return the statistics of the pass, or of the index."""
        return self.session.statistics or self._glance

    def _glanced(self, found: Statistics | str | None) -> None:
        if isinstance(found, str):
            self.failure = found
        else:
            self._glance = found
        self.show_figures()
        self._start()

    def _start(self) -> None:
        """Start the pass if it is short, not done and not stopped."""
        session = self.session
        done = session.statistics is not None or self.job is not None or self._called_off or self.failure
        if not done and is_settled(session) and starts_alone(session):
            self.action_all()
        self.say()

    def _counted(self, outcome: object) -> None:
        if isinstance(outcome, Statistics):
            self.session.keep_statistics(outcome)
        else:
            self.failure = str(outcome)
        self.show_figures()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action applies; a finished count is not repeated."""
        done = hasattr(self, "session") and (self.session.statistics is not None or self.job is not None)
        return not done if action == "all" else super().check_action(action, parameters)

    def action_all(self) -> None:
        session = self.session
        self._called_off, self.failure = False, ""
        self.begin(lambda job: whole_pass(session, job), self._counted)

    def action_stop(self) -> None:
        self._called_off = True
        super().action_stop()

    def say(self) -> None:
        """Show the progress of the pass."""
        words, place = self._progress_words(), self.query_one("#counting", Static)
        place.update(words)
        place.display = bool(words)
        self.refresh_bindings()

    def _progress_words(self) -> str:
        if self.job is not None:
            return self.doing("counting")
        if self.failure:
            return f"✗ {printable(self.failure)}"
        if self.session.statistics is not None:
            return ""
        if not is_settled(self.session):
            return "◌ waiting for the tokenizer"
        known = "known from the index" if self._glance else "not counted yet"
        return f"{known}; c counts every token" + (" (stopped)" if self._called_off else "")
