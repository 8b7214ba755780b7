"""Formats by name and by content: entry points of the group `tokfmt.formats`.

Listing names imports nothing; using a format imports that one; detection imports them all.
"""

from __future__ import annotations

import fnmatch
import functools
import os
import sys
from collections.abc import Iterator
from importlib import import_module

from tokfmt.core.errors import AmbiguousFormatError, OptionError, UnknownFormatError
from tokfmt.core.format import Format, Probe, look
from tokfmt.core.options import nearest

GROUP = "tokfmt.formats"


@functools.cache
def _points() -> dict[str, str]:
    """Each format's `module:object`, of every distribution on the path; of two with one name the earlier on the path.

    importlib.metadata tells the same, after 17 ms of imports (email, zipfile, csv). What it alone can find, in zips and
    by import hooks, holds no format.
    """
    found: dict[str, str] = {}
    for place in sys.path:
        try:
            names = os.listdir(place or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                for key, value in _declared(os.path.join(place, name, "entry_points.txt")):
                    found.setdefault(key, value)
    return found


def _declared(file: str) -> Iterator[tuple[str, str]]:
    """The formats that a distribution declares: lines `name = module:object` under `[tokfmt.formats]`."""
    try:
        with open(file, encoding="utf-8") as lines:
            section = ""
            for line in map(str.strip, lines):
                if line.startswith("["):
                    section = line
                elif section == f"[{GROUP}]" and not line.startswith(("#", ";")):
                    name, equals, value = line.partition("=")
                    if equals:
                        yield name.strip(), value.partition("[")[0].strip()
    except (OSError, UnicodeDecodeError):
        return


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
    module, _, path = point.partition(":")
    loaded: Format = functools.reduce(getattr, path.split("."), import_module(module))  # type: ignore[assignment]
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
