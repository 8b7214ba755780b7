"""Lay out tokens: tokens to glyphs, glyphs to lines of a width, and a row of any length to lines.

The bytes of neighboring tokens are read together as UTF-8. A character whose bytes are in several tokens belongs to the
first of them. Bytes that are not UTF-8 are shown one by one as ⟨e2⟩, never replaced. Control characters are escaped.

A line holds wrapped text, a grid of IDs, or text with IDs (and labels) below it.

A row is cut into chunks of about CHUNK tokens, which are laid out only near the screen. In text, a chunk begins after a
line feed if one is near, so that the cut is invisible; in a grid of IDs, it begins with a whole line. The address of a
line is (chunk, line in the chunk).
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
from rich.cells import cell_len, get_character_cell_size

from tokfmt.base.resources import Recent
from tokfmt.browser.data.rows import Damage, Piece, RowSource, Span, fetched, padded_from
from tokfmt.browser.widths import BASE, joined
from tokfmt.core.ragged import Tokens
from tokfmt.wording import printable


class Kind(IntEnum):
    """The kind of a glyph; `browse.tcss` has a style for each."""

    TEXT = 0
    BREAK = 1  # a line feed; the line ends after it
    SPECIAL = 2
    SEPARATOR = 3
    BYTES = 4  # not UTF-8
    UNKNOWN = 5  # not in the vocabulary
    CONTROL = 6  # escaped
    ID = 7
    LABEL = 8
    RULE = 9  # the border between two documents
    DAMAGE = 10  # the error of a part that cannot be read
    PADDING = 11  # all padding of a sample, in words


class Pieces(Protocol):
    """A decoder of single tokens."""

    def pieces(self, tokens: Sequence[int] | Tokens) -> list[bytes | str]: ...


def bytes_of(decoder: Pieces, units: Tokens) -> list[bytes]:
    """Return the bytes of each token, or of each character."""
    pieces = decoder.pieces(units.tolist())
    return [piece if isinstance(piece, bytes) else piece.encode("utf-8", "surrogatepass") for piece in pieces]


class TokenStyle(NamedTuple):
    """The interpretation of IDs."""

    decoder: Pieces | None = None  # decoder of single tokens; None shows IDs
    specials: Collection[int] = frozenset()  # IDs of special tokens
    separator: int | None = None  # separator ID, if it is known
    characters: bool = False  # units are characters, not tokens
    digits: int = 6  # digits of the largest known ID, which is the width of a column in a grid of IDs
    divides: bool = True  # separators divide rows; not those in a chat, which end its messages


@dataclass(slots=True)
class Glyphs:
    """Glyphs in order, as four lists of equal length: text, width in cells, position of the token in the row, kind."""

    texts: list[str] = field(default_factory=list)
    cells: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)

    def add(self, text: str, token: int, kind: Kind) -> None:
        """Add each character of a text as a glyph; a sign is added to the glyph before it."""
        cells = list(map(get_character_cell_size, text))
        if 0 in cells:
            self._add_signs(text, cells, token, kind)
            return
        self.texts += text
        self.cells += cells
        self.tokens += [token] * len(text)
        self.kinds += [kind] * len(text)

    def _add_signs(self, text: str, cells: list[int], token: int, kind: Kind) -> None:
        """Add characters of which some are drawn with the one before them, and belong to its token then."""
        for char, wide in zip(text, cells, strict=True):
            if not wide and self.texts and self.kinds[-1] is Kind.TEXT is kind and not self.texts[-1].isspace():
                self.texts[-1] = joined(self.texts[-1], char)
                self.cells[-1] = cell_len(self.texts[-1])
                continue
            glyph = char if wide else joined(BASE, char)
            self.texts.append(glyph)
            self.cells.append(wide or cell_len(glyph))
            self.tokens.append(token)
            self.kinds.append(kind)


_SPACES = {"\t": "    ", "\r": "", "\n": " "}


def glyphs(units: Tokens, first: int, token_style: TokenStyle) -> Glyphs:
    """Return the glyphs of consecutive tokens of a row from position `first` on; without a decoder, of their IDs."""
    out, ids = Glyphs(), units.tolist()
    if token_style.decoder is None:
        for token, unit in enumerate(ids, first):
            out.add(f"{unit} ", token, _id_kind(unit, token_style) or Kind.ID)
        return out
    pieces = token_style.decoder.pieces(ids)
    kinds = [_kind(unit, piece, token_style) for unit, piece in zip(ids, pieces, strict=True)]
    runs = spell([piece if kind is Kind.TEXT else "" for piece, kind in zip(pieces, kinds, strict=True)])
    for token, unit, piece, kind, spelled in zip(range(first, first + len(ids)), ids, pieces, kinds, runs, strict=True):
        if kind is not Kind.TEXT:
            out.add(_name(unit, piece), token, kind)
        for run, run_kind in spelled:
            _add_text(out, run, token, run_kind)
    return out


def _add_text(out: Glyphs, text: str, token: int, kind: Kind) -> None:
    if kind is not Kind.TEXT or text.isprintable():
        out.add(text, token, kind)
    else:
        for char in text:
            if char in _SPACES:
                out.add(_SPACES[char], token, Kind.BREAK if char == "\n" else Kind.TEXT)
            elif char.isprintable():
                out.add(char, token, Kind.TEXT)
            else:
                out.add(printable(char), token, Kind.CONTROL)


def _id_kind(unit: int, token_style: TokenStyle) -> Kind | None:
    """Return the kind of a separator or a special token; None of another ID."""
    if token_style.characters:
        return None
    if unit == token_style.separator:
        return Kind.SEPARATOR
    return Kind.SPECIAL if unit in token_style.specials else None


def _kind(unit: int, piece: bytes | str, token_style: TokenStyle) -> Kind:
    is_missing = not token_style.characters and is_unknown(unit, piece)
    return _id_kind(unit, token_style) or (Kind.UNKNOWN if is_missing else Kind.TEXT)


def is_unknown(unit: int, piece: bytes | str) -> bool:
    """Return whether a piece is the placeholder of an ID without a token."""
    return piece == f"⟨{unit}⟩"


def _name(unit: int, piece: bytes | str) -> str:
    if is_unknown(unit, piece):
        return f"⟨id {unit}⟩"  # as ⟨81⟩ would be a byte
    return printable(piece if isinstance(piece, str) else piece.decode("utf-8", "backslashreplace"))


def spell(pieces: Sequence[bytes | str]) -> list[list[tuple[str, Kind]]]:
    """Return the text of each piece as runs of text and of single bytes that are not UTF-8.

    A character whose bytes are in several pieces belongs to the first of them.
    """
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
    """Spell pieces from `at` on byte by byte until a piece and a character end together; return the next piece."""
    begun = pieces[at]
    held = [(byte, at) for byte in begun] if isinstance(begun, bytes) else []  # bytes, each with the index of its piece
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
    """Return the number of bytes of a UTF-8 character that begins with this byte; 1 if none does."""
    return 1 if lead < 0xC2 or lead > 0xF4 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4


def _length(held: Sequence[tuple[int, int]]) -> int:
    """Return the number of bytes of the character that begins here; 0 if none does."""
    length = _announced(held[0][0])
    try:
        bytes(byte for byte, _ in held[:length]).decode()
    except UnicodeDecodeError:
        return 0
    return length


class Mode(Enum):
    """The way a row is shown."""

    TEXT = "text"
    IDS = "ids"
    BOTH = "both"


class Run(NamedTuple):
    """Adjacent glyphs of one token and one kind. `token` is its position in the row, -1 for none."""

    text: str
    cells: int
    token: int
    kind: Kind


class Line(NamedTuple):
    """One line of the screen."""

    runs: tuple[Run, ...]  # the runs from left to right
    first: int  # position of the first token on the line
    last: int  # position after the last token on the line
    leads: bool = True  # the cursor can be on the line, which lines of IDs below text are not

    def token_at(self, column: int) -> int:
        """Return the token at a column, or the nearest one."""
        at, token = 0, self.first
        for run in self.runs:
            token = run.token if run.token >= 0 else token
            at += run.cells
            if at > column:
                break
        return token

    def column_of(self, token: int) -> tuple[int, int]:
        """Return the first column of a token, or of the glyph with its bytes, and the column after the last."""
        at, owner, found = 0, -1, (0, 0)
        for run in self.runs:
            if run.token > token:
                break
            if run.token >= 0:
                found = (found[0] if run.token == owner else at, at + run.cells)
                owner = run.token
            at += run.cells
        return found


def lines_of(piece: Piece, first: int, token_style: TokenStyle, mode: Mode, width: int) -> list[Line]:
    """Return the lines of consecutive tokens of a row, whose positions begin with `first`, in `width` cells."""
    if not len(piece.units):
        return []
    begins = frozenset((np.flatnonzero(begins_of(piece, token_style)) + first).tolist()) - {0}
    if mode is Mode.BOTH and token_style.decoder is not None and not token_style.characters:
        return _interlinear(piece, first, token_style, width, begins)
    if mode is not Mode.TEXT or token_style.decoder is None:
        return _grid(piece, first, token_style, width, begins)
    found = glyphs(piece.units, first, token_style)
    return _wrapped(found, width, first, len(piece.units), begins)


def begins_of(piece: Piece, token_style: TokenStyle) -> NDArray[np.bool_]:
    """Return bool[units]: true where a document begins, by the row itself, or else after a separator.

    No document begins in padding, or in a run of separators.
    """
    begins = np.zeros(len(piece.units), np.bool_) if piece.begins is None else piece.begins.copy()
    divides = piece.begins is None and token_style.divides and not token_style.characters
    if token_style.separator is not None and divides:
        separators = piece.units == token_style.separator
        begins[1:] |= separators[:-1] & ~separators[1:]
    return begins if piece.padding is None else begins & ~piece.padding


def _rule(token: int) -> Line:
    """Return the line before the first token of a document."""
    return Line((Run("", 0, -1, Kind.RULE),), token, token, leads=False)


def per_line(digits: int, width: int) -> int:
    """Return the number of IDs on a line of a grid."""
    return max(1, width // (digits + 1))


def _grid(piece: Piece, first: int, token_style: TokenStyle, width: int, begins: Collection[int]) -> list[Line]:
    count, digits = per_line(token_style.digits, width), token_style.digits
    out = []
    units = piece.units.tolist()
    for low, high in pairwise(sorted({first, *begins, first + len(units)})):
        if low in begins:
            out.append(_rule(low))
        for a in range(low, high, count):
            row = units[a - first : min(high, a + count) - first]
            kinds = [_id_kind(unit, token_style) or Kind.ID for unit in row]
            cells = zip(row, range(a, a + len(row)), kinds, strict=True)
            runs = tuple(Run(f"{unit:>{digits}} ", digits + 1, token, kind) for unit, token, kind in cells)
            out.append(Line(runs, a, a + len(row)))
    return out


def _wrapped(found: Glyphs, width: int, first: int, count: int, begins: Collection[int]) -> list[Line]:
    out: list[Line] = []
    at, total, token = 0, len(found.texts), first
    # A token inside a character of several tokens has no glyph; its border is then at the next glyph.
    borders = {bisect_left(found.tokens, begin) for begin in begins}
    while at < total:
        if at in borders:
            out.append(_rule(token))
        else:
            at += _goes_on(found, at)
        end = _line_end(found, at, width, borders)
        last = found.tokens[end] if end < total else first + count
        # a token whose text continues on the next line is on both lines
        out.append(Line(_runs(found, at, end), token, max(last, found.tokens[end - 1] + 1)))
        at, token = end, last
    return out or [Line((), first, first + count)]


def _line_end(found: Glyphs, at: int, width: int, borders: Collection[int]) -> int:
    """Return the end of the line that begins with glyph `at`: after a line feed, at a border, or before a long word."""
    used, space = 0, at
    for end in range(at, len(found.texts)):
        if end in borders and end > at:
            return end
        blank = end > at and found.texts[end] == " "
        alone = found.tokens[end + 1 : end + 2] != found.tokens[end : end + 1]
        if blank and not alone and found.texts[end - 1] != " ":
            space = end  # a blank that begins the token of a word
        used += found.cells[end]
        if used > width and end > at:
            return space if space > at else end
        if found.kinds[end] is Kind.BREAK:
            return end + 1
        if blank and alone:
            space = end + 1
    return len(found.texts)


def _goes_on(found: Glyphs, at: int) -> bool:
    """Return whether glyph `at` is the blank before a word at the start of a continued line, which leaves it out."""
    within = 0 < at < len(found.texts) - 1 and found.kinds[at - 1] is not Kind.BREAK
    return within and found.texts[at] == " " != found.texts[at + 1] and found.tokens[at] == found.tokens[at + 1]


def _runs(found: Glyphs, start: int, stop: int) -> tuple[Run, ...]:
    out = []
    for (token, kind), group in groupby(range(start, stop), lambda i: (found.tokens[i], found.kinds[i])):
        several = list(group)
        a, b = several[0], several[-1] + 1
        out.append(Run("".join(found.texts[a:b]), sum(found.cells[a:b]), token, kind))
    return tuple(out)


def _interlinear(piece: Piece, first: int, token_style: TokenStyle, width: int, begins: Collection[int]) -> list[Line]:
    """Return lines of columns: text, IDs below it, and labels below these if samples have them."""
    found = glyphs(piece.units, first, token_style)
    spelled: list[list[int]] = [[] for _ in piece.units]
    for index, token in enumerate(found.tokens):
        spelled[token - first].append(index)
    ids = piece.units.tolist()
    labels = None if piece.labels is None else piece.labels.tolist()
    bands: list[list[tuple[int, int]]] = [[]]  # of columns: token, cells
    used, ended = 0, False
    for i, unit in enumerate(ids):
        numbers = (unit,) if labels is None else (unit, labels[i])
        cells = 1 + max(sum(found.cells[k] for k in spelled[i]), 1 + max(len(str(number)) for number in numbers))
        if bands[-1] and (ended or used + cells > width or first + i in begins):
            bands.append([])
            used = 0
        bands[-1].append((i, min(cells, width)))
        used += cells
        ended = bool(spelled[i]) and found.kinds[spelled[i][-1]] is Kind.BREAK
    out = list[Line]()
    for columns in bands:
        at = first + columns[0][0]
        out += [_rule(at)] if at in begins else []
        out += _band(found, spelled, ids, labels, first, columns)
    return out


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
_LOOKED = 1 << 16  # tokens of a row that are searched for one that is not trained
_LOOK = 512  # tokens searched for a line feed; less than CHUNK, so that cuts stay in order

At = tuple[int, int]


class NotLoadedError(Exception):
    """A chunk that a worker has not loaded yet."""

    def __init__(self, chunk: int) -> None:
        self.chunk = chunk


class Chunk(NamedTuple):
    """The laid-out tokens `start <= i < stop` of a row."""

    start: int
    stop: int
    lines: list[Line]
    piece: Piece | None


class LayoutOptions(NamedTuple):
    """The options of a layout."""

    mode: Mode = Mode.TEXT
    width: int = 80


class RowLayout:
    """One row, laid out in one way. The constructor reads the end of a sample to find its padding (`padded`)."""

    def __init__(self, port: RowSource, row: int, span: Span, token_style: TokenStyle, options: LayoutOptions) -> None:
        self.port, self.row, self.span, self.token_style, self.options = port, row, span, token_style, options
        self.grid = options.mode is not Mode.TEXT and (options.mode is Mode.IDS or token_style.characters)
        self.grid = self.grid or token_style.decoder is None
        line = per_line(token_style.digits, options.width)
        self.size = max(1, CHUNK // line) * line if self.grid else CHUNK
        self.padded = padded_from(port, row)
        self.masked = _is_masked(port, row, min(self.padded, _LOOKED))
        self.count = max(1, -(-min(span.length, self.padded + 1) // self.size))
        self._chunks = Recent[int, Chunk](64)

    def peek(self, number: int) -> Chunk:
        """Return a chunk."""
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
        before, shown = min(1, start), min(stop, max(start, self.padded))
        # the token before shows if a document begins here, and the first one of the padding if it is trained
        piece = fetched(self.port, self.row, start - before, min(stop, shown + 1))
        if isinstance(piece, Damage):
            return Chunk(start, stop, _damaged(piece, start, stop, self.options.width), None)
        piece = piece._replace(begins=begins_of(piece, self.token_style)).part(before)
        ends = shown < stop and piece.targets is not None and bool(piece.targets[shown - start])
        options, text = self.options, piece.part(0, shown - start + ends)
        lines = lines_of(text, start, self.token_style, options.mode, options.width)
        if shown < stop:
            lines.append(self._padding(int(piece.units[shown - start]), stop, is_trained=ends))
        return Chunk(start, stop, lines or [Line((), start, stop)], piece)

    def _padding(self, fill: int, stop: int, *, is_trained: bool) -> Line:
        """Return the line for all padding of the sample."""
        count = stop - self.padded
        words = f"⋯ {count:,} × {fill} padding{'; the first is a trained label' if is_trained else ''}"  # noqa: RUF001
        return Line((Run(words, len(words), self.padded + is_trained, Kind.PADDING),), self.padded + is_trained, stop)

    def _begins(self, number: int) -> int:
        """Return the position of the first token of a chunk."""
        at, decoder = number * self.size, self.token_style.decoder
        if number <= 0 or number >= self.count:
            return 0 if number <= 0 else self.span.length
        if self.grid or decoder is None:
            return at
        piece = fetched(self.port, self.row, at, min(at + _LOOK, self.span.length))
        if isinstance(piece, Damage):
            return at
        spelled = bytes_of(decoder, piece.units)
        after = next((i + 1 for i, text in enumerate(spelled) if text.endswith(b"\n")), None)
        if after is None:  # then at a token that does not begin inside a character
            after = next((i for i, text in enumerate(spelled) if text[:1] and not 0x80 <= text[0] < 0xC0), 0)
        return min(at + after, self.span.length)


def _is_masked(port: RowSource, row: int, filled: int) -> bool:
    """Return whether a part of a row is not trained, apart from the first token of each document. Reads."""
    piece = fetched(port, row, 0, filled)
    if not isinstance(piece, Piece) or piece.targets is None:
        return False
    trained = piece.targets if piece.begins is None else piece.targets | piece.begins
    return not trained[1:].all()


def _damaged(damage: Damage, start: int, stop: int, width: int) -> list[Line]:
    text, width = printable(damage.why), max(20, min(width, 200))
    parts = textwrap.wrap(text, width) or [""]
    return [Line((Run(p, len(p), -1, Kind.DAMAGE),), start, stop, leads=not i) for i, p in enumerate(parts)]


class ReaderPosition:
    """A position in a laid-out row: the line at the top of the screen, and the token under the cursor."""

    def __init__(self, roll: RowLayout, cursor: int = 0) -> None:
        self.roll = roll
        self.cursor = max(0, min(cursor, roll.span.length - 1))
        self.top: At = (0, 0)
        self.column: int | None = None
        self._on: At | None = None  # the line of the cursor, if its token is on several lines

    # steps between lines, which raise NotLoadedError

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
        """Return the address of the line of a token."""
        number = min(token // self.roll.size, self.roll.count - 1)
        if number and token < self.roll.peek(number).start:
            number -= 1
        lines = self.roll.peek(number).lines
        at = max(0, bisect_right([line.first for line in lines], token) - 1)
        while at and not lines[at].leads:
            at -= 1
        return number, at

    def here(self) -> At:
        """Return the address of the line of the cursor."""
        return self._on or self.find(self.cursor)

    def visible(self, height: int) -> tuple[list[Line], int | None]:
        """Return the loaded lines from the top on, and the chunk that is missing for more, if any."""
        out: list[Line] = []
        at: At | None = self.top
        try:
            while at is not None and len(out) < height:
                out.append(self.line(at))
                at = self._after(at)
        except NotLoadedError as missing:
            return out, missing.chunk
        return out, None

    # moves

    def to(self, token: int) -> None:
        self.cursor = max(0, min(token, self.roll.span.length - 1))
        self.column = self._on = None

    def by_lines(self, count: int) -> None:
        """Move the cursor by lines that it can be on; it stops at both ends."""
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

    def to_line_end(self, step: int) -> None:
        """Go to the first token (step -1) or the last one (step 1) that is on the line of the cursor only."""
        at = self.here()
        line = self.line(at)
        self.to(line.first if step < 0 else max(line.first, line.last - 1))
        self._on = at

    def by_view(self, count: int, height: int) -> None:
        """Scroll without moving the cursor, but not beyond the last line."""
        step, top = self._after if count > 0 else self._before, self.top
        for _ in range(abs(count)):
            beyond = step(top)
            if beyond is None or (count > 0 and self._following(beyond, height - 1) < height - 1):
                break
            top = beyond
        self.top = top

    def is_trained(self, token: int) -> bool | None:
        """Return whether a token is trained as a target; None if that is unknown or not loaded."""
        try:
            chunk = self.roll.peek(self.find(token)[0])
        except NotLoadedError:
            return None
        targets = chunk.piece.targets if chunk.piece else None
        known = targets is not None and 0 <= token - chunk.start < len(targets)
        return bool(targets[token - chunk.start]) if targets is not None and known else None

    def reveal(self, height: int, around: int = 0) -> None:
        """Scroll to the line of the cursor and those around it: by few lines, or to the middle if it is far."""
        at, around, before = self.here(), min(around, (height - 1) // 2), self.top
        under = self._following(at, around) if around else self._beneath(at)
        lowest, highest = self.above(at, around), self.above(at, height - 1 - under)  # tops that show these lines
        if not highest <= before <= lowest:
            far = at < self.above(before, height) if at < before else before < self.above(at, 2 * height)
            following = self._following(at, height - 1 - height // 2) if far else 0
            self.top = self.above(at, height - 1 - following) if far else min(max(before, highest), lowest)

    def _beneath(self, at: At) -> int:
        """Return the number of lines that belong below a line: its IDs and labels."""
        after = self.roll.peek(at[0]).lines[at[1] + 1 :]
        return next((k for k, line in enumerate(after) if line.leads), len(after))

    def _following(self, at: At, limit: int) -> int:
        """Return the number of lines below a line, at most `limit`."""
        count = 0
        while count < limit and (below := self._after(at)) is not None:
            at, count = below, count + 1
        return count

    def above(self, at: At, count: int) -> At:
        for _ in range(count):
            before = self._before(at)
            if before is None:
                break
            at = before
        return at


# the words of a row in the list

HEAD = 64
"""Units of a row that the list reads to show its beginning."""


class Words(NamedTuple):
    """Adjacent glyphs of one kind in the list: their text, and whether they are a part of a hit."""

    text: str
    kind: Kind
    is_hit: bool = False


def words_of(piece: Piece, token_style: TokenStyle, width: int) -> list[Words]:
    """Return the beginning of a row in at most `width` cells."""
    # an ID takes at least two cells
    units = piece.units[: width // 2 + 1] if token_style.decoder is None and not token_style.characters else piece.units
    return words_in(glyphs(units, 0, token_style), 0, width)


def words_in(found: Glyphs, start: int, width: int, hits: Collection[int] = ()) -> list[Words]:
    """Return the glyphs from `start` on that fit in `width` cells; `hits` are those that are a part of a hit."""
    used, end = 0, start
    while end < len(found.texts) and used + found.cells[end] <= width:
        used, end = used + found.cells[end], end + 1
    out = list[Words]()
    for i in range(start, end):
        kind, is_hit = found.kinds[i], i in hits
        text = "⏎" if kind is Kind.BREAK else found.texts[i]
        if out and (out[-1].kind, out[-1].is_hit) == (kind, is_hit):
            out[-1] = Words(out[-1].text + text, kind, is_hit)
        else:
            out.append(Words(text, kind, is_hit))
    return out
