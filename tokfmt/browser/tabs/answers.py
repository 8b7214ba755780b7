"""The places that answers to the questions of the tab of sequences name: a row, or a byte."""

from __future__ import annotations

from collections.abc import Callable

from tokfmt.base.options import parse_count
from tokfmt.browser.data import Pointer, RecordReader
from tokfmt.browser.rows import RowSource
from tokfmt.browser.session import Session, Where, row_at
from tokfmt.browser.tabs.base import parse_number
from tokfmt.browser.widgets.reader import byte_offset_of_unit
from tokfmt.errors import TokfmtError


def row_of(answer: str, count: int, noun: str) -> int:
    """Return the row that an answer names: a number, or `25*512`, the first sample of step 25 of batches of 512.

    Args:
        answer: The answer.
        count: Number of rows.
        noun: What a row is, for messages.

    Raises:
        OptionError: The answer names no row.
    """
    step, sign, batch = answer.partition("*")
    return parse_number(str(parse_count(step) * parse_count(batch)) if sign else answer, count, noun)


def byte_finder(session: Session, port: RowSource, where: Where, answer: str) -> Callable[[], Where | str]:
    """Return a function that finds the token at a byte, or returns why there is none. It reads.

    Args:
        session: The dataset.
        port: Its rows.
        where: The token in whose file the byte is, unless the answer names another file beside it.
        answer: A byte offset, or `file:offset`.

    Raises:
        OptionError: The answer is no offset.
    """
    name, _, number = answer.rpartition(":")
    offset = parse_count(number)
    holds = "record" if isinstance(session.view.reader, RecordReader) else "token"

    def find() -> Where | str:
        place = byte_offset_of_unit(port, *where)
        if place is None:
            return "this format does not map bytes to tokens"
        path = place.path.parent / name if name else place.path
        try:
            return row_at(session, Pointer(path, offset)) or f"byte {offset:,} of {path.name} holds no {holds}"
        except TokfmtError as error:
            return str(error)

    return find
