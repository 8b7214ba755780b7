"""Sources as the user's cache remembers them: counts are known, and files are opened when more than that is read.

A thousand files, or an index of ten million documents, take seconds to open; every rank of a training would do it. What
is remembered holds as long as each file, and each manifest beside one, is what it was by size, time and inode.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tokfmt import registry
from tokfmt.core.axis import Info, Layout, Separators, TokenReader
from tokfmt.core.protocols import Piece, pieces_of, restored
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.ops.source.manifest import manifest_path
from tokfmt.ops.source.opened import Separator, open_sources
from tokfmt.ops.source.opened import Source as Opened
from tokfmt.ops.source.request import SourceRequest, parse_selection
from tokfmt.recipes.axis import Source
from tokfmt.recipes.cache import recalled, remember
from tokfmt.views.concat import Concat
from tokfmt.views.select import Slice

_FILES, _SEQUENCES = 64, 1 << 16
"""From so many on a source is worth remembering."""


class Deferred:
    """A reader that is opened when it is read. Picklable; threads may share it."""

    def __init__(self, info: Info, request: SourceRequest, select: str | None) -> None:
        self._info, self.request, self.select = info, request, select
        self._open()

    def _open(self) -> None:
        self._reader: TokenReader | None = None
        self._lock = threading.Lock()

    @property
    def info(self) -> Info:
        return self._info

    @property
    def reader(self) -> TokenReader:
        """What is read."""
        with self._lock:
            if self._reader is None:
                self._reader = joined([part.reader for part in open_sources(self.request)], self.select)
            return self._reader

    def tokens(self, start: int, stop: int) -> Tokens:
        return self.reader.tokens(start, stop)

    def offsets(self, first: int, last: int) -> Offsets:
        return self.reader.offsets(first, last)

    def restored(self, eos_id: int, *, read: bool = False, before: bool = False) -> TokenReader | None:
        """See `protocols.Restorable`."""
        return restored(self.reader, eos_id, read=read, before=before)

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        """See `protocols.Verbatim`."""
        return pieces_of(self.reader, start, stop)

    def beneath(self, position: int) -> tuple[TokenReader, int]:
        """See `protocols.Underlying`."""
        return self.reader, position

    def above(self, reader: TokenReader, position: int) -> int | None:
        """See `protocols.Underlying`."""
        return position if reader is self._reader else None

    def readers(self) -> Sequence[TokenReader]:
        """See `protocols.Underlying`."""
        return (self.reader,)

    def close(self) -> None:
        """Release open files."""
        if self._reader is not None:
            self._reader.close()

    def __getstate__(self) -> dict[str, object]:
        return {"_info": self._info, "request": self.request, "select": self.select}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open()


def joined(readers: Sequence[Any], select: str | None) -> TokenReader:
    """Readers one after the other, or the sequences that are selected of them."""
    reader: TokenReader = readers[0] if len(readers) == 1 else Concat(readers)
    return reader if select is None else Slice(reader, *parse_selection(select, reader.info.sequences))


def remembered(key: str, name: str, request: SourceRequest, select: str | None) -> tuple[Source, Opened] | None:
    """A source as it was when it was opened last, if its files are what they were.

    Args:
        key: Of what is read, and how; from `recipes.cache.key_of`.
        name: In the recipe.
        request: What opens it; select: which of its sequences.
    """
    try:
        return _remembered(recalled(key), name, request, select)
    except (KeyError, TypeError, ValueError):  # damaged, or of another version
        return None


def _remembered(known: Any, name: str, request: SourceRequest, select: str | None) -> tuple[Source, Opened] | None:
    if known is None or known["seen"] != _seen(path for path, _ in known["seen"]):
        return None
    told = known["info"]
    info = Info(**{
        **told, "layout": Layout(told["layout"]), "dtype": np.dtype(told["dtype"]),
        "separators": Separators(told["separators"]),
    })  # fmt: skip
    paths, separator = tuple(map(Path, request.paths)), Separator(*known["separator"])
    reader, notes = Deferred(info, request, select), tuple(known["notes"])
    source = Source(
        name, paths, known["format"], reader, separator.eos_id, known["state"], known["facts"], notes, kept=True
    )  # fmt: skip
    opened = Opened(
        paths, registry.get(known["format"]), reader, separator, notes, tokenizers=tuple(known["tokenizers"])
    )
    return source, opened


def kept(key: str, source: Source, parts: Sequence[Opened], files: Iterable[Path]) -> Source:
    """A source of which what is known is kept, where opening it again would take long."""
    kinds = {(part.format.name, part.separator) for part in parts}
    if len(kinds) > 1 or (len(parts) < _FILES and source.info.sequences < _SEQUENCES):
        return source
    _remember(key, source, parts, files)
    return replace(source, kept=True)


def _remember(key: str, source: Source, parts: Sequence[Opened], files: Iterable[Path]) -> None:
    names = (
        "sequences", "tokens", "max_id", "sample_length", "eos_id", "eos_from", "free_of", "pad_id",
    )  # fmt: skip
    info, manifests = source.info, [manifest_path(path) for part in parts for path in part.paths]
    remember(
        key,
        {
            "seen": _seen([*files, *manifests]), "format": source.format, "separator": list(parts[0].separator),
            "state": source.state, "facts": source.facts, "notes": source.notes,
            "tokenizers": [made and dict(made) for part in parts for made in part.tokenizers],
            "info": {
                **{name: getattr(info, name) for name in names}, "layout": info.layout.value, "dtype": info.dtype.str,
                "separators": info.separators.value,
            },
        },
    )  # fmt: skip


def _seen(paths: Iterable[Path | str]) -> list[list[Any]]:
    """Each file, and its size, modification time and inode; None of one that is not there."""
    found = list[list[Any]]()
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            found.append([str(path), None])
        else:
            found.append([str(path), [status.st_size, status.st_mtime_ns, status.st_ino]])
    return found
