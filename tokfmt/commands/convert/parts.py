"""Tasks that tokenize text into a folder in a store, and share nothing but the store.

    DST/part-00003-of-00008.bin               the records of task 3 of 8: one file of the format, or a pair
    DST/part-00003-of-00008.bin.tokfmt.json   its receipt, until --finish: an ordinary manifest, which is uploaded last
    DST/part-00003-of-00008.bin.tokfmt-writing   its claim, while the task runs
    DST.tokfmt-tasks/conversion.json          the request that all tasks share
    DST.tokfmt.json                           the manifest of the folder, which --finish writes

The records of all sources are cut into blocks in order, and each task has consecutive blocks. So the folder, whose
files are read in the order of their names, has the sequences in the order of the sources. A task is an ordinary
conversion. If it runs again, it takes over the claim of the run before, and a run that has lost its claim publishes
nothing.

--finish compares the receipts with the objects that are there, and reads no token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tokfmt import registry
from tokfmt.commands.convert.destination import Destination
from tokfmt.commands.convert.inputs import Inputs
from tokfmt.commands.convert.manifests import with_objects
from tokfmt.commands.convert.request import Conversion, Request
from tokfmt.commands.convert.resume import SCHEMA, facts_of, missing_of
from tokfmt.commands.convert.tasks_in_stores import record_of, refuse_others, request_in
from tokfmt.commands.source.content import Manifest
from tokfmt.commands.source.manifest import Measured, combined, manifest_path, read_manifest
from tokfmt.core.format import Format
from tokfmt.core.records import RecordReader
from tokfmt.errors import ConversionError, DestinationExistsError, OptionError
from tokfmt.files.claims import claim_url
from tokfmt.files.journal import Task
from tokfmt.files.place import Place, Url, writable_store
from tokfmt.files.spool import is_named
from tokfmt.files.store import Identity, Kind, Store
from tokfmt.wording import printable

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
_SUMS = ("separators", "leads")


def part_of(folder: Url, format_: Format, task: Task) -> Url:
    """Return the destination of a task."""
    return folder / f"part-{task.index:05}-of-{task.count:05}{SUFFIXES[format_.name]}"


def is_in_parts(request: Request, inputs: Inputs) -> bool:
    """Return whether tasks tokenize text into a folder in a store: this run is one of them, or spreads them."""
    in_tasks = request.task is not None or (request.is_spread and not is_named(request.spool))
    return in_tasks and isinstance(request.destination, Url) and inputs.holds_records


def refuse_parts(given: Request, request: Request, inputs: Inputs, destination: Destination) -> None:
    """Refuse a task of text whose part cannot be a file of its own.

    Args:
        given: The request with the destination that the user gave.
        request: The request with the destination path that the format gives it.
        inputs: The sources.
        destination: The destination.

    Raises:
        OptionError: Always, if the format has no folders of files, if DST is not a folder, or with an option that needs
            all parts.
    """
    name = destination.format.name
    folders = ", ".join(sorted(SUFFIXES))
    place = printable(given.destination)
    if name not in SUFFIXES:
        raise OptionError(
            f"{place}: a task of text writes a file of its own, and a folder of files of {name} is not a dataset. "
            f"Write one of {folders}, and convert that by tasks. Or leave out --task"
        )
    if given.destination.suffix == SUFFIXES[name]:
        raise OptionError(f"{place}: --task does not go with one file. Name a folder, with --to {name}")
    if "shard_size" in request.to_options:
        raise OptionError(
            f"{place}: a task of text writes one file, so the number of tasks decides on its size. Leave out shard_size"
        )
    if destination.copies_lines or not all(
        isinstance(source.reader, RecordReader) and not source.format.is_computed for source in inputs.sources
    ):
        raise OptionError(
            f"{place}: --task does not go with copied lines, recipes, or sources of which some hold token IDs, if DST "
            "is in a store. Leave out --task, or write to a directory that all machines see"
        )
    for option, is_given in (
        ("--select", request.select is not None),
        ("--ledger", request.ledger),
        ("--overwrite", request.overwrite),
        ("--no-manifest", not request.manifest),
    ):
        if is_given:
            what = f"{place}: --task does not go with {option} if text is written to a store"
            raise OptionError(f"{what}. Leave it out, or write to a directory that all machines see")


def write_part(
    given: Request, inputs: Inputs, destination: Destination, convert_part: Callable[[Request], Conversion]
) -> Conversion:
    """Run a task: convert its records to a file of its own, unless it is complete.

    Args:
        given: The request with the destination that the user gave.
        inputs: The sources.
        destination: The destination.
        convert_part: Runs a conversion.

    Raises:
        DestinationExistsError: If the folder is published already.
        ConversionError: If tasks of another request have begun to write the folder.
    """
    folder, task, format_ = given.destination, given.task, destination.format
    assert isinstance(folder, Url)
    assert task is not None
    if manifest_path(folder).is_there():
        raise DestinationExistsError(folder, "its tasks are published", has_overwrite=False)
    _agree(folder, given, inputs, destination)
    part, store = part_of(folder, format_, task), writable_store(folder)
    manifest = read_manifest(part)
    if manifest.content and not any(_changed(store, manifest)):
        return conversion_of(part, manifest.content, task.count)
    request = replace(given, destination=part, to=format_.name, task=None, part=task, overwrite=True)
    return convert_part(request)


def _agree(folder: Url, given: Request, inputs: Inputs, destination: Destination) -> None:
    """Record the request of the tasks, or compare it with that of the tasks before."""
    place, facts = record_of(folder), facts_of(given, destination.facts(inputs), inputs.before)
    ours = {"schema": SCHEMA, "facts": facts, "parts": {"format": destination.format.name}}
    try:
        writable_store(folder).put(place.key, json.dumps(ours).encode(), if_absent=True)
    except FileExistsError:
        refuse_others(folder, facts, request_in(place)["facts"])


def _changed(store: Store, manifest: Manifest, there: Mapping[str, Identity] | None = None) -> list[str]:
    """Return the keys of the objects that are not as a receipt states them."""
    found = list[str]()
    for one in manifest.objects:
        key = str(one.get("key"))
        identity = store.identity(key) if there is None else there.get(key)
        if identity is None or (identity.size, identity.tag) != (one.get("bytes"), one.get("etag")):
            found.append(key)
    return found


def parts_record(folder: Url) -> Mapping[str, Any] | None:
    """Return the request of the tasks that write a folder of parts; None if no such tasks have begun.

    Raises:
        CorruptError: If the record is damaged.
    """
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
    """Publish the folder whose tasks are complete: write its manifest, and delete their receipts.

    Args:
        folder: The folder.
        record: The request of the tasks.

    Raises:
        ConversionError: If tasks are missing, or an object is not as its receipt states it.
    """
    count, store = int(record["facts"]["the number of tasks"]), writable_store(folder)
    format_ = registry.get(str(record["parts"]["format"]))
    parts = [part_of(folder, format_, Task(k, count)) for k in range(count)]
    there = {f"{folder.key}/{name}": identity for name, identity in listed(store, folder).items()}
    manifests = [_receipt(part, there) for part in parts]
    missing = [k for k, manifest in enumerate(manifests) if not manifest.content]
    if missing and _is_published(folder, parts):  # The run before was killed while it deleted receipts.
        _forget_tasks(store, folder, parts)
        return conversion_of(folder, read_manifest(folder).content, count)
    if missing:
        begun = [k for k in _running(parts, there) if k in missing]
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


def _receipt(part: Url, there: Mapping[str, Identity]) -> Manifest:
    return read_manifest(part) if manifest_path(part).key in there else Manifest({})


def listed(store: Store, folder: Url) -> dict[str, Identity]:
    """Return the identities of the objects of a folder by name."""
    try:
        entries = list(store.entries(folder.key))
    except FileNotFoundError:
        return {}
    found = dict[str, Identity]()
    for entry in entries:
        if entry.kind is not Kind.DIRECTORY:
            identity = entry.identity or store.identity(f"{folder.key}/{entry.name}")
            if identity is not None:
                found[entry.name] = identity
    return found


def _running(parts: Sequence[Url], there: Mapping[str, Identity]) -> list[int]:
    return [k for k, part in enumerate(parts) if claim_url(part).key in there]


def _joined(folder: Url, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the manifest of a folder, given those of its parts."""
    joined = dict(parts[0])
    for name in ("sequences", "tokens"):
        joined[name] = sum(one.get(name) or 0 for one in parts)
    tops = [one["max_id"] for one in parts if one.get("max_id") is not None]
    joined["max_id"] = max(tops, default=None)
    for name in _SUMS:
        counts = [one[name] for one in parts if one.get(name)]
        joined[name] = {key: sum(one[key] for one in counts) for key in counts[0]} if counts else None
    joined["notes"] = list(dict.fromkeys(note for one in parts for note in one.get("notes", ())))
    losses = dict[str, dict[str, None]]()
    for one in parts:
        for name, what in one.get("losses", {}).items():
            losses.setdefault(name, {})[what] = None
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
