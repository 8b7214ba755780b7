"""Requests in daemon threads: Ctrl-C ends a wait at once, and the end of the interpreter waits for no server.

A call of obstore in the main thread does not hear Ctrl-C, and a child that was forked after one hangs for ever.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from functools import partial
from typing import TypeVar

from tokfmt.base.resources import share_freed_memory
from tokfmt.errors import UnsupportedError
from tokfmt.files.place import Url
from tokfmt.stores import account

T = TypeVar("T")

AT_ONCE = 16
"""Requests that a process has in flight. S3 serves a prefix at 5,500 a second, so a cluster may use many processes."""


_Calls = queue.SimpleQueue[tuple[Future[object], Callable[[], object]]]


class _Threads:
    """Daemon threads that are started as needed, and the calls that wait for one, urgent ones first."""

    def __init__(self) -> None:
        self.urgent: _Calls = queue.SimpleQueue()
        self.later: _Calls = queue.SimpleQueue()
        self.submitted: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.started, self.idle = 0, 0
        self.lock = threading.Lock()
        self.process = os.getpid()
        share_freed_memory()

    def submit(self, call: Callable[[], T], *, urgent: bool) -> Future[T]:
        future: Future[T] = Future()
        with self.lock:
            if self.idle:
                self.idle -= 1
            elif self.started < AT_ONCE:
                self._start()
        (self.urgent if urgent else self.later).put((future, call))  # type: ignore[arg-type]
        self.submitted.put(None)
        return future

    def _start(self) -> None:
        """Start a thread that receives no signal, nor do the threads that obstore starts in it."""
        self.started += 1
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            threading.Thread(target=self._work, name=f"tokfmt-request-{self.started}", daemon=True).start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _work(self) -> None:
        while True:
            self.submitted.get()
            future, call = self._next()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # noqa: BLE001 -- the caller raises it
                    future.set_exception(error)
            del future, call  # What they hold is not kept while this thread waits.
            with self.lock:
                self.idle += 1

    def _next(self) -> tuple[Future[object], Callable[[], object]]:
        """Return a call that was submitted. There is one, as this thread has taken one of `submitted`."""
        try:
            return self.urgent.get_nowait()
        except queue.Empty:
            return self.later.get()


_THREADS: list[_Threads] = []


def are_of_parent() -> bool:
    """Return whether this process was forked from one that has sent requests, so that its own would hang."""
    return bool(_THREADS) and _THREADS[0].process != os.getpid()


def _threads(url: Url) -> _Threads:
    if not _THREADS:
        _THREADS.append(_Threads())
    if are_of_parent():
        raise UnsupportedError(
            url,
            "cannot be read in a process that was forked after its parent had read from a store",
            remedy='Start workers with multiprocessing_context="forkserver" or "spawn"',
        )
    return _THREADS[0]


def request(url: Url, call: Callable[[], T]) -> T:
    """Call a function in a thread and return what it returns. Ctrl-C ends the wait, and the call is left alone. A
    process that was forked from one that has sent requests cannot: obstore would hang.
    """
    return waited(url, submit(url, call))


def waited(url: Url, future: Future[T]) -> T:
    """Return the result of a future, and warn if the caller waits long for it."""
    while True:
        try:
            return future.result(account.SLOW)
        except TimeoutError:
            if future.done():  # The call has raised it.
                raise
            account.warn_slow(url)


def submit(url: Url, call: Callable[[], T], *, urgent: bool = True) -> Future[T]:
    """Call a function in a thread, behind all urgent calls unless it is one, and return its future."""
    return _threads(url).submit(call, urgent=urgent)


def in_order(url: Url, calls: Iterable[Callable[[], T]], at_once: int = AT_ONCE) -> Iterator[T]:
    """Call functions side by side, `at_once` at most, yield in order; cancel if the caller leaves."""
    left, under_way = iter(calls), deque[Future[T]]()
    try:
        for call in left:
            under_way.append(submit(url, call))
            if len(under_way) >= at_once:
                yield waited(url, under_way.popleft())
        while under_way:
            yield waited(url, under_way.popleft())
    finally:
        for future in under_way:
            future.cancel()


_PATIENCE = 5.0
"""Seconds that an end of the work waits for uploads to stop: a part that is under way may have to arrive first."""
Stoppable = Callable[[threading.Event], T]
"""A call that gives up as soon as it can once the event is set. Ctrl-C waits for it, but not for ever."""


def _first(url: Url, ended: queue.SimpleQueue[Future[T]]) -> Future[T]:
    """Return the next future that has ended, and warn if the caller waits long for it."""
    while True:
        try:
            return ended.get(timeout=account.SLOW)
        except queue.Empty:
            account.warn_slow(url)


def side_by_side(url: Url, calls: Iterable[tuple[int, Stoppable[T]]], most: int, done: Callable[[T], None]) -> None:
    """Call functions side by side, and report what each returns.

    If one of them raises, or the caller stops, those that run are stopped, and the others do not start. What they have
    done by then is reported as well. A call comes with its weight, such as the bytes that it holds in memory. Calls of
    the weight `most` run at once, and one call always runs. `done` is called in this thread with each result.
    """
    threads, stop = _threads(url), threading.Event()
    ended: queue.SimpleQueue[Future[T]] = queue.SimpleQueue()
    running = dict[Future[T], int]()
    left = iter(calls)
    waiting = next(left, None)
    try:
        while waiting is not None or running:
            while waiting is not None and (not running or sum(running.values()) + waiting[0] <= most):
                weight, call = waiting
                future = threads.submit(partial(call, stop), urgent=True)
                running[future] = weight
                future.add_done_callback(ended.put)
                waiting = next(left, None)
            future = _first(url, ended)
            if future.exception() is None:
                done(future.result())
            del running[future]
            future.result()
    finally:
        stop.set()
        for future in wait([future for future in running if not future.cancel()], _PATIENCE).done:
            if future.exception() is None:
                done(future.result())
