"""Glyphs to lines of a width: wrapped text, a grid of ids, or text with ids (and labels) beneath."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from enum import Enum
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.tui.letters import Alphabet, Glyphs, Kind, glyphs
from tokfmt.tui.viewport import Piece

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


def lines_of(piece: Piece, first: int, alphabet: Alphabet, mode: Mode, width: int, whitespace: bool) -> list[Line]:
    """The lines of consecutive tokens of a row, the first of which is number `first`."""
    if not len(piece.units):
        return []
    begins = frozenset((np.flatnonzero(begins_of(piece, alphabet)) + first).tolist()) - {0}
    if mode is Mode.BOTH and alphabet.decoder is not None and not alphabet.characters:
        return _interlinear(piece, first, alphabet, width, whitespace, begins)
    if mode is not Mode.TEXT or alphabet.decoder is None:
        return _grid(piece, first, alphabet, width, begins)
    found = glyphs(piece.units, first, alphabet, whitespace=whitespace)
    return _wrapped(found, width, first, len(piece.units), begins)


def begins_of(piece: Piece, alphabet: Alphabet) -> NDArray[np.bool_]:
    """bool[units]: where a document begins, as the row says, or behind a separator. Runs of these are padding."""
    begins = np.zeros(len(piece.units), np.bool_) if piece.begins is None else piece.begins.copy()
    if alphabet.separator is not None and not alphabet.characters:
        separators = piece.units == alphabet.separator
        begins[1:] |= separators[:-1] & ~separators[1:]
    return begins


def _rule(token: int) -> Line:
    """What stands before the first token of a document."""
    return Line((Run("", 0, -1, Kind.RULE),), token, token, leads=False)


def per_line(digits: int, width: int) -> int:
    """Ids on a line of a grid."""
    return max(1, width // (digits + 1)) if width < UNBOUNDED else 16


def _grid(piece: Piece, first: int, alphabet: Alphabet, width: int, begins: Collection[int]) -> list[Line]:
    count, digits = per_line(alphabet.digits, width), alphabet.digits
    out = []
    units = piece.units.tolist()
    for low, high in pairwise(sorted({first, *begins, first + len(units)})):
        if low in begins:
            out.append(_rule(low))
        for a in range(low, high, count):
            row = units[a - first : min(high, a + count) - first]
            runs = tuple(Run(f"{u:>{digits}} ", digits + 1, a + i, _id_kind(u, alphabet)) for i, u in enumerate(row))
            out.append(Line(runs, a, a + len(row)))
    return out


def _id_kind(unit: int, alphabet: Alphabet) -> Kind:
    if alphabet.characters:
        return Kind.ID
    return Kind.SEPARATOR if unit == alphabet.separator else Kind.SPECIAL if unit in alphabet.specials else Kind.ID


def _wrapped(found: Glyphs, width: int, first: int, count: int, begins: Collection[int]) -> list[Line]:
    out: list[Line] = []
    at, total, token = 0, len(found.texts), first
    # a token may have no glyph of its own, as within a character of several: then it is the next that has
    borders = {bisect_left(found.tokens, begin) for begin in begins}
    while at < total:
        if at in borders:
            out.append(_rule(token))
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
        used += found.cells[end]
        if used > width and end > at:
            return space if space > at else end
        if found.kinds[end] is Kind.BREAK:
            return end + 1
        if found.texts[end] in " ·" and end > at and found.texts[end - 1] not in " ·":
            space = end
    return len(found.texts)


def _runs(found: Glyphs, start: int, stop: int) -> tuple[Run, ...]:
    out = []
    for (token, kind), group in groupby(range(start, stop), lambda i: (found.tokens[i], found.kinds[i])):
        several = list(group)
        a, b = several[0], several[-1] + 1
        out.append(Run("".join(found.texts[a:b]), sum(found.cells[a:b]), token, kind))
    return tuple(out)


def _interlinear(
    piece: Piece, first: int, alphabet: Alphabet, width: int, whitespace: bool, begins: Collection[int]
) -> list[Line]:
    """Text above, ids beneath, and labels beneath those where samples have them, in columns."""
    found = glyphs(piece.units, first, alphabet, whitespace=whitespace)
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
