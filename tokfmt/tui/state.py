"""What is kept of a dataset between runs: its tokenizer, bookmarks. One small JSON file in the user's state directory.

    $XDG_STATE_HOME/tokfmt/browse.json    {"schema": "tokfmt.browse/1", "datasets": {path: {"tokenizer": name, ...}}}

The directory is the user's alone, else nothing is read or written; browsers change the file one after the other.
The dataset used last comes last. Nothing here may fail loudly: a browser that cannot remember still browses.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tokfmt.core.errors import TokfmtError
from tokfmt.core.locks import distrusted, make_private, own_file, release, take_lock, user_directory

SCHEMA = "tokfmt.browse/1"
_MOST = 500
_LIMIT = 1 << 22
_PATIENCE = 5.0  # seconds for another browser to write its own
_WRITER = ThreadPoolExecutor(1, "tokfmt-state")  # quitting waits for what it does
_PENDING: deque[Future[None]] = deque(maxlen=1)  # what was given to it last


def state_file() -> Path:
    """Where it is kept.

    Raises:
        OSError: There is no home directory.
    """
    return user_directory("STATE", ".local/state") / "browse.json"


def is_written() -> bool:
    """All bookmarks that were set are in the file."""
    return all(one.done() for one in _PENDING)


def recall(path: Path) -> Mapping[str, Any]:
    """What is known of a dataset; empty when nothing is."""
    known = _read().get(os.path.abspath(path))
    return known if isinstance(known, dict) else {}


def remember(path: Path, **facts: object) -> None:
    """Add to what is known of a dataset; a fact that is None is forgotten. Silent when it cannot be written."""
    amend(path, lambda known: known.update(facts))


def amend(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change what is known of a dataset, in place, while no other browser does. Silent when it cannot be written."""
    with contextlib.suppress(OSError, ValueError, UnicodeError, TokfmtError):
        file, key = state_file(), os.path.abspath(path)
        file.parent.parent.mkdir(parents=True, exist_ok=True)
        make_private(file.parent, taken_over=True)
        lock = take_lock(file.with_name(f"{file.name}.lock"), patience=_PATIENCE)
        if lock < 0:
            return
        try:
            datasets = _read()
            known = datasets.pop(key, None)
            known = dict(known) if isinstance(known, dict) else {}
            change(known)
            datasets[key] = {name: value for name, value in known.items() if value is not None}
            kept = list(datasets.items())[-_MOST:]
            content = _packed(kept)
            while len(content) > _LIMIT and kept:  # would not be read again
                kept = kept[1 + len(kept) // 2 :]
                content = _packed(kept)
            _write(file, content)
        finally:
            release(lock)


def _packed(datasets: list[tuple[str, Any]]) -> bytes:
    return json.dumps({"schema": SCHEMA, "datasets": dict(datasets)}).encode()


def _read() -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError, RecursionError):
        file = state_file()
        with own_file(file) as fd, open(fd, "rb", closefd=False) as opened:
            small = not distrusted(file.parent) and os.fstat(fd).st_size <= _LIMIT
            content = json.loads(opened.read(_LIMIT)) if small else None
        if isinstance(content, dict) and content.get("schema") == SCHEMA:
            datasets = content.get("datasets")
            return datasets if isinstance(datasets, dict) else {}
    return {}


def _write(file: Path, content: bytes) -> None:
    fd, beside = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with open(fd, "wb") as draft:
            draft.write(content)
        os.replace(beside, file)
    except BaseException:
        os.unlink(beside)
        raise


MOST = 100
"""Bookmarks of a dataset; one more replaces the oldest."""

_WORDS = 48


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A place.

    Attributes:
        view: Name of the view. row: In it. unit: Of the row.
        words: What the row begins with.
        split: In which split; "" where there are none.
    """

    view: str
    row: int
    unit: int
    words: str = ""
    split: str = ""


class Bookmarks:
    """Those of one dataset, the oldest first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.all = _all(recall(path).get("bookmarks"))

    def rows(self, view: str, split: str = "") -> frozenset[int]:
        """The rows of a view that have one."""
        return frozenset(one.row for one in self.all if (one.view, one.split) == (view, split))

    def toggle(self, bookmark: Bookmark) -> bool:
        """Add it, or remove those of its row; whether there is one now."""
        added = all(_place(one) != _place(bookmark) for one in self.all)
        self._keep(bookmark, added=added)
        return added

    def remove(self, bookmark: Bookmark) -> None:
        """Forget one."""
        self._keep(bookmark, added=False)

    def _keep(self, bookmark: Bookmark, *, added: bool) -> None:
        """Here at once, and soon in the file: in what is there by then, another browser may have added its own."""

        def changed(before: list[Bookmark]) -> list[Bookmark]:
            kept = [one for one in before if _place(one) != _place(bookmark)]
            return [*kept, bookmark][-MOST:] if added else kept

        def change(known: dict[str, Any]) -> None:
            known["bookmarks"] = [asdict(one) for one in changed(_all(known.get("bookmarks")))] or None

        self.all = changed(self.all)
        _PENDING.append(_WRITER.submit(amend, self._path, change))


def bookmark(view: str, row: int, unit: int, words: str, split: str = "") -> Bookmark:
    """One whose words are short enough to be kept."""
    return Bookmark(view, row, unit, " ".join(words.split())[:_WORDS], split)


def _place(one: Bookmark) -> tuple[str, str, int]:
    """A row has one at most."""
    return one.split, one.view, one.row


def _all(told: object) -> list[Bookmark]:
    return [found for found in map(_bookmark, told if isinstance(told, list) else []) if found][-MOST:]


def _bookmark(told: object) -> Bookmark | None:
    """One from the file, which anybody may have edited."""
    if not isinstance(told, dict):
        return None
    view, row, unit, words = (told.get(name) for name in ("view", "row", "unit", "words"))
    split = told.get("split", "")
    if not isinstance(view, str) or not isinstance(words, str) or not isinstance(row, int) or not isinstance(unit, int):
        return None
    return bookmark(view, row, unit, words, split) if min(row, unit) >= 0 and isinstance(split, str) else None
