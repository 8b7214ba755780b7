"""`tokfmt show`: some sequences of a dataset, as ids and, with a tokenizer, as text."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from tokfmt.core.axis import TokenReader
from tokfmt.core.draws import SHOW, check_seed, draws
from tokfmt.core.errors import OptionError
from tokfmt.core.options import nearest, parse_count
from tokfmt.core.records import RecordReader
from tokfmt.ops.find import Hit, Search, find
from tokfmt.ops.find_records import find_records
from tokfmt.ops.find_text import Spelling
from tokfmt.ops.open import Source
from tokfmt.ops.progress import Progress, Silent
from tokfmt.ops.query import LengthQuery, Query, is_query, parse_query
from tokfmt.ops.separator import EosChoice
from tokfmt.ops.shown import Look, Shown
from tokfmt.ops.sources import SourceRequest, open_sources, parse_selection
from tokfmt.ops.tokenize import tokenized

DEFAULT = 5
"""Sequences shown when nothing is selected."""

SEARCHED = 10
"""Sequences shown by a search that has no limit of its own."""

_RANDOM = re.compile(r"\s*random\s*:(.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Preview:
    """A dataset opened for looking: what it is, and the sequences selected, read as they are asked for.

    Attributes:
        shown: The sequences; an iterator.
        cut: The limit, if it ended the selection (asked after `shown` has ended), else None.
    """

    path: str
    format: str
    sequences: int
    tokens: int | None
    eos_id: int | None
    eos_from: str
    extras: dict[str, object]
    notes: tuple[str, ...]
    shown: Iterator[Shown] = field(repr=False)
    cut: Callable[[], int | None] = field(repr=False)


def show(
    path: str | os.PathLike[str],
    selection: str | None = None,
    *,
    from_format: str | None = None,
    from_options: tuple[str, ...] = (),
    tokenizer: str | None = None,
    text_field: str | None = None,
    eos: EosChoice = None,
    split: str | None = None,
    seed: int = 0,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Preview:
    """Open a dataset and read the selected sequences.

    Args:
        path: A file or a directory.
        selection: `5`, `0:10`, `-3:`, `random:5`, or a query (see `ops.query`); the first five by default.
        from_format, from_options, tokenizer, text_field, eos, split: As everywhere.
        seed: Of `random:5`: the same seed chooses the same sequences of datasets with as many.
        limit: At most so many sequences; by default ten of a search, all of any other selection. 0 for all.
        progress: Who watches a search.

    Raises:
        TokfmtError: One of its kinds.
    """
    query = _query(selection)
    handle = None
    if tokenizer is not None:
        from tokfmt.text.tokenizer import load_tokenizer

        handle = load_tokenizer(tokenizer)
    decoder = handle.decoder() if handle else None
    request = SourceRequest((path,), from_format, eos, from_options, text_field, split, frozenset({"fields"}))
    source = open_sources(request, handle.eos_id if handle else None, progress=progress)[0]
    reader = source.reader
    watched = progress or Silent()
    if isinstance(reader, RecordReader):
        if reader.info.kind == "text" and tokenizer is None:
            return _of_texts(source, reader, selection, query, (seed, limit), watched)
        reader = tokenized(reader, tokenizer)
    look = Look(reader, decoder, Spelling(decoder) if decoder is not None else None)
    if query is None:
        chosen: Iterator[Chosen] = ((i, None) for i in _numbers(selection, reader.info.sequences, seed))
    else:
        lengths, info = isinstance(query, LengthQuery), reader.info
        total, unit = (info.sequences, "sequences") if lengths else (info.tokens, "tokens")
        watched.phase("searching", total, unit)
        hits = find(reader, query, decoder=decoder, each=True, progress=watched.advance)
        chosen = ((hit.sequence, None if lengths else hit) for hit in hits)
    kept = _kept(chosen, limit, query)
    return _preview(source, reader.info.sequences, reader.info.tokens, _sequences(reader, kept, look), kept)


Chosen = tuple[int, Hit | None]


@dataclass(slots=True)
class _Kept:
    """What was chosen, up to a limit.

    Attributes:
        chosen: In order.
        limit: None or 0 for none.
        searched: To know whether there is more could take as long as the whole search: it is not looked at.
        cut: The limit, once it was reached.
    """

    chosen: Iterator[Chosen]
    limit: int | None
    searched: bool
    cut: int | None = None

    def __iter__(self) -> Iterator[Chosen]:
        count = 0
        for one in islice(self.chosen, self.limit or None):
            yield one
            count += 1
        if self.limit and count == self.limit and (self.searched or next(self.chosen, None) is not None):
            self.cut = self.limit


def _kept(chosen: Iterator[Chosen], limit: int | None, query: Query | None) -> _Kept:
    return _Kept(chosen, limit if limit is not None or query is None else SEARCHED, query is not None)


def _query(selection: str | None) -> Query | None:
    if selection is None or _RANDOM.fullmatch(selection) or not is_query(selection):
        return None
    try:
        return parse_query(selection)
    except OptionError as error:
        word = selection.partition(":")[0].strip()
        if error.nearest is None and nearest(word, ["random"]):
            raise OptionError(f"{selection!r} chooses nothing", name=word, nearest="random:5") from None
        raise


def _numbers(selection: str | None, count: int, seed: int) -> Iterator[int]:
    """The numbers of the selected sequences."""
    match = _RANDOM.fullmatch(selection) if selection is not None else None
    if match is None:
        first, last = (0, min(DEFAULT, count)) if selection is None else parse_selection(selection, count)
        return iter(range(first, last))
    wanted = min(parse_count(match[1]), count)
    if wanted < 0:
        raise OptionError(f"{selection}: expected how many, such as random:5", name="random")
    return iter(_drawn(count, wanted, check_seed(seed, "--seed")))


def _drawn(count: int, wanted: int, seed: int) -> list[int]:
    """So many different numbers below `count`, ascending."""
    if 2 * wanted > count:
        return sorted(np.argsort(draws(seed, SHOW, 0, count), kind="stable")[:wanted].tolist())
    found: dict[int, None] = {}
    at = 0
    while len(found) < wanted:
        for number in (draws(seed, SHOW, at, at + 2 * wanted) % np.uint64(count)).tolist():
            if len(found) < wanted:
                found[number] = None
        at += 2 * wanted
    return sorted(found)


def _sequences(reader: TokenReader, chosen: _Kept, look: Look) -> Iterator[Shown]:
    for index, hit in chosen:
        start, stop = reader.offsets(index, index + 1).tolist()
        found = None if hit is None else (hit.start - start, hit.stop - start)
        yield Shown(index, stop - start, start, found, look)


def _of_texts(
    source: Source,
    records: RecordReader,
    selection: str | None,
    query: Query | None,
    how: tuple[int, int | None],
    progress: Progress,
) -> Preview:
    seed, limit = how
    count = records.count()
    if query is None:
        chosen: Iterator[Chosen] = ((i, None) for i in _numbers(selection, count, seed))
    else:
        progress.phase("searching", records.info.size, "bytes")
        hits = find_records(records, query, Search(each=True, progress=progress.advance))
        chosen = ((hit.sequence, None if isinstance(query, LengthQuery) else hit) for hit in hits)
    kept = _kept(chosen, limit, query)

    def shown() -> Iterator[Shown]:
        for index, hit in kept:
            text = str(records.record(index))
            yield Shown(index, len(text), 0, None if hit is None else (hit.start, hit.stop), Look(None), text)

    return _preview(source, count, None, shown(), kept)


def _preview(source: Source, sequences: int, tokens: int | None, shown: Iterator[Shown], kept: _Kept) -> Preview:
    return Preview(
        path=str(source.paths[0]),
        format=source.format.name,
        sequences=sequences,
        tokens=tokens,
        eos_id=source.separator.eos_id if tokens is not None else None,
        eos_from=source.separator.source if tokens is not None else "",
        extras=dict(source.reader.info.extras),
        notes=source.notes,
        shown=shown,
        cut=lambda: kept.cut,
    )
