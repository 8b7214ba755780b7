"""Findings: what is wrong with a dataset, stated once. Readers raise or note it, `check` lists it, `--raw` marks it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from tokfmt.core.errors import FormatError
from tokfmt.core.messages import Message


@dataclass(frozen=True, slots=True)
class Finding:
    """One violation of a format's rules.

    Attributes:
        code: Stable, e.g. `TF101`. Hundreds: 1 modalities, 2 stage1, 3 hdf5, 4 flat-tokens, 5 jsonl, 6 the
            flat formats (60 megatron, 62 llmc, 64 nanogpt) and columns (66 parquet, 68 arrow), 7 more of them (70 olmo,
            72 datatrove, 74 litdata, 76 mds, 78 levanter), 8 recipes, 9 what all formats share.
        severity: "error", "warning" or "info".
        path: The file.
        offset: Byte offset, when there is one place to point at.
        message: What is wrong, in a sentence without a full stop.
        remedy: What to do about it.
    """

    code: str
    severity: str
    path: str
    message: str
    remedy: str = ""
    offset: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", Message(self.message))
        object.__setattr__(self, "remedy", Message(self.remedy))

    @classmethod
    def of(cls, code: str, error: FormatError, severity: str = "error", more: str = "") -> Finding:
        """Return an error as a line of a check: the same words, and `more` behind them."""
        message = f"{error.statement.marked}{more}"
        return cls(code, severity, error.path, message, error.remedy or "", error.offset)


class Problem(NamedTuple):
    """One violation of a format's rules, in the words that every command uses.

    Attributes:
        code, severity: Of the Finding.
        error: The error, as it is raised when the dataset cannot be read because of it.
        fatal: It cannot be read because of it.
        note: What a reader says of it when it goes on; "" for nothing.
        accepted: The word of `--allow-loss` with which the dataset can be read all the same.
        cut: A file ends too early: what it holds of the dataset is as it was written, and complete up to there.
    """

    code: str
    severity: str
    error: FormatError
    fatal: bool = False
    note: str = ""
    accepted: str = ""
    cut: bool = False

    def finding(self) -> Finding:
        """The problem as a line of a check."""
        return Finding.of(self.code, self.error, self.severity)


def fatal(code: str, error: FormatError, accepted: str = "", *, cut: bool = False) -> Problem:
    """A problem because of which a dataset cannot be read, but for a word of `--allow-loss` that accepts it."""
    return Problem(code, "error", error, fatal=True, accepted=accepted, cut=cut)


def noted(code: str, error: FormatError, note: str) -> Problem:
    """A problem that does not change a token: the dataset is read, and `note` is said."""
    return Problem(code, "error", error, note=note)


def raise_fatal(problems: Iterable[Problem], accepted: frozenset[str]) -> None:
    """Raise the error of the first problem because of which a dataset cannot be read.

    Args:
        problems: In the order in which they were met.
        accepted: Words of `--allow-loss` that the user gave.

    Raises:
        FormatError: Of the first fatal problem that no word accepts.
    """
    for problem in problems:
        if problem.fatal and problem.accepted not in accepted:
            raise problem.error


@dataclass(frozen=True, slots=True)
class Code:
    """What a code means.

    Attributes:
        title: In a few words.
        text: A paragraph: what it is, how such files come to be, what to do.
        unsafe: Reading on could execute code, leave the dataset, or exhaust memory.
    """

    title: str
    text: str
    unsafe: bool = False


@dataclass(frozen=True, slots=True)
class Repair:
    """How a finding is put right when its dataset is written again.

    Attributes:
        how: What was done, in a sentence without a full stop ("the index is made from the lengths of the documents").
        options: Read options without which the damaged dataset cannot be read.
    """

    how: str
    options: Mapping[str, object] = field(default_factory=dict)


I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")


class ParallelMap(Protocol):
    """A map over items, in order, several at a time; only a few results are held."""

    def __call__(self, function: Callable[[I], R], items: Iterable[I]) -> Iterator[R]: ...


def run_serially(function: Callable[[I], R], items: Iterable[I]) -> Iterator[R]:
    """The spread that does one item after the other."""
    return map(function, items)


def ignore(amount: int) -> None:
    """Nobody is watching."""


@dataclass(frozen=True, slots=True)
class Audit:
    """How to check a dataset.

    Attributes:
        deep: Decode everything; else headers, indexes, sizes, and content in a few places.
        eos_id: The separator, when the user, a tokenizer or a manifest told it.
        spread: Runs the look at each window of a dataset.
        advance: Told how many more tokens (bytes of text) were looked at.
    """

    deep: bool = False
    eos_id: int | None = None
    spread: ParallelMap = run_serially
    advance: Callable[[int], None] = ignore
