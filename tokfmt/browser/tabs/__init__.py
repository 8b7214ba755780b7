"""List the tabs of the browser.

To add one: write `tabs/<name>.py` with a subclass of `base.Tab`, and add a line to TABS.
"""

from tokfmt.browser.tabs.base import Entry

TABS = (
    Entry("sequences", "Sequences", "1", "sequences:SequencesTab"),
    Entry("index", "Index", "2", "index:IndexTab"),
    Entry("findings", "Findings", "3", "findings:FindingsTab"),
    Entry("statistics", "Statistics", "4", "statistics:StatisticsTab"),
    Entry("compare", "Compare", "5", "compare:CompareTab", pair=True),
)
