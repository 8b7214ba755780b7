"""Read stores in a process that was forked after its parent had: a helper process reads for it.

obstore hangs in such a child. `subprocess` starts a process safely after a fork, as the child does with its first read.
The two exchange pickles over a pair of sockets:

    to the helper    (number, address of the store, name of a method, arguments)
    back             (number, what the method returned, what it raised)

The helper answers several calls at once, in any order. It keeps the blocks that it read, and ends with the child, which
closes the socket. Ctrl-C reaches both processes of a terminal, and ends the child only.
"""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tokfmt.errors import UnreachableError
from tokfmt.files.place import Url, close_stores, store_of
from tokfmt.files.store import Entry, Identity, Status, Store
from tokfmt.stores.requests import AT_ONCE, are_of_parent


class ForkedStore(Store):
    """A store that a helper process reads; see `files.store.Store`. Thread-safe. It cannot be written."""

    def __init__(self, url: Url) -> None:
        """Take the bucket or host of an address, or an address with a query."""
        self.root = url if url.query else Url(url.scheme, url.authority)

    def status(self, key: str) -> Status:
        answer: Status = self._call("status", key).result()
        return answer

    def entries(self, key: str) -> Iterator[Entry]:
        yield from self._call("entries", key).result()

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]], identity: Identity) -> list[bytes]:
        pieces: list[bytes] = self._call("read_ranges", key, list(ranges), identity).result()
        return pieces

    def prefetch(self, key: str, ranges: Sequence[tuple[int, int]], identity: Identity, *, keep: bool) -> None:
        asked = self._call("prefetch", key, list(ranges), identity, keep)
        if keep:
            asked.result()

    def _call(self, method: str, *arguments: object) -> Future[Any]:
        return _helper().call(self.root, method, arguments)


class _Helper:
    """The helper process of this process, and the calls that it has not answered."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            package = str(Path(__file__).parents[2])
            path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tokfmt.stores.forked", str(theirs.fileno())],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()], env={**os.environ, "PYTHONPATH": path},
            )  # fmt: skip
        self.ended = False
        self._connection, self._lock = Connection(ours.detach()), threading.Lock()
        self._waiting, self._numbers = dict[int, tuple[Url, Future[Any]]](), itertools.count()
        threading.Thread(target=self._receive, name="tokfmt-forked", daemon=True).start()

    def call(self, root: Url, method: str, arguments: Sequence[object]) -> Future[Any]:
        """Ask the helper to call a method of a store."""
        future: Future[Any] = Future()
        with self._lock:
            number = next(self._numbers)
            self._waiting[number] = root, future
            with suppress(OSError):  # `_receive` hears of it too.
                self._connection.send((number, root, method, arguments))
            ended = self.ended
        if ended:
            self._fail()
        return future

    def leave(self) -> None:
        """Close this process's copy of the socket of its parent, whose helper would not end before this process."""
        self._connection.close()

    def _receive(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                number, answer, error = self._connection.recv()
                _, future = self._waiting.pop(number)
                if error is None:
                    future.set_result(answer)
                else:
                    future.set_exception(error)
        with self._lock:
            self.ended = True
        self._fail()

    def _fail(self) -> None:
        """End the calls that the helper no longer answers."""
        while self._waiting:
            with suppress(KeyError):
                root, future = self._waiting.popitem()[1]
                future.set_exception(UnreachableError(root, "the process that reads it has ended"))


_LOCK = [threading.Lock()]
_HELPER: list[_Helper] = []


def _helper() -> _Helper:
    """Return the helper of this process; start one if no helper runs."""
    with _LOCK[0]:
        if not _HELPER or _HELPER[0].ended:
            _HELPER[:] = [_Helper()]
        return _HELPER[0]


def _in_child() -> None:
    """Open stores again in a child: those of the parent hang, and another thread may have held the lock."""
    _LOCK[0] = threading.Lock()
    for helper in _HELPER:
        helper.leave()
    _HELPER.clear()
    if are_of_parent():
        close_stores()


os.register_at_fork(after_in_child=_in_child)


def _answer(connection: Connection, lock: threading.Lock, message: tuple[int, Url, str, Sequence[Any]]) -> None:
    """Call a method of a store, and send what it returns or raises."""
    number, root, method, arguments = message
    result, error = None, None
    try:
        store: Any = store_of(root)
        if method == "prefetch":
            *arguments, keep = arguments
            store.prefetch(*arguments, keep=keep)
        else:
            result = getattr(store, method)(*arguments)
            if method == "entries":
                result = list(result)
            elif method == "read_ranges":
                result = [bytes(content) for content in result]
    except Exception as raised:  # noqa: BLE001 -- the child raises it
        result, error = None, raised
    try:
        answer = pickle.dumps((number, result, error))
    except Exception:  # noqa: BLE001 -- An error that cannot be sent is still an answer.
        answer = pickle.dumps((number, None, UnreachableError(root, f"cannot be read: {type(error).__name__}")))
    with lock, suppress(OSError):  # The child may have ended.
        connection.send_bytes(answer)


def serve(descriptor: int) -> None:
    """Answer the calls that arrive at a socket until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection, lock = Connection(descriptor), threading.Lock()
    pool = ThreadPoolExecutor(2 * AT_ONCE)
    with suppress(EOFError, OSError):
        while True:
            pool.submit(_answer, connection, lock, connection.recv())
    os._exit(0)  # A request may be under way that no server answers.


if __name__ == "__main__":
    serve(int(sys.argv[1]))
