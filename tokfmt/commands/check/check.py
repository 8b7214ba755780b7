"""Check datasets (`tokfmt check`).

A check collects the findings of four sources, in this order:

1. The format's own audit, and the files in the directory of the dataset.
2. The manifest and the ledger.
3. The reader that every command uses.
4. With options: a tokenizer, and the corpus that the dataset was made from.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tokfmt import registry
from tokfmt.base.threads import in_threads
from tokfmt.commands.check.codes import meanings
from tokfmt.commands.check.corpus import Corpus, behind_bos, corpus_findings
from tokfmt.commands.check.files import empty_findings, number_findings, other_findings, shard_findings, width_findings
from tokfmt.commands.check.manifests import (
    Splits,
    count_findings,
    file_findings,
    ledger_findings,
    stored_count_findings,
)
from tokfmt.commands.check.masks import Counted
from tokfmt.commands.check.separators import (
    Endings,
    doubled_findings,
    lead_findings,
    missing_findings,
    unfinished_findings,
)
from tokfmt.commands.check.vocabulary import Beyond, Vocabulary, metadata_findings, tokenizer_findings
from tokfmt.commands.check.zeros import Zeros, tail_findings
from tokfmt.core.findings import Audit, Code, Finding
from tokfmt.core.format import REGION, probe_of
from tokfmt.core.losses import READS
from tokfmt.core.memory import MemoryReader
from tokfmt.core.reader import TokenReader, largest_id, windows
from tokfmt.core.records import RecordReader
from tokfmt.errors import (
    DetectionError,
    FormatError,
    MissingDependencyError,
    OptionError,
    SeparatorUnknownError,
    TokfmtError,
    UnendedError,
    UnsafeError,
    UnsupportedError,
)
from tokfmt.files.listing import Listing
from tokfmt.files.place import Place
from tokfmt.run.execute import worker_count
from tokfmt.run.progress import Progress
from tokfmt.source.discover import dataset_at, dataset_paths
from tokfmt.source.ingest import as_stored, ingested, some_ids
from tokfmt.source.manifest import found_as_written, manifest_of, own_manifest
from tokfmt.source.open import hints_of, open_dataset
from tokfmt.source.request import EosChoice, Inspections, Reading, SourceFiles, SourceRequest, read_options
from tokfmt.source.stored import Source, contents_of, known_separator, tokenizer_of
from tokfmt.wording import counted, html_table, printable

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")
PathLike = str | os.PathLike[str]

_CHEAP = 1 << 26  # bytes of records up to which all are compared with a tokenizer: that takes about a second
_PLACES = 64  # places of larger files at which records are
LIMIT = 100
"""Findings of one code that a report keeps by default; the others are only counted."""


@dataclass(slots=True)
class CheckReport:
    """The findings of one dataset.

    Attributes:
        path: The path as given.
        format: The name of the format; None if the dataset cannot be opened.
        deep: True if every token was decoded.
        sequences: The number of sequences; None if the dataset was not read to its end.
        tokens: The number of tokens without separators; None if the dataset was not read to its end.
        findings: The first `limit` findings of each code, in the order in which they were found.
        counts: The number of findings by code.
        severities: The number of findings by severity.
        notes: The notes that other commands print when they open the dataset, except those that repeat a finding.
        unsafe: True if reading on could execute code, leave the dataset, or exhaust memory.
        manifest: The manifest that the dataset was compared with; None without one.
        limit: The number of findings of one code that are kept.
        doubled: The separator that most documents have twice (TF945); None if they do not.
        dataset: The files that were checked, which a repair reads; None if the dataset cannot be opened.
    """

    path: str
    format: str | None = None
    deep: bool = False
    sequences: int | None = None
    tokens: int | None = None
    findings: list[Finding] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    severities: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unsafe: bool = False
    manifest: str | None = None
    limit: int = LIMIT
    doubled: int | None = None
    dataset: SourceFiles | None = field(default=None, repr=False, compare=False)

    def _repr_html_(self) -> str:
        """Return a table with a row per finding, for notebooks."""
        severities = ", ".join(counted(count, name) for name, count in self.severities.items()) or "no findings"
        rows = [(finding.severity, finding.code, finding.offset, finding.message) for finding in self.findings]
        return html_table(f"check {self.path}: {severities}", ("severity", "code", "byte", "finding"), rows, self.notes)

    def add(self, findings: Iterable[Finding], meanings: Mapping[str, Code]) -> None:
        """Count findings, and keep the first `limit` of each code; one without a remedy names the explanation."""
        for each in findings:
            explained = f"tokfmt check --explain {each.code} explains it"
            finding = each if each.remedy or each.code not in meanings else replace(each, remedy=explained)
            number = self.counts[finding.code] = self.counts.get(finding.code, 0) + 1
            self.severities[finding.severity] = self.severities.get(finding.severity, 0) + 1
            self.unsafe = self.unsafe or (finding.code in meanings and meanings[finding.code].unsafe)
            if number <= self.limit:
                self.findings.append(finding)

    def remark(self, notes: Iterable[str]) -> None:
        """Set the notes, without those that repeat a finding."""
        self.notes = tuple(note for note in notes if not any(finding.message in note for finding in self.findings))

    @property
    def errors(self) -> int:
        """The number of findings with the severity "error"."""
        return self.severities.get("error", 0)

    @property
    def left_out(self) -> dict[str, int]:
        """The number of findings that were counted and not kept, by code."""
        return {code: count - self.limit for code, count in self.counts.items() if count > self.limit}

    @property
    def exit_code(self) -> int:
        """0 without errors, 1 with errors, 3 if the dataset cannot be opened or is unsafe to read."""
        if self.unsafe or "TF900" in self.counts:
            return 3
        return 1 if self.errors else 0

    def printed(self) -> CheckedDataset:
        """Return what --json prints."""
        counts = (self.sequences, self.tokens, self.unsafe, self.exit_code, self.severities, self.counts)
        return CheckedDataset(self.path, self.format, self.deep, *counts, self.manifest, self.findings, self.notes)


@dataclass(frozen=True, slots=True)
class CheckedDataset:
    """The report on one path.

    Attributes:
        path: The path as given.
        format: The name of the format; None if the dataset cannot be opened.
        deep: True if every token was decoded.
        sequences: The number of sequences; None if the dataset was not read to its end.
        tokens: The number of tokens without separators; None if the dataset was not read to its end, and for text.
        unsafe: True if reading on could execute code, leave the dataset, or exhaust memory.
        exit_code: The exit code of the command for this path alone.
        severities: The number of findings by severity, including those that are not listed.
        codes: The number of findings by code, including those that are not listed. tokfmt check --explain all --json
            explains the codes.
        manifest: The manifest that the dataset was compared with; None without one.
        findings: At most --limit findings of each code, in the order in which they were found.
        notes: The notes that other commands print when they open the dataset: inferred facts, and defects that change
            no token.
    """

    path: str
    format: str | None
    deep: bool
    sequences: int | None
    tokens: int | None
    unsafe: bool
    exit_code: int
    severities: dict[str, int]
    codes: dict[str, int]
    manifest: str | None
    findings: list[Finding]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Repaired:
    """The result of --fix.

    Attributes:
        destination: The repaired copy; None if nothing needed a repair and nothing was written.
        done: What each repair did, by the code of its finding.
        partial: What was saved of a damaged dataset and what was lost; None if the copy is complete.
    """

    destination: str | None
    done: dict[str, str]
    partial: str | None


@dataclass(frozen=True, slots=True)
class Checked:
    """The reports on paths, in order, and the result of --fix."""

    datasets: list[CheckedDataset]
    fixed: Repaired | None


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """The datasets to check, and the options of `tokfmt check`."""

    source: SourceRequest  # paths, each a dataset; every split is checked if none is given
    deep: bool = False
    tokenizer: str | None = None  # its vocabulary, its end of text, and the text of IDs are compared
    against: PathLike | None = None  # the corpus whose documents the dataset must hold, in order
    ignore_order: bool = False  # ignore the order of the documents when comparing with `against`
    jobs: int | None = None
    executor: Literal["threads", "auto"] = "threads"  # "auto": processes if there is much text to tokenize
    limit: int = LIMIT  # the number of findings of one code that a report keeps


def check(request: CheckRequest, progress: Progress | None = None) -> Iterator[CheckReport]:
    """Check datasets one after the other, and yield the report of each. Damage of a checked dataset never raises."""
    handle = tokenizer_of(request.tokenizer)
    watched = progress or Progress()
    jobs = worker_count(request.jobs)
    corpus = _corpus(request, handle, jobs, watched)
    try:
        splits = Splits()
        with Listing() as listing:
            for path in dataset_paths(request.source, every_split=True):
                # A check of a small dataset in a store would otherwise list its directory 50 times. On this machine,
                # only the opening of its reader asks once.
                place = path.asking(Listing() if path.is_local else listing)
                yield _Checking(place, request, handle, corpus, jobs, watched, splits).report()
    finally:
        if corpus is not None:
            corpus.close()


def _corpus(request: CheckRequest, handle: TokenizerHandle | None, jobs: int, progress: Progress) -> Corpus | None:
    """Open the corpus of `against`, if it is given."""
    if request.against is None:
        return None
    asked = request.source
    source = SourceRequest(
        (request.against,), text_field=asked.text_field, allow_loss=asked.allow_loss, recursive=asked.recursive
    )
    processes = request.executor == "auto"
    return Corpus(source, handle, jobs, progress, ignore_order=request.ignore_order, processes=processes)


class _Checking:
    """The check of one dataset."""

    def __init__(
        self,
        path: Place,
        request: CheckRequest,
        handle: TokenizerHandle | None,
        corpus: Corpus | None,
        jobs: int,
        progress: Progress,
        splits: Splits,
    ) -> None:
        self.path, self.deep, self.handle, self.corpus = path, request.deep, handle, corpus
        self.jobs, self.progress, self.splits, self.inspections = jobs, progress, splits, Inspections()
        self.result = CheckReport(str(path), deep=request.deep, limit=request.limit)
        asked = request.source
        self.request = replace(asked.accepting(READS["check"]), paths=(path,), ignore_manifest=True)

    def report(self) -> CheckReport:
        """Run every check, close what was inspected, and return the report."""
        try:
            report = self._report()
            if report.dataset is not None and not report.dataset.split and (of := report.dataset.other_splits):
                report.notes += (f"the splits {', '.join(of)} are checked together; --split NAME checks one",)
            return report
        finally:
            self.inspections.close()

    def _report(self) -> CheckReport:
        """Run every check that applies, without the reader if it is unsafe or no option needs it."""
        if self.request.format:
            registry.get(self.request.format)
        try:
            # the detection looks at it if no format is given
            looked = probe_of(registry.of_prefix(self.path)).files if self.request.format else None
            dataset = dataset_at(self.path, self.request, every_split=True)
            dataset = dataset._replace(inspections=self.inspections, opened=looked or dataset.opened)
        except FormatError as error:
            self.result.add([Finding.of("TF900", error)], meanings(None))
            return self.result
        except DetectionError as error:
            why = str(error).partition(": ")[2] or str(error)
            self.result.add([Finding("TF900", "error", str(self.path), why)], meanings(None))
            return self.result
        if dataset.split:
            self.path, self.request = dataset.path, replace(self.request, split=None)
        format_ = dataset.format
        self.result.format, codes = format_.name, meanings(format_)
        self.result.dataset = dataset._replace(opened={}, inspections=None)
        self.request, _ = found_as_written(dataset, self.request)
        self.result.add(self._own(dataset, read_options(format_, self.request)), codes)
        manifest = own_manifest(dataset)
        self.result.manifest = str(manifest.path) if manifest.output or manifest.members else None
        self.result.add(file_findings(dataset, self.deep, self.jobs, self.progress, self.splits), codes)
        if not self.result.errors:
            self.result.add(shard_findings(dataset), codes)
            self.result.add(other_findings(dataset), codes)
            self.result.add(number_findings(dataset), codes)
        if not self.result.errors:
            self.result.add(ledger_findings(dataset, self.request, deep=self.deep), codes)
        if not self.result.unsafe and (self.deep or self.handle or self.corpus):
            messages = {finding.message for finding in self.result.findings if finding.severity == "error"}
            # the reader's refusal repeats an error that the audit has already found, so only its other findings count
            read = (
                f for f in self._read(dataset) if not (messages and f.code == "TF901") and f.message not in messages
            )
            self.result.add(read, codes)
        elif not self.result.errors:
            self.result.add(self._stored(dataset), codes)
        return self.result

    def _stored(self, dataset: SourceFiles) -> Iterator[Finding]:
        """Open the dataset as it is stored, and compare its counts with the manifest."""
        try:
            source = open_dataset(self.request, Reading(as_stored=True), [dataset])
        except MissingDependencyError:
            raise
        except TokfmtError as error:
            if dataset.format.is_computed:  # for other formats, --deep reports the refusal
                yield _refusal_of_recipe(self.path, error)
            return
        self.result.remark(source.remarks)
        yield from metadata_findings(source)
        yield from stored_count_findings(dataset, source)
        yield from self._content(source)
        source.reader.close()

    def _own(self, dataset: SourceFiles, options: Any) -> Iterator[Finding]:
        """Run the audit of the format."""
        path = dataset.path
        if self.deep:
            self.progress.phase(f"checking {path.name}", 0, "tokens")
        separator = known_separator(self.request.eos, [path], [manifest_of(dataset)])
        default = self.handle.eos_id if self.handle else None
        how = Audit(
            deep=self.deep,
            eos_id=separator.eos_id if separator is not None else default,
            spread=partial(in_threads, jobs=self.jobs),
            advance=self.progress.advance,
        )
        if dataset.inspections is None:
            findings = dataset.format.audit(path, options, how)
        else:
            hints = hints_of(dataset, self.request, separator)
            hints = hints._replace(files=dataset.hand_out(keep=self.deep), jobs=self.jobs)
            findings = dataset.inspections.of(dataset.format, [path], options, hints).findings(how)
        yield from _guarded(findings)

    def _read(self, dataset: SourceFiles) -> Iterator[Finding]:
        """Open the dataset with the common reader, and run the checks that need its sequences."""
        try:
            source = self._opened(dataset)
        except MissingDependencyError:
            raise
        except TokfmtError as error:
            if dataset.format.is_computed:
                yield _refusal_of_recipe(self.path, error)
                return
            if isinstance(error, OptionError):
                raise
            yield _refusal(str(self.path), error)
            return
        yielded = set[Finding]()
        try:
            for finding in self._of_source(dataset, source):
                yielded.add(finding)
                yield finding
        except UnendedError:  # Not every sequence has the separator that those have which were looked at.
            self.request = replace(self.request, every_end=True)
            source.reader.close()
            source = self._opened(dataset)
            yield from (finding for finding in self._of_source(dataset, source) if finding not in yielded)
        finally:
            source.reader.close()

    def _opened(self, dataset: SourceFiles) -> Source:
        """Open the dataset as every command does.

        If its separator is unknown, use the tokenizer's end of text, or else read the dataset as it is stored.
        """

        def opened(eos: EosChoice, handle: TokenizerHandle | None = None) -> Source:
            reads_all = self.deep or self.corpus is not None
            request = replace(self.request, format=dataset.format.name, eos=eos, every_end=reads_all)
            reading = Reading(handle, self.jobs, self.progress if self.deep else None)
            return open_dataset(request, reading, [dataset])

        handle = self.handle if self.handle is not None and self.handle.eos_id is not None else None
        try:
            source = opened(self.request.eos)
        except SeparatorUnknownError:
            return opened(None, handle) if handle is not None else opened("none")
        if isinstance(source.reader, RecordReader) or handle is None or self.request.eos is not None:
            return source
        unused = source.reader.is_split and source.reader.info.sequences <= 1
        if unused or source.separator.eos_id is None:
            # the separator is unknown, or comes from a convention that this dataset does not follow
            source.reader.close()
            return opened(None, handle)
        return source

    def _content(self, source: Source) -> Iterator[Finding]:
        """Report what the facts of a reader, and its last IDs, show of its content."""
        reader = source.reader
        if "TF919" not in self.result.counts:  # an empty file says more
            yield from empty_findings(self.path, reader)
        if not isinstance(reader, RecordReader):
            yield from width_findings(self.path, reader)
            if not source.format.is_computed and (not self.deep or reader.is_split):
                yield from self._new(tail_findings(self.path, reader))

    def _of_source(self, dataset: SourceFiles, source: Source) -> Iterator[Finding]:
        self.result.remark(() if self.result.errors else source.remarks)
        yield from self._content(source)
        if source.stored_ids is None or not self.deep:
            yield from self._of_content(dataset, source)
            return
        try:
            axis = ingested(as_stored(source.stored_ids), None, self.jobs)
        except TokfmtError as error:
            yield _refusal(str(self.path), error)
            return
        with closing(axis):
            self.result.remark((*self.result.notes, *axis.info.notes))
            contents, _ = contents_of(source, axis, every_end=True)
            yield from self._of_content(dataset, source._replace(reader=contents))

    def _of_content(self, dataset: SourceFiles, source: Source) -> Iterator[Finding]:
        reader, max_id, bare = source.reader, None, source
        if isinstance(reader, RecordReader):
            if self.deep:
                try:
                    self.result.sequences = reader.count()
                except TokfmtError as error:
                    yield _refusal(str(self.path), error)
                    return
            if self.handle is not None and source.stored_ids is not None:
                yield from self._of_records(source, reader, self.handle)
        else:
            info = reader.info
            yield from metadata_findings(source)
            yield from self._new(missing_findings(self.path, source))
            self.result.sequences, self.result.tokens = info.sequences, info.tokens
            vocabulary = None if self.handle is None else Vocabulary(reader, self.handle, self.jobs)
            zeros = None if source.format.is_computed else Zeros.of(reader)  # samples are padded
            wanted = (Counted.of(reader), Endings.of(source), zeros) if self.deep else ()
            searches = [search for search in wanted if search is not None]
            yield from self._new(unfinished_findings(self.path, reader))
            yield from doubled_findings(self.path, reader)
            # every token of a stream is read when it is opened
            if self.deep and (vocabulary is not None or searches or not reader.is_split):
                max_id = yield from self._walked(reader, vocabulary, searches)
            if "TF945" in self.result.counts:
                self.result.doubled = next(
                    (search.eos_id for search in searches if isinstance(search, Endings)), info.eos_id
                )
            yield from lead_findings(self.path, source, self.handle) if self.deep else ()
            bare = behind_bos(source, self.handle, self.progress.note)
            if self.handle is not None and vocabulary is not None and bare.axis is not None:
                yield from tokenizer_findings(bare, bare.axis, self.handle, vocabulary)
        if self.deep:
            yield from count_findings(dataset, source, self.result.sequences, self.result.tokens, max_id)
        if self.corpus is not None:
            yield from corpus_findings(bare, self.corpus)

    def _of_records(self, source: Source, reader: RecordReader, handle: TokenizerHandle) -> Iterator[Finding]:
        """Compare records of token IDs with a tokenizer: all of them, or some of a large dataset."""
        complete = reader.info.size <= _CHEAP
        try:
            axis = ingested(reader, None, self.jobs) if complete else MemoryReader(some_ids(reader, _PLACES))
        except TokfmtError as error:
            yield _refusal(str(self.path), error)
            return
        try:
            yield from tokenizer_findings(source, axis, handle, Vocabulary(axis, handle, self.jobs, complete=complete))
        finally:
            axis.close()

    def _walked(
        self, reader: TokenReader, vocabulary: Vocabulary | None, searches: Sequence[Counted | Endings | Zeros]
    ) -> Generator[Finding, None, int | None]:
        """Read every token once, let the searches look, and return the largest ID; None without one to read."""
        self.progress.phase(f"reading {self.path.name}", reader.info.tokens, "tokens")

        def look_at(interval: tuple[int, int]) -> tuple[TokfmtError | None, list[Beyond], int]:
            beyond, top = [], -1
            try:
                for a, b in windows(*interval):
                    tokens = reader.tokens(a, b)
                    top = max(top, largest_id(tokens))
                    if vocabulary is not None:
                        beyond.append(vocabulary.beyond(a, tokens))
                    for search in searches:
                        search.search(a, tokens)
            except TokfmtError as error:
                return error, beyond, top
            return None, beyond, top

        max_id: int | None = -1

        cuts = list(windows(0, reader.info.tokens, REGION))
        for (error, beyond, top), (a, b) in zip(in_threads(look_at, cuts, self.jobs), cuts, strict=True):
            self.progress.advance(b - a)
            if vocabulary is not None:
                vocabulary.note(beyond, whole=True)
            max_id = None if error is not None or max_id is None else max(max_id, top)
            if error is not None:
                yield self._unread(error)
        for search in searches if max_id is not None else ():
            yield from self._new(search.findings(self.path))
        return max_id

    def _unread(self, error: TokfmtError) -> Finding:
        """Return the finding of tokens that cannot be read, unless a look at every end can read them."""
        if isinstance(error, UnendedError) and not self.request.every_end:
            raise error
        return _refusal(str(self.path), error)

    def _new(self, findings: Iterator[Finding]) -> Iterator[Finding]:
        """Yield the findings that the check of the format has not reported already, with a code of its own."""
        for finding in findings:
            if not self.result.counts.keys() & _SAME.get(finding.code, ()):
                yield finding


_SAME: Mapping[str, frozenset[str]] = {
    "TF942": frozenset({"TF338"}),
    "TF944": frozenset({"TF116", "TF117"}),
    "TF946": frozenset({"TF121"}),
    "TF947": frozenset({"TF645"}),
    "TF949": frozenset({"TF209", "TF210", "TF643", "TF704"}),
}
"""Codes of findings of formats that report the same."""


def _guarded(findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield the findings of an audit, and turn a `FormatError` that it raises into a finding."""
    try:
        yield from findings
    except FormatError as error:
        yield _refusal(error.path, error)


def _refusal(path: str, error: TokfmtError) -> Finding:
    if isinstance(error, UnsafeError):
        return Finding.of("TF902", error)
    if isinstance(error, FormatError):
        return Finding.of("TF901", error, "warning" if isinstance(error, UnsupportedError) else "error")
    return Finding("TF901", "warning", path, error.args[0].removeprefix(f"{path}: "))


def _refusal_of_recipe(path: Place, error: TokfmtError) -> Finding:
    """Return the finding of a valid recipe whose sources cannot be opened, or do not fit together."""
    notes = "".join(f". {note}" for note in getattr(error, "__notes__", ()))
    if isinstance(error, FormatError):
        return Finding.of("TF902" if isinstance(error, UnsafeError) else "TF802", error, more=notes)
    return Finding("TF802", "error", str(path), error.args[0].removeprefix(f"{printable(path)}: ") + notes)
