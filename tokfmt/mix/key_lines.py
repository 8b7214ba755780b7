"""Find the keys of a recipe in its text, with their byte offsets, for `show --raw` and the browser.

A parser of TOML does not state where a key is. The lines of a recipe are therefore matched with patterns. A line that
looks like a key, but has a name that the language does not have there, belongs to the value before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import NamedTuple

from tokfmt.mix.language import RecipeFile, SourceEntry
from tokfmt.text.filter_rules import FilterRules

_TABLE = re.compile(rb"^[ \t]*(\[\[?)[ \t]*([^\]\n]+?)[ \t]*\]\]?[ \t]*(?:#[^\n]*)?\r?$", re.MULTILINE)
_KEY = re.compile(rb"^[ \t]*([A-Za-z_][\w-]*)[ \t]*=[ \t]*", re.MULTILINE)


class KeyLine(NamedTuple):
    """A key of a recipe."""

    name: str
    offset: int  # of the key
    length: int  # of the key and its value, in bytes
    value: str  # as it is written


class Table(NamedTuple):
    """A table of a recipe."""

    title: str  # "recipe" for the keys above all tables, else the words in brackets, with the number of a source
    keys: tuple[KeyLine, ...]


def tables_of(text: bytes) -> Iterator[Table]:
    """Yield the tables of the text of a recipe, the keys above all tables first."""
    heads = [(match.start(), match.end(), match[2].decode("utf-8", "replace")) for match in _TABLE.finditer(text)]
    bounds = [*(start for start, _, _ in heads), len(text)]
    yield Table("recipe", tuple(_keys(text, 0, bounds[0], _known(RecipeFile))))
    sources = 0
    for (_, begin, name), end in zip(heads, bounds[1:], strict=True):
        allowed = (
            _known(SourceEntry) if name == "source" else _known(FilterRules) if name.startswith("filter") else None
        )
        if allowed is None and not name.startswith("source"):
            continue
        keys = tuple(_keys(text, begin, end, allowed))
        if name == "source":
            source_name = next((key.value.strip("\"'") for key in keys if key.name == "name"), "")
            yield Table(f"source {sources}{f' ({source_name})' if source_name else ''}", keys)
            sources += 1
        else:
            yield Table(name, keys)


def _known(kind: type) -> frozenset[str]:
    return frozenset(key.name for key in fields(kind))


def _keys(text: bytes, begin: int, end: int, allowed: frozenset[str] | None) -> Iterator[KeyLine]:
    matches = [match for match in _KEY.finditer(text, begin, end) if allowed is None or match[1].decode() in allowed]
    for match, stop in zip(matches, [*(match.start() for match in matches[1:]), end], strict=True):
        value = _without_tail(text[match.end() : stop])
        offset = match.start(1)
        yield KeyLine(match[1].decode(), offset, match.end() + len(value) - offset, value.decode("utf-8", "replace"))


def _without_tail(value: bytes) -> bytes:
    """Return a value without the blank lines and the comments between it and the next key."""
    lines = value.split(b"\n")
    while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith(b"#")):
        lines.pop()
    return b"\n".join(lines).rstrip()
