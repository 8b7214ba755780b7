"""Check datasets: the format's own rules, the reader that every command uses, and what else is known of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tokfmt import registry
from tokfmt.core.audit import Audit, Audited
from tokfmt.core.axis import TokenReader, windows
from tokfmt.core.errors import (
    DetectionError,
    FormatError,
    MissingDependencyError,
    OptionError,
    SeparatorUnknownError,
    TokfmtError,
    UnsafeError,
    UnsupportedError,
)
from tokfmt.core.format import REGION, Finding, Format, look
from tokfmt.core.options import parse_options
from tokfmt.core.records import RecordReader
from tokfmt.ops.check import against, by_tokenizer, of_manifest
from tokfmt.ops.check.codes import meanings
from tokfmt.ops.check.verdict import MOST, Verdict
from tokfmt.ops.open import Source, open_source
from tokfmt.ops.progress import Progress, Silent
from tokfmt.ops.separator import EosChoice, told
from tokfmt.ops.sources import SourceRequest, expanded, read_options
from tokfmt.views.split import SplitAt

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

I = TypeVar("I")  # noqa: E741 - an item
R = TypeVar("R")
PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Demands:
    """What to check.

    Attributes:
        deep: Decode everything.
        format: A format's name, or None to detect it.
        options: The format's read options.
        eos: The separator's id, "none", or None to find out.
        split: Which split, for formats that have them; else all.
        text_field: Dotted path of the text in JSON records.
        tokenizer: Whose vocabulary, end of text and decoding to compare with.
        against: A corpus that the dataset must hold the documents of.
        jobs: Threads.
        most: Findings of one code that are kept.
    """

    deep: bool = False
    format: str | None = None
    options: tuple[str, ...] = ()
    eos: EosChoice = None
    split: str | None = None
    text_field: str | None = None
    tokenizer: str | None = None
    against: PathLike | None = None
    jobs: int | None = None
    most: int = MOST

    @property
    def corpus(self) -> PathLike:
        """What to compare with, when there is something."""
        return self.against or ""


def check(paths: Sequence[PathLike], demands: Demands, progress: Progress | None = None) -> Iterator[Verdict]:
    """Check each path; patterns stand for what they match.

    Raises:
        OptionError: An option, a format or a tokenizer that does not exist. Damage never raises.
    """
    handle = None
    if demands.tokenizer is not None:
        from tokfmt.text.tokenizer import load_tokenizer

        handle = load_tokenizer(demands.tokenizer)
    if demands.against is not None and handle is None and against.needs_tokenizer(demands.against):
        raise OptionError("--against compares tokens with text: say how to encode it with --tokenizer NAME|DIR|FILE")
    for path in expanded(paths):
        yield _Checking(path, demands, handle, progress or Silent()).verdict()


class _Checking:
    """One dataset being checked."""

    def __init__(self, path: PathLike, demands: Demands, handle: TokenizerHandle | None, progress: Progress) -> None:
        self.path, self.demands, self.handle, self.progress = path, demands, handle, progress
        self.found = Verdict(os.fspath(path), deep=demands.deep, most=demands.most)
        self.jobs = max(1, demands.jobs or os.cpu_count() or 1)
        self.request = SourceRequest(
            (path,), demands.format, demands.eos, demands.options, demands.text_field, demands.split
        )

    def verdict(self) -> Verdict:
        """Everything that is wrong."""
        if self.demands.format:
            registry.get(self.demands.format)
        try:
            look(self.path)
            format_ = registry.get(self.demands.format) if self.demands.format else registry.detect(self.path)
        except FormatError as error:
            self.found.add([_finding("TF900", "error", error)], meanings(None))
            return self.found
        except DetectionError as error:
            why = str(error).partition(": ")[2] or str(error)
            self.found.add([Finding("TF900", "error", os.fspath(self.path), why)], meanings(None))
            return self.found
        self.found.format = format_.name
        words = read_options(self.request, format_)
        options: Any = parse_options(format_.read_options, words, format_.name)
        known = meanings(format_)
        self.found.add(self._own(format_, options), known)
        self.found.add(
            of_manifest.file_findings(Path(self.path), format_.name, self.demands.deep, self.progress), known
        )
        if not self.found.unsafe and (self.demands.deep or self.handle or self.demands.against):
            told = self.found.errors > 0  # then a reader that refuses says nothing new
            read = self._read(format_, words)
            self.found.add((f for f in read if not (told and f.code == "TF901")), known)
        return self.found

    def _own(self, format_: Format, options: Any) -> Iterator[Finding]:
        """What the format itself finds."""
        path = Path(self.path)
        if not isinstance(format_, Audited):
            yield from _guarded(format_.check(path, options))
            return
        if self.demands.deep:
            self.progress.phase(f"checking {path.name}", 0, "tokens")
        known = told(self.demands.eos, self.handle.eos_id if self.handle else None, [path])
        with ThreadPoolExecutor(self.jobs, thread_name_prefix="tokfmt") as pool:
            how = Audit(
                deep=self.demands.deep,
                eos_id=known.eos_id if known is not None else None,
                spread=_Spread(pool, self.jobs),
                advance=self.progress.advance,
            )
            yield from _guarded(format_.audit(path, options, how))

    def _read(self, format_: Format, words: Sequence[str]) -> Iterator[Finding]:
        """What only the reader tells, and what is compared with a tokenizer, a corpus and the manifest's counts."""
        try:
            source = self._opened(format_, words)
        except (OptionError, MissingDependencyError):
            raise
        except TokfmtError as error:
            yield _refusal(os.fspath(self.path), error)
            return
        try:
            yield from self._of_source(source)
        finally:
            source.reader.close()

    def _opened(self, format_: Format, words: Sequence[str]) -> Source:
        """The dataset as every command sees it; as it is stored if nothing tells its separator."""

        def opened(eos: EosChoice, tokenizer_eos: int | None = None) -> Source:
            return open_source(
                [self.path], format=format_.name, eos=eos, tokenizer_eos=tokenizer_eos, options=words, jobs=self.jobs,
                progress=self.progress if self.demands.deep else None,
            )  # fmt: skip

        tokenizer_eos = self.handle.eos_id if self.handle else None
        try:
            source = opened(self.demands.eos)
        except SeparatorUnknownError:
            return opened(None, tokenizer_eos) if tokenizer_eos is not None else opened("none")
        unused = isinstance(source.reader, SplitAt) and source.reader.info.sequences <= 1
        if unused and tokenizer_eos is not None and self.demands.eos is None:
            source.reader.close()  # a convention that this dataset does not follow
            return opened(None, tokenizer_eos)
        return source

    def _of_source(self, source: Source) -> Iterator[Finding]:
        reader = source.reader
        if isinstance(reader, RecordReader):
            if self.demands.deep:
                try:
                    self.found.sequences = reader.count()
                except TokfmtError as error:
                    yield _refusal(os.fspath(self.path), error)
                    return
        else:
            info = reader.info
            self.found.sequences, self.found.tokens = info.sequences, info.tokens
            if self.demands.deep and not isinstance(reader, SplitAt):  # which has scanned all of it on opening
                yield from self._walked(reader)
            if self.handle is not None:
                yield from by_tokenizer.findings(source, reader, self.handle, self.demands)
        if self.demands.deep:
            yield from of_manifest.count_findings(Path(self.path), self.found, source.separator.eos_id)
        if self.demands.against is not None:
            yield from against.findings(source, self.demands, self.handle, self.jobs, self.progress)

    def _walked(self, reader: TokenReader) -> Iterator[Finding]:
        """Every token, through the reader."""
        self.progress.phase(f"reading {Path(self.path).name}", reader.info.tokens, "tokens")

        def look_at(interval: tuple[int, int]) -> TokfmtError | None:
            try:
                for a, b in windows(*interval):
                    reader.tokens(a, b)
            except TokfmtError as error:
                return error
            return None

        with ThreadPoolExecutor(self.jobs, thread_name_prefix="tokfmt") as pool:
            cuts = list(windows(0, reader.info.tokens, REGION))
            for error, (a, b) in zip(_Spread(pool, self.jobs)(look_at, cuts), cuts, strict=True):
                self.progress.advance(b - a)
                if error is not None:
                    yield _refusal(os.fspath(self.path), error)


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
        return _finding("TF902", "error", error)
    if isinstance(error, FormatError):
        return _finding("TF901", "warning" if isinstance(error, UnsupportedError) else "error", error)
    return Finding("TF901", "warning", path, str(error).removeprefix(f"{path}: "))


def _finding(code: str, severity: str, error: FormatError) -> Finding:
    contrast = ""
    if error.expected is not None and error.found is not None:
        contrast = f": expected {error.expected}, found {error.found}"
    elif error.found is not None:
        contrast = f": found {error.found}"
    return Finding(code, severity, error.path, error.what + contrast, error.remedy or "", error.offset)
