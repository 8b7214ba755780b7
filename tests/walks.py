"""The pass of statistics over an axis, in small windows and regions that are done in any order."""

from pathlib import Path

import pytest

from tokfmt.commands.stats import texts, walk
from tokfmt.core import reader
from tokfmt.run.execute import SerialExecutor
from tokfmt.run.plan import Workers
from tokfmt.run.progress import Progress


def survey_of(axis, *, region, window, shuffle):
    """Measure an axis in regions and windows of so many tokens; `shuffle` reorders the results of the regions."""

    class AnyOrder(Workers):
        def map(self, function, shared, items):
            results = [function(shared, item) for item in items]
            shuffle(results)
            return iter(results)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "WINDOW", window)
        patch.setattr(walk, "windows", lambda a, b, size=window: reader.windows(a, b, min(size, window)))
        patch.setattr(walk, "_size", lambda axis: region)
        return walk.measure([axis], AnyOrder(SerialExecutor(), 1, Path()), members=True, progress=Progress())[0]


def place_of_text(block, number, blocks):
    """The place that a text of a block has among so many blocks."""
    return (block << texts._local_bits(blocks)) + number
