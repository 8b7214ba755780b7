"""Continue an unfinished conversion, or refuse to continue it if the request has changed.

A conversion that keeps its work (`--resume`, `--task`) writes `conversion.json` to the hidden directory beside its
destination. The file has every option that the output depends on, and the size, modification time and inode of each
source file. A run that continues the conversion has to have the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from tokfmt.base.version import __version__
from tokfmt.commands.convert.request import Request
from tokfmt.core.format import Format
from tokfmt.errors import (
    ConversionError,
    CorruptError,
    EngineDifferenceError,
    LossyConversionError,
    ShortfallError,
    SourceChangedError,
    TokenRangeError,
    TruncatedError,
    UnendedError,
    UnsafeError,
    UnsupportedError,
    VerificationError,
)
from tokfmt.files.durable import replace_file
from tokfmt.files.journal import Journal, Task, keep_only
from tokfmt.files.locks import make_private
from tokfmt.files.place import LocalPlace, Place, local_path, place_of
from tokfmt.files.publisher import REQUEST, Publisher, hidden_sibling, remove_leftover
from tokfmt.files.replacing import resolve_link
from tokfmt.files.store import Identity
from tokfmt.source.content import Manifest
from tokfmt.source.manifest import extent, file_differences, read_manifest
from tokfmt.source.request import SourceFiles, words_of
from tokfmt.wording import counted, printable

SCHEMA = "tokfmt.conversion/1"
Facts = Mapping[str, object]
Snapshot = Mapping[Place, Identity]

_IS_KEPT = "The finished work is kept in "
_FREE = {
    "jobs",
    "executor",
    "overwrite",
    "verify",
    "dry_run",
    "scale",
    "spool",
    "manifest",
    "resume",
    "task",
    "part",
    "finish",
    "destination",
    "piped",
}
_RESOLVED = {
    "to",
    "to_options",
    "to_eos",
    "seq_len",
    "tokenizer",
}  # `Destination.facts` has what they resolve to
_NAMES = {
    "source.options": "from-opt",
    "source.format": "from",
    "source.paths": "the list of sources",
    "shares": "the shares of the splits",
}
"""Names of facts that differ from the names of their fields: an option, or a phrase with spaces."""


def plain(value: Any) -> Any:
    """Return a request, or a part of one, as values that JSON can represent."""
    if isinstance(value, Place):
        return value.text
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return words_of(value)
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, frozenset):
        return sorted(value)
    return [plain(item) for item in value] if isinstance(value, (tuple, list)) else value


def facts_of(request: Request, resolved: Facts, before: Snapshot) -> dict[str, object]:
    """Return the facts that the output depends on, by the name of the option or by a phrase."""
    asked = {key: value for key, value in _absolute(request).items() if key not in _FREE | _RESOLVED}
    asked |= {f"source.{key}": value for key, value in asked.pop("source").items()}
    asked |= asked.pop("arrangement")
    if asked["shares"]:
        del asked["shares"]["seeded"], asked["shares"]["dealt"]
    facts = {_NAMES.get(key, (key.partition(".")[2] or key).replace("_", "-")): v for key, v in asked.items()}
    tasks = request.task.count if request.task else request.finish
    facts |= {"the version of tokfmt": __version__, "the number of tasks": tasks, **resolved}
    facts |= {f"the source {path.normalized().text}": list(status) for path, status in before.items()}
    return dict(json.loads(json.dumps(facts)))


def digest_of(facts: Facts) -> str:
    """Return a digest of the facts without the sources, which the manifest lists."""
    from xxhash import xxh3_128_hexdigest

    asked = {key: _nameless(value) for key, value in facts.items() if not key.startswith("the source ")}
    for name in (_NAMES["source.paths"], "every-end"):  # What is written does not depend on what was presumed.
        asked.pop(name, None)
    return xxh3_128_hexdigest(json.dumps(asked, sort_keys=True).encode())


def digest_of_sources(facts: Facts) -> str:
    """Return a digest of the identities of the sources."""
    from xxhash import xxh3_128_hexdigest

    sources = {key: value for key, value in facts.items() if key.startswith("the source ")}
    return xxh3_128_hexdigest(json.dumps(sources, sort_keys=True).encode())


def finished_in_stores(
    destinations: Sequence[Place], format_: Format, facts: Facts, *, verified: bool
) -> list[Manifest]:
    """Return `finished` for destinations in stores. Their manifests have a digest of the identities of the sources."""
    manifests, wanted = [], {"digest": digest_of(facts), "sources": digest_of_sources(facts)}
    for destination in destinations:
        manifest = read_manifest(destination)
        made = manifest.content.get("request")
        if not isinstance(made, Mapping) or (verified and not made.get("verified")):
            return []
        if any(made.get(key) != digest for key, digest in wanted.items()) or not destination.is_there():
            return []
        here = SourceFiles(destination, format_, tuple(format_.files(destination)))
        if any(file_differences(here, manifest)):
            return []
        manifests.append(manifest)
    return manifests


def finished(
    destinations: Sequence[LocalPlace], format_: Format, digest: str, read: Sequence[SourceFiles], *, verified: bool
) -> list[Manifest]:
    """Return the manifests of destinations that an earlier run of the same request completed. If a source has changed
    since, the request counts as another one. With `verified`, only destinations that were read back and compared count.
    The list is empty if a destination is incomplete or has changed.
    """
    manifests = []
    for destination in destinations:
        manifest = read_manifest(destination)
        made = manifest.content.get("request")
        if not isinstance(made, Mapping) or made.get("digest") != digest or (verified and not made.get("verified")):
            return []
        listed = manifest.content.get("sources")
        sources = [[one.get("path"), one.get("bytes")] for one in listed if isinstance(one, dict)] if listed else []
        if sources != [[str(one.path), extent(one.files)["bytes"]] for one in read]:
            return []
        beside = local_path(manifest.path, "a manifest")
        files = [file for one in read for file in one.files if isinstance(file, LocalPlace)]
        if len(files) < sum(len(one.files) for one in read):  # a store does not tell when an object was changed
            return []
        written = os.stat(beside).st_mtime_ns
        if any(os.stat(file).st_ctime_ns > written for file in files):
            return []
        own = [file for file in format_.files(destination) if isinstance(file, LocalPlace)]
        here = SourceFiles(destination, format_, tuple(own))
        if not os.path.lexists(destination) or any(file_differences(here, manifest)):
            return []
        manifests.append(manifest)
    for destination in destinations:
        _clear(destination, digest)
    return manifests


def _clear(destination: Path, digest: str) -> None:
    """Remove what a run of this request, and no other, left when it was killed after it published."""
    try:
        recorded = read_conversion(hidden_sibling(resolve_link(destination)) / REQUEST)
    except CorruptError:
        return
    if recorded is None or digest_of(recorded["facts"]) == digest:
        remove_leftover(resolve_link(destination))


def here() -> str:
    """Return the working directory; "" if it no longer exists, which does not matter for absolute paths."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _absolute(request: Request) -> dict[str, Any]:
    """Return a request as values for JSON, with absolute paths of sources, rejects and tokenizer."""
    content: dict[str, Any] = plain(request)
    content["source"]["paths"] = [place_of(path).normalized().text for path in content["source"]["paths"]]
    if request.rejects is not None:
        content["rejects"] = request.rejects.normalized().text
    for name in ("tokenizer", "from_tokenizer"):
        if content[name] is not None and os.path.exists(content[name]):
            content[name] = os.path.abspath(content[name])
    return content


@contextlib.contextmanager
def resumed(
    place: Publisher,
    request: Request,
    facts: Facts,
    note: Callable[[str], None],
    begun: Callable[[], contextlib.AbstractContextManager[None]],
) -> Iterator[None]:
    """Enter the hidden directory of a conversion that keeps its work; `begun` tells a store that it runs."""
    in_tasks = request.in_tasks
    with place as staging:
        path = staging.home / REQUEST
        try:  # without conversion.json there is nothing to keep yet, unless the directory belongs to tasks
            recorded = read_conversion(path)
            staging.keep = in_tasks or recorded is not None
        except BaseException:  # a signal can interrupt the reading
            staging.keep = in_tasks or path.exists()
            raise
        new = _agree(staging, request, facts, recorded, note)
        task = request.task or Task()
        also = [Task(k, request.finish) for k in range(request.finish)]
        with Journal(staging.home, task, also) as journal, begun():
            staging.journal = journal
            try:
                _tidy(staging, task, everything=in_tasks)
                if not new and not in_tasks:
                    parts = f": {counted(journal.finished, 'part')} finished" if journal.finished else ""
                    note(f"continuing the work in {staging.home.name}{parts}")
                yield
            except BaseException as error:
                curable = isinstance(error, _CURED_BY_OPTIONS) or bool(getattr(error, "accepted_by", ""))
                hopeless = not _text_kinds(staging) if curable else isinstance(error, _HOPELESS)
                staging.keep = (not hopeless and not journal.empty) or (
                    in_tasks and not isinstance(error, VerificationError)
                )
                if staging.keep and not hopeless:
                    again = f"again with --resume{' and these options' if curable else ''}"
                    _say_kept(error, staging.home.name, "the same again" if in_tasks else again)
                raise
        staging.keep = not staging.published


def _say_kept(error: BaseException, home: str, again: str) -> None:
    """Add a note that names the hidden directories with kept work; one note for all destinations of a conversion."""
    notes = getattr(error, "__notes__", [])
    homes = [note.removeprefix(_IS_KEPT).partition(": run ")[0] for note in notes if note.startswith(_IS_KEPT)]
    notes[:] = [note for note in notes if not note.startswith(_IS_KEPT)]
    error.add_note(f"{_IS_KEPT}{', '.join([home, *homes])}: run {again} to continue")


def _agree(
    staging: Publisher, request: Request, facts: Facts, recorded: Facts | None, note: Callable[[str], None]
) -> bool:
    """Compare the facts with those of the kept work, or record them if there is none.

    Facts that only the steps after tokenization depend on may change. The tokenized text is then kept, and the other
    work is removed. The result is true if no work was kept.
    """
    path = staging.home / REQUEST
    asked = {"request": _absolute(request), "here": here(), "given": plain(request)}
    written = json.dumps({"schema": SCHEMA, "facts": facts, **asked}).encode()
    if recorded is None:
        replace_file(path, written)
        return True
    was: Facts = dict(recorded["facts"])  # type: ignore[call-overload]
    keys = [key for key in {**was, **facts} if _nameless(was.get(key)) != _nameless(facts.get(key))]
    if not keys:
        return False
    if "every-end" in keys and was["every-end"]:
        raise UnendedError(place_of(request.source.paths[0]).text, "is being read by the end of each sequence")
    change = _change(keys[0], was.get(keys[0]), facts.get(keys[0]))
    more = f" (and {len(keys) - 1} more)" if len(keys) > 1 else ""
    later = not request.in_tasks and _LATER.issuperset(keys) and not _renumbers(was, facts)
    if later and (_text_kinds(staging) or not any(staging.home.glob("created*.json"))):
        staging.disown()
        _forget_later(staging)
        replace_file(path, written)
        note(f"{change}{more}: the tokenized text is kept, and the rest is done again")
        return False
    again = "run once without --resume"
    over = f"delete {staging.home.name}" if request.in_tasks else again
    raise ConversionError(
        f"{printable(staging.given)}: an unfinished conversion is kept here, and {change}{more}. "
        f"Ask for the same to continue it; to start over, {over}"
    )


_LATER = {
    "eos",
    "every-end",
    "bos",
    "to-bos",
    "allow-loss",
    "the separator",
    "the place of the separator",
    "to",
    "to-opt",
    "shuffle",
    "the shares of the splits",
    "region",
}
"""Facts that tokenized text does not depend on."""


def _renumbers(was: Facts, now: Facts) -> bool:
    """Return True if a selection now counts other records, because records that are left out have no number."""
    left_out = ["invalid-lines" in str(facts.get("allow-loss")) for facts in (was, now)]
    return now.get("select") is not None and left_out[0] != left_out[1]


def _text_kinds(staging: Publisher) -> list[str]:
    """Return the kinds of journal entries that record tokenized text."""
    kinds = [entry.name.removeprefix(KEPT) for entry in staging.scratch.glob(f"{KEPT}source-*")]
    return [f"shard of {name}" for name in kinds]


def _forget_later(staging: Publisher) -> None:
    """Remove the work after tokenization, in an order that an interruption leaves safe to repeat."""
    home, texts = staging.home, set(_text_kinds(staging))
    keep_only(home / Task().journal, texts.__contains__)
    for path in sorted(home.glob("*.json"), key=lambda path: not path.name.startswith("committed")):
        if path.name != REQUEST and not path.name.startswith("blocks-source-"):
            path.unlink()
    for entry in list(os.scandir(staging.scratch)):
        if not entry.name.startswith(f"{KEPT}source-"):
            shutil.rmtree(entry.path)


def _nameless(value: object) -> object:
    """Return a fact without the name of the tokenizer, because the output does not depend on it."""
    return {**value, "name": ""} if isinstance(value, Mapping) and "name" in value else value


def _change(key: str, was: object, now: object) -> str:
    if key.startswith("the source "):
        name = printable(f"the source {key.removeprefix('the source ').removeprefix(here() + os.sep)}")
        return f"{name} {'is new' if was is None else 'is gone' if now is None else 'has changed since'}"
    name = key if " " in key else f"--{key}"
    return f"{name} was {printable(_short(was))} and is {printable(_short(now))} now"


def _short(value: object) -> str:
    if isinstance(value, Mapping) and "digest" in value:  # the fact describes a tokenizer
        return "{name} ({digest}, {engine}, special tokens as {special_tokens})".format(**value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}..."


def read_conversion(path: Path) -> dict[str, Any] | None:
    """Return the content of a `conversion.json`; None if there is none."""
    try:
        content = json.loads(path.read_bytes())
    except OSError:
        return None
    except ValueError:
        content = None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise unknown_request(path)
    if not all(isinstance(content.get(part), dict) for part in ("facts", "given", "request")):
        raise unknown_request(path)
    return content


def unknown_request(path: Path) -> CorruptError:
    """Return the error for a `conversion.json` that is damaged."""
    problem = "does not state what is converted: the file is damaged"
    return CorruptError(path, problem, remedy=f"Delete {printable(path.parent)} to start over")


def _tidy(staging: Publisher, task: Task, *, everything: bool) -> None:
    """Remove files that a killed process left in scratch, except the results that its journal records."""
    if everything:  # only the directory of this task, because other tasks may run
        staging.scratch /= f"{task.index}-of-{task.count}"
        shutil.rmtree(staging.scratch, ignore_errors=True)
        make_private(staging.scratch)
        return
    for entry in list(os.scandir(staging.scratch)):
        if entry.is_dir(follow_symlinks=False):
            if not entry.name.startswith(KEPT):
                shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


KEPT = "done-"
"""Prefix of the directories in scratch whose files the journal records."""


_CURED_BY_OPTIONS = (LossyConversionError, TokenRangeError, UnendedError)
"""Errors that other options cure; the tokenized text may still be of use then."""

_HOPELESS = (
    CorruptError,
    TruncatedError,
    UnsupportedError,
    UnsafeError,
    SourceChangedError,
    VerificationError,
    EngineDifferenceError,
    ShortfallError,
)
"""Errors that the same request raises again whenever it is continued; the work of other tasks may still be of use.

After an EngineDifferenceError, no token ID is certain. With --engine tokenizers, tokfmt encodes all text again.
"""
