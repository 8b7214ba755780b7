"""Lines of words in the colours of what they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.content import Content
from textual.widgets import Static

_GAP = " · "


class Says(Static):
    """Words, each of a kind: "plain", "good", "bad", "busy", "dim"."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"says--{kind}" for kind in ("plain", "good", "bad", "busy", "dim")}

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self._parts: Sequence[tuple[str, str]] = ()

    def say(self, parts: Sequence[tuple[str, str]]) -> None:
        """Words and their kinds."""
        if parts != self._parts:
            self._parts = parts
            self.refresh()

    @property
    def words(self) -> str:
        """As they are read."""
        return _GAP.join(text for text, _ in self._parts)

    def render(self) -> Content:
        style = {kind: self.get_visual_style(f"says--{kind}", partial=True) for _, kind in self._parts}
        return Content.styled(_GAP, self.get_visual_style("says--dim", partial=True)).join(
            Content.styled(text, style[kind]) for text, kind in self._parts
        )
