"""Compare a dataset with its manifest and its ledger: size, checksum, counts, and with --deep every row."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from tokfmt.core.findings import Finding
from tokfmt.core.reader import Layout, Separators, TokenReader
from tokfmt.core.records import RecordReader
from tokfmt.errors import FormatError, TokfmtError
from tokfmt.files.place import Place
from tokfmt.model.readers import is_divided
from tokfmt.run.progress import Progress
from tokfmt.source.content import Manifest, dataset_path
from tokfmt.source.manifest import (
    file_differences,
    fingerprint,
    ledger_paths,
    manifests_of_siblings,
    members_of,
    own_manifest,
    written_files,
)
from tokfmt.source.open import open_dataset
from tokfmt.source.request import SourceFiles, SourceRequest, viewed
from tokfmt.source.stored import Source
from tokfmt.wording import grouped, printable

_COPY = "Copy it again; if it was changed on purpose, remove the manifest"


class Splits:
    """The datasets that manifests name as splits of one run. Each manifest is read once."""

    def __init__(self) -> None:
        self._named: dict[tuple[Place, str], dict[str, tuple[str, int]]] = {}

    def missing(self, path: Place, place: Place) -> Iterator[Finding]:
        """Report a dataset without a manifest, if that of another split names it.

        The manifests of splits appear when all of them are there. A run that is killed before leaves them in hidden
        directories.
        """
        dataset = dataset_path(place)
        group = place.parent, "" if place.is_local else dataset.name.partition(".")[0]
        if group not in self._named:
            self._named[group] = {
                name: (_shown(manifest.path, place.parent), len(names))
                for manifest in manifests_of_siblings(dataset)
                for names in [manifest.split_names]
                for name in names
            }
        named = self._named[group].get(dataset.name)
        if named is not None:
            problem = "has no manifest, and {} names it as one of {:,} splits. ".format(*named)
            problem += "Manifests of splits are written when all of them are there"
            remedy = "If their conversion was interrupted, repeat it with --overwrite; otherwise remove their manifests"
            yield Finding("TF910", "error", str(path), problem, remedy)


def _shown(manifest: Place, home: Place) -> str:
    return printable(manifest.name if manifest.parent == home else f"{manifest.parent.name}/{manifest.name}")


def file_findings(dataset: SourceFiles, deep: bool, jobs: int, progress: Progress, splits: Splits) -> Iterator[Finding]:
    """Compare the format, the size and the number of files with the manifest; if deep, the checksum as well."""
    path, manifest = dataset.path, own_manifest(dataset)
    if manifest.members:
        for member in members_of(dataset, manifest):
            yield from file_findings(member, deep, jobs, progress, splits)
        return
    if not manifest.path.is_there():
        yield from splits.missing(path, manifest.path)
        return
    if not manifest.output:
        why = f": {manifest.broken}" if manifest.broken else ""
        problem = f"is not a valid manifest{why}"
        yield Finding("TF910", "warning", str(manifest.path), problem, "Remove it, or restore it")
        return
    try:
        wrong = {quantity: (expected, found) for quantity, expected, found in file_differences(dataset, manifest)}
        if "the format" in wrong:
            problem = f"is {dataset.format.name}; its manifest states {printable(manifest.content.get('format'))}"
            yield Finding("TF913", "error", str(path), problem, "The manifest belongs to another dataset of this name")
            return
        if wrong:
            sizes = [(key, wrong[key]) for key in ("bytes", "files") if key in wrong]
            differences = [
                f"{found:,} {key}, the manifest states {_number(expected)}" for key, (expected, found) in sizes
            ]
            yield Finding("TF911", "error", str(path), f"has {' and '.join(differences)}", _COPY)
        elif deep:
            progress.phase(f"checksum of {path.name}", 0, "bytes")
            digest = fingerprint(path, written_files(dataset.format, path, dataset.files), jobs, dataset.opened)[
                "xxh3_128"
            ]
            if digest != manifest.output.get("xxh3_128"):
                yield Finding(
                    "TF912",
                    "error",
                    str(path),
                    f"has the checksum {digest}, the manifest states {printable(manifest.output.get('xxh3_128'))}",
                    _COPY,
                )
    except FormatError as error:
        yield Finding("TF911", "error", error.path, error.what, _COPY)
    yield from _sources(manifest, path)


def _sources(manifest: Manifest, path: Place) -> Iterator[Finding]:
    """Report sources in the directory of the dataset whose size is not that of the manifest.

    A manifest may come from anyone. Files in other directories are not examined, so that no message reveals whether
    they exist and how large they are. No directory is listed.
    """
    if not path.is_local:
        return
    sources, home = manifest.content.get("sources"), path.parent.real().text
    for source in sources if isinstance(sources, list) else []:
        name, bytes_ = (source.get("path"), source.get("bytes")) if isinstance(source, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(bytes_, int) or "\0" in name or source.get("files") != 1:
            continue
        if os.path.dirname(os.path.realpath(name)) != home or not os.path.isfile(name):
            continue
        size = os.stat(name).st_size
        if size != bytes_:
            yield Finding(
                "TF914",
                "info",
                str(path),
                f"its source {printable(name)} has {size:,} bytes now, and had {_number(bytes_)} when it was converted",
                "If it should follow its source, convert again",
            )


def ledger_findings(dataset: SourceFiles, asked: SourceRequest, *, deep: bool) -> Iterator[Finding]:
    """Check the number of rows of a ledger that is there or in the manifest; if deep, each row with its sequence."""
    manifest, about = own_manifest(dataset).ledger, ledger_paths(dataset.path)[1]
    if not about.exists() and not dataset.path.is_symlink():
        if manifest:
            problem = f"has no ledger {printable(about.name)}; its manifest lists one"
            yield Finding(
                "TF916", "warning", str(dataset.path), problem, "Copy it again, or convert again with --ledger"
            )
        return
    from tokfmt.mix import compare_ledger, read_ledger  # imports every module of recipes

    try:
        ledger = read_ledger(dataset.path, dataset.format.name)
    except FormatError as error:
        yield Finding.of("TF916", error)
        return
    if ledger is not None and manifest and manifest.get("rows") != len(ledger.rows):
        problem = (
            f"has {len(ledger.rows):,} rows, the manifest of {dataset.path.name} states {_number(manifest.get('rows'))}"
        )
        yield Finding("TF916", "error", str(ledger.path), problem, "Copy both again, or convert again with --ledger")
        return
    if not deep:
        return
    request = replace(asked, format=dataset.format.name, every_end=True)
    request = viewed(request, dataset.format, "samples") if ledger is not None and ledger.unit == "samples" else request
    try:
        reader = open_dataset(request).reader
    except TokfmtError:  # reported where the dataset itself is read
        return
    try:
        if ledger is not None and isinstance(reader, TokenReader):
            compare_ledger(ledger, reader)
    except FormatError as error:
        yield Finding.of("TF916", error)
    finally:
        reader.close()


def count_findings(
    dataset: SourceFiles, source: Source, sequences: int | None, tokens: int | None, max_id: int | None = None
) -> Iterator[Finding]:
    """Compare the counts of a dataset with those of its manifest."""
    path, manifest, reader = dataset.path, own_manifest(dataset), source.reader
    eos_id, bos_id = source.separator.eos_id, source.bos_id
    # empty if the manifest counts several splits, and one was read
    counts = manifest.counts(samples=reader.info.is_samples, divided=is_divided(reader))
    alike = manifest.ids == (eos_id, bos_id)  # otherwise only one counts them
    compared = [("sequences", sequences), ("tokens", tokens if alike else None)]
    different = [(key, found, counts.get(key)) for key, found in compared if found not in (None, counts.get(key))]
    for key, found, expected in different:
        if isinstance(expected, int):
            problem = f"holds {found:,} {key}, the manifest states {expected:,}"
            remedy = "The manifest belongs to another dataset, or --eos differs from what was converted"
            yield Finding("TF913", "error", str(path), problem, remedy)
    stated = counts.get("max_id")
    if isinstance(stated, int) and max_id is not None and alike and tokens is not None and not different:
        largest = max(max_id, stated if stated in (eos_id, bos_id) else max_id)  # they count where they are stored
        if stated != largest:
            problem = f"has the largest ID {largest:,}, the manifest states {stated:,}"
            yield Finding("TF913", "error", str(path), problem, "The manifest belongs to another dataset")


def stored_count_findings(dataset: SourceFiles, source: Source) -> Iterator[Finding]:
    """Compare the counts of a dataset that was opened as it is stored, if they need no search for separators."""
    reader = source.reader
    if isinstance(reader, RecordReader) or reader.info.layout is Layout.STREAM:
        return
    info = reader.info
    if info.separators in (Separators.NONE, Separators.TRAILING):
        tokens = info.tokens if info.separators is Separators.NONE else None
        yield from count_findings(dataset, source, info.sequences, tokens if source.bos_id is None else None)


def _number(value: object) -> str:
    return grouped(value) if isinstance(value, int) and not isinstance(value, bool) else printable(value)
