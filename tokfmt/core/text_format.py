"""Numbers and text as people read them, in every command: amounts, sizes, bars, text of files on a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

_EIGHTHS = "▏▎▍▌▋▊▉█"
_LONGEST_NUMBER = 10**21


def plural(word: str, number: int) -> str:
    """`sequence` for one, `sequences` for any other number."""
    return word if number == 1 else f"{word}s"


def counted(number: int, word: str) -> str:
    """`1 sequence`, `2,000 sequences`."""
    return f"{grouped(number)} {plural(word, number)}"


def grouped(number: int) -> str:
    """`2,000`; of a number that only a damaged file states, how many digits it has."""
    if abs(number) < _LONGEST_NUMBER:
        return f"{number:,}"
    return f"a number of {math.floor(math.log10(abs(number))) + 1:,} digits"


def short(number: int) -> str:
    """A number in at most seven characters: `999,999`, `12.3M`, `4.56G`."""
    if number < 1_000_000:
        return f"{number:,}"
    for unit, size in (("E", 10**18), ("P", 10**15), ("T", 10**12), ("G", 10**9), ("M", 10**6)):
        if number >= size:
            value = number / size
            return f"{value:.2f}{unit}" if value < 10 else f"{value:.1f}{unit}" if value < 100 else f"{value:.0f}{unit}"
    return str(number)


def human_bytes(size: int) -> str:
    """`1.4 MB`."""
    value, units = float(size), ["bytes", "kB", "MB", "GB", "TB", "PB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:,.0f} {units[0]}" if units[0] == "bytes" else f"{value:,.1f} {units[0]}"


def shortened(text: str, room: int) -> str:
    """Text in at most so many characters; an ellipsis stands for what is cut."""
    return text if len(text) <= room else f"{text[: room - 1]}…"


def bar(share: float, room: int) -> str:
    """A bar of block characters, `room` of them for a share of 1; something for every share above 0."""
    eighths = max(round(share * room * 8), 1 if share > 0 else 0)
    return _EIGHTHS[-1] * (eighths // 8) + (_EIGHTHS[eighths % 8 - 1] if eighths % 8 else "")


def printable(text: object) -> str:
    """Text from a file or a path, safe for a terminal: control characters and bidirectional marks are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in _utf8_safe(text))


def _utf8_safe(text: object) -> str:
    # os.fsdecode leaves undecodable bytes of a file name as lone surrogates, which no terminal takes
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")


def visible(text: str, *, one_line: bool = False) -> str:
    """Text with control characters escaped; line breaks and tabs stay, unless all has to stand on one line."""
    if one_line:
        return printable(text)
    return "\n".join("\t".join(printable(part) for part in line.split("\t")) for line in text.split("\n"))


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table: the first column to the left, numbers to the right, each as wide as what is in it."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for name, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *cells]).rstrip())
    return lines
