"""What the list says of a row: number, position, length, first words."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

from tokfmt.tui.letters import Alphabet, Kind, glyphs
from tokfmt.tui.viewport import Piece


class Columns(NamedTuple):
    """Cells of each column; 0 leaves it out. `words` is what remains."""

    number: int
    position: int
    length: int
    words: int


def columns(width: int, count: int, tokens: int | None) -> Columns:
    """The columns that fit.

    Args:
        width: Cells.
        count: Rows there are.
        tokens: On the token axis, None where there is none.
    """
    number, length = max(2, len(f"{max(0, count - 1):,}")), 7
    position = max(8, len(f"{tokens:,}")) if tokens else 0
    if width - number - length - position - 6 < 30:
        position = 0
    if width - number - length - 4 < 12:
        length = 0
    taken = number + 1 + (position + 2 if position else 0) + (length + 1 if length else 0)
    return Columns(number, position, length, max(0, width - taken - 1))


def short(number: int) -> str:
    """A number in at most seven characters: `999,999`, `12.3M`, `4.56G`."""
    if number < 1_000_000:
        return f"{number:,}"
    for unit, size in (("E", 10**18), ("P", 10**15), ("T", 10**12), ("G", 10**9), ("M", 10**6)):
        if number >= size:
            value = number / size
            return f"{value:.2f}{unit}" if value < 10 else f"{value:.1f}{unit}" if value < 100 else f"{value:.0f}{unit}"
    return str(number)


def words_of(piece: Piece, alphabet: Alphabet, width: int) -> list[tuple[str, Kind, int]]:
    """What a row begins with, in at most `width` cells: runs of text, kind, number of the token's parity."""
    # an id takes two cells at least
    units = piece.units[: width // 2 + 1] if alphabet.decoder is None and not alphabet.characters else piece.units
    found = glyphs(units, 0, alphabet)
    texts = ["⏎" if kind is Kind.BREAK else text for text, kind in zip(found.texts, found.kinds, strict=True)]
    used, end = 0, 0
    while end < len(texts) and used + found.cells[end] <= width:
        used, end = used + found.cells[end], end + 1
    kinds = [found.kinds[i] for i in range(end)]
    out = []
    for kind, group in groupby(range(end), lambda i: kinds[i]):
        several = list(group)
        out.append(("".join(texts[i] for i in several), kind, sum(found.cells[i] for i in several)))
    return out
