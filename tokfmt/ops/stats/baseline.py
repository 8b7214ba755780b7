"""`--baseline old.json --tolerance 1%`: what has changed since an earlier `tokfmt stats --json`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from tokfmt.core.errors import CorruptError, OptionError, UnsafeError
from tokfmt.core.files import File
from tokfmt.ops.stats.expectations import Unmet
from tokfmt.ops.stats.keys import Scalar, known_keys, value_at, worded
from tokfmt.ops.stats.report import SCHEMA_VERSION, Report

_LARGEST = 1 << 28
_NOT_COMPARED = ("path", "estimated", "eos_from", "eos_inferred")
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
    point); ids, types and names not at all. Lists and what was switched off in either run are not compared.
    """
    if len(baseline) != len(report.datasets):
        return [Unmet("", f"the baseline is of {len(baseline)} datasets, this is of {len(report.datasets)}")]
    return [
        Unmet(one.path, text)
        for one, before in zip(report.datasets, baseline, strict=True)
        for text in _changes(before, one.as_json(), tolerance)
    ]


def _changes(before: Document, now: Document, tolerance: float) -> Iterator[str]:
    for key in known_keys():
        parent = key.rpartition(".")[0]
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
