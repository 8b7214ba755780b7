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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from tokfmt.commands.overlap.report import EvalOverlap
from tokfmt.commands.overlap.tally import Example
from tokfmt.commands.stats.texts import texts_of
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import TokenReader
from tokfmt.core.records import RecordReader
from tokfmt.files.file import writing
from tokfmt.files.place import PlaceLike
from tokfmt.files.replacing import begins_with
from tokfmt.files.spool import staging_for
from tokfmt.source.evals import Comparison
from tokfmt.source.ingest import encoder_of
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

    paths: Sequence[str]  # of the datasets that were searched
    readers: Sequence[TokenReader | RecordReader]
    evals: Sequence[Source]
    how: Comparison
    index: NgramIndex


def list_examples(
    path: PlaceLike, evals: Sequence[EvalOverlap], examples: Mapping[int, Sequence[Example]], shown: Shown
) -> None:
    """Write a line for each example of each item. Documents are read in order, then items."""
    objection, first = begins_with("list of tokfmt overlap", BEGINNING), 0
    with staging_for(path, overwrite=True, objection=objection) as staging:
        with writing(staging.destination), open(staging.path, "w", encoding="utf-8") as file:
            documents = _documents(shown, [one for item in examples for one in examples[item]])
            for source, one in zip(shown.evals, evals, strict=True):
                texts = _contents(shown.how.readable(source), [hit.item for hit in one.hits])
                for hit, text in zip(one.hits, texts, strict=True):
                    for example in examples[first + hit.item]:
                        run, document = documents[example]
                        place = {"path": shown.paths[example.corpus], "number": example.sequence}
                        line = {
                            "item": {"path": one.path, "number": hit.item, **_parts(shown, example.item, text, *run)},
                            "document": {**place, "position": example.position, **document},
                            "longest": hit.longest,
                            "share": hit.share,
                        }
                        file.write(json.dumps(line) + "\n")
                first += one.items
        staging.publish()


def _documents(shown: Shown, examples: Sequence[Example]) -> dict[Example, tuple[tuple[int, int], Parts]]:
    """Return for each example the first n-gram and the length of the run in the item, and the parts of the document."""
    found = dict[Example, tuple[tuple[int, int], Parts]]()
    for corpus, group in itertools.groupby(sorted(examples, key=itemgetter(1, 2)), key=itemgetter(1)):
        of_corpus, reader = list(group), shown.readers[corpus]
        numbers = list(dict.fromkeys(example.sequence for example in of_corpus))
        each = itertools.groupby(of_corpus, key=itemgetter(2))
        for content, (_, those) in zip(_contents(reader, numbers), each, strict=True):
            found |= {one: _document(shown, one, content) for one in those}
    return found


def _contents(reader: TokenReader | RecordReader, numbers: Sequence[int]) -> Iterator[str | list[int] | None]:
    """Yield the records with ascending numbers; of a token axis nothing."""
    if not isinstance(reader, RecordReader):
        return itertools.repeat(None, len(numbers))
    return texts_of(reader, numbers) if reader.info.is_text else map(reader.record, numbers)


def _document(shown: Shown, place: Example, content: str | list[int] | None) -> tuple[tuple[int, int], Parts]:
    index, reader = shown.index, shown.readers[place.corpus]
    low, high = index.bounds[place.item : place.item + 2].tolist()
    begin = int(np.flatnonzero(index.grams[low:high] == place.ngram)[0])
    if shown.how.by == "words":
        found = index.in_texts([str(content)], every=True)
        length = _length(index, low + begin, high, found.positions, found.grams, place.position)
        return (begin, length), _of_text(str(content), place.position, length)
    handle, at = shown.how.tokenizer, place.position
    if isinstance(reader, TokenReader):
        start, stop = reader.offsets(place.sequence, place.sequence + 1).tolist()
        first = max(start, start + at - _TOKENS)
        tokens, at = reader.tokens(first, min(stop, start + at + high - low + _TOKENS)), start + at - first
    else:
        encoder = encoder_of(reader, handle)
        tokens = np.array(content, np.uint64) if encoder is None else encoder.encode([str(content)]).tokens
    positions, grams = index.in_tokens(tokens)
    length = _length(index, low + begin, high, positions, grams, at)
    return (begin, length), _of_ids(tokens, at, length, handle)


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
    shown = [part.tolist() if decoder is None else decoder.decode(part) for part in parts]
    return dict(zip(("before", "match", "after"), shown, strict=True))
