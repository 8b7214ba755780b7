"""Read ranges of objects: from memory, from what is read ahead, or by as few requests as possible.

A read of less than `STREAMED` bytes is a random one: its blocks are kept in memory. A larger read, and one that goes on
where a reader ended, streams: it is not kept, and holds at most four requests of `LARGEST` bytes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import NamedTuple

from tokfmt.files.place import Url
from tokfmt.stores.ahead import AHEAD, LEAST, MOST, Piece
from tokfmt.stores.blocks import GAP, LARGEST, MANY, SIZE, STREAMED, Blocks, Buffer, joined, numbers_of
from tokfmt.stores.requests import AT_ONCE, in_order, request, submit, waited

BLOCKS = Blocks(256 << 20)
os.register_at_fork(after_in_child=BLOCKS.clear)
_AT_ONCE = 4  # Requests of LARGEST bytes that one read has under way, or holds.


class Version(NamedTuple):
    """A version of an object."""

    of: Hashable  # no other version of any object has it
    url: Url  # for messages
    size: int
    kept: bool  # its blocks may be kept, because its tag tells it from all other versions
    fetch: Callable[[int, int], Buffer]  # requests a range of at most `LARGEST` bytes, and returns exactly its bytes


def read(version: Version, ranges: Sequence[tuple[int, int]]) -> Iterator[Buffer]:
    """Yield the bytes of ranges (first byte, after the last), in order, as they arrive."""
    if not ranges:
        return
    start, stop, total = min(ranges)[0], max(stop for _, stop in ranges), sum(b - a for a, b in ranges)
    run, pieces = AHEAD.begin(version.of, start, stop)
    longest = max(b - a for a, b in ranges)
    goes_on = run >= 2 * LEAST and longest >= 2 * SIZE  # Small reads that go on take many of the same block.
    if longest >= STREAMED or total >= MANY or goes_on or not version.kept:
        yield from _streamed(version, ranges, pieces)
        block_end = stop
    else:
        yield from _random(version, ranges, pieces)
        block_end = min(version.size, -(-stop // SIZE) * SIZE)
    if 2 * total >= stop - start:  # Ranges far apart are no reader that goes on.
        AHEAD.end(version.of, start, stop, block_end, version.size, partial(_later, version))


def prefetch(version: Version, ranges: Sequence[tuple[int, int]], *, keep: bool) -> None:
    """Request ranges that will be read, side by side. With `keep`, they are an index or a footer: they are held until
    they are read, whatever their size, and few are kept. Others are held if there is room for them.
    """
    if not keep or not version.kept:
        AHEAD.ask(
            version.of, [piece for start, stop in ranges for piece in _pieces(start, stop)], partial(_later, version)
        )
        return
    numbers = {number for start, stop in ranges for number in numbers_of(start, stop)}
    missing = _ranges_of(version, numbers - BLOCKS.get(version.of, numbers).keys())
    few = sum(stop - start for start, stop in missing) < MANY

    def fetch(start: int, stop: int) -> Buffer:
        content = version.fetch(start, stop)
        if few:
            BLOCKS.put(version.of, start, content, version.size)
        return content

    for start, stop in missing:
        AHEAD.hold(version.of, start, stop, submit(version.url, partial(fetch, start, stop)))


def _ranges_of(version: Version, numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the ranges of bytes that have some blocks, as one request reads each."""
    return [(first * SIZE, min(last * SIZE, version.size)) for first, last in joined(sorted(numbers))]


def _random(version: Version, ranges: Sequence[tuple[int, int]], pieces: Sequence[Piece]) -> Iterator[Buffer]:
    """Yield the bytes of ranges from blocks, and keep the blocks."""
    parts = [_parts(pieces, start, stop) for start, stop in ranges]
    left = {n for cuts in parts for start, stop, by in cuts if by is None for n in numbers_of(start, stop)}
    blocks: dict[int, Buffer] = {**BLOCKS.get(version.of, left)}
    missing = _ranges_of(version, left - blocks.keys())
    calls = [partial(version.fetch, start, stop) for start, stop in missing]
    for (start, _), content in zip(missing, in_order(version.url, calls), strict=True):
        BLOCKS.put(version.of, start, content, version.size)
        view = memoryview(content)
        blocks |= {(start + at) // SIZE: view[at : at + SIZE] for at in range(0, len(view), SIZE)}
    for cuts in parts:
        yield _together([
            _cut(blocks, start, stop) if by is None else _of_piece(version, by, start, stop) for start, stop, by in cuts
        ])  # fmt: skip


def _streamed(version: Version, ranges: Sequence[tuple[int, int]], pieces: Sequence[Piece]) -> Iterator[Buffer]:
    """Yield the bytes of ranges, requested without whole blocks, but for those that are read ahead."""
    parts: list[list[tuple[int, int, Piece | None]]] = [_parts(pieces, start, stop) for start, stop in ranges]
    wanted = [(start, stop) for cuts in parts for start, stop, by in cuts if by is None]
    spans, of = _spans(wanted)
    longest = max((stop - start for start, stop in spans), default=1)
    order = list(dict.fromkeys(of))  # As the caller needs them.
    calls = (partial(_part, version, *spans[number]) for number in order)
    contents = zip(order, in_order(version.url, calls, max(_AT_ONCE, min(AT_ONCE, MOST // longest))), strict=True)
    left, blocks, used = Counter(of), dict[int, Buffer](), iter(of)

    def taken(start: int, stop: int) -> Buffer:
        number = next(used)
        while number not in blocks:
            arrived, content = next(contents)
            blocks[arrived] = content
        begin, view = spans[number][0], memoryview(blocks[number])
        left[number] -= 1
        if not left[number]:
            del blocks[number]
        return view[start - begin : stop - begin]

    for cuts in parts:
        yield _together([
            taken(start, stop) if by is None else _of_piece(version, by, start, stop) for start, stop, by in cuts
        ])  # fmt: skip


def _spans(wanted: Sequence[tuple[int, int]]) -> tuple[list[tuple[int, int]], list[int]]:
    """Join close ranges to ascending spans of at most `LARGEST` bytes, and return the span of each range."""
    spans, of = list[tuple[int, int]](), [0] * len(wanted)
    for number in sorted(range(len(wanted)), key=wanted.__getitem__):
        start, stop = wanted[number]
        if spans and start - spans[-1][1] <= GAP and max(stop, spans[-1][1]) - spans[-1][0] <= LARGEST:
            spans[-1] = spans[-1][0], max(stop, spans[-1][1])
        else:
            spans.append((start, stop))
        of[number] = len(spans) - 1
    return spans, of


def _part(version: Version, start: int, stop: int) -> Buffer:
    """Return the bytes of a range, from blocks if all of them are held."""
    if start == stop:
        return b""
    if version.kept:
        numbers = numbers_of(start, stop)
        blocks = BLOCKS.get(version.of, numbers)
        if len(blocks) == len(numbers):
            return _cut(blocks, start, stop)
    return version.fetch(start, stop)


def _parts(pieces: Sequence[Piece], start: int, stop: int) -> list[tuple[int, int, Piece | None]]:
    """Cut a range where pieces of it are read ahead, and the rest at `LARGEST` bytes."""
    parts: list[tuple[int, int, Piece | None]] = []
    at = start
    for piece in pieces:
        begin, end = max(at, piece.start), min(stop, piece.stop)
        if begin < end:
            parts += [(a, b, None) for a, b in _pieces(at, begin)]
            parts.append((begin, end, piece))
            at = end
    return [*parts, *((a, b, None) for a, b in _pieces(at, stop))] or [(start, stop, None)]


def _pieces(start: int, stop: int) -> list[tuple[int, int]]:
    return [(at, min(at + LARGEST, stop)) for at in range(start, stop, LARGEST)]


def _of_piece(version: Version, piece: Piece, start: int, stop: int) -> Buffer:
    """Return the bytes of a range in a piece, which may have been called off to make room."""
    try:
        return memoryview(waited(version.url, piece.future))[start - piece.start : stop - piece.start]
    except CancelledError:
        return request(version.url, partial(version.fetch, start, stop))


def _later(version: Version, start: int, stop: int) -> Future[Buffer]:
    return submit(version.url, partial(_part, version, start, stop), urgent=False)


def _cut(blocks: Mapping[int, Buffer], start: int, stop: int) -> Buffer:
    """Return the bytes of a range from the blocks that hold it."""
    if start >= stop:
        return b""
    first, last = start // SIZE, (stop - 1) // SIZE
    if first == last:
        return blocks[first][start - first * SIZE : stop - first * SIZE]
    together = b"".join([blocks[number] for number in range(first, last + 1)])
    return together[start - first * SIZE : stop - first * SIZE]


def _together(buffers: Sequence[Buffer]) -> Buffer:
    return buffers[0] if len(buffers) == 1 else b"".join(buffers)
