"""What is kept of a dataset between runs: its tokenizer, bookmarks. One small JSON file in the user's state directory.

    $XDG_STATE_HOME/tokfmt/browse.json    {"schema": "tokfmt.browse/1", "datasets": {path: {"tokenizer": name, ...}}}

The dataset used last comes last. Nothing here may fail loudly: a browser that cannot remember still browses.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCHEMA = "tokfmt.browse/1"
_MOST = 500
_LIMIT = 1 << 22


def state_file() -> Path:
    """Where it is kept."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(home) / "tokfmt" / "browse.json"


def recall(path: Path) -> Mapping[str, Any]:
    """What is known of a dataset; empty when nothing is."""
    known = _read().get(os.path.abspath(path))
    return known if isinstance(known, dict) else {}


def remember(path: Path, **facts: object) -> None:
    """Add to what is known of a dataset; a fact that is None is forgotten. Silent when it cannot be written."""
    datasets, key = _read(), os.path.abspath(path)
    known = datasets.pop(key, None)
    merged = {**(known if isinstance(known, dict) else {}), **facts}
    datasets[key] = {name: value for name, value in merged.items() if value is not None}
    kept = list(datasets.items())[-_MOST:]
    with contextlib.suppress(OSError, ValueError, UnicodeError):
        content = _packed(kept)
        while len(content) > _LIMIT and kept:  # would not be read again
            kept = kept[1 + len(kept) // 2 :]
            content = _packed(kept)
        _write(content)


def _packed(datasets: list[tuple[str, Any]]) -> bytes:
    return json.dumps({"schema": SCHEMA, "datasets": dict(datasets)}).encode()


def _read() -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError, RecursionError):
        file = state_file()
        if file.is_file() and file.stat().st_size <= _LIMIT:
            content = json.loads(file.read_bytes())
            if isinstance(content, dict) and content.get("schema") == SCHEMA:
                datasets = content.get("datasets")
                return datasets if isinstance(datasets, dict) else {}
    return {}


def _write(content: bytes) -> None:
    file = state_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)
