"""Tokens to what is seen of them: to glyphs, exactly; glyphs to lines of a width; a row of any length as such lines.

The bytes of neighbouring tokens are read together as UTF-8: a character whose bytes lie in several tokens belongs to
the first of them. Bytes that are no UTF-8 are shown one by one as ⟨e2⟩, never replaced. Control characters are escaped.

Lines are wrapped text, a grid of ids, or text with ids (and labels) beneath.

A row is cut into chunks of about CHUNK tokens, laid out only near what is shown. In text a chunk begins behind a line
feed where there is one near, so the cut is not seen; in a grid of ids at a whole line. A line is addressed as (chunk,
line in it).
"""

from __future__ import annotations

import textwrap
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from itertools import groupby, pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from rich.cells import get_character_cell_size

from tokfmt.core.ragged import Tokens
from tokfmt.core.text_format import printable
from tokfmt.tui.rows import Damage, Lru, Piece, RowSource, Span, fetched, padded_from


class Kind(IntEnum):
    """What a glyph is; `browse.tcss` has a style for each."""

    TEXT = 0
    SPACE = 1
    BREAK = 2  # a line feed; the line ends behind it
    SPECIAL = 3
    SEPARATOR = 4
    BYTES = 5  # not UTF-8
    UNKNOWN = 6  # not in the vocabulary
    CONTROL = 7  # escaped
    ID = 8
    LABEL = 9
    RULE = 10  # a document ends
    DAMAGE = 11  # why nothing can be shown


class Pieces(Protocol):
    """What each token stands for by itself."""

    def pieces(self, tokens: Sequence[int] | Tokens) -> list[bytes | str]: ...


class TokenStyle(NamedTuple):
    """How ids are read.

    Attributes:
        decoder: None shows ids.
        specials: Ids of special tokens.
        separator: Its id, when it is known.
        characters: Units are characters, not tokens.
        digits: Of the largest id, as far as is known; a grid of ids has columns of this width.
    """

    decoder: Pieces | None = None
    specials: Collection[int] = frozenset()
    separator: int | None = None
    characters: bool = False
    digits: int = 6


@dataclass(slots=True)
class Glyphs:
    """Glyphs in order, four lists side by side: text, cells, number of the token in the row, kind."""

    texts: list[str] = field(default_factory=list)
    cells: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)

    def add(self, text: str, token: int, kind: Kind) -> None:
        """Each character of a text."""
        self.texts += text
        self.cells += map(get_character_cell_size, text)
        self.tokens += [token] * len(text)
        self.kinds += [kind] * len(text)


_SPACES = {" ": ("·", " "), "\t": ("→   ", "    "), "\r": ("␍", ""), "\n": ("⏎", " ")}


def glyphs(units: Tokens, first: int, token_style: TokenStyle, *, whitespace: bool = False) -> Glyphs:
    """The glyphs of tokens `first`, `first + 1`, ... of a row.

    Args:
        units: Ids.
        first: Number of the first in the row.
        token_style: How to read them; without a decoder they are shown as ids.
        whitespace: Spaces, tabs and line ends are made visible.
    """
    out = Glyphs()
    for index, (unit, kind, text) in enumerate(_spelled(units, token_style)):
        token = first + index
        if kind is not Kind.TEXT:
            out.add(text, token, kind)
            continue
        if token_style.decoder is None:
            out.add(f"{unit} ", token, Kind.ID)
            continue
        for run, run_kind in unit if isinstance(unit, list) else ():
            _add_text(out, run, token, run_kind, whitespace)
    return out


def _add_text(out: Glyphs, text: str, token: int, kind: Kind, whitespace: bool) -> None:
    if kind is not Kind.TEXT or (text.isprintable() and not whitespace):
        out.add(text, token, kind)
    else:
        for char in text:
            if char in _SPACES:
                seen = _SPACES[char][not whitespace]
                out.add(seen, token, Kind.BREAK if char == "\n" else Kind.SPACE if whitespace else Kind.TEXT)
            elif char.isprintable():
                out.add(char, token, Kind.TEXT)
            else:
                out.add(printable(char), token, Kind.CONTROL)


def _spelled(units: Tokens, token_style: TokenStyle) -> list[tuple[object, Kind, str]]:
    """Of each token: its id or its runs of text, its kind, and what is shown when the kind is not TEXT."""
    ids = units.tolist()
    if token_style.decoder is None:
        mark = token_style.separator
        return [(unit, Kind.SEPARATOR if unit == mark else Kind.TEXT, f"{unit} ") for unit in ids]
    pieces = token_style.decoder.pieces(ids)
    kinds = [_kind(unit, piece, token_style) for unit, piece in zip(ids, pieces, strict=True)]
    plain = [piece if kind is Kind.TEXT else "" for piece, kind in zip(pieces, kinds, strict=True)]
    runs = spell(plain)
    return [
        (run, kind, "" if kind is Kind.TEXT else _name(unit, piece))
        for run, kind, unit, piece in zip(runs, kinds, ids, pieces, strict=True)
    ]


def _kind(unit: int, piece: bytes | str, token_style: TokenStyle) -> Kind:
    if token_style.characters:
        return Kind.TEXT
    if unit == token_style.separator:
        return Kind.SEPARATOR
    if unit in token_style.specials:
        return Kind.SPECIAL
    return Kind.UNKNOWN if is_unknown(unit, piece) else Kind.TEXT


def is_unknown(unit: int, piece: bytes | str) -> bool:
    """Whether an id stands for nothing, and this only in its place."""
    return piece == f"⟨{unit}⟩"


def _name(unit: int, piece: bytes | str) -> str:
    if is_unknown(unit, piece):
        return f"⟨id {unit}⟩"  # ⟨81⟩ is a byte
    return printable(piece if isinstance(piece, str) else piece.decode("utf-8", "backslashreplace"))


def spell(pieces: Sequence[bytes | str]) -> list[list[tuple[str, Kind]]]:
    """Text of each piece, given the pieces around it: runs of text and of single bytes that are none."""
    out: list[list[tuple[str, Kind]]] = [[] for _ in pieces]
    at = 0
    while at < len(pieces):
        piece = pieces[at]
        if isinstance(piece, str):
            out[at].append((piece, Kind.TEXT))
            at += 1
            continue
        try:
            out[at].append((piece.decode(), Kind.TEXT))
            at += 1
        except UnicodeDecodeError:
            at = _spell_bytes(pieces, at, out)
    return out


def _spell_bytes(pieces: Sequence[bytes | str], at: int, out: list[list[tuple[str, Kind]]]) -> int:
    """Spell pieces from `at` on byte by byte until one ends where a character does; returns the piece after it."""
    begun = pieces[at]
    held = [(byte, at) for byte in begun] if isinstance(begun, bytes) else []  # a byte and its piece
    end = at + 1
    while held:
        more = pieces[end] if end < len(pieces) else ""
        if len(held) < _announced(held[0][0]) and isinstance(more, bytes):
            held += [(byte, end) for byte in more]
            end += 1
            continue
        byte, owner = held[0]
        length = _length(held)
        text = bytes(byte for byte, _ in held[:length]).decode()
        out[owner].append((text, Kind.TEXT) if length else (f"⟨{byte:02x}⟩", Kind.BYTES))
        del held[: max(1, length)]
    return end


def _announced(lead: int) -> int:
    """Bytes of a character that begins with this one; 1 when none does."""
    return 1 if lead < 0xC2 or lead > 0xF4 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4


def _length(held: Sequence[tuple[int, int]]) -> int:
    """Bytes of the character that begins here; 0 when none does."""
    length = _announced(held[0][0])
    try:
        bytes(byte for byte, _ in held[:length]).decode()
    except UnicodeDecodeError:
        return 0
    return length


UNBOUNDED = 1 << 30
"""A width at which nothing is wrapped."""


class Mode(Enum):
    """How a row is shown."""

    TEXT = "text"
    IDS = "ids"
    BOTH = "both"


class Run(NamedTuple):
    """Glyphs side by side of one token and one kind. `token` is its number in the row, -1 for none."""

    text: str
    cells: int
    token: int
    kind: Kind


class Line(NamedTuple):
    """One line of the screen.

    Attributes:
        runs: From left to right.
        first, last: Tokens on it, `first <= token < last`.
        leads: The cursor may stand on it; lines of ids beneath text are skipped.
    """

    runs: tuple[Run, ...]
    first: int
    last: int
    leads: bool = True

    def token_at(self, column: int) -> int:
        """The token at a column, or the nearest."""
        at, token = 0, self.first
        for run in self.runs:
            token = run.token if run.token >= 0 else token
            at += run.cells
            if at > column:
                break
        return token

    def column_of(self, token: int) -> tuple[int, int]:
        """First column of a token and the one after its last; those of the glyph it is part of if it has none."""
        at, owner, found = 0, -1, (0, 0)
        for run in self.runs:
            if run.token > token:
                break
            if run.token >= 0:
                found = (found[0] if run.token == owner else at, at + run.cells)
                owner = run.token
            at += run.cells
        return found


def lines_of(piece: Piece, first: int, token_style: TokenStyle, mode: Mode, width: int, whitespace: bool) -> list[Line]:
    """The lines of consecutive tokens of a row, the first of which is number `first`."""
    if not len(piece.units):
        return []
    begins = frozenset((np.flatnonzero(begins_of(piece, token_style)) + first).tolist()) - {0}
    if mode is Mode.BOTH and token_style.decoder is not None and not token_style.characters:
        return _interlinear(piece, first, token_style, width, whitespace, begins)
    if mode is not Mode.TEXT or token_style.decoder is None:
        return _grid(piece, first, token_style, width, begins)
    found = glyphs(piece.units, first, token_style, whitespace=whitespace)
    return _wrapped(found, width, first, len(piece.units), begins)


def begins_of(piece: Piece, token_style: TokenStyle) -> NDArray[np.bool_]:
    """bool[units]: where a document begins, as the row says, or behind a separator. Runs of these are padding."""
    begins = np.zeros(len(piece.units), np.bool_) if piece.begins is None else piece.begins.copy()
    if token_style.separator is not None and not token_style.characters:
        separators = piece.units == token_style.separator
        begins[1:] |= separators[:-1] & ~separators[1:]
    return begins


def _rule(token: int) -> Line:
    """What stands before the first token of a document."""
    return Line((Run("", 0, -1, Kind.RULE),), token, token, leads=False)


def per_line(digits: int, width: int) -> int:
    """Ids on a line of a grid."""
    return max(1, width // (digits + 1)) if width < UNBOUNDED else 16


def _grid(piece: Piece, first: int, token_style: TokenStyle, width: int, begins: Collection[int]) -> list[Line]:
    count, digits = per_line(token_style.digits, width), token_style.digits
    out = []
    units = piece.units.tolist()
    for low, high in pairwise(sorted({first, *begins, first + len(units)})):
        if low in begins:
            out.append(_rule(low))
        for a in range(low, high, count):
            row = units[a - first : min(high, a + count) - first]
            runs = tuple(Run(f"{u:>{digits}} ", digits + 1, a + i, _id_kind(u, token_style)) for i, u in enumerate(row))
            out.append(Line(runs, a, a + len(row)))
    return out


def _id_kind(unit: int, token_style: TokenStyle) -> Kind:
    if token_style.characters:
        return Kind.ID
    return (
        Kind.SEPARATOR if unit == token_style.separator else Kind.SPECIAL if unit in token_style.specials else Kind.ID
    )


_BLANKS = " ·"


def _wrapped(found: Glyphs, width: int, first: int, count: int, begins: Collection[int]) -> list[Line]:
    out: list[Line] = []
    at, total, token = 0, len(found.texts), first
    # a token may have no glyph of its own, as within a character of several: then it is the next that has
    borders = {bisect_left(found.tokens, begin) for begin in begins}
    while at < total:
        if at in borders:
            out.append(_rule(token))
        else:
            at += _goes_on(found, at)
        end = _line_end(found, at, width, borders)
        last = found.tokens[end] if end < total else first + count
        # a token whose text goes on in the next line is on both
        out.append(Line(_runs(found, at, end), token, max(last, found.tokens[end - 1] + 1)))
        at, token = end, last
    return out or [Line((), first, first + count)]


def _line_end(found: Glyphs, at: int, width: int, borders: Collection[int]) -> int:
    """Where the line that begins with glyph `at` ends: at a line feed, a border, or before a word too many."""
    used, space = 0, at
    for end in range(at, len(found.texts)):
        if end in borders and end > at:
            return end
        blank = end > at and found.texts[end] in _BLANKS
        alone = found.tokens[end + 1 : end + 2] != found.tokens[end : end + 1]
        if blank and not alone and found.texts[end - 1] not in _BLANKS:
            space = end  # of a word, which begins with it
        used += found.cells[end]
        if used > width and end > at:
            return space if space > at else end
        if found.kinds[end] is Kind.BREAK:
            return end + 1
        if blank and alone:
            space = end + 1
    return len(found.texts)


def _goes_on(found: Glyphs, at: int) -> bool:
    """Glyph `at` is the blank before a word, and a line that goes on stands for it: then the word begins the next."""
    within = 0 < at < len(found.texts) - 1 and found.kinds[at - 1] is not Kind.BREAK
    return within and found.texts[at] == " " != found.texts[at + 1] and found.tokens[at] == found.tokens[at + 1]


def _runs(found: Glyphs, start: int, stop: int) -> tuple[Run, ...]:
    out = []
    for (token, kind), group in groupby(range(start, stop), lambda i: (found.tokens[i], found.kinds[i])):
        several = list(group)
        a, b = several[0], several[-1] + 1
        out.append(Run("".join(found.texts[a:b]), sum(found.cells[a:b]), token, kind))
    return tuple(out)


def _interlinear(
    piece: Piece, first: int, token_style: TokenStyle, width: int, whitespace: bool, begins: Collection[int]
) -> list[Line]:
    """Text above, ids beneath, and labels beneath those where samples have them, in columns."""
    found = glyphs(piece.units, first, token_style, whitespace=whitespace)
    spelled: list[list[int]] = [[] for _ in piece.units]
    for index, token in enumerate(found.tokens):
        spelled[token - first].append(index)
    ids = piece.units.tolist()
    labels = None if piece.labels is None else piece.labels.tolist()
    out: list[Line] = []
    columns: list[tuple[int, int]] = []  # token, cells
    used = 0
    for i, unit in enumerate(ids):
        numbers = (unit,) if labels is None else (unit, labels[i])
        cells = 1 + max(sum(found.cells[k] for k in spelled[i]), 1 + max(len(str(number)) for number in numbers))
        if columns and (used + cells > width or first + i in begins):
            out += _band(found, spelled, ids, labels, first, columns)
            columns, used = [], 0
        if first + i in begins:
            out.append(_rule(first + i))
        columns.append((i, min(cells, width)))
        used += cells
        if spelled[i] and found.kinds[spelled[i][-1]] is Kind.BREAK:
            out += _band(found, spelled, ids, labels, first, columns)
            columns, used = [], 0
    return out + (_band(found, spelled, ids, labels, first, columns) if columns else [])


def _band(
    found: Glyphs,
    spelled: Sequence[Sequence[int]],
    ids: Sequence[int],
    labels: Sequence[int] | None,
    first: int,
    columns: Sequence[tuple[int, int]],
) -> list[Line]:
    top: list[Run] = []
    for i, cells in columns:
        runs = _runs(found, spelled[i][0], spelled[i][-1] + 1) if spelled[i] else ()
        top += runs
        used = sum(run.cells for run in runs)
        top.append(Run(" " * (cells - used), cells - used, first + i, runs[-1].kind if runs else Kind.TEXT))
    a, b = first + columns[0][0], first + columns[-1][0] + 1
    rows = [Line(tuple(top), a, b)]
    rows.append(_beneath(ids, Kind.ID, first, columns, a, b))
    if labels is not None:
        rows.append(_beneath(labels, Kind.LABEL, first, columns, a, b))
    return rows


def _beneath(
    numbers: Sequence[int], kind: Kind, first: int, columns: Sequence[tuple[int, int]], a: int, b: int
) -> Line:
    runs = tuple(Run(f" {numbers[i]}".ljust(cells)[:cells], cells, first + i, kind) for i, cells in columns)
    return Line(runs, a, b, leads=False)


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


class LayoutOptions(NamedTuple):
    """How rows are laid out."""

    mode: Mode = Mode.TEXT
    width: int = 80
    whitespace: bool = False


class RowLayout:
    """One row, laid out in one way. Reads at once what tells where its padding begins: `padded`."""

    def __init__(self, port: RowSource, row: int, span: Span, token_style: TokenStyle, options: LayoutOptions) -> None:
        self.port, self.row, self.span, self.token_style, self.options = port, row, span, token_style, options
        self.grid = options.mode is not Mode.TEXT and (options.mode is Mode.IDS or token_style.characters)
        self.grid = self.grid or token_style.decoder is None
        line = per_line(token_style.digits, options.width)
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
            return Chunk(start, stop, _damaged(piece, start, stop, self.options.width), None)
        piece = piece._replace(begins=begins_of(piece, self.token_style)).part(before)
        options = self.options
        lines = lines_of(piece, start, self.token_style, options.mode, options.width, options.whitespace)
        return Chunk(start, stop, lines or [Line((), start, stop)], piece)

    def _begins(self, number: int) -> int:
        """The first token of a chunk."""
        at, decoder = number * self.size, self.token_style.decoder
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
    parts = textwrap.wrap(text, width) or [""]
    return [Line((Run(p, len(p), -1, Kind.DAMAGE),), start, stop, leads=not i) for i, p in enumerate(parts)]


class ReaderPosition:
    """Where somebody is in a roll: the line on top and the token under the cursor."""

    def __init__(self, roll: RowLayout, cursor: int = 0) -> None:
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
            self.top = self.from_source(at, height - 1 - under)

    def _middle(self, at: At, height: int) -> At:
        """The top from which a line is in the middle, or lower where what follows it does not reach the last line."""
        following, below = 0, self._after(at)
        while below is not None and following < height - 1 - height // 2:
            following, below = following + 1, self._after(below)
        return self.from_source(at, height - 1 - following)

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

    def from_source(self, at: At, count: int) -> At:
        for _ in range(count):
            before = self._before(at)
            if before is None:
                break
            at = before
        return at
