"""The JSON schemas of the documents that `--json` prints.

They are made from the dataclasses and typed dicts that are printed, and from the attributes in their docstrings.
The `$id` of a schema, such as urn:tokfmt:convert:1, has its number. The number grows if a key is removed or changes its
meaning. New keys can be added without a new number, so the schemas allow keys that they do not list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from inspect import cleandoc
from typing import Any, NamedTuple, NotRequired, TypedDict

from tokfmt.base.options import nearest
from tokfmt.errors import OptionError
from tokfmt.stores.account import Transfer
from tokfmt.wording import printable


class _Printed(NamedTuple):
    """The command that prints a document; its classes as MODULE:CLASS; and the class of the items of a long list."""

    by: str
    classes: tuple[str, ...]
    items: str = ""


_SHOW, _STATS = "commands.show.show", "commands.stats.report"
_DOCUMENTS: Mapping[str, _Printed] = {
    "check": _Printed("tokfmt check --json", ("commands.check.check:Checked",)),
    "codes": _Printed("tokfmt check --explain CODE --json", ("commands.check.codes:Codes",)),
    "convert": _Printed("tokfmt convert --json", ("commands.convert.request:Conversion",)),
    "demo": _Printed("tokfmt demo DIR --json", ("sample:Sample",)),
    "diff": _Printed("tokfmt diff --json", ("commands.compare.diff:DiffReport",)),
    "error": _Printed("any command with --json that fails", ("cli.schemas:ErrorDocument",)),
    "fleet": _Printed("tokfmt info A B --json", ("commands.fleet:Fleet",)),
    "formats": _Printed("tokfmt formats --json", ("cli.formats:Formats",)),
    "index": _Printed("tokfmt index --json", ("formats.jsonl.index:IndexReport",)),
    "info": _Printed("tokfmt info --json", ("commands.info:Overview",)),
    "overlap": _Printed("tokfmt overlap --json", ("commands.overlap.report:OverlapReport",)),
    "recipe": _Printed("tokfmt recipe --explain --json", ("mix.tree:Explained", "mix.draft:Previewed")),
    "schemas": _Printed("tokfmt schema --json", ("cli.schemas:Schemas",)),
    "show": _Printed("tokfmt show --json", (f"{_SHOW}:Preview",), "commands.show.step:PrintedSequence"),
    "show-raw": _Printed("tokfmt show --raw --json", ("commands.show.parts:PrintedRaw",)),
    "show-samples": _Printed("tokfmt show --samples --json", (f"{_SHOW}:SampleView",), f"{_SHOW}:PrintedSample"),
    "show-step": _Printed(
        "tokfmt show --step S --json", ("commands.show.step:Step",), "commands.show.step:PrintedStepSample"
    ),
    "show-seen": _Printed("tokfmt show --seen SOURCE#SEL --json", ("commands.show.seen:Seen",)),
    "stats": _Printed("tokfmt stats --json", (f"{_STATS}:Statistics", f"{_STATS}:SeveralStatistics")),
}


class ErrorFacts(TypedDict):
    """An error, and the facts of its type.

    Attributes:
        message: The line that is printed on stderr.
        type: The class of the error.
        what: The problem.
        offset: The byte offset; None if the problem is not at one place.
    """

    message: str
    exit_code: int
    type: NotRequired[str]
    path: NotRequired[str]
    what: NotRequired[str]
    offset: NotRequired[int | None]
    expected: NotRequired[Any]
    found: NotRequired[Any]
    remedy: NotRequired[str | None]


@dataclass(frozen=True, slots=True)
class ErrorDocument:
    """An error."""

    error: ErrorFacts


class _End(TypedDict, total=False):
    """The end of a document.

    Attributes:
        transfer: The requests to stores; absent if no store was used.
    """

    transfer: Transfer


class _EndOfList(_End, total=False):
    """The end of a document with a long list.

    Attributes:
        stopped_after: The number of --limit if there may be more, else None; absent after an error, and of steps.
        error: The error that ended the list; absent without one.
        transfer: The requests to stores; absent if no store was used.
    """

    stopped_after: int | None
    error: ErrorFacts


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema of the list.

    Attributes:
        id: The $id, with the number of the schema.
    """

    name: str
    id: str
    title: str


@dataclass(frozen=True, slots=True)
class Schemas:
    """The schemas."""

    schemas: list[Schema]


def names() -> list[str]:
    """Return the names of the documents, in alphabetical order."""
    return sorted(_DOCUMENTS)


def listed() -> Schemas:
    """Return the list of schemas."""
    return Schemas([Schema(name, f"urn:tokfmt:{name}:1", _title(name)) for name in names()])


def _title(name: str) -> str:
    return f"tokfmt.{name}/1: the output of `{_DOCUMENTS[name].by}`"


def schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of a document, such as that of "convert"."""
    import msgspec

    name = name.removeprefix("tokfmt.").removesuffix("/1")  # as `schema` of a document has it
    if name not in _DOCUMENTS:
        expected = f"is not the name of a schema (expected {', '.join(names())})"
        raise OptionError(f"{printable(name)}: {expected}", name="schema", nearest=nearest(name, names()))
    _, classes, items = _DOCUMENTS[name]
    kinds = [_class(one) for one in (*classes, items) if one]
    end = _EndOfList if items else _End
    refs, parts = msgspec.json.schema_components([*kinds, end], schema_hook=_other, ref_template="#/$defs/{name}")
    for part in parts.values():
        _describe(part)
    first: dict[str, Any] = {"schema": {"const": f"tokfmt.{name}/1", "description": "The name and the number."}}
    first |= {"schema_version": {"const": 1}} if name == "stats" else {}
    listed = {"shown": {"type": "array", "items": refs[len(classes)]}} if items else {}
    ends, wholes = parts.pop(end.__name__)["properties"], list[dict[str, Any]]()
    for kind in kinds[: len(classes)]:
        part, hidden = parts[kind.__name__], {one.name for one in fields(kind) if not one.repr}
        keys = first | {key: node for key, node in part["properties"].items() if key not in hidden} | listed
        wholes.append({**part, "properties": keys | ends, "required": list(keys)})
    text = json.dumps([wholes, parts])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:tokfmt:{name}:1",
        "title": _title(name),
        **(wholes[0] if len(wholes) == 1 else {"anyOf": wholes}),
        "$defs": {key: part for key, part in parts.items() if f'"#/$defs/{key}"' in text},
    }


def _class(path: str) -> type:
    module, _, name = path.partition(":")
    found: type = getattr(import_module(f"tokfmt.{module}"), name)
    return found


def _other(kind: type) -> dict[str, Any]:
    """Return the schema of a type that msgspec does not know: an array, any value, or a path."""
    if kind.__name__ == "ndarray":
        return {"type": "array", "items": {"type": "integer"}}
    return {"type": ["array", "boolean", "null", "number", "object", "string"] if kind is object else "string"}


def _describe(part: dict[str, Any]) -> None:
    """Move the attributes of a docstring to their keys, and require every key that has a default."""
    text, _, attributes = cleandoc(part.get("description", "")).replace("None", "null").partition("Attributes:")
    part["description"] = " ".join(text.split())
    del part["title"]  # the name of the class
    keys = part["properties"]
    for key, node in keys.items():
        if "default" in node:
            del node["default"]
            part["required"].append(key)
    for about, words in re.findall(r"^    (\w[\w, ]*): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE):
        for key in about.split(", "):
            if key in keys:
                keys[key]["description"] = " ".join(words.split())
