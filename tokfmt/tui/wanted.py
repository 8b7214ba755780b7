"""What somebody typed into the search, as a query on what is shown; and the ground it is searched on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tokfmt.core.axis import TokenReader
from tokfmt.core.errors import OptionError
from tokfmt.core.memory import MemoryReader
from tokfmt.core.records import Block, RecordReader
from tokfmt.ops.find import Hits, Search, find_many
from tokfmt.ops.find_records import find_records
from tokfmt.ops.query import LengthQuery, Query, TextQuery, TokenQuery, parse_query
from tokfmt.tui.letters import Pieces
from tokfmt.tui.records import Encoder, RecordPort
from tokfmt.tui.session import Session
from tokfmt.tui.viewport import Port

_BLOCK = 1 << 22  # bytes
_IDS = re.compile(r"\s*\d[\d_]*(?:[\s,]+\d[\d_]*)*\s*")
_WORDED = re.compile(r"\s*(?:(?:token|text)\s*:|len\s*[<>=]|[\d\s_.,kKmMgGtTi]*[<>=]+\s*len\b)", re.IGNORECASE)

HOW = "words (a regular expression) · token:464,3290 · len>4096 · 10<=len<20"
HOW_IDS = "ids: 464 or 464,3290 · len>4096 · 10<=len<20"


@dataclass(frozen=True, slots=True)
class Ground:
    """What is searched: the rows of a view, as they are shown.

    Attributes:
        port: Its rows.
        reader: Under them.
        decoder: Of ids; None without a tokenizer.
        whole: All rows are known.
        singular: What one row is called.
    """

    port: Port
    reader: TokenReader | RecordReader
    decoder: Pieces | None
    whole: bool
    singular: str

    @property
    def encoder(self) -> Encoder | None:
        """What makes tokens of text as it is looked at."""
        return self.port.encoder if isinstance(self.port, RecordPort) else None

    @property
    def of_text(self) -> bool:
        """It holds text, not ids."""
        return isinstance(self.reader, RecordReader) and self.reader.info.kind == "text"

    def by_characters(self, query: Query) -> bool:
        """Hits are characters of a record, whatever its units are."""
        return self.of_text and (self.encoder is None or isinstance(query, TextQuery))

    def amount(self, query: Query) -> tuple[int, str]:
        """How much there is to look at, and in which unit."""
        if isinstance(self.reader, RecordReader):
            return self.reader.info.size, "bytes"
        info = self.reader.info
        return (info.sequences, "rows") if isinstance(query, LengthQuery) else (info.tokens, "tokens")

    def find(self, query: Query, first: int, last: int, search: Search) -> Iterator[Hits]:
        """The hits in rows `first <= i < last`; see `ops.find`. In records they count from the record's beginning."""
        if not isinstance(self.reader, RecordReader):
            return find_many(self.reader, query, search, decoder=self.decoder, first=first, last=last)
        if self.by_characters(query):
            return (Hits.of((hit,)) for hit in find_records(self.reader, query, search, first=first, last=last))
        return self._in_ids(self.reader, query, first, last, search)

    def _in_ids(self, reader: RecordReader, query: Query, first: int, last: int, search: Search) -> Iterator[Hits]:
        number = first
        for block in reader.blocks(_BLOCK, first, last):
            for found in self._batches(reader, block):
                if search.stopped():
                    return
                for hits in find_many(found, query, Search(search.each), decoder=self.decoder):
                    bounds = found.ragged.offsets[hits.sequences]
                    yield Hits(hits.sequences + number, hits.starts - bounds, hits.stops - bounds)
                number += found.info.sequences
            search.progress(block.stop - block.start)

    def _batches(self, reader: RecordReader, block: Block) -> Iterator[MemoryReader]:
        if self.encoder is None:
            yield from (MemoryReader(batch.ragged) for batch in reader.ids(block) if batch.ragged is not None)
            return
        for batch in reader.texts(block):
            yield MemoryReader(self.encoder.encode(list(batch.texts)))


def ground_of(session: Session) -> Ground:
    """What is shown now."""
    view, words = session.view, session.vocabulary
    return Ground(session.port, view.reader, words.decoder if words else None, view.whole, view.singular)


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
    elif _WORDED.match(plain) or not texts:
        query = parse_query(plain)
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
