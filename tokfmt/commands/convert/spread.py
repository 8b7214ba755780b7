"""Run a conversion as tasks on the workers of a cluster, which share only the store of the destination.

A run on a cluster without a named spool is that of `--task I/N` for all I, and then of `--finish`:

1. This process claims the destination, for all tasks.
2. Each task runs on a worker, with a spool and with credentials of its own. It uploads what it built, and its journal.
   If a worker is lost, Dask runs its task again on another one.
3. This process publishes.

If the run fails, all tasks stop, and what they uploaded is deleted. With --resume it is kept, and the next run repeats
only the tasks that are not complete.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokfmt.commands.convert.destination import Destination
from tokfmt.commands.convert.inputs import Inputs
from tokfmt.commands.convert.request import Conversion, Notes, Request
from tokfmt.commands.convert.resume import facts_of, read_conversion
from tokfmt.commands.convert.tasks import (
    count_of_parts,
    fetch,
    is_complete,
    refuse_others,
    remove,
    send,
    withdraw_parts,
)
from tokfmt.errors import DestinationExistsError, TokfmtError
from tokfmt.files.claims import Claim
from tokfmt.files.journal import Task, read_journal
from tokfmt.files.locks import Scratch
from tokfmt.files.place import Url, close_stores, writable_store
from tokfmt.files.spool import run_of_tasks
from tokfmt.files.store import Identity
from tokfmt.files.store_publisher import OBJECT
from tokfmt.run.execute import ClusterExecutor, connected, counted, is_stopped, naming_worker, outage_of, received
from tokfmt.run.progress import Progress
from tokfmt.source.stored import axes_of
from tokfmt.stores import clients, options
from tokfmt.wording import printable

_PER_WORKER = 2  # Tasks: a worker that is twice as fast then gets more of them.
_PATIENCE = 60  # Seconds to wait for tasks that stop. Each asks after each region.
_PASSED_ON = (options.ENVIRONMENT, clients.RETRY_TIMEOUT)
"""Variables that hold for the workers too. They hold no secret, and no path of this machine."""
_ALONE = threading.Lock()  # Threads of a worker share its environment and its stores.


@dataclass(frozen=True, slots=True)
class _Order:
    """The facts that a worker needs to run a task."""

    request: Request
    url: Url
    count: int
    run: str  # random name of the run
    convert_files: Callable[[Request, Progress], Conversion]  # runs a conversion
    environment: Mapping[str, str]  # variables of the process that the user started


def spread(
    url: Url,
    request: Request,
    inputs: Inputs,
    destination: Destination,
    notes: Notes,
    convert_files: Callable[[Request, Progress], Conversion],
    finish: Callable[..., Conversion],
    *,
    in_parts: bool,
) -> Conversion:
    """Run all tasks of a conversion on a cluster, publish the destination, and return the result. With `in_parts`,
    tasks tokenize text into files of their own. If a task fails, what the tasks uploaded is deleted, or kept if the
    request says so.
    """
    resume = request.resume
    request = replace(request, resume=False, destination=url)
    with connected(request.executor.partition(":")[2], request.jobs) as executor, Scratch() as home:
        claim = Claim(writable_store(url), url, run_of_tasks(url), destination.format.name)
        claim.take(overwrite=False, note=notes.note, alone=not resume)
        if in_parts:
            count = count_of_parts(url) if resume else 0
            count = count or max(1, _PER_WORKER * len(executor.workers))
            left: Sequence[int] = range(count)
        else:
            count, left = _plan(url, request, inputs, destination, executor, claim, home / "before", resume=resume)
        try:
            environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
            order = _Order(request, url, count, f"tokfmt-{os.urandom(8).hex()}", convert_files, environment)
            notes.phase("writing", count, "tasks")
            notes.advance(count - len(left))
            _run(order, left, executor, notes)
            if in_parts:
                done = finish(url)
                claim.release()
                return done
            return finish(
                url,
                jobs=request.jobs,
                executor="auto",
                manifest=request.manifest,
                spool=home,
                progress=notes,
            )
        except BaseException as error:
            error.__dict__.pop("__notes__", None)  # They name directories that are removed.
            if resume:
                error.add_note("The complete tasks are kept in the store: run again with --resume to continue")
            else:
                _withdraw(url, count, claim, home / "after", notes, in_parts=in_parts)
            raise


def _plan(
    url: Url,
    request: Request,
    inputs: Inputs,
    destination: Destination,
    executor: ClusterExecutor,
    claim: Claim,
    home: Path,
    *,
    resume: bool,
) -> tuple[int, Sequence[int]]:
    """Return the number of tasks, and the tasks that no earlier run completed."""
    if resume:
        fetch(url, home)
    recorded = read_conversion(home / "conversion.json")
    if recorded is None:
        if url.is_there():
            claim.release()
            raise DestinationExistsError(url)
        tokens = sum(axis.info.tokens for axis in axes_of(inputs.read))
        count = max(1, min(_PER_WORKER * len(executor.workers), -(-tokens // request.region)))
        return count, range(count)
    count = int(recorded["facts"]["the number of tasks"])
    facts = facts_of(replace(request, task=Task(0, count)), destination.facts(inputs), inputs.before)
    refuse_others(url, facts, recorded["facts"])
    return count, [k for k in range(count) if not is_complete(home, Task(k, count))]


def _run(order: _Order, left: Sequence[int], executor: ClusterExecutor, notes: Notes) -> None:
    """Run tasks. If one fails, or this process is interrupted, stop the others and wait for their end."""
    ended = queue.SimpleQueue[Future[Any]]()  # As in `run_tasks`, whose futures end before their tasks do.
    futures = list[Future[Any]]()
    try:
        for k in left:
            workers = [executor.workers[k % len(executor.workers)]] if executor.workers else None
            futures.append(executor.submit(_task, order, k, workers=workers, allow_other_workers=bool(workers)))
            futures[-1].add_done_callback(ended.put)
        for _ in left:
            received(ended.get().result())
            notes.advance(1)
    except BaseException as error:
        with contextlib.suppress(Exception):  # The scheduler may be lost.
            executor.stop(order.run)
            wait(futures, _PATIENCE)
            executor.forget(order.run)
        if isinstance(error, Exception) and (outage := outage_of(error, executor)) is not None:
            raise outage from error
        raise


class _Stopping(Progress):
    """End a task between two regions if its run has failed."""

    def __init__(self, run: str) -> None:
        self._run = run

    def advance(self, amount: int) -> None:  # noqa: ARG002
        """Raise CancelledError if the run does not go on."""
        if is_stopped(self._run):
            raise CancelledError


def _task(order: _Order, index: int) -> Any:
    """Run one task in a worker. Its journal is uploaded even if it fails, because it lists what was uploaded."""
    task = Task(index, order.count)
    progress = _Stopping(order.run)
    with _alone(order.environment), Scratch() as home, naming_worker():
        progress.advance(0)
        try:
            order.convert_files(replace(order.request, task=task, spool=home, executor="threads"), progress)
        except BaseException:
            for journal in home.rglob(task.journal):
                with contextlib.suppress(TokfmtError, OSError):
                    send(order.url, journal)
            raise
    return counted(None)


@contextlib.contextmanager
def _alone(environment: Mapping[str, str]) -> Iterator[None]:
    """Wait for other tasks of this process, and set variables for the time of this one."""
    with _ALONE:
        own = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)
        close_stores()
        try:
            yield
        finally:
            for name, value in own.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
            close_stores()


def _withdraw(url: Url, count: int, claim: Claim, home: Path, notes: Notes, *, in_parts: bool) -> None:
    """Delete what the tasks of a failed run have uploaded, if it is still theirs, their records and their claim."""
    store = writable_store(url)
    try:
        if in_parts:
            withdraw_parts(url, count)
            claim.release()
            return
        fetch(url, home)
        entries = [one for k in range(count) for one in read_journal(home / Task(k, count).journal)[0]]
        uploaded = {facts[0]: Identity(*facts[1:3]) for kind, _, facts in entries if kind == OBJECT}
        store.delete([key for key, one in uploaded.items() if store.identity(key) == one])
        remove(url, count)
        claim.release()
    except (TokfmtError, OSError) as error:
        notes.note(f"{printable(url)}: not cleaned up: {error}")
