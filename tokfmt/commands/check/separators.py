"""Find separators and BOS that documents lack, or that are where they should not be."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tokfmt.commands.check.doubled import Doubled, doubled_in
from tokfmt.core.findings import Finding
from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import TokenReader, windows
from tokfmt.errors import TokfmtError
from tokfmt.files.place import Place
from tokfmt.model.batch import SEP
from tokfmt.model.dataset import Dataset
from tokfmt.model.gap import Gap
from tokfmt.model.readers import dataset_of, is_unfinished
from tokfmt.model.separator import unled
from tokfmt.source.stored import Source

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle


_LOOKED_AT = 256  # sequences whose ends show the ID that ends most of them
_FEWEST = 8  # fewer sequences may end alike by chance
_BEGUN, _BEGUN_TOKENS = 4, 1 << 12  # runs of documents whose beginnings are looked at, and tokens of each
_STARTS = 1 << 18  # documents whose first IDs are read together
_MOST = 0.75  # share of sequences that end with an ID from which on it is taken for the separator


class Endings:
    """A search for separators that documents of an index lack, end with twice, or hold inside."""

    def __init__(self, reader: TokenReader, eos_id: int, *, removed: bool) -> None:
        # eos_id: the separator that was removed from ends; else the ID that ends most sequences
        self.reader, self.eos_id, self._removed = reader, eos_id, removed
        self.ended, self._lock = 0, threading.Lock()
        # sequences that are not empty and lack it, that end with it twice, or hold it inside: how many, and the first
        self.lack = self.twice = self.inside = (0, -1)
        self.is_doubled = False  # most that end with it end with it twice; known once findings were asked for

    @staticmethod
    def of(source: Source) -> Endings | None:
        """Return a search; None for streams and samples, or if no ID ends most sequences."""
        reader = source.stored_documents
        if reader is None or reader.is_split:
            return None
        gap = dataset_of(reader).gap
        if gap.id is not None:
            return Endings(reader, gap.id, removed=True)
        usual = None
        with suppress(TokfmtError):  # reported where all tokens are read
            usual = _usual_end(reader)
        return None if usual is None else Endings(reader, usual, removed=False)

    def search(self, start: int, tokens: Tokens) -> None:
        """Look at the tokens from position `start` on. Threads may call this."""
        separators = np.flatnonzero(tokens == self.eos_id)
        if not len(tokens) or (self._removed and not len(separators)):
            return
        first = self.reader.sequence_at(start)
        bounds = self.reader.offsets(first, self.reader.sequence_at(start + len(tokens) - 1) + 1) - start
        there = np.flatnonzero((bounds[1:] > bounds[:-1]) & (bounds[1:] > 0) & (bounds[1:] <= len(tokens)))
        last = bounds[1:][there] - 1
        ends = tokens[last] == self.eos_id
        before = np.zeros(len(last), np.bool_)
        if not self._removed:  # The token before the end, in this window or before it.
            long = np.flatnonzero(ends & (bounds[1:][there] - bounds[:-1][there] > 1))
            filled = long[last[long] > 0]
            before[filled] = tokens[last[filled] - 1] == self.eos_id
            for k in long[last[long] == 0].tolist():
                before[k] = self.reader.tokens(start - 1, start).item() == self.eos_id
        twice = there[ends if self._removed else before]
        closing = np.concatenate((last[ends], last[before] - 1))
        inside = separators[~np.isin(separators, closing)]
        numbers = np.searchsorted(bounds, inside, side="right") - 1
        with self._lock:
            self.ended += int(np.count_nonzero(ends))
            if not self._removed:
                self.lack = _added(self.lack, first + there[~ends])
            self.twice = _added(self.twice, first + twice)
            self.inside = _added(self.inside, first + numbers)

    def findings(self, path: Place) -> Iterator[Finding]:
        """Report what was found, once every token was looked at."""
        count, query = self.reader.info.sequences, f"token:{self.eos_id}"
        if self._removed:
            self.ended = 0
            for numbers, closed, lengths in _closed(self.reader):
                self.ended += int(np.count_nonzero(closed))
                self.lack = _added(self.lack, numbers[~closed & (lengths > 0)])
        elif self.inside[0] > self.ended / 2:  # A full stop ends most texts as well.
            return
        of, first = f"of {count:,} documents", "first: document"
        if self.ended and self.lack[0] and not _are_rows(self.reader):
            problem = f"{self.lack[0]:,} {of} do not end with the separator {self.eos_id:,}, as others do"
            remedy = "They may be cut: compare them with their source"
            yield Finding("TF944", "warning", str(path), f"{problem} ({first} {self.lack[1]:,})", remedy)
        self.is_doubled = self.twice[0] > self.ended / 2  # If few do, a text ended with its spelling.
        if self.is_doubled:
            yield _doubled_finding(path, Doubled(self.twice[0], count, self.twice[1]), self.eos_id)
        inside = self.inside if self.is_doubled or not self.twice[0] else _joined(self.inside, self.twice)
        if inside[0]:
            problem = f"the separator {self.eos_id:,} occurs inside documents {inside[0]:,}x"
            remedy = (
                "Formats that split at it cannot store these documents: --allow-loss embedded-separators splits there"
            )
            yield Finding("TF946", "info", str(path), f"{problem} ({first} {inside[1]:,})", remedy, query=query)


def _joined(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """Return the sum of two numbers of sequences that are not 0, and the first of both."""
    return (a[0] + b[0], min(a[1], b[1])) if a[0] else b


def _added(sum_: tuple[int, int], numbers: NDArray[np.int64]) -> tuple[int, int]:
    """Return a number of sequences and the first of them, with further ones."""
    if not len(numbers):
        return sum_
    return _joined(sum_, (len(numbers), int(numbers[0])))


def _closed(reader: TokenReader) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]]:
    """Yield numbers of sequences, whether the source has a separator beside each, and their lengths."""
    dataset = dataset_of(reader)
    for a, b in windows(0, len(dataset)):
        starts, stops, beside = dataset.contents(a, b)
        yield np.arange(a, b), beside & SEP != 0, stops - starts


def _are_rows(reader: TokenReader) -> bool:
    """Return whether all sequences but the last have one length, with their separators: rows that were cut alike."""
    spans, lengths = dataset_of(reader).spans, set[int]()
    for a, b in windows(0, spans.count - 1, _STARTS):
        starts, stops = spans.extents(a, b)
        lengths.update(np.unique(stops - starts)[:2].tolist())
    return len(lengths) == 1 and spans.count > _FEWEST and lengths != {1}


def _usual_end(reader: TokenReader) -> int | None:
    """Return the ID with which most of the sequences end that were looked at; None without one."""
    count = reader.info.sequences
    numbers = np.unique(np.linspace(0, max(count - 1, 0), min(count, _LOOKED_AT)).astype(np.int64)).tolist()
    bounds = [reader.offsets(number, number + 1).tolist() for number in numbers]
    ends = [reader.tokens(stop - 1, stop).item() for start, stop in bounds if start < stop]
    if len(ends) < _FEWEST:
        return None
    usual, often = Counter(ends).most_common(1)[0]
    return usual if often >= _MOST * len(ends) else None


def missing_findings(path: Place, source: Source) -> Iterator[Finding]:
    """Report a separator that is known from elsewhere, if none of the documents that were looked at ends with it."""
    gap = Gap() if source.dataset is None else source.dataset.gap
    if gap.id is not None and gap.stored and not gap.closed and gap.lack >= _FEWEST:
        seen = f"{gap.lack:,} documents" + (" that were looked at" if gap.looked < gap.of else "")
        problem = f"none of {seen} ends with the separator {gap.id:,} ({source.separator.source})"
        remedy = "A trainer that reads them as one stream sees no boundary. A conversion to a pack adds one"
        yield Finding("TF944", "warning", str(path), problem, remedy)


def lead_findings(path: Place, source: Source, handle: TokenizerHandle | None) -> Iterator[Finding]:
    """Report a BOS with which a part of the documents begin.

    The BOS is that of --bos, of the manifest or of the tokenizer. Without these, it is an ID that begins several
    documents and that is outside of the range of all IDs behind the first of each, their last ones aside: a word that
    begins many texts is in others as well, and among the words. The rest is read only if the look shows a BOS.
    """
    reader = source.stored_documents
    if reader is None or not reader.info.tokens:
        return
    dataset = unled(dataset_of(reader))
    try:
        begun, shown = _beginnings(dataset)
        stated = source.bos_id if source.bos_id is not None or handle is None else handle.bos_id
        lead = shown if stated is None else stated
        if lead is None or not (begun == lead).any():
            return
        documents, lack = 0, (0, -1)
        for a, b in windows(0, len(dataset), _STARTS):
            starts, stops, _ = dataset.contents(a, b)
            full = np.flatnonzero(stops > starts)
            documents += len(full)
            lack = _added(lack, a + full[dataset.axis.at(starts[full]) != lead])
    except TokfmtError:  # reported where all tokens are read
        return
    if lack[0]:
        problem = f"{documents - lack[0]:,} of {documents:,} documents begin with the BOS {lead:,}, as others do not"
        remedy = f"If others should have it, convert it with --bos {lead} --to-bos {lead}, which adds it to these alone"
        yield Finding("TF948", "warning", str(path), f"{problem} (first: document {lack[1]:,})", remedy)


def _beginnings(dataset: Dataset) -> tuple[Tokens, int | None]:
    """Return the first IDs of a few runs of documents, spread over a dataset, and the BOS that these runs show."""
    count, run = len(dataset), _LOOKED_AT // _BEGUN
    firsts = np.unique(np.linspace(0, max(count - run, 0), _BEGUN).astype(np.int64)).tolist()
    extents = [dataset.contents(first, min(first + run, count)) for first in firsts]
    starts, lengths = np.concatenate([(extent[0], extent[1] - extent[0]) for extent in extents], axis=1)
    read = np.minimum(lengths, _BEGUN_TOKENS)
    tokens, stops = dataset.axis.gather(starts, read), np.cumsum(read)
    full = read > 0
    begun, inner = tokens[(stops - read)[full]], np.ones(len(tokens), np.bool_)
    inner[(stops - read)[full]] = inner[stops[full & (read == lengths)] - 1] = False
    usual, often = Counter(begun.tolist()).most_common(1)[0] if len(begun) else (0, 0)
    others = tokens[inner]
    apart = len(others) > len(begun) and not int(others.min()) <= usual <= int(others.max())
    return begun, usual if apart and often >= _FEWEST else None


def doubled_findings(path: Place, reader: TokenReader) -> Iterator[Finding]:
    """Report the documents of a stream that have two separators, if most of them have two."""
    doubled = doubled_in(reader) if reader.is_split else Doubled(0, 0, -1)
    if doubled.documents > doubled.of / 2:
        yield _doubled_finding(path, doubled, reader.info.eos_id or 0, dataset_of(reader).gap.side)


def _doubled_finding(path: Place, doubled: Doubled, eos_id: int, side: str = "after") -> Finding:
    verb = "begin" if side == "before" else "end"
    problem = f"{doubled.documents:,} of {doubled.of:,} documents {verb} with the separator {eos_id:,} twice"
    remedy = "The tokenizer and the packer each added one: pack the text again, or let --fix OUT leave one out"
    return Finding("TF945", "warning", str(path), f"{problem} (first: document {doubled.first:,})", remedy)


def unfinished_findings(path: Place, reader: TokenReader) -> Iterator[Finding]:
    """Report the last document of a stream if no separator follows it."""
    if is_unfinished(reader):
        place, last = reader.locate(reader.info.tokens - 1), reader.info.sequences - 1
        problem = f"no separator {reader.info.eos_id:,} follows its last document, {last:,}"
        remedy = "Copy it again if it was cut. A conversion adds a separator"
        where = (str(path), None) if place is None else (str(place.path), place.offset)
        yield Finding("TF947", "info", where[0], problem, remedy, where[1])
