"""The places that answers to the question of `g` name: a row, a token or a byte."""

from __future__ import annotations

from collections.abc import Callable

from tokfmt.base.options import parse_count
from tokfmt.browser.data.facts import byte_offset_of_unit
from tokfmt.browser.data.rows import RowSource
from tokfmt.browser.data.session import Session, Where, row_at
from tokfmt.core.records import RecordReader
from tokfmt.errors import OptionError
from tokfmt.files.fields import Pointer
from tokfmt.wording import counted


def number_words(what: str, count: int) -> str:
    """Return a question for a number that `parse_number` reads."""
    if count == 1:
        return f"{what} 0, the only one"
    return f"{what} 0 to {max(0, count - 1):,}, -1, 50%"


def parse_number(answer: str, count: int, what: str) -> int:
    """Return a number below `count`: `17`, `-1` from the end, `$` for the last, or `50%` of the way."""
    plain, number = answer.strip(), count
    if plain == "$":  # the last line, in vim
        plain = "-1"
    if plain.endswith("%"):
        try:
            share = float(plain[:-1]) / 100
        except ValueError:
            raise OptionError(f"{plain!r} is not a share. Write it like 50% or 99.5%") from None
        if 0 <= share <= 1:
            number = min(int(share * count), count - 1)
    else:
        number = parse_count(plain)
        number += count if number < 0 else 0
    if not 0 <= number < count:
        raise OptionError(f"there are {counted(count, what)}: 0 to {max(0, count - 1):,}, or 0% to 100%")
    return number


def row_of(answer: str, count: int, noun: str) -> int:
    """Return the row that an answer names: a number, or `25*512`, the first sample of step 25 of batches of 512."""
    step, sign, batch = answer.partition("*")
    return parse_number(str(parse_count(step) * parse_count(batch)) if sign else answer, count, noun)


def byte_finder(session: Session, port: RowSource, where: Where, answer: str) -> Callable[[], Where]:
    """Return a function that finds the token at a byte of the file of a token, or at `file:offset`. It reads."""
    name, _, number = answer.rpartition(":")
    offset = parse_count(number)
    holds = "record" if isinstance(session.view.reader, RecordReader) else "token"

    def find() -> Where:
        place = byte_offset_of_unit(port, *where)
        if place is None:
            raise OptionError("this format does not map bytes to tokens")
        path = place.path.parent / name if name else place.path
        found = row_at(session, Pointer(path, offset))
        if found is None:
            raise OptionError(f"byte {offset:,} of {path.name} holds no {holds}")
        return found

    return find
