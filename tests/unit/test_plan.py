"""A plan covers its source, or is refused before anything is written."""

import numpy as np
import pytest

from tokfmt.core.format import Receipt, Region
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.errors import IncompleteWriteError
from tokfmt.run.plan import NullJournal, Plan, Workers, plan, run

SOURCE = MemoryReader(Ragged(np.arange(10, dtype=np.uint32), np.asarray([0, 10], np.int64)))


class Cutter:
    """A writer that cuts where it is told to."""

    def __init__(self, *cuts):
        self.cuts = cuts

    def regions(self, source, size):
        return [Region(index, range(0), range(*cut)) for index, cut in enumerate(self.cuts)]


def test_regions_that_cover():
    assert len(plan(SOURCE, Cutter((0, 4), (4, 10))).regions) == 2
    assert plan(SOURCE, Cutter((0, 12))).regions, "separators and padding of the writer's own"


@pytest.mark.parametrize("cuts", [[], [(0, 9)], [(1, 10)], [(0, 4), (5, 10)], [(0, 6), (5, 10)], [(5, 10), (0, 5)]])
def test_regions_that_leave_something_out_or_overlap(cuts):
    with pytest.raises(IncompleteWriteError, match="position"):
        plan(SOURCE, Cutter(*cuts))


class Recorder:
    """A writer that only notes the regions that it is asked to gather and to commit."""

    def __init__(self):
        self.gathered, self.committed = [], None

    def create(self, source):
        pass

    def join_parts(self, source, receipt):
        self.gathered.append(receipt.region)

    def commit(self, source, receipts):
        self.committed = [receipt.region for receipt in receipts]


class AnyOrder(Workers):
    """Finish regions in another order than that of the source."""

    def map(self, function, shared, items):
        assert [region.index for region in items] == [0, 1, 2, 3]
        return (Receipt(number, 0, 0) for number in (1, 0, 3, 2))


class Kept(NullJournal):
    """Say that the run may be continued, as a journal on a disk does."""

    keeps = True


@pytest.mark.parametrize(
    ("journal", "expected"),
    [(NullJournal(), [[], [0, 1], [0, 1], [0, 1, 2, 3]]), (Kept(), [[], [], [], []])],
    ids=["once", "may be continued"],
)
def test_a_region_is_gathered_when_all_before_it_are_written(tmp_path, journal, expected):
    """If the run may be continued, no region is gathered before the end, as the commit may be cut off."""
    writer = Recorder()
    job = Plan(writer, SOURCE, [Region(index, range(0), range(0)) for index in range(4)])
    assert [[*writer.gathered] for _ in run(job, AnyOrder(None, 1, tmp_path, journal))] == expected
    assert writer.committed == [0, 1, 2, 3]
