"""Expectations of the values of a report: `--expect 'max_id < 50257'` of stats and overlap.

Keys are those of `--json`, dotted where objects nest: `tokens`, `duplicates.share`.
"""

from __future__ import annotations

import math
import operator
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any

from tokfmt.base.options import nearest, parse_count
from tokfmt.errors import OptionError

Scalar = int | float | str | bool | None

_SHAPE = re.compile(r"\s*([\w.-]+?)\s*(<=|>=|==|!=|=|<|>)\s*([^\s<>=!].*?)\s*", re.DOTALL)
_GRAMMAR = "Write KEY OP VALUE; OP is one of <, <=, >, >=, ==, !=, as in 'tokens >= 1e6' or 'max_share < 1%'"
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_OF_BASELINE = re.compile(r"(?:(\d+(?:\.\d+)?)\s*%\s+of\s+)?baseline")
_WORDS: Mapping[str, Scalar] = {"true": True, "false": False, "null": None, "none": None}


@dataclass(frozen=True, slots=True)
class Expectation:
    """An expectation of `--expect`."""

    key: str  # the dotted key of a value
    sign: str  # "<", "<=", ">", ">=", "==" or "!="
    value: Scalar  # the value to compare with; a share of the earlier value if `is_of_baseline`
    text: str  # the expectation as given
    is_of_baseline: bool = False

    def wanted(self, before: Scalar) -> Scalar:
        """Return the value to compare with, given that of the baseline."""
        if self.is_of_baseline and isinstance(before, (int, float)) and isinstance(self.value, float):
            return before if self.value == 1 else self.value * before
        return before if self.is_of_baseline else self.value

    def holds(self, value: Scalar, before: Scalar = None) -> bool:
        """Return True if a value is as expected, given that of the baseline. An unknown value equals null only."""
        wanted = self.wanted(before)
        if self.sign in ("==", "!="):
            return bool(_COMPARE[self.sign](value, wanted))
        if not isinstance(value, (int, float)) or not isinstance(wanted, (int, float)):
            return False
        return _COMPARE[self.sign](value, wanted)


@cache
def kinds_of(report: type) -> dict[str, type]:
    """Return the type of the value at each key of a dataclass that holds a single value: int, float, str or bool."""
    return dict(_kinds(report, ""))


def _kinds(kind: type, prefix: str) -> Iterator[tuple[str, type]]:
    hints = typing.get_type_hints(kind)
    for field in fields(kind):
        hint = hints[field.name]
        if isinstance(hint, types.UnionType):
            hint = next(part for part in typing.get_args(hint) if part is not types.NoneType)
        if is_dataclass(hint) and isinstance(hint, type):
            yield from _kinds(hint, f"{prefix}{field.name}.")
        elif hint in (int, float, str, bool):
            yield prefix + field.name, hint


def expectation(text: str, kinds: Mapping[str, type], command: str, *, has_baseline: bool = False) -> Expectation:
    """Parse `KEY OP VALUE`, such as `tokens >= 1e6`, `dtype == uint16` or `tokens >= 99% of baseline`."""
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise OptionError(f"--expect {text!r} is not an expectation. {_GRAMMAR}", name=text)
    name, sign, value = match.groups()
    key, sign = name.replace("-", "_"), "==" if sign == "=" else sign
    if key not in kinds:
        inner = next((known for known in kinds if known.startswith(f"{key}.")), None)
        near = nearest(key.replace("largest", "max"), kinds) or inner
        raise OptionError(f"{command} has no value {key!r}", name=key, nearest=near)
    if share := _OF_BASELINE.fullmatch(value):
        if not has_baseline:
            raise OptionError(f"--expect {text!r} compares with a baseline, and none is given", name=text)
        if share[1] and kinds[key] not in (int, float):
            raise OptionError(f"--expect {text!r}: a share is of a number. Write {name} {sign} baseline", name=text)
        return Expectation(key, sign, float(share[1] or 100) / 100, " ".join(text.split()), is_of_baseline=True)
    parsed, problem = _value(value, kinds[key], of_bytes="bytes" in key.split("."))
    if not problem and sign not in ("==", "!=") and (isinstance(parsed, (str, bool)) or parsed is None):
        problem = f"{sign} compares numbers (found {worded(parsed) if parsed is not None else 'null'})"
    if problem:
        raise OptionError(f"--expect {text!r}: {problem}. {_GRAMMAR}", name=text)
    return Expectation(key, sign, parsed, " ".join(text.split()))


def _value(text: str, kind: type, *, of_bytes: bool) -> tuple[Scalar, str]:
    """Return a value of the given type, or None for null; and the problem with the text, "" without one."""
    plain = text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
    word = _WORDS.get(plain.lower(), plain)
    if word is None or (isinstance(word, bool) and kind is bool):
        return word, ""
    if kind is str:
        return plain, ""
    if kind is bool:
        return None, f"{plain!r} is neither true nor false"
    try:
        return parse_count(plain, of_bytes=of_bytes), ""
    except OptionError:
        pass
    try:
        value = float(plain.removesuffix("%").replace("_", "").replace(",", ""))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        return None, f"{plain!r} is not a number"
    if plain.endswith("%") and kind is int:
        return None, f"{plain!r} is a share, and the value is a count"
    return value / 100 if plain.endswith("%") else value, ""


def value_at(document: Mapping[str, Any], key: str) -> Scalar:
    """Return the value at a dotted key; None if it, or an object around it, is null or missing."""
    value: Any = document
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value if isinstance(value, (int, float, str, bool)) else None


def worded(value: Scalar) -> str:
    """Return a value in words, for messages."""
    if value is None:
        return "unknown"
    if isinstance(value, (bool, str)):
        return str(value).lower() if isinstance(value, bool) else value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
