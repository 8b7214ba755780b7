"""Compare the space that a destination takes with the free space, before a conversion writes."""

from __future__ import annotations

import os
from pathlib import Path

from tokfmt.errors import ConversionError, OutageError
from tokfmt.files.place import Place
from tokfmt.wording import printable


def free_bytes(place: Path) -> int | None:
    """Return the free bytes on the file system of a path, which need not exist; None if they are not reported."""
    for parent in (place, *place.absolute().parents):
        try:
            found = os.statvfs(parent)
        except OSError:
            continue
        return found.f_bavail * found.f_frsize if found.f_blocks else None
    return None


def taken_bytes(place: Path) -> int:
    """Return the bytes that a file, or all files below a directory, take on disk; holes take none."""
    places = [place, *(Path(base, name) for base, _, names in os.walk(place) for name in names)]
    return sum(os.lstat(one).st_blocks * 512 for one in places if os.path.lexists(one))


def need_room(destination: Place, built: Path, minimum_bytes: int | None) -> None:
    """Refuse a destination that does not fit on its file system.

    Args:
        destination: The path that the user named.
        built: The path where it is built; bytes that an earlier run left there count as free.
        minimum_bytes: Minimum size of the destination in bytes; None if it is not known.

    Raises:
        ConversionError: The file system has less free space.
        OutageError: The spool of a destination in a store has less.
    """
    free = None if minimum_bytes is None else free_bytes(built)
    if minimum_bytes is None or free is None or minimum_bytes <= free:
        return
    if minimum_bytes > free + taken_bytes(built) and not destination.is_local:
        raise OutageError(
            f"{printable(destination)}: needs at least {sized(minimum_bytes)} in the spool {printable(built.parent)}, "
            f"which has {sized(free)} free. Name another directory with --spool DIR"
        )
    if minimum_bytes > free + taken_bytes(built):
        raise ConversionError(
            f"{printable(destination)}: does not fit on its file system (expected at least {sized(minimum_bytes)}, "
            f"found {sized(free)} free). Free some space, or name another DST"
        )


def sized(count: int) -> str:
    """Format a number of bytes with a decimal unit: `950 bytes`, `1.2 MB`, `10.0 TB`."""
    units = {10**15: "PB", 10**12: "TB", 10**9: "GB", 10**6: "MB", 10**3: "kB"}
    size = next((size for size in units if count >= size), 1)
    return f"{count / size:,.1f} {units[size]}" if size > 1 else f"{count:,} bytes"
