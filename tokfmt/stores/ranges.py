"""Read ranges of objects: from memory, from what is read ahead, from the disk, or by as few requests as possible.

A read of less than `STREAMED` bytes is a random one: its blocks are kept in memory and on disk. A larger read, and one
that goes on where a reader ended, streams: it enters no cache, and holds at most four requests of `LARGEST` bytes.
Objects that are read whole do not enter the disk either: chunks of zarr that `convert` reads would displace all others.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import NamedTuple

from tokfmt.files.place import Url
from tokfmt.stores import disk
from tokfmt.stores.ahead import AHEAD, LEAST, MOST, Piece
from tokfmt.stores.blocks import GAP, LARGEST, MANY, SIZE, STREAMED, Blocks, Buffer, joined, numbers_of
from tokfmt.stores.requests import AT_ONCE, in_order, request, submit, waited, when_all

BLOCKS = Blocks(256 << 20)
os.register_at_fork(after_in_child=BLOCKS.clear)
_AT_ONCE = 4  # Requests of LARGEST bytes that one read has under way, or holds.


class Version(NamedTuple):
    """A version of an object.

    Attributes:
        of: A value that no other version of any object has.
        url: The address, for messages.
        size: Size in bytes.
        name: The name in the cache on disk; "" if its tag does not tell it from all other versions.
        kept: Whether its blocks may be kept at all.
        fetch: Requests a range of at most `LARGEST` bytes, and returns exactly its bytes.
    """

    of: Hashable
    url: Url
    size: int
    name: str
    kept: bool
    fetch: Callable[[int, int], Buffer]


def read(one: Version, ranges: Sequence[tuple[int, int]]) -> Iterator[Buffer]:
    """Yield the bytes of ranges, in order, as they arrive.

    Args:
        one: The object.
        ranges: The first byte of each range, and the byte after its last. None is beyond the end.
    """
    if not ranges:
        return
    start, stop, total = min(ranges)[0], max(stop for _, stop in ranges), sum(b - a for a, b in ranges)
    run, pieces = AHEAD.begin(one.of, start, stop)
    longest = max(b - a for a, b in ranges)
    goes_on = run >= 2 * LEAST and longest >= 2 * SIZE  # Small reads that go on take many of the same block.
    if longest >= STREAMED or total >= MANY or goes_on or not one.kept:
        yield from _streamed(one, ranges, pieces)
        block_end = stop
    else:
        yield from _random(one, ranges, pieces, keep=run < 2 * LEAST and not 2 * SIZE < total == one.size)
        block_end = min(one.size, -(-stop // SIZE) * SIZE)
    if 2 * total >= stop - start:  # Ranges far apart are no reader that goes on.
        AHEAD.end(one.of, start, stop, block_end, one.size, partial(_later, one))


def prefetch(one: Version, ranges: Sequence[tuple[int, int]], *, keep: bool) -> None:
    """Request ranges that will be read, side by side.

    Args:
        one: The object.
        ranges: As for `read`.
        keep: Keep them on disk, whatever their size: an index, or a footer. Otherwise they are held until they are
            read, if there is room for them.
    """
    if not keep or not one.kept:
        AHEAD.ask(one.of, [piece for start, stop in ranges for piece in _pieces(start, stop)], partial(_later, one))
        return
    numbers = sorted({number for start, stop in ranges for number in numbers_of(start, stop)})
    cache = disk.opened() if one.name else None
    missing = _missing(one, numbers, cache)
    if len(missing) * SIZE < MANY or cache is None:  # A process that waits for another would take as long.
        _fill(one, missing, cache)
        return
    disk.settle()  # This process may be about to write what is missing.
    lock = cache.lock(one.name)
    futures = _fill(one, _missing(one, numbers, cache), cache)
    when_all(futures, lambda: disk.later(partial(cache.unlock, lock)))


def _missing(one: Version, numbers: Sequence[int], cache: disk.DiskCache | None) -> list[int]:
    """Return the blocks that neither the memory nor the disk has."""
    in_memory = BLOCKS.holds(one.of, numbers)
    left = [number for number in numbers if number not in in_memory]
    on_disk = cache.holds(one.name, left) if cache is not None and left else set()
    return [number for number in left if number not in on_disk]


def _fill(one: Version, numbers: Sequence[int], cache: disk.DiskCache | None) -> list[Future[Buffer]]:
    """Request blocks, keep them on disk, and hold them until they are read. Few are kept in memory as well."""
    ranges = [(first * SIZE, min(last * SIZE, one.size)) for first, last in joined(numbers)]
    few = cache is None or sum(stop - start for start, stop in ranges) < MANY

    def kept(start: int, stop: int) -> Buffer:
        content = one.fetch(start, stop)
        if few:
            BLOCKS.put(one.of, start, content, one.size)
        if cache is not None:
            disk.write_later(cache, one.name, start, content, one.size)
        return content

    futures = [submit(one.url, partial(kept, start, stop)) for start, stop in ranges]
    for (start, stop), future in zip(ranges, futures, strict=True):
        AHEAD.hold(one.of, start, stop, future)
    return futures


def _random(
    one: Version, ranges: Sequence[tuple[int, int]], pieces: Sequence[Piece], *, keep: bool
) -> Iterator[Buffer]:
    """Yield the bytes of ranges from blocks, and keep the blocks.

    Args:
        one: The object.
        ranges: The ranges.
        pieces: What is read ahead here.
        keep: Keep the blocks on disk too.
    """
    parts = [_parts(pieces, start, stop) for start, stop in ranges]
    left = {n for found in parts for start, stop, by in found if by is None for n in numbers_of(start, stop)}
    blocks: dict[int, Buffer] = {**BLOCKS.get(one.of, left)}
    cache = disk.opened() if one.name else None
    if cache is not None and len(blocks) < len(left):
        on_disk = cache.get(one.name, sorted(left - blocks.keys()))
        for number, block in on_disk.items():
            BLOCKS.put(one.of, number * SIZE, block, one.size)
        blocks |= on_disk
    missing = [(first * SIZE, min(last * SIZE, one.size)) for first, last in joined(sorted(left - blocks.keys()))]
    calls = [partial(one.fetch, start, stop) for start, stop in missing]
    for (start, _), content in zip(missing, in_order(one.url, calls), strict=True):
        BLOCKS.put(one.of, start, content, one.size)
        if cache is not None and keep:
            disk.write_later(cache, one.name, start, content, one.size)
        view = memoryview(content)
        blocks |= {(start + at) // SIZE: view[at : at + SIZE] for at in range(0, len(view), SIZE)}
    for found in parts:
        yield _together([
            _cut(blocks, start, stop) if by is None else _of_piece(one, by, start, stop) for start, stop, by in found
        ])  # fmt: skip


def _streamed(one: Version, ranges: Sequence[tuple[int, int]], pieces: Sequence[Piece]) -> Iterator[Buffer]:
    """Yield the bytes of ranges, requested without whole blocks, but for those that are read ahead or on disk."""
    parts: list[list[tuple[int, int, Piece | None]]] = [_parts(pieces, start, stop) for start, stop in ranges]
    wanted = [(start, stop) for found in parts for start, stop, by in found if by is None]
    spans, of = _spans(wanted)
    cache = disk.opened() if one.name else None
    longest = max((stop - start for start, stop in spans), default=1)
    order = list(dict.fromkeys(of))  # As the caller needs them.
    calls = (partial(_part, one, cache, *spans[number]) for number in order)
    contents = zip(order, in_order(one.url, calls, max(_AT_ONCE, min(AT_ONCE, MOST // longest))), strict=True)
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

    for found in parts:
        yield _together([
            taken(start, stop) if by is None else _of_piece(one, by, start, stop) for start, stop, by in found
        ])  # fmt: skip


def _spans(wanted: Sequence[tuple[int, int]]) -> tuple[list[tuple[int, int]], list[int]]:
    """Join ranges that are close together to spans of at most `LARGEST` bytes, which one request reads each.

    Args:
        wanted: Ranges of at most `LARGEST` bytes.

    Returns:
        The spans, ascending; and the number of the span of each range.
    """
    spans, of = list[tuple[int, int]](), [0] * len(wanted)
    for number in sorted(range(len(wanted)), key=wanted.__getitem__):
        start, stop = wanted[number]
        if spans and start - spans[-1][1] <= GAP and max(stop, spans[-1][1]) - spans[-1][0] <= LARGEST:
            spans[-1] = spans[-1][0], max(stop, spans[-1][1])
        else:
            spans.append((start, stop))
        of[number] = len(spans) - 1
    return spans, of


def _part(one: Version, cache: disk.DiskCache | None, start: int, stop: int) -> Buffer:
    """Return the bytes of a range, from blocks if all of them are held."""
    if start == stop:
        return b""
    if one.kept:
        numbers = numbers_of(start, stop)
        blocks = BLOCKS.get(one.of, numbers)
        if cache is not None and len(blocks) < len(numbers):
            left = [number for number in numbers if number not in blocks]
            if len(cache.holds(one.name, left)) == len(left):
                blocks |= cache.get(one.name, left)
        if len(blocks) == len(numbers):
            return _cut(blocks, start, stop)
    return one.fetch(start, stop)


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


def _of_piece(one: Version, piece: Piece, start: int, stop: int) -> Buffer:
    """Return the bytes of a range in a piece, which may have been called off to make room."""
    try:
        return memoryview(waited(one.url, piece.future))[start - piece.start : stop - piece.start]
    except CancelledError:
        return request(one.url, partial(one.fetch, start, stop))


def _later(one: Version, start: int, stop: int) -> Future[Buffer]:
    cache = disk.opened() if one.name else None
    return submit(one.url, partial(_part, one, cache, start, stop), urgent=False)


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
