"""A Dask cluster as an executor: one that is there, or one of this machine that comes and goes with the conversion.

    dask                        worker processes of this machine, encrypted
    dask:tcp://10.0.0.5:8786    the scheduler of a cluster (Slurm, Kubernetes ...)
    dask:tls://10.0.0.5:8786    the same, with the certificates that Dask's configuration names

Workers need tokfmt of the same version, and the sources and the destination under the same paths: large arrays travel
as files in the hidden sibling of the destination. Dask runs the tasks of a worker that is lost on another one. Small
pickles travel between our own processes only. Whoever can reach a scheduler at tcp:// can run code on its workers and,
by what they answer, here: such a cluster belongs on a network that is trusted. With tls:// that is who has the keys
(https://distributed.dask.org/en/stable/tls.html, `DASK_DISTRIBUTED__COMM__TLS__...`).
"""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import signal
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from importlib import metadata
from typing import Any, TypeVar

from tokfmt.core.errors import ConversionError, MissingDependencyError, OptionError, printable
from tokfmt.run.isolation import ENDING, isolated

R = TypeVar("R")

_ADDRESS = re.compile(r"((tcp|tls|ucx|ws|wss)://)?[^\s/]+:\d+")
_PATIENCE = 15  # seconds until a scheduler has to answer


class ClusterExecutor(Executor):
    """Runs tasks on the workers of a Dask client.

    Not `Client.get_executor()`: it looks at a task's state after it has the result, and when a worker is lost in
    between it takes the result for an error (distributed 2026.11). Here `result()` waits until the task has run again.

    Attributes:
        slots: Tasks that the cluster runs at once.
    """

    def __init__(self, client: Any, jobs: int) -> None:
        self._client = client
        self.slots = sum(client.ncores().values()) or jobs

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
        raise MissingDependencyError("distributed", "dask", "--executor dask") from error
    with contextlib.ExitStack() as stack:
        client = _client(distributed, address) if address else _own(distributed, jobs, stack)
        yield ClusterExecutor(stack.enter_context(client), jobs)


def _own(distributed: Any, jobs: int, stack: contextlib.ExitStack) -> Any:
    """A client of a cluster of this machine, which ends with `stack`.

    Everybody on the machine can reach its ports, and who is let in can run code as whoever converts: all connections
    are encrypted, and made only by who has the key, which lies in memory. What listens to HTTP knows no page.
    """
    import dask

    try:
        secret = distributed.Security.temporary()
    except ImportError as error:
        raise MissingDependencyError("cryptography", "dask", "--executor dask") from error
    scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="tokfmt-dask-", ignore_cleanup_errors=True))
    stack.enter_context(isolated())  # a worker that is lost is started again at any time
    settings: dict[str, object] = {
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
        raise OptionError(f"--executor dask: {printable(address)!r} is no address; write tcp://HOST:PORT")
    try:
        client = distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
    except OSError as error:
        raise ConversionError(f"--executor dask: no scheduler answers at {printable(address)}") from error
    found: dict[str, object] = client.run(_version, on_error="return")
    for worker, version in found.items():
        if version != _version():
            client.close()
            raise ConversionError(
                f"--executor dask: the worker {worker} has no tokfmt {_version()} (found: {printable(version)}). "
                "Install the same there"
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
