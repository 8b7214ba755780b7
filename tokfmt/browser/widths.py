"""Characters whose width terminals disagree on, and lines that keep their place in any terminal.

Terminals draw a sign after its letter in the cell of the letter, or in a cell of its own: the vowel signs of Indic
scripts, the parts of an emoji. Neither Unicode nor the terminal's name tells which. `anchored` therefore puts the
cursor where each cluster (a character with the signs after it) begins and ends: a border stays in its column whatever
the terminal drew before it, and no cell keeps what was there earlier.

A vowel sign is given a cell (`PAD`), as most terminals draw one, until the terminal has answered `PROBE`, which is sent
with the first such sign.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache

from rich.cells import cell_len, get_character_cell_size

PAD = "\U000f0000"
"""A cell that is kept free for the signs before it. No text has it, as `printable` escapes private characters."""

PROBE = "\x1b7\x1b[999;1Hका\x1b[6n\x1b8"
"""Draws a letter with a vowel sign in the last line, and asks for the column of the cursor after it."""

BASE = "◌"
"""What carries a sign that follows no letter, by the convention of Unicode."""

# ASCII, Latin, Greek, Cyrillic, punctuation and symbols; ideographs, kana and Hangul syllables, which are wide anywhere
_SURE = "\x00-\x1a\x1c-\u02ff\u0370-\u0482\u2010-\u2027\u2030-\u205e\u2070-\u20cf\u2100-\u2bff"
_SURE += "\u3001-\u3029\u3030-\u303f\u3041-\u3096\u309b-\u312f\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60"


@cache
def _unsure() -> re.Pattern[str]:
    return re.compile(f"[^{_SURE}\x1b]")


@cache
def _parts() -> re.Pattern[str]:
    """Return the pattern of the parts of what is drawn, which takes 10 ms to compile and most texts do not need."""
    return re.compile(
        r"\x1b\[\d+;(?P<column>\d+)H"
        r"|(?P<escape>\x1b\[[^@-~]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b.?)"
        f"|(?P<sure>[{_SURE}]+(?![^{_SURE}\x1b]))"
        f"|(?P<unsure>[{_SURE}]?[^{_SURE}\x1b]+)",
        re.DOTALL,
    )


class _Terminal:
    """What is known about the terminal.

    Attributes:
        spaces: It draws a vowel sign in a cell of its own.
    """

    spaces = True


def answered(column: int) -> bool:
    """Take the column, from 0, that a terminal answers to `PROBE`; return whether it changes the room of signs."""
    before, _Terminal.spaces = _Terminal.spaces, column > 1
    return before != _Terminal.spaces


@lru_cache(4096)
def extends(char: str) -> bool:
    """Return whether a character is drawn with the one before it."""
    return not char.isascii() and (char == PAD or get_character_cell_size(char) == 0)


def joined(cluster: str, sign: str) -> str:
    """Return a cluster with one more sign, and with free cells for the signs that some terminals give a cell."""
    text = cluster.rstrip(PAD) + sign
    spaced = sum(unicodedata.category(char) == "Mc" for char in text) if _Terminal.spaces else 0
    least = get_character_cell_size(text[0]) + spaced
    return text + PAD * max(0, least - cell_len(text))


def roomy(text: str) -> str:
    """Return a text whose signs have room; one that follows no letter has a base."""
    found: list[str] = []
    for char in text:
        if extends(char):
            found[-1:] = [joined(found[-1] if found else BASE, char)]
        else:
            found.append(char)
    return "".join(found)


def anchored(data: str) -> str:
    """Return what is written to a terminal, with the cursor put in its column after each cluster."""
    if not _unsure().search(data):
        return data
    out: list[str] = []
    column: int | None = None  # from 1
    for part in _parts().finditer(data):
        text = part[0]
        if part["column"] is not None:
            column = int(part["column"])
        elif part["escape"] is None and column is not None:
            if part["unsure"] is None:
                column += cell_len(text)
            else:
                text, column = _in_place(text, column)
        out.append(text)
    return "".join(out).replace(PAD, " ")


def _in_place(text: str, column: int) -> tuple[str, int]:
    """Return the clusters of a text, each in cleared cells of its own, and the column after them."""
    out = []
    for cluster in _clusters(text):
        cells = cell_len(cluster)
        if len(cluster) == 1 and cells < 2:
            out.append(cluster)
        else:
            bare = cluster.rstrip(PAD)
            out.append(f"{' ' * cells}\x1b[{column}G{bare}\x1b[{column + cells}G")
        column += cells
    return "".join(out), column


def _clusters(text: str) -> list[str]:
    found: list[str] = []
    for char in text:
        if found and extends(char):
            found[-1] += char
        else:
            found.append(char)
    return found


class Anchored:
    """A driver of Textual whose output is `anchored`; the driver of the terminal or the page is the other base."""

    _asked = False

    def write(self, data: str) -> None:
        """Write to the terminal."""
        asks = PAD in data and not self._asked
        self._asked |= asks
        super().write(anchored(data) + (PROBE if asks else ""))  # type: ignore[misc]
