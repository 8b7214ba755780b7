"""Files that the browser writes for the user: pictures, and lists as JSON lines. A file that exists stays."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from tokfmt.errors import OptionError
from tokfmt.registry import for_destination
from tokfmt.wording import printable


def free_name(stem: str, suffix: str) -> str:
    """Return a free name in the current directory: `stem.svg`, `stem-2.svg` and so on."""
    number = 1
    while os.path.lexists(name := f"{stem}{f'-{number}' if number > 1 else ''}{suffix}"):
        number += 1
    return name


def refusal(path: str) -> str:
    """Return the meaning of a typed path, as a `check` of `Prompt`."""
    place = _place(path)
    if not path.strip() or os.path.isdir(place):  # false for a name that no file can have
        raise OptionError("name a file")
    if os.path.lexists(place):
        raise OptionError(f"{printable(path.strip())} exists already. Choose another name")
    if means := _other_meaning(path.strip()):
        raise OptionError(f"the name implies {means}. Write X.jsonl, and convert it with tokfmt convert")
    return "enter writes it"


def _other_meaning(path: str) -> str:
    """Return the format that the name of a file implies, if an export does not write it; else ""."""
    try:
        name = for_destination(path).name
    except OptionError:
        return ""  # a name that implies no format is accepted
    return name if name != "jsonl" else "compressed lines" if path.endswith((".gz", ".zst")) else ""


def saved(content: str, path: str) -> int:
    """Write a text and return its bytes."""
    from tokfmt.files.spool import publish_text

    publish_text(_place(path), content)
    return len(content.encode())


def json_lines(records: Iterable[Mapping[str, object]]) -> str:
    """Return records as JSON lines."""
    return "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)


def _place(path: str) -> Path:
    return Path(os.path.expanduser(path.strip()))
