"""What is wrong with a dataset, said once: the reader raises or notes it, the checker lists it, `--raw` marks it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tokfmt.core.errors import FormatError
from tokfmt.core.format import Finding


class Problem(NamedTuple):
    """One violation of a format's rules, in the words that every command uses.

    Attributes:
        code, severity: Of the Finding.
        error: The error, as it is raised when the dataset cannot be read because of it.
        fatal: It cannot be read because of it.
        note: What a reader says of it when it goes on; "" for nothing.
        accepted: The word of `--drop` with which the dataset can be read all the same.
    """

    code: str
    severity: str
    error: FormatError
    fatal: bool = False
    note: str = ""
    accepted: str = ""

    def finding(self) -> Finding:
        """The problem as a line of a check."""
        return Finding.of(self.code, self.error, self.severity)


def fatal(code: str, error: FormatError, accepted: str = "") -> Problem:
    """A problem because of which a dataset cannot be read, but for a word of `--drop` that accepts it."""
    return Problem(code, "error", error, fatal=True, accepted=accepted)


def noted(code: str, error: FormatError, note: str) -> Problem:
    """A problem that does not change a token: the dataset is read, and `note` is said."""
    return Problem(code, "error", error, note=note)


def raise_fatal(problems: Iterable[Problem], accepted: frozenset[str]) -> None:
    """Raise the error of the first problem because of which a dataset cannot be read.

    Args:
        problems: In the order in which they were met.
        accepted: Words of `--drop` that the user gave.

    Raises:
        FormatError: Of the first fatal problem that no word accepts.
    """
    for problem in problems:
        if problem.fatal and problem.accepted not in accepted:
            raise problem.error
