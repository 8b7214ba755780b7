"""Fingerprints of sequences, 128 bits each, to find duplicates and differences.

Equal sequences have equal fingerprints in every dtype and for every cut into windows. Different sequences collide with
a probability of about 2^-128, unless an attacker constructs them: the hash is not cryptographic.

- Up to 64 tokens, the fingerprint is a multilinear sum in two lanes of 64 bits, computed for a complete window at once.
- Beyond 64 tokens, it is the xxh3_128 of the IDs as little-endian uint32, which is faster from there on.

They decide the split of a sequence (`convert --split-by content`), so another version of tokfmt that computes other
values deals sequences to other splits.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_128, xxh3_128_digest

from tokfmt.base import resources
from tokfmt.core import reader as token_axis
from tokfmt.core.format import Encoder
from tokfmt.core.ragged import Offsets, Ragged, Tokens, gathered, offsets_of
from tokfmt.core.reader import TokenReader
from tokfmt.core.records import Block, RecordReader
from tokfmt.errors import OptionError
from tokfmt.files.locks import Scratch
from tokfmt.run.execute import make_executor
from tokfmt.run.plan import Workers
from tokfmt.run.progress import Progress
from tokfmt.text.ingest import block_size, encoded_batches

Fingerprints = NDArray[np.uint64]
"""uint64[sequences, 2]"""

Read = Callable[[int, int], NDArray[np.integer]]
"""Values of the token positions `start <= p < stop`."""

SHORT = 64
"""The maximum length in tokens for the sum. Measured: sum and xxh3_128 both take 0.2 to 0.4 µs at this length."""

_BLOCK = 1 << 15  # tokens summed at once, so that they stay in the cache
_MOST = 1 << 16  # sequences hashed at once
_PRINT = 16  # bytes per fingerprint
_WORTH = 1 << 26  # bytes of text from which on processes are faster than threads
_ODD = np.uint64(0x9E3779B97F4A7C15)
_32 = np.uint64(32)


def fingerprints(ragged: Ragged) -> Fingerprints:
    """Return one fingerprint per sequence, uint64[sequences, 2]."""
    return fingerprints_between(ragged.tokens, ragged.offsets[:-1], ragged.offsets[1:])


def fingerprints_between(tokens: Tokens, starts: Offsets, stops: Offsets) -> Fingerprints:
    """Return one fingerprint per interval of a window, uint64[n, 2]. Separators may lie between the intervals."""
    if tokens.dtype.itemsize == 8 and len(tokens) and not int(tokens.max()) >> 32:
        tokens = tokens.astype(np.uint32)
    lengths = stops - starts
    out = np.empty((len(starts), 2), np.uint64)
    short, long = np.flatnonzero(lengths <= SHORT), np.flatnonzero(lengths > SHORT)
    if len(short):
        some = gathered(tokens, starts[short], lengths[short])
        out[short] = _sums(some.tokens, some.offsets)
    if len(long):
        out[long] = _hashed(tokens, starts[long].tolist(), stops[long].tolist())
    return out


def fingerprints_of_texts(texts: Iterable[bytes]) -> Fingerprints:
    """Return one fingerprint per text in UTF-8, its xxh3_128; uint64[texts, 2]."""
    return _from_bytes(list(map(xxh3_128_digest, texts)))


def _hashed(tokens: Tokens, starts: list[int], stops: list[int]) -> Fingerprints:
    if tokens.dtype.itemsize == 8:
        digests = []
        for a, b in zip(starts, stops, strict=True):
            running = Running()
            running.add(tokens[a:b])
            digests.append(running.digest())
        return _from_bytes(digests)
    words = np.ascontiguousarray(tokens, "<u4").data.cast("B")
    return _from_bytes([xxh3_128_digest(words[4 * a : 4 * b]) for a, b in zip(starts, stops, strict=True)])


def _from_bytes(digests: list[bytes]) -> Fingerprints:
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64).reshape(-1, 2)


@functools.cache
def _keys() -> NDArray[np.uint64]:
    """Return the keys of both lanes, uint64[2, SHORT + 1]: one per position, and one for the length.

    The seed is the first hexadecimal digits of pi and of e. The keys are computed on first use, because numpy.random
    takes 30 ms to load.
    """
    return np.random.Philox(key=0x243F6A8885A308D3B7E151628AED2A6A).random_raw(2 * (SHORT + 1)).reshape(2, -1)


def _sums(tokens: Tokens, offsets: NDArray[np.int64]) -> Fingerprints:
    """Return the fingerprints of sequences of at most SHORT tokens, computed block by block."""
    lengths, keys = np.diff(offsets), _keys()
    out = lengths.astype(np.uint64)[:, None] * keys[:, SHORT]
    filled = np.flatnonzero(lengths)  # np.add.reduceat has no empty sums
    begins = offsets[filled]
    cuts = [*np.searchsorted(begins, np.arange(offsets[0], offsets[-1], _BLOCK)).tolist(), len(filled)]
    for u, v in pairwise(cuts):
        if u == v:
            continue
        a, b = int(begins[u]), int(offsets[filled[v - 1] + 1])
        starts = begins[u:v] - a
        mixed = tokens[a:b].astype(np.uint64) * _ODD
        mixed ^= mixed >> _32
        within = np.arange(b - a) - np.repeat(starts, lengths[filled[u:v]])
        for lane in range(2):
            out[filled[u:v], lane] += np.add.reduceat(keys[lane].take(within) * mixed, starts)
    out ^= out >> _32  # high bits reach the low bits, and the product carries these to all bits
    out *= _ODD
    out ^= out >> _32
    return out


class Running:
    """The fingerprint of one sequence that is read in windows."""

    def __init__(self) -> None:
        self._low, self._high = xxh3_128(), xxh3_128()
        self._wide = False
        self._length = 0
        self._held: list[Tokens] = []

    def add(self, tokens: Tokens) -> None:
        """Append the next tokens of the sequence."""
        if self._length <= SHORT:
            self._held.append(tokens[: SHORT + 1].copy())
        low = tokens
        if tokens.dtype.itemsize == 8 and len(tokens) and int(tokens.max()) >> 32:
            at = np.flatnonzero(tokens >> _32)  # the position and the high half of each ID beyond uint32
            self._high.update(np.stack([at + self._length, tokens[at] >> _32]).T.astype("<u8").tobytes())
            self._wide = True
            low = tokens & np.uint64(0xFFFFFFFF)
        self._low.update(np.ascontiguousarray(low, "<u4").data)
        self._length += len(tokens)

    @property
    def fingerprint(self) -> Fingerprints:
        """The fingerprint, uint64[1, 2]."""
        return _from_bytes([self.digest()])

    def digest(self) -> bytes:
        """Return the fingerprint as 16 bytes: both lanes, big-endian."""
        if self._length <= SHORT:
            tokens = np.concatenate(self._held) if self._held else np.empty(0, np.uint32)
            return _sums(tokens, offsets_of([len(tokens)])).astype(">u8").tobytes()
        if self._wide:
            self._low.update(self._high.digest())
        return self._low.digest()


@dataclass(frozen=True, slots=True)
class Hashing:
    """The values of sequences that are hashed."""

    reader: TokenReader
    channels: Sequence[Read]  # by position: IDs first, then the loss mask and labels if they are compared
    ignored_end: int | None = None  # at the end of a sequence


def hash_axis(
    hashing: Hashing, first: int, out: Fingerprints, workers: Workers, progress: Callable[[int], None]
) -> None:
    """Hash the sequences from `first` on in parallel, long ones in windows, to `out`, uint64[sequences, 2]."""
    parts = cuts(hashing.reader, first, first + len(out))
    for at, prints, tokens in workers.map(_hash_cut, hashing, parts):
        out[at - first : at - first + len(prints)] = prints
        progress(tokens)


def cuts(reader: TokenReader, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield intervals of sequences that hold about one window of tokens, or one longer sequence."""
    while first < last:
        bounds = reader.offsets(first, min(last, first + _MOST))
        at = 0
        while at < len(bounds) - 1:
            end = max(at + 1, int(np.searchsorted(bounds, bounds[at] + token_axis.WINDOW, side="right")) - 1)
            yield first + at, first + end
            at = end
        first += at


def _hash_cut(hashing: Hashing, cut: tuple[int, int]) -> tuple[int, Fingerprints, int]:
    """Hash one interval of sequences. The result is the first sequence, the fingerprints, and the number of tokens."""
    bounds = hashing.reader.offsets(*cut)
    begin, end = int(bounds[0]), int(bounds[-1])
    prints: Fingerprints | None = None
    for number, read in enumerate(hashing.channels):
        ignored = None if number else hashing.ignored_end
        hashes = (
            _hash_window(read, bounds, ignored)
            if end - begin <= token_axis.WINDOW
            else _hash_long(read, bounds, ignored)
        )
        prints = hashes if prints is None else prints * _ODD + hashes
    return cut[0], np.empty((0, 2), np.uint64) if prints is None else prints, end - begin


def _hash_window(read: Read, bounds: Offsets, ignored_end: int | None) -> Fingerprints:
    begin = int(bounds[0])
    values = _unsigned(read(begin, int(bounds[-1])))
    starts, stops = bounds[:-1] - begin, bounds[1:] - begin
    if ignored_end is not None and len(values):
        stops = stops - ((stops > starts) & (values[np.maximum(stops - 1, 0)] == ignored_end))
    return fingerprints_between(values, starts, stops)


def _hash_long(read: Read, bounds: Offsets, ignored_end: int | None) -> Fingerprints:
    start, stop = bounds.tolist()
    if ignored_end is not None and int(read(stop - 1, stop)[0]) == ignored_end:
        stop -= 1
    return fingerprint_of(read, start, stop)


def fingerprint_of(read: Read, start: int, stop: int) -> Fingerprints:
    """Return the fingerprint of the values `start <= p < stop`, read window by window; uint64[1, 2]."""
    running = Running()
    for a, b in token_axis.windows(start, stop):
        running.add(_unsigned(read(a, b)))
    return running.fingerprint


def _unsigned(values: NDArray[np.integer]) -> Tokens:
    integers: Any = values  # loss masks and labels may be signed
    return cast("Tokens", integers if integers.dtype.kind == "u" else integers.view(f"u{integers.dtype.itemsize}"))


def hash_records(
    records: RecordReader, encoder: Encoder | None, workers: Workers, progress: Callable[[int], None]
) -> tuple[Fingerprints, int]:
    """Compute the fingerprints of records in parallel, without writing them. Parsing JSON holds the GIL, so use
    processes for much text. `progress` gets the bytes that were read since the last call. The result is the
    fingerprints, and the number of tokens.
    """
    blocks = list(enumerate(records.blocks(block_size(records.info.size, workers.jobs))))
    parts: dict[int, Fingerprints] = {}
    total = count = 0
    shared = (records, encoder)
    for number, prints, tokens in workers.map(_hash_block, shared, blocks):
        parts[number], total, count = prints, total + tokens, count + len(prints)
        if count * _PRINT > resources.share() // 2:
            raise OptionError(
                f"16 bytes are held for each record, and after {count:,} that is a quarter of this machine's memory. "
                "Convert the records to a pack first (tokfmt convert SRC x.pbin), and compare that"
            )
        progress(blocks[number][1].stop - blocks[number][1].start)
    ordered = [parts[number] for number in range(len(blocks))]
    return np.concatenate(ordered) if ordered else np.empty((0, 2), np.uint64), total


def _hash_block(shared: tuple[RecordReader, Encoder | None], item: tuple[int, Block]) -> tuple[int, Fingerprints, int]:
    records, encoder = shared
    number, block = item
    prints, total = [np.empty((0, 2), np.uint64)], 0
    for ragged in encoded_batches(records, encoder, block):
        prints.append(fingerprints(ragged))
        total += len(ragged.tokens)
    return number, np.concatenate(prints), total


# the two sides of a comparison


@contextmanager
def hands(jobs: int, text: int = 0) -> Iterator[Workers]:
    """Start the workers of a comparison: threads, or processes if there are many bytes of text."""
    if jobs > 1 and text >= _WORTH:
        with Scratch() as home, make_executor("processes", jobs) as executor:
            yield Workers(executor, jobs, home)
        return
    with make_executor("threads", jobs) as executor:
        yield Workers(executor, jobs, Path())


class AxisSide:
    """One side of a comparison: the sequences of a token axis."""

    def __init__(self, reader: TokenReader, channels: Sequence[Read] = (), ignored_end: int | None = None) -> None:
        # both sides of a comparison have the same channels
        self.reader, self.channels, self.ignored_end = reader, channels or (reader.tokens,), ignored_end

    @property
    def count(self) -> int:
        """The number of sequences."""
        return self.reader.info.sequences

    @property
    def tokens(self) -> int:
        """The length of the token axis."""
        return self.reader.info.tokens

    def fingerprints(self, first: int, workers: Workers, progress: Callable[[int], None]) -> Fingerprints:
        """Return the fingerprints of all sequences from `first` on, uint64[n, 2]."""
        out = _room(self.count - first)
        hash_axis(Hashing(self.reader, self.channels, self.ignored_end), first, out, workers, progress)
        return out

    def length(self, sequence: int) -> int:
        """Return the length of a sequence in tokens."""
        start, stop = self.reader.offsets(sequence, sequence + 1).tolist()
        return int(stop - start)

    def values(self, sequence: int, start: int, stop: int, channel: int = 0) -> NDArray[np.integer]:
        """Return the values of a channel at positions `start <= k < stop` within a sequence."""
        begin = int(self.reader.offsets(sequence, sequence)[0])
        return self.channels[channel](begin + start, begin + stop)

    def neighbors(self, first: int, last: int, limit: int | None) -> list[NDArray[np.integer]]:
        """Return the first `limit` IDs of each sequence `first <= i < last`; None for all IDs."""
        bounds = self.reader.offsets(first, last).tolist()
        ends = [b if limit is None else min(b, a + limit) for a, b in pairwise(bounds)]
        return [self.reader.tokens(a, b) for a, b in zip(bounds, ends, strict=False)]


class Utf8(Encoder):
    """An encoder to bytes, so that texts are compared as sequences of IDs are."""

    def encode(self, texts: list[str]) -> Ragged:
        """Return the UTF-8 bytes of texts, uint8; lone surrogates are kept."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        return Ragged(np.frombuffer(b"".join(encoded), np.uint8), offsets_of([len(text) for text in encoded]))


class RecordSide:
    """One side of a comparison: records of IDs or encoded text. It holds 16 bytes per record, and writes nothing."""

    def __init__(
        self, records: RecordReader, encoder: Encoder | None, workers: Workers, progress: Callable[[int], None]
    ) -> None:
        self.records, self.encoder = records, encoder
        self._prints, self.tokens = hash_records(records, encoder, workers, progress)
        self._last: tuple[int, NDArray[np.integer]] = (-1, np.empty(0, np.uint32))

    @property
    def count(self) -> int:
        """The number of records."""
        return len(self._prints)

    @property
    def channels(self) -> Sequence[None]:
        """One channel, the IDs."""
        return (None,)

    def fingerprints(self, first: int, workers: Workers, progress: Callable[[int], None]) -> Fingerprints:
        """Return the fingerprints of all records from `first` on, uint64[n, 2]."""
        del workers, progress
        return self._prints[first:]

    def length(self, sequence: int) -> int:
        """Return the length of a record in tokens."""
        return len(self._ids(sequence))

    def values(self, sequence: int, start: int, stop: int, channel: int = 0) -> NDArray[np.integer]:
        """Return the IDs at positions `start <= k < stop` within a record."""
        del channel
        return self._ids(sequence)[start:stop]

    def _ids(self, sequence: int) -> NDArray[np.integer]:
        if self._last[0] != sequence:
            self._last = (sequence, self.neighbors(sequence, sequence + 1, None)[0])
        return self._last[1]

    def neighbors(self, first: int, last: int, limit: int | None) -> list[NDArray[np.integer]]:
        """Return the first `limit` IDs of each record `first <= i < last`, read in one go; None for all IDs."""
        sequences: list[NDArray[np.integer]] = []
        for block in self.records.blocks(1 << 20, first, last):
            for ragged in encoded_batches(self.records, self.encoder, block):
                sequences += [ids[:limit] for ids in ragged]
        return sequences


def read_records(
    records: RecordReader, encoder: Encoder | None, jobs: int, progress: Progress, *, processes: bool
) -> RecordSide:
    """Read records, much text in processes if that is allowed, and return them as one side of a comparison."""
    text = records.info.is_text
    doing = "reading IDs" if not text else "reading text" if isinstance(encoder, Utf8) else "tokenizing"
    progress.phase(doing, records.info.size, "bytes")
    with hands(jobs, records.info.size if processes else 0) as workers:
        return RecordSide(records, encoder if text else None, workers, progress.advance)


Side = AxisSide | RecordSide


@functools.cache
def empty_fingerprint() -> Fingerprints:
    """Return the fingerprint of an empty sequence, uint64[2]."""
    (fingerprint,) = fingerprints(Ragged.of([[]]))
    return cast("Fingerprints", fingerprint)


def _room(count: int) -> Fingerprints:
    """Return an array for fingerprints: in memory, or, if they are too many, in an unlinked file in $TMPDIR."""
    if count * _PRINT <= resources.share() // 4:
        return np.empty((count, 2), np.uint64)
    with tempfile.TemporaryFile(prefix="tokfmt-") as file:
        return np.memmap(file, np.uint64, "w+", shape=(count, 2))
