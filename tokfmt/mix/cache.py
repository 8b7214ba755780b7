"""Compute arrays once per machine, keep them in the user's cache, and map them in all processes.

    $XDG_CACHE_HOME/tokfmt/recipes/KEY-NAME.i64     little-endian int64, without a header
    $XDG_CACHE_HOME/tokfmt/recipes/KEY-tokens.u16   the tokens of a source that takes long to decode; or .u32
    $XDG_CACHE_HOME/tokfmt/recipes/KEY-tokens.u8    the loss masks of such a source
    $XDG_CACHE_HOME/tokfmt/recipes/KEY.json         facts of sources, and the byte offsets of their tokens

KEY is a hash of all facts that the array depends on: files with their sizes, times and inodes, and how they are read.

- An array is written under the lock KEY.lock to a hidden name that begins with KEY, and then renamed. It is complete,
  or it does not exist.
- Arrays of at most 1 MiB are held in memory and not written.
- Each write also removes files that were not used for 30 days, and hidden files whose lock is free, because the
  process that wrote them was killed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.errors import ConversionError, OutageError, TokfmtError
from tokfmt.files.durable import replace_file
from tokfmt.files.locks import distrusted, make_private, release, take_lock, user_directory
from tokfmt.wording import printable

Numbers = NDArray[np.int64]
SMALL = 1 << 20
"""Arrays of at most this number of bytes are held in memory."""

_UNUSED = 30 * 86400  # seconds
_PATIENCE = 600.0  # seconds that a process waits for another that computes the same arrays
_DTYPES = {".i64": "<i8", ".u8": "<u1", ".u16": "<u2", ".u32": "<u4"}
LARGEST_COPY = 1 << 34
"""The largest copy of the tokens of a source in bytes. A copy takes at most half of the free space."""

Unkept = dict[str, None]
"""Notes on what cannot be kept in the cache, in order, each once."""


class Column:
    """int64[n], in memory or mapped from the cache; mapped tokens are uint16 or uint32, and mapped marks uint8.

    It is picklable; a mapped array is mapped again on unpickling.
    """

    def __init__(self, array: Numbers | None = None, path: Path | None = None) -> None:
        self.path = path
        self.array: NDArray[Any] = _mapped(path) if path is not None else np.asarray(array, np.int64)

    def __len__(self) -> int:
        return len(self.array)

    def __getstate__(self) -> dict[str, object]:
        return {"path": self.path, "array": None if self.path is not None else self.array}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["array"], state["path"])  # type: ignore[misc]


def _mapped(path: Path) -> NDArray[Any]:
    # a plain array, because each operation on numpy's memmap class takes a microsecond more
    if not os.path.getsize(path):
        return np.empty(0, _DTYPES[path.suffix])
    return np.asarray(np.memmap(path, _DTYPES[path.suffix], "r"))


Parts = Callable[[], Iterator[Sequence[NDArray[Any]]]]
"""Yields the parts of arrays, in order: one array per name."""


def directory() -> Path:
    """Return the directory of the cache, and create it if it does not exist."""
    place = _place()
    place.parent.mkdir(parents=True, exist_ok=True)
    make_private(place, taken_over=True)
    return place


def _place() -> Path:
    return user_directory("CACHE", ".cache") / "recipes"


def key_of(*facts: object) -> str:
    """Return the cache key of facts: 40 hexadecimal digits."""
    return hashlib.sha256(json.dumps(facts, default=str, sort_keys=True).encode()).hexdigest()[:40]


def _note(error: OSError | TokfmtError, unkept: Unkept | None) -> None:
    if unkept is None:
        return
    why = str(error)
    if isinstance(error, OSError) and error.strerror:
        why = error.strerror
        with contextlib.suppress(FileNotFoundError):  # the user has no home directory
            why = f"{printable(_place())}: {why}"
    unkept[
        f"nothing is kept in the cache ({why}), so each process computes its own arrays and holds them in memory. "
        "Set XDG_CACHE_HOME to a directory that you may write to"
    ] = None


def columns(
    key: str, size_bytes: int, names: Sequence[str], parts: Parts, unkept: Unkept | None = None, *, keep: bool = False
) -> list[Column]:
    """Return arrays from the cache, or compute them and keep them there. `size_bytes` is an upper bound of the size of
    all arrays; small arrays are not kept, unless `keep`. `parts` computes them in parts. `unkept` receives a note if
    they cannot be kept. A name without a suffix of `_DTYPES` is one of int64.
    """
    if size_bytes > SMALL or keep:
        files = [f"{key}-{name}" + ("" if "." in name else ".i64") for name in names]
        try:
            return [Column(path=path) for path in _kept(files, parts)]
        except (ConversionError, OSError) as error:  # for example, the home directory is read-only or full
            _note(error, unkept)
    return [Column(array) for array in _joined(parts(), len(names))]


def has_room(size_bytes: int) -> bool:
    """Return True if a copy of tokens of this size fits into the cache."""
    with contextlib.suppress(OSError, TokfmtError):
        return size_bytes <= min(LARGEST_COPY, shutil.disk_usage(directory()).free // 2)
    return False


def copied_tokens(key: str, dtype: np.dtype[Any], parts: Parts | None, unkept: Unkept | None = None) -> Column | None:
    """Return a copy of tokens (uint16, uint32) or marks (uint8) from the cache, or make it; else None."""
    name = f"{key}-tokens.u{8 * dtype.itemsize}"
    try:
        if parts is not None:
            return Column(path=_kept([name], parts)[0])
        path = _place() / name
        if not path.is_file() or distrusted(path.parent):
            return None
        _use(path)
        return Column(path=path)
    except (ConversionError, OSError) as error:
        _note(error, unkept)
        return None


def _use(*paths: Path) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            os.utime(path)


def _remove_unused(place: Path) -> None:
    with os.scandir(place) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.stat(follow_symlinks=False).st_mtime < time.time() - _UNUSED:
                    os.unlink(entry.path)


def _remove_dead(place: Path, ours: str) -> None:
    """Remove hidden files of killed processes: their lock is free, or it is `ours`, which the caller holds."""
    with os.scandir(place) as entries:
        hidden = [entry for entry in entries if entry.name.startswith(".") and "-" in entry.name]
    for entry in hidden:
        key = entry.name[1:].partition("-")[0]
        with contextlib.suppress(OSError):
            lock = -1 if key == ours else take_lock(place / f"{key}.lock")
            if key == ours or lock >= 0:
                os.unlink(entry.path)
            if lock >= 0:
                release(lock)


def _kept(names: Sequence[str], parts: Parts) -> list[Path]:
    place = directory()
    paths = [place / name for name in names]
    if not _exist(paths):
        _make(names[0].partition("-")[0], paths, parts)
    _use(*paths)
    return paths


def _make(key: str, paths: Sequence[Path], parts: Parts) -> None:
    """Compute arrays, or wait until another process has computed them. A wait of more than ten minutes is an error."""
    home = paths[0].parent
    lock = take_lock(home / f"{key}.lock", patience=_PATIENCE)
    if lock < 0:
        raise OutageError(f"{_place()}: another process has been computing the same for {_PATIENCE:,.0f} seconds")
    try:
        if not _exist(paths):
            _remove_dead(home, key)
            _write(paths, parts())
            _remove_unused(home)
    finally:
        release(lock)


def _exist(paths: Sequence[Path]) -> bool:
    return all(path.is_file() for path in paths)


def _joined(parts: Iterator[Sequence[NDArray[Any]]], count: int) -> list[Numbers]:
    arrays: list[list[Numbers]] = [[np.empty(0, np.int64)] for _ in range(count)]
    for part in parts:
        for array, piece in zip(arrays, part, strict=True):
            array.append(piece)
    return [np.concatenate(array) for array in arrays]


def _write(paths: Sequence[Path], parts: Iterator[Sequence[NDArray[Any]]]) -> None:
    """Write arrays to hidden files, and rename them once all are complete."""
    files = [
        tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.stem}.", suffix=path.suffix, delete=False)  # noqa: SIM115
        for path in paths
    ]
    try:
        for part in parts:
            for file, piece in zip(files, part, strict=True):
                file.write(np.ascontiguousarray(piece, _DTYPES[Path(file.name).suffix]).data)
        for file in files:
            file.flush()
            os.fsync(file.fileno())
        for file, path in zip(files, paths, strict=True):
            os.replace(file.name, path)
    except BaseException:
        for file in files:
            Path(file.name).unlink(missing_ok=True)
        raise
    finally:
        for file in files:
            file.close()


def recalled(key: str) -> Any:
    """Return a value that `remember` kept; None without one, or if it cannot be read."""
    with contextlib.suppress(OSError, ValueError, RecursionError, TokfmtError):
        path = _place() / f"{key}.json"
        if not distrusted(path.parent):
            value = json.loads(path.read_bytes())
            _use(path)
            return value
    return None


def remember(key: str, value: object, unkept: Unkept | None = None) -> None:
    """Keep a small JSON value. If the cache cannot be written to, the value is not kept, and `unkept` gets a note."""
    try:
        replace_file(directory() / f"{key}.json", json.dumps(value).encode())
    except (OSError, TokfmtError) as error:
        _note(error, unkept)
