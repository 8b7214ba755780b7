"""The work of tasks whose destination is in a store: records beside the destination, so that they share no file system.

    DST.tokfmt-tasks/conversion.json    the request that all tasks share; see `resume`
    DST.tokfmt-tasks/begun-3-of-8       the process that runs task 3 of 8, as a claim states it
    DST.tokfmt-tasks/journal-3-of-8     the journal of task 3 of 8, once the task has ended; see `run.plan`

Each task builds its files in a spool of its own, and uploads each as soon as it is complete. --finish copies the
records to its spool, where it finds them as if it had run the tasks. Formats whose files are complete only at the end
are refused. Tasks of text write files of their own: see
`parts`.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tokfmt.errors import ConversionError, CorruptError, FormatError, OptionError, TokfmtError
from tokfmt.files.claims import claim_content
from tokfmt.files.file import open_file, writing
from tokfmt.files.journal import Task
from tokfmt.files.locks import make_private
from tokfmt.files.place import Url, writable_store
from tokfmt.files.publisher import Publisher
from tokfmt.files.spool import is_named, records_of
from tokfmt.files.store_publisher import StorePublisher
from tokfmt.wording import printable

_REQUEST = "conversion.json"
_LARGEST = 1 << 30  # Bytes of a record.


def record_of(destination: Url) -> Url:
    """Return the address of the request that all tasks of a destination share."""
    return records_of(destination) / _REQUEST


def refuse_unshared(destination: Url, spool: Path | None, why: str) -> None:
    """Refuse workers of a cluster that need a common directory, unless the user names the spool.

    Args:
        destination: The destination.
        spool: The spool that the user gave.
        why: What the workers share.

    Raises:
        OptionError: If no spool is named.
    """
    if not is_named(spool):
        raise OptionError(
            f"{printable(destination)}: --executor dask:ADDRESS needs a directory that all tasks see, because {why}. "
            "Name it with --spool DIR"
        )


def refuse_overwrite(destination: Url) -> None:
    """Refuse tasks that replace a dataset in a store, which stays readable until all of them are complete.

    Raises:
        OptionError: Always.
    """
    raise OptionError(
        f"{printable(destination)}: --task does not go with --overwrite in a store, because the old dataset would be "
        "gone while tasks run. Choose another destination, or delete the old dataset"
    )


def refuse_one_file(destination: Url) -> None:
    """Refuse tasks that write into the same file.

    Raises:
        OptionError: Always.
    """
    folder = "Write a folder of several files: --to mds, --to flat-tokens"
    raise OptionError(
        f"{printable(destination)}: --task does not go with one file or a pair in a store, because all tasks "
        f"would write into the same file. {folder}, or --to-opt shard_size=N where a format has it, such as "
        "megatron. Or leave out --task; --resume continues a run"
    )


@contextlib.contextmanager
def begun(out: Publisher, task: Task | None) -> Iterator[None]:
    """Compare the request of a task with that of the others, and state in the store that the task runs.

    Raises:
        ConversionError: As for `agree`.
    """
    if not isinstance(out, StorePublisher) or task is None:
        yield
        return
    agree(out)
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
    return records_of(destination) / f"begun-{task.index}-of-{task.count}"


def agree(staging: StorePublisher) -> None:
    """Record the request of the tasks, or compare it with that of the tasks before.

    Raises:
        ConversionError: If tasks of another request have begun to write the destination.
    """
    place, ours = record_of(staging.url), (staging.home / _REQUEST).read_bytes()
    conditional = staging.claim.taken
    with contextlib.suppress(FileExistsError):
        if conditional or staging.store.identity(place.key) is None:
            staging.store.put(place.key, ours, if_absent=conditional)
            return
    refuse_others(staging.url, json.loads(ours)["facts"], request_in(place)["facts"])


def request_in(place: Url) -> Mapping[str, Any]:
    """Return the request that the first task recorded.

    Raises:
        CorruptError: If the record is damaged.
    """
    try:
        found = json.loads(content_of(place))
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
        CorruptError: If the record of the request is damaged.
        FormatError: If the store cannot be asked.
    """
    store, records = writable_store(destination), records_of(destination)
    try:
        names = [entry.name for entry in store.entries(records.key)]
    except FileNotFoundError:
        return
    if _REQUEST in names:
        request_in(records / _REQUEST)
    with writing(home):
        for directory in (home.parent, home):
            make_private(directory, taken_over=True)
        (home / "lock").touch()
        for name in names:
            if not (home / name).exists() and (name == _REQUEST or name.startswith("journal-")):
                fd = os.open(home / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
                with open(fd, "wb") as file:
                    file.write(content_of(records / name))


def remove(destination: Url, count: int) -> None:
    """Delete the records of all tasks of a destination."""
    records, tasks = records_of(destination), [Task(k, count) for k in range(count)]
    places = [records / _REQUEST, *(records / one.journal for one in tasks), *(begun_of(destination, k) for k in tasks)]
    writable_store(destination).delete([place.key for place in places])


def content_of(place: Url) -> bytes:
    file = open_file(place)
    try:
        if file.size > _LARGEST:
            raise FormatError(place, "is too large for a record of tasks", expected=_LARGEST, found=file.size)
        return file.read(0, file.size)
    finally:
        file.close()
