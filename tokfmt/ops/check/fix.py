"""Write a repaired copy, where it is certain what is right."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tokfmt import registry
from tokfmt.core.errors import ConversionError, SeparatorUnknownError, TokfmtError, VerificationError, printable
from tokfmt.core.files import write_error
from tokfmt.core.format import Format, files_of
from tokfmt.core.output import readable_by
from tokfmt.core.protocols import Patchable, Repair, Repairable
from tokfmt.core.publish import Staging
from tokfmt.core.records import RecordReader
from tokfmt.formats.jsonl.index import index_path, write_index
from tokfmt.ops.check.check import CheckRequest, Verdict, check
from tokfmt.ops.convert.request import Conversion, Request
from tokfmt.ops.convert.run import Run
from tokfmt.ops.destination import guard, refuse_foreign, strangers_in
from tokfmt.ops.source.manifest import manifest_path, manifests
from tokfmt.ops.source.opened import SourceFiles, check_unchanged, find_sources, open_one, snapshot
from tokfmt.ops.source.request import EosChoice, SourceRequest, given_to, read_options, words_of
from tokfmt.run.execute import Progress, Silent, worker_count

_INDEX_CODES = frozenset({"TF511", "TF512", "TF514", "TF515"})


@dataclass(frozen=True, slots=True)
class Fixed:
    """What was repaired.

    Attributes:
        destination: The repaired copy; "" when nothing needed a repair and nothing was written.
        done: What is right now and was not, by code.
        verdict: What a deep check finds in the copy.
    """

    destination: str
    done: dict[str, str]
    verdict: Verdict | None = None


def fix(
    verdict: Verdict, destination: str | os.PathLike[str], request: CheckRequest, *, overwrite: bool = False,
    progress: Progress | None = None,
) -> Fixed:  # fmt: skip
    """Write a copy of a checked dataset in which everything is right that can be repaired for certain.

    Args:
        verdict: What `check` has found.
        destination: The copy; appears whole and checked, or not at all.
        request: What was checked, and how.
        overwrite: Replace an existing destination.
        progress: Told how far it is.

    Raises:
        ConversionError: There is an error that no repair is certain for; nothing was written.
        TokfmtError: As for `convert`.
    """
    if verdict.format is None:
        raise ConversionError(f"{printable(verdict.path)}: not repaired: it cannot be opened")
    format_ = registry.get(verdict.format)
    repairs = _repairs(format_)
    hopeless = sorted({f.code for f in verdict.findings if f.severity == "error"} - repairs.keys())
    if hopeless:
        raise ConversionError(
            f"{printable(verdict.path)}: not repaired: it is not certain what is right where it has "
            f"{', '.join(hopeless)}. tokfmt check --explain {hopeless[0]} says what to do"
        )
    chosen = {code: repairs[code] for code in sorted(verdict.counts) if code in repairs}
    if not chosen or not isinstance(format_, (Patchable, Repairable)):
        return Fixed("", {})
    job = _Job(Path(verdict.path), Path(destination), format_, request, chosen, progress or Silent(), overwrite)
    after = job.patched(format_) if isinstance(format_, Patchable) else job.rewritten(format_)
    return Fixed(os.fspath(destination), {code: repair.how for code, repair in chosen.items()}, after)


def _repairs(format_: Format) -> Mapping[str, Repair]:
    if isinstance(format_, Patchable):
        return format_.patches()
    return format_.repairs() if isinstance(format_, Repairable) else {}


@dataclass(frozen=True, slots=True)
class _Job:
    """A repair under way."""

    path: Path
    destination: Path
    format: Format
    request: CheckRequest
    chosen: Mapping[str, Repair]
    progress: Progress
    overwrite: bool

    def _source(self, path: Path, eos: EosChoice, drop: frozenset[str] = frozenset()) -> SourceRequest:
        """The dataset, or its copy, with the read options that were given and those that the repairs need."""
        given = given_to(self.format, self.request.source)
        for repair in self.chosen.values():
            given |= repair.options
        return SourceRequest((path,), self.format.name, eos, given, drop=drop)

    def rewritten(self, format_: Repairable) -> Verdict:
        """Read, which makes good what is wrong, and written again by the normal conversion."""
        source = self._source(self.path, "none")
        options = read_options(self.format, source)
        indexed = bool(self.chosen.keys() & _INDEX_CODES)
        if indexed:
            Staging(index_path(self.destination), overwrite=self.overwrite).check_replaceable()
        verdicts = []

        def prove(staging: Staging) -> Mapping[str, Path]:
            index = write_index(staging.path).destination if indexed else None
            verdicts.append(self._checked(staging.path))
            return {index_path(staging.destination).name: index} if index is not None else {}

        request = Request(
            source, self.destination, to=self.format.name, to_options=format_.repaired_with(self.path, options),
            overwrite=self.overwrite, verify=True, jobs=worker_count(self.request.jobs),
        )  # fmt: skip
        try:
            Run(request, self.progress, prove).convert()
        except OSError as error:
            raise write_error(self.destination, error) from error
        return verdicts[0]

    def patched(self, format_: Patchable) -> Verdict:
        """Copied byte by byte, changed in place, checked, published."""
        source = self._source(self.path, self.request.source.eos, frozenset({"other-files"}))
        found = find_sources(source)
        guard(self.destination, [self.path], found)
        refuse_foreign(self.destination)
        before = snapshot(found)
        objection = strangers_in(self.destination)
        with Staging(
            self.destination, overwrite=self.overwrite, objection=objection, readable=readable_by(before)
        ) as staging:
            try:
                _copy(self.format, self.path, staging.path)
            except OSError as error:
                raise write_error(self.destination, error) from error
            try:
                format_.patch(staging.path, read_options(self.format, source))
            except TokfmtError as error:
                why = str(error).replace(str(staging.path), str(self.path))
                raise ConversionError(f"{printable(self.path)}: not repaired: {why}") from error
            verdict = self._checked(staging.path)
            beside = self._manifest(staging)
            check_unchanged(before, found)
            staging.publish({manifest_path(staging.destination).name: beside})
        return verdict

    def _checked(self, path: Path) -> Verdict:
        """A deep check of what was written.

        Raises:
            VerificationError: It has errors still.
        """
        source = replace(self.request.source, paths=(path,), format=self.format.name)
        wanted = replace(self.request, source=source, deep=True, tokenizer=None, against=None)
        (verdict,) = check(wanted, self.progress)
        if verdict.errors:
            first = next(f for f in verdict.findings if f.severity == "error")
            raise VerificationError(
                f"{printable(self.path)}: not repaired: the copy would still have {first.code} ({first.message})"
            )
        findings = [
            found._replace(path=found.path.replace(str(path), str(self.destination))) for found in verdict.findings
        ]
        return replace(verdict, path=str(self.destination), findings=findings)

    def _manifest(self, staging: Staging) -> bytes | None:
        """As after a conversion; None for a dataset whose counts no reader can tell (shuffled samples)."""
        request = self._source(staging.path, self.request.source.eos)
        try:
            source = open_one(request)
        except SeparatorUnknownError:
            source = open_one(replace(request, eos="none"))
        except TokfmtError:
            return None
        reader = source.reader
        info = None if isinstance(reader, RecordReader) else reader.info
        separator: dict[str, object] = {"eos_id": source.separator.eos_id, "from": source.separator.source or None}
        reader.close()
        done = Conversion(
            destination=str(self.destination),
            format=self.format.name,
            sources=[{"path": str(self.path), "format": self.format.name}],
            sequences=info.sequences if info else None,
            tokens=info.tokens if info else None,
            max_id=info.max_id if info else None,
            separator=separator,
            dropped={},
            notes=[repair.how for repair in self.chosen.values()],
            plan={},
        )
        origin = SourceFiles(self.path, self.format, ())
        given = {"options": {"from": words_of(request.options), "to": []}, "select": None, "split": None}
        return manifests(done, [origin], {self.destination: staging}, given, self.progress, 1)[self.destination]


def _copy(format_: Format, source: Path, destination: Path) -> None:
    """The files of a dataset, links followed; modes as a new file has them."""
    if not source.is_dir():
        shutil.copyfile(source, destination)
        return
    for file in files_of(format_, source):
        copy = destination / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
