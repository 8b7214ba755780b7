"""The minimap: one column beside the reader, which shows where a long row has hits, documents, masks and padding."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from enum import IntEnum
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip

from tokfmt.browser.layout import TokenStyle, begins_of
from tokfmt.browser.rows import Damage, RowSource, fetched, fetched_span, padded_from
from tokfmt.browser.widgets.row_view import WithLoader


class Mark(IntEnum):
    """The mark of a line of the minimap. If a line has several, the largest is shown."""

    NOTHING = 0
    MASKED = 1
    PADDING = 2
    BORDER = 3
    HIT = 4


GLYPHS = {Mark.NOTHING: " ", Mark.MASKED: "░", Mark.PADDING: "·", Mark.BORDER: "╌", Mark.HIT: "●"}

_WHOLE = 1 << 18  # units of a row that is read completely
_SOME = 256  # units that are read at the start of each line of a longer row


def overview(
    port: RowSource, token_style: TokenStyle, row: int, height: int, hits: Iterable[range]
) -> NDArray[np.uint8]:
    """Return the mark of each line, uint8[height]. Of a row of more than 2^18 units, some are read. Reads.

    Args:
        port: The rows.
        token_style: The interpretation of IDs.
        row: The row.
        height: Number of lines.
        hits: Intervals of units to mark.
    """
    marks = np.zeros(height, np.uint8)
    span = fetched_span(port, row)
    if isinstance(span, Damage) or not span.length:
        return marks
    length = span.length
    bounds = [k * length // height for k in range(height + 1)]
    lines = [(a, b, b) for a, b in pairwise(bounds)]
    if length > _WHOLE:
        lines = [(a, min(b, a + _SOME), b) for a, b, _ in lines]
    filled = padded_from(port, row)
    for k, (a, b, end) in enumerate(lines):
        if a < b:
            marks[k] = _mark(port, token_style, row, a, b)
        if end > filled:
            marks[k] = max(marks[k] if a < filled else 0, Mark.PADDING)
    for hit in hits:
        first, last = (min(height - 1, at * height // length) for at in (hit.start, max(hit.start, hit.stop - 1)))
        marks[first : last + 1] = Mark.HIT
    return marks


def _mark(port: RowSource, token_style: TokenStyle, row: int, start: int, stop: int) -> Mark:
    before = min(1, start)  # the unit before shows if a document begins here
    piece = fetched(port, row, start - before, stop)
    if isinstance(piece, Damage):
        return Mark.NOTHING
    begins = begins_of(piece, token_style)[before:]
    if begins.any() and (start or begins[1:].any()):
        return Mark.BORDER
    if piece.targets is None:
        return Mark.NOTHING
    counts = piece.targets[before:]
    return Mark.NOTHING if 2 * np.count_nonzero(counts) > len(counts) else Mark.MASKED


class Minimap(WithLoader):
    """Show the marks of the row in the reader; the lines on the screen are shaded."""

    ALLOW_SELECT: ClassVar[bool] = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *(f"minimap--{mark.name.lower()}" for mark in Mark),
        "minimap--shown",
    }

    class Chosen(Message):
        """A press or a drag on a line, as the share of the row above it."""

        def __init__(self, share: float) -> None:
            super().__init__()
            self.share = share

    def __init__(self) -> None:
        super().__init__(id="minimap")
        self._asked: object = None
        self._marks: NDArray[np.uint8] | None = None
        self._shown = range(0)  # lines of the map whose units are on the screen
        self._whole = True

    def show(
        self,
        port: RowSource,
        token_style: TokenStyle,
        row: int,
        hits: Callable[[], Iterable[range]],
        key: Hashable,
    ) -> None:
        """Show a row; nothing is read if the row and `key`, which stands for the hits, are the same as before."""
        height = self.size.height
        asked = (port, token_style, row, height, key)
        if asked == self._asked or not height:
            return
        self._asked = asked

        def then(marks: NDArray[np.uint8]) -> None:
            self._marks = marks
            self.refresh()

        self.loader.ask(lambda: overview(port, token_style, row, height, hits()), then)

    def clear(self) -> None:
        """Show nothing."""
        self.loader.forget()
        self._asked = self._marks = None
        self.refresh()

    def place(self, first: int, last: int, length: int) -> None:
        """Shade the lines whose units are on the screen; if all are, the map is empty."""
        height = self.size.height
        lines = range(0) if not length else range(first * height // length, -(-last * height // length))
        whole = last - first >= length
        if (lines, whole) != (self._shown, self._whole):
            self._shown, self._whole = lines, whole
            self.refresh()

    def render_line(self, y: int) -> Strip:
        marks = self._marks
        mark = Mark(int(marks[y])) if marks is not None and y < len(marks) and not self._whole else Mark.NOTHING
        names = [f"minimap--{mark.name.lower()}"]
        if y in self._shown and not self._whole:
            names.append("minimap--shown")
        return Strip([Segment(GLYPHS[mark], self.get_component_rich_style(*names))])

    def on_mouse_down(self, event: events.MouseDown) -> None:
        event.stop()
        self.capture_mouse()
        self._choose(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.app.mouse_captured is self:
            event.stop()
            self._choose(event)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        event.stop()
        self.release_mouse()

    def _choose(self, event: events.MouseEvent) -> None:
        height = self.size.height
        if height:
            self.post_message(self.Chosen(max(0, min(event.y, height - 1)) / height))
