"""Remember the facts on large sources in the cache, so that their files are opened only when tokens are read.

A thousand files, or an index of ten million documents, take seconds to open, and every rank of a training opens them.
An entry of the cache is valid as long as each file, and each manifest beside one, has the same size, modification time
and inode.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tokfmt import registry
from tokfmt.core.loss_mask import Marks
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import Info, Layout, Piece, Separators, TokenReader
from tokfmt.files.place import Place, place_of
from tokfmt.files.store import Identity
from tokfmt.mix.cache import Unkept, recalled, remember
from tokfmt.mix.documents import TokenSource
from tokfmt.model.dataset import Dataset
from tokfmt.model.readers import dataset_of
from tokfmt.model.select import Concat, Slice
from tokfmt.source.manifest import manifest_path
from tokfmt.source.open import open_datasets
from tokfmt.source.request import SourceFiles, SourceRequest, parse_selection
from tokfmt.source.stored import Separator
from tokfmt.source.stored import Source as Opened

_FILES, _SEQUENCES = 64, 1 << 16
"""The cache stores a source of at least so many files or sequences."""


class Deferred(TokenReader):
    """A reader that opens its files when tokens are first read. Picklable; threads may share it."""

    def __init__(self, info: Info, request: SourceRequest, select: str | None) -> None:
        self.info, self.request, self.select = info, request, select
        self._open()

    def _open(self) -> None:
        self._reader: TokenReader | None = None
        self._lock = threading.Lock()

    @property
    def reader(self) -> TokenReader:
        """The opened reader."""
        with self._lock:
            if self._reader is None:
                self._reader = joined([part.reader for part in open_datasets(self.request)], self.select)
            return self._reader

    def tokens(self, start: int, stop: int) -> Tokens:
        return self.reader.tokens(start, stop)

    def offsets(self, first: int, last: int) -> Offsets:
        return self.reader.offsets(first, last)

    def as_dataset(self, *, drawn: bool = False) -> Dataset:
        return dataset_of(self.reader, drawn=drawn)

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        return self.reader.pieces(start, stop)

    def marks(self, start: int, stop: int) -> Marks | None:
        return self.reader.marks(start, stop)

    def to_source(self, position: int) -> tuple[TokenReader, int]:
        return self.reader, position

    def find(self, place: Place, byte: int) -> int | None:
        return self.reader.find(place, byte)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def __getstate__(self) -> dict[str, object]:
        return {"info": self.info, "request": self.request, "select": self.select}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._open()


def joined(readers: Sequence[Any], select: str | None) -> TokenReader:
    """Return the concatenation of readers, or the selected sequences of it."""
    reader: TokenReader = readers[0] if len(readers) == 1 else Concat(readers)
    return reader if select is None else Slice(reader, *parse_selection(select, reader.info.sequences))


def leaves_of(source: TokenSource) -> tuple[Sequence[TokenReader], int]:
    """Return the readers of the datasets in a source of token IDs, and the number of sequences before its first one."""
    reader, first = source.whole or source.reader, 0
    while isinstance(reader, (Deferred, Slice)):
        first += reader.first if isinstance(reader, Slice) else 0
        reader = reader.reader if isinstance(reader, Deferred) else reader.source
    several = isinstance(reader, Concat) and len(reader.sources) == len(source.paths)
    return (reader.sources if several and isinstance(reader, Concat) else [reader]), first


def recalled_source(
    key: str, name: str, request: SourceRequest, select: str | None
) -> tuple[TokenSource, Opened] | None:
    """Return a source from the cache, opened later; None without an entry, or if a file has changed since."""
    try:
        cached = recalled(key)
        if cached is None or cached["seen"] != identities_of(path for path, _ in cached["seen"]):
            return None
        facts = cached["info"]
        info = Info(
            **{
                **facts,
                "layout": Layout(facts["layout"]),
                "dtype": np.dtype(facts["dtype"]),
                "separators": Separators(facts["separators"]),
                "tokenizers": tuple(facts["tokenizers"]),
            }
        )
        separator, notes = Separator(*cached["separator"]), tuple(cached["notes"])
        paths, reader = tuple(map(place_of, request.paths)), Deferred(info, request, select)
        source = TokenSource(
            name,
            paths,
            cached["format"],
            reader,
            separator.eos_id,
            cached["state"],
            cached["facts"],
            notes,
            kept=True,
            checksums=tuple(cached["checksums"]),
            decoded=bool(cached["decoded"]),
            masked=bool(cached["masked"]),
            removed=tuple(cached["removed"]),
            leads=tuple(cached["leads"]),
            seen={place_of(path): Identity(*identity) for path, identity in cached["seen"][: cached["files"]]},
        )
        made, format_ = tuple(cached["tokenizers"]), registry.get(cached["format"])
    except (KeyError, TypeError, ValueError):  # the entry is damaged, or another version wrote it
        return None
    return source, Opened(paths, format_, reader, separator, notes, tokenizers=made)


def on_disk(datasets: Sequence[SourceFiles]) -> list[list[Any]]:
    """Return the identities of the files and manifests of a source, because its order may depend on them."""
    return identities_of(
        [*(path for files in datasets for path in files.files), *(manifest_path(files.path) for files in datasets)]
    )


def remember_source(
    key: str, source: TokenSource, parts: Sequence[Opened], files: Collection[Place], unkept: Unkept
) -> TokenSource:
    """Store the facts on a source in the cache if opening it takes long; return the source, marked as cached."""
    kinds = {(part.format.name, part.separator.stated) for part in parts}
    if len(kinds) > 1 or (len(parts) < _FILES and source.info.sequences < _SEQUENCES):
        return source
    names = (
        "sequences",
        "tokens",
        "max_id",
        "sample_length",
        "eos_id",
        "eos_from",
        "free_of",
        "pad_id",
        "tokenizers",
    )
    info, manifests = source.info, [manifest_path(path) for part in parts for path in part.paths]
    remember(
        key,
        {
            "seen": identities_of([*files, *manifests]),
            "files": len(files),
            "format": source.format,
            "separator": list(parts[0].separator.stated),
            "state": source.state,
            "facts": source.facts,
            "checksums": list(source.checksums),
            "decoded": source.decoded,
            "masked": source.masked,
            "removed": source.removed,
            "leads": source.leads,
            "notes": source.notes,
            "tokenizers": [made and dict(made) for part in parts for made in part.tokenizers],
            "info": {
                **{name: getattr(info, name) for name in names},
                "layout": info.layout.value,
                "dtype": info.dtype.str,
                "separators": info.separators.value,
            },
        },
        unkept,
    )
    return replace(source, kept=True)


def identities_of(paths: Iterable[Place | str]) -> list[list[Any]]:
    """Return each path with its identity; None if the file does not exist."""
    identities = list[list[Any]]()
    for path in paths:
        place = place_of(path)
        try:
            identities.append([place.text, list(place.status_now().identity)])
        except OSError:
            identities.append([place.text, None])
    return identities
