"""Write repaired copies of checked datasets (`tokfmt check --fix`), if the right content is certain."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tokfmt.base.options import parse_options
from tokfmt.commands.check.check import CheckReport, CheckRequest, Repaired, check
from tokfmt.commands.check.doubled import once
from tokfmt.commands.convert.convert import convert_files
from tokfmt.commands.convert.inputs import OpenedSources
from tokfmt.commands.convert.report import manifests
from tokfmt.commands.convert.request import Conversion, ConvertedSeparator, Request
from tokfmt.commands.guards import guard, refuse_foreign, strangers_in
from tokfmt.core.findings import Repair
from tokfmt.core.format import Format
from tokfmt.core.losses import READS
from tokfmt.core.records import RecordReader
from tokfmt.errors import (
    ConversionError,
    FormatError,
    OptionError,
    SeparatorUnknownError,
    TokfmtError,
    VerificationError,
)
from tokfmt.files.file import writing
from tokfmt.files.place import LocalPlace, Place, PlaceLike, destination_of, local_path, place_of
from tokfmt.files.publisher import LocalPublisher, Publisher
from tokfmt.files.replacing import readable_by
from tokfmt.files.spool import staging_for
from tokfmt.formats.jsonl.index import index_path, write_index
from tokfmt.run.execute import worker_count
from tokfmt.run.progress import Progress
from tokfmt.source.discover import check_unchanged, find_sources, snapshot
from tokfmt.source.manifest import extent, found_as_written, manifest_path, written_files
from tokfmt.source.open import open_dataset
from tokfmt.source.request import EosChoice, SourceFiles, SourceRequest, given_to, option_names, read_options, words_of
from tokfmt.source.stored import Source
from tokfmt.wording import counted, printable

_KEPT = ("width", "dtype", "column")
"""Facts of a dataset that are write options, with which its copy is like it."""
_INDEX_CODES = frozenset({"TF511", "TF512", "TF514", "TF515"})


@dataclass(frozen=True, slots=True)
class FixReport:
    """The result of a repair."""

    destination: str  # the repaired copy; "" if nothing needed a repair, and nothing was written
    done: dict[str, str]  # what each repair did, by the code of its finding
    report: CheckReport | None = None  # the report of a deep check of the copy; None if nothing was written
    partial: str = ""  # what was saved of a damaged dataset and what was lost; "" if the copy is complete

    def printed(self) -> Repaired:
        """Return what --json prints."""
        return Repaired(self.destination or None, self.done, self.partial or None)


def fix(
    report: CheckReport,
    destination: PlaceLike,
    request: CheckRequest,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> FixReport:
    """Write a repaired copy of a checked dataset.

    If the dataset has an error without a certain repair, the copy holds only the sequences that are certain to be
    complete; see `source.partial`. The copy is complete and checked, or not written.
    """
    if report.dataset is None:
        raise ConversionError(f"{printable(report.path)}: not repaired: it cannot be opened")
    plan = _plan(report, report.dataset, request)
    if not plan.hopeless and not plan.chosen and plan.once is None:
        return FixReport("", {})
    done = {code: repair.how for code, repair in plan.chosen.items()}
    job = _Job(plan, destination_of(destination), progress or Progress(), overwrite, done)
    partial = ""
    if plan.hopeless:
        after, partial = job.saved()
    elif plan.patch is not None and plan.once is None:
        after = job.patched(plan.patch)
    else:
        after = job.rewritten()
    return FixReport(after.path, dict(job.done), after, partial)


Saved = Literal["", "whole", "part", "unknown"]
_SAVE = "tokfmt convert SRC DST --allow-partial writes what is complete; else download it"
_ASKED_BYTES = 1 << 30  # a dataset of at most this size is read to answer what can be saved of it


def repairable(report: CheckReport, request: CheckRequest) -> Saved:
    """Return what `fix` writes of a dataset with errors: all of it, the sequences that are complete, or "" for nothing.

    It opens the dataset as `fix` does, which may read all of it. Of a large dataset that was not checked deeply, the
    result is "unknown".
    """
    dataset = report.dataset
    if dataset is None or report.unsafe or not report.severities.get("error"):
        return ""
    format_ = dataset.format
    if format_.read_only or format_.is_computed or not place_of(report.path).is_local:
        return ""
    try:
        plan = _plan(report, dataset, request)
        if not request.deep and extent(written_files(format_, dataset.path, dataset.files))["bytes"] > _ASKED_BYTES:
            return "unknown"
        plan.prove()
    except (TokfmtError, OSError):
        return ""
    return "part" if plan.hopeless else "whole"


def _plan(report: CheckReport, dataset: SourceFiles, request: CheckRequest) -> _Plan:
    """Return how a checked dataset is repaired."""
    format_ = dataset.format
    repairs = format_.repairs()
    errors = {finding.code for finding in report.findings if finding.severity == "error"}
    hopeless = sorted(errors - repairs.keys())
    chosen = {code: repairs[code] for code in sorted(report.counts) if code in repairs and not hopeless}
    path = local_path(report.path, "a dataset to repair", _SAVE)
    source, _ = found_as_written(dataset, request.source)  # the copy has no manifest
    written = {name: value for name, value in source.options.items() if name not in request.source.options}
    patch = next((repair.patch for repair in repairs.values()), None)
    fixed = hopeless or format_.read_only or (chosen and patch)  # A second run takes the copy of the first.
    once = None if fixed else report.doubled
    return _Plan(path, format_, replace(request, source=source), written, chosen, hopeless, once, patch)


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a dataset is repaired."""

    path: LocalPlace
    format: Format
    request: CheckRequest  # with the read options that the manifest lists
    written: Mapping[str, object]  # options of the copy, as the manifest lists them for the dataset
    chosen: Mapping[str, Repair]  # by the codes of their findings
    hopeless: Sequence[str]  # codes of errors without a certain repair: only complete sequences are saved
    once: int | None = None  # the separator of which documents that have two keep one
    patch: Callable[..., None] | None = None  # see `Repair`

    def source(self, path: Path, eos: EosChoice, allow_loss: frozenset[str] = frozenset()) -> SourceRequest:
        """Return a request for the dataset or its copy, with the read options that the repairs need."""
        options = given_to(self.format, self.request.source)
        for repair in self.chosen.values():
            options |= repair.options
        bos = self.request.source.bos
        return SourceRequest((path,), self.format.name, eos, options, allow_loss=allow_loss, bos=bos)

    def patch_source(self) -> SourceRequest:
        """Return the request with which the files of the dataset are copied and patched."""
        return self.source(self.path, self.request.source.eos, frozenset({"other-files"}))

    def prove(self) -> None:
        """Open the dataset as the repair does, and write nothing."""
        if self.hopeless:
            self.part()
        elif self.patch is not None:
            self.patch(self.path, read_options(self.format, self.patch_source()), dry_run=True)
        else:
            open_dataset(self.source(self.path, "none")).reader.close()

    def part(self) -> tuple[SourceRequest, Source]:
        """Return the request that reads the complete sequences of a damaged dataset, and its closed source."""
        asked = self.request.source
        request = replace(self.source(self.path, asked.eos, asked.allow_loss | READS["fix"]), allow_partial=True)
        try:
            opened = open_dataset(request)
            opened.reader.close()
        except SeparatorUnknownError:
            raise
        except FormatError as error:
            raise self._uncertain(f" ({error.sentence})") from error
        if opened.partial is None:
            raise self._uncertain()
        return request, opened

    def _uncertain(self, why: str = "") -> ConversionError:
        return ConversionError(
            f"{printable(self.path)}: not repaired: the right content is not certain where it has "
            f"{', '.join(self.hopeless)}{why}. tokfmt check --explain {self.hopeless[0]} explains it"
        )


@dataclass(frozen=True, slots=True)
class _Job:
    """A repair that is carried out. `done` says what each repair did, by the code of its finding."""

    plan: _Plan
    destination: Place
    progress: Progress
    overwrite: bool
    done: dict[str, str]

    def rewritten(self) -> CheckReport:
        """Convert the dataset to its own format. The read options of the repairs correct the content."""
        plan = self.plan
        source = plan.source(plan.path, "none")
        index = bool(plan.chosen.keys() & _INDEX_CODES)
        if index:
            staging_for(index_path(self.destination), overwrite=self.overwrite).check_replaceable()
        written = {**plan.written, **plan.format.repaired_with(plan.path, read_options(plan.format, source))}
        if plan.once is None:
            return self._converted(source, written, index=index)
        options: Any = parse_options(plan.format.write_options, written, plan.format.name)
        if plan.format.writer_traits(options).separators.separated:
            source = replace(source, eos=plan.once)
        opened = open_dataset(source)
        if isinstance(opened.reader, RecordReader):
            raise TypeError(f"{plan.format.name} has no separators")
        facts, names = opened.reader.info.facts, option_names(plan.format.write_options)
        written = {**{name: facts[name] for name in _KEPT if name in facts and name in names}, **written}
        reader, count = once(opened.reader, plan.once)
        those = counted(count, "document")
        self.done["TF945"] = f"one of two separators {plan.once:,} was left out of {those}; the others are as they were"
        with closing(reader):
            return self._converted(source, written, opened=([opened], reader))

    def _converted(
        self,
        source: SourceRequest,
        written: Mapping[str, object],
        *,
        index: bool = False,
        as_stored: bool = True,
        opened: OpenedSources | None = None,
    ) -> CheckReport:
        """Convert a source to its own format, and check the result; `as_stored`, no separator was removed."""
        reports = list[CheckReport]()

        def prove(staging: Publisher) -> Mapping[str, Path]:
            files = {}
            if index:
                write_index(staging.path)
                files = {index_path(staging.destination).name: index_path(staging.path)}
            reports.append(self._checked(staging))
            return files

        format_ = self.plan.format
        options: Any = parse_options(format_.write_options, written, format_.name)
        request = Request(
            source,
            self.destination,
            to=format_.name,
            to_options=written,
            to_eos="none" if as_stored and not format_.writer_traits(options).separators.separated else None,
            overwrite=self.overwrite,
            verify=True,
            jobs=worker_count(self.plan.request.jobs),
        )
        convert_files(request, self.progress, prove=prove, opened=opened)
        return reports[0]

    def saved(self) -> tuple[CheckReport, str]:
        """Convert the complete sequences of a damaged dataset to its own format. The sentence says what was saved."""
        request, opened = self.plan.part()
        report = self._converted(request, self.plan.written, as_stored=opened.separator.eos_id is None)
        return report, opened.partial.sentence() if opened.partial else ""

    def patched(self, patch: Callable[..., None]) -> CheckReport:
        """Copy the files byte by byte, patch the copy in place, check it, and publish it."""
        source = self.plan.patch_source()
        files = find_sources(source)
        guard(self.destination, [self.plan.path], files)
        if not self.destination.is_local:
            raise OptionError(
                f"{printable(self.destination)}: a copy that is changed in place is written to a local path only. "
                "Write it there, and upload it"
            )
        refuse_foreign(self.destination)
        before = snapshot(files)
        objection = strangers_in(self.destination)
        with LocalPublisher(
            local_path(self.destination, "a copy"),
            overwrite=self.overwrite,
            objection=objection,
            readable=readable_by(before),
        ) as staging:
            with writing(self.destination):
                _copy(self.plan.format, self.plan.path, staging.path)
            try:
                patch(staging.path, read_options(self.plan.format, source))
            except TokfmtError as error:
                why = str(error).replace(str(staging.path), str(self.plan.path))
                raise ConversionError(f"{printable(self.plan.path)}: not repaired: {why}") from error
            report = self._checked(staging)
            manifest = self._manifest(staging)
            check_unchanged(before, files)
            staging.publish({manifest_path(staging.destination).name: manifest})
        return report

    def _checked(self, staging: Publisher) -> CheckReport:
        """Check a staged copy deeply, and return the report with the paths of the destination."""
        path, destination = staging.path, str(self.destination.with_name(staging.path.name))
        source = replace(self.plan.request.source, paths=(path,), format=self.plan.format.name)
        wanted = replace(self.plan.request, source=source, deep=True, tokenizer=None, against=None)
        (report,) = check(wanted, self.progress)
        if report.errors:
            first = next(f for f in report.findings if f.severity == "error")
            raise VerificationError(
                f"{printable(self.plan.path)}: not repaired: the copy would still have {first.code} ({first.message})"
            )
        findings = [replace(finding, path=finding.path.replace(str(path), destination)) for finding in report.findings]
        return replace(report, path=destination, findings=findings)

    def _manifest(self, staging: Publisher) -> bytes | None:
        """Return the manifest of the copy; None if no reader can count it (shuffled samples)."""
        request = self.plan.source(staging.path, self.plan.request.source.eos)
        try:
            source = open_dataset(request)
        except SeparatorUnknownError:
            source = open_dataset(replace(request, eos="none"))
        except TokfmtError:
            return None
        reader = source.reader
        info = None if isinstance(reader, RecordReader) else reader.info
        separator: ConvertedSeparator = {
            "eos_id": source.separator.eos_id,
            "from": source.separator.source or None,
            "seen": None,
            "inferred": False,
        }
        reader.close()
        done = Conversion(
            destination=str(self.destination),
            format=self.plan.format.name,
            sources=[{"path": str(self.plan.path), "format": self.plan.format.name}],
            sequences=info.sequences if info else None,
            tokens=info.tokens if info else None,
            max_id=info.max_id if info else None,
            separator=separator,
            lead={"bos_id": None, "stored": None},
            losses={},
            notes=[repair.how for repair in self.plan.chosen.values()],
            plan={},
        )
        origin = SourceFiles(self.plan.path, self.plan.format, ())
        options = {"from": words_of(request.options), "to": words_of(self.plan.written)}
        facts = {"options": options, "select": None, "split": None}
        return manifests(done, [origin], {self.destination: staging}, facts, self.progress, 1)[self.destination]


def _copy(format_: Format, source: LocalPlace, destination: Path) -> None:
    """Copy the files of a dataset. Links are followed, and the copies have the modes of new files."""
    if not source.is_dir():
        shutil.copyfile(source, destination)
        return
    for file in (local_path(file, "a dataset to repair") for file in format_.files(source)):
        copy = destination / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
