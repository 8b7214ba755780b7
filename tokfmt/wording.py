"""Format numbers and text for people: counts, sizes, bars, tables, and text from files for a terminal."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

_EIGHTHS = "▏▎▍▌▋▊▉█"
_LONGEST_NUMBER = 10**21


def plural(word: str, number: int) -> str:
    """Return `sequence` for 1, `sequences` for another number."""
    return word if number == 1 else f"{word}s"


def counted(number: int, word: str) -> str:
    """Return `1 sequence`, `2,000 sequences`."""
    return f"{grouped(number)} {plural(word, number)}"


def grouped(number: int) -> str:
    """Return `2,000`. Of a number with 22 or more digits, which only damaged files state, return the digit count."""
    if abs(number) < _LONGEST_NUMBER:
        return f"{number:,}"
    return f"a number of {math.floor(math.log10(abs(number))) + 1:,} digits"


def short(number: int) -> str:
    """Return a number in at most seven characters: `999,999`, `12.3M`, `4.56G`."""
    if number < 1_000_000:
        return f"{number:,}"
    for unit, size in (("E", 10**18), ("P", 10**15), ("T", 10**12), ("G", 10**9), ("M", 10**6)):
        if number >= size:
            value = number / size
            return f"{value:.2f}{unit}" if value < 10 else f"{value:.1f}{unit}" if value < 100 else f"{value:.0f}{unit}"
    return str(number)


def human_bytes(size: int) -> str:
    """Return a size in decimal units: `1.4 MB`."""
    value, units = float(size), ["bytes", "kB", "MB", "GB", "TB", "PB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:,.0f} {units[0]}" if units[0] == "bytes" else f"{value:,.1f} {units[0]}"


def human_time(seconds: float) -> str:
    """Return a duration in the largest unit of which there are two: `under a second`, `95 seconds`, `2.4 days`."""
    units = (("day", 86_400.0), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0))
    for word, size in units:
        if seconds >= 2 * size:
            return f"{seconds / size:,.{0 if word == 'second' or seconds >= 10 * size else 1}f} {word}s"
    return "1 second" if seconds >= 1 else "under a second"


def one_of(words: Sequence[str]) -> str:
    """Return words as a list in prose: `a, b or c`."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def shortened(text: str, room: int) -> str:
    """Return text in at most `room` characters; an ellipsis replaces the end."""
    return text if len(text) <= room else f"{text[: room - 1]}…"


_INNER = {"header_bytes", "index_bytes"}
"""Facts of a format that say nothing about its content; `--json` has them."""

_USUAL = {"byte_order": "little", "files": 1, "prefixes": 1, "blocks": 1}
"""Values that go without saying."""


def shown_facts(facts: Mapping[str, object]) -> dict[str, str]:
    """Return the facts in words, without those that are empty, 0, usual, or only `--json` has."""
    kept = {key: value for key, value in facts.items() if key not in _INNER and _USUAL.get(key) != value}
    return {key: value_words(value) for key, value in kept.items() if value not in (0, -1, None, "", (), [])}


def listed_facts(facts: Mapping[str, object]) -> str:
    """Return the facts of `shown_facts` as `width 2, layout D`."""
    return ", ".join(f"{key.replace('_', ' ')} {words}" for key, words in shown_facts(facts).items())


def value_words(value: object) -> str:
    """Return a value as text, and several values separated by spaces."""
    return " ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def bar(share: float, room: int) -> str:
    """Return a bar of block characters, `room` of them for a share of 1, and at least one for a share above 0."""
    eighths = max(round(share * room * 8), 1 if share > 0 else 0)
    return _EIGHTHS[-1] * (eighths // 8) + (_EIGHTHS[eighths % 8 - 1] if eighths % 8 else "")


def percent(share: float) -> str:
    """Return a share with one decimal; "<0.1%" for a smaller one that is not 0."""
    return f"{share:.1%}" if share >= 0.001 or not share else "<0.1%"


def printable(text: object) -> str:
    """Escape control characters and bidirectional marks of text from a file or a path, for a terminal."""
    if (plain := str(text)).isprintable():
        return plain
    # os.fsdecode returns undecodable bytes of a file name as lone surrogates, which a terminal cannot print.
    safe = plain.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in safe)


def visible(text: str, *, one_line: bool = False) -> str:
    """Escape control characters. Line breaks and tabs stay, unless the text has to fit on one line."""
    if one_line:
        return printable(text)
    return "\n".join("\t".join(printable(part) for part in line.split("\t")) for line in text.split("\n"))


def columns(rows: Sequence[Sequence[str]], words: Collection[int] = (0,)) -> list[str]:
    """Return the lines of a table: the columns in `words` left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        sized = enumerate(zip(row, widths, strict=True))
        cells = [cell.ljust(width) if number in words else cell.rjust(width) for number, (cell, width) in sized]
        lines.append("  ".join(cells).rstrip())
    return lines


def html_table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]], notes: Iterable[str] = ()) -> str:
    """Return a table for notebooks: text escaped, numbers grouped, other cells left-aligned, None empty."""
    from html import escape  # Few commands need it, and all import this module.

    def cells(tag: str, row: Sequence[object]) -> str:
        words = (f"{one:,}" if isinstance(one, int) else escape(str("" if one is None else one)) for one in row)
        return "<tr>" + "".join(f"<{tag} style='text-align:left'>{word}</{tag}>" for word in words) + "</tr>"

    lines = "".join(f"<div>{escape(note)}</div>" for note in notes)
    body = "".join(cells("td", row) for row in rows)
    table = f"<table><thead>{cells('th', heads)}</thead><tbody>{body}</tbody></table>" if body else ""
    return f"<div><b>tokfmt</b> {escape(title)}{lines}{table}</div>"


def separator_words(separator: int, origin: str, seen: str) -> str:
    """Return what every command says of a separator: its ID, how it is known, and how it was seen."""
    known = "; ".join(words for words in (origin, seen) if words)
    return f"{separator} ({known})" if known else str(separator)
