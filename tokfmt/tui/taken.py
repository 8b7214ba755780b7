"""What is taken away: text or ids of a row, for the clipboard; rows for a file. Reads; for a worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import OptionError, TokfmtError
from tokfmt.core.inside import Sampled
from tokfmt.core.records import RecordReader
from tokfmt.ops.sources import parse_selection
from tokfmt.tui.session import Session
from tokfmt.tui.viewport import Damage, fetched, fetched_span

MOST = 1 << 20
"""Tokens of a copy: a terminal has to take it in one sequence."""

MOST_ROWS = 1 << 22
"""Rows of an export from here."""

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Taken:
    """A copy.

    Attributes:
        text: For the clipboard. said: What it is, in words.
    """

    text: str
    said: str


def taken(session: Session, row: int, part: range, *, ids: bool) -> Taken:
    """Text or ids of a row, or of a part of it.

    Args:
        session, row: Which.
        part: Units of it; an empty one means all.
        ids: Ids, else text.

    Raises:
        TokfmtError: It is too much, cannot be read, or is not there.
    """
    port, alphabet, singular = session.port, session.alphabet, session.view.singular
    span = fetched_span(port, row)
    if isinstance(span, Damage):
        raise TokfmtError(span.why)
    part = part or range(span.length)
    if len(part) > MOST:
        raise OptionError(f"{len(part):,} {port.unit}s are too many for a clipboard (at most {MOST:,}): s marks a part")
    if not ids and alphabet.decoder is None:
        raise OptionError("there are ids only: text needs --tokenizer; C copies ids")
    piece = fetched(port, row, part.start, part.stop)
    if isinstance(piece, Damage):
        raise TokfmtError(piece.why)
    where = f"{singular} {row:,}" if len(part) == span.length else f"part of {singular} {row:,}"
    counted = f"{len(part):,} {port.unit}{'' if len(part) == 1 else 's'}"
    if ids or alphabet.decoder is None:
        return Taken(" ".join(map(str, piece.units.tolist())), f"{counted} of {where} as ids")
    spelled = alphabet.decoder.pieces(piece.units.tolist())
    data = b"".join(one if isinstance(one, bytes) else one.encode("utf-8", "surrogatepass") for one in spelled)
    text = data.decode("utf-8", "backslashreplace")
    escaped = "" if text.encode() == data else "; bytes that are no UTF-8 are written \\xNN"
    return Taken(text, f"{counted} of {where} as text, {len(text):,} characters{escaped}")


def chosen_rows(words: str, count: int, sets: Mapping[str, Numbers]) -> Numbers:
    """Rows in words: a number, `A:B`, or the name of a set (`hits`, `listed`); int64, ascending.

    Raises:
        OptionError: There are none such, or too many.
    """
    if words.strip() in sets:
        rows = sets[words.strip()]
        if not len(rows):
            raise OptionError(f"{words.strip()}: there are none")
        return rows
    named = "".join(f", {name}" for name in sets)
    if not words.strip() or words.strip()[0] not in "0123456789-:":
        raise OptionError(f"write a number, A:B{named}")
    first, last = parse_selection(words, count)
    if last - first > MOST_ROWS:
        raise OptionError(f"{last - first:,} are more than {MOST_ROWS:,}: tokfmt convert --select {words} exports them")
    if first == last:
        raise OptionError("that chooses none")
    return np.arange(first, last, dtype=np.int64)


def not_written(session: Session) -> str:
    """What of a dataset JSON lines do not carry from here; "" for nothing."""
    reader = session.view.reader
    return "" if isinstance(reader, RecordReader) or not isinstance(reader, Sampled) else "without masks and labels"
