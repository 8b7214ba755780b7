"""Write a repaired copy, where it is certain what is right."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokfmt import registry
from tokfmt.core.audit import Patchable, Repair, Repairable
from tokfmt.core.errors import ConversionError, SeparatorUnknownError, TokfmtError, VerificationError, printable
from tokfmt.core.format import Format
from tokfmt.core.options import parse_options
from tokfmt.core.publish import Staging, publish_together, write_error
from tokfmt.core.records import RecordReader
from tokfmt.ops.check.run import Demands, check
from tokfmt.ops.check.verdict import Verdict
from tokfmt.ops.convert import convert
from tokfmt.ops.index import write_index
from tokfmt.ops.manifest import manifest_path
from tokfmt.ops.open import Source, open_source
from tokfmt.ops.progress import Progress, Silent
from tokfmt.ops.provenance import manifests
from tokfmt.ops.request import Conversion
from tokfmt.ops.sources import SourceRequest, check_unchanged, pairs, read_options, snapshot

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
    verdict: Verdict, destination: str | os.PathLike[str], demands: Demands, *, overwrite: bool = False,
    progress: Progress | None = None,
) -> Fixed:  # fmt: skip
    """Write a copy of a checked dataset in which everything is right that can be repaired for certain.

    Args:
        verdict: What `check` has found.
        destination: The copy; appears whole and checked, or not at all.
        demands: As for `check`.
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
    job = _Job(verdict.path, Path(destination), format_, demands, chosen, progress or Silent(), overwrite)
    after = job.patched(format_) if isinstance(format_, Patchable) else job.rewritten(format_)
    return Fixed(os.fspath(destination), {code: repair.how for code, repair in chosen.items()}, after)


def _repairs(format_: Format) -> Mapping[str, Repair]:
    if isinstance(format_, Patchable):
        return format_.patches()
    return format_.repairs() if isinstance(format_, Repairable) else {}


@dataclass(frozen=True, slots=True)
class _Job:
    """A repair under way."""

    path: str
    destination: Path
    format: Format
    demands: Demands
    chosen: Mapping[str, Repair]
    progress: Progress
    overwrite: bool

    def _words(self) -> list[str]:
        given = SourceRequest(
            (self.path,), None, None, self.demands.options, self.demands.text_field, self.demands.split
        )
        more = [word for repair in self.chosen.values() for word in pairs(repair.options)]
        return list(dict.fromkeys([*read_options(given, self.format), *more]))

    def rewritten(self, format_: Repairable) -> Verdict:
        """Read, which makes good what is wrong, and written again by the normal conversion."""
        words = self._words()
        options: Any = parse_options(self.format.read_options, words, self.format.name)
        convert(
            self.path, self.destination, from_format=self.format.name, to_format=self.format.name, from_options=words,
            to_options=format_.repaired_with(Path(self.path), options), eos="none", jobs=self.demands.jobs,
            overwrite=self.overwrite, verify=True, progress=self.progress,
        )  # fmt: skip
        if self.chosen.keys() & _INDEX_CODES:
            write_index(self.destination, overwrite=self.overwrite)
        return self._checked(self.destination)

    def patched(self, format_: Patchable) -> Verdict:
        """Copied byte by byte, changed in place, checked, published."""
        before = snapshot([self.path])
        with Staging(self.destination, overwrite=self.overwrite) as staging:
            try:
                _copy(Path(self.path), staging.path)
            except OSError as error:
                raise write_error(self.destination, error) from error
            options: Any = parse_options(self.format.read_options, self._words(), self.format.name)
            try:
                format_.patch(staging.path, options)
            except TokfmtError as error:
                why = str(error).replace(str(staging.path), str(self.path))
                raise ConversionError(f"{printable(self.path)}: not repaired: {why}") from error
            verdict = self._checked(staging.path)
            beside = self._manifest(staging)
            check_unchanged(before, [self.path])
            publish_together({staging: {manifest_path(self.destination).name: beside}})
        return verdict

    def _checked(self, path: Path) -> Verdict:
        """A deep check of what was written.

        Raises:
            VerificationError: It has errors still.
        """
        wants = replace(self.demands, deep=True, format=self.format.name, tokenizer=None, against=None)
        (verdict,) = check([path], wants, self.progress)
        if verdict.errors:
            first = next(f for f in verdict.findings if f.severity == "error")
            if path == self.destination:
                _remove(path)
            raise VerificationError(
                f"{printable(self.path)}: not repaired: the copy still has {first.code} ({first.message}); it was "
                "removed"
            )
        return verdict

    def _manifest(self, staging: Staging) -> bytes | None:
        """As after a conversion; None for a dataset whose counts no reader can tell (shuffled samples)."""
        words, eos = self._words(), self.demands.eos
        try:
            source = open_source([staging.path], format=self.format.name, eos=eos, options=words)
        except SeparatorUnknownError:
            source = open_source([staging.path], format=self.format.name, eos="none", options=words)
        except TokfmtError:
            return None
        reader = source.reader
        info = None if isinstance(reader, RecordReader) else reader.info
        separator: dict[str, object] = {"eos_id": source.separator.eos_id, "from": source.separator.source or None}
        reader.close()
        done = Conversion(
            destination=str(self.destination),
            format=self.format.name,
            sources=[{"path": self.path, "format": self.format.name}],
            sequences=info.sequences if info else None,
            tokens=info.tokens if info else None,
            max_id=info.max_id if info else None,
            separator=separator,
            dropped={},
            notes=[repair.how for repair in self.chosen.values()],
            plan={},
        )
        origin = Source((Path(self.path),), self.format, reader, source.separator, ())
        given = {"options": {"from": words, "to": []}, "select": None, "split": None}
        return manifests(done, [origin], {self.destination: staging}, given, self.progress)[self.destination]


def _copy(source: Path, destination: Path) -> None:
    """Files and directories, links followed; modes as a new file has them."""
    if source.is_dir():
        shutil.copytree(source, destination, copy_function=shutil.copyfile)
    else:
        shutil.copyfile(source, destination)


def _remove(path: Path) -> None:
    """What was published and turned out to be wrong, and its manifest."""
    manifest_path(path).unlink(missing_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
