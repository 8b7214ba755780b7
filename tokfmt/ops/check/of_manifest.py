"""Compare a dataset with the manifest beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tokfmt.core.errors import FormatError, printable
from tokfmt.core.files import reading_error, walk
from tokfmt.core.format import Finding
from tokfmt.ops.check.verdict import Verdict
from tokfmt.ops.manifest import fingerprint, manifest_path, read_manifest
from tokfmt.ops.progress import Progress

_COPY = "Copy it again; if it was changed on purpose, remove the manifest"


def file_findings(path: Path, format_name: str, deep: bool, progress: Progress) -> Iterator[Finding]:
    """Size and number of files, and, if deep, the checksum."""
    place = manifest_path(Path(os.path.abspath(path)))
    if not os.path.lexists(place):
        return
    said = read_manifest(path)
    output = said.get("output")
    if not isinstance(output, dict):
        yield Finding("TF910", "warning", str(place), "is no manifest that tokfmt can read", "Remove it, or restore it")
        return
    if said.get("format") != format_name:
        yield Finding(
            "TF913",
            "error",
            str(path),
            f"is {format_name}; its manifest says {printable(said.get('format'))}",
            "The manifest belongs to another dataset of this name",
        )
        return
    try:
        size, files = _size(path)
        wrong = [
            f"{found:,} {unit}, the manifest says {_number(output.get(key))}"
            for key, unit, found in (("bytes", "bytes", size), ("files", "files", files))
            if output.get(key) != found
        ]
        if wrong:
            yield Finding("TF911", "error", str(path), f"has {' and '.join(wrong)}", _COPY)
        elif deep:
            progress.phase(f"checksum of {path.name}", 0, "bytes")
            digest = fingerprint(path)["xxh3_128"]
            if digest != output.get("xxh3_128"):
                yield Finding("TF912", "error", str(path), f"has the checksum {digest}, the manifest says "
                              f"{printable(output.get('xxh3_128'))}", _COPY)  # fmt: skip
    except FormatError as error:
        yield Finding("TF911", "error", error.path, error.what, _COPY)
    yield from _sources(said, path)


def _sources(said: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    """Sources that are still there, and have another size."""
    sources = said.get("sources")
    for source in sources if isinstance(sources, list) else []:
        name, bytes_ = (source.get("path"), source.get("bytes")) if isinstance(source, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(bytes_, int) or "\0" in name or not os.path.exists(name):
            continue
        try:
            size = _size(Path(name))[0]
        except FormatError:
            continue
        if size != bytes_:
            yield Finding(
                "TF914",
                "info",
                str(path),
                f"its source {printable(name)} has {size:,} bytes now, {bytes_:,} when it was converted",
                "Convert again, if it should follow its source",
            )


def count_findings(path: Path, verdict: Verdict, eos_id: int | None) -> Iterator[Finding]:
    """Compare what was read, with `eos_id` taken away, with the manifest's counts."""
    said = read_manifest(path)
    if len(said.get("splits") or ()) > 1:  # the counts are those of all splits, and one was read
        return
    alike = said.get("eos_id") == eos_id  # else tokens are counted with separators in one, and without in the other
    for key, found in (("sequences", verdict.sequences), ("tokens", verdict.tokens if alike else None)):
        expected = said.get(key)
        if isinstance(expected, int) and found is not None and expected != found:
            yield Finding(
                "TF913",
                "error",
                str(path),
                f"holds {found:,} {key}, the manifest says {expected:,}",
                "The manifest belongs to another dataset, or --eos differs from what was converted",
            )


def _size(path: Path) -> tuple[int, int]:
    """Bytes and files."""
    try:
        if not path.is_dir():
            return os.stat(path).st_size, 1
        sizes = [os.stat(base / name).st_size for base, names in walk(path) for name in names]
    except OSError as error:
        raise reading_error(error.filename or path, error) from error
    return sum(sizes), len(sizes)


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else printable(value)
