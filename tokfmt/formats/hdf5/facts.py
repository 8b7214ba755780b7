"""What is written beside the tokens: tokfmt's own attributes, `n_examples`, and `data_params.json`.

Attributes of `data` in files that tokfmt wrote, all optional in every other file:

    stride         text     overlap, disjoint or corpus
    eos_id         int      the separator
    pad_id         int      what fills up the last sample
    first_token    int      position of the file's first token in the stream
    stream_tokens  int      tokens of the whole stream, separators included, padding not
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokfmt.core.dtypes import INT32_MAX
from tokfmt.core.errors import CorruptError, FormatError
from tokfmt.core.files import File
from tokfmt.formats.hdf5.container import Stored

PARAMS = "data_params.json"
_LARGEST_PARAMS = 1 << 20


@dataclass(frozen=True, slots=True)
class Own:
    """The attributes of one file that tokfmt wrote."""

    stride: str
    eos_id: int
    first_token: int
    stream_tokens: int


def own(stored: Stored) -> Own | None:
    """The attributes of a file, None when it is not tokfmt's.

    Raises:
        CorruptError: They are there but cannot be true.
    """
    facts = stored.facts
    if not {"stride", "first_token", "stream_tokens", "eos_id"} <= facts.keys():
        return None
    strides = ("corpus",) if stored.rank == 1 else ("overlap", "disjoint")
    if facts["stride"] not in strides:
        raise _untrue(stored, "stride", " or ".join(strides), facts["stride"])
    largest = INT32_MAX if stored.rank == 3 else 2**32 - 1
    numbers: dict[str, int] = {}
    for name, limit in (("eos_id", largest), ("first_token", 1 << 62), ("stream_tokens", 1 << 62)):
        value = facts[name]
        if not isinstance(value, int) or not 0 <= value <= limit:
            raise _untrue(stored, name, f"0..{limit:,}", value)
        numbers[name] = value
    step = _step(stored, str(facts["stride"]))
    rows, left = len(stored.table), numbers["stream_tokens"] - numbers["first_token"]
    fits = left >= rows if stored.rank == 1 else left >= (rows - 1) * step + 2
    if rows and not fits:
        raise _untrue(stored, "stream_tokens", f"enough tokens for {rows:,} rows", numbers["stream_tokens"])
    return Own(str(facts["stride"]), numbers["eos_id"], numbers["first_token"], numbers["stream_tokens"])


def pad_id(stored: Stored, params: Params) -> int | None:
    """What fills up samples, as far as the file's attributes or `data_params.json` say."""
    found = stored.facts.get("pad_id")
    return found if isinstance(found, int) and 0 <= found <= INT32_MAX else params.pad_id


def _step(stored: Stored, stride: str) -> int:
    """Tokens of the stream from one row to the next."""
    return stored.table.shape[2] + (stride == "disjoint")


def goes_on(before: tuple[Stored, Own], after: Own) -> bool:
    """Whether a file begins where the one before it in the stream ends."""
    stored, facts = before
    next_token = facts.first_token + len(stored.table) * _step(stored, facts.stride)
    same = (facts.stride, facts.eos_id, facts.stream_tokens) == (after.stride, after.eos_id, after.stream_tokens)
    return same and next_token == after.first_token


def _untrue(stored: Stored, name: str, expected: str, found: object) -> CorruptError:
    return CorruptError(
        stored.path, f"the attribute {name} of 'data' cannot be true", expected=expected, found=found,
        remedy="Delete the attribute, or say --from-opt stride=overlap|disjoint",
    )  # fmt: skip


def check_examples(stored: Stored) -> str:
    """A note on `n_examples` of a sample file, "" when it is right.

    Raises:
        CorruptError: It is another number than the rows that are there.
    """
    count, rows = stored.n_examples, len(stored.table)
    if count is None:
        return f"{stored.path.name}: n_examples is missing; iterable trainers refuse the file"
    if not isinstance(count, int):
        return f"{stored.path.name}: n_examples is not a whole number; iterable trainers refuse the file"
    if count != rows:
        raise CorruptError(
            stored.path, "n_examples is not the number of samples", expected=rows, found=count,
            remedy=f"Set the attribute n_examples to {rows:,} if all samples are good",
        )  # fmt: skip
    return ""


@dataclass(frozen=True, slots=True)
class Params:
    """What `data_params.json` says; hints only.

    Attributes:
        eos_id, pad_id, vocab_size: Numbers, None when it does not say.
        note: What was wrong with it, "" when nothing was.
    """

    eos_id: int | None = None
    pad_id: int | None = None
    vocab_size: int | None = None
    note: str = ""


def params_beside(files: Sequence[Path]) -> Params:
    """The hints of `data_params.json`, when all files lie in one directory that has one."""
    homes = {path.parent for path in files}
    place = next(iter(homes)) / PARAMS
    if len(homes) != 1 or not place.is_file():
        return Params()
    try:
        file = File(place)
        if file.size > _LARGEST_PARAMS:
            return Params(note=f"{PARAMS} is too large to be looked at ({file.size:,} bytes)")
        content = json.loads(file.read(0, file.size))
        file.close()
    except (ValueError, RecursionError, FormatError):
        return Params(note=f"{PARAMS} cannot be read and was left aside")
    return Params(_number_in(content, "eos_id"), _number_in(content, "pad_id"), _number_in(content, "vocab_size"))


def _number_in(content: Any, name: str) -> int | None:
    """A number from the section of either dialect that has it."""
    for section in ("processing", "post-process"):
        value = content.get(section, {}) if isinstance(content, dict) else {}
        value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32:
            return value
    return None
