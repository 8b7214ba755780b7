"""What is in a dataset: counts, lengths, ids, duplicates, in one parallel pass of bounded memory.

    from tokfmt.ops.sources import SourceRequest
    from tokfmt.ops.stats import StatsRequest, stats

    report = stats(StatsRequest(SourceRequest(("data.pbin",))))
    report.datasets[0].lengths.p50

`stats` takes a `Progress` and a `cancelled` callback. `glance` gives what an opened dataset tells without its tokens.
The document of `tokfmt stats --json` is described by tokfmt/schemas/stats.json.
"""

from tokfmt.ops.stats.measure import CancelledError
from tokfmt.ops.stats.opening import glance
from tokfmt.ops.stats.report import Report, Statistics
from tokfmt.ops.stats.run import StatsRequest, stats, stats_of

__all__ = ["CancelledError", "Report", "Statistics", "StatsRequest", "glance", "stats", "stats_of"]
