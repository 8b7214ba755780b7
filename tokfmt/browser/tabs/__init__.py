"""List the tabs of the browser.

To add one: write `tabs/<name>.py` with a subclass of `base.Tab`, and add a line to TABS.
"""

from tokfmt.browser.tabs.base import Entry

TABS = (
    Entry("sequences", "Data", "1", "sequences:SequencesTab"),
    Entry("statistics", "Overview", "2", "statistics:StatisticsTab"),
    Entry("file", "File", "3", "file:FileTab"),
)
