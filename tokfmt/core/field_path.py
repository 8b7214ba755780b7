"""Paths to fields of records: `meta.text`, and `messages.0.content`, in which a number selects an element of a list."""

from __future__ import annotations

import re
from collections.abc import Iterable

_KEY = re.compile(r"\.((?:[^.\\]|\\[.\\])*)", re.DOTALL)


def keys_of(path: str) -> tuple[str, ...] | None:
    """Return the keys of a dotted path: `meta.text`, or `.meta.text` as in jq, is ("meta", "text").

    A backslash before a dot makes it part of a key: `data\\.text` is ("data.text",). A backslash is written twice. In a
    list, a number selects an element: `messages.0.content`. The result is None if a key is empty, or a backslash
    precedes another character.
    """
    keys = tuple(_KEY.findall(f".{path.removeprefix('.')}"))
    if ".".join(keys) != path.removeprefix(".") or not all(keys):
        return None
    return tuple(re.sub(r"\\(.)", r"\1", key) for key in keys)


def shown_path(keys: Iterable[str]) -> str:
    """Return the dotted path of keys; the inverse of `keys_of`."""
    return ".".join(re.sub(r"([\\.])", r"\\\1", key) if "." in key or "\\" in key else key for key in keys)


def step(document: object, key: str) -> object:
    """Return the value of a key of an object, or the element of a list; raise ValueError without one."""
    if isinstance(document, dict) and key in document:
        return document[key]
    if isinstance(document, list) and key.isdecimal() and int(key) < len(document):
        return document[int(key)]
    raise ValueError(key)


def value_at(document: object, keys: tuple[str, ...]) -> object:
    """Return the value at a path of keys in a parsed line; None without one."""
    try:
        for key in keys:
            document = step(document, key)
    except ValueError:
        return None
    return document
