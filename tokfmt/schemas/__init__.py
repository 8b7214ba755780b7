"""The JSON schemas of the documents that `--json` prints, one file each.

The `$id` of a schema, such as urn:tokfmt:convert:1, has its number. The number grows if a key is removed or changes its
meaning. New keys can be added without a new number, so the schemas allow keys that they do not list.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokfmt.base.options import nearest
from tokfmt.errors import OptionError
from tokfmt.wording import printable

_HOME = Path(__file__).parent


def names() -> list[str]:
    """Return the names of the documents, in alphabetical order."""
    return sorted(path.stem for path in _HOME.glob("*.json"))


def schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of a document."""
    known = names()
    if name not in known:
        expected = f"is not the name of a schema (expected {', '.join(known)})"
        raise OptionError(f"{printable(name)}: {expected}", name="schema", nearest=nearest(name, known))
    found: dict[str, Any] = json.loads((_HOME / f"{name}.json").read_bytes())
    return found
