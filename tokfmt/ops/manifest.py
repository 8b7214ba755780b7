"""`DST.tokfmt.json`: what was converted, from what, how; written beside each destination.

    {"schema": "tokfmt.manifest/1", "tokfmt": "0.1.0", "format": ..., "eos_id": ..., "eos_from": ..., "sequences": ...,
     "tokens": ..., "max_id": ..., "sources": [{"path", "format", "bytes", "files", "xxh3_128"}], "output": {...},
     "tokenizer": {...} | null, "options": {...}, "dropped": {...}, "notes": [...], "shuffle": seed | null,
     "split": {"shares": {name: share}, "seed": ...} | null, "splits": {name: {"destination", "sequences", ...}},
     "more_sources": {"sources", "bytes", "files", "xxh3_128"}}

`xxh3_128` of a file is what `xxhsum -H128` prints. Of a directory: the same over lines `relative-path size digest`,
sorted by path. It is null for sources of which --select took so little that reading them whole would cost far more than
the conversion. `more_sources` is there when sources are too many to be listed: of the others, the same over such lines
with the path as given, in order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tokfmt.core.files import File, reading_error, walk

SCHEMA = "tokfmt.manifest/1"
_LIMIT = 1 << 24
_PIECE = 1 << 23


def manifest_path(path: Path) -> Path:
    """Where the manifest of a dataset stands."""
    return path.parent / f"{path.name}.tokfmt.json"


def read_manifest(path: Path) -> Mapping[str, Any]:
    """The manifest beside a dataset; empty when there is none, or it is not one of ours."""
    beside = manifest_path(Path(os.path.abspath(path)))
    try:
        if not beside.is_file() or beside.stat().st_size > _LIMIT:
            return {}
        content = json.loads(beside.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    ours = isinstance(content, dict) and content.get("schema") == SCHEMA
    return content if ours else {}


def extent(path: Path) -> dict[str, Any]:
    """Size and number of files of a file or a directory, without a checksum."""
    try:
        sizes = [os.stat(file).st_size for file in (_files(path) if path.is_dir() else [path])]
    except OSError as error:
        raise reading_error(error.filename or path, error) from error
    return {"bytes": sum(sizes), "files": len(sizes), "xxh3_128": None}


def fingerprint(path: Path) -> dict[str, Any]:
    """Size, number of files and checksum of a file or a directory."""
    import xxhash

    if not path.is_dir():
        size, digest = _digest(path)
        return {"bytes": size, "files": 1, "xxh3_128": digest}
    total, count, tree = 0, 0, xxhash.xxh3_128()
    for file in _files(path):
        size, digest = _digest(file)
        total, count = total + size, count + 1
        tree.update(f"{file.relative_to(path).as_posix()} {size} {digest}\n".encode("utf-8", "surrogateescape"))
    return {"bytes": total, "files": count, "xxh3_128": tree.hexdigest()}


def _files(directory: Path) -> Iterator[Path]:
    try:
        found = [base / name for base, names in walk(directory) for name in names]
    except OSError as error:
        raise reading_error(error.filename or directory, error) from error
    yield from sorted(found, key=lambda p: p.relative_to(directory).as_posix())


def _digest(path: Path) -> tuple[int, str]:
    import xxhash

    file, state = File(path), xxhash.xxh3_128()
    buffer = bytearray(min(_PIECE, file.size))
    try:
        for offset in range(0, file.size, _PIECE):
            piece = memoryview(buffer)[: min(_PIECE, file.size - offset)]
            file.read_into(offset, piece)
            state.update(piece)
    finally:
        file.close()
    return file.size, state.hexdigest()
