"""Read ahead of readers that go on where they ended, and hold what was asked for beforehand until it is read.

A reader has as much read ahead as it has read, from 128 KiB to 32 MiB in four requests, so at most half of what is
requested is not read. A jump begins a new reader. What is read ahead is dropped when it is read: it enters no cache.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from tokfmt.stores.blocks import LARGEST, SIZE, STREAMED, Buffer

LEAST = 1 << 17
"""Bytes that are read ahead first."""
MOST = 4 * LARGEST
"""Bytes that a process holds of what is read ahead. Several readers share them."""
_READERS = 64  # Readers that are remembered.
_STALE = 256  # Reads of others after which what was read ahead of a reader is dropped.

Submit = Callable[[int, int], Future[Buffer]]
"""Requests a range of an object, after all requests that a caller waits for."""


@dataclass(eq=False)
class Piece:
    """A range that is requested."""

    start: int  # first byte
    stop: int  # byte after its last
    future: Future[Buffer]  # bytes
    unread: int  # bytes that were not read yet
    used: int  # number of the read that used it last, or asked for it


@dataclass(eq=False)
class _Reader:
    """A reader of an object: where it began and ended, the bytes without a jump, and where reading ahead ends."""

    start: int
    end: int
    run: int
    ahead: int


@dataclass(eq=False)
class _Object:
    readers: list[_Reader] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)


class Ahead:
    """The ranges that this process reads ahead. Thread-safe."""

    def __init__(self) -> None:
        self._objects: OrderedDict[Hashable, _Object] = OrderedDict()
        self._lock = threading.Lock()
        self._reads = self.held = 0

    def begin(self, of: Hashable, start: int, stop: int) -> tuple[int, list[Piece]]:
        """Begin a read of a range. The result is the bytes that the reader has read that goes on here, and the pieces
        that hold a part of the range, ascending.
        """
        with self._lock:
            self._reads += 1
            state = self._objects.get(of)
            if state is None:
                return 0, []
            pieces = [piece for piece in state.pieces if piece.start < stop and start < piece.stop]
            for piece in pieces:
                piece.used = self._reads
            reader = self._reader(state, start)
            return reader.run if reader is not None else 0, pieces

    def end(self, of: Hashable, start: int, stop: int, held: int, size: int, submit: Submit) -> None:
        """End a read of a range: drop what it has read, and read ahead if it went on where a reader had ended. `held`
        is the byte up to which there is no need to read ahead, `stop` or more.
        """
        with self._lock:
            state = self._objects.setdefault(of, _Object())
            self._objects.move_to_end(of)
            for piece in state.pieces:
                piece.unread -= max(0, min(stop, piece.stop) - max(start, piece.start))
            self._drop(state, lambda piece: piece.unread <= 0)
            reader = self._reader(state, start)
            goes_on = reader is not None
            if reader is None:
                reader = _Reader(start, stop, stop - start, held)
                state.readers = state.readers[1 - _READERS :]
                if reader.run >= STREAMED and state.readers:  # Another thread takes the next region of a scan.
                    reader.run = max(reader.run, *(other.run for other in state.readers))
                    goes_on = reader.run > stop - start
            else:
                reader.run += max(0, stop - reader.end)
                reader.end, reader.ahead = max(stop, reader.end), max(held, reader.ahead)
                state.readers.remove(reader)
            state.readers.append(reader)
            if goes_on:
                self._extend(state, reader, size, submit)
            while len(self._objects) > _READERS:
                _, oldest = self._objects.popitem(last=False)
                self._drop(oldest, lambda _: True)

    def ask(self, of: Hashable, ranges: Sequence[tuple[int, int]], submit: Submit) -> None:
        """Request ranges that will be read soon, as far as there is room for them."""
        with self._lock:
            self._reads += 1
            state = self._objects.setdefault(of, _Object())
            self._objects.move_to_end(of)
            for start, stop in ranges:
                at = start
                for piece in [piece for piece in state.pieces if piece.start < stop and start < piece.stop]:
                    if at < piece.start:
                        self._ask(state, at, piece.start, submit)
                    at = max(at, piece.stop)
                if at < stop:
                    self._ask(state, at, stop, submit)

    def hold(self, of: Hashable, start: int, stop: int, future: Future[Buffer]) -> None:
        """Hold a range that was requested until it is read, even if that leaves no room for others."""
        with self._lock:
            state = self._objects.setdefault(of, _Object())
            self._objects.move_to_end(of)
            self._add(state, Piece(start, stop, future, stop - start, self._reads))

    def clear(self) -> None:
        """Forget everything."""
        self._lock = threading.Lock()
        self._objects, self.held = OrderedDict(), 0

    def _reader(self, state: _Object, start: int) -> _Reader | None:
        """Return the reader that ended near a byte: libraries read the end of a block again, or skip a page."""
        return next((reader for reader in reversed(state.readers) if abs(start - reader.end) <= SIZE), None)

    def _extend(self, state: _Object, reader: _Reader, size: int, submit: Submit) -> None:
        if reader.run < LEAST:
            return
        window = min(MOST, 1 << (reader.run.bit_length() - 1))
        length = min(LARGEST, max(LEAST, window // 4))
        others = (other.start for other in state.readers if other.start >= reader.end and other.run >= STREAMED)
        last = min([size, *others])
        end = min(last, reader.end + window)
        while reader.ahead < end and (end - reader.ahead >= length or end == last):
            begun = next((piece for piece in state.pieces if piece.start <= reader.ahead < piece.stop), None)
            if begun is not None:
                reader.ahead = begun.stop
                continue
            stop = min(end, reader.ahead + length)
            if not self._ask(state, reader.ahead, stop, submit):
                return
            reader.ahead = stop

    def _ask(self, state: _Object, start: int, stop: int, submit: Submit) -> bool:
        if self.held + stop - start > MOST:
            for other in self._objects.values():
                self._drop(other, lambda piece: self._reads - piece.used > _STALE)
            if self.held + stop - start > MOST:
                return False
        self._add(state, Piece(start, stop, submit(start, stop), stop - start, self._reads))
        return True

    def _add(self, state: _Object, piece: Piece) -> None:
        state.pieces.append(piece)
        state.pieces.sort(key=lambda piece: piece.start)
        self.held += piece.stop - piece.start

    def _drop(self, state: _Object, condition: Callable[[Piece], bool]) -> None:
        for piece in [piece for piece in state.pieces if condition(piece)]:
            piece.future.cancel()
            state.pieces.remove(piece)
            self.held -= piece.stop - piece.start


AHEAD = Ahead()
os.register_at_fork(after_in_child=AHEAD.clear)
