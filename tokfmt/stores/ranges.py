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


def read(version: Version, ranges: Sequence[tuple[int, int]]) -> Iterator[Buffer]:
    """Yield the bytes of ranges, in order, as they arrive.

    Args:
        version: The object.
        ranges: The first byte of each range, and the byte after its last. None is beyond the end.
    """
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
        yield from _random(version, ranges, pieces, keep=run < 2 * LEAST and not 2 * SIZE < total == version.size)
        block_end = min(version.size, -(-stop // SIZE) * SIZE)
    if 2 * total >= stop - start:  # Ranges far apart are no reader that goes on.
        AHEAD.end(version.of, start, stop, block_end, version.size, partial(_later, version))


def prefetch(version: Version, ranges: Sequence[tuple[int, int]], *, keep: bool) -> None:
    """Request ranges that will be read, side by side.

    Args:
        version: The object.
        ranges: As for `read`.
        keep: Keep them on disk, whatever their size: an index, or a footer. Otherwise they are held until they are
            read, if there is room for them.
    """
    if not keep or not version.kept:
        AHEAD.ask(
            version.of, [piece for start, stop in ranges for piece in _pieces(start, stop)], partial(_later, version)
        )
        return
    numbers = sorted({number for start, stop in ranges for number in numbers_of(start, stop)})
    cache = disk.opened() if version.name else None
    missing = _missing(version, numbers, cache)
    if len(missing) * SIZE < MANY or cache is None:  # A process that waits for another would take as long.
        _fill(version, missing, cache)
        return
    disk.settle()  # This process may be about to write what is missing.
    lock = cache.lock(version.name)
    futures = _fill(version, _missing(version, numbers, cache), cache)
    when_all(futures, lambda: disk.later(partial(cache.unlock, lock)))


def _missing(version: Version, numbers: Sequence[int], cache: disk.DiskCache | None) -> list[int]:
    """Return the blocks that neither the memory nor the disk has."""
    in_memory = BLOCKS.holds(version.of, numbers)
    left = [number for number in numbers if number not in in_memory]
    on_disk = cache.holds(version.name, left) if cache is not None and left else set()
    return [number for number in left if number not in on_disk]


def _fill(version: Version, numbers: Sequence[int], cache: disk.DiskCache | None) -> list[Future[Buffer]]:
    """Request blocks, keep them on disk, and hold them until they are read. Few are kept in memory as well."""
    ranges = [(first * SIZE, min(last * SIZE, version.size)) for first, last in joined(numbers)]
    few = cache is None or sum(stop - start for start, stop in ranges) < MANY

    def kept(start: int, stop: int) -> Buffer:
        content = version.fetch(start, stop)
        if few:
            BLOCKS.put(version.of, start, content, version.size)
        if cache is not None:
            disk.write_later(cache, version.name, start, content, version.size)
        return content

    futures = [submit(version.url, partial(kept, start, stop)) for start, stop in ranges]
    for (start, stop), future in zip(ranges, futures, strict=True):
        AHEAD.hold(version.of, start, stop, future)
    return futures


def _random(
    version: Version, ranges: Sequence[tuple[int, int]], pieces: Sequence[Piece], *, keep: bool
) -> Iterator[Buffer]:
    """Yield the bytes of ranges from blocks, and keep the blocks.

    Args:
        version: The object.
        ranges: The ranges.
        pieces: What is read ahead here.
        keep: Keep the blocks on disk too.
    """
    parts = [_parts(pieces, start, stop) for start, stop in ranges]
    left = {n for cuts in parts for start, stop, by in cuts if by is None for n in numbers_of(start, stop)}
    blocks: dict[int, Buffer] = {**BLOCKS.get(version.of, left)}
    cache = disk.opened() if version.name else None
    if cache is not None and len(blocks) < len(left):
        on_disk = cache.get(version.name, sorted(left - blocks.keys()))
        for number, block in on_disk.items():
            BLOCKS.put(version.of, number * SIZE, block, version.size)
        blocks |= on_disk
    missing = [(first * SIZE, min(last * SIZE, version.size)) for first, last in joined(sorted(left - blocks.keys()))]
    calls = [partial(version.fetch, start, stop) for start, stop in missing]
    for (start, _), content in zip(missing, in_order(version.url, calls), strict=True):
        BLOCKS.put(version.of, start, content, version.size)
        if cache is not None and keep:
            disk.write_later(cache, version.name, start, content, version.size)
        view = memoryview(content)
        blocks |= {(start + at) // SIZE: view[at : at + SIZE] for at in range(0, len(view), SIZE)}
    for cuts in parts:
        yield _together([
            _cut(blocks, start, stop) if by is None else _of_piece(version, by, start, stop) for start, stop, by in cuts
        ])  # fmt: skip


def _streamed(version: Version, ranges: Sequence[tuple[int, int]], pieces: Sequence[Piece]) -> Iterator[Buffer]:
    """Yield the bytes of ranges, requested without whole blocks, but for those that are read ahead or on disk."""
    parts: list[list[tuple[int, int, Piece | None]]] = [_parts(pieces, start, stop) for start, stop in ranges]
    wanted = [(start, stop) for cuts in parts for start, stop, by in cuts if by is None]
    spans, of = _spans(wanted)
    cache = disk.opened() if version.name else None
    longest = max((stop - start for start, stop in spans), default=1)
    order = list(dict.fromkeys(of))  # As the caller needs them.
    calls = (partial(_part, version, cache, *spans[number]) for number in order)
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


def _part(version: Version, cache: disk.DiskCache | None, start: int, stop: int) -> Buffer:
    """Return the bytes of a range, from blocks if all of them are held."""
    if start == stop:
        return b""
    if version.kept:
        numbers = numbers_of(start, stop)
        blocks = BLOCKS.get(version.of, numbers)
        if cache is not None and len(blocks) < len(numbers):
            left = [number for number in numbers if number not in blocks]
            if len(cache.holds(version.name, left)) == len(left):
                blocks |= cache.get(version.name, left)
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
    cache = disk.opened() if version.name else None
    return submit(version.url, partial(_part, version, cache, start, stop), urgent=False)


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
