"""Text from files on a terminal: what would control it is escaped."""

from __future__ import annotations


def visible(text: str, *, one_line: bool = False) -> str:
    """Text with control characters escaped; line breaks and tabs stay, unless all has to stand on one line."""
    from tokfmt.core.errors import printable

    if one_line:
        return printable(text)
    return "\n".join("\t".join(printable(part) for part in line.split("\t")) for line in text.split("\n"))
