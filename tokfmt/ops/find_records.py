"""Find records of text that nobody tokenised: by a regular expression, or by their length in characters."""

from __future__ import annotations

from collections.abc import Iterator

from tokfmt.core.errors import OptionError
from tokfmt.core.records import RecordReader
from tokfmt.ops.find import Hit, Search, stretches
from tokfmt.ops.query import LengthQuery, Query, TextQuery

_BLOCK = 1 << 24  # bytes
_BACK = 1 << 12  # records searched at once when going backwards


def find_records(
    records: RecordReader, query: Query, search: Search, *, first: int = 0, last: int | None = None
) -> Iterator[Hit]:
    """Records `first <= i < last` that a query asks for; positions are characters within the record.

    Going backwards (or from the middle) counts the records first.

    Raises:
        OptionError: A query of ids.
        FormatError: A line that is not valid.
    """
    if not isinstance(query, (TextQuery, LengthQuery)):
        raise OptionError("token: searches ids, and this is text: give --tokenizer, or search text:'...'")
    if not search.backwards:
        yield from _forwards(records, query, search, first, last)
        return
    for a, b in stretches(first, records.count() if last is None else last, _BACK, backwards=True):
        yield from reversed(list(_forwards(records, query, search, a, b)))
        if search.stopped():
            return


def _forwards(
    records: RecordReader, query: TextQuery | LengthQuery, search: Search, first: int, last: int | None
) -> Iterator[Hit]:
    number = first
    for block in records.blocks(_BLOCK, first, last):
        for batch in records.texts(block):
            if search.stopped():
                return
            for text in batch.texts:
                yield from _in_text(text, number, query, search)
                number += 1
        search.progress(block.stop - block.start)


def _in_text(text: str, number: int, query: TextQuery | LengthQuery, search: Search) -> Iterator[Hit]:
    if isinstance(query, LengthQuery):
        if len(text) >= query.low and (query.high is None or len(text) <= query.high):
            yield Hit(number, 0, len(text))
        return
    if query.literal is not None and query.literal not in text:
        return
    found = [Hit(number, *match.span()) for match in query.pattern.finditer(text)]
    yield from found if not search.each else found[-1:] if search.backwards else found[:1]
