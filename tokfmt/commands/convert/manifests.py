"""Make the manifests beside the destinations of a conversion. `commands.source.manifest` describes their keys."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tokfmt import registry
from tokfmt.base.version import __version__
from tokfmt.commands.convert.request import Conversion
from tokfmt.commands.source.content import Manifest
from tokfmt.commands.source.manifest import (
    LITTLE,
    SCHEMA,
    checksum_contradiction,
    extent,
    fingerprint,
    written_files,
)
from tokfmt.commands.source.request import SourceFiles
from tokfmt.files.place import Place
from tokfmt.run.progress import Progress

if TYPE_CHECKING:
    from tokfmt.files.publisher import Publisher

_LISTED = 20_000  # sources listed one by one: tokfmt reads a manifest of at most 16 MiB


def manifests(
    done: Conversion,
    sources: Sequence[SourceFiles],
    publishers: Mapping[Place, Publisher],
    given: Mapping[str, object],
    progress: Progress,
    jobs: int,
    *,
    checksums: bool = False,
    stated: Mapping[Place, Manifest] | None = None,
    outputs: Mapping[Place, Mapping[str, Any]] | None = None,
) -> dict[Place, bytes]:
    """Return the manifest of each destination, as bytes by path.

    Args:
        done: The result of the conversion.
        sources: The sources, and the datasets that recipes among them name.
        publishers: The destinations, which are not published yet.
        given: Further keys: options, selection, shares, the request.
        progress: Receives the number of datasets whose checksum is done.
        jobs: Number of files that are read at a time for checksums.
        checksums: Read large sources again for their checksums. Without it, tokfmt reads at most 64 MiB of sources in
            all, because sources may take terabytes.
        stated: The manifests of the sources, which their checksums are compared with (default: they are not compared).
        outputs: The size, number and checksum of the files of each destination (default: they are read).

    Raises:
        CorruptError: A source has another checksum than its manifest states, and is not read in part.
    """
    progress.phase("checksums", len(sources) + len(publishers), "files")
    if outputs is None:
        format_ = registry.get(done.format)
        outputs = {
            path: fingerprint(one.path, written_files(format_, one.path), jobs) for path, one in publishers.items()
        }
    read = checksums or sum(extent(one.files)["bytes"] for one in sources) <= LITTLE
    described = _described(sources, progress, jobs if read else 0, {} if done.partial else stated or {})
    found = {}
    for path in publishers:
        part = done if len(publishers) == 1 else _part(done, path)
        found[path] = _manifest(part, path.parent, {**described, "output": outputs[path], **given})
        progress.advance(1)
    return found


def with_objects(manifest: bytes, objects: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a manifest whose output lists its objects in a store, unless there are too many for a manifest."""
    content = json.loads(manifest)
    if len(objects) <= _LISTED:
        content["output"]["objects"] = list(objects)
    return _text(content)


def _described(
    sources: Sequence[SourceFiles], progress: Progress, jobs: int, stated: Mapping[Place, Manifest]
) -> dict[str, object]:
    """Return path, format, size and checksum of each source, and only sums of those beyond the first 20,000.

    Args:
        sources: The datasets to describe.
        progress: Receives the number of sources that are done.
        jobs: Number of files that are read at a time for checksums; 0 to leave checksums out.
        stated: The manifests that checksums are compared with.
    """
    import xxhash

    listed, more, total, count = list[dict[str, Any]](), xxhash.xxh3_128(), 0, 0
    for number, one in enumerate(sources):
        facts = fingerprint(one.path, one.files, jobs, one.opened) if jobs else extent(one.files)
        progress.advance(1)
        manifest = stated.get(one.path) if jobs else None
        if manifest is not None and (wrong := checksum_contradiction(one.path, manifest, facts)):
            raise wrong
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


def _part(done: Conversion, destination: Place) -> Conversion:
    """Return the result of one of several destinations."""
    splits = {name: split for name, split in done.splits.items() if split["destination"] == str(destination)}
    facts: Any = next(iter(splits.values()))
    return replace(done, **facts, splits=splits)


def _portable(made: Mapping[str, Any], home: Place) -> Mapping[str, Any]:
    """Return a tokenizer as a manifest in `home` names it: a local file also has its path, relative to `home`."""
    place, rest = made.get("path", made.get("name")), {key: value for key, value in made.items() if key != "path"}
    if not isinstance(place, str) or not home.is_local or not os.path.exists(place):
        return rest
    return {**rest, "path": os.path.relpath(os.path.realpath(place), home.real().text)}


def _manifest(done: Conversion, home: Place, facts: Mapping[str, object]) -> bytes:
    content = {
        "schema": SCHEMA,
        "tokfmt": __version__,
        "format": done.format,
        "sequences": done.sequences,
        "tokens": done.tokens,
        "max_id": done.max_id,
        "eos_id": done.separator["eos_id"],
        "eos_from": done.separator["from"],
        "separators": done.separators,
        "bos_id": done.lead["bos_id"],
        "bos_stored": done.lead["stored"],
        "leads": done.leads,
        "tokenizer": None if done.tokenizer is None else _portable(done.tokenizer, home),
        "shuffle": done.shuffle,
        "recipe": done.recipe,
        "labels": done.labels,
        "splits": done.splits,
        "losses": done.losses,
        "notes": done.notes,
        **({"prepared": done.prepared} if done.prepared else {}),
        **({"partial": done.partial} if done.partial else {}),
        **facts,
    }
    return _text(content)


def _text(content: Mapping[str, object]) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
