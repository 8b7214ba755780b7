"""A plan covers its source, or is refused before anything is written."""

import numpy as np
import pytest

from tokfmt.core.errors import IncompleteWriteError
from tokfmt.plugin import MemoryReader, Ragged, Region
from tokfmt.run.plan import plan

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
