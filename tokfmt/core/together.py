"""Publish several destinations of one run: all of them appear, or none does.

All are first flushed to the disk under hidden names. Then the renames follow each other directly, and after all of them
the files beside the destinations. Before the first rename, each hidden sibling gets a record:

    .DST.tokfmt-8hexdigits/
        together.json        {"members": [[hidden sibling, destination, state], ...]}, paths from the sibling's parent

A process that is killed between two renames leaves some destinations without the others. The next run with one of them
as its destination finds the record of the dead process. It takes back the destinations that appeared, and restores the
old ones. If all appeared, it completes the files beside them. A destination is taken back only if its inode, sizes and
times show that the dead process published it.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tokfmt.core.atomic_output import (
    Belonging,
    Beside,
    Staging,
    bring_back,
    hidden_siblings,
    place_drafts,
    remove_leftovers,
    replaced_path,
    sync_directory,
    take_back,
    write_whole,
)
from tokfmt.core.errors import ConversionError
from tokfmt.core.files import walk
from tokfmt.core.locks import check_private, release, take_lock
from tokfmt.core.output import resolve_link
from tokfmt.core.text_format import printable

_RECORD = "together.json"


def publish_together(stagings: Mapping[Staging, Beside]) -> None:
    """Publish all destinations and the files beside them, or none. The renames follow each other directly.

    Args:
        stagings: The files beside each destination; see `Staging.prepare`.

    Raises:
        ConversionError: If one cannot be published. Those before it are taken back.
    """
    if len(stagings) == 1:
        for staging, beside in stagings.items():
            staging.publish(beside)
        return
    belongs = {staging: staging.prepare(beside) for staging, beside in stagings.items()}
    _write_records(list(stagings))
    try:
        for staging, names in belongs.items():
            with staging.explained():
                staging.appear(names)
    except BaseException:
        for staging in stagings:
            staging.withdraw()
        raise
    _accompany(belongs)
    for staging in stagings:
        with staging.explained():
            sync_directory(staging.destination.parent)


def _accompany(belongs: Mapping[Staging, Belonging]) -> None:
    """Move the files beside the published destinations to their names; if that fails, take back all destinations."""
    try:
        _place(belongs)
    except Exception:
        if any(staging.is_partial for staging in belongs):
            for staging in belongs:
                staging.withdraw()
        raise
    except BaseException:  # After a signal, complete destinations still get the files beside them.
        _place(belongs)
        raise


def _place(belongs: Mapping[Staging, Belonging]) -> None:
    for staging, names in belongs.items():
        with staging.explained():
            staging.accompany(names)


class _Member(NamedTuple):
    """One destination of a record."""

    home: Path
    destination: Path
    state: str

    @property
    def built(self) -> Path:
        return self.home / "build" / self.destination.name

    @property
    def is_published(self) -> bool:
        """True if the destination is what the process of the record published."""
        return _state(self.destination) == self.state

    @property
    def has_old(self) -> bool:
        """True if the output that it replaced still exists."""
        return os.path.lexists(self.built) or os.path.lexists(replaced_path(self.built))

    @property
    def is_unpublished(self) -> bool:
        """True if it was not published."""
        return _state(self.built) == self.state


def _state(path: Path) -> str:
    """Return a string that identifies a file, or a directory with its files, under any name; "" if it does not exist.

    It does not contain change times, because a rename changes them.
    """
    try:
        files = sorted(d / name for d, names in walk(path) for name in names) if path.is_dir() else [path]
        status = [(os.path.relpath(file, path), *_stamp(file)) for file in files]
        return f"{os.lstat(path).st_ino} {len(status)} {zlib.crc32(repr(status).encode()):08x}"
    except OSError:
        return ""


def _stamp(path: Path) -> tuple[int, int, int]:
    status = os.lstat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns


def _write_records(stagings: Sequence[Staging]) -> None:
    states = {staging: _state(staging.path) for staging in stagings}
    for staging in stagings:
        parent = staging.home.parent
        members = [
            [os.path.relpath(one.home, parent), os.path.relpath(one.destination, parent), state]
            for one, state in states.items()
        ]
        with staging.explained():
            write_whole(staging.home / _RECORD, json.dumps({"members": members}).encode())


def _members(home: Path) -> list[_Member]:
    """Return the members of the record in a hidden sibling; [] if it has no record."""
    try:
        check_private(home)
        listed = json.loads((home / _RECORD).read_bytes())["members"]
        found = [
            _Member(Path(os.path.normpath(home.parent / place)), Path(os.path.normpath(home.parent / name)), state)
            for place, name, state in listed
        ]
    except (OSError, ConversionError, ValueError, KeyError, TypeError):  # No record, or an incomplete one.
        return []
    return found if any(member.home == home for member in found) else []


def settle(destination: Path) -> Iterator[str]:
    """Undo or finish what a dead process left of several destinations.

    Args:
        destination: A destination of the run that starts.

    Yields:
        A note for each record of which a destination was taken back.

    Raises:
        ConversionError: If the destination is a link that must not be followed.
        OSError: If a published destination cannot be taken back.
    """
    for home in _homes(destination):
        yield from _settle(_members(home))


def foreseen(destination: Path) -> tuple[list[str], set[Path]]:
    """Return what `settle` would take back, without doing it.

    Returns:
        The notes, and the destinations that would then not exist.

    Raises:
        ConversionError: If the destination is a link that must not be followed.
    """
    notes, free = list[str](), set[Path]()
    for home in _homes(destination):
        with contextlib.ExitStack() as stack:
            published, unpublished = _sides(_taken(_members(home), stack))
            if published and unpublished:
                notes.append(f"would take back {_broken(published, unpublished)}")
                free |= {member.destination for member in published if not member.has_old}
    return notes, free


def _homes(destination: Path) -> list[Path]:
    with contextlib.suppress(OSError):  # The write to the destination reports it.
        return hidden_siblings(resolve_link(destination))
    return []


def _taken(members: Sequence[_Member], stack: contextlib.ExitStack) -> list[_Member]:
    """Lock the members and open their directories while `stack` is open; [] if one is in use or of another user."""
    taken = []
    for member in members:
        try:
            check_private(member.home)
            lock = take_lock(member.home / "lock")
        except FileNotFoundError:  # Its process had begun to clean up.
            taken.append(member)
            continue
        except ConversionError:
            return []
        if lock < 0:
            return []
        stack.callback(release, lock)
        taken.append(member)
    return taken


def _settle(listed: Sequence[_Member]) -> Iterator[str]:
    with contextlib.ExitStack() as stack:
        members = _taken(listed, stack)
        published, unpublished = _sides(members)
        for member in published:
            if unpublished:
                take_back(member.built, member.destination)
                bring_back(member.home, member.destination)
            else:
                place_drafts(member.home, member.destination)
        for parent in {member.destination.parent for member in members if published}:
            sync_directory(parent)
    for member in members if published else ():
        remove_leftovers(member.destination, spare=True)
    if published and unpublished:
        yield f"took back {_broken(published, unpublished)}"


def _sides(members: Sequence[_Member]) -> tuple[list[_Member], list[_Member]]:
    """Return the members that were published and can be taken back, and those that were not published."""
    published = [member for member in members if member.is_published]
    if not all(member.home.is_dir() for member in published):
        return [], []
    return published, [member for member in members if member.is_unpublished]


def _broken(published: Sequence[_Member], unpublished: Sequence[_Member]) -> str:
    taken, missing = (
        ", ".join(printable(member.destination.name) for member in group) for group in (published, unpublished)
    )
    return f"{taken}: a run that was killed had published it without {missing}"
