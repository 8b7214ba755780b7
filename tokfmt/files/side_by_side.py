"""Look at many places of a store side by side, as each look waits for requests."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextvars import ContextVar, copy_context
from functools import partial
from itertools import islice
from typing import TypeVar

from tokfmt.files.place import Place

S = TypeVar("S")
T = TypeVar("T")

AT_ONCE = 32
"""Items that are looked at, or whose results wait for the caller. A process bounds its requests besides."""
_IS_INSIDE: ContextVar[bool] = ContextVar("this thread looks at one of many items", default=False)

_Calls = queue.SimpleQueue[tuple[Future[T], Callable[[], T]] | None]


def side_by_side(function: Callable[[S], T], items: Sequence[S], *, are_stored: bool | None = None) -> Iterator[T]:
    """Yield what a function returns for each item, in order. Local items are looked at one after the other.

    If it raises for several items, the error of the first one is raised. The calls see the context of the caller. Their
    threads are daemons: Ctrl-C ends the wait, and not the calls. Items that are not in a store are known by
    `are_stored` (default: one of them is an address).
    """
    if are_stored is None:
        are_stored = any(isinstance(item, Place) and not item.is_local for item in items)
    several = are_stored and len(items) > 1 and not _IS_INSIDE.get()
    return _threaded(function, items) if several else map(function, items)


def _threaded(function: Callable[[S], T], items: Sequence[S]) -> Iterator[T]:
    calls: _Calls[T] = queue.SimpleQueue()
    following, pending = iter(items), deque[Future[T]]()
    for number in range(min(AT_ONCE, len(items))):
        threading.Thread(target=_work, args=(calls,), name=f"tokfmt-look-{number}", daemon=True).start()
    try:
        while True:
            for item in islice(following, AT_ONCE - len(pending)):
                pending.append(Future())
                calls.put((pending[-1], partial(copy_context().run, _inside, function, item)))
            if not pending:
                return
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
        for _ in range(AT_ONCE):
            calls.put(None)


def _inside(function: Callable[[S], T], item: S) -> T:
    _IS_INSIDE.set(True)
    return function(item)


def _work(calls: _Calls[T]) -> None:
    while (call := calls.get()) is not None:
        future, look = call
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(look())
            except BaseException as error:  # noqa: BLE001 -- the caller raises it
                future.set_exception(error)
        del call, future, look  # What they hold is not kept while this thread waits.
