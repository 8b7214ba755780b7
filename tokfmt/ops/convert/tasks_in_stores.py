"""The work of tasks whose destination is in a store: records beside the destination, so that they share no file system.

    DST.tokfmt-tasks/conversion.json    the request that all tasks share; see `resume`
    DST.tokfmt-tasks/journal-3-of-8     the journal of task 3 of 8, once the task has ended; see `run.plan`

Each task builds its files in a spool of its own, and uploads each as soon as it is complete. --finish copies the
records to its spool, where it finds them as if it had run the tasks. Formats whose files are complete only at the end
are refused.

Tasks that tokenize text, or replace a dataset, and their --finish need one spool that all of them see. The first task
writes a random mark into the spool (`spool.json`) and into the request in the store. A spool without that mark is
refused.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokfmt.core.errors import ConversionError, CorruptError, FormatError
from tokfmt.core.files import open_file, writing
from tokfmt.core.locks import make_private
from tokfmt.core.place import Url, writable_store
from tokfmt.core.publisher import Publisher
from tokfmt.core.spool import records_of
from tokfmt.core.text_format import printable
from tokfmt.ops.convert.request import Request
from tokfmt.ops.convert.upload import StorePublisher
from tokfmt.run.plan import NullJournal, Task

_REQUEST = "conversion.json"
_MARK = "spool"  # Name of the journal item in a common spool, and of its value in the request in the store.
_LARGEST = 1 << 30  # Bytes of a record.


def begin_upload(staging: Publisher, journal: NullJournal, request: Request, *, common: bool) -> None:
    """Let a run that keeps its work record what it uploads; compare the request of a task with that of the others.

    Raises:
        ConversionError: As for `agree`.
    """
    assert isinstance(staging, StorePublisher)
    staging.journal = journal
    if request.task is not None:
        agree(staging, common=common)


def agree(staging: StorePublisher, *, common: bool) -> None:
    """Record the request of the tasks, or compare it and the spool with those of the tasks before.

    Args:
        staging: Where this task builds.
        common: All tasks work in this spool.

    Raises:
        ConversionError: If tasks of another request, or in another spool, have begun to write the destination.
    """
    place, ours = records_of(staging.url) / _REQUEST, json.loads((staging.home / _REQUEST).read_bytes())
    mark = staging.journal.once(_MARK, lambda: os.urandom(8).hex()) if common else ""
    conditional = staging.claim.taken
    with contextlib.suppress(FileExistsError):
        if conditional or staging.store.identity(place.key) is None:
            content = json.dumps({**ours, _MARK: mark}).encode()
            staging.store.put(place.key, content, if_absent=conditional)
            return
    theirs = _request_in(place)
    refuse_others(staging.url, ours["facts"], theirs["facts"])
    _refuse_other_spool(staging.url, staging.spool, mark, theirs)


def _refuse_other_spool(destination: Url, spool: Path, mark: str, theirs: Mapping[str, Any]) -> None:
    """Refuse to work in another spool than that of the first task.

    Raises:
        ConversionError: If the mark of the first task is not that of this spool.
    """
    stated = theirs.get(_MARK, "")
    if stated == mark:
        return
    if stated and mark:
        why = f"the spool {printable(spool.parent)} is not that of the first task, whose work is not in it"
        remedy = "Name a directory that all machines see with --spool DIR"
    else:
        why = f"--overwrite {'was not' if mark else 'was'} given to the first task"
        remedy = "Give the same options to all tasks"
    raise ConversionError(f"{printable(destination)}: {why}. {remedy}")


def _request_in(place: Url) -> Mapping[str, Any]:
    """Return the request that the first task recorded.

    Raises:
        CorruptError: If the record is damaged.
    """
    try:
        found = json.loads(_content(place))
    except ValueError:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("facts"), dict):
        remedy = f"Delete {printable(place.parent)}, and run all tasks again"
        raise CorruptError(place, "is not a record of tasks", remedy=remedy)
    return found


def refuse_others(destination: Url, ours: Mapping[str, object], theirs: Mapping[str, object]) -> None:
    """Refuse to continue the work of tasks of another request.

    Raises:
        ConversionError: If the facts of this request differ from those in the store.
    """
    differs = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
    if differs:
        raise ConversionError(
            f"{printable(destination)}: tasks of another request have begun to write it (another "
            f"{printable(differs[0])}). Ask for the same; to start over, delete {printable(records_of(destination))}"
        )


def send(destination: Url, journal: Path) -> None:
    """Upload the journal of a task. It states whether the task is complete.

    Raises:
        OutageError: If it cannot be uploaded.
    """
    writable_store(destination).put((records_of(destination) / journal.name).key, journal)


def fetch(destination: Url, home: Path) -> None:
    """Copy the records of tasks to the hidden directory in which --finish looks for them, unless they are there.

    Raises:
        ConversionError: If the tasks worked in a common spool, and this one is another.
        FormatError: If the store cannot be asked.
    """
    store, records = writable_store(destination), records_of(destination)
    try:
        names = [entry.name for entry in store.entries(records.key)]
    except FileNotFoundError:
        return
    if _REQUEST in names and (stated := _request_in(records / _REQUEST)).get(_MARK):
        _refuse_other_spool(destination, home.parent, _mark_of(home), stated)
    with writing(home):
        for directory in (home.parent, home):
            make_private(directory, taken_over=True)
        (home / "lock").touch()
        for name in names:
            if not (home / name).exists() and (name == _REQUEST or name.startswith("journal-")):
                fd = os.open(home / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
                with open(fd, "wb") as file:
                    file.write(_content(records / name))


def _mark_of(home: Path) -> str:
    """Return the mark of a common spool, or a word that is no mark if it has none."""
    try:
        return str(json.loads((home / f"{_MARK}.json").read_bytes()))
    except (OSError, ValueError):
        return "no mark"


def remove(destination: Url, count: int) -> None:
    """Delete the records of all tasks of a destination."""
    records, names = records_of(destination), (_REQUEST, *(Task(k, count).journal for k in range(count)))
    writable_store(destination).delete([(records / name).key for name in names])


def _content(place: Url) -> bytes:
    file = open_file(place)
    try:
        if file.size > _LARGEST:
            raise FormatError(place, "is too large for a record of tasks", expected=_LARGEST, found=file.size)
        return file.read(0, file.size)
    finally:
        file.close()
