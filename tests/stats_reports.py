"""Reports of statistics with numbers of six digits and more."""

import json
from dataclasses import replace

import numpy as np

import tokfmt
from tokfmt.commands.stats.report import StatsReport
from tokfmt.commands.stats.tables import Table, lengths_of, packing


def reports_of(home):
    """The table of lengths, and a report of one dataset and one of several with their total."""
    (home / "x.jsonl").write_text((json.dumps({"input_ids": [50_000 + k % 9 for k in range(40)]}) + "\n") * 3)
    one = tokfmt.stats(home / "x.jsonl", seq_len=2048, jobs=1).datasets[0]
    duplicates = one.duplicates
    assert duplicates is not None
    lengths = Table(np.array([0, 327_681, 1_234_567, 98_765_432]), np.array([3, 9_876_543, 12_345_678, 7_654_321]))
    large = replace(
        one,
        path="some/where/x.jsonl",
        sequences=lengths.total,
        tokens=lengths.weight,
        lengths=lengths_of(lengths, "tokens"),
        packing=packing(lengths, 2048, separator=True),
        duplicates=replace(duplicates, sequences=9_876_543, tokens=10**12, largest=[
            replace(duplicates.largest[0], count=1_234_567, length=98_765_432, sequence=19_876_543)
        ]),
    )  # fmt: skip
    several = StatsReport([large, large], replace(large, path="total"))
    return lengths, [StatsReport([large]), several]
