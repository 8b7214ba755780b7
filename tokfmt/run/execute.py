"""Carry out tasks on an executor: serial, threads, processes or a Dask cluster, one code path.

`executor` is a `concurrent.futures.Executor`, nothing else. A task is `function(shared, item)`; `shared` (readers and
writers) travels once a worker process, `item` (a region) with each task. Results come as they finish; at most twice as
many tasks are under way as there are workers, so memory does not grow with the number of tasks.

Pickle carries plans between our own processes, never anything from a file of a user's. What is large (offsets of
millions of sequences, thousands of readers) is written once to a file in scratch, which the workers map, sharing one
copy in the page cache; a task carries its name, and the digest of the pickle in it: nothing else is unpickled.

    dask                        worker processes of this machine, encrypted
    dask:tcp://10.0.0.5:8786    the scheduler of a cluster (Slurm, Kubernetes ...)
    dask:tls://10.0.0.5:8786    the same, with the certificates that Dask's configuration names

A cluster's workers need tokfmt of the same version, and the sources and the destination under the same paths: large
arrays travel as files in the hidden sibling of the destination. Dask runs the tasks of a worker that is lost on another
one. Small pickles travel between our own processes only. Whoever can reach a scheduler at tcp:// can run code on its
workers and, by what they answer, here: such a cluster belongs on a network that is trusted. With tls:// that is who has
the keys (https://distributed.dask.org/en/stable/tls.html, `DASK_DISTRIBUTED__COMM__TLS__...`).
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
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from tokfmt.core.errors import (
    ConversionError,
    FormatError,
    MissingDependencyError,
    OptionError,
    OutageError,
    SourceChangedError,
    UnsafeError,
)
from tokfmt.core.locks import Scratch
from tokfmt.core.messages import Option
from tokfmt.core.options import nearest
from tokfmt.core.resources import cpus
from tokfmt.core.text_format import printable
from tokfmt.run.isolation import ENDING, isolated, undelivered, without_main

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


class Threads(ThreadPoolExecutor):
    """Threads of this process, started whole: one that a signal interrupts half started would go on alone."""

    def __init__(self, jobs: int) -> None:
        super().__init__(jobs, thread_name_prefix="tokfmt")

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        """Run a call in a thread, which may have to be started first."""
        with undelivered():
            return super().submit(fn, *args, **kwargs)


def _processes(jobs: int) -> Executor:
    """Worker processes that import nothing from the current directory, run no script, leave signals to their parent."""
    import multiprocessing  # with its sockets and semaphores a tenth of what a small conversion takes
    from concurrent.futures import ProcessPoolExecutor

    class IsolatedProcesses(ProcessPoolExecutor):
        def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
            """Run a call in a worker, which may have to be started first."""
            with isolated(), undelivered(), without_main():
                return super().submit(fn, *args, **kwargs)

    # spawn, never fork: the threads of codecs do not survive a fork
    context = multiprocessing.get_context("spawn")
    with isolated(), undelivered():  # the process that tracks semaphores starts here
        pool = IsolatedProcesses(jobs, mp_context=context, initializer=_end_with, initargs=(os.getpid(),))
    pool.submit(os.getpid)  # workers begin now, while this process plans what they are to do
    return pool


def worker_count(jobs: int | None) -> int:
    """How many workers somebody means who says so many, or nothing: one a core."""
    return max(1, jobs or cpus())


def is_cluster(name: str) -> bool:
    """Whether an executor's name means Dask."""
    return name == "dask" or name.startswith("dask:")


def slots(executor: Executor, jobs: int) -> int:
    """How many tasks an executor runs at once: a cluster has its own number, others have `jobs`."""
    return executor.slots if isinstance(executor, ClusterExecutor) else jobs


def make_executor(name: str, jobs: int) -> AbstractContextManager[Executor]:
    """An executor by name.

    Args:
        name: "serial", "threads", "processes", "dask" or "dask:ADDRESS" (see the head of this module).
        jobs: Workers; at least 1. One thread is this one.

    Raises:
        OptionError: No executor of that name.
    """
    if is_cluster(name):
        return connected(name.partition(":")[2], jobs)
    if name not in EXECUTORS:
        raise OptionError(f"no executor {name!r}: {', '.join(EXECUTORS)}", name=name, nearest=nearest(name, EXECUTORS))
    if name == "processes":
        return _processes(jobs)
    return Threads(jobs) if name == "threads" and jobs > 1 else SerialExecutor()


def may_spawn(shared: object) -> bool:
    """Whether worker processes can do what needs `shared` as well as threads can, and run nobody's script for it.

    Not if it is of a class that the script itself defines, or cannot travel; nor in a worker of another pool, which has
    its share of the cores, and may be forbidden to have children.
    """
    from multiprocessing import parent_process

    try:
        return parent_process() is None and not _names_main(_pickled(shared)[0])
    except (pickle.PicklingError, TypeError, AttributeError):  # what pickle raises, and objects that refuse it
        return False


def run_tasks(
    function: Callable[[S, I], R], shared: S, items: Iterable[I], executor: Executor, jobs: int, scratch: Path
) -> Iterator[R]:
    """Yield `function(shared, item)` for every item, in the order of completion.

    Args:
        function: Of a module that is not the main one, so that it can be named in another process.
        shared: Readers and writers; picklable.
        items: Picklable, small.
        executor: Where to run.
        jobs: Its number of workers.
        scratch: An existing directory for large arrays on their way to worker processes.

    Raises:
        The error of the first item that has one, after the tasks not yet begun were cancelled and those begun have
        ended: the same whatever the number of workers, since items are begun in order.
    """
    local = isinstance(executor, (SerialExecutor, ThreadPoolExecutor))
    ahead = 1 if isinstance(executor, SerialExecutor) else 2 * jobs
    call = (
        functools.partial(function, shared)
        if local
        else _Remote(function, SharedPayload.pack(shared, scratch), scratch)
    )
    pending: list[Future[R]] = []  # in order of items
    # not `wait(..., FIRST_COMPLETED)`: a signal in the middle of it leaves futures locked, and workers stuck on them
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
        if isinstance(executor, ClusterExecutor) and lost_workers(error) and not executor.answers():
            raise OutageError(
                f"{Option('executor', 'dask')}: the scheduler at {printable(executor.address)} does not answer "
                "any more. Start a cluster, and run again"
            ) from error
        if isinstance(error, BrokenExecutor) or lost_workers(error):
            raise OutageError(
                "a worker process ended abruptly: killed, or out of memory. If memory is short, run with fewer "
                f"{Option('jobs')}"
            ) from error
        raise
    finally:
        wait([future for future in pending if not future.cancel()])


def _finished(pending: list[Future[R]], queued: queue.SimpleQueue[Future[R]]) -> Iterator[R]:
    """Results of tasks that have ended, at least one; they are no longer pending then."""
    done, failed = {queued.get()}, None
    while not queued.empty():
        done.add(queued.get())
    if any(future.exception() is not None for future in done):
        begun = [future for future in pending if not future.cancel()]
        done = wait(begun).done
        failed = next(filter(None, (future.exception() for future in begun)))
    ended = [future for future in pending if future in done]
    pending[:] = [future for future in pending if future not in done]
    yield from (future.result() for future in ended if future.exception() is None)
    if failed is not None:
        raise failed


class _Remote:
    """What is sent to a worker process with each task: a name, a small parcel, the shared directory, an item."""

    def __init__(self, function: Callable[[Any, Any], Any], parcel: SharedPayload, shared: Path) -> None:
        self.function, self.parcel, self.shared = function, parcel, shared

    def __call__(self, item: object) -> Any:
        worker = _cluster_worker()
        if not worker:
            return self.function(receive(self.parcel), item)
        if not self.shared.is_dir():
            visible = (parent for parent in self.shared.parents if not parent.name.startswith("."))
            raise _unseen(next(visible), worker, "sees another directory there, or none")
        try:
            return self.function(receive(self.parcel), item)
        except SourceChangedError as error:
            error.advise(f"The worker {worker} found it so: every worker needs the same file, not a copy of it")
            raise
        except FormatError as error:
            if os.path.lexists(error.path):
                raise
            raise _unseen(error.path, worker, "sees no such file") from error


def _cluster_worker() -> str:
    """The address of the Dask worker that this task runs on; "" elsewhere."""
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
    """In a worker process: end when the parent is gone, however it went (SIGKILL leaves no other sign)."""

    def watch() -> None:
        while os.getppid() == parent:
            stop.wait(1)
        os._exit(1)

    for pool in POOLS:  # the processes are the jobs
        os.environ[pool] = "1"
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))  # how a pool ends its workers when one has died
    stop = threading.Event()
    threading.Thread(target=watch, daemon=True).start()


_INLINE = 1 << 16
_ALIGNED = 64
_KEPT = 2
_received: OrderedDict[str, Any] = OrderedDict()
_receiving = threading.Lock()


@dataclass(frozen=True, slots=True)
class SharedPayload:
    """An object on its way: its pickle and then its large buffers, inline or as a file in scratch.

    Attributes:
        digest: SHA-256 of the pickle.
        main: How `multiprocessing` finds the main module, if the pickle names something of it.
    """

    key: str
    parts: tuple[bytes, ...] | Path
    digest: bytes
    main: Mapping[str, str]

    @staticmethod
    def pack(thing: object, scratch: Path) -> SharedPayload:
        """Pickle `thing` once, for any number of tasks."""
        from hashlib import sha256  # here, as it loads OpenSSL, which the most runs have no need of

        key, (pickled, out_of_band) = os.urandom(16).hex(), _pickled(thing)
        digest, main = sha256(pickled).digest(), _main_module() if _names_main(pickled) else {}
        parts = [memoryview(pickled), *(buffer.raw() for buffer in out_of_band)]
        if sum(part.nbytes for part in parts) <= _INLINE:
            return SharedPayload(key, tuple(bytes(part) for part in parts), digest, main)
        path = scratch / f"{key}.parcel"
        _store(parts, path)
        return SharedPayload(key, path, digest, main)


def receive(parcel: SharedPayload) -> Any:
    """The object, unpacked once a process and kept for the next tasks."""
    with _receiving:  # workers of a cluster have threads
        if parcel.key not in _received:
            from hashlib import sha256

            pickled, *buffers = parcel.parts if isinstance(parcel.parts, tuple) else _mapped(parcel.parts)
            ours = bytes(pickled)  # a copy, which nobody changes after it was looked at
            if sha256(ours).digest() != parcel.digest:
                raise UnsafeError(str(parcel.parts), "is not what was written there", remedy="Others may write here")
            if parcel.main:
                from multiprocessing import spawn

                spawn.prepare(dict(parcel.main))
            _received[parcel.key] = pickle.loads(ours, buffers=buffers)
            while len(_received) > _KEPT:
                _received.popitem(last=False)
        return _received[parcel.key]


def _pickled(thing: object) -> tuple[bytes, list[pickle.PickleBuffer]]:
    out_of_band: list[pickle.PickleBuffer] = []
    return pickle.dumps(thing, protocol=5, buffer_callback=out_of_band.append), out_of_band


def _names_main(pickled: bytes) -> bool:
    """Whether a pickle names a class or function of the main module; that word as a string of its own is data.

    Before STACK_GLOBAL, protocol 5 pushes the module and the name. A string that occurred before comes from the memo.
    """
    if b"__main__" not in pickled:
        return False
    import pickletools

    pushed, memo = deque[Any](["", ""], maxlen=2), list[Any]()
    for opcode, argument, _ in pickletools.genops(pickled):
        if opcode.name == "STACK_GLOBAL" and pushed[0] == "__main__":
            return True
        if opcode.name == "MEMOIZE":
            memo.append(pushed[-1])
        elif opcode.name in ("BINGET", "LONG_BINGET"):
            pushed.append(memo[int(argument or 0)])
        elif opcode.name != "FRAME":
            pushed.append(argument)
    return False


def _main_module() -> dict[str, str]:
    from multiprocessing import spawn

    return {key: value for key, value in spawn.get_preparation_data("").items() if key.startswith("init_main_")}


def _store(parts: Sequence[memoryview], path: Path) -> None:
    """One file: how many parts, where each begins and how long it is (u64 each), and the parts."""
    lengths = np.array([part.nbytes for part in parts], np.uint64)
    taken = np.concatenate(([8 + 16 * len(parts)], lengths)) + (_ALIGNED - 1)
    begins = np.cumsum(taken.astype(np.int64) // _ALIGNED * _ALIGNED)[:-1]
    with open(path, "xb") as file:
        file.write(np.array([len(parts), *np.column_stack((begins, lengths)).ravel()], np.uint64).tobytes())
        for begin, part in zip(begins.tolist(), parts, strict=True):
            file.seek(begin)
            file.write(part)


def _mapped(path: Path) -> list[memoryview]:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        held = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    count = int.from_bytes(held[:8], "little")
    spans = np.frombuffer(held, np.uint64, 2 * count, 8).reshape(-1, 2).tolist()
    return [held[begin : begin + length] for begin, length in spans]


# how far a command is, told to whoever wants to draw it: the command line draws, the library is silent


class Progress(Protocol):
    """Phases come one after the other; `advance` counts units of the current one."""

    def phase(self, name: str, total: int, unit: str) -> None:
        """A new phase: what is done ("writing"), how much of it, in which unit ("tokens", "bytes")."""

    def advance(self, amount: int) -> None:
        """So much more is done."""

    def note(self, text: str) -> None:
        """Something a person should know: an inferred fact, a defect that changes no token."""


class NullProgress:
    """Nobody is watching."""

    def phase(self, name: str, total: int, unit: str) -> None:
        """Say nothing."""

    def advance(self, amount: int) -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Say nothing."""


# a Dask cluster as an executor: one that is there, or one of this machine that comes and goes with the conversion

_ADDRESS = re.compile(r"((tcp|tls|ucx|ws|wss)://)?[^\s/]+:\d+")
_PATIENCE = 15  # seconds until a scheduler has to answer


class ClusterExecutor(Executor):
    """Runs tasks on the workers of a Dask client.

    Not `Client.get_executor()`: it looks at a task's state after it has the result, and when a worker is lost in
    between it takes the result for an error (distributed 2026.11). Here `result()` waits until the task has run again.

    Attributes:
        slots: Tasks that the cluster runs at once.
        address: Of its scheduler.
    """

    def __init__(self, client: Any, jobs: int) -> None:
        self._client = client
        self.address: str = client.scheduler.address
        self.slots = sum(client.ncores().values()) or jobs

    def answers(self) -> bool:
        """Whether the scheduler is there; takes at most a second."""
        host, _, port = self.address.rpartition("://")[2].rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=1).close()
        except OSError:
            return False
        return True

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        outer: Future[R] = Future()
        inner = self._client.submit(fn, *args, **kwargs, pure=False)  # pure ones would be hashed, and run once only
        inner.add_done_callback(functools.partial(_settle, outer))
        outer.add_done_callback(lambda done: inner.cancel() if done.cancelled() else None)
        return outer


def _settle(outer: Future[R], inner: Any) -> None:
    """Hand the outcome of a task on the cluster to who waits for it. Runs in a thread of the client."""
    if outer.cancelled():
        return
    try:
        result = inner.result()
    except BaseException as error:  # noqa: BLE001 - the future carries it, as in every executor
        outer.set_exception(error)
    else:
        outer.set_result(result)


@contextlib.contextmanager
def connected(address: str, jobs: int) -> Iterator[ClusterExecutor]:
    """An executor on the cluster at `address`, or on one of `jobs` processes when there is none.

    Raises:
        MissingDependencyError: The package `distributed` is not installed.
        ConversionError: No scheduler answers, or its workers have another tokfmt.
        OptionError: The address is none.
    """
    try:
        import distributed
    except ImportError as error:
        raise MissingDependencyError("distributed", "dask", f"{Option('executor', 'dask')}") from error
    with contextlib.ExitStack() as stack:
        client = _client(distributed, address) if address else _own(distributed, jobs, stack)
        yield ClusterExecutor(stack.enter_context(client), jobs)


def _own(distributed: Any, jobs: int, stack: contextlib.ExitStack) -> Any:
    """A client of a cluster of this machine, which ends with `stack`.

    Everybody on the machine can reach its ports, and who is let in can run code as whoever converts: all connections
    are encrypted, and made only by who has the key, which lies in memory. What listens to HTTP knows no page. The files
    of the scheduler and of the workers lie in a private directory: Dask's default is a fixed name below $TMPDIR, which
    another user may have made, with links in it that Dask follows, and which Dask puts on `sys.path`.
    """
    import dask

    try:
        secret = distributed.Security.temporary()
    except ImportError as error:
        raise MissingDependencyError("cryptography", "dask", f"{Option('executor', 'dask')}") from error
    scratch = str(stack.enter_context(Scratch()))
    stack.enter_context(isolated())  # a worker that is lost is started again at any time
    settings: dict[str, object] = {
        "temporary-directory": scratch,  # the scheduler takes no `local_directory`
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
        "distributed.nanny.pre-spawn-environ": {},  # it would stay set in this process: an allocator that keeps nothing
    }
    stack.enter_context(dask.config.set(settings))
    options = {
        "n_workers": jobs, "threads_per_worker": 1, "processes": True, "memory_limit": 0, "security": secret,
        "silence_logs": logging.CRITICAL, "local_directory": scratch, "preload": __name__,
        "dashboard_address": None, "scheduler_kwargs": {"dashboard": False, "dashboard_address": "127.0.0.1:0"},
    }  # fmt: skip
    # in a thread that signals do not reach: neither do they what it starts, and who waits for it here is free to stop
    starter = stack.enter_context(ThreadPoolExecutor(1, initializer=_spare))
    starting = starter.submit(distributed.LocalCluster, **options)
    stack.callback(_close, starting)
    return distributed.Client(starting.result(), security=secret, set_as_default=False)


def _spare() -> None:
    """In a thread: signals are for others."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)


def _close(starting: Future[Any]) -> None:
    with contextlib.suppress(Exception):  # who asked for the cluster has the error
        starting.result().close()


def dask_setup(worker: object) -> None:  # noqa: ARG001 - Dask calls it so
    """In a worker process of this machine: its nanny decides when it ends, by SIGTERM."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))


def _client(distributed: Any, address: str) -> Any:
    if not _ADDRESS.fullmatch(address):
        raise OptionError(f"{Option('executor', 'dask')}: {printable(address)!r} is no address; write tcp://HOST:PORT")
    for name in ("distributed", "distributed.client", "distributed.core"):  # a lost connection is one line of tokfmt's
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except OSError as error:
        raise ConversionError(f"{Option('executor', 'dask')}: no scheduler answers at {printable(address)}") from error
    found: dict[str, object] = client.run(_version, on_error="return")
    for worker, version in found.items():
        if version != _version():
            client.close()
            raise ConversionError(
                f"{Option('executor', 'dask')}: the worker {worker} has no tokfmt {_version()} (found: "
                f"{printable(version)}). Install the same there"
            )
    return client


def _version() -> str:
    try:
        return metadata.version("tokfmt")
    except metadata.PackageNotFoundError:
        return "that is installed"


def lost_workers(error: Exception) -> bool:
    """Whether an error is the cluster's: a task whose workers died again and again, a scheduler that is gone."""
    return isinstance(error, CancelledError) or type(error).__module__.partition(".")[0] == "distributed"
