"""Facts about datasets that are kept between runs, in one JSON file: tokenizer, last place and queries.

    $XDG_STATE_HOME/tokfmt/browse.json    {"schema": "tokfmt.browse/1", "datasets": {path: {"tokenizer": name, ...}}}

If others can write to the directory, nothing is read or written. A lock lets browsers change the file one at a time.
The dataset used last is last. Failures are silent, because a browser without this file still works.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tokfmt.errors import TokfmtError
from tokfmt.files.locks import distrusted, make_private, release, take_lock, user_directory
from tokfmt.files.place import Place

SCHEMA = "tokfmt.browse/1"
_MOST = 500
_LIMIT = 1 << 22
_PATIENCE = 5.0  # seconds to wait for another browser that writes
_WRITER = ThreadPoolExecutor(1, "tokfmt-state")  # Python waits for its work at exit
_PENDING: deque[Future[None]] = deque(maxlen=1)  # the last work of the writer


def state_file() -> Path:
    """Return the path of the file."""
    return user_directory("STATE", ".local/state") / "browse.json"


def is_written() -> bool:
    """Return whether all queries are in the file."""
    return all(one.done() for one in _PENDING)


def _key(path: Place) -> str:
    return path.normalized().as_posix()


def recall(path: Place) -> Mapping[str, Any]:
    """Return the facts about a dataset; {} without any."""
    known = _read().get(_key(path))
    return known if isinstance(known, dict) else {}


def tokenizers_of_all() -> list[str]:
    """Return the tokenizers of all datasets, the last used first, each once."""
    named = (known.get("tokenizer") for known in reversed(list(_read().values())) if isinstance(known, dict))
    return list(dict.fromkeys(name for name in named if isinstance(name, str) and name))


def remember(path: Place, **facts: object) -> None:
    """Add facts about a dataset; None removes a fact. Fails silently."""
    amend(path, lambda known: known.update(facts))


def remember_later(path: Place, **facts: object) -> None:
    """Add facts about a dataset as `remember` does, in the thread that writes."""
    _PENDING.append(_WRITER.submit(remember, path, **facts))


def amend(path: Place, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the facts about a dataset in place, under the lock of the file. Fails silently."""
    with contextlib.suppress(OSError, ValueError, UnicodeError, TokfmtError):
        file, key = state_file(), _key(path)
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
            while len(content) > _LIMIT and kept:  # a larger file is not read
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
        small = not distrusted(file.parent) and file.stat().st_size <= _LIMIT
        content = json.loads(file.read_bytes()) if small else None
        if isinstance(content, dict) and content.get("schema") == SCHEMA:
            datasets = content.get("datasets")
            return datasets if isinstance(datasets, dict) else {}
    return {}


def _write(file: Path, content: bytes) -> None:
    fd, draft_path = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with open(fd, "wb") as draft:
            draft.write(content)
        os.replace(draft_path, file)
    except BaseException:
        os.unlink(draft_path)
        raise


MOST = 100
"""Limit of queries per dataset; one more replaces the oldest."""

_LONGEST = 4096  # characters of a query


class Queries:
    """The queries that were typed for one dataset, the oldest first."""

    def __init__(self, path: Place) -> None:
        self._path = path
        self.all = _lines(recall(path).get("queries"))

    def add(self, words: str) -> None:
        """Make a query the latest one, here at once and later in the file."""
        if len(words) > _LONGEST:
            return

        def changed(before: list[str]) -> list[str]:
            return [*(one for one in before if one != words), words][-MOST:]

        def change(known: dict[str, Any]) -> None:
            known["queries"] = changed(_lines(known.get("queries")))

        self.all = changed(self.all)
        _PENDING.append(_WRITER.submit(amend, self._path, change))


def _lines(content: object) -> list[str]:
    """Return lines from the file; without those that are invalid."""
    found = content if isinstance(content, list) else []
    return [one for one in found if isinstance(one, str) and len(one) <= _LONGEST][-MOST:]
