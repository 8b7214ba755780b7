"""What can be wrong with a line, as values; and the error for each, with the line's number."""

from __future__ import annotations

from dataclasses import dataclass

from tokfmt.core.errors import CorruptError, FormatError, Loss, LossyConversionError, TokenRangeError, TokfmtError
from tokfmt.formats.jsonl.lines import line_number
from tokfmt.formats.jsonl.streams import TextFile

LARGEST_ID = (1 << 32) - 1
DROP = "--drop invalid-lines leaves such lines out"


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a line is no record.

    Attributes:
        what: In words that follow "line 3".
        at: Byte in the line.
        found, remedy: As in FormatError.
        kind: The error to raise.
        code: Of the finding; see `check`.
    """

    what: str
    at: int = 0
    found: str | None = None
    remedy: str = f"Correct it; {DROP}"
    kind: type[FormatError] = CorruptError
    code: str = "TF501"


@dataclass(frozen=True, slots=True)
class OtherFields:
    """A record that holds more than the field that is read."""

    field: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IdTooLarge:
    """A record with an id that no token dataset holds; `position` in the record."""

    token: int
    position: int


Problem = Fault | OtherFields | IdTooLarge


def line_error(text: TextFile, offset: int, problem: Problem) -> TokfmtError:
    """The error for the line that begins at byte `offset`. Counts the lines before it."""
    number = line_number(text, offset)
    if isinstance(problem, OtherFields):
        names = ", ".join(f'"{name}"' for name in problem.names)
        return LossyConversionError(
            str(text.path), [Loss("fields", f'fields beside "{problem.field}" in line {number:,} ({names})')]
        )
    if isinstance(problem, IdTooLarge):
        return TokenRangeError(f"{text.path}: line {number:,}", problem.token, LARGEST_ID, problem.position)
    where = " of the decompressed text" if text.compression else ""
    return problem.kind(
        text.path, f"line {number:,}{where} {problem.what}",
        offset=offset + problem.at, found=problem.found, remedy=problem.remedy,
    )  # fmt: skip
