"""Run tasks on an executor: serial, threads, processes or a Dask cluster, with one code path.

`executor` is any `concurrent.futures.Executor`. A task is `function(shared, item)`: `shared` (readers and writers) is
sent once to each worker process, and `item` (a region) with each task. Results are yielded in the order of completion.
At most twice as many tasks run or wait as there are workers, so memory does not grow with the number of tasks.

Pickles carry plans between tokfmt's own processes, never content of user files. `shared` is written once to a file in
scratch, a private directory. The workers map its large arrays (offsets of millions of sequences), and share one copy in
the page cache.

The name of an executor on Dask has three forms:

    dask                        worker processes of this machine, with encrypted connections
    dask:tcp://10.0.0.5:8786    the scheduler of a cluster (Slurm, Kubernetes ...)
    dask:tls://10.0.0.5:8786    the same, with the certificates of Dask's configuration

The workers of a cluster need the same version of tokfmt, and the sources and the destination under the same paths:
large arrays are files in the hidden sibling of the destination. If a worker is lost, Dask runs its tasks on another
one. Anyone who can reach a scheduler at tcp:// can run code on its workers and, through their answers, here. Use such a
cluster only on a trusted network. With tls://, only holders of the keys can do so
(https://distributed.dask.org/en/stable/tls.html, `DASK_DISTRIBUTED__COMM__TLS__...`).
"""

from __future__ import annotations

import contextlib
import functools
import logging
import mmap
import os
import pickle
import queue
import re
import signal
import socket
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tokfmt.base.options import nearest
from tokfmt.base.resources import cpus, keep_freed_memory
from tokfmt.errors import (
    ConversionError,
    FormatError,
    MissingDependencyError,
    OptionError,
    OutageError,
    SourceChangedError,
)
from tokfmt.files.locks import Scratch
from tokfmt.files.place import is_address
from tokfmt.run.isolation import ENDING, isolated, undelivered
from tokfmt.wording import printable

S = TypeVar("S")
I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")

POOLS = ("RAYON_NUM_THREADS", "FASTOKENS_BPE_THREADS")
"""Environment variables that set the number of threads of tokenizer engines."""

EXECUTORS = ("serial", "threads", "processes", "dask")


class SerialExecutor(Executor):
    """An executor that runs each task when it is submitted, in this thread."""

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        future: Future[R] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - The future carries the error, as in every executor.
            future.set_exception(error)
        return future


class Threads(ThreadPoolExecutor):
    """Threads of this process. Signals wait while a thread starts, because a half-started thread would run on alone."""

    def __init__(self, jobs: int) -> None:
        super().__init__(jobs, thread_name_prefix="tokfmt")

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        """Run a call in a thread."""
        with undelivered():
            return super().submit(fn, *args, **kwargs)


_NO_GUARD = (
    "a worker process cannot start, because it imports the script that starts it. "
    'Call tokfmt below `if __name__ == "__main__":` in the script, or give executor="threads"'
)


def _processes(jobs: int) -> Executor:
    """Return a pool of worker processes that import nothing from the current directory and block signals."""
    import multiprocessing  # Imported here, because it takes a tenth of the time of a small conversion.
    from concurrent.futures import ProcessPoolExecutor

    class Processes(ProcessPoolExecutor):
        def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
            """Run a call in a worker process."""
            with isolated(), undelivered():
                return super().submit(fn, *args, **kwargs)

    # Spawn, never fork: the threads of codecs do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with isolated(), undelivered():  # The process that tracks semaphores starts here.
        pool = Processes(jobs, mp_context=context, initializer=_end_with, initargs=(os.getpid(),))
    try:
        pool.submit(os.getpid)  # The workers start now, while this process plans their tasks.
    except RuntimeError as error:
        raise OptionError(_NO_GUARD) from error
    return pool


def worker_count(jobs: int | None) -> int:
    """Return the number of workers for an option value: one per core if it is None or 0."""
    return max(1, jobs or cpus())


def is_cluster(name: str) -> bool:
    """Return whether the name of an executor means Dask."""
    return name == "dask" or name.startswith("dask:")


def make_executor(name: str, jobs: int) -> AbstractContextManager[Executor]:
    """Return an executor by a name of `EXECUTORS`, as a context manager; 1 thread is this one."""
    keep_freed_memory()
    if is_cluster(name):
        return connected(name.partition(":")[2], jobs)
    if name not in EXECUTORS:
        raise OptionError(
            f"no executor {name!r} (known: {', '.join(EXECUTORS)})", name=name, nearest=nearest(name, EXECUTORS)
        )
    if name == "processes":
        return _processes(jobs)
    return Threads(jobs) if name == "threads" and jobs > 1 else SerialExecutor()


def may_spawn(shared: object) -> bool:
    """Return whether worker processes can run tasks that need `shared`: it can be pickled.

    They must not in a worker of another pool, which has its share of the cores, and may be forbidden to have children.
    A worker that runs the main script to import it gets the error of `_processes` instead.
    """
    from multiprocessing import current_process, parent_process

    if parent_process() is not None and not hasattr(current_process(), "_inheriting"):
        return False
    try:
        return bool(pickle.dumps(shared, protocol=5, buffer_callback=lambda _: None))
    except (pickle.PicklingError, TypeError, AttributeError):  # Errors of pickle, and of objects that refuse it.
        return False


def run_tasks(
    function: Callable[[S, I], R], shared: S, items: Iterable[I], executor: Executor, jobs: int, scratch: Path
) -> Iterator[R]:
    """Yield `function(shared, item)` for every item, in the order of completion.

    If an item fails, tasks that have not started are cancelled, and the others run to their end. Then the error of the
    first failed item is raised. Items start in order, so the error does not depend on the number of workers. The
    function is one of a module other than the main one, so that another process can import it. `shared` and the items
    are picklable. `scratch` is an existing directory for large arrays that are sent to worker processes.
    """
    local = isinstance(executor, (SerialExecutor, ThreadPoolExecutor))
    ahead = 1 if isinstance(executor, SerialExecutor) else 2 * jobs
    call = functools.partial(function, shared) if local else _Remote(function, store_payload(shared, scratch), scratch)
    pending: list[Future[R]] = []  # In order of items.
    # Not `wait(..., FIRST_COMPLETED)`: a signal inside it leaves futures locked, and workers blocked on them.
    ended: queue.SimpleQueue[Future[R]] = queue.SimpleQueue()
    try:
        for item in items:
            pending.append(future := executor.submit(call, item))
            future.add_done_callback(ended.put)
            if len(pending) >= ahead:
                yield from _finished(pending, ended)
        while pending:
            yield from _finished(pending, ended)
    except Exception as error:
        if (outage := outage_of(error, executor)) is not None:
            raise outage from error
        raise
    finally:
        wait([future for future in pending if not future.cancel()])


def outage_of(error: Exception, executor: Executor) -> OutageError | None:
    """Return the error of a lost worker process or scheduler in words; None if the error of a task is another one."""
    if isinstance(executor, ClusterExecutor) and lost_workers(error) and not executor.answers():
        return OutageError(
            f"--executor dask: the scheduler at {printable(executor.address)} does not answer "
            "any more. Start a cluster, and run again"
        )
    if isinstance(error, BrokenExecutor):
        workers = [*(getattr(executor, "_processes", None) or {}).values()]
        executor.shutdown()  # It is of no use any more, and has the exit codes of its workers then.
        if any(worker.exitcode == 1 for worker in workers):  # An error of the import. A killed one has another code.
            return OutageError(_NO_GUARD)
    if isinstance(error, BrokenExecutor) or lost_workers(error):
        return OutageError(
            "a worker process ended abruptly: killed, or out of memory. If memory is short, run with fewer --jobs"
        )
    return None


def _finished(pending: list[Future[R]], queued: queue.SimpleQueue[Future[R]]) -> Iterator[R]:
    """Yield the results of finished tasks, at least one, and remove these tasks from `pending`."""
    done, failed = {queued.get()}, None
    while not queued.empty():
        done.add(queued.get())
    if any(future.exception() is not None for future in done):
        begun = [future for future in pending if not future.cancel()]
        done = wait(begun).done
        failed = next(filter(None, (future.exception() for future in begun)))
    ended = [future for future in pending if future in done]
    pending[:] = [future for future in pending if future not in done]
    for result in (future.result() for future in ended if future.exception() is None):
        yield received(result) if isinstance(result, _Counted) else result
    if failed is not None:
        raise failed


class _Counted(NamedTuple):
    """The result of a task of a worker process, and the requests that the process sent to stores for it."""

    result: Any
    asked: Any  # a `stores.account.Transfer`


def counted(result: Any) -> Any:
    """Return a result with the counts of this worker process, if it has asked a store."""
    account = sys.modules.get("tokfmt.stores.account")
    asked = account.taken() if account is not None else None
    return _Counted(result, asked) if asked else result


def received(result: Any) -> Any:
    """Return the result of a worker process. If it is `counted`, add the counts to those of this process."""
    if not isinstance(result, _Counted):
        return result
    from tokfmt.stores import account

    account.add(result.asked)
    return result.result


class _Remote:
    """The callable that a worker process gets with each task: a function, a payload, and the shared directory."""

    def __init__(self, function: Callable[[Any, Any], Any], payload: Path, shared: Path) -> None:
        self.function, self.payload, self.shared = function, payload, shared

    def __call__(self, item: object) -> Any:
        worker = _cluster_worker()
        if worker and not self.shared.is_dir():
            visible = (parent for parent in self.shared.parents if not parent.name.startswith("."))
            raise _unseen(next(visible), worker, "sees another directory there, or none")
        with naming_worker():
            return counted(self.function(receive(self.payload), item))


@contextlib.contextmanager
def naming_worker() -> Iterator[None]:
    """Name the worker of a cluster in errors about a local file that it does not see, or of which it sees a copy."""
    worker = _cluster_worker()
    try:
        yield
    except SourceChangedError as error:
        if worker:
            error.advise(f"The worker {worker} reported it. Every worker needs the same file, not a copy of it")
        raise
    except FormatError as error:
        if not worker or is_address(error.path) or os.path.lexists(error.path):
            raise
        raise _unseen(error.path, worker, "sees no such file") from error


def _cluster_worker() -> str:
    """Return the address of the Dask worker that runs this task; "" outside of Dask."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return ""
    try:
        return f"{distributed.get_worker().address} ({socket.gethostname()})"
    except ValueError:
        return ""


def _unseen(path: str | os.PathLike[str], worker: str, what: str) -> OutageError:
    remedy = "Every worker needs the sources and the destination under the same paths"
    return OutageError(f"{printable(path)}: the worker {worker} {what}. {remedy}")


def _end_with(parent: int) -> None:
    """Run in a worker process: exit when the parent is gone, because SIGKILL of the parent leaves no other sign."""

    def watch() -> None:
        while os.getppid() == parent:
            stop.wait(1)
        os._exit(1)

    for pool in POOLS:  # Each process is one job.
        os.environ[pool] = "1"
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))  # A pool ends its workers by SIGTERM if one died.
    stop = threading.Event()
    threading.Thread(target=watch, daemon=True).start()


_ALIGNED = 64
_KEPT = 2
_received: OrderedDict[Path, Any] = OrderedDict()
_receiving = threading.Lock()


def store_payload(thing: object, scratch: Path) -> Path:
    """Pickle what all tasks share to a file. Its large arrays follow the pickle, and all workers map one copy of them.

    The file has the number of parts, the byte offset and the length of each (u64 each), and the parts.
    """
    buffers: list[pickle.PickleBuffer] = []
    pickled = memoryview(pickle.dumps(thing, protocol=5, buffer_callback=buffers.append))
    parts = [pickled, *(buffer.raw() for buffer in buffers)]
    lengths = np.array([part.nbytes for part in parts], np.uint64)
    taken = np.concatenate(([8 + 16 * len(parts)], lengths)) + (_ALIGNED - 1)
    begins = np.cumsum(taken.astype(np.int64) // _ALIGNED * _ALIGNED)[:-1]
    path = scratch / f"{os.urandom(16).hex()}.payload"
    with open(path, "xb") as file:
        file.write(np.array([len(parts), *np.column_stack((begins, lengths)).ravel()], np.uint64).tobytes())
        for begin, part in zip(begins.tolist(), parts, strict=True):
            file.seek(begin)
            file.write(part)
    return path


def receive(path: Path) -> Any:
    """Return the object of a payload, unpickled once per process and kept for the next tasks."""
    with _receiving:  # Workers of a cluster have threads.
        if path not in _received:
            keep_freed_memory()
            pickled, *buffers = _mapped(path)
            _received[path] = pickle.loads(pickled, buffers=buffers)
            while len(_received) > _KEPT:
                _received.popitem(last=False)
        return _received[path]


def _mapped(path: Path) -> list[memoryview]:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        held = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    count = int.from_bytes(held[:8], "little")
    spans = np.frombuffer(held, np.uint64, 2 * count, 8).reshape(-1, 2).tolist()
    return [held[begin : begin + length] for begin, length in spans]


# A Dask cluster as an executor: an existing one, or one on this machine for the time of the conversion.

_ADDRESS = re.compile(r"((tcp|tls|ucx|ws|wss)://)?[^\s/]+:\d+")
_PATIENCE = 15  # Seconds until a scheduler has to answer.


class ClusterExecutor(Executor):
    """An executor that runs tasks on the workers of a Dask client.

    `Client.get_executor()` is not used, because it checks the state of a task after it has the result. If a worker is
    lost in between, it takes the result for an error (distributed 2026.11). Here, `result()` waits until the task has
    run again.
    """

    def __init__(self, client: Any, jobs: int) -> None:
        self._client = client
        self.address: str = client.scheduler.address  # of the scheduler
        threads: dict[str, int] = client.nthreads()
        # workers: their addresses
        # slots: tasks that the cluster runs at once
        self.workers, self.slots = tuple(threads), sum(threads.values()) or jobs

    def answers(self) -> bool:
        """Return whether the scheduler accepts connections. Takes at most a second."""
        host, _, port = self.address.rpartition("://")[2].rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=1).close()
        except OSError:
            return False
        return True

    def stop(self, run: str) -> None:
        """Tell the tasks of a run that ask `is_stopped` to stop. Dask itself does not stop a task that runs."""
        self._event(run).set()

    def forget(self, run: str) -> None:
        """Remove from the scheduler that a run was stopped."""
        self._event(run).clear()

    def _event(self, run: str) -> Any:
        import distributed

        return distributed.Event(run, client=self._client)

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        outer: Future[R] = Future()
        inner = self._client.submit(fn, *args, **kwargs, pure=False)  # Dask would hash pure calls and run them once.
        inner.add_done_callback(functools.partial(_settle, outer))
        outer.add_done_callback(lambda done: inner.cancel() if done.cancelled() else None)
        return outer


def is_stopped(run: str) -> bool:
    """Return, in a task on a cluster, whether its run is to stop. Asks the scheduler."""
    import distributed

    return bool(distributed.Event(run).is_set())


def _settle(outer: Future[R], inner: Any) -> None:
    """Pass the outcome of a task on the cluster to the future of the caller. Runs in a thread of the client."""
    if outer.cancelled():
        return
    try:
        result = inner.result()
    except BaseException as error:  # noqa: BLE001 - The future carries the error, as in every executor.
        outer.set_exception(error)
    else:
        outer.set_result(result)


@contextlib.contextmanager
def connected(address: str, jobs: int) -> Iterator[ClusterExecutor]:
    """Yield an executor on the cluster at `address`; if it is "", on a new cluster of `jobs` processes."""
    try:
        import distributed
    except ImportError as error:
        raise MissingDependencyError("distributed", "--executor dask") from error
    with contextlib.ExitStack() as stack:
        client = _client(distributed, address) if address else _own(distributed, jobs, stack)
        yield ClusterExecutor(stack.enter_context(client), jobs)


def _own(distributed: Any, jobs: int, stack: contextlib.ExitStack) -> Any:
    """Return a client of a new cluster on this machine, which ends with `stack`.

    Other users of the machine can reach its ports, and a client could run code as the caller. So all connections are
    encrypted with a key that exists only in memory, and the HTTP servers have no routes. The files of the scheduler and
    the workers are in a private directory. Dask's default is a fixed name below $TMPDIR: another user may have made it,
    with links that Dask follows, and Dask adds it to `sys.path`.
    """
    import dask

    try:
        secret = distributed.Security.temporary()
    except ImportError as error:
        raise MissingDependencyError("cryptography", "--executor dask") from error
    scratch = str(stack.enter_context(Scratch()))
    stack.enter_context(isolated())  # Dask may restart a lost worker at any time.
    settings: dict[str, object] = {
        "temporary-directory": scratch,  # The scheduler has no parameter `local_directory`.
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
        # The default would stay set in this process, and stop its allocator from keeping freed memory.
        "distributed.nanny.pre-spawn-environ": {},
    }
    stack.enter_context(dask.config.set(settings))
    options = {
        "n_workers": jobs,
        "threads_per_worker": 1,
        "processes": True,
        "memory_limit": 0,
        "security": secret,
        "silence_logs": logging.CRITICAL,
        "local_directory": scratch,
        "preload": __name__,
        "dashboard_address": None,
        "scheduler_kwargs": {"dashboard": False, "dashboard_address": "127.0.0.1:0"},
    }
    # The thread blocks signals, so the processes that it starts do too. The wait for it here can be interrupted.
    starter = stack.enter_context(ThreadPoolExecutor(1, initializer=_spare))
    starting = starter.submit(distributed.LocalCluster, **options)
    stack.callback(_close, starting)
    return distributed.Client(starting.result(), security=secret, set_as_default=False)


def _spare() -> None:
    """Block signals in this thread, so that other threads get them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)


def _close(starting: Future[Any]) -> None:
    with contextlib.suppress(Exception):  # The caller that started the cluster gets the error.
        starting.result().close()


def dask_setup(worker: object) -> None:  # noqa: ARG001 - Dask calls it with this name.
    """Run in a worker process on this machine: accept SIGTERM, by which its nanny ends it."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))


def _client(distributed: Any, address: str) -> Any:
    if not _ADDRESS.fullmatch(address):
        raise OptionError(f"--executor dask: {printable(address)!r} is not an address. Use tcp://HOST:PORT")
    for name in ("distributed", "distributed.client", "distributed.core"):  # tokfmt reports a lost connection itself.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except OSError as error:
        raise ConversionError(f"--executor dask: no scheduler answers at {printable(address)}") from error
    found: dict[str, object] = client.run(_version, on_error="return")
    for worker, version in found.items():
        if version != _version():
            client.close()
            raise ConversionError(
                f"--executor dask: the worker {worker} does not have tokfmt {_version()} (found: "
                f"{printable(version)}). Install the same version there"
            )
    return client


def _version() -> str:
    try:
        return metadata.version("tokfmt")
    except metadata.PackageNotFoundError:
        return "that is installed"


def lost_workers(error: Exception) -> bool:
    """Return whether an error comes from the cluster: the workers of a task died repeatedly, or the scheduler did."""
    return isinstance(error, CancelledError) or type(error).__module__.partition(".")[0] == "distributed"
