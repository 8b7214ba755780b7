"""The cells of tables: texts with the kind of each, and models of tables that are drawn from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from rich.cells import cell_len, set_cell_size

Cells = list[tuple[str, str]]
"""The parts of a line: text, and its kind, which a table has a style for."""


class Lines(ABC):
    """The model of a table. Its defaults are those of lines that need no title and no reading, and lead to no rows."""

    @property
    def titles(self) -> Sequence[str]:
        """Return the title of the table, and shorter ones for a table without room for it."""
        return ("",)

    @property
    @abstractmethod
    def count(self) -> int:
        """Return the number of lines."""

    @abstractmethod
    def cells(self, line: int, width: int) -> Cells:
        """Return the parts of a line, from loaded data only."""

    @abstractmethod
    def record(self, line: int) -> Mapping[str, object]:
        """Return a line for an export."""

    def missing(self, lines: range) -> list[int]:  # noqa: ARG002 - nothing is
        """Return the rows of lines whose text is not loaded."""
        return []

    def load(self, rows: Sequence[int]) -> None:  # noqa: B027 - no text is missing
        """Load the text of rows. For a worker."""

    def query(self, lines: Sequence[int]) -> str:  # noqa: ARG002 - no rows
        """Return the query for the rows of some lines; "" if they lead to none."""
        return ""


def fitted(text: str, cells: int) -> str:
    """Return a text in exactly `cells` cells; an ellipsis marks a cut."""
    if cell_len(text) <= cells or not cells:
        return set_cell_size(text, cells)
    return f"{set_cell_size(text, cells - 1)}…"
