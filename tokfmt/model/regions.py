"""Regions of a laid out axis, written in any order by parallel writers, killed at any point, and resumed.

A region must know its position before it reads tokens, so positions are presumed (`laid.Laid`). A region that meets a
sequence which differs says so. Positions are then made exact, and regions that are not the same any more are written
again. The journal keeps this order:

    region N         region N is written at presumed positions, or has met a sequence that differs
    exact 0          positions are exact from here on, and only the first K regions stay valid: durable before any
                     region is written again
    exact-region N   region N is written at exact positions

Lines of void regions stay in the journal, and nobody reads them: K is in the line `exact`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from tokfmt.core.format import Region
from tokfmt.model.batch import Counts, Ledger
from tokfmt.model.laid import Laid, NotPresumedError


class RegionJournal(Protocol):
    """The journal of a run; see `run.plan.Journal`."""

    def done(self, kind: str) -> Mapping[int, Any]: ...

    def add(self, kind: str, number: int, facts: object) -> None: ...

    def sync(self) -> None: ...


class RegionReceipt(NamedTuple):
    """The result of a region.

    Attributes:
        region: Its number.
        ledger: What became of separators and leads of its sequences.
        facts: What `write` returned, a JSON value.
        differs: The first sequence that is not as presumed. The region is not written then; -1 if it is.
    """

    region: int
    ledger: Ledger
    facts: Any = None
    differs: int = -1

    def to_json(self) -> list[Any]:
        """Return a value that survives JSON."""
        return [[*map(list, self.ledger)], self.facts, self.differs]

    @classmethod
    def of_json(cls, number: int, value: Sequence[Any]) -> RegionReceipt:
        """Return the receipt of a region from a journal."""
        ledger, facts, differs = value
        return cls(number, Ledger(*(Counts(*counts) for counts in ledger)), facts, differs)


class Written(NamedTuple):
    """A destination whose regions are all written.

    Attributes:
        laid: Its axis.
        receipts: The receipts of its regions, in order.
    """

    laid: Laid
    receipts: list[RegionReceipt]

    @property
    def ledger(self) -> Ledger:
        """What became of the separator and of the lead of every sequence."""
        total = Ledger()
        for receipt in self.receipts:
            total = total.plus(receipt.ledger)
        return total


Write = Callable[[Laid, Region, "Ledgers"], Any]
"""Writes one region: takes the tokens of `Laid.walk`, adds each ledger to the `Ledgers`, and returns JSON facts."""
RunAll = Callable[[Callable[[Region], RegionReceipt], Iterable[Region]], Iterable[RegionReceipt]]
"""Calls a function for each region, in any order and in parallel, and yields all results as they arrive."""


class Ledgers:
    """The sum of the ledgers of a region while it is written."""

    def __init__(self) -> None:
        self.total = Ledger()

    def add(self, ledger: Ledger) -> None:
        """Add the ledger of a window."""
        self.total = self.total.plus(ledger)


def write_regions(
    laid: Laid,
    size: int,
    write: Write,
    prepare: Callable[[Laid], None],
    journal: RegionJournal,
    run_all: RunAll = map,
) -> Written:
    """Write all regions of an axis, those that the journal lists as written excepted.

    Args:
        laid: The axis of the destination.
        size: Tokens per region.
        write: Writes a region. A repeated call writes the same bytes.
        prepare: Creates the files of the destination for an axis, or changes their size; may be called again.
        journal: What earlier runs wrote.
        run_all: Runs the regions.
    """
    receipts = _recalled(journal, "region")
    stated = journal.done("exact")
    if not stated:
        prepare(laid)
        regions = laid.regions(size)
        receipts = _write_all(laid, regions, receipts, "region", write, journal, run_all)
        if not _differ(receipts):
            return Written(laid, [receipts[region.index] for region in regions])
    exact = laid.exact()
    valid: int = stated[0] if stated else _valid(laid, exact, size)
    if not stated:
        journal.add("exact", 0, valid)
        journal.sync()
    prepare(exact)
    regions = exact.regions(size)
    kept = {number: receipt for number, receipt in receipts.items() if number < valid}
    kept |= _recalled(journal, "exact-region")
    receipts = _write_all(exact, regions, kept, "exact-region", write, journal, run_all)
    return Written(exact, [receipts[region.index] for region in regions])


def _recalled(journal: RegionJournal, kind: str) -> dict[int, RegionReceipt]:
    return {number: RegionReceipt.of_json(number, facts) for number, facts in journal.done(kind).items()}


def _differ(receipts: Mapping[int, RegionReceipt]) -> bool:
    return any(receipt.differs >= 0 for receipt in receipts.values())


def _valid(presumed: Laid, exact: Laid, size: int) -> int:
    """Return the number of leading regions that are the same at presumed and at exact positions."""
    first, before = exact.exception, presumed.regions(size)
    if first is None:
        return len(before)
    pairs = zip(before, exact.regions(size), strict=False)
    return next((one.index for one, other in pairs if one != other or one.sequences.stop > first), len(before))


def _write_all(
    laid: Laid,
    regions: Sequence[Region],
    done: Mapping[int, RegionReceipt],
    kind: str,
    write: Write,
    journal: RegionJournal,
    run_all: RunAll,
) -> dict[int, RegionReceipt]:
    """Return the receipts of regions by number. Once one differs, no further one is begun."""
    receipts = dict(done)
    left = (region for region in regions if region.index not in receipts and not _differ(receipts))
    for receipt in run_all(partial(_write_one, laid, write), left):
        journal.add(kind, receipt.region, receipt.to_json())
        receipts[receipt.region] = receipt
    journal.sync()
    return receipts


def _write_one(laid: Laid, write: Write, region: Region) -> RegionReceipt:
    ledgers = Ledgers()
    try:
        facts = write(laid, region, ledgers)
    except NotPresumedError as error:
        return RegionReceipt(region.index, Ledger(), None, error.sequence)
    return RegionReceipt(region.index, ledgers.total, facts)
