"""The state of the tasks of a destination: done, running, or missing."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tokfmt import registry
from tokfmt.commands.convert.parts import listed, part_of
from tokfmt.commands.convert.resume import is_complete, is_ended, read_conversion
from tokfmt.commands.convert.tasks_in_stores import begun_of, content_of, record_of, request_in
from tokfmt.commands.source.manifest import manifest_path
from tokfmt.errors import ConversionError
from tokfmt.files.claims import claim_at, claim_url
from tokfmt.files.journal import Task, entries_of
from tokfmt.files.locks import holder, release, take_lock
from tokfmt.files.place import PlaceLike, Url, destination_of, local_path, writable_store
from tokfmt.files.publisher import REQUEST, hidden_sibling
from tokfmt.files.replacing import resolve_link
from tokfmt.files.spool import records_of
from tokfmt.wording import printable

State = Literal["done", "running", "missing"]


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """The state of a task.

    Attributes:
        index: Its number, from 0.
        state: A task that was killed is running, until it runs again.
        owner: Who runs it, and since when: `process 4711 on node7, since 2026-11-25 12:03 UTC`.
    """

    index: int
    state: State
    owner: str = ""


def status_of_tasks(destination: PlaceLike) -> Sequence[TaskStatus]:
    """Return the state of each task of a destination.

    Raises:
        ConversionError: If no task has begun.
    """
    place = destination_of(destination)
    places = [place, *(one.canonical(place) for one in registry.list_formats() if one.prefix)]
    for one in dict.fromkeys(places):
        found = _in_store(one) if isinstance(one, Url) else _local(local_path(one, "a destination"))
        if found:
            return found
    raise ConversionError(f"{printable(place)}: it has no tasks. Write them first with --task I/N")


def _in_store(url: Url) -> list[TaskStatus]:
    store, records = writable_store(url), listed(writable_store(url), records_of(url))
    if record_of(url).name not in records:
        return []
    record = request_in(record_of(url))
    tasks = [Task(k, _count(record)) for k in range(_count(record))]
    claims: list[Url] = [begun_of(url, task) for task in tasks]
    if "parts" in record:
        there, format_ = listed(store, url), registry.get(str(record["parts"]["format"]))
        parts = [part_of(url, format_, task) for task in tasks]
        claims = [claim_url(part) for part in parts]
        done = [manifest_path(part).name in there for part in parts]
    else:
        there, journals = records, [records_of(url) / task.journal for task in tasks]
        done = [one.name in there and is_ended(entries_of(content_of(one))[0]) for one in journals]
    found = list[TaskStatus]()
    for task, claim, is_done in zip(tasks, claims, done, strict=True):
        claimed = claim_at(store, claim) if not is_done and claim.name in there else None
        state: State = "done" if is_done else "missing" if claimed is None else "running"
        found.append(TaskStatus(task.index, state, "" if claimed is None else claimed.owner()))
    return found


def _local(path: Path) -> list[TaskStatus]:
    home = hidden_sibling(resolve_link(path))
    record = read_conversion(home / REQUEST)
    if record is None or not _count(record):
        return []
    found = list[TaskStatus]()
    for task in [Task(k, _count(record)) for k in range(_count(record))]:
        place = home / f"lock-of-{task.journal}"
        is_begun, is_done = place.exists(), is_complete(home, task)
        lock = take_lock(place, existing=True) if is_begun and not is_done else -1
        if lock >= 0:
            release(lock)
        is_running = is_begun and not is_done and lock < 0
        since = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(place.stat().st_mtime)) if is_running else ""
        owner = f"{holder(place)}, since {since}" if is_running else ""
        found.append(TaskStatus(task.index, "done" if is_done else "running" if is_running else "missing", owner))
    return found


def _count(record: Mapping[str, Any]) -> int:
    return int(record["facts"].get("the number of tasks") or 0)
