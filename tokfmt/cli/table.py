"""A table that a command prints: one value, and its renderers for plain text and a terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tokfmt.wording import columns, printable

if TYPE_CHECKING:
    from rich.box import Box
    from rich.table import Table as RichTable


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells below heads. A cell is text, or what its renderer draws in another way."""

    heads: Sequence[str]  # head of each column
    rows: Sequence[Sequence[Any]]
    words: Collection[int] = (0,)  # columns that hold text, which are aligned to the left; the others hold numbers

    def lines(self) -> list[str]:
        """Return the table as lines of text, with the heads first."""
        return columns([self.heads, *([printable(cell) for cell in row] for row in self.rows)], self.words)

    def drawn(
        self,
        *,
        folds: Collection[int] = (),
        styles: Sequence[str] = (),
        padding: tuple[int, int] | tuple[int, int, int, int] = (0, 2, 0, 0),
        box: Box | None = None,
    ) -> RichTable:
        """Return the table for a terminal. The cells of the columns in `folds` may take several lines."""
        from rich.table import Table as RichTable  # imported here to keep --json fast

        table = RichTable(box=box, pad_edge=False, header_style="dim" if box is None else None, padding=padding)
        for number, head in enumerate(self.heads):
            justify: Any = "left" if number in self.words else "right"
            table.add_column(head, justify=justify, no_wrap=number not in folds, overflow="fold")
        for row, style in zip(self.rows, styles or [""] * len(self.rows), strict=True):
            table.add_row(*row, style=style)
        return table
