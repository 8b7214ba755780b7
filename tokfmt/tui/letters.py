"""Tokens to glyphs: what stands on the screen for each token, exactly.

The bytes of neighbouring tokens are read together as UTF-8: a character whose bytes lie in several tokens belongs to
the first of them. Bytes that are no UTF-8 are shown one by one as ⟨e2⟩, never replaced. Control characters are escaped.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, Protocol

from rich.cells import get_character_cell_size

from tokfmt.core.errors import printable
from tokfmt.core.ragged import Tokens


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


class Alphabet(NamedTuple):
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


def glyphs(units: Tokens, first: int, alphabet: Alphabet, *, whitespace: bool = False) -> Glyphs:
    """The glyphs of tokens `first`, `first + 1`, ... of a row.

    Args:
        units: Ids.
        first: Number of the first in the row.
        alphabet: How to read them; without a decoder they are shown as ids.
        whitespace: Spaces, tabs and line ends are made visible.
    """
    out = Glyphs()
    for index, (unit, kind, text) in enumerate(_spelled(units, alphabet)):
        token = first + index
        if kind is not Kind.TEXT:
            out.add(text, token, kind)
            continue
        if alphabet.decoder is None:
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


def _spelled(units: Tokens, alphabet: Alphabet) -> list[tuple[object, Kind, str]]:
    """Of each token: its id or its runs of text, its kind, and what is shown when the kind is not TEXT."""
    ids = units.tolist()
    if alphabet.decoder is None:
        mark = alphabet.separator
        return [(unit, Kind.SEPARATOR if unit == mark else Kind.TEXT, f"{unit} ") for unit in ids]
    pieces = alphabet.decoder.pieces(ids)
    kinds = [_kind(unit, piece, alphabet) for unit, piece in zip(ids, pieces, strict=True)]
    plain = [piece if kind is Kind.TEXT else "" for piece, kind in zip(pieces, kinds, strict=True)]
    runs = spell(plain)
    return [(run, kind, _name(piece)) for run, kind, piece in zip(runs, kinds, pieces, strict=True)]


def _kind(unit: int, piece: bytes | str, alphabet: Alphabet) -> Kind:
    if alphabet.characters:
        return Kind.TEXT
    if unit == alphabet.separator:
        return Kind.SEPARATOR
    if unit in alphabet.specials:
        return Kind.SPECIAL
    return Kind.UNKNOWN if piece == f"⟨{unit}⟩" else Kind.TEXT


def _name(piece: bytes | str) -> str:
    return printable(piece if isinstance(piece, str) else piece.decode("utf-8", "backslashreplace"))


Run = tuple[str, Kind]


def spell(pieces: Sequence[bytes | str]) -> list[list[Run]]:
    """Text of each piece, given the pieces around it: runs of text and of single bytes that are none."""
    out: list[list[Run]] = [[] for _ in pieces]
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


def _spell_bytes(pieces: Sequence[bytes | str], at: int, out: list[list[Run]]) -> int:
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
