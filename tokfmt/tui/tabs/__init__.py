"""Which tabs there are. A tab is a widget with the methods of `Tab`; its module is imported when it is first shown.

To add one: write `tabs/<name>.py` with a subclass of `Tab`, and add its line to TABS.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from tokfmt.tui.tabs.tab import Tab


class Entry(NamedTuple):
    """A tab.

    Attributes:
        name: Also its widget's id. title: On the screen. key: That shows it.
        place: "module:class".
        pair: Only where two datasets are open.
    """

    name: str
    title: str
    key: str
    place: str
    pair: bool = False

    def make(self) -> Tab:
        """The widget."""
        module, _, name = self.place.partition(":")
        return cast("Tab", getattr(import_module(module), name)(id=self.name))


TABS = (
    Entry("sequences", "Sequences", "1", "tokfmt.tui.tabs.sequences:SequencesTab"),
    Entry("index", "Index", "2", "tokfmt.tui.tabs.index:IndexTab"),
    Entry("findings", "Findings", "3", "tokfmt.tui.tabs.findings:FindingsTab"),
    Entry("statistics", "Statistics", "4", "tokfmt.tui.tabs.statistics:StatisticsTab"),
    Entry("compare", "Compare", "5", "tokfmt.tui.tabs.compare:CompareTab", pair=True),
)
