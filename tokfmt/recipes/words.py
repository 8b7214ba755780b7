"""Sources of a recipe as people type them: `web=web.pbin:0.7`, or a blend list of Megatron-LM.

A blend list is weights and prefixes in turn, as `--data-path` takes them, on the command line or in a file
(`--data-args-path`): `0.7 web_text_document 0.3 code_text_document`. Source: NVIDIA/Megatron-LM,
megatron/training/arguments.py and core/datasets/utils.py (`get_blend_from_list`): prefixes alone are read as well, and
mean sources without weights.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokfmt.core.errors import FormatError, OptionError
from tokfmt.core.files import File
from tokfmt.core.text_format import printable

_WORD = re.compile(r"(?:(?P<name>[\w.-]+)=)?(?P<path>.+?)(?::(?P<weight>[0-9][0-9_.eE+-]*))?", re.DOTALL)
_MOST = 1 << 24  # bytes of a file


def entries_of(words: Sequence[str], directory: Path) -> list[dict[str, Any]]:
    """The `[[source]]` tables that words mean, with paths as seen from a directory.

    Args:
        words: `NAME=PATH:WEIGHT` (name and weight may be left out), or a blend list, or one file that holds such.
        directory: Where the recipe will stand.

    Raises:
        OptionError: A word that is none.
    """
    if len(words) > 1 and _number(words[0]) is not None:
        return _blend(words, directory, words[0])
    return [_entry(word, directory) for word in words]


def read_blend(path: Path) -> list[str]:
    """The words of a blend list.

    Raises:
        FormatError: The file cannot be read, or is no such list.
    """
    file = File(path)
    try:
        words = file.read(0, min(file.size, _MOST)).decode("utf-8", "replace").split()
    finally:
        file.close()
    if len(words) < 2 or _number(words[0]) is None or "\0" in words[0]:
        raise FormatError(
            path, "is neither a recipe nor a blend list", expected="weights and prefixes in turn",
            remedy="tokfmt recipe NAME=PATH:WEIGHT ... writes a recipe",
        )  # fmt: skip
    return words


def _blend(words: Sequence[str], directory: Path, first: str) -> list[dict[str, Any]]:
    if len(words) % 2:
        raise OptionError(f"{printable(first)} ...: a blend list is weights and prefixes in turn: their number is odd")
    found = []
    for weight, path in zip(words[::2], words[1::2], strict=True):
        number = _number(weight)
        if number is None:
            raise OptionError(f"{printable(weight)}: a weight is expected here, before {printable(path)}")
        found.append({"path": _seen_from(directory, path), "weight": number})
    return found


def _entry(word: str, directory: Path) -> dict[str, Any]:
    match = _WORD.fullmatch(word)
    if match is None:
        raise OptionError(f"{printable(word)!r} is not of the form NAME=PATH:WEIGHT")
    found: dict[str, Any] = {"path": _seen_from(directory, match["path"])}
    if match["name"]:
        found["name"] = match["name"]
    if match["weight"] is not None:
        weight = _number(match["weight"])
        if weight is None:
            raise OptionError(f"{printable(word)}: {match['weight']} is no weight")
        found["weight"] = weight
    return found


def _seen_from(directory: Path, path: str) -> str:
    return path if os.path.isabs(path) else os.path.relpath(path, directory)


def _number(word: str) -> int | float | None:
    try:
        value = float(word)
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    return int(value) if value == int(value) and "." not in word else value
