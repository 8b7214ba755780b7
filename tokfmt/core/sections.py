"""Sections of files, put together: what all formats share in naming the parts of their files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tokfmt.core.errors import FormatError, TokfmtError, printable
from tokfmt.core.protocols import Field
from tokfmt.core.text_format import shortened

SHOWN = 96
"""Characters of a value from a file that are shown."""


_TOGETHER, _MANY = 4, 4096  # fields that fail together, and more than which are not tried in halves


class Fields(Protocol):
    """The fields of a section, however they are come by."""

    @property
    def count(self) -> int: ...

    def fields(self, first: int, last: int) -> Sequence[Field]: ...


@dataclass(frozen=True, slots=True)
class Listed:
    """Fields at hand."""

    held: Sequence[Field]

    @property
    def count(self) -> int:
        return len(self.held)

    def fields(self, first: int, last: int) -> Sequence[Field]:
        return self.held[max(0, first) : max(0, last)]


@dataclass(slots=True)
class Part:
    """A section that is opened when it is first looked at. Never raises for damaged content: it says so in a field.

    Attributes:
        title, path: See `protocols.Section`.
        open: Called once.
    """

    title: str
    path: Path
    open: Callable[[], Fields | Sequence[Field]]
    _opened: Fields | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def count(self) -> int:
        """How many fields there are."""
        return self._fields().count

    def fields(self, first: int, last: int) -> Sequence[Field]:
        """See `protocols.Section`. Where some fields cannot be read, others are; what failed stands for each."""
        first = max(0, first)
        try:
            return self._fields().fields(first, last)
        except TokfmtError as error:
            failed = broken(error)
        last = min(last, self.count)
        if not _TOGETHER < last - first <= _MANY:
            return (failed,) * max(0, last - first)
        middle = (first + last) // 2
        return (*self.fields(first, middle), *self.fields(middle, last))

    def _fields(self) -> Fields:
        with self._lock:
            if self._opened is None:
                try:
                    found = self.open()
                    self._opened = Listed(found) if isinstance(found, Sequence) else found
                except TokfmtError as error:
                    self._opened = Listed((broken(error),))
            return self._opened


def broken(error: TokfmtError) -> Field:
    """What cannot be read, as a field."""
    if not isinstance(error, FormatError):
        return Field("unreadable", None, 0, shown(error), wrong=True)
    contrast = [f"{word} {shown(value)}" for word, value in _contrast(error) if value is not None]
    value = f"{printable(error.what)}{': ' if contrast else ''}{', '.join(contrast)}"
    path = None if error.offset is None else Path(error.path)
    return Field("unreadable", error.offset, 0, value, error.remedy or "", wrong=True, path=path)


def _contrast(error: FormatError) -> Sequence[tuple[str, object]]:
    return ("expected", error.expected), ("found", error.found)


def shown(value: object) -> str:
    """A value from a file, for people: numbers grouped, control characters escaped, shortened."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = printable(value)
    return shortened(text, SHOWN)
