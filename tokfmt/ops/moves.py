"""Which of the sequences that differ are merely somewhere else: moved, or swapped with one another.

Holds up to 2^17 of the sequences that differ (about 30 MB); beyond them, what moved is told as only in A and only in B.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from tokfmt.ops.alignment import Change

HELD = 1 << 17

Kind = Literal["changed", "only_in_a", "only_in_b", "moved", "swapped"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference, in the words of `tokfmt diff --json`.

    Attributes:
        kind: "changed": in both, at the same place, unlike. "moved": the same sequence at two places. "swapped": two
            sequences that stand in each other's place.
        a, b: Sequence numbers; None on the side that lacks it.
        with_a, with_b: The other pair, for "swapped".
        at_a, at_b: Where that is in either dataset.
    """

    kind: Kind
    a: int | None
    b: int | None
    at_a: int
    at_b: int
    with_a: int | None = None
    with_b: int | None = None


@dataclass(slots=True)
class Tally:
    """The differences: how many of each kind, and the first few.

    Attributes:
        counts: By kind; pairs for "swapped".
        listed: In order, at most `limit`.
        complete: Whether every move was looked for.
    """

    limit: int
    counts: dict[Kind, int] = field(default_factory=lambda: defaultdict(int))
    listed: list[Difference] = field(default_factory=list)
    complete: bool = True
    _held: list[Change] = field(default_factory=list)

    def add(self, changes: Iterable[Change]) -> None:
        """Count changes, and hold the first of them back until it is known what moved."""
        for change in changes:
            if len(self._held) < HELD:
                self._held.append(change)
                continue
            self.complete = False
            for difference in _plain(change, change.a is not None, change.b is not None):
                self.counts[difference.kind] += 1

    def settle(self) -> None:
        """Tell what moved."""
        to_b, to_a = _partners(self._held)
        pairs = {(change.a, change.b) for change in self._held}
        for change in self._held:
            for difference in _settled(change, to_b, to_a, pairs):
                self.counts[difference.kind] += 1
                if len(self.listed) < self.limit:
                    self.listed.append(difference)
        self._held.clear()


def _partners(changes: Iterable[Change]) -> tuple[dict[int, int], dict[int, int]]:
    """For sequences that differ and have an equal one on the other side: which one."""
    waiting: dict[bytes, list[int]] = defaultdict(list)
    # equal ids at the same place differ in what else they carry, and have not moved
    changes = [change for change in changes if change.print_a != change.print_b]
    for change in reversed(changes):
        if change.b is not None:
            waiting[change.print_b].append(change.b)
    to_b: dict[int, int] = {}
    for change in changes:
        if change.a is not None and (places := waiting.get(change.print_a)):
            to_b[change.a] = places.pop()
    return to_b, {b: a for a, b in to_b.items()}


def _settled(
    change: Change, to_b: dict[int, int], to_a: dict[int, int], pairs: set[tuple[int | None, int | None]]
) -> Iterable[Difference]:
    goes = to_b.get(change.a) if change.a is not None else None
    comes = to_a.get(change.b) if change.b is not None else None
    if goes is not None and comes is not None and (comes, goes) in pairs and comes != change.a:
        if change.a is not None and comes > change.a:  # told once, at the first of both
            yield Difference("swapped", change.a, change.b, change.at_a, change.at_b, comes, goes)
        return
    if goes is not None:
        yield Difference("moved", change.a, goes, change.at_a, change.at_b)
    yield from _plain(change, change.a is not None and goes is None, change.b is not None and comes is None)


def _plain(change: Change, lost: bool, new: bool) -> Iterable[Difference]:
    if lost and new:
        yield Difference("changed", change.a, change.b, change.at_a, change.at_b)
    elif lost:
        yield Difference("only_in_a", change.a, None, change.at_a, change.at_b)
    elif new:
        yield Difference("only_in_b", None, change.b, change.at_a, change.at_b)
