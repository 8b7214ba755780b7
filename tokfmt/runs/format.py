"""Runs: what a training run of another framework read, from its order files, or from a TOML file.

    tokfmt = 1                    version of the language
    [run]
    framework = "megatron-core"   the framework that ran, by its order files if it is left out
    cache = "cache"               folder of the order files
    root = "."                    where the paths that order files name are now, or a table of old and new beginnings
    batch_size = 512              and further facts that no file states

- A folder that holds only order files is a run, too; `--from run` reads them beside data. The keys are options.
- Tables [[run.source]] are the sources of a run of OLMo-core; one that mixes others has them in [[run.source.source]].
- Sequence k is the k-th sample that the run read, over all ranks, with its padding and its labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tokfmt.base.options import LazyAttribute
from tokfmt.core.findings import Audit, Finding, Problem, fatal
from tokfmt.core.format import Confidence, Format, Hints, Probe
from tokfmt.core.inspection import Inspection
from tokfmt.core.reader import TokenReader
from tokfmt.errors import FormatError, OptionError, TokfmtError
from tokfmt.files.place import AnyPlace, Place
from tokfmt.runs.frameworks import is_only_order_files


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """No options: tokfmt does not write runs."""


class RunInspection(Inspection):
    """The inspection of a run. Its sources are opened when the reader is made."""

    def __init__(self, path: Place, options: Any, hints: Hints) -> None:
        from tokfmt.runs.facts import facts_of

        self.path, self.hints = path, hints
        self._reader: TokenReader | None = None
        try:
            self.facts = facts_of(path, options)
        except FormatError as error:
            self.problems = [fatal("TF811", error)]

    def reader(self) -> TokenReader:
        from tokfmt.runs.open import open_run

        self._reader = open_run(self.facts, self.hints)
        return self._reader

    def look(self, how: Audit) -> Iterator[Finding | Problem]:
        if self.is_fatal:
            return
        from tokfmt.runs.open import open_run

        try:
            reader = self._reader or open_run(self.facts, self.hints)
            yield from reader.order.look(deep=how.deep)  # type: ignore[attr-defined]
        except FormatError as error:
            yield fatal("TF812", error)

    def sections(self) -> None:
        return None


class RunFormat(Format):
    """The format of runs of other frameworks."""

    name = "run"
    title = "training runs of other frameworks, in the order in which they read samples"
    is_computed = read_only = True
    has_splits = True  # order files of several splits are in one folder
    left_to_deep = "the order of files was not compared: --deep compares it, and reads every token"
    stores = "samples, in the order in which a run read them"
    read_options = LazyAttribute("tokfmt.runs.facts", "ReadOptions")
    write_options = WriteOptions

    def sniff(self, probe: Probe) -> Confidence | None:
        if probe.is_directory:
            return Confidence.CERTAIN if is_only_order_files(probe.entries) else None
        if probe.path.suffix != ".toml" or b"tokfmt" not in probe.head:
            return None
        from tokfmt.mix import is_run

        return Confidence.CERTAIN if is_run(probe.head, toml=True) else None

    def named(self, path: Place) -> Sequence[Place]:
        from tokfmt.runs.facts import ReadOptions, facts_of
        from tokfmt.runs.open import sources_of

        try:
            return [place for source in sources_of(facts_of(path, ReadOptions())) for place in source.paths]
        except TokfmtError:
            return ()

    def inspect(self, paths: Sequence[Place], options: Any, hints: Hints) -> RunInspection:
        return RunInspection(paths[0], options, hints)

    def destination(self, path: AnyPlace, options: Any) -> AnyPlace:
        del options
        raise OptionError(f"{path}: runs are not written. --to NAME writes what the run read in another format")


FORMAT = RunFormat()
