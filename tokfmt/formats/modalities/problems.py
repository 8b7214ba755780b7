"""What is wrong with a pack, in one place: the reader raises or notes it, the checker lists it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tokfmt.core.errors import CorruptError, FormatError, printable
from tokfmt.core.format import Finding


@dataclass(frozen=True, slots=True)
class Problem:
    """One violation of the layout.

    Attributes:
        code, severity: Of the Finding.
        error: The error, as it is raised when the pack cannot be read because of it.
        fatal: The pack cannot be read because of it.
        note: What a reader says of it when it goes on; "" for nothing.
    """

    code: str
    severity: str
    error: FormatError
    fatal: bool = False
    note: str = ""

    def finding(self) -> Finding:
        return finding(self.code, self.severity, self.error)


def finding(code: str, severity: str, error: FormatError) -> Finding:
    """An error as a line of a check: the same words."""
    remedy = error.remedy or ""
    message = str(error).removeprefix(f"{printable(error.path)}: ")
    message = message.removesuffix(f". {remedy}") if remedy else message
    return Finding(code, severity, error.path, message, remedy, error.offset)


def corrupt(
    code: str,
    path: Path,
    what: str,
    *,
    offset: int | None = None,
    expected: object = None,
    found: object = None,
    remedy: str | None = None,
    note: str = "",
    severity: str = "error",
) -> Problem:
    """A problem worded as a CorruptError; an error is fatal unless there is a note, which the reader then leaves."""
    error = CorruptError(path, what, offset=offset, expected=expected, found=found, remedy=remedy)
    return Problem(code, severity, error, fatal=severity == "error" and not note, note=note)
