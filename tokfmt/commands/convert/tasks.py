"""Tasks of a conversion (`--task I/N`): their records and their states, and their publication (`--finish`).

On one file system, tasks share the hidden directory of the destination: see `files.publisher` and `files.journal`. If
the destination is in a store, they share only the store, and their records are beside the destination:

    DST.tokfmt-tasks/conversion.json    the request that all tasks share; see `resume`
    DST.tokfmt-tasks/begun-3-of-8       the process that runs task 3 of 8, as a claim states it
    DST.tokfmt-tasks/journal-3-of-8     the journal of task 3 of 8, once the task has ended

Each task builds its files in a spool of its own, and uploads each as soon as it is complete. --finish copies the
records to its spool, where it finds them as if it had run the tasks. Formats whose files are complete only at the end
are refused. Tasks that tokenize text into a folder in a store write files of their own:

    DST/part-00003-of-00008.bin               the records of task 3 of 8: one file of the format, or a pair
    DST/part-00003-of-00008.bin.tokfmt.json   its receipt, until --finish: an ordinary manifest, which is uploaded last
    DST/part-00003-of-00008.bin.tokfmt-writing   its claim, while the task runs
    DST.tokfmt.json                           the manifest of the folder, which --finish writes

The records of all sources are cut into blocks in order, and each task has consecutive blocks. So the folder, whose
files are read in the order of their names, has the sequences in the order of the sources. A task is an ordinary
conversion. If it runs again, it takes over the claim of the run before, and a run that has lost its claim publishes
nothing. --finish compares the receipts with the objects that are there, and reads no token.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tokfmt import registry
from tokfmt.base.options import given_options
from tokfmt.base.version import __version__
from tokfmt.commands.convert.arrangement import AS_IT_IS
from tokfmt.commands.convert.destination import Destination
from tokfmt.commands.convert.inputs import Inputs
from tokfmt.commands.convert.report import with_objects
from tokfmt.commands.convert.request import Conversion, Request
from tokfmt.commands.convert.resume import SCHEMA, facts_of, here, read_conversion, unknown_request
from tokfmt.core.format import Format
from tokfmt.errors import ConversionError, CorruptError, DestinationExistsError, FormatError, TokfmtError
from tokfmt.files.claims import claim_at, claim_content, claim_url
from tokfmt.files.file import open_file, writing
from tokfmt.files.journal import Task, entries_of, read_journal
from tokfmt.files.locks import check_private, holder, make_private, release, take_lock
from tokfmt.files.place import Place, PlaceLike, Url, destination_of, local_path, place_of, writable_store
from tokfmt.files.publisher import REQUEST, Publisher, hidden_sibling, remove_leftover
from tokfmt.files.replacing import resolve_link
from tokfmt.files.spool import is_named, spool_of, task_records
from tokfmt.files.store import Identity, Store
from tokfmt.files.store_publisher import StorePublisher, identities_below
from tokfmt.source.content import Manifest
from tokfmt.source.manifest import Measured, combined, manifest_path, read_manifest
from tokfmt.source.request import SourceRequest
from tokfmt.source.stored import records_of
from tokfmt.wording import printable

_LARGEST = 1 << 30  # Bytes of a record.
SUFFIXES = {
    "parquet": ".parquet",
    "arrow": ".arrow",
    "megatron": ".bin",
    "datatrove": ".ds",
    "olmo": ".npy",
    "hdf5": ".h5",
    "jsonl": ".jsonl",
}
"""Formats of which a folder of files is one dataset, and the suffix of a file."""
_LISTED = 20  # Tasks that an error names.
_SUMS = ("separators", "leads")


# Records in a store


def record_of(destination: Url) -> Url:
    """Return the address of the request that all tasks of a destination share."""
    return task_records(destination) / REQUEST


@contextlib.contextmanager
def begun(out: Publisher, task: Task | None) -> Iterator[None]:
    """Compare the request of a task with that of the others, and state in the store that the task runs."""
    if not isinstance(out, StorePublisher) or task is None:
        yield
        return
    agree(out.url, (out.home / REQUEST).read_bytes(), conditional=out.claim.taken)
    place = begun_of(out.url, task)
    out.store.put(place.key, claim_content("", "", ""))
    try:
        yield
    except BaseException:
        with contextlib.suppress(TokfmtError):
            out.store.delete([place.key])
        raise


def begun_of(destination: Url, task: Task) -> Url:
    """Return the address of the record that states which process runs a task, and since when."""
    return task_records(destination) / f"begun-{task.index}-of-{task.count}"


def agree(destination: Url, ours: bytes, *, conditional: bool = True) -> None:
    """Record the request of the tasks, or compare it with that of the tasks before."""
    place, store = record_of(destination), writable_store(destination)
    with contextlib.suppress(FileExistsError):
        if conditional or store.identity(place.key) is None:
            store.put(place.key, ours, if_absent=conditional)
            return
    refuse_others(destination, json.loads(ours)["facts"], request_in(place)["facts"])


def request_in(place: Url) -> Mapping[str, Any]:
    """Return the request that the first task recorded."""
    try:
        record = json.loads(content_of(place))
    except ValueError:
        record = None
    if not isinstance(record, dict) or not isinstance(record.get("facts"), dict):
        remedy = f"Delete {printable(place.parent)}, and run all tasks again"
        raise CorruptError(place, "is not a record of tasks", remedy=remedy)
    return record


def refuse_others(destination: Url, ours: Mapping[str, object], theirs: Mapping[str, object]) -> None:
    """Refuse to continue the work of tasks of another request."""
    differs = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
    if differs:
        raise ConversionError(
            f"{printable(destination)}: tasks of another request have begun to write it (another "
            f"{printable(differs[0])}). Ask for the same; to start over, delete {printable(task_records(destination))}"
        )


def send(destination: Url, journal: Path) -> None:
    """Upload the journal of a task. It states whether the task is complete."""
    writable_store(destination).put((task_records(destination) / journal.name).key, journal)


def fetch(destination: Url, home: Path) -> None:
    """Copy the records of tasks to the hidden directory in which --finish looks for them, unless they are there."""
    store, records = writable_store(destination), task_records(destination)
    try:
        names = [entry.name for entry in store.entries(records.key)]
    except FileNotFoundError:
        return
    if REQUEST in names:
        request_in(records / REQUEST)
    with writing(home):
        for directory in (home.parent, home):
            make_private(directory, taken_over=True)
        (home / "lock").touch()
        for name in names:
            if not (home / name).exists() and (name == REQUEST or name.startswith("journal-")):
                fd = os.open(home / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
                with open(fd, "wb") as file:
                    file.write(content_of(records / name))


def remove(destination: Url, count: int) -> None:
    """Delete the records of all tasks of a destination."""
    records, tasks = task_records(destination), [Task(k, count) for k in range(count)]
    places = [
        records / REQUEST,
        *(records / task.journal for task in tasks),
        *(begun_of(destination, k) for k in tasks),
    ]
    writable_store(destination).delete([place.key for place in places])


def content_of(place: Url) -> bytes:
    file = open_file(place)
    try:
        if file.size > _LARGEST:
            raise FormatError(place, "is too large for a record of tasks", expected=_LARGEST, found=file.size)
        return file.read(0, file.size)
    finally:
        file.close()


# What --finish publishes


def published_by_finish(destination: Place) -> Mapping[str, Any] | None:
    """Return the manifest of a destination whose --finish was killed, after its leftovers are removed; else None."""
    if not destination.is_local:
        return None
    built = resolve_link(local_path(destination, "a destination"))
    home = hidden_sibling(built)
    if not built.is_there() or not os.path.lexists(home) or os.path.lexists(home / REQUEST):
        return None
    content = read_manifest(built).content
    if content:
        remove_leftover(built)
    return content if content and not os.path.lexists(home) else None  # A process may work there.


def request_of_tasks(destination: Place, spool: Path | None) -> Request:
    """Return the request that all tasks of a destination share, after a check that all are complete."""
    by_prefix = (one.canonical(destination) for one in registry.list_formats() if one.prefix)
    for place in itertools.chain([destination], by_prefix):
        built = (
            spool_of(place, spool) / place.name
            if isinstance(place, Url)
            else resolve_link(local_path(place, "a destination"))
        )
        home = hidden_sibling(built)
        if isinstance(place, Url):
            fetch(place, home)
        if os.path.lexists(home):
            check_private(home)
            break
    recorded = read_conversion(home / REQUEST)
    if recorded is None or not recorded["given"].get("task"):
        raise ConversionError(f"{printable(destination)}: it has no tasks. Write them first with --task I/N")
    version = recorded["facts"].get("the version of tokfmt")
    if version != __version__:
        raise ConversionError(
            f"{printable(destination)}: its tasks were written by tokfmt {version}, this is {__version__}"
        )
    named = "given" if recorded.get("here") == here() else "request"  # messages then name paths as the user gave them
    try:
        request = replace(_rebuilt(recorded[named]), destination=destination, spool=spool)
    except (KeyError, TypeError, ValueError) as error:
        raise unknown_request(home / REQUEST) from error
    _need_all(home, request.destination, request.finish)
    return request


def _rebuilt(stored: Mapping[str, Any]) -> Request:
    """Return the request that all tasks share, from its values in JSON."""
    source = dict(stored["source"])
    source |= {"paths": tuple(source["paths"]), "allow_loss": frozenset(source["allow_loss"])}
    source["options"] = given_options(source["options"])
    return Request(
        **{
            **stored,
            "source": SourceRequest(**source),
            "to_options": given_options(stored["to_options"]),
            "arrangement": AS_IT_IS,
            "task": None,
            "rejects": None if stored["rejects"] is None else place_of(stored["rejects"]),
            "spool": None,
            "piped": {},
            "finish": int(stored["task"]["count"]),
        }
    )


def _need_all(home: Path, destination: Place, count: int) -> None:
    missing = [task for task in (Task(k, count) for k in range(count)) if not is_complete(home, task)]
    if not missing:
        return
    begun = [task.index for task in missing if (home / task.journal).exists()]
    raise missing_of(destination, [task.index for task in missing], count, begun)


def missing_of(destination: Place, missing: Sequence[int], count: int, begun: Sequence[int]) -> ConversionError:
    """Return the error for a destination of which tasks are missing, and some of these have begun."""
    which = (
        f"task {missing[0]} of {count} is missing"
        if len(missing) == 1
        else f"tasks {_numbered(missing)} of {count} are missing"
    )
    why = f" (begun, not finished: {_numbered(begun)})" if begun else ""
    return ConversionError(
        f"{printable(destination)}: {which}{why}. Run it with the same words and --task {missing[0]}/{count}"
    )


def is_complete(home: Path, task: Task) -> bool:
    """Return whether the journal in a directory states that its task is complete."""
    return is_ended(read_journal(home / task.journal)[0])


def is_ended(entries: Sequence[tuple[str, int, Any]]) -> bool:
    """Return whether the entries of a journal state that its task is complete."""
    return any(kind == "task" for kind, _, _ in entries)


def _numbered(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - _LISTED} more" if len(numbers) > _LISTED else ""
    return ", ".join(map(str, numbers[:_LISTED])) + more


# Parts of a folder in a store


def part_of(folder: Url, format_: Format, task: Task) -> Url:
    """Return the destination of a task."""
    return folder / f"part-{task.index:05}-of-{task.count:05}{SUFFIXES[format_.name]}"


def is_in_parts(request: Request, inputs: Inputs) -> bool:
    """Return whether tasks tokenize text into a folder in a store: this run is one of them, or spreads them."""
    in_tasks = request.task is not None or (request.is_spread and not is_named(request.spool))
    return in_tasks and isinstance(request.destination, Url) and bool(records_of(inputs.read))


def write_part(
    folder: Url,
    task: Task,
    asked: Request,
    inputs: Inputs,
    destination: Destination,
    convert_part: Callable[[Request], Conversion],
) -> Conversion:
    """Run a task: convert its records to a file of its own, unless it is complete."""
    format_ = destination.format
    if manifest_path(folder).is_there():
        raise DestinationExistsError(folder, "its tasks are published", has_overwrite=False)
    facts = facts_of(asked, destination.facts(inputs), inputs.before)
    agree(folder, json.dumps({"schema": SCHEMA, "facts": facts, "parts": {"format": format_.name}}).encode())
    part, store = part_of(folder, format_, task), writable_store(folder)
    manifest = read_manifest(part)
    if manifest.content and not any(_changed(store, manifest)):
        return conversion_of(part, manifest.content, task.count)
    request = replace(asked, destination=part, to=format_.name, task=None, part=task, overwrite=True)
    return convert_part(request)


def _changed(store: Store, manifest: Manifest, there: Mapping[str, Identity] | None = None) -> list[str]:
    """Return the keys of the objects that are not as a receipt states them."""
    keys = list[str]()
    for stated in manifest.objects:
        key = str(stated.get("key"))
        identity = store.identity(key) if there is None else there.get(key)
        if identity is None or (identity.size, identity.tag) != (stated.get("bytes"), stated.get("etag")):
            keys.append(key)
    return keys


def parts_record(folder: Url) -> Mapping[str, Any] | None:
    """Return the request of the tasks that write a folder of parts; None if no such tasks have begun."""
    place = record_of(folder)
    if writable_store(folder).identity(place.key) is None:
        return None
    record = request_in(place)
    return record if isinstance(record.get("parts"), dict) else None


def count_of_parts(folder: Url) -> int:
    """Return the number of tasks that have begun to write a folder; 0 if none have."""
    record = parts_record(folder)
    return 0 if record is None else int(record["facts"]["the number of tasks"])


def finish_parts(folder: Url, record: Mapping[str, Any]) -> Conversion:
    """Publish the folder whose tasks are complete: write its manifest, and delete their receipts."""
    count, store = int(record["facts"]["the number of tasks"]), writable_store(folder)
    format_ = registry.get(str(record["parts"]["format"]))
    parts = [part_of(folder, format_, Task(k, count)) for k in range(count)]
    there = {f"{folder.key}/{name}": identity for name, identity in listed(store, folder).items()}
    manifests = [read_manifest(part) if manifest_path(part).key in there else Manifest({}) for part in parts]
    missing = [k for k, manifest in enumerate(manifests) if not manifest.content]
    if missing and _is_published(folder, parts):  # The run before was killed while it deleted receipts.
        _forget_tasks(store, folder, parts)
        return conversion_of(folder, read_manifest(folder).content, count)
    if missing:
        begun = [k for k, part in enumerate(parts) if k in missing and claim_url(part).key in there]
        raise missing_of(folder, missing, count, begun)
    for k, manifest in enumerate(manifests):
        if changed := _changed(store, manifest, there):
            raise ConversionError(
                f"{printable(folder)}: {printable(changed[0])} has changed or is gone since task {k} wrote it. Run the "
                f"task again: --task {k}/{count}"
            )
    content = _joined(folder, [manifest.content for manifest in manifests])
    _put_manifest(store, folder, content, [one for manifest in manifests for one in manifest.objects])
    _forget_tasks(store, folder, parts)
    return conversion_of(folder, content, count)


def _is_published(folder: Url, parts: Sequence[Url]) -> bool:
    """Return whether the manifest of the folder lists all parts."""
    listed_keys = {one.get("key") for one in read_manifest(folder).objects}
    return listed_keys.issuperset(part.key for part in parts)


def _forget_tasks(store: Store, folder: Url, parts: Sequence[Url]) -> None:
    """Delete the receipts of the tasks of a published folder, and then their request."""
    store.delete([manifest_path(part).key for part in parts])
    store.delete([record_of(folder).key])


def withdraw_parts(folder: Url, count: int) -> None:
    """Delete what tasks have written to a folder that is not published, and their records."""
    store = writable_store(folder)
    names = [name for name in listed(store, folder) if re.match(rf"part-\d{{5}}-of-{count:05}\.", name)]
    store.delete([*(f"{folder.key}/{name}" for name in names), record_of(folder).key])


def _put_manifest(store: Store, folder: Url, content: Mapping[str, Any], objects: Sequence[Mapping[str, Any]]) -> None:
    """Write the manifest of the folder, or go on with the same one that a killed run has written."""
    text, place = with_objects(json.dumps(content).encode(), objects), manifest_path(folder)
    try:
        store.put(place.key, text, if_absent=True)
    except FileExistsError as error:
        if read_manifest(folder).content != json.loads(text):
            raise DestinationExistsError(place) from error


def listed(store: Store, folder: Url) -> dict[str, Identity]:
    """Return the identities of the objects of a folder by name."""
    return {key.removeprefix(f"{folder.key}/"): one for key, one in identities_below(store, folder.key).items()}


def _joined(folder: Url, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the manifest of a folder, given those of its parts."""
    joined = dict(parts[0])
    for name in ("sequences", "tokens"):
        joined[name] = sum(one.get(name) or 0 for one in parts)
    tops = [one["max_id"] for one in parts if one.get("max_id") is not None]
    joined["max_id"] = max(tops, default=None)
    for name in _SUMS:
        counts = [one[name] for one in parts if one.get(name)]
        joined[name] = {key: sum(count[key] for count in counts) for key in counts[0]} if counts else None
    joined["notes"] = list(dict.fromkeys(note for one in parts for note in one.get("notes", ())))
    losses = dict[str, dict[str, None]]()
    for part in parts:
        for name, loss in part.get("losses", {}).items():
            losses.setdefault(name, {})[loss] = None
    joined["losses"] = {name: "; ".join(words) for name, words in losses.items()}
    objects = [one for part in parts for one in part["output"].get("objects", ())]
    files = [Measured(str(one["key"]).removeprefix(f"{folder.key}/"), one["bytes"], one["xxh3_128"]) for one in objects]
    joined["output"] = combined(sorted(files), single=False)
    return joined


def conversion_of(place: Place, content: Mapping[str, Any], count: int = 0) -> Conversion:
    """Return the result of a conversion by `count` tasks whose manifest is known."""
    return Conversion(
        destination=str(place),
        format=content["format"],
        sources=[{"path": one["path"], "format": one["format"]} for one in content.get("sources", ())],
        sequences=content["sequences"],
        tokens=content["tokens"],
        max_id=content["max_id"],
        separator={"eos_id": content["eos_id"], "from": content["eos_from"], "inferred": False, "seen": None},
        separators=content.get("separators"),
        lead={"bos_id": content.get("bos_id"), "stored": content.get("bos_stored")},
        leads=content.get("leads"),
        losses=dict(content.get("losses", {})),
        notes=list(content.get("notes", ())),
        plan={"tasks": count, "executor": "serial", "jobs": 1},
        tokenizer=content.get("tokenizer"),
    )


State = Literal["done", "running", "missing"]


# States


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """The state of a task."""

    index: int  # its number, from 0
    state: State  # a task that was killed is running, until it runs again
    owner: str = ""  # who runs it, and since when: `process 4711 on node7, since 2026-11-25 12:03 UTC`


def status_of_tasks(destination: PlaceLike) -> Sequence[TaskStatus]:
    """Return the state of each task of a destination."""
    place = destination_of(destination)
    places = [place, *(one.canonical(place) for one in registry.list_formats() if one.prefix)]
    for home in dict.fromkeys(places):
        tasks = _status_in_store(home) if isinstance(home, Url) else _local_status(local_path(home, "a destination"))
        if tasks:
            return tasks
    raise ConversionError(f"{printable(place)}: it has no tasks. Write them first with --task I/N")


def _status_in_store(url: Url) -> list[TaskStatus]:
    store, records = writable_store(url), listed(writable_store(url), task_records(url))
    if record_of(url).name not in records:
        return []
    record = request_in(record_of(url))
    tasks = [Task(k, _count_of(record)) for k in range(_count_of(record))]
    claims: list[Url] = [begun_of(url, task) for task in tasks]
    if "parts" in record:
        there, format_ = listed(store, url), registry.get(str(record["parts"]["format"]))
        parts = [part_of(url, format_, task) for task in tasks]
        claims = [claim_url(part) for part in parts]
        done = [manifest_path(part).name in there for part in parts]
    else:
        there, journals = records, [task_records(url) / task.journal for task in tasks]
        done = [journal.name in there and is_ended(entries_of(content_of(journal))[0]) for journal in journals]
    statuses = list[TaskStatus]()
    for task, claim, is_done in zip(tasks, claims, done, strict=True):
        claimed = claim_at(store, claim) if not is_done and claim.name in there else None
        state: State = "done" if is_done else "missing" if claimed is None else "running"
        statuses.append(TaskStatus(task.index, state, "" if claimed is None else claimed.owner()))
    return statuses


def _local_status(path: Path) -> list[TaskStatus]:
    home = hidden_sibling(resolve_link(path))
    record = read_conversion(home / REQUEST)
    if record is None or not _count_of(record):
        return []
    tasks = list[TaskStatus]()
    for task in [Task(k, _count_of(record)) for k in range(_count_of(record))]:
        place = home / f"lock-of-{task.journal}"
        is_begun, is_done = place.exists(), is_complete(home, task)
        lock = take_lock(place, existing=True) if is_begun and not is_done else -1
        if lock >= 0:
            release(lock)
        is_running = is_begun and not is_done and lock < 0
        since = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(place.stat().st_mtime)) if is_running else ""
        owner = f"{holder(place)}, since {since}" if is_running else ""
        tasks.append(TaskStatus(task.index, "done" if is_done else "running" if is_running else "missing", owner))
    return tasks


def _count_of(record: Mapping[str, Any]) -> int:
    return int(record["facts"].get("the number of tasks") or 0)
