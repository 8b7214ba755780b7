"""Something to read, over everything else: help, or what is known of the dataset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import ItemGrid, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Label, Static

Rows = Sequence[tuple[str, str]]


class Page(ModalScreen[None]):
    """Headed blocks of two columns; any of Escape, q, ? and Enter leaves.

    Args:
        title: Of the page.
        blocks: Heading and rows of each block.
        column: Cells that a block needs; as many stand side by side as there is room for.
    """

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter,i", "leave", "Close")]

    def __init__(self, title: str, blocks: Sequence[tuple[str, Rows]], column: int = 34) -> None:
        super().__init__()
        self._title, self._blocks, self._column = title, blocks, column

    def compose(self) -> ComposeResult:
        with Vertical(classes="box page"):
            yield Label(self._title, classes="title", markup=False)
            with VerticalScroll(), ItemGrid(min_column_width=self._column):
                for heading, rows in self._blocks:
                    yield Static(_block(heading, rows), classes="block")

    def action_leave(self) -> None:
        self.dismiss(None)


def _block(heading: str, rows: Rows) -> Content:
    wide = max((len(name) for name, _ in rows), default=0)
    lines = [Content.styled(heading, "bold")]
    lines += [Content.assemble((f"{name:<{wide}}  ", "$text-accent"), text) for name, text in rows]
    return Content("\n").join(lines)
