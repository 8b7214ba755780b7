"""Checking a dataset: how thoroughly, what the codes of findings mean, and what can be put right for certain.

All of it is optional beyond `Format.check`, and asked for with `isinstance`:

    Audited      a format that also finds what only shows when everything is decoded
    Explained    a format that explains the codes of its findings
    Repairable   a format that is right again when it is converted to itself
    Patchable    a format that is right again when a few bytes of a copy are changed
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from tokfmt.core.format import Finding

I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")


class Spread(Protocol):
    """A map over items, in order, several at a time; only a few results are held."""

    def __call__(self, function: Callable[[I], R], items: Iterable[I]) -> Iterator[R]: ...


def in_turn(function: Callable[[I], R], items: Iterable[I]) -> Iterator[R]:
    """The spread that does one item after the other."""
    return map(function, items)


def _ignore(amount: int) -> None:
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
    spread: Spread = in_turn
    advance: Callable[[int], None] = _ignore


@runtime_checkable
class Audited(Protocol):
    """A format that can look at every token."""

    def audit(self, path: Path, options: Any, how: Audit) -> Iterator[Finding]:
        """What `check` finds, and, if `how.deep`, all that only shows in the tokens. Bounded memory.

        Never raises for damaged content.
        """


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


@runtime_checkable
class Explained(Protocol):
    """A format that explains its codes."""

    def codes(self) -> Mapping[str, Code]:
        """Every code that its findings have."""


@dataclass(frozen=True, slots=True)
class Repair:
    """How a finding is put right when its dataset is written again.

    Attributes:
        how: What was done, in a sentence without a full stop ("the index is made from the lengths of the documents").
        options: Read options without which the damaged dataset cannot be read.
    """

    how: str
    options: Mapping[str, object] = field(default_factory=dict)


@runtime_checkable
class Repairable(Protocol):
    """A format whose reader makes good what is wrong, so that writing a dataset again repairs it."""

    def repairs(self) -> Mapping[str, Repair]:
        """The codes whose findings go away when a dataset is read with the repair's options and written again."""

    def repaired_with(self, path: Path, options: Any) -> Mapping[str, object]:
        """Write options with which the sequences stay as they are stored."""


@runtime_checkable
class Patchable(Protocol):
    """A format that repairs by changing a few bytes of a copy, where writing again could change more than that."""

    def patches(self) -> Mapping[str, Repair]:
        """The codes that `patch` puts right."""

    def patch(self, copy: Path, options: Any) -> None:
        """Put right what is wrong with a copy of a dataset, in place.

        Raises:
            TokfmtError: It is not certain what would be right.
        """
