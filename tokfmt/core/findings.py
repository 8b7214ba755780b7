"""Findings: the problems of a dataset. Readers raise or note them, `check` lists them, and `show --raw` marks them."""

from __future__ import annotations

import pkgutil
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple, Protocol, TypeVar

from tokfmt.errors import FormatError, Loss
from tokfmt.files.place import PlaceLike, place_of
from tokfmt.wording import printable


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation of the rules of a format, as `check` reports it: text and numbers, without the error.

    Attributes:
        code: The code, such as TF107.
        severity: "error", "warning" or "info".
        path: The file.
        offset: Byte offset; None if it is not at one place.
        message: The problem, a sentence without a full stop.
        remedy: What the user can do.
        query: A query, as for `tokfmt show`, that finds the sequences concerned; "" without one.
    """

    code: str
    severity: str
    path: str
    message: str
    remedy: str = ""
    offset: int | None = None
    query: str = ""

    @classmethod
    def of(cls, code: str, error: FormatError, severity: str = "error", more: str = "") -> Finding:
        """Return an error as a finding with the same message.

        Args:
            code: Code of the finding.
            error: The error.
            severity: Severity of the finding.
            more: Text after the message.
        """
        message = f"{error.statement}{more}"
        return cls(code, severity, error.path, message, error.remedy or "", error.offset)


class Problem(NamedTuple):
    """A violation of the rules of a format, as the error that a reader raises or notes. A check lists it as a finding.

    Attributes:
        code: Code of the finding.
        severity: Severity of the finding.
        error: The error that is raised if the dataset cannot be read because of the problem.
        is_fatal: The dataset cannot be read.
        note: Note of a reader that continues; "" for none.
        accepted_by: The word of `--allow-loss` with which the dataset can be read anyway; "" without one.
        is_truncated: A file is truncated. What it holds of the dataset is unchanged and complete up to its end.
        lost: What is left out with the word `accepted_by`, with its number and byte offset; "" says the error.
        end: Byte offset after the last complete sequence of a truncated file; None if unknown.
        more: Text after the message of the finding.
    """

    code: str
    severity: str
    error: FormatError
    is_fatal: bool = False
    note: str = ""
    accepted_by: str = ""
    is_truncated: bool = False
    lost: str = ""
    end: int | None = None
    more: str = ""

    def finding(self) -> Finding:
        """Return the problem as a finding."""
        finding = Finding.of(self.code, self.error, self.severity, self.more)
        return replace(finding, offset=self.end) if finding.offset is None else finding


def fatal(
    code: str, error: FormatError, accepted_by: str = "", *, is_truncated: bool = False, lost: str = ""
) -> Problem:
    """Return a problem that prevents reading.

    Args:
        code: Code of the finding.
        error: The error that the reader raises.
        accepted_by: The word of `--allow-loss` with which the dataset is read anyway; "" for none.
        is_truncated: The file ends too early, and its content is valid up to its end.
        lost: What is left out if the loss is accepted, with its number and byte offset.
    """
    return Problem(code, "error", error, True, "", accepted_by, is_truncated, lost)


def noted(code: str, error: FormatError, note: str) -> Problem:
    """Return a problem that does not change a token: the dataset is read, with a note.

    Args:
        code: Code of the finding.
        error: The error that `check` reports.
        note: The note of the reader.
    """
    return Problem(code, "error", error, note=note)


def raise_fatal(problems: Iterable[Problem], accepted: frozenset[str]) -> tuple[Loss, ...]:
    """Raise the first problem that prevents reading and is not accepted; return the losses of those that are."""
    losses = list[Loss]()
    for problem in problems:
        if problem.is_fatal and problem.accepted_by not in accepted:
            raise problem.error
        if problem.is_fatal:
            losses.append(loss_in(problem.error.place, problem.accepted_by, problem.lost or problem.error.statement))
    return tuple(losses)


def loss_in(place: PlaceLike, word: str, what: str) -> Loss:
    """Return a loss in a file: the word of `--allow-loss`, the name of the file, and what is left out of it."""
    return Loss(word, f"{printable(place_of(place).name)}: {what}")


@dataclass(frozen=True, slots=True)
class Code:
    """The explanation of a code.

    Attributes:
        title: A few words.
        text: A paragraph: the problem, its causes, and what to do.
        unsafe: Reading could run code, leave the dataset, or exhaust memory.
    """

    title: str
    text: str
    unsafe: bool = False


@cache
def codes_beside(module: str) -> Mapping[str, Code]:
    """Return the codes that `NAME.toml` beside a module NAME explains, or in a package NAME; none without such a file.

    A line break in a text is a space.
    """
    try:
        stored = pkgutil.get_data(module, f"{module.rpartition('.')[2]}.toml") or b""
    except (OSError, ValueError):  # no such file; a module that is run as a script
        return {}
    tables = tomllib.loads(stored.decode())
    return {code: Code(**{**table, "text": " ".join(table["text"].split())}) for code, table in tables.items()}


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair of a finding: the dataset is written again, or bytes of a copy are replaced.

    `patch(copy, options, dry_run=...)` replaces bytes, because writing again could change more than a few. It raises
    FormatError unless what is correct is certain, and changes nothing with `dry_run`. Of a format, all repairs have the
    same patch, or none.
    """

    how: str  # the change, a sentence without a full stop ("the index is made from the lengths of the documents")
    # read options that are needed to read the damaged dataset
    options: Mapping[str, object] = field(default_factory=dict)
    patch: Callable[..., None] | None = None


I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")


class ParallelMap(Protocol):
    """A map over items that returns results in order, and computes several at a time. Holds only a few results."""

    def __call__(self, function: Callable[[I], R], items: Iterable[I]) -> Iterator[R]: ...


def run_serially(function: Callable[[I], R], items: Iterable[I]) -> Iterator[R]:
    """Map without parallelism."""
    return map(function, items)


def ignore(amount: int) -> None:
    """Ignore the progress."""


@dataclass(frozen=True, slots=True)
class Audit:
    """Options of a check."""

    deep: bool = False  # decode the whole dataset; else check headers, indexes, sizes, and content in a few places
    eos_id: int | None = None  # if the user, a tokenizer or a manifest states it
    spread: ParallelMap = run_serially  # maps a function over the windows of a dataset
    # called with the number of further tokens (or bytes of text) that were checked
    advance: Callable[[int], None] = ignore
