"""Formats by name and by content: entry points of the group `tokfmt.formats`.

Listing names imports nothing; using a format imports that one; detection imports them all.
"""

from __future__ import annotations

import fnmatch
import functools
import os
from importlib.metadata import EntryPoint, entry_points

from tokfmt.core.errors import AmbiguousFormatError, OptionError, UnknownFormatError
from tokfmt.core.format import Format, Probe, look
from tokfmt.core.options import nearest

GROUP = "tokfmt.formats"


@functools.cache
def _points() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def names() -> list[str]:
    """Names of all formats installed, tokfmt's own first."""
    own = ["jsonl", "modalities", "stage1", "hdf5", "flat-tokens"]
    return [n for n in own if n in _points()] + sorted(n for n in _points() if n not in own)


@functools.cache
def get(name: str) -> Format:
    """The format of that name.

    Raises:
        OptionError: There is none; names the nearest.
    """
    point = _points().get(name)
    if point is None:
        known = names()
        raise OptionError(f"no format {name!r} (known: {', '.join(known)})", name=name, nearest=nearest(name, known))
    loaded: Format = point.load()
    return loaded


def formats() -> list[Format]:
    """Every format installed."""
    return [get(name) for name in names()]


def detect(path: str | os.PathLike[str]) -> Format:
    """The format of an existing file or directory, by its content.

    Raises:
        FormatError: It cannot be read at all.
        UnknownFormatError: No format recognises it.
        AmbiguousFormatError: Several do, equally surely.
    """
    probe = look(path)
    claims = candidates(probe)
    if not claims:
        raise UnknownFormatError(path, _describe(probe), f"--from NAME says what it is: {', '.join(names())}")
    best = max(claims.values())
    winners = [name for name, confidence in claims.items() if confidence == best]
    if len(winners) > 1:
        raise AmbiguousFormatError(path, winners)
    return get(winners[0])


def candidates(probe: Probe) -> dict[str, int]:
    """Every format that claims the probe, with its confidence."""
    claims = {format_.name: format_.sniff(probe) for format_ in formats()}
    return {name: int(confidence) for name, confidence in claims.items() if confidence is not None}


def _describe(probe: Probe) -> str:
    if probe.is_directory:
        return "an empty directory" if not probe.entries else "a directory that no format recognises"
    return "an empty file" if not probe.size else "no format recognises its content"


def for_destination(path: str | os.PathLike[str]) -> Format:
    """The format that a destination's name means.

    Raises:
        OptionError: The name means none; names --to.
    """
    name = os.path.basename(os.path.normpath(path))
    for format_ in formats():
        for pattern in format_.extensions:
            if name.endswith(pattern) if pattern.startswith(".") else fnmatch.fnmatch(name, pattern):
                return format_
    known = ", ".join(f"{format_.extensions[0]} ({format_.name})" for format_ in formats())
    raise OptionError(f"cannot tell the format of {name!r} from its name. Use --to NAME, or a name like {known}")
