"""Find the files of a dataset of HDF5 samples: their order, and what `data_params.json` states beside them.

    name                                     stream                order in the stream
    examples_<n>_<rank>.h5                   one per rank          n
    output_chunk_<rank>_<n>[_<node>].h5      one per rank, node    n, as a number
    output_chunk_<rank>_prefix.h5            one per file          -  (remaining tails, after the others)
    any other name                           one per pattern       its numbers, from left to right

Trainers sort names as text (-1, -10, -11, -2), and `order=trainer` reads in that order. A document then continues only
between files that follow each other in the order of the writer as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from tokfmt.errors import FormatError
from tokfmt.files.file import names_in, open_file
from tokfmt.files.place import Place
from tokfmt.formats.hdf5.options import PARAMS, Order

_EXAMPLES = re.compile(r"examples_(\d+)_(\d+)\.h5", re.ASCII)
_CHUNK = re.compile(r"output_chunk_(\d+)_(\d+)(?:_(\d+))?\.h5", re.ASCII)
_PREFIX = re.compile(r"output_chunk_(\d+)_prefix\.h5", re.ASCII)
_NUMBER = re.compile(r"\d+", re.ASCII)

Key = tuple[tuple[object, ...], tuple[int, ...]]


def files_in(paths: Sequence[Place]) -> list[Place]:
    """Return the `*.h5` files of a directory (top level only), or the given files."""
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
            remedy="Give the files one by one, or rename them: trainers read *.h5 only" if others else None,
        )
    return found


def arrange(files: Sequence[Place], order: Order) -> list[list[Place]]:
    """Group files into streams: runs of files in which documents may continue from one file to the next."""
    keys = {path: _key(path) for path in files}
    seen: dict[Place, int] = {}
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
    streams: list[list[Place]] = []
    for path in chosen:
        if streams and follows.get(path) == streams[-1][-1]:
            streams[-1].append(path)
        else:
            streams.append([path])
    return streams


def _stream(path: Place, keys: dict[Place, Key]) -> tuple[object, ...]:
    return path.parent, *keys[path][0]


def _key(path: Place) -> Key:
    """Return a sortable key of the stream of a file within its directory, and its place in the stream."""
    if match := _EXAMPLES.fullmatch(path.name):
        return (0, "examples", int(match[2]), 0), (int(match[1]),)
    if match := _CHUNK.fullmatch(path.name):
        return (0, "output_chunk", int(match[3] or 0), int(match[1])), (int(match[2]),)
    if match := _PREFIX.fullmatch(path.name):
        return (1, "output_chunk", 0, int(match[1])), ()
    return (0, _NUMBER.sub("#", path.name), 0, 0), tuple(int(n) for n in _NUMBER.findall(path.name))


def follow_by_name(before: Place, after: Place) -> bool:
    """Return whether the names of two files state that one stream continues from the first to the second."""
    (stream, number), (other, later) = _key(before), _key(after)
    return stream == other and number < later


_LARGEST_PARAMS = 1 << 20


@dataclass(frozen=True, slots=True)
class Params:
    """The contents of `data_params.json`, which are hints only."""

    eos_id: int | None = None  # separator; None if not stated
    pad_id: int | None = None  # padding ID; None if not stated
    vocab_size: int | None = None  # number of token IDs; None if not stated
    note: str = ""  # defect of the file, "" without one


def params_beside(files: Sequence[Place]) -> Params:
    """Read `data_params.json` if all files are in one directory that has one."""
    homes = {path.parent for path in files}
    place = next(iter(homes)) / PARAMS
    if len(homes) != 1 or not place.is_file():
        return Params()
    try:
        with closing(open_file(place)) as file:
            if file.size > _LARGEST_PARAMS:
                return Params(note=f"{PARAMS} is too large to be read ({file.size:,} bytes)")
            content = json.loads(file.read(0, file.size))
    except (ValueError, RecursionError, FormatError):
        return Params(note=f"{PARAMS} cannot be read and is ignored")
    return Params(_number_in(content, "eos_id"), _number_in(content, "pad_id"), _number_in(content, "vocab_size"))


def _number_in(content: Any, name: str) -> int | None:
    """Return a number from the section that holds it in one of the two dialects of the file, else None."""
    for section in ("processing", "post-process"):
        value = content.get(section, {}) if isinstance(content, dict) else {}
        value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32:
            return value
    return None
