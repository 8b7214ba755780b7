"""`--expect 'max_id < 50257'`: what must hold, and what does not."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tokfmt.core.errors import OptionError
from tokfmt.core.options import parse_count
from tokfmt.ops.stats.keys import Scalar, checked_key, value_at, worded
from tokfmt.ops.stats.report import Report

_SHAPE = re.compile(r"\s*([\w.-]+?)\s*(<=|>=|==|!=|=|<|>)\s*(.+?)\s*", re.DOTALL)
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_WORDS: Mapping[str, Scalar] = {"true": True, "false": False, "null": None, "none": None}
_TOTAL = "total."


@dataclass(frozen=True, slots=True)
class Expectation:
    """One thing that must hold.

    Attributes:
        key: Dotted; `total` says that it is asked of all datasets together, else of each.
        sign: "<", "<=", ">", ">=", "==" or "!=".
        value: To compare with.
        text: As the user wrote it.
    """

    key: str
    sign: str
    value: Scalar
    total: bool = False
    text: str = ""

    def holds(self, found: Scalar) -> bool:
        """Whether a value is as expected. An unknown one only equals null."""
        if self.sign in ("==", "!="):
            return bool(_COMPARE[self.sign](found, self.value))
        if not isinstance(found, (int, float)) or not isinstance(self.value, (int, float)):
            return False
        return _COMPARE[self.sign](found, self.value)


@dataclass(frozen=True, slots=True)
class Unmet:
    """Something that does not hold: in which dataset, and in words."""

    path: str
    message: str


def parse_expectation(text: str) -> Expectation:
    """`KEY OP VALUE`, as in `tokens >= 1e6`, `duplicates.share < 1%`, `dtype == uint16`, `total.tokens > 10M`.

    Raises:
        OptionError: It is not of that form, or there is no such key.
    """
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise OptionError(f"--expect {text!r}: write it like 'tokens >= 1e6' or 'duplicates.share < 0.01'", name=text)
    name, sign, value = match.groups()
    total = name.startswith(_TOTAL)
    key = checked_key(name.removeprefix(_TOTAL).replace("-", "_"))
    sign = "==" if sign == "=" else sign
    parsed = _value(value)
    if sign not in ("==", "!=") and not (isinstance(parsed, (int, float)) and not isinstance(parsed, bool)):
        raise OptionError(f"--expect {text!r}: {value!r} is not a number; write it like 4096, 1e6, 10M, 0.01 or 1%")
    return Expectation(key, sign, parsed, total, " ".join(text.split()))


def _value(text: str) -> Scalar:
    plain = text.strip("'\"")
    if plain.lower() in _WORDS:
        return _WORDS[plain.lower()]
    try:
        return parse_count(plain)
    except OptionError:
        pass
    percent = plain.endswith("%")
    try:
        value = float(plain.removesuffix("%").replace("_", "").replace(",", ""))
    except ValueError:
        return plain
    if not math.isfinite(value):
        return plain
    return value / 100 if percent else value


def unmet(report: Report, expectations: Iterable[Expectation]) -> list[Unmet]:
    """What does not hold of the datasets, in the order of the expectations."""
    found = []
    for expected in expectations:
        asked = [report.total or report.datasets[0]] if expected.total else report.datasets
        for one in asked:
            value = value_at(one.as_json(), expected.key)
            if not expected.holds(value):
                found.append(
                    Unmet(one.path, f"expected {expected.text}, found {worded(value)}{_why(one.as_json(), expected)}")
                )
    return found


def _why(document: Mapping[str, Any], expected: Expectation) -> str:
    if value_at(document, expected.key) is None:
        parent = expected.key.partition(".")[0]
        hints = {
            "duplicates": "not looked for, or not in a sample",
            "packing": "--seq-len asks for it",
            "text": "there is no text",
        }
        return f" ({hints[parent]})" if parent in hints else ""
    return " (estimated from a sample)" if document.get("estimated") else ""
