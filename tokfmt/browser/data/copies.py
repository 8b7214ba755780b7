"""Copies of rows for the clipboard, and rows that are written to a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.options import parse_count
from tokfmt.browser.data.layout import bytes_of
from tokfmt.browser.data.rows import Damage, fetched, fetched_span
from tokfmt.browser.data.session import Session
from tokfmt.browser.data.workers import Job
from tokfmt.commands.show.export import export
from tokfmt.core.records import RecordReader
from tokfmt.errors import OptionError, TokfmtError
from tokfmt.source.request import parse_selection
from tokfmt.wording import counted

MOST = 1 << 20
"""Limit of tokens in a copy, because a terminal takes a copy in one escape sequence."""

MOST_ROWS = 1 << 22
"""Limit of rows in an export from the browser."""


Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy."""

    text: str  # the text for the clipboard
    description: str  # the content in words, for a notification


def copied(session: Session, row: int, part: range, *, ids: bool) -> Copied:
    """Return the text or the IDs of a part of a row; an empty range means all of it."""
    port, token_style, singular = session.port, session.token_style, session.view.singular
    span = fetched_span(port, row)
    if isinstance(span, Damage):
        raise TokfmtError(span.why)
    part = part or range(span.length)
    if len(part) > MOST:
        raise OptionError(f"{len(part):,} {port.unit}s are too many for a clipboard (at most {MOST:,}). Mark a part")
    if not ids and token_style.decoder is None:
        raise OptionError("text needs --tokenizer. Show the IDs with m, and copy them")
    piece = fetched(port, row, part.start, part.stop)
    if isinstance(piece, Damage):
        raise TokfmtError(piece.why)
    where = f"{singular} {row:,}" if len(part) == span.length else f"part of {singular} {row:,}"
    amount = counted(len(part), port.unit)
    if ids or token_style.decoder is None:
        return Copied(" ".join(map(str, piece.units.tolist())), f"{amount} of {where} as IDs")
    data = b"".join(bytes_of(token_style.decoder, piece.units))
    text = data.decode("utf-8", "backslashreplace")
    escaped = "" if text.encode() == data else "; bytes that are not UTF-8 are written \\xNN"
    return Copied(text, f"{amount} of {where} as text, {len(text):,} characters{escaped}")


def chosen_rows(words: str, count: int, sets: Mapping[str, Numbers]) -> Numbers:
    """Return the rows of `all`, `17`, `A:B`, `first 20` or a set (`selected`, `listed`, `hits`), in its order."""
    if words.strip() == "all" and count <= MOST_ROWS:
        return np.arange(count, dtype=np.int64)
    if words.strip() in sets:
        rows = sets[words.strip()]
        if not len(rows):
            raise OptionError(f"{words.strip()}: the set is empty. Choose other rows")
        return rows
    word, _, number = words.strip().partition(" ")
    if word == "first" and number.strip():
        listed = next((sets[name] for name in ("listed", "selected") if name in sets), np.arange(min(count, MOST_ROWS)))
        return listed[: parse_count(number)]
    named = "".join(f", {name}" for name in sets)
    if not words.strip() or words.strip()[0] not in "0123456789-:":
        raise OptionError(f"write all, first 20, a number, A:B{named}")
    first, last = parse_selection(words, count)
    if last - first > MOST_ROWS:
        raise OptionError(f"{last - first:,} are more than {MOST_ROWS:,}. Use tokfmt convert --select {words}")
    if first == last:
        raise OptionError("the interval is empty. Choose other rows")
    return np.arange(first, last, dtype=np.int64)


def not_written(session: Session) -> str:
    """Return what an export loses of a dataset, in words; "" for nothing."""
    reader = session.view.reader
    return "" if isinstance(reader, RecordReader) or not reader.has_labels else "without masks and labels"


def exported(session: Session, rows: Numbers, path: str, *, as_text: bool, overwrite: bool, job: Job) -> int:
    """Write rows to JSON lines, with the text of the tokens or their IDs, and return the number of bytes."""
    reader, words = session.view.reader, session.vocabulary
    decoder = words.handle.decoder() if as_text and words is not None else None
    request, format_ = session.request, session.opened.format
    return export(
        reader, rows, path, paths=request.paths, format=format_, decoder=decoder, overwrite=overwrite, progress=job
    )
