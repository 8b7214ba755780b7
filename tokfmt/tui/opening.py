"""Opening a dataset in stages: what can be shown at once, whatever its size, and the rest in a worker.

At once: of formats with samples the rows as stored; of packs and stores the tokens in rows, before the index is read;
of records the first; of everything small the documents, without a second stage. In full: documents, by the index or by
a scan for separators; records, counted.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tokfmt import registry
from tokfmt.core.axis import Layout, Separators, TokenReader
from tokfmt.core.errors import TokfmtError, UnsupportedError
from tokfmt.core.format import Format, Hints
from tokfmt.core.glimpse import Glimpsed
from tokfmt.core.memory import MemoryReader
from tokfmt.core.options import parse_options
from tokfmt.core.ragged import Ragged
from tokfmt.core.records import RecordReader
from tokfmt.ops.open import open_source
from tokfmt.ops.progress import Progress
from tokfmt.ops.separator import Separator, last_ids, resolve, told
from tokfmt.ops.sources import SourceRequest, option_names, read_options
from tokfmt.tui.records import RecordPort, first_records
from tokfmt.tui.viewport import Port, Viewport
from tokfmt.views.rows import Rows

SMALL = 4 << 20
"""Bytes, and tokens, up to which everything is opened before the first screen."""

ROW = 2048
"""Tokens in a row when nobody knows the documents yet."""

AT_ONCE = 1 << 30
"""Tokens up to which a scan for documents starts by itself; a larger one waits for `v`."""

_ENTRIES = 256
_TOLERANT = frozenset({"tail", "fields"})
"""A half sample at the end, or fields beside the text, are no reason to show nothing."""


class View(NamedTuple):
    """One way to see a dataset as rows.

    Attributes:
        name: "documents", "samples", "rows" or "records"; its singular is what a row is called.
        port: The rows.
        reader: Under it: the token axis, or the records.
        whole: False while only a part is known (the first records).
    """

    name: str
    port: Port
    reader: TokenReader | RecordReader
    whole: bool = True

    @property
    def singular(self) -> str:
        """What one row is called."""
        return self.name.removesuffix("s")


class Opened(NamedTuple):
    """What a stage has found.

    Attributes:
        format: The format; None of what cannot be opened and is of no known one.
        views: Best first.
        separator: How it is known.
        notes: What a person should be told.
        pending: The second stage has still to come: "" when it has not, else what it does.
        starts: It starts by itself.
    """

    format: Format | None
    views: tuple[View, ...]
    separator: Separator
    notes: tuple[str, ...] = ()
    pending: str = ""
    starts: bool = True


def open_first(request: SourceRequest) -> Opened:
    """What can be shown at once.

    Raises:
        TokfmtError: Nothing can.
    """
    path = Path(request.paths[0])
    format_ = registry.get(request.format) if request.format else registry.detect(path)
    words, small = read_options(request, format_), is_small(path)
    if "view" in option_names(format_.read_options) and not any(word.startswith("view=") for word in words):
        first = _samples(request, format_, words)
    else:
        first = None if small else _glimpse(request, format_, words)
    if first is None:
        return _at_once(request, format_, words, small=small)
    if not small or _tokens(first) > SMALL:
        return first
    try:
        return joined(first, open_in_full(request, format_))
    except TokfmtError as error:
        return first._replace(notes=(*first.notes, str(error)), pending="")


def _tokens(opened: Opened) -> int:
    reader = opened.views[0].reader
    return reader.info.size if isinstance(reader, RecordReader) else reader.info.tokens


def _hints(request: SourceRequest) -> Hints:
    known = told(request.eos, None, [Path(path) for path in request.paths])
    no_eos = known is not None and known.eos_id is None
    return Hints(known.eos_id if known else None, request.drop | _TOLERANT, no_eos)


def _parsed(format_: Format, words: Sequence[str]) -> Any:
    return parse_options(format_.read_options, words, format_.name)


def _open(request: SourceRequest, format_: Format, words: Sequence[str]) -> TokenReader | RecordReader:
    return format_.open([Path(path) for path in request.paths], _parsed(format_, words), _hints(request))


def _separator(request: SourceRequest, reader: TokenReader) -> Separator:
    return resolve(told(request.eos, None, [Path(path) for path in request.paths]), reader, last_ids(reader))


def _samples(request: SourceRequest, format_: Format, words: list[str]) -> Opened | None:
    """The rows as stored; None when there are none, and documents are all there is."""
    try:
        reader = _open(request, format_, [*words, "view=samples"])
    except UnsupportedError:
        return None
    if isinstance(reader, RecordReader):
        return None
    info = reader.info
    view = View("samples", Viewport(reader), reader)
    starts = info.tokens <= AT_ONCE
    return Opened(format_, (view,), _separator(request, reader), info.inferred + info.notes, "documents", starts)


def _glimpse(request: SourceRequest, format_: Format, words: list[str]) -> Opened | None:
    """The tokens in rows, before the index is read."""
    if not isinstance(format_, Glimpsed):
        return None
    reader = format_.glimpse([Path(path) for path in request.paths], _parsed(format_, words), _hints(request))
    return None if reader is None else Opened(format_, (_rows(reader),), Separator(None), pending="index")


def _rows(reader: TokenReader) -> View:
    rows = Rows(reader, ROW)
    return View("rows", Viewport(rows), rows)


def _at_once(request: SourceRequest, format_: Format, words: list[str], *, small: bool) -> Opened:
    reader = _open(request, format_, words)
    if isinstance(reader, RecordReader):
        held = reader.info
        notes = held.inferred + held.notes
        known = held.records if held.records is not None or not small else reader.count()
        if known is not None:
            return Opened(format_, (_records(reader, known),), Separator(None), notes)
        first = first_records(reader)
        view = View("records", RecordPort(reader, len(first), first=first), reader, whole=False)
        return Opened(format_, (view,), Separator(None), notes, "records")
    info = reader.info
    if small or info.separators is not Separators.BETWEEN:
        return open_in_full(request, format_)
    notes, starts = info.inferred + info.notes, info.tokens <= AT_ONCE
    return Opened(format_, (_rows(reader),), _separator(request, reader), notes, "documents", starts)


def _records(reader: RecordReader, count: int) -> View:
    return View("records", RecordPort(reader, count), reader)


def open_in_full(
    request: SourceRequest, format_: Format | None, tokenizer_eos: int | None = None, progress: Progress | None = None
) -> Opened:
    """Documents or records, however long it takes; None detects the format.

    Raises:
        TokfmtError: It cannot be read, or nothing tells where its documents end.
    """
    format_ = format_ or registry.detect(Path(request.paths[0]))
    source = open_source(
        request.paths,
        format=format_.name,
        eos=request.eos,
        tokenizer_eos=tokenizer_eos,
        options=read_options(request, format_),
        drop=request.drop | (_TOLERANT - {"tail"}),
        progress=progress,
    )
    reader = source.reader
    if isinstance(reader, RecordReader):
        return Opened(format_, (_records(reader, reader.count()),), source.separator, source.notes)
    name = "documents" if reader.info.layout is not Layout.SAMPLES else "samples"
    return Opened(format_, (View(name, Viewport(reader), reader),), source.separator, source.notes)


def refused(request: SourceRequest) -> Opened:
    """What there is to show of a dataset that cannot be opened: its format, if that can be told, and no rows."""
    try:
        format_ = registry.get(request.format) if request.format else registry.detect(Path(request.paths[0]))
    except TokfmtError:
        format_ = None
    reader = MemoryReader(Ragged.of(()))
    return Opened(format_, (View("documents", Viewport(reader), reader),), Separator(None))


def joined(first: Opened, full: Opened) -> Opened:
    """Both stages: the views of the second, and the samples of the first."""
    fresh = {view.name for view in full.views}
    kept = tuple(view for view in first.views if view.name == "samples" and view.name not in fresh)
    notes = tuple(dict.fromkeys((*full.notes, *first.notes)))
    return full._replace(views=full.views + kept, notes=notes)


def is_small(path: Path) -> bool:
    """Whether all files of a path together are; a directory is looked at no longer than that takes to tell."""
    total, seen, places = 0, 0, [path]
    try:
        if not path.is_dir():
            return os.stat(path).st_size <= SMALL
        while places:
            with os.scandir(places.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if entry.is_dir(follow_symlinks=False):
                        places.append(Path(entry.path))
                    else:
                        total += entry.stat().st_size
                    if total > SMALL or seen > _ENTRIES:
                        return False
    except OSError:
        return False
    return True
