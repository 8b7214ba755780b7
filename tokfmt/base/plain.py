"""The values of the documents that `--json` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def plain(value: Any) -> Any:
    """Convert dataclasses to dicts, sequences and arrays to lists, and other values that JSON does not have to text.

    A field that `repr` leaves out is not in the dict.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value) if one.repr}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if hasattr(value, "tolist"):  # of numpy, which --help does not import
        return value.tolist()
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
