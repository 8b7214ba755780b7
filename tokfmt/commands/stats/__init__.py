"""Count sequences, lengths, IDs and duplicates of datasets, in one parallel pass with bounded memory.

    from tokfmt.source.request import SourceRequest
    from tokfmt.commands.stats import StatsRequest, stats

    report = stats(StatsRequest(SourceRequest(("data.pbin",))))
    report.datasets[0].lengths.p50

`stats` takes a `Progress`, which ends the pass if it raises. `glance` returns the statistics of an opened dataset that
need no tokens.
"""

from tokfmt.commands.stats.duplicates import Groups
from tokfmt.commands.stats.report import Statistics, StatsReport
from tokfmt.commands.stats.stats import StatsRequest, glance, groups_in, stats, stats_of

__all__ = ["Groups", "Statistics", "StatsReport", "StatsRequest", "glance", "groups_in", "stats", "stats_of"]
