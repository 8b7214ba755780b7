"""Carry out tasks on an executor: serial, threads, processes or a Dask cluster, one code path.

`executor` is a `concurrent.futures.Executor`, nothing else. A task is `function(shared, item)`; `shared` (readers and
writers) travels once a worker process, `item` (a region) with each task. Results come as they finish; at most twice as
many tasks are under way as there are workers, so memory does not grow with the number of tasks.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from tokfmt.core.errors import OptionError, OutageError
from tokfmt.core.options import nearest
from tokfmt.run.cluster import connected, is_cluster, lost_workers
from tokfmt.run.transport import Parcel, receive

S = TypeVar("S")
I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")

POOLS = ("RAYON_NUM_THREADS", "FASTOKENS_BPE_THREADS")
"""Environment variables: threads that engines of text take beside those of an executor."""

EXECUTORS = ("serial", "threads", "processes", "dask")


class SerialExecutor(Executor):
    """Runs each task when it is submitted, in this thread."""

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        future: Future[R] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - the future carries it, as in every executor
            future.set_exception(error)
        return future


def make_executor(name: str, jobs: int) -> AbstractContextManager[Executor]:
    """An executor by name.

    Args:
        name: "serial", "threads", "processes", "dask" or "dask:ADDRESS" (see `run.cluster`).
        jobs: Workers; at least 1.

    Raises:
        OptionError: No executor of that name.
    """
    if is_cluster(name):
        return connected(name.partition(":")[2], jobs)
    if name not in EXECUTORS:
        raise OptionError(f"no executor {name!r}: {', '.join(EXECUTORS)}", name=name, nearest=nearest(name, EXECUTORS))
    if name == "serial":
        return SerialExecutor()
    if name == "threads":
        return ThreadPoolExecutor(jobs, thread_name_prefix="tokfmt")
    # spawn, never fork: the threads of codecs do not survive a fork
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_end_with, initargs=(os.getpid(),))


def run_tasks(
    function: Callable[[S, I], R], shared: S, items: Iterable[I], executor: Executor, jobs: int, scratch: Path
) -> Iterator[R]:
    """Yield `function(shared, item)` for every item, in the order of completion.

    Args:
        function: A module-level function, so that it can be named in another process.
        shared: Readers and writers; picklable.
        items: Picklable, small.
        executor: Where to run.
        jobs: Its number of workers.
        scratch: An existing directory for large arrays on their way to worker processes.

    Raises:
        The first error of any task, after the tasks not yet begun were cancelled and those begun have ended.
    """
    local = isinstance(executor, (SerialExecutor, ThreadPoolExecutor))
    call = _Local(function, shared) if local else _Remote(function, Parcel.pack(shared, scratch))
    pending: set[Future[R]] = set()
    try:
        for item in items:
            pending.add(executor.submit(call, item))
            if len(pending) >= 2 * jobs:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    except Exception as error:
        if isinstance(error, BrokenProcessPool) or lost_workers(error):
            raise OutageError(
                "a worker process ended abruptly: killed, or out of memory. If memory is short, run with fewer --jobs"
            ) from error
        raise
    finally:
        wait([future for future in pending if not future.cancel()])


class _Local:
    def __init__(self, function: Callable[[Any, Any], Any], shared: object) -> None:
        self.function, self.shared = function, shared

    def __call__(self, item: object) -> Any:
        return self.function(self.shared, item)


class _Remote:
    """What is sent to a worker process with each task: a name, a small parcel, an item."""

    def __init__(self, function: Callable[[Any, Any], Any], parcel: Parcel) -> None:
        self.function, self.parcel = function, parcel

    def __call__(self, item: object) -> Any:
        return self.function(receive(self.parcel), item)


def _end_with(parent: int) -> None:
    """In a worker process: end when the parent is gone, however it went (SIGKILL leaves no other sign)."""

    def watch() -> None:
        while os.getppid() == parent:
            stop.wait(1)
        os._exit(1)

    import signal

    for pool in POOLS:  # the processes are the jobs
        os.environ[pool] = "1"
    # the parent decides about Ctrl-C; a worker that raised KeyboardInterrupt would print a traceback
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop = threading.Event()
    threading.Thread(target=watch, daemon=True).start()
