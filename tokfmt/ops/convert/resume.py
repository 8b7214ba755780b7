"""Resume: where a conversion is built, and whether an unfinished one that was kept may be continued or finished there.

A conversion that may be continued (`--resume`, `--task`) says in `conversion.json`, in the hidden sibling of its
destination, what it is: every option that its output depends on, and size, modification time and inode of each source
file. Whoever continues it must ask for the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from tokfmt import registry
from tokfmt.core.atomic_output import Staging, hidden_sibling, remove_leftovers, write_whole
from tokfmt.core.errors import (
    ConversionError,
    CorruptError,
    EngineDifferenceError,
    LossyConversionError,
    ShortfallError,
    SourceChangedError,
    TokenRangeError,
    TruncatedError,
    UnsafeError,
    UnsupportedError,
    VerificationError,
)
from tokfmt.core.format import Format
from tokfmt.core.locks import check_private, make_private, own_file
from tokfmt.core.messages import Message, Option
from tokfmt.core.options import given_options
from tokfmt.core.output import resolve_link
from tokfmt.core.place import Identity
from tokfmt.core.text_format import printable
from tokfmt.core.version import __version__
from tokfmt.ops.convert.arrangement import AS_IT_IS
from tokfmt.ops.convert.request import Request
from tokfmt.ops.source.manifest import Manifest, extent, file_differences, read_manifest
from tokfmt.ops.source.request import SourceFiles, SourceRequest, words_of
from tokfmt.run.plan import Journal, NullJournal, Task, keep_only, read_journal

SCHEMA = "tokfmt.conversion/1"
Facts = Mapping[str, object]
Snapshot = Mapping[Path, Identity]

_IS_KEPT = "What was done is kept in "
_FREE = {
    "jobs",
    "executor",
    "overwrite",
    "verify",
    "dry_run",
    "manifest",
    "checksums",
    "resume",
    "task",
    "finish",
    "destination",
    "piped",
}
_RESOLVED = {"to", "to_options", "seq_len", "tokenizer"}  # the caller says what became of them
_NAMES = {
    "source.options": "from-opt",
    "source.format": "from",
    "source.paths": "the list of sources",
    "shares": "the shares of the splits",
}
"""Names of facts that differ from the names of their fields: an option, or a phrase with spaces."""


def plain(value: Any) -> Any:
    """A request, or a part of one, as JSON."""
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
    """Return all that the output depends on, by the name of the option or by a phrase.

    Args:
        resolved: What became of it: formats, separator, tokenizer.
        before: The files of the sources.
    """
    asked = {key: value for key, value in _absolute(request).items() if key not in _FREE | _RESOLVED}
    asked |= {f"source.{key}": value for key, value in asked.pop("source").items()}
    asked |= asked.pop("arrangement")
    if asked["shares"]:
        del asked["shares"]["seeded"]
    facts = {_NAMES.get(key, (key.partition(".")[2] or key).replace("_", "-")): v for key, v in asked.items()}
    tasks = request.task.count if request.task else request.finish
    facts |= {"the version of tokfmt": __version__, "the number of tasks": tasks, **resolved}
    facts |= {f"the source {os.path.abspath(path)}": list(status) for path, status in before.items()}
    return dict(json.loads(json.dumps(facts)))


def digest_of(facts: Facts) -> str:
    """A digest of what was asked for, without the sources: a manifest lists those."""
    from xxhash import xxh3_128_hexdigest

    asked = {key: _nameless(value) for key, value in facts.items() if not key.startswith("the source ")}
    asked.pop(_NAMES["source.paths"], None)
    return xxh3_128_hexdigest(json.dumps(asked, sort_keys=True).encode())


def finished(
    destinations: Sequence[Path], format_: Format, digest: str, read: Sequence[SourceFiles], *, verified: bool
) -> list[Manifest]:
    """The manifests of destinations that the same request has finished already; none if one is not, or has changed.

    Only files of the caller's own count: others can write a manifest that vouches for what they have put there.

    Args:
        digest: See `digest_of`.
        read: The sources; one that has changed since makes it another request.
        verified: Only what was read back and compared counts.
    """
    found = []
    for destination in destinations:
        manifest = read_manifest(destination)
        said = manifest.content.get("request")
        if not isinstance(said, Mapping) or said.get("digest") != digest or (verified and not said.get("verified")):
            return []
        listed = manifest.content.get("sources")
        sources = [[one.get("path"), one.get("bytes")] for one in listed if isinstance(one, dict)] if listed else []
        if sources != [[str(one.path), extent(one.files)["bytes"]] for one in read]:
            return []
        written = os.stat(manifest.path).st_mtime_ns
        if any(os.stat(file).st_ctime_ns > written for one in read for file in one.files):
            return []
        here = SourceFiles(destination, format_, tuple(format_.files(destination)))
        if not os.path.lexists(destination) or any(file_differences(here, manifest)):
            return []
        if any(os.stat(path).st_uid != os.geteuid() for path in (manifest.path, destination, *here.files)):
            return []
        found.append(manifest)
    for destination in destinations:
        _clear(destination, digest)
    return found


def _clear(destination: Path, digest: str) -> None:
    """Remove what a run that was killed right after it published has left; not what another request has begun."""
    kept = read_conversion(hidden_sibling(resolve_link(destination), "resume") / "conversion.json")
    if kept is None or digest_of(kept["facts"]) == digest:
        remove_leftovers(resolve_link(destination))


def _here() -> str:
    """The working directory; "" where it is gone, which stops nobody who names all by absolute paths."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _absolute(request: Request) -> dict[str, Any]:
    """A request as JSON that means the same in another working directory."""
    content: dict[str, Any] = plain(request)
    content["source"]["paths"] = [os.path.abspath(path) for path in content["source"]["paths"]]
    if request.rejects is not None:
        content["rejects"] = os.path.abspath(request.rejects)
    if request.tokenizer is not None and os.path.exists(request.tokenizer):
        content["tokenizer"] = os.path.abspath(request.tokenizer)
    return content


@contextlib.contextmanager
def resumed(
    place: Staging, request: Request, facts: Facts, note: Callable[[str], None]
) -> Iterator[tuple[Staging, NullJournal]]:
    """A place that is kept when a conversion is interrupted, and the journal of what is done there.

    Args:
        place: A new one, or what an earlier run has left.
        facts: See `facts_of`.
        note: Told what a person should know.

    Raises:
        ConversionError: What is kept there is another conversion, or somebody works on it; or tasks are missing.
        DestinationExistsError.
    """
    in_tasks = request.kept == "tasks"
    with place as staging:
        path = staging.home / "conversion.json"
        try:  # until there is something worth keeping; whoever else works here keeps it
            kept = read_conversion(path)
            staging.keep = in_tasks or kept is not None
        except BaseException:  # a signal
            staging.keep = in_tasks or path.exists()
            raise
        new = _agree(staging, request, facts, kept, note)
        task = request.task or Task()
        also = [Task(k, request.finish) for k in range(request.finish)]
        with Journal(staging.home, task, also) as journal:
            try:
                _tidy(staging, task, everything=in_tasks)
                if not new and not in_tasks:
                    note(f"continuing what is in {staging.sibling.name}")
                yield staging, journal
            except BaseException as error:
                words = isinstance(error, _WORDS_MEND) or bool(getattr(error, "accepted_by", ""))
                hopeless = not _text_kinds(staging) if words else isinstance(error, _HOPELESS)
                staging.keep = (not hopeless and not journal.empty) or (
                    in_tasks and not isinstance(error, VerificationError)
                )
                if staging.keep and not hopeless:
                    again = f"again with {Option('resume')}{' and these words' if words else ''}"
                    _say_kept(error, staging.sibling.name, "the same again" if in_tasks else again)
                raise
        staging.keep = not staging.published


def _say_kept(error: BaseException, home: str, again: str) -> None:
    """One note for all destinations of a conversion."""
    notes = getattr(error, "__notes__", [])
    homes = [note.removeprefix(_IS_KEPT).partition(": run ")[0] for note in notes if note.startswith(_IS_KEPT)]
    notes[:] = [note for note in notes if not note.startswith(_IS_KEPT)]
    error.add_note(Message(f"{_IS_KEPT}{', '.join([home, *homes])}: run {again} to continue"))


def _agree(staging: Staging, request: Request, facts: Facts, kept: Facts | None, note: Callable[[str], None]) -> bool:
    """Compare with what is kept, or write down what is begun; whether it is new.

    What only the steps after tokenising depend on may change: what is tokenised stays, the rest is done again.
    """
    path = staging.home / "conversion.json"
    asked = {"request": _absolute(request), "here": _here(), "given": plain(request)}
    written = json.dumps({"schema": SCHEMA, "facts": facts, **asked}).encode()
    if kept is None:
        write_whole(path, written)
        return True
    was: Facts = dict(kept["facts"])  # type: ignore[call-overload]
    keys = [key for key in {**was, **facts} if _nameless(was.get(key)) != _nameless(facts.get(key))]
    if not keys:
        return False
    change = _change(keys[0], was.get(keys[0]), facts.get(keys[0]))
    more = f" (and {len(keys) - 1} more)" if len(keys) > 1 else ""
    later = request.kept == "resume" and _LATER.issuperset(keys) and not _renumbers(was, facts)
    if later and (_text_kinds(staging) or not any(staging.home.glob("created*.json"))):
        _forget_later(staging)
        write_whole(path, written)
        note(f"{change}{more}: what is tokenized stays, the rest is done again")
        return False
    again = f"run once without {Option('resume')}"
    over = f"delete {staging.sibling.name}" if request.kept == "tasks" else again
    raise ConversionError(
        f"{printable(staging.given)}: an unfinished conversion is kept here, and {change}{more}. "
        f"Ask for the same to continue it; to start over, {over}"
    )


_LATER = {"eos", "allow-loss", "the separator", "to", "to-opt", "shuffle", "the shares of the splits", "region"}
"""Facts that tokenised text does not depend on."""


def _renumbers(was: Facts, now: Facts) -> bool:
    """Whether records are counted otherwise, for a selection: those left out have no number."""
    left_out = ["invalid-lines" in str(facts.get("allow-loss")) for facts in (was, now)]
    return now.get("select") is not None and left_out[0] != left_out[1]


def _text_kinds(staging: Staging) -> list[str]:
    """Kinds of journal entries that vouch for tokenised text."""
    found = [entry.name.removeprefix(KEPT) for entry in staging.scratch.glob(f"{KEPT}source-*")]
    return [f"shard of {name}" for name in found]


def _forget_later(staging: Staging) -> None:
    """Take away what was done after tokenising; in an order that may be cut off anywhere and done again."""
    home, texts = staging.home, set(_text_kinds(staging))
    keep_only(home / Task().journal, texts.__contains__)
    for path in sorted(home.glob("*.json"), key=lambda path: not path.name.startswith("committed")):
        if path.name != "conversion.json" and not path.name.startswith("blocks-source-"):
            path.unlink()
    for entry in list(os.scandir(staging.scratch)):
        if not entry.name.startswith(f"{KEPT}source-"):
            shutil.rmtree(entry.path)


def _nameless(value: object) -> object:
    """A fact without the name of a tokenizer, on which nothing depends."""
    return {**value, "name": ""} if isinstance(value, Mapping) and "name" in value else value


def _change(what: str, was: object, now: object) -> str:
    if what.startswith("the source "):
        name = printable(f"the source {what.removeprefix('the source ').removeprefix(_here() + os.sep)}")
        return f"{name} {'is new' if was is None else 'is gone' if now is None else 'has changed since'}"
    name = what if " " in what else f"{Option(what)}"
    return f"{name} was {printable(_short(was))} and is {printable(_short(now))} now"


def _short(value: object) -> str:
    if isinstance(value, Mapping) and "digest" in value:  # of a tokenizer
        return "{name} ({digest}, {engine}, special tokens as {special_tokens})".format(**value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}..."


def read_conversion(path: Path) -> dict[str, Any] | None:
    """What is kept in a hidden sibling; None when there is nothing of that kind."""
    try:
        with own_file(path) as fd, open(fd, "rb", closefd=False) as file:
            content = json.loads(file.read())
    except (OSError, ValueError):
        return None
    ours = isinstance(content, dict) and content.get("schema") == SCHEMA
    return content if ours else None


def request_of_tasks(destination: str | os.PathLike[str]) -> Request:
    """What the tasks of a destination were asked, which are all written.

    Raises:
        ConversionError: There are none, or of another version; or tasks are missing (they are named).
    """
    by_prefix = (one.canonical(Path(destination)) for one in registry.formats() if one.prefix)
    for place in itertools.chain([Path(destination)], by_prefix):
        home = hidden_sibling(resolve_link(place), "tasks")
        if os.path.lexists(home):
            check_private(home)
            break
    kept = read_conversion(home / "conversion.json")
    if kept is None:
        raise ConversionError(
            f"{printable(destination)}: there are no tasks of it. Write them first, with {Option('task', 'I/N')}"
        )
    version = kept["facts"].get("the version of tokfmt")
    if version != __version__:
        raise ConversionError(
            f"{printable(destination)}: its tasks were written by tokfmt {version}, this is {__version__}"
        )
    named = "given" if kept.get("here") == _here() else "request"  # as they would be named without tasks
    request = replace(_rebuilt(kept[named]), destination=Path(destination))
    _need_all(home, request.destination, request.finish)
    return request


def _rebuilt(stored: Mapping[str, Any]) -> Request:
    """The request that all tasks shared, from JSON."""
    given = dict(stored["source"])
    given |= {"paths": tuple(given["paths"]), "allow_loss": frozenset(given["allow_loss"])}
    given["options"] = given_options(given["options"])
    return Request(
        **{
            **stored,
            "source": SourceRequest(**given),
            "to_options": given_options(stored["to_options"]),
            "arrangement": AS_IT_IS,
            "task": None,
            "rejects": None if stored["rejects"] is None else Path(stored["rejects"]),
            "piped": {},
            "finish": int(stored["task"]["count"]),
        }
    )


def _need_all(home: Path, destination: Path, count: int) -> None:
    missing = [task for task in (Task(k, count) for k in range(count)) if not _written(home, task)]
    if not missing:
        return
    begun = [task.index for task in missing if (home / task.journal).exists()]
    listed = _listed([task.index for task in missing])
    which = f"task {missing[0]} is missing" if len(missing) == 1 else f"tasks {listed} of {count} are missing"
    why = f" (begun, not finished: {_listed(begun)})" if begun else ""
    raise ConversionError(
        f"{printable(destination)}: {which}{why}. Run it with the same words and "
        f"{Option('task', f'{missing[0].index}/{count}')}"
    )


def _written(home: Path, task: Task) -> bool:
    return any(kind == "task" for kind, _, _ in read_journal(home / task.journal)[0])


def _listed(numbers: Sequence[int], most: int = 20) -> str:
    more = f" and {len(numbers) - most} more" if len(numbers) > most else ""
    return ", ".join(map(str, numbers[:most])) + more


def _tidy(staging: Staging, task: Task, *, everything: bool) -> None:
    """Remove what a killed process left in scratch, but for the results that its journal vouches for."""
    if everything:  # of this task; the others may be at work
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
"""How directories in scratch begin whose files the journal vouches for."""


_WORDS_MEND = (LossyConversionError, TokenRangeError)
"""Errors that other words mend, with which what is tokenised may still be of use."""

_HOPELESS = (
    CorruptError, TruncatedError, UnsupportedError, UnsafeError, SourceChangedError, VerificationError,
    EngineDifferenceError, ShortfallError,
)  # fmt: skip
"""Errors that the same request would meet again, however often it is continued; other tasks may yet be of use.

After an EngineDifferenceError all ids are in doubt: with --engine tokenizers they are made anew.
"""
