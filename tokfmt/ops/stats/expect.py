"""`--expect` and `--baseline`: what must hold of statistics, and what has changed since an earlier document of --json.

Both name values by the dotted keys of the JSON document of `tokfmt stats`, such as `tokens` and `duplicates.share`.
"""

from __future__ import annotations

import json
import math
import operator
import os
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any

from tokfmt.core.errors import CorruptError, OptionError, UnsafeError
from tokfmt.core.files import File
from tokfmt.core.options import nearest, parse_count
from tokfmt.ops.stats.report import SCHEMA_VERSION, Report, Statistics

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
        if expected.total and report.total is None and report.several:
            found.append(Unmet("total", f"expected {expected.text}, but {report.failures[0].path} could not be read"))
            continue
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
    exact = (document.get("sampled") or {}).get("exact", ())
    return " (estimated from a sample)" if document.get("estimated") and expected.key not in exact else ""


_LARGEST = 1 << 28
_NOT_COMPARED = ("path", "estimated", "eos_from", "eos_inferred")
_OF_STORAGE = (
    "format", "layout", "dtype", "bytes", "bytes_per_token", "sample_length", "eos_id", "separators", "padding",
    "masked",
)  # fmt: skip
_EXACT = ("max_id", "eos_id", "first_tokens.commonest", "last_tokens.commonest", "ids.vocab_size", "sample_length")
_SHARES = ("share", "coverage")

Document = Mapping[str, Any]


def parse_tolerance(text: str) -> float:
    """`1%` or `0.01`.

    Raises:
        OptionError: It is neither.
    """
    percent = text.strip().endswith("%")
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise OptionError(f"--tolerance {text!r}: write it like 1% or 0.01", name="tolerance")
    return value / 100 if percent else value


def read_baseline(path: str | os.PathLike[str]) -> list[Document]:
    """The datasets of an earlier document.

    Raises:
        FormatError: It is none.
    """
    file = File(path)
    try:
        if file.size > _LARGEST:
            raise UnsafeError(path, "is too large for a document of tokfmt stats", found=f"{file.size:,} bytes")
        found = json.loads(file.read(0, file.size))
    except (ValueError, RecursionError) as error:
        raise CorruptError(path, "is not JSON", remedy="tokfmt stats --json writes a baseline") from error
    finally:
        file.close()
    version = found.get("schema_version") if isinstance(found, dict) else None
    if version != SCHEMA_VERSION:
        raise CorruptError(
            path, "is not a document of tokfmt stats that can be compared with", expected=f"schema_version "
            f"{SCHEMA_VERSION}", found=version, remedy="tokfmt stats --json writes a baseline",
        )  # fmt: skip
    datasets = found.get("datasets", [found])
    return [one for one in datasets if isinstance(one, dict)] if isinstance(datasets, list) else []


def deviations(report: Report, baseline: list[Document], tolerance: float) -> list[Unmet]:
    """Values that have changed by more than the tolerance.

    Counts, lengths and the like may change by that part of what they were; shares by that much (0.01 is one percentage
    point); ids, types and names not at all. Lists and what was switched off in either run are not compared, nor is how
    the data is stored where that is another format than it was.
    """
    if len(baseline) != len(report.datasets):
        return [Unmet("", f"the baseline is of {len(baseline)} datasets, this is of {len(report.datasets)}")]
    return [
        Unmet(one.path, text)
        for one, before in zip(report.datasets, baseline, strict=True)
        for text in _changes(before, one.as_json(), tolerance)
    ]


def _changes(before: Document, now: Document, tolerance: float) -> Iterator[str]:
    moved = value_at(before, "format") != value_at(now, "format")
    for key in known_keys():
        parent = key.rpartition(".")[0]
        if moved and key.partition(".")[0] in _OF_STORAGE:
            continue
        if key in _NOT_COMPARED or key.startswith("sampled.") or (parent and _absent(before, now, parent)):
            continue
        old, new = value_at(before, key), value_at(now, key)
        if not _alike(key, old, new, tolerance):
            yield f"{key} was {worded(old)}, is {worded(new)}{_by(key, old, new, tolerance)}"


def _absent(before: Document, now: Document, parent: str) -> bool:
    top = parent.partition(".")[0]
    return before.get(top) is None or now.get(top) is None


def _alike(key: str, old: Scalar, new: Scalar, tolerance: float) -> bool:
    if key in _EXACT or not isinstance(old, (int, float)) or not isinstance(new, (int, float)):
        return old == new
    room = tolerance if key.endswith(_SHARES) else tolerance * abs(old)
    return abs(new - old) <= room


def _by(key: str, old: Scalar, new: Scalar, tolerance: float) -> str:
    if key in _EXACT or not isinstance(old, (int, float)) or not isinstance(new, (int, float)) or not old:
        return ""
    return f" ({(new - old) / old:+.2%}, tolerance {tolerance:.3g})" if not key.endswith(_SHARES) else ""
