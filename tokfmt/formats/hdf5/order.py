"""Which files make one stream, and in which order its writer wrote them.

    name                                     stream          order in it
    examples_<n>_<rank>.h5                   of each rank    n
    output_chunk_<rank>_<n>[_<node>].h5      of each rank    n, as a number
    output_chunk_<rank>_prefix.h5            its own         -          (left-over tails, after the others)
    anything with numbers                    of each pattern the numbers, from left to right

Trainers sort names as text (-1, -10, -11, -2): `order=trainer` reads in that order; a document then goes on only
between files that follow each other in the writer's order as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tokfmt.core.errors import FormatError
from tokfmt.core.files import names_in
from tokfmt.formats.hdf5.options import Order

_EXAMPLES = re.compile(r"examples_(\d+)_(\d+)\.h5", re.ASCII)
_CHUNK = re.compile(r"output_chunk_(\d+)_(\d+)(?:_(\d+))?\.h5", re.ASCII)
_PREFIX = re.compile(r"output_chunk_(\d+)_prefix\.h5", re.ASCII)
_NUMBER = re.compile(r"\d+", re.ASCII)

Key = tuple[tuple[object, ...], tuple[int, ...]]


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The `*.h5` files of a directory (its top level only), or the files given.

    Raises:
        FormatError: The directory holds none.
    """
    if len(paths) != 1 or not paths[0].is_dir():
        return list(paths)
    inside = [paths[0] / name for name in names_in(paths[0])]
    found = sorted(path for path in inside if path.name.endswith(".h5") and not path.is_dir())
    if not found:
        others = sorted(p.name for p in inside if p.suffix.lower() in (".h5", ".hdf5", ".he5"))
        raise FormatError(
            paths[0],
            "holds no *.h5 file",
            found=", ".join(others[:3]) or None,
            remedy="Name the files one by one, or rename them: trainers look for *.h5 only" if others else None,
        )
    return found


def arrange(files: Sequence[Path], order: Order) -> list[list[Path]]:
    """Files as streams: each a run of files through which documents may go on."""
    keys = {path: _key(path) for path in files}
    seen: dict[Path, int] = {}
    for path in files:
        seen.setdefault(path.parent, len(seen))
    written = sorted(files, key=lambda path: (seen[path.parent], *keys[path], path.name))
    follows = {b: a for a, b in zip(written, written[1:], strict=False) if _stream(a, keys) == _stream(b, keys)}
    if order == "writer":
        chosen = written
    elif order == "trainer":
        chosen = sorted(files, key=lambda path: (seen[path.parent], path.name))
    else:
        chosen = list(files)
    streams: list[list[Path]] = []
    for path in chosen:
        if streams and follows.get(path) == streams[-1][-1]:
            streams[-1].append(path)
        else:
            streams.append([path])
    return streams


def _stream(path: Path, keys: dict[Path, Key]) -> tuple[object, ...]:
    return path.parent, *keys[path][0]


def _key(path: Path) -> Key:
    """What names the stream of a file, sortable among files of one directory; and its place in the stream."""
    if match := _EXAMPLES.fullmatch(path.name):
        return (0, "examples", int(match[2]), 0), (int(match[1]),)
    if match := _CHUNK.fullmatch(path.name):
        return (0, "output_chunk", int(match[3] or 0), int(match[1])), (int(match[2]),)
    if match := _PREFIX.fullmatch(path.name):
        return (1, "output_chunk", 0, int(match[1])), ()
    return (0, _NUMBER.sub("#", path.name), 0, 0), tuple(int(n) for n in _NUMBER.findall(path.name))
