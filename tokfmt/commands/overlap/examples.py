"""List examples of the overlap with evals as JSON Lines (`tokfmt overlap --list`).

    {"item": {"path": "gsm8k.jsonl", "number": 17, "before": "…", "match": "…", "after": "…"},
     "document": {"path": "web.pbin", "number": 1234, "position": 96, "before": "…", "match": "…", "after": "…"},
     "longest": 25, "share": 0.43}

A match is the first run of n-grams that the item and the document have in common. What is before and after it is cut to
200 characters or 64 tokens. Without a tokenizer, the three parts of token IDs are lists.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tokfmt.commands.overlap.report import HitPlace, OverlapReport
from tokfmt.commands.stats.texts import texts_of
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import TokenReader
from tokfmt.core.records import RecordReader
from tokfmt.files.file import writing
from tokfmt.files.place import PlaceLike
from tokfmt.files.replacing import begins_with
from tokfmt.files.spool import staging_for
from tokfmt.source.evals import Comparison
from tokfmt.source.stored import Source
from tokfmt.text.ngrams import NgramIndex
from tokfmt.text.words import spans_of

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

BEGINNING = b'{"item": {"path": '
_AROUND, _TOKENS = 200, 64

Parts = dict[str, Any]
"""What is before a match, the match, and what is after it."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What is read again for the list."""

    readers: Sequence[TokenReader | RecordReader]  # of the datasets that were searched
    evals: Sequence[Source]
    how: Comparison
    index: NgramIndex


def list_examples(path: PlaceLike, report: OverlapReport, shown: Shown) -> None:
    """Write a line for each example of each item. Documents are read in order, then items."""
    objection = begins_with("list of tokfmt overlap", BEGINNING)
    with staging_for(path, overwrite=True, objection=objection) as staging:
        with writing(staging.destination), open(staging.path, "w", encoding="utf-8") as file:
            rows, first = list[_Row](), 0
            for one in report.evals:
                rows += [_Row(first + hit.item, place) for hit in one.hits for place in hit.examples]
                first += one.items
            documents = _documents(shown, rows)
            rest, first = iter(zip(rows, documents, strict=True)), 0
            for source, one in zip(shown.evals, report.evals, strict=True):
                texts = _contents(shown.how.readable(source), [hit.item for hit in one.hits])
                for hit, text in zip(one.hits, texts, strict=True):
                    for row, (run, document) in itertools.islice(rest, len(hit.examples)):
                        place = {"path": row.place.path, "number": row.place.sequence, "position": row.place.position}
                        item = {"path": one.path, "number": hit.item, **_parts(shown, row.item, text, *run)}
                        line = {"item": item, "document": {**place, **document}}
                        file.write(json.dumps({**line, "longest": hit.longest, "share": hit.share}) + "\n")
        staging.publish()


class _Row(NamedTuple):
    """An item, by its number among all, and the place of an n-gram of it."""

    item: int
    place: HitPlace


def _documents(shown: Shown, rows: Sequence[_Row]) -> list[tuple[tuple[int, int], Parts]]:
    """Return for each row the first n-gram and the length of the run in the item, and the parts of the document."""
    order = sorted(range(len(rows)), key=lambda k: (rows[k].place.corpus, rows[k].place.sequence))
    found = list[Any]([None]) * len(rows)
    for corpus, own in itertools.groupby(order, key=lambda k: rows[k].place.corpus):
        of_corpus = list(own)
        reader = shown.readers[corpus]
        numbers = sorted({rows[k].place.sequence for k in of_corpus})
        contents = zip(numbers, _contents(reader, numbers), strict=True)
        number, content = -1, None
        for k in of_corpus:
            while number != rows[k].place.sequence:
                number, content = next(contents)
            found[k] = _document(shown, rows[k], content)
    return found


def _contents(reader: TokenReader | RecordReader, numbers: Sequence[int]) -> Iterator[str | list[int] | None]:
    """Yield the records with ascending numbers; of a token axis nothing."""
    if not isinstance(reader, RecordReader):
        return itertools.repeat(None, len(numbers))
    return texts_of(reader, numbers) if reader.info.is_text else map(reader.record, numbers)


def _document(shown: Shown, row: _Row, content: str | list[int] | None) -> tuple[tuple[int, int], Parts]:
    index, reader, place = shown.index, shown.readers[row.place.corpus], row.place
    low, high = index.bounds[row.item : row.item + 2].tolist()
    begin = int(np.flatnonzero(index.grams[low:high] == place.ngram)[0])
    if shown.how.by == "words":
        found = index.in_texts([str(content)])
        length = _length(index, low + begin, high, found.positions, found.grams, place.position)
        return (begin, length), _of_text(str(content), place.position, length)
    handle, at = shown.how.tokenizer, place.position
    if isinstance(reader, TokenReader):
        start, stop = reader.offsets(place.sequence, place.sequence + 1).tolist()
        first = max(start, start + at - _TOKENS)
        tokens, at = reader.tokens(first, min(stop, start + at + high - low + _TOKENS)), start + at - first
    else:
        tokens = np.array(content, np.uint64) if isinstance(content, list) else _encoded(handle, str(content))
    positions, grams = index.in_tokens(tokens)
    length = _length(index, low + begin, high, positions, grams, at)
    return (begin, length), _of_ids(tokens, at, length, handle)


def _encoded(handle: TokenizerHandle | None, text: str) -> Tokens:
    assert handle is not None
    return handle.encoder().encode([text]).tokens


def _parts(shown: Shown, item: int, text: str | list[int] | None, first: int, length: int) -> Parts:
    """Return the parts of an item."""
    if shown.how.by == "words":
        return _of_text(str(text), first, length)
    low, high = shown.index.bounds[item : item + 2].tolist()
    return _of_ids(shown.index.ids[low:high], first, length, shown.how.tokenizer)


def _length(index: NgramIndex, begin: int, end: int, positions: Offsets, grams: Offsets, at: int) -> int:
    """Return the length of the run that an item and a document have in common from an n-gram on."""
    found = dict(zip(positions.tolist(), grams.tolist(), strict=True))
    steps = 1
    while begin + steps < end and found.get(at + steps) == int(index.grams[begin + steps]):
        steps += 1
    return steps + index.n - 1


def _of_text(text: str, first: int, length: int) -> Parts:
    starts, stops = spans_of(text)
    a, b = int(starts[first]), int(stops[first + length - 1])
    return {"before": text[max(0, a - _AROUND) : a], "match": text[a:b], "after": text[b : b + _AROUND]}


def _of_ids(ids: Tokens, first: int, length: int, handle: TokenizerHandle | None) -> Parts:
    stop, decoder = first + length, None if handle is None else handle.decoder(lenient=True)
    parts = ids[max(0, first - _TOKENS) : first], ids[first:stop], ids[stop : stop + _TOKENS]
    shown = [one.tolist() if decoder is None else decoder.decode(one) for one in parts]
    return dict(zip(("before", "match", "after"), shown, strict=True))
