"""The manifests that a conversion writes beside its destinations; what they hold: `tokfmt.ops.source.manifest`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokfmt import registry
from tokfmt.core.version import __version__
from tokfmt.ops.convert.request import Conversion
from tokfmt.ops.source.manifest import LITTLE, SCHEMA, extent, fingerprint, written_files
from tokfmt.ops.source.request import SourceFiles
from tokfmt.run.execute import Progress

if TYPE_CHECKING:
    from tokfmt.core.atomic_output import Staging

_LISTED = 20_000  # what reads a manifest reads no more than 16 MiB of it


def manifests(
    done: Conversion,
    sources: Sequence[SourceFiles],
    stagings: Mapping[Path, Staging],
    given: Mapping[str, object],
    progress: Progress,
    jobs: int,
    *,
    checksums: bool = False,
) -> dict[Path, bytes]:
    """The manifest of each destination.

    Args:
        sources: What from; of a recipe what it names as well.
        stagings: The destinations, not yet published.
        given: What the user asked for: options, selection, shares.
        progress: Told how many files are done.
        jobs: Files that are read at a time for checksums.
        checksums: Read the sources again for theirs. Else that is done of little only: they may be terabytes.
    """
    progress.phase("checksums", len(sources) + len(stagings), "files")
    format_ = registry.get(done.format)
    outputs = {
        path: fingerprint(staging.path, written_files(format_, staging.path), jobs)
        for path, staging in stagings.items()
    }
    read = checksums or sum(extent(one.files)["bytes"] for one in sources) <= LITTLE
    described = _described(sources, progress, jobs if read else 0)
    found = {}
    for path in stagings:
        part = done if len(stagings) == 1 else _part(done, path)
        found[path] = _manifest(part, path.parent, {**described, "output": outputs[path], **given})
        progress.advance(1)
    return found


def _described(sources: Sequence[SourceFiles], progress: Progress, jobs: int) -> dict[str, object]:
    """Path, format, size and checksum of each source; of those beyond the first 20,000 only what they sum to.

    Args:
        progress: Told how many are done.
        jobs: Files read at a time for checksums; 0: there are none.
    """
    import xxhash

    listed, more, total, count = list[dict[str, Any]](), xxhash.xxh3_128(), 0, 0
    for number, one in enumerate(sources):
        facts = fingerprint(one.path, one.files, jobs) if jobs else extent(one.files)
        progress.advance(1)
        if number < _LISTED:
            listed.append({"path": str(one.path), "format": one.format.name, **facts})
            continue
        more.update(f"{one.path} {facts['bytes']} {facts['xxh3_128']}\n".encode("utf-8", "surrogateescape"))
        total, count = total + facts["bytes"], count + facts["files"]
    found: dict[str, object] = {"sources": listed}
    if len(sources) > _LISTED:
        others = len(sources) - _LISTED
        found["more_sources"] = {"sources": others, "bytes": total, "files": count, "xxh3_128": more.hexdigest()}
    return found


def _part(done: Conversion, destination: Path) -> Conversion:
    """What was converted to one of several destinations."""
    splits = {name: split for name, split in done.splits.items() if split["destination"] == str(destination)}
    facts: Any = next(iter(splits.values()))
    return replace(done, **facts, splits=splits)


def _portable(made: Mapping[str, Any] | None, home: Path) -> Mapping[str, Any] | None:
    """A tokenizer as a manifest in `home` names it: a file of this machine by its path from there as well."""
    if made is None:
        return None
    place, rest = made.get("path", made.get("name")), {key: value for key, value in made.items() if key != "path"}
    if not isinstance(place, str) or not os.path.exists(place):
        return rest
    return {**rest, "path": os.path.relpath(os.path.realpath(place), os.path.realpath(home))}


def _manifest(done: Conversion, home: Path, facts: Mapping[str, object]) -> bytes:
    content = {
        "schema": SCHEMA,
        "tokfmt": __version__,
        "format": done.format,
        "sequences": done.sequences,
        "tokens": done.tokens,
        "max_id": done.max_id,
        "eos_id": done.separator["eos_id"],
        "eos_from": done.separator["from"],
        "tokenizer": _portable(done.tokenizer, home),
        "shuffle": done.shuffle,
        "recipe": done.recipe,
        "labels": done.labels,
        "splits": done.splits,
        "dropped": done.dropped,
        "notes": done.notes,
        **({"prepared": done.prepared} if done.prepared else {}),
        **({"partial": done.partial} if done.partial else {}),
        **facts,
    }
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
