"""What a conversion says of itself beside each of its destinations; `ops.manifest` has the layout."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tokfmt
from tokfmt.core.publish import Staging
from tokfmt.ops.manifest import SCHEMA, extent, fingerprint
from tokfmt.ops.open import Source
from tokfmt.ops.progress import Progress

if TYPE_CHECKING:
    from tokfmt.ops.request import Conversion

_LITTLE = 1 << 30  # bytes
_MUCH = 16  # times what was written
_LISTED = 20_000  # what reads a manifest reads no more than 16 MiB of it


def manifests(
    done: Conversion,
    sources: Sequence[Source],
    stagings: Mapping[Path, Staging],
    given: Mapping[str, object],
    progress: Progress,
) -> dict[Path, bytes]:
    """The manifest of each destination.

    Args:
        done: What was converted.
        sources: What from; their files are read for checksums.
        stagings: The destinations, not yet published.
        given: What the user asked for: options, selection, shares.
        progress: Told how many files are done.
    """
    paths = [(source, path) for source in sources for path in source.paths]
    progress.phase("checksums", len(paths) + len(stagings), "files")
    outputs = {path: fingerprint(staging.path) for path, staging in stagings.items()}
    read = given["select"] is None or _worth_reading(paths, sum(output["bytes"] for output in outputs.values()))
    described = _described(paths, fingerprint if read else extent, progress)
    found = {}
    for path in stagings:
        part = done if len(stagings) == 1 else _part(done, path)
        found[path] = _manifest(part, {**described, "output": outputs[path], **given})
        progress.advance(1)
    return found


def _worth_reading(paths: Sequence[tuple[Source, Path]], written: int) -> bool:
    """Whether all sources are to be read for their checksums, when only some of their sequences were selected."""
    total: int = sum(extent(path)["bytes"] for _, path in paths)
    return total <= max(_LITTLE, _MUCH * written)


def _described(
    paths: Sequence[tuple[Source, Path]], measure: Callable[[Path], dict[str, Any]], progress: Progress
) -> dict[str, object]:
    """Path, format, size and checksum of each source; of those beyond the first 20,000 only what they sum to."""
    import xxhash

    listed, more, total, files = list[dict[str, Any]](), xxhash.xxh3_128(), 0, 0
    for number, (source, path) in enumerate(paths):
        facts = measure(path)
        progress.advance(1)
        if number < _LISTED:
            listed.append({"path": str(path), "format": source.format.name, **facts})
            continue
        more.update(f"{path} {facts['bytes']} {facts['xxh3_128']}\n".encode("utf-8", "surrogateescape"))
        total, files = total + facts["bytes"], files + facts["files"]
    found: dict[str, object] = {"sources": listed}
    if len(paths) > _LISTED:
        count = len(paths) - _LISTED
        found["more_sources"] = {"sources": count, "bytes": total, "files": files, "xxh3_128": more.hexdigest()}
    return found


def _part(done: Conversion, destination: Path) -> Conversion:
    """What was converted to one of several destinations."""
    splits = {name: split for name, split in done.splits.items() if split["destination"] == str(destination)}
    facts: Any = next(iter(splits.values()))
    return replace(done, **facts, splits=splits)


def _manifest(done: Conversion, facts: Mapping[str, object]) -> bytes:
    content = {
        "schema": SCHEMA,
        "tokfmt": tokfmt.__version__,
        "format": done.format,
        "sequences": done.sequences,
        "tokens": done.tokens,
        "max_id": done.max_id,
        "eos_id": done.separator["eos_id"],
        "eos_from": done.separator["from"],
        "tokenizer": done.tokenizer,
        "shuffle": done.shuffle,
        "splits": done.splits,
        "dropped": done.dropped,
        "notes": done.notes,
        **facts,
    }
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
