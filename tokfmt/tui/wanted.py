"""What somebody typed into the search, as a query on what is shown; and its hits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tokfmt.core.errors import OptionError
from tokfmt.core.memory import MemoryReader
from tokfmt.core.records import Block, RecordReader
from tokfmt.ops.find import Hits, Search, find_many
from tokfmt.ops.find_records import find_records
from tokfmt.ops.query import LengthQuery, Query, TextQuery, TokenQuery, parse_query
from tokfmt.tui.ground import Ground
from tokfmt.tui.records import Encoder

_BLOCK = 1 << 22  # bytes
_IDS = re.compile(r"\s*\d[\d_]*(?:[\s,]+\d[\d_]*)*\s*")
_WORDED = re.compile(r"\s*(?:(?:token|text)\s*:|len\s*[<>=]|[\d\s_.,kKmMgGtTi]*[<>=]+\s*len\b)", re.IGNORECASE)
_NAMED = re.compile(r"\s*\w+\s*[:<>=]")  # as a query is, perhaps misspelt

HOW = "words (a regular expression) · token:464,3290 · len>4096 · 10<=len<20"
HOW_IDS = "ids: 464 or 464,3290 · len>4096 · 10<=len<20"


def by_characters(ground: Ground, query: Query) -> bool:
    """Hits are characters of a record, whatever its units are."""
    return ground.of_text and (ground.encoder is None or isinstance(query, TextQuery))


def amount(ground: Ground, query: Query) -> tuple[int, str]:
    """How much there is to look at, and in which unit."""
    if isinstance(ground.reader, RecordReader):
        return ground.reader.info.size, "bytes"
    info = ground.reader.info
    return (info.sequences, "rows") if isinstance(query, LengthQuery) else (info.tokens, "tokens")


def hits_of(ground: Ground, query: Query, first: int, last: int, search: Search) -> Iterator[Hits]:
    """The hits in rows `first <= i < last`; see `ops.find`. In records they count from the record's beginning."""
    if not isinstance(ground.reader, RecordReader):
        return find_many(ground.reader, query, search, decoder=ground.decoder, first=first, last=last)
    if by_characters(ground, query):
        return (Hits.of((hit,)) for hit in find_records(ground.reader, query, search, first=first, last=last))
    return _in_ids(ground, ground.reader, query, range(first, last), search)


def _in_ids(ground: Ground, reader: RecordReader, query: Query, rows: range, search: Search) -> Iterator[Hits]:
    number = rows.start
    for block in reader.blocks(_BLOCK, rows.start, rows.stop):
        for found in _batches(ground.encoder, reader, block):
            if search.stopped():
                return
            for hits in find_many(found, query, Search(search.each), decoder=ground.decoder):
                bounds = found.ragged.offsets[hits.sequences]
                yield Hits(hits.sequences + number, hits.starts - bounds, hits.stops - bounds)
            number += found.info.sequences
        search.progress(block.stop - block.start)


def _batches(encoder: Encoder | None, reader: RecordReader, block: Block) -> Iterator[MemoryReader]:
    if encoder is None:
        yield from (MemoryReader(batch.ragged) for batch in reader.ids(block) if batch.ragged is not None)
        return
    for batch in reader.texts(block):
        yield MemoryReader(encoder.encode(list(batch.texts)))


def wanted(words: str, ground: Ground) -> Query:
    """What is meant: the words of `tokfmt show`, or plain ones: ids, or text where there is some.

    Raises:
        OptionError: It cannot be looked for here.
    """
    plain, texts = words.strip(), ground.of_text or ground.decoder is not None
    ids = ground.port.unit == "token"
    if not plain:
        raise OptionError(HOW if texts else HOW_IDS)
    if ids and _IDS.fullmatch(plain):
        query = parse_query(f"token:{plain}")
    elif _WORDED.match(plain) or (not texts and _NAMED.match(plain)):
        query = parse_query(plain)
    elif not texts:
        raise OptionError(f"there are ids only: text needs --tokenizer; {HOW_IDS}")
    else:
        query = parse_query(f"text:{plain}")
    if isinstance(query, TokenQuery) and not ids:
        raise OptionError("there are no token ids here before a --tokenizer makes them")
    if isinstance(query, TextQuery) and not texts:
        raise OptionError(f"there are ids only: text needs --tokenizer; {HOW_IDS}")
    return query


def meaning(query: Query, unit: str) -> str:
    """What will be looked for, in words."""
    if isinstance(query, TokenQuery):
        return f"the token {query.ids[0]}" if len(query.ids) == 1 else f"these {len(query.ids)} tokens in a row"
    if isinstance(query, TextQuery):
        return "this text" if query.literal is not None else "this regular expression"
    if query.high is None:
        return f"{query.low:,} {unit}s or more"
    return f"{query.low:,} {unit}s" if query.low == query.high else f"{query.low:,} to {query.high:,} {unit}s"
