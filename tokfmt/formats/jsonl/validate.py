"""Whether lines are JSON, as Python's json sees it: what decides which lines a raw index has.

NaN, Infinity, lone surrogate escapes, duplicate keys, a byte order mark, and values that are no objects are all fine; a
number of more than 4,300 digits is not. Two things differ: bytes are strict UTF-8, and nesting ends at 512 levels.
"""

from __future__ import annotations

import json

import msgspec

from tokfmt.formats.jsonl.lines import Lines
from tokfmt.formats.jsonl.parse import load, skippable, skippable_line
from tokfmt.formats.jsonl.problems import Fault
from tokfmt.formats.jsonl.streams import BOM

_DIGITS = 4300  # what Python converts at most
_LONG_NUMBER = b"0" * (_DIGITS + 1)
_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")
_REFUSED = (msgspec.DecodeError, RecursionError)


class Validator:
    """Finds the lines that are not JSON."""

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(msgspec.Raw)  # looks at syntax, makes no objects

    def faults(self, lines: Lines) -> list[tuple[int, Fault]]:
        """Index of each line that is not JSON, and why."""
        if self._all_fine(lines):
            return []
        found = ((index, self.fault(line)) for index, line in enumerate(lines.tolist()))
        return [(index, fault) for index, fault in found if fault is not None]

    def _all_fine(self, lines: Lines) -> bool:
        if not lines.braced():
            return False
        text = lines.joined()
        longest = int((lines.ends - lines.starts).max())
        if not skippable(lines) or (longest > _DIGITS and _has_long_number(bytes(text))):
            return False
        try:
            return len(self._decoder.decode_lines(text)) == len(lines)
        except _REFUSED:
            return False

    def fault(self, line: bytes) -> Fault | None:
        """Why a line is not JSON; None when it is."""
        long_number = len(line) > _DIGITS and _has_long_number(line)
        if not long_number and skippable_line(line):
            try:
                self._decoder.decode(line)
            except _REFUSED:
                pass
            else:
                return None
        loaded = load(line.removeprefix(BOM))
        if isinstance(loaded, Fault):
            return loaded
        return _number_fault(line) if long_number else None


def _has_long_number(text: bytes) -> bool:
    return _LONG_NUMBER in text.translate(_TO_ZERO)


def _number_fault(line: bytes) -> Fault | None:
    try:
        json.loads(line)
    except ValueError:
        return Fault(f"holds a number of more than {_DIGITS:,} digits")
    return None
