"""A Dask cluster as an executor: one that is there, or one of this machine that comes and goes with the conversion.

    dask                        worker processes of this machine
    dask:tcp://10.0.0.5:8786    the scheduler of a cluster (Slurm, Kubernetes ...)

Workers need tokfmt of the same version, and the sources and the destination under the same paths: large arrays travel
as files in the hidden sibling of the destination. Dask runs the tasks of a worker that is lost on another one. Small
pickles travel between our own processes only; whoever can reach a Dask scheduler can run code on its workers, so a
cluster belongs on a network that is trusted.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import signal
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from importlib import metadata
from typing import Any, TypeVar

from tokfmt.core.errors import ConversionError, MissingDependencyError, OptionError, printable

R = TypeVar("R")

_ADDRESS = re.compile(r"((tcp|tls|ucx|ws|wss)://)?[^\s/]+:\d+")
_PATIENCE = 15  # seconds until a scheduler has to answer


def is_cluster(name: str) -> bool:
    """Whether an executor's name means Dask."""
    return name == "dask" or name.startswith("dask:")


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


def slots(executor: Executor, jobs: int) -> int:
    """How many tasks an executor runs at once: a cluster has its own number, others have `jobs`."""
    return executor.slots if isinstance(executor, ClusterExecutor) else jobs


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
        if not address:
            scratch = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="tokfmt-dask-", ignore_cleanup_errors=True)
            )
            cluster = distributed.LocalCluster(
                n_workers=jobs, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0,
                silence_logs=logging.CRITICAL, local_directory=scratch, preload=__name__,
            )  # fmt: skip
            client = distributed.Client(stack.enter_context(cluster), set_as_default=False)
        else:
            client = _client(distributed, address)
        yield ClusterExecutor(stack.enter_context(client), jobs)


def dask_setup(worker: object) -> None:  # noqa: ARG001 - Dask calls it so
    """In a worker process of this machine: the parent decides about Ctrl-C, as for other worker processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


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
