"""Bytes of files as a hex view needs them: windows, cached; what cannot be read as `Damage`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from tokfmt.core.errors import TokfmtError
from tokfmt.ops.raw import ROW, HexRow, Raw
from tokfmt.tui.viewport import Damage, Lru

_ROWS = 256  # in a window
_WINDOWS = 64

Marked = range
"""Bytes that are marked, by their offsets."""


class Bytes:
    """The bytes of a dataset's files, in rows of 16. `load` and `size` read, and are for a worker."""

    def __init__(self, raw: Raw) -> None:
        self._raw = raw
        self._windows: Lru[tuple[Path, int], list[HexRow] | Damage] = Lru(_WINDOWS)

    def size(self, path: Path) -> int | Damage:
        """Bytes of a file."""
        try:
            return self._raw.size_of(path)
        except TokfmtError as error:
            return Damage(str(error))

    def peek(self, path: Path, row: int) -> HexRow | Damage | None:
        """A row, if it was loaded."""
        window = self._windows.get((path, row // _ROWS))
        if window is None or isinstance(window, Damage):
            return window
        within = row % _ROWS
        return window[within] if within < len(window) else Damage("the file has become shorter")

    def load(self, path: Path, rows: range) -> None:
        """Read some rows."""
        for number in range(rows.start // _ROWS, -(-rows.stop // _ROWS)):
            if self._windows.get((path, number)) is None:
                try:
                    found: list[HexRow] | Damage = self._raw.hex_rows(path, number * _ROWS * ROW, _ROWS)
                except TokfmtError as error:
                    found = Damage(str(error))
                self._windows.put((path, number), found)


@dataclass(frozen=True, slots=True)
class Cells:
    """A run of characters of one kind: "offset", "gap", "zero", "print", "other"; whether marked, under the cursor."""

    text: str
    kind: str
    marked: bool = False
    cursor: bool = False


def cells_of(row: HexRow, digits: int, cursor: int, marked: Marked) -> Iterator[Cells]:
    """A row: its offset, its bytes as hexadecimal digits, and as characters."""
    yield Cells(f"{row.offset:0{digits}x} ", "offset")
    known = [(_kind(byte), at in marked, at == cursor, byte) for at, byte in enumerate(row.data, row.offset)]
    for number in range(ROW):
        gap = "  " if number == ROW // 2 else " "
        before = known[number - 1] if 0 < number <= len(known) else None
        joined = before is not None and number < len(known) and before[1] and known[number][1]
        yield Cells(gap, "gap", joined)
        if number < len(known):
            kind, mark, here, byte = known[number]
            yield Cells(f"{byte:02x}", kind, mark, here)
        else:
            yield Cells("  ", "gap")
    yield Cells("  ", "gap")
    for (kind, mark, here), group in groupby(known, lambda one: one[:3]):
        text = "".join(chr(one[3]) if 32 <= one[3] < 127 else "·" for one in group)
        yield Cells(text, kind, mark, here)


def _kind(byte: int) -> str:
    return "zero" if not byte else "print" if 32 <= byte < 127 else "other"


def numbers_at(data: bytes) -> str:
    """What the bytes at a place are as little-endian numbers, as far as there are enough."""
    told = [f"u{8 * width} {int.from_bytes(data[:width], 'little'):,}" for width in (1, 2, 4) if len(data) >= width]
    return "  ".join(told)
