"""One conversion: what was asked for, how it is carried out, what is said of it afterwards."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tokfmt
from tokfmt import registry
from tokfmt.core.axis import TokenReader
from tokfmt.core.errors import ConversionError, OptionError, SeparatorUnknownError, UnknownFormatError, printable
from tokfmt.core.format import REGION, Target
from tokfmt.core.options import parse_options
from tokfmt.core.publish import Staging
from tokfmt.core.records import RecordReader
from tokfmt.ops.copy_records import copy_records
from tokfmt.ops.losses import Prepared, accepted, known_losses, prepare
from tokfmt.ops.manifest import SCHEMA, fingerprint, manifest_path
from tokfmt.ops.open import Options, Source
from tokfmt.ops.progress import Progress
from tokfmt.ops.separator import EosChoice, Separator
from tokfmt.ops.sources import (
    SourceRequest,
    agreed_separator,
    check_unchanged,
    first_texts,
    open_sources,
    option_names,
    pairs,
    snapshot,
    token_axis,
)
from tokfmt.ops.verify import verify_records, verify_tokens
from tokfmt.run.execute import make_executor
from tokfmt.run.plan import Workers, plan, run

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Request:
    """Everything a user may say about a conversion; see `convert` for the meaning of each."""

    source: SourceRequest
    destination: Path
    to: str | None = None
    to_options: Options = ()
    tokenizer: str | None = None
    special_tokens: Literal["text", "parse"] = "text"
    engine: Literal["auto", "fastokens", "tokenizers"] = "auto"
    seq_len: int | None = None
    select: str | None = None
    jobs: int = 1
    executor: str = "threads"
    overwrite: bool = False
    verify: bool = False
    dry_run: bool = False
    manifest: bool = True
    region: int = REGION


@dataclass(frozen=True, slots=True)
class Conversion:
    """What was converted, or would be (`dry_run`).

    Attributes:
        destination: Path as given.
        format: The destination's.
        sources: Path and format of each source.
        sequences, tokens: What the destination holds, separators not counted; None before text is tokenised.
        max_id: Largest id written (separators included where they are stored); None if not known.
        separator: The id, how it is known, and whether that was inferred.
        dropped: What was given up, by its --drop name.
        notes: What a person should know.
        plan: Tasks and executor.
        verified: The destination was read back and compared.
        tokenizer: What made or read the ids.
        dry_run: Nothing was written.
    """

    destination: str
    format: str
    sources: list[dict[str, object]]
    sequences: int | None
    tokens: int | None
    max_id: int | None
    separator: dict[str, object]
    dropped: dict[str, str]
    notes: list[str]
    plan: dict[str, object]
    verified: bool = False
    tokenizer: dict[str, object] | None = None
    dry_run: bool = False
    schema: str = field(default="tokfmt.convert/1", init=False)


class Run:
    """One conversion under way: `Run(request, progress).convert()`."""

    def __init__(self, request: Request, progress: Progress) -> None:
        self.request, self.progress = request, progress
        self.format = registry.get(request.to) if request.to else registry.for_destination(request.destination)
        self.options: Any = parse_options(self.format.write_options, self._words(), self.format.name)
        self.tokenizer = self._tokenizer()
        self.notes: list[str] = []

    def _words(self) -> list[str]:
        request, known, words = self.request, option_names(self.format.write_options), pairs(self.request.to_options)
        if request.seq_len is not None:
            if "seq_len" not in known:
                raise OptionError(f"--seq-len: {self.format.name} has no samples", name="seq-len")
            words.append(f"seq_len={request.seq_len}")
        if request.source.split and "split" in known:
            words.append(f"split={request.source.split}")
        return words

    def _tokenizer(self) -> TokenizerHandle | None:
        if self.request.tokenizer is None:
            return None
        from tokfmt.text.tokenizer import load_tokenizer

        return load_tokenizer(
            self.request.tokenizer, special_tokens=self.request.special_tokens, engine=self.request.engine
        )

    def convert(self) -> Conversion:
        request = self.request
        _guard(request)
        before = snapshot(request.source.paths)
        sources = open_sources(
            request.source, self.tokenizer.eos_id if self.tokenizer else None, request.jobs, self.progress
        )
        for source in sources:
            for note in source.notes:
                self._note(f"{source.paths[0]}: {note}" if str(source.paths[0]) not in note else note)
        copies = self._copies_records(sources)
        if not copies:
            self._need_tokenizer(sources)
        self._try_tokenizer(sources)
        with ExitStack() as stack:
            if request.dry_run:
                return self._dry_run(sources)
            staging = stack.enter_context(Staging(request.destination, overwrite=request.overwrite))
            executor = stack.enter_context(make_executor(request.executor, request.jobs))
            workers = Workers(executor, request.jobs, staging.scratch)
            done = self._copy(sources, staging, workers) if copies else self._write(sources, staging, workers)
            manifest = self._manifest(done, sources, staging) if request.manifest else None
            check_unchanged(before, request.source.paths)
            staging.publish({manifest_path(staging.destination).name: manifest})
            return done

    def _need_tokenizer(self, sources: Sequence[Source]) -> None:
        for source in sources:
            text = isinstance(source.reader, RecordReader) and source.reader.info.kind == "text"
            if text and self.tokenizer is None:
                raise OptionError(
                    f"{printable(source.paths[0])}: holds text, and {self.format.name} holds token ids. "
                    "Say how to encode it with --tokenizer NAME|DIR|FILE"
                )

    def _try_tokenizer(self, sources: Sequence[Source]) -> None:
        """Compare the engines on the first texts of the run, and say why the faster one is not used, if so."""
        texts = first_texts(sources) if self.tokenizer is not None else []
        if self.tokenizer is None or not texts:
            return
        self.tokenizer = self.tokenizer.tried_on(texts)
        for note in self.tokenizer.notes:
            self._note(note)

    def _note(self, text: str) -> None:
        self.notes.append(printable(text))
        self.progress.note(printable(text))

    # records to records: lines are copied as they stand

    def _copies_records(self, sources: Sequence[Source]) -> bool:
        records = [isinstance(source.reader, RecordReader) for source in sources]
        return all(records) and self.format is sources[0].format and self.tokenizer is None

    def _copy(self, sources: Sequence[Source], staging: Staging, workers: Workers) -> Conversion:
        readers = [source.reader for source in sources if isinstance(source.reader, RecordReader)]
        kinds = {reader.info.kind for reader in readers}
        if len(kinds) > 1:
            raise ConversionError("some sources hold text and some ids; give --tokenizer to make ids of the text")
        copied = copy_records(readers, staging.path, self.request.select, workers, self.progress)
        if self.request.verify:
            verify_records(readers, staging.path, self.format, self.request.select, self.progress)
        dropped = {"invalid-lines": f"{copied.invalid:,} invalid lines"} if copied.invalid else {}
        return self._result(sources, Separator(None), copied.records, None, None, dropped, copied.tasks)

    # everything else: a token axis

    def _write(self, sources: Sequence[Source], staging: Staging, workers: Workers) -> Conversion:
        request, eos = self.request, self._separator(sources)
        axis, invalid = token_axis(sources, self.tokenizer, request.select, workers, self.progress)
        self._need_separator(axis, eos)
        target = Target(eos.eos_id, self._decoder(sources), request.source.drop)
        writer = self.format.writer(staging.path, self.options, target)
        prepared = prepare(
            axis, sources, writer, eos.eos_id, request.source.drop, str(request.destination), workers,
            split_chosen=request.source.split is not None,
        )  # fmt: skip
        dropped = dict(prepared.dropped)
        if invalid:
            dropped["invalid-lines"] = f"{invalid:,} invalid lines"
        job = plan(prepared.reader, writer, request.region)
        self.progress.phase("writing", sum(len(region.tokens) for region in job.regions), "tokens")
        top, lengths = -1, {region.index: len(region.tokens) for region in job.regions}
        for receipt in run(job, workers):
            top = max(top, receipt.max_id)
            self.progress.advance(lengths[receipt.region])
        info = prepared.reader.info
        if request.verify:
            self._verify(prepared, staging.path, eos, target, workers)
        max_id = top if top >= 0 else None
        done = self._result(sources, eos, info.sequences, info.tokens, max_id, dropped, len(job.regions))
        prepared.reader.close()
        return done

    def _separator(self, sources: Sequence[Source]) -> Separator:
        eos = agreed_separator(sources, self.request.source.eos, self.tokenizer.eos_id if self.tokenizer else None)
        if eos.inferred:
            self._note(f"separator {eos.eos_id} inferred: {eos.source}. --eos ID overrides it")
        return eos

    def _need_separator(self, axis: TokenReader, eos: Separator) -> None:
        writer = self.format.writer(self.request.destination, self.options, Target(0))
        if writer.needs_eos and eos.eos_id is None and axis.info.sequences:
            why = f"{self.format.name} stores a separator after each sequence, and nothing says which id it is"
            raise SeparatorUnknownError(self.request.destination, why)

    def _decoder(self, sources: Sequence[Source]) -> Any:
        """Ids become text when the user gives a tokenizer and no source was text already."""
        if self.tokenizer is None or "text_field" not in option_names(self.format.write_options):
            return None
        if any(isinstance(s.reader, RecordReader) and s.reader.info.kind == "text" for s in sources):
            return None
        return self.tokenizer.decoder(lenient="invalid-utf8" in self.request.source.drop)

    def _verify(self, prepared: Prepared, path: Path, eos: Separator, target: Target, workers: Workers) -> None:
        shared = option_names(self.format.read_options) & {"split", "seq_len", "text_field", "ids_field"}
        options = [word for word in self._words() if word.partition("=")[0].replace("-", "_") in shared]
        choice: EosChoice = eos.eos_id if eos.eos_id is not None else None
        verify_tokens(prepared, path, self.format, choice, options, target.decoder, workers, self.progress)

    # what is said of it

    def _result(
        self, sources: Sequence[Source], eos: Separator, sequences: int | None, tokens: int | None,
        max_id: int | None, dropped: dict[str, str], tasks: int,
    ) -> Conversion:  # fmt: skip
        return Conversion(
            destination=str(self.request.destination),
            format=self.format.name,
            sources=[{"path": str(p), "format": s.format.name} for s in sources for p in s.paths],
            sequences=sequences,
            tokens=tokens,
            max_id=max_id,
            separator={"eos_id": eos.eos_id, "from": eos.source or None, "inferred": eos.inferred},
            dropped=dropped,
            notes=list(self.notes),
            plan={"tasks": tasks, "executor": self.request.executor, "jobs": self.request.jobs},
            verified=self.request.verify,
            tokenizer=self.tokenizer.describe() if self.tokenizer else None,
        )

    def _dry_run(self, sources: Sequence[Source]) -> Conversion:
        eos = self._separator(sources)
        if any(isinstance(source.reader, RecordReader) for source in sources):
            return replace(self._result(sources, eos, None, None, None, {}, 0), dry_run=True, verified=False)
        with make_executor("serial", 1) as executor:
            axis, _ = token_axis(sources, None, self.request.select, Workers(executor, 1, Path()), self.progress)
        self._need_separator(axis, eos)
        writer = self.format.writer(self.request.destination, self.options, Target(eos.eos_id))
        losses = known_losses(axis, sources, writer, split_chosen=self.request.source.split is not None)
        dropped = accepted(losses, self.request.source.drop, str(self.request.destination))
        tasks = len(writer.regions(axis, self.request.region))
        info = axis.info
        done = self._result(sources, eos, info.sequences, info.tokens, info.max_id, dropped, tasks)
        return replace(done, dry_run=True, verified=False)

    def _manifest(self, done: Conversion, sources: Sequence[Source], staging: Staging) -> bytes:
        total = sum(len(source.paths) for source in sources)
        self.progress.phase("checksums", total + 1, "files")
        described = []
        for source in sources:
            for path in source.paths:
                described.append({"path": str(path), "format": source.format.name, **fingerprint(path)})
                self.progress.advance(1)
        content = {
            "schema": SCHEMA,
            "tokfmt": tokfmt.__version__,
            "format": done.format,
            "sequences": done.sequences,
            "tokens": done.tokens,
            "max_id": done.max_id,
            "eos_id": done.separator["eos_id"],
            "eos_from": done.separator["from"],
            "sources": described,
            "output": fingerprint(staging.path),
            "tokenizer": done.tokenizer,
            "options": {"from": pairs(self.request.source.options), "to": self._words()},
            "select": self.request.select,
            "dropped": done.dropped,
            "notes": done.notes,
        }
        return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")


def _guard(request: Request) -> None:
    """Refuse destinations that would destroy something: a source, or a directory that is no dataset."""
    destination = Path(os.path.realpath(request.destination))
    for path in request.source.paths:
        source = Path(os.path.realpath(path))
        if destination == source or destination in source.parents or source in destination.parents:
            raise ConversionError(f"{printable(request.destination)}: is also a source. Choose another destination")
    if request.overwrite and destination.is_dir() and any(destination.iterdir()):
        try:
            registry.detect(destination)
        except UnknownFormatError as error:
            raise ConversionError(
                f"{printable(request.destination)}: is a directory that holds no dataset; --overwrite would delete it"
            ) from error
