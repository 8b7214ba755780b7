"""A row of any length as lines: laid out chunk by chunk, only near what is shown.

A row is cut into chunks of about CHUNK tokens. In text a chunk begins behind a line feed where there is one near, so
the cut is not seen; in a grid of ids at a whole line. A line is addressed as (chunk, line in it).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from tokfmt.core.errors import printable
from tokfmt.tui.layout import Line, Mode, Run, begins_of, lines_of, per_line
from tokfmt.tui.letters import Alphabet, Kind
from tokfmt.tui.viewport import Damage, Lru, Piece, Port, Span, fetched, padded_from

CHUNK = 1024
_LOOK = 512  # tokens looked at for a line feed; less than CHUNK, so that cuts stay in order

At = tuple[int, int]


class NotLoadedError(Exception):
    """A chunk is needed that a worker has yet to load."""

    def __init__(self, chunk: int) -> None:
        self.chunk = chunk


class Chunk(NamedTuple):
    """Laid-out tokens `start <= i < stop` of a row."""

    start: int
    stop: int
    lines: list[Line]
    piece: Piece | None


class Manner(NamedTuple):
    """How rows are laid out."""

    mode: Mode = Mode.TEXT
    width: int = 80
    whitespace: bool = False


class Roll:
    """One row, laid out in one manner. Reads at once what tells where its padding begins: `padded`."""

    def __init__(self, port: Port, row: int, span: Span, alphabet: Alphabet, manner: Manner) -> None:
        self.port, self.row, self.span, self.alphabet, self.manner = port, row, span, alphabet, manner
        self.grid = manner.mode is not Mode.TEXT and (manner.mode is Mode.IDS or alphabet.characters)
        self.grid = self.grid or alphabet.decoder is None
        line = per_line(alphabet.digits, manner.width)
        self.size = max(1, CHUNK // line) * line if self.grid else CHUNK
        self.count = max(1, -(-span.length // self.size))
        self.padded = padded_from(port, row)
        self._chunks: Lru[int, Chunk] = Lru(64)

    def peek(self, number: int) -> Chunk:
        """A chunk.

        Raises:
            NotLoadedError: It has to be loaded first.
        """
        found = self._chunks.get(number)
        if found is None:
            raise NotLoadedError(number)
        return found

    def load(self, number: int) -> None:
        """Read a chunk and lay it out."""
        if self._chunks.get(number) is None:
            self._chunks.put(number, self._made(number))

    def _made(self, number: int) -> Chunk:
        start, stop = self._begins(number), self._begins(number + 1)
        before = min(1, start)  # what stands before tells whether a document begins here
        piece = fetched(self.port, self.row, start - before, stop)
        if isinstance(piece, Damage):
            return Chunk(start, stop, _damaged(piece, start, stop, self.manner.width), None)
        piece = piece._replace(begins=begins_of(piece, self.alphabet)).part(before)
        manner = self.manner
        lines = lines_of(piece, start, self.alphabet, manner.mode, manner.width, manner.whitespace)
        return Chunk(start, stop, lines or [Line((), start, stop)], piece)

    def _begins(self, number: int) -> int:
        """The first token of a chunk."""
        at, decoder = number * self.size, self.alphabet.decoder
        if number <= 0 or number >= self.count:
            return 0 if number <= 0 else self.span.length
        if self.grid or decoder is None:
            return at
        piece = fetched(self.port, self.row, at, min(at + _LOOK, self.span.length))
        if isinstance(piece, Damage):
            return at
        found = decoder.pieces(piece.units.tolist())
        spelled = [p.encode("utf-8", "surrogatepass") if isinstance(p, str) else p for p in found]
        behind = next((i + 1 for i, text in enumerate(spelled) if text.endswith(b"\n")), None)
        if behind is None:  # not inside a character
            behind = next((i for i, text in enumerate(spelled) if text[:1] and not 0x80 <= text[0] < 0xC0), 0)
        return min(at + behind, self.span.length)


def _damaged(damage: Damage, start: int, stop: int, width: int) -> list[Line]:
    text, width = printable(damage.why), max(20, min(width, 200))
    parts = [text[a : a + width] for a in range(0, len(text), width)] or [""]
    return [Line((Run(p, len(p), -1, Kind.DAMAGE),), start, stop, leads=not i) for i, p in enumerate(parts)]


class Scroll:
    """Where somebody is in a roll: the line on top and the token under the cursor."""

    def __init__(self, roll: Roll, cursor: int = 0) -> None:
        self.roll = roll
        self.cursor = max(0, min(cursor, roll.span.length - 1))
        self.top: At = (0, 0)
        self.column: int | None = None
        self._on: At | None = None  # the line of the cursor, when its token is on several

    # walking: each raises NotLoadedError

    def _after(self, at: At) -> At | None:
        chunk, line = at
        if line + 1 < len(self.roll.peek(chunk).lines):
            return chunk, line + 1
        if chunk + 1 >= self.roll.count:
            return None
        self.roll.peek(chunk + 1)
        return chunk + 1, 0

    def _before(self, at: At) -> At | None:
        chunk, line = at
        if line:
            return chunk, line - 1
        return (chunk - 1, len(self.roll.peek(chunk - 1).lines) - 1) if chunk else None

    def line(self, at: At) -> Line:
        return self.roll.peek(at[0]).lines[at[1]]

    def find(self, token: int) -> At:
        """The line that a token is on."""
        number = min(token // self.roll.size, self.roll.count - 1)
        if number and token < self.roll.peek(number).start:
            number -= 1
        lines = self.roll.peek(number).lines
        at = max(0, bisect_right([line.first for line in lines], token) - 1)
        while at and not lines[at].leads:
            at -= 1
        return number, at

    def here(self) -> At:
        """The line that the cursor is on."""
        return self._on or self.find(self.cursor)

    def visible(self, height: int) -> tuple[list[Line], int | None]:
        """The lines from the top on, and the chunk that is needed for more of them."""
        out: list[Line] = []
        at: At | None = self.top
        try:
            while at is not None and len(out) < height:
                out.append(self.line(at))
                at = self._after(at)
        except NotLoadedError as missing:
            return out, missing.chunk
        return out, None

    # moving

    def by_tokens(self, count: int) -> None:
        self.to(self.cursor + count)

    def to(self, token: int) -> None:
        self.cursor = max(0, min(token, self.roll.span.length - 1))
        self.column = self._on = None

    def by_lines(self, count: int) -> None:
        """Move the cursor over lines that it may stand on; stops at both ends."""
        begin = at = self.here()
        column = self.line(at).column_of(self.cursor)[0] if self.column is None else self.column
        step = self._after if count > 0 else self._before
        for _ in range(abs(count)):
            beyond = step(at)
            while beyond is not None and not self.line(beyond).leads:
                beyond = step(beyond)
            if beyond is None:
                break
            at = beyond
        if at != begin:
            self.to(self.line(at).token_at(column))
            self.column, self._on = column, at

    def by_view(self, count: int, height: int) -> None:
        """Scroll without moving the cursor; never beyond the last line."""
        step, top = self._after if count > 0 else self._before, self.top
        for _ in range(abs(count)):
            beyond = step(top)
            if beyond is None or (count > 0 and self._ends_within(beyond, height)):
                break
            top = beyond
        self.top = top

    def counts(self, token: int) -> bool:
        """Whether a token counts in the loss, as far as is known and loaded."""
        number = min(token // self.roll.size, self.roll.count - 1)
        try:
            chunk = self.roll.peek(number)
            chunk = self.roll.peek(number - 1) if token < chunk.start and number else chunk
        except NotLoadedError:
            return True
        masks = chunk.piece.masks if chunk.piece else None
        return masks is None or not chunk.start <= token < chunk.stop or bool(masks[token - chunk.start])

    def _ends_within(self, top: At, height: int) -> bool:
        """Whether fewer than `height` lines are left."""
        at: At | None = top
        for _ in range(height - 1):
            at = self._after(at) if at else None
            if at is None:
                return True
        return False

    def reveal(self, height: int) -> None:
        """Bring the cursor's line into view: by as little as possible when it is near, else to the middle."""
        at = self.here()
        if at < self.top:
            near = self._distance(at, self.top, height)
            self.top = at if near else self._middle(at, height)
            return
        down = self._distance(self.top, at, 2 * height)
        under = self._beneath(at)
        if down is None:
            self.top = self._middle(at, height)
        elif down + under >= height:
            self.top = self.above(at, height - 1 - under)

    def _middle(self, at: At, height: int) -> At:
        """The top from which a line is in the middle, or lower where what follows it does not reach the last line."""
        following, below = 0, self._after(at)
        while below is not None and following < height - 1 - height // 2:
            following, below = following + 1, self._after(below)
        return self.above(at, height - 1 - following)

    def _beneath(self, at: At) -> int:
        """Lines that belong beneath a line."""
        count, below = 0, self._after_loaded(at)
        while below is not None and not self.line(below).leads:
            count, below = count + 1, self._after_loaded(below)
        return count

    def _after_loaded(self, at: At) -> At | None:
        return (at[0], at[1] + 1) if at[1] + 1 < len(self.roll.peek(at[0]).lines) else None

    def _distance(self, a: At, b: At, most: int) -> int | None:
        """Lines from a down to b; None when there are more than `most`."""
        count, at = 0, a
        while at != b:
            if count == most or (b[0] - at[0]) > most:
                return None
            following = self._after(at)
            if following is None:
                return None
            at, count = following, count + 1
        return count

    def above(self, at: At, count: int) -> At:
        for _ in range(count):
            before = self._before(at)
            if before is None:
                break
            at = before
        return at
