"""Megatron-LM's blend lists: the prefixes of a corpus, each with its weight or none has one.

    data args file (--data-args-path)          text: `weight prefix weight prefix ...` or `prefix prefix ...`
    --per-split-data-args-path                 JSON: {"train": [...], "valid": [...], "test": null}, of the same words

- Words lie between any white space, so no prefix has a space. An odd number of words is prefixes; of an even number the
  words 1, 3, 5 ... are weights if all are numbers, and prefixes if none is. Upstream reads `1 a b c` as four prefixes
  and takes nan for a weight; both are refused here.
Source: NVIDIA/Megatron-LM d98e8a64, megatron/core/datasets/utils.py (get_blend_from_list), run.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tokfmt.core.errors import CorruptError, FormatError
from tokfmt.core.files import File
from tokfmt.formats.folders import parsed_object

LARGEST = 1 << 24  # bytes of a list; one of 100,000 prefixes has a third of that
_WORDS = 8
SPLITS = ("train", "valid", "test")


class Blended(NamedTuple):
    """A prefix of a blend list.

    Attributes:
        weight: Its share of the samples, before all are made to add up to 1; None where the list has no weights.
        prefix: As written.
    """

    weight: float | None
    prefix: str


def read_blend(path: Path, split: str = "train") -> list[Blended]:
    """The prefixes of a list, in its order; of one that lists splits, those of `split`, of which there may be none.

    Raises:
        FormatError: It is no such list, or what it means is not certain.
    """
    file = File(path)
    if file.size > LARGEST:
        raise CorruptError(path, "bytes of a blend list", expected=f"at most {LARGEST:,}", found=f"{file.size:,}")
    try:
        text = file.read(0, file.size).decode()
    except UnicodeDecodeError as error:
        raise CorruptError(path, "is no blend list", found=str(error)) from error
    finally:
        file.close()
    listed = text.lstrip().startswith("{")
    words = _of_split(path, parsed_object(path, text.encode()), split) if listed else text.split()
    numbers = [_number(word) for word in words]
    paired = len(words) % 2 == 0 and all(number is not None for number in numbers[::2])
    prefixes = words[1::2] if paired else words
    if nameless := next((word for word in prefixes if not Path(word).name), ""):
        raise CorruptError(path, "a prefix", expected="the name of files without their suffix", found=nameless)
    if wrong := next((word for word in prefixes if _number(word) is not None), ""):
        remedy = "Write a weight before each prefix, or before none"
        raise CorruptError(path, "weights and prefixes do not alternate", found=f"{wrong} as a prefix", remedy=remedy)
    weights = numbers[::2] if paired else [None] * len(words)
    if bad := next((word for word, w in zip(words[::2], weights, strict=False) if w is not None and not _sound(w)), ""):
        raise CorruptError(path, "a weight", expected="a finite number, 0 or more", found=bad)
    return [Blended(weight, prefix) for weight, prefix in zip(weights, prefixes, strict=True)]


def likely_prefixes(head: bytes) -> list[str]:
    """Words at the beginning of a file, one of which names a prefix if it is a list; none of what is no text."""
    listed = head.lstrip().startswith(b"{")
    if b"\0" in head or (listed and b'"train"' not in head):
        return []
    # quotes and brackets are of JSON; in a recipe, which names prefixes too, they make others of its words
    words = map(os.fsdecode, re.findall(rb"[^\s\"\[\]{},:]+" if listed else rb"\S+", head)[:_WORDS])
    return [word for word in words if Path(word).name]


def located(path: Path, prefix: str) -> Path:
    """A prefix of a list: beside it, or else as upstream resolves it, from where the program runs."""
    beside = path.parent / prefix
    return beside if os.path.isfile(f"{beside}.idx") or not os.path.isfile(f"{prefix}.idx") else Path(prefix)


def _of_split(path: Path, listed: Mapping[str, Any], split: str) -> list[str]:
    found = listed.get(split)
    if not set(SPLITS) <= set(listed) or split not in SPLITS:
        what = "is no list of splits" if split in SPLITS else f"has no split {split!r}"
        raise FormatError(path, what, expected=", ".join(SPLITS), found=", ".join(list(listed)[:4]))
    words = found.split() if isinstance(found, str) else [] if found is None else found
    if not isinstance(words, list) or not all(isinstance(word, (str, int, float)) for word in words):
        raise CorruptError(path, f"the words of {split}", expected="a list of texts", found=type(found).__name__)
    return [str(word) for word in words]


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _sound(weight: float) -> bool:
    return math.isfinite(weight) and weight >= 0
