"""`tokfmt check`: the format's own rules, the reader that every command uses, and what else is known of a dataset.

`--fix` writes a repaired copy, where it is certain what is right.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tokfmt import registry
from tokfmt.core.atomic_output import Staging
from tokfmt.core.errors import (
    ConversionError,
    DetectionError,
    FormatError,
    MissingDependencyError,
    OptionError,
    SeparatorUnknownError,
    TokfmtError,
    UnsafeError,
    UnsupportedError,
    VerificationError,
)
from tokfmt.core.files import writing
from tokfmt.core.findings import Audit, Code, Finding, Repair
from tokfmt.core.format import REGION, Format, look
from tokfmt.core.messages import marked
from tokfmt.core.output import readable_by
from tokfmt.core.reader import Info, Layout, TokenReader, largest_id, windows
from tokfmt.core.records import RecordReader
from tokfmt.core.text_format import printable
from tokfmt.formats.jsonl.index import index_path, write_index
from tokfmt.ops.check.codes import meanings
from tokfmt.ops.check.cross_checks import (
    Beyond,
    Corpus,
    Vocabulary,
    corpus_findings,
    count_findings,
    file_findings,
    ledger_findings,
    other_findings,
    stored_count_findings,
    tokenizer_findings,
)
from tokfmt.ops.convert.convert import carry_out
from tokfmt.ops.convert.manifests import manifests
from tokfmt.ops.convert.request import Conversion, Request
from tokfmt.ops.destination import guard, refuse_foreign, strangers_in
from tokfmt.ops.source.discover import check_unchanged, dataset_paths, find_sources, format_of, found_at, snapshot
from tokfmt.ops.source.manifest import found_as_written, manifest_of, manifest_path
from tokfmt.ops.source.open import open_found, open_one, open_stored
from tokfmt.ops.source.request import (
    EosChoice,
    SourceFiles,
    SourceRequest,
    given_to,
    option_names,
    read_options,
    words_of,
)
from tokfmt.ops.source.stored import Source, tokenizer_of, told
from tokfmt.run.execute import NullProgress, Progress, worker_count
from tokfmt.views.view import SplitAt

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")
PathLike = str | os.PathLike[str]
_SAID = frozenset({"other-files", "tokenizers"})
"""What stops other commands is a finding here."""

MOST = 100
"""Findings of one code that are kept; the others are counted."""


@dataclass(slots=True)
class Verdict:
    """What was found in one dataset.

    Attributes:
        path: As given.
        format: Its format's name, None when it could not be opened.
        deep: Everything was decoded.
        sequences, tokens: How many, separators not counted, when it was read to its end.
        findings: At most `most` of each code, in the order in which they were met.
        counts: How many there are of each code.
        severities: How many there are of each severity.
        notes: What opening it without an error says of it, as to whoever converts or shows it: oddities, guesses.
        unsafe: Reading on could execute code, leave the dataset, or exhaust memory.
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
    most: int = MOST

    def add(self, found: Iterable[Finding], meanings: Mapping[str, Code]) -> None:
        """Take up findings, and let go of those beyond the limit.

        Args:
            found: As they are met.
            meanings: Of their codes, as far as they are explained; a finding without a remedy refers to them.
        """
        for given in found:
            finding = given
            if not given.remedy and given.code in meanings:
                finding = replace(given, remedy=f"tokfmt check --explain {given.code} says more")
            number = self.counts[finding.code] = self.counts.get(finding.code, 0) + 1
            self.severities[finding.severity] = self.severities.get(finding.severity, 0) + 1
            self.unsafe = self.unsafe or (finding.code in meanings and meanings[finding.code].unsafe)
            if number <= self.most:
                self.findings.append(finding)

    def remark(self, notes: Iterable[str]) -> None:
        """Take up notes, but for those that repeat a finding."""
        self.notes = tuple(note for note in notes if not any(one.message in note for one in self.findings))

    @property
    def errors(self) -> int:
        return self.severities.get("error", 0)

    @property
    def left_out(self) -> dict[str, int]:
        """How many of each code were counted and not kept."""
        return {code: count - self.most for code, count in self.counts.items() if count > self.most}

    @property
    def exit_code(self) -> int:
        """0 without errors, 1 with some, 3 when it could not be opened or is unsafe."""
        if self.unsafe or "TF900" in self.counts:
            return 3
        return 1 if self.errors else 0


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """What to check.

    Attributes:
        source: Paths, each a dataset of its own, and how to read them; of formats with splits all, if none is named.
        deep: Decode everything.
        tokenizer: Whose vocabulary, end of text and decoding to compare with.
        against: A corpus that the dataset must hold the documents of, in order.
        ignore_order: In whatever order.
        jobs: Workers; by default one a core.
        executor: "threads"; "auto": processes for much text.
        most: Findings of one code that are kept.
    """

    source: SourceRequest
    deep: bool = False
    tokenizer: str | None = None
    against: PathLike | None = None
    ignore_order: bool = False
    jobs: int | None = None
    executor: Literal["threads", "auto"] = "threads"
    most: int = MOST


def check(request: CheckRequest, progress: Progress | None = None) -> Iterator[Verdict]:
    """Check each dataset; patterns stand for what they match.

    Raises:
        OptionError: An option, a format or a tokenizer that does not exist.
        TokfmtError: The corpus to compare with cannot be opened. Damage of what is checked never raises.
    """
    handle = tokenizer_of(request.tokenizer)
    watched = progress or NullProgress()
    jobs = worker_count(request.jobs)
    corpus = _corpus(request, handle, jobs, watched)
    try:
        for path in dataset_paths(request.source):
            yield _Checking(path, request, handle, corpus, jobs, watched).verdict()
    finally:
        if corpus is not None:
            corpus.close()


def _corpus(request: CheckRequest, handle: TokenizerHandle | None, jobs: int, progress: Progress) -> Corpus | None:
    """What to compare with, if there is something."""
    if request.against is None:
        return None
    asked = request.source
    source = SourceRequest(
        (request.against,), text_field=asked.text_field, allow_loss=asked.allow_loss, recursive=asked.recursive
    )
    processes = request.executor == "auto"
    return Corpus(source, handle, jobs, progress, ignore_order=request.ignore_order, processes=processes)


class _Checking:
    """One dataset being checked."""

    def __init__(
        self,
        path: Path,
        request: CheckRequest,
        handle: TokenizerHandle | None,
        corpus: Corpus | None,
        jobs: int,
        progress: Progress,
    ) -> None:
        self.path, self.deep, self.handle, self.corpus = path, request.deep, handle, corpus
        self.jobs, self.progress = jobs, progress
        self.found = Verdict(os.fspath(path), deep=request.deep, most=request.most)
        asked = request.source
        self.request = replace(asked, paths=(path,), allow_loss=asked.allow_loss | _SAID, ignore_manifest=True)

    def verdict(self) -> Verdict:
        """Everything that is wrong."""
        if self.request.format:
            registry.get(self.request.format)
        try:
            look(registry.of_prefix(self.path))
            format_ = format_of(self.path, self.request.format)
        except FormatError as error:
            self.found.add([Finding.of("TF900", error)], meanings(None))
            return self.found
        except DetectionError as error:
            why = str(error).partition(": ")[2] or str(error)
            self.found.add([Finding("TF900", "error", os.fspath(self.path), why)], meanings(None))
            return self.found
        self.found.format = format_.name
        known = meanings(format_)
        one = found_at(self.path, format_, self.request)
        self.request, _ = found_as_written(one, self.request)
        self.found.add(self._own(one, read_options(format_, self.request)), known)
        self.found.add(file_findings(one, self.deep, self.jobs, self.progress), known)
        if not self.found.errors:
            self.found.add(other_findings(one), known)
        if not self.found.errors:
            self.found.add(ledger_findings(one, self.request, deep=self.deep), known)
        if not self.found.unsafe and (self.deep or self.handle or self.corpus):
            told = {finding.message for finding in self.found.findings if finding.severity == "error"}
            # a reader that refuses after an error, or in the same words, says nothing new
            read = (f for f in self._read(format_) if not (told and f.code == "TF901") and f.message not in told)
            self.found.add(read, known)
        elif not self.found.errors:
            self.found.add(self._stored(one), known)
        return self.found

    def _stored(self, one: SourceFiles) -> Iterator[Finding]:
        """What opening it says, and what is compared with the counts of the manifest."""
        try:
            source = open_stored([one], self.request)
        except MissingDependencyError:
            raise
        except TokfmtError as error:
            if one.format.computed:  # of others --deep says it
                yield _refusal_of_recipe(self.path, error)
            return
        source.reader.close()
        self.found.remark(source.remarks)
        yield from stored_count_findings(self.path, source)

    def _own(self, one: SourceFiles, options: Any) -> Iterator[Finding]:
        """What the format itself finds."""
        path, format_ = one.path, one.format
        if self.deep:
            self.progress.phase(f"checking {path.name}", 0, "tokens")
        known = told(self.request.eos, [path], [manifest_of(one)])
        default = self.handle.eos_id if self.handle else None
        with ThreadPoolExecutor(self.jobs, thread_name_prefix="tokfmt") as pool:
            how = Audit(
                deep=self.deep,
                eos_id=known.eos_id if known is not None else default,
                spread=_Spread(pool, self.jobs),
                advance=self.progress.advance,
            )
            yield from _guarded(format_.audit(path, options, how))

    def _read(self, format_: Format) -> Iterator[Finding]:
        """What only the reader tells, and what is compared with a tokenizer, a corpus and the manifest's counts."""
        try:
            source = self._opened(format_)
        except MissingDependencyError:
            raise
        except TokfmtError as error:
            if format_.computed:
                yield _refusal_of_recipe(self.path, error)
                return
            if isinstance(error, OptionError):
                raise
            yield _refusal(os.fspath(self.path), error)
            return
        try:
            yield from self._of_source(source)
        finally:
            source.reader.close()

    def _opened(self, format_: Format) -> Source:
        """The dataset as every command sees it; as it is stored if nothing tells its separator."""

        def opened(eos: EosChoice, handle: TokenizerHandle | None = None) -> Source:
            request = replace(self.request, format=format_.name, eos=eos)
            progress = self.progress if self.deep else None
            return open_found([found_at(self.path, format_, request)], request, handle, self.jobs, progress)

        handle = self.handle if self.handle is not None and self.handle.eos_id is not None else None
        try:
            source = opened(self.request.eos)
        except SeparatorUnknownError:
            return opened(None, handle) if handle is not None else opened("none")
        if isinstance(source.reader, RecordReader) or handle is None or self.request.eos is not None:
            return source
        unused = isinstance(source.reader, SplitAt) and source.reader.info.sequences <= 1
        if unused or source.separator.eos_id is None:
            source.reader.close()  # nothing tells it, or a convention that this dataset does not follow
            return opened(None, handle)
        return source

    def _of_source(self, source: Source) -> Iterator[Finding]:
        reader, max_id = source.reader, None
        self.found.remark(() if self.found.errors else source.remarks)
        if isinstance(reader, RecordReader):
            if self.deep:
                try:
                    self.found.sequences = reader.count()
                except TokfmtError as error:
                    yield _refusal(os.fspath(self.path), error)
                    return
        else:
            info = reader.info
            self.found.sequences, self.found.tokens = info.sequences, info.tokens
            vocabulary = None if self.handle is None else Vocabulary(reader, self.handle, self.jobs)
            # what splits at separators has read all of it on opening
            if self.deep and (vocabulary is not None or not isinstance(reader, SplitAt)):
                max_id = yield from self._walked(reader, vocabulary)
            if self.handle is not None and vocabulary is not None:
                yield from tokenizer_findings(source, reader, self.handle, vocabulary)
        if self.deep:
            counts, eos_id = (self.found.sequences, self.found.tokens), source.separator.eos_id
            samples = isinstance(reader.info, Info) and reader.info.layout is Layout.SAMPLES
            yield from count_findings(self.path, *counts, eos_id, samples=samples, max_id=max_id)
        if self.corpus is not None:
            yield from corpus_findings(source, self.corpus)

    def _walked(self, reader: TokenReader, vocabulary: Vocabulary | None) -> Generator[Finding, None, int | None]:
        """Every token, through the reader, once: shown to whoever looks at ids; returns the largest ID."""
        self.progress.phase(f"reading {self.path.name}", reader.info.tokens, "tokens")

        def look_at(interval: tuple[int, int]) -> tuple[TokfmtError | None, list[Beyond], int]:
            beyond, top = [], -1
            try:
                for a, b in windows(*interval):
                    tokens = reader.tokens(a, b)
                    top = max(top, largest_id(tokens))
                    if vocabulary is not None:
                        beyond.append(vocabulary.look(a, tokens))
            except TokfmtError as error:
                return error, beyond, top
            return None, beyond, top

        max_id: int | None = -1

        with ThreadPoolExecutor(self.jobs, thread_name_prefix="tokfmt") as pool:
            cuts = list(windows(0, reader.info.tokens, REGION))
            for (error, beyond, top), (a, b) in zip(_Spread(pool, self.jobs)(look_at, cuts), cuts, strict=True):
                self.progress.advance(b - a)
                if vocabulary is not None:
                    vocabulary.note(beyond, whole=True)
                max_id = None if error is not None or max_id is None else max(max_id, top)
                if error is not None:
                    yield _refusal(os.fspath(self.path), error)
        return max_id


class _Spread:
    """Maps over items with threads, in order, at most two results a thread ahead."""

    def __init__(self, pool: ThreadPoolExecutor, jobs: int) -> None:
        self.pool, self.ahead = pool, 2 * jobs

    def __call__(self, function: Callable[[I], R], items: Iterable[I]) -> Iterator[R]:
        left = iter(items)
        pending = [self.pool.submit(function, item) for item in islice(left, self.ahead)]
        while pending:
            done = pending.pop(0).result()
            pending += [self.pool.submit(function, item) for item in islice(left, 1)]
            yield done


def _guarded(found: Iterator[Finding]) -> Iterator[Finding]:
    """Findings, and whatever a check raises itself as one more."""
    try:
        yield from found
    except FormatError as error:
        yield _refusal(error.path, error)


def _refusal(path: str, error: TokfmtError) -> Finding:
    if isinstance(error, UnsafeError):
        return Finding.of("TF902", error)
    if isinstance(error, FormatError):
        return Finding.of("TF901", error, "warning" if isinstance(error, UnsupportedError) else "error")
    return Finding("TF901", "warning", path, marked(error.args[0]).removeprefix(f"{path}: "))


def _refusal_of_recipe(path: Path, error: TokfmtError) -> Finding:
    """Why a recipe that can be read itself cannot be opened: as its sources are, or as they go together."""
    notes = "".join(f". {marked(note)}" for note in getattr(error, "__notes__", ()))
    if isinstance(error, FormatError):
        return Finding.of("TF902" if isinstance(error, UnsafeError) else "TF802", error, more=notes)
    return Finding(
        "TF802", "error", os.fspath(path), marked(error.args[0]).removeprefix(f"{printable(path)}: ") + notes
    )


_INDEX_CODES = frozenset({"TF511", "TF512", "TF514", "TF515"})


@dataclass(frozen=True, slots=True)
class Fixed:
    """What was repaired.

    Attributes:
        destination: The repaired copy; "" when nothing needed a repair and nothing was written.
        done: What is right now and was not, by code.
        verdict: What a deep check finds in the copy.
        partial: The copy has what is whole of a damaged dataset: what was saved, and what was not; "" of others.
    """

    destination: str
    done: dict[str, str]
    verdict: Verdict | None = None
    partial: str = ""


def fix(
    verdict: Verdict, destination: str | os.PathLike[str], request: CheckRequest, *, overwrite: bool = False,
    progress: Progress | None = None,
) -> Fixed:  # fmt: skip
    """Write a copy of a checked dataset in which everything is right that can be repaired for certain.

    Of a dataset with other errors, the copy has the sequences that are certain to be whole; see `ops.source.partial`.

    Args:
        destination: The copy; appears whole and checked, or not at all.
        overwrite: Replace an existing destination.

    Raises:
        ConversionError: There is an error that no repair is certain for, and nothing is certain to be whole; nothing
            was written.
        TokfmtError: As for `convert`.
    """
    if verdict.format is None:
        raise ConversionError(f"{printable(verdict.path)}: not repaired: it cannot be opened")
    format_ = registry.get(verdict.format)
    repairs = format_.patches() or format_.repairs()
    hopeless = sorted({f.code for f in verdict.findings if f.severity == "error"} - repairs.keys())
    chosen = {code: repairs[code] for code in sorted(verdict.counts) if code in repairs and not hopeless}
    if not hopeless and not chosen:
        return Fixed("", {})
    path = Path(verdict.path)
    source, _ = found_as_written(found_at(path, format_, request.source), request.source)  # the copy has no manifest
    written = {name: value for name, value in source.options.items() if name not in request.source.options}
    request = replace(request, source=source)
    job = _Job(path, Path(destination), format_, request, written, chosen, progress or NullProgress(), overwrite)
    partial = ""
    if hopeless:
        after, partial = job.saved(hopeless)
    elif format_.patches():
        after = job.patched(format_)
    else:
        after = job.rewritten(format_)
    return Fixed(os.fspath(destination), {code: repair.how for code, repair in chosen.items()}, after, partial)


@dataclass(frozen=True, slots=True)
class _Job:
    """A repair under way; the copy is written with the options that the dataset was, by its manifest."""

    path: Path
    destination: Path
    format: Format
    request: CheckRequest
    written: Mapping[str, object]
    chosen: Mapping[str, Repair]
    progress: Progress
    overwrite: bool

    def _source(self, path: Path, eos: EosChoice, allow_loss: frozenset[str] = frozenset()) -> SourceRequest:
        """The dataset, or its copy, with the read options that were given and those that the repairs need."""
        given = given_to(self.format, self.request.source)
        for repair in self.chosen.values():
            given |= repair.options
        return SourceRequest((path,), self.format.name, eos, given, allow_loss=allow_loss)

    def rewritten(self, format_: Format) -> Verdict:
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

        told = {**self.written, **format_.repaired_with(self.path, options)}
        request = Request(
            source, self.destination, to=self.format.name, to_options=told,
            overwrite=self.overwrite, verify=True, jobs=worker_count(self.request.jobs),
        )  # fmt: skip
        carry_out(request, self.progress, prove=prove)
        return verdicts[0]

    def saved(self, codes: Sequence[str]) -> tuple[Verdict, str]:
        """What is whole of a damaged dataset, by a conversion to its own format; and what was saved, in words.

        Raises:
            ConversionError: Nothing is certain to be whole, or the damage is none that a part is saved of.
        """
        asked = self.request.source
        source = replace(self._source(self.path, asked.eos, asked.allow_loss | {"other-files"}), allow_partial=True)
        verdicts = list[Verdict]()

        def prove(staging: Staging) -> Mapping[str, Path]:
            verdicts.append(self._checked(staging.path))
            return {}

        try:
            opened = open_one(source)
            opened.reader.close()
            if opened.partial is None:
                raise self._uncertain(codes)
        except SeparatorUnknownError:
            raise
        except FormatError as error:
            raise self._uncertain(codes, f" ({error.sentence})") from error
        written = dict(self.written)
        if opened.separator.eos_id is None:
            names = option_names(self.format.write_options)
            written |= {name: "none" for name in ("eod", "eos") if name in names}
        request = Request(
            source, self.destination, to=self.format.name, to_options=written,
            overwrite=self.overwrite, verify=True, jobs=worker_count(self.request.jobs),
        )  # fmt: skip
        carry_out(request, self.progress, prove=prove)
        return verdicts[0], opened.partial.sentence()

    def _uncertain(self, codes: Sequence[str], why: str = "") -> ConversionError:
        return ConversionError(
            f"{printable(self.path)}: not repaired: it is not certain what is right where it has "
            f"{', '.join(codes)}{why}. tokfmt check --explain {codes[0]} says what to do"
        )

    def patched(self, format_: Format) -> Verdict:
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
            with writing(self.destination):
                _copy(self.format, self.path, staging.path)
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
            replace(found, path=found.path.replace(str(path), str(self.destination))) for found in verdict.findings
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
        options = {"from": words_of(request.options), "to": words_of(self.written)}
        given = {"options": options, "select": None, "split": None}
        return manifests(done, [origin], {self.destination: staging}, given, self.progress, 1)[self.destination]


def _copy(format_: Format, source: Path, destination: Path) -> None:
    """The files of a dataset, links followed; modes as a new file has them."""
    if not source.is_dir():
        shutil.copyfile(source, destination)
        return
    for file in format_.files(source):
        copy = destination / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
