"""What a stored axis does not show: positions of the file that hold nothing, separators that no file holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Filling:
    """What was left out of an axis, and what was put in.

    Attributes:
        padding: Positions of the file that hold padding and are not on the axis; None if nobody counted.
        positions: Of how many.
        separators: Separators on the axis that were put there by the reader.
    """

    padding: int | None
    positions: int
    separators: int = 0


@runtime_checkable
class Filled(Protocol):
    """A reader that leaves padding out, or puts separators in. Optional; asked for with `isinstance`."""

    def filling(self) -> Filling:
        """See `Filling`."""
