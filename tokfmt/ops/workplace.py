"""Where a conversion is built, and whether an unfinished one that was kept may be continued there.

A conversion that may be continued (`--resume`, `--shard`) says in `conversion.json`, in the hidden sibling of its
destination, what it is: every option that its output depends on, and size, modification time and inode of each source
file. Whoever continues it must ask for the same.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tokfmt
from tokfmt.core.durable import write_whole
from tokfmt.core.errors import (
    ConversionError,
    CorruptError,
    LossyConversionError,
    SourceChangedError,
    TokenRangeError,
    TruncatedError,
    UnsafeError,
    UnsupportedError,
    VerificationError,
    printable,
)
from tokfmt.core.publish import Staging
from tokfmt.run.journal import Forgetful, Journal, Shard

if TYPE_CHECKING:
    from tokfmt.ops.request import Request

SCHEMA = "tokfmt.conversion/1"
Facts = Mapping[str, object]
Snapshot = Mapping[Path, tuple[int, int, int]]

_IS_KEPT = "What was done is kept in "
_FREE = {"jobs", "executor", "overwrite", "verify", "dry_run", "manifest", "resume", "shard", "finish", "destination"}
_RESOLVED = {"to", "to_options", "seq_len", "tokenizer"}  # the caller says what became of them
_WORDS = {
    "source.options": "--from-opt", "source.format": "--from", "source.paths": "the list of sources",
    "shares": "what --split deals out",
}  # fmt: skip


def plain(value: Any) -> Any:
    """A request, or a part of one, as JSON."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return [f"{key}={item}" for key, item in value.items()]
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, frozenset):
        return sorted(value)
    return [plain(item) for item in value] if isinstance(value, (tuple, list)) else value


def facts_of(request: Request, resolved: Facts, before: Snapshot) -> dict[str, object]:
    """All that the output depends on, in words that a message can use.

    Args:
        request: What was asked for.
        resolved: What became of it: formats, separator, tokenizer.
        before: The files of the sources.
    """
    asked = {key: value for key, value in _absolute(request).items() if key not in _FREE | _RESOLVED}
    asked |= {f"source.{key}": value for key, value in asked.pop("source").items()}
    asked |= asked.pop("arrangement")
    if asked["shares"]:
        del asked["shares"]["seeded"]
    facts = {_WORDS.get(key, f"--{key.partition('.')[2] or key}".replace("_", "-")): v for key, v in asked.items()}
    shards = request.shard.count if request.shard else request.finish
    facts |= {"the version of tokfmt": tokfmt.__version__, "the number of shards": shards, **resolved}
    facts |= {f"the source {os.path.abspath(path)}": list(status) for path, status in before.items()}
    return dict(json.loads(json.dumps(facts)))


def _absolute(request: Request) -> dict[str, Any]:
    """A request as JSON that means the same in another working directory."""
    content: dict[str, Any] = plain(request)
    content["source"]["paths"] = [os.path.abspath(path) for path in content["source"]["paths"]]
    if request.tokenizer is not None and os.path.exists(request.tokenizer):
        content["tokenizer"] = os.path.abspath(request.tokenizer)
    return content


@contextlib.contextmanager
def workplace(request: Request, facts: Facts, note: Callable[[str], None]) -> Iterator[tuple[Staging, Forgetful]]:
    """Where to build, and the journal of what is done.

    Raises:
        ConversionError: What is kept there is another conversion, or somebody works on it; or shards are missing.
        DestinationExistsError.
    """
    if not request.kept:
        with Staging(request.destination, overwrite=request.overwrite) as staging:
            for name in staging.removed:
                note(f"removed {name}, which an unfinished conversion had left; --resume would have continued it")
            yield staging, Forgetful()
        return
    sharded = request.kept == "shards"
    place = Staging(
        request.destination, overwrite=request.overwrite, kept=request.kept, shared=request.shard is not None
    )
    with place as staging:
        # until there is something worth keeping; whoever else works here keeps it
        staging.keep = sharded or read_conversion(staging.home / "conversion.json") is not None
        new = _agree(staging, request, facts)
        shard = request.shard or Shard()
        also = [Shard(k, request.finish) for k in range(request.finish)]
        with Journal(staging.home, shard, also) as journal:
            try:
                _tidy(staging, shard, everything=sharded)
                if not new and not sharded:
                    note(f"continuing what is in {staging.home.name}")
                yield staging, journal
            except BaseException as error:
                hopeless = isinstance(error, _HOPELESS)
                staging.keep = (not hopeless and not journal.empty) or (
                    sharded and not isinstance(error, VerificationError)
                )
                if staging.keep and not hopeless:
                    _say_kept(error, staging.home.name, "the same again" if sharded else "again with --resume")
                raise
        staging.keep = not staging.published


def _say_kept(error: BaseException, home: str, again: str) -> None:
    """One note for all destinations of a conversion."""
    notes = getattr(error, "__notes__", [])
    homes = [note.removeprefix(_IS_KEPT).partition(": run ")[0] for note in notes if note.startswith(_IS_KEPT)]
    notes[:] = [note for note in notes if not note.startswith(_IS_KEPT)]
    error.add_note(f"{_IS_KEPT}{', '.join([home, *homes])}: run {again} to continue")


def _agree(staging: Staging, request: Request, facts: Facts) -> bool:
    """Compare with what is kept, or write down what is begun; whether it is new."""
    path = staging.home / "conversion.json"
    kept = read_conversion(path)
    if kept is None:
        write_whole(path, json.dumps({"schema": SCHEMA, "facts": facts, "request": _absolute(request)}).encode())
        return True
    was: Facts = kept["facts"]
    changed = [_change(key, was.get(key), facts.get(key)) for key in {**was, **facts} if was.get(key) != facts.get(key)]
    if changed:
        over = f"delete {staging.home.name}" if request.kept == "shards" else "run once without --resume"
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        raise ConversionError(
            f"{printable(staging.destination)}: an unfinished conversion is kept here, and {changed[0]}{more}. "
            f"Ask for the same to continue it; to start over, {over}"
        )
    return False


def _change(what: str, was: object, now: object) -> str:
    if what.startswith("the source "):
        if was is None or now is None:
            return f"{printable(what)} {'is new' if was is None else 'is gone'}"
        return f"{printable(what)} has changed since"
    return printable(f"{what} was {_short(was)} and is {_short(now)} now")


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}..."


def read_conversion(path: Path) -> dict[str, Any] | None:
    """What is kept in a hidden sibling; None when there is nothing of that kind."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    ours = isinstance(content, dict) and content.get("schema") == SCHEMA
    return content if ours else None


def _tidy(staging: Staging, shard: Shard, *, everything: bool) -> None:
    """Remove what a killed process left in scratch, but for the results that its journal vouches for."""
    if everything:  # of this shard; the others may be at work
        staging.scratch /= f"{shard.index}-of-{shard.count}"
        shutil.rmtree(staging.scratch, ignore_errors=True)
        staging.scratch.mkdir()
        return
    for entry in list(os.scandir(staging.scratch)):
        if entry.is_dir(follow_symlinks=False):
            if not entry.name.startswith(KEPT):
                shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


KEPT = "done-"
"""How directories in scratch begin whose files the journal vouches for."""


_HOPELESS = (
    CorruptError, TruncatedError, UnsupportedError, UnsafeError, SourceChangedError,
    LossyConversionError, TokenRangeError, VerificationError,
)  # fmt: skip
"""Errors that the same request would meet again, however often it is continued; other shards may yet be of use."""
