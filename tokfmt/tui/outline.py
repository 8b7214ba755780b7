"""The parts of a dataset's files as lines: sections, and beneath those that are open their fields.

Any number of fields: a line is found by its number, fields are decoded in blocks when they are looked at. As in
`viewport`, `peek` answers at once and `load` reads, on a worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokfmt.core.errors import TokfmtError
from tokfmt.core.inside import Field, Section, Target
from tokfmt.core.sections import broken
from tokfmt.tui.session import Session, Where, row_at
from tokfmt.tui.viewport import Lru

BLOCK = 64
"""Fields decoded at once."""

SHORT = 64
"""Fields up to which a section of a small dataset is open from the beginning."""

_BLOCKS = 1024


@dataclass(frozen=True, slots=True)
class Row:
    """A line: a section, or a field of it (`field` is its number there, None for the section itself)."""

    section: int
    field: int | None = None


class Outline:
    """Lines of sections and fields. Only the thread of the screen opens and closes; workers only load.

    Args:
        sections: In the order of the files.
    """

    def __init__(self, sections: Sequence[Section]) -> None:
        self.sections = sections
        self.counts: dict[int, int] = {}
        self._open: set[int] = set()
        self._blocks: Lru[tuple[int, int], Sequence[Field]] = Lru(_BLOCKS)
        self._lines = np.empty(0, np.int64)
        self._settle()

    def _settle(self) -> None:
        sizes = np.ones(len(self.sections), np.int64)
        for section in self._open:
            sizes[section] += self.counts[section]
        self._lines = np.concatenate([[0], np.cumsum(sizes)])

    @property
    def count(self) -> int:
        """Lines there are."""
        return int(self._lines[-1])

    def row(self, line: int) -> Row:
        """What a line shows."""
        section = int(np.searchsorted(self._lines, line, side="right")) - 1
        within = line - int(self._lines[section])
        return Row(section, within - 1 if within else None)

    def line(self, row: Row) -> int:
        """The line that shows something; that of its section if that is closed."""
        shown = 0 if row.field is None or row.section not in self._open else row.field + 1
        return int(self._lines[row.section]) + shown

    def is_open(self, section: int) -> bool:
        """Its fields are shown."""
        return section in self._open

    def open(self, section: int, count: int) -> None:
        """Show the fields of a section, so many."""
        self.counts[section] = count
        self._open.add(section)
        self._settle()

    def close(self, section: int) -> None:
        """Hide the fields of a section."""
        self._open.discard(section)
        self._settle()

    def peek(self, row: Row) -> Field | None:
        """A field, if it was loaded."""
        if row.field is None:
            return None
        block = self._blocks.get((row.section, row.field // BLOCK))
        within = row.field % BLOCK
        return block[within] if block is not None and within < len(block) else None

    def load(self, rows: Sequence[Row]) -> None:
        """Decode the fields of some lines."""
        for section, number in sorted({(row.section, row.field // BLOCK) for row in rows if row.field is not None}):
            if self._blocks.get((section, number)) is None:
                self._blocks.put((section, number), self._read(section, number * BLOCK))

    def _read(self, section: int, first: int) -> Sequence[Field]:
        wanted = min(BLOCK, self.counts[section] - first)
        try:
            found = tuple(self.sections[section].fields(first, first + wanted))
        except TokfmtError as error:
            found = (broken(error),) * wanted
        missing = Field("…", None, 0, "nothing more can be read", wrong=True)
        return found + (missing,) * (wanted - len(found))


def first_open(sections: Sequence[Section], *, small: bool) -> dict[int, int]:
    """Which sections are open from the beginning, and how many fields they have. Reads.

    The first; of a small dataset all that are short, as far as a few screens go.
    """
    found: dict[int, int] = {}
    for number, section in enumerate(sections):
        if number and (not small or sum(found.values()) > 4 * SHORT):
            break
        count = section.count
        if not number or count <= SHORT:
            found[number] = count
    return found


def lead_of(session: Session, section: Section, field: Field) -> Where | None:
    """The row and token that a field is about. Reads. None when it is about none."""
    path = field.path or section.path
    target = field.target or (None if field.offset is None else Target(path, field.offset))
    return None if target is None else row_at(session, target)
