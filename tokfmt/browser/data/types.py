"""The types of tokfmt that screens pass on: all that they know of it, but for its errors and its words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokfmt.core.findings import Finding
from tokfmt.core.reader import ByteOffset
from tokfmt.files.fields import Field, Pointer, Section
from tokfmt.files.place import Place, place_of
from tokfmt.source.request import SourceRequest

if TYPE_CHECKING:
    from tokfmt.commands.check import CheckReport
    from tokfmt.commands.show.parts import HexRow
    from tokfmt.commands.stats import Statistics

__all__ = [
    "ByteOffset",
    "CheckReport",
    "Field",
    "Finding",
    "HexRow",
    "Place",
    "Pointer",
    "Section",
    "SourceRequest",
    "Statistics",
    "place_of",
]
