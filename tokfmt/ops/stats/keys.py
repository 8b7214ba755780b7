"""Dotted keys of the JSON document of `tokfmt stats`, for --expect and --baseline."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from tokfmt.core.errors import OptionError
from tokfmt.core.options import nearest
from tokfmt.ops.stats.report import Statistics

Scalar = int | float | str | bool | None


@cache
def known_keys() -> tuple[str, ...]:
    """Every key that holds one value, such as `tokens` and `duplicates.share`."""
    return tuple(_keys(Statistics, ""))


def _keys(kind: type, prefix: str) -> Iterator[str]:
    hints = typing.get_type_hints(kind)
    for field in fields(kind):
        hint = hints[field.name]
        if isinstance(hint, types.UnionType):
            hint = next(part for part in typing.get_args(hint) if part is not types.NoneType)
        if is_dataclass(hint) and isinstance(hint, type):
            yield from _keys(hint, f"{prefix}{field.name}.")
        elif hint in (int, float, str, bool):
            yield prefix + field.name


def checked_key(key: str) -> str:
    """The key itself.

    Raises:
        OptionError: There is no such key; names the nearest.
    """
    if key not in known_keys():
        near = nearest(key, known_keys()) or next((one for one in known_keys() if one.startswith(f"{key}.")), None)
        raise OptionError(f"tokfmt stats has no value {key!r}", name=key, nearest=near)
    return key


def value_at(document: Mapping[str, Any], key: str) -> Scalar:
    """The value at a dotted key; None where it, or what should hold it, is null or missing."""
    value: Any = document
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value if isinstance(value, (int, float, str, bool)) else None


def worded(value: Scalar) -> str:
    """A value for people."""
    if value is None:
        return "unknown"
    if isinstance(value, (bool, str)):
        return str(value).lower() if isinstance(value, bool) else value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
