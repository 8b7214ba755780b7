"""One conversion under way, from sources to what is published."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokfmt import registry
from tokfmt.core.axis import TokenReader
from tokfmt.core.errors import ConversionError, OptionError, SeparatorUnknownError, UnknownFormatError, printable
from tokfmt.core.format import Target
from tokfmt.core.options import parse_options
from tokfmt.core.publish import Staging, publish_together
from tokfmt.core.records import RecordReader
from tokfmt.ops.arrangement import (
    Portion,
    Written,
    arranged,
    portion_of,
    portions,
    write,
)
from tokfmt.ops.copy_records import copies_in, copy_records
from tokfmt.ops.lines import LineReader, LineWriter, lines_in
from tokfmt.ops.losses import Prepared, accepted, known_losses, prepare
from tokfmt.ops.manifest import manifest_path
from tokfmt.ops.open import Source
from tokfmt.ops.progress import Progress
from tokfmt.ops.provenance import manifests
from tokfmt.ops.request import Conversion, Request
from tokfmt.ops.separator import EosChoice, Separator
from tokfmt.ops.sources import (
    agreed_separator,
    check_unchanged,
    first_texts,
    open_sources,
    option_names,
    pairs,
    refuse_records,
    snapshot,
    token_axis,
)
from tokfmt.ops.verify import lines_of, verify_records, verify_tokens
from tokfmt.ops.workplace import facts_of, workplace
from tokfmt.run.cluster import slots
from tokfmt.run.execute import make_executor
from tokfmt.run.journal import Forgetful
from tokfmt.run.plan import Workers

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

_NOTES = 20  # on sources that are said one by one
_WORTH = 64 << 20  # bytes of text for which processes, a CPU second each to start, are better than threads
PathLike = str | os.PathLike[str]
Places = Mapping[Path, tuple[Staging, Forgetful]]
"""By destination: where it is built, and the journal of what is done of it."""


class Run:
    """One conversion under way: `Run(request, progress).convert()`."""

    def __init__(self, request: Request, progress: Progress) -> None:
        self.request, self.progress = request, progress
        self.format = registry.get(request.to) if request.to else registry.for_destination(request.destination)
        self.portions = portions(request.arrangement, request.destination, self.format, self._words())
        self.options: Any = self._options(self.portions[0])
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

    def _options(self, portion: Portion) -> Any:
        return parse_options(self.format.write_options, portion.words, self.format.name)

    def _tokenizer(self) -> TokenizerHandle | None:
        if self.request.tokenizer is None:
            return None
        from tokfmt.text.tokenizer import load_tokenizer

        return load_tokenizer(
            self.request.tokenizer, special_tokens=self.request.special_tokens, engine=self.request.engine
        )

    def convert(self) -> Conversion:
        request = self.request
        self._refuse_shards()
        destinations = list(dict.fromkeys(portion.destination for portion in self.portions))
        for destination in destinations:
            _guard(request, destination)
        before = snapshot(request.source.paths)
        sources = open_sources(
            request.source, self.tokenizer.eos_id if self.tokenizer else None, request.jobs, self.progress
        )
        self._pass_on_notes(sources)
        copies = self._copies_records(sources)
        if not copies:
            self._need_tokenizer(sources)
        if request.shard is not None:
            refuse_records(sources)
        self._try_tokenizer(sources)
        if request.executor == "auto":
            request = self.request = replace(request, executor=self._best_executor(sources))
        if request.dry_run:
            return self._dry_run(sources)
        facts = facts_of(request, self._resolved(sources), before) if request.kept else {}
        with ExitStack() as stack:
            places: Places = {
                path: stack.enter_context(workplace(replace(request, destination=path), facts, self._say))
                for path in destinations
            }
            stagings = {path: staging for path, (staging, _) in places.items()}
            staging, journal = places[destinations[0]]
            with make_executor(request.executor, request.jobs) as executor:
                workers = Workers(executor, slots(executor, request.jobs), staging.scratch, journal)
                done = self._copy(sources, places, workers) if copies else self._write(sources, places, workers)
            publishes = request.shard is None  # else --finish does
            beside = self._manifests(done, sources, stagings) if request.manifest and publishes else {}
            check_unchanged(before, request.source.paths)
            if publishes:
                publish_together(
                    {place: {manifest_path(path).name: beside.get(path)} for path, place in stagings.items()}
                )
        return done

    def _refuse_shards(self) -> None:
        """A shard writes its part without any other being there; --finish names one destination."""
        arrangement = self.request.arrangement
        if not self.request.shard or arrangement.plain:
            return
        if arrangement.shuffle is not None:
            what, why = "--shuffle", "in a shuffled order a part may need any sequence, so each shard would read all"
        else:
            what, why = "shares in --split", "--finish publishes one destination, and splits are several"
        raise OptionError(
            f"--shard does not go with {what}: {why}. --executor dask spreads one run over machines, and --resume "
            "continues it"
        )

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

    def _best_executor(self, sources: Sequence[Source]) -> str:
        """Threads, unless there is much text to encode: parsing JSON takes the interpreter's lock, codecs do not."""
        texts = [source.reader for source in sources if isinstance(source.reader, RecordReader)]
        much = self.tokenizer is not None and sum(reader.info.size for reader in texts) >= _WORTH
        return "processes" if much and self.request.jobs > 1 else "threads"

    def _resolved(self, sources: Sequence[Source]) -> dict[str, object]:
        """What the output depends on beside the request; see `workplace.facts_of`."""
        return {
            "--to": self.format.name,
            "--to-opt": asdict(self.options),
            "the formats of the sources": [source.format.name for source in sources],
            "the separator": self._agreed(sources).eos_id,
            "the tokenizer": {**self.tokenizer.describe(), "name": ""} if self.tokenizer else None,
        }

    def _pass_on_notes(self, sources: Sequence[Source]) -> None:
        notes = [(str(source.paths[0]), note) for source in sources for note in source.notes]
        for path, note in notes[:_NOTES]:
            self._note(f"{path}: {note}" if path not in note else note)
        if len(notes) > _NOTES:
            self._note(f"{len(notes) - _NOTES:,} more notes of this kind on the other sources")

    def _note(self, text: str) -> None:
        self.notes.append(printable(text))
        self._say(text)

    def _say(self, text: str) -> None:
        """For whoever watches; not of the result, which is the same however often the run was interrupted."""
        self.progress.note(printable(text))

    # records to records: lines are copied as they stand

    def _copies_records(self, sources: Sequence[Source]) -> bool:
        records = [isinstance(source.reader, RecordReader) for source in sources]
        return all(records) and self.format is sources[0].format and self.tokenizer is None

    def _copy(self, sources: Sequence[Source], places: Places, workers: Workers) -> Conversion:
        readers = [source.reader for source in sources if isinstance(source.reader, RecordReader)]
        kinds = {reader.info.kind for reader in readers}
        if len(kinds) > 1:
            raise ConversionError("some sources hold text and some ids; give --tokenizer to make ids of the text")
        plain, path = self.request.arrangement.plain, places[self.portions[0].destination][0].path
        copy = path if plain else copies_in(workers) / "lines"
        copied = copy_records(readers, copy, self.request.select, workers, self.progress)
        written = [Written(self.portions[0], copied.records, None, None, copied.tasks)]
        if not plain:
            lines = LineReader(copy, copied.records)
            written = [self._write_lines(lines, portion, places, workers) for portion in self.portions]
        elif self.request.verify:
            verify_records(lines_of(readers, self.request.select), path, self.format, self.progress)
        dropped = {"invalid-lines": f"{copied.invalid:,} invalid lines"} if copied.invalid else {}
        return self._result(sources, Separator(None), written, dropped)

    def _write_lines(self, lines: TokenReader, portion: Portion, places: Places, workers: Workers) -> Written:
        path, workers = _place(portion, places, workers)
        with arranged(lines, self.request.arrangement, portion, workers, self.progress) as view:
            written = write(view, LineWriter(path), portion, self.request.region, workers, self.progress)
            if self.request.verify:
                verify_records(lines_in(view), path, self.format, self.progress)
        return replace(written, tokens=None)

    # everything else: a token axis

    def _write(self, sources: Sequence[Source], places: Places, workers: Workers) -> Conversion:
        request, eos = self.request, self._separator(sources)
        axis, invalid = token_axis(sources, self.tokenizer, request.select, workers, self.progress)
        self._need_separator(axis, eos)
        target = Target(eos.eos_id, self._decoder(sources), request.source.drop, keep_parts=workers.journal.keeps)
        writer = self.format.writer(places[self.portions[0].destination][0].path, self.options, target)
        prepared = prepare(
            axis, sources, writer, eos.eos_id, request.source.drop, str(request.destination), workers,
            split_chosen=request.source.one_split,
        )  # fmt: skip
        dropped = dict(prepared.dropped)
        if invalid:
            dropped["invalid-lines"] = f"{invalid:,} invalid lines"
        written = [self._write_portion(prepared, portion, places, target, workers) for portion in self.portions]
        prepared.reader.close()
        return self._result(sources, eos, written, dropped)

    def _write_portion(
        self, prepared: Prepared, portion: Portion, places: Places, target: Target, workers: Workers
    ) -> Written:
        path, workers = _place(portion, places, workers)
        with arranged(prepared.reader, self.request.arrangement, portion, workers, self.progress) as view:
            carried = prepared.carried(view)
            writer = self.format.writer(path, self._options(portion), target)
            region, shard = self.request.region, self.request.shard
            written = write(carried.reader, writer, portion, region, workers, self.progress, shard)
            if self.request.verify and shard is None:
                self._verify(carried, path, portion, target, workers)
        return written

    def _agreed(self, sources: Sequence[Source]) -> Separator:
        return agreed_separator(sources, self.request.source.eos, self.tokenizer.eos_id if self.tokenizer else None)

    def _separator(self, sources: Sequence[Source]) -> Separator:
        eos = self._agreed(sources)
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

    def _verify(self, prepared: Prepared, path: Path, portion: Portion, target: Target, workers: Workers) -> None:
        shared = option_names(self.format.read_options) & {"split", "seq_len", "text_field", "ids_field"}
        options = [word for word in portion.words if word.partition("=")[0].replace("-", "_") in shared]
        eos: EosChoice = "none" if self.request.source.eos == "none" else target.eos_id
        verify_tokens(prepared, path, self.format, eos, options, target.decoder, workers, self.progress)

    # what is said of it

    def _result(
        self, sources: Sequence[Source], eos: Separator, written: Sequence[Written], dropped: dict[str, str]
    ) -> Conversion:
        arrangement = self.request.arrangement
        if arrangement.shares is not None and not arrangement.shares.seeded:
            self._note(f"sequences were dealt out by seed {arrangement.shares.seed}; --seed N deals otherwise")
        splits: dict[str, dict[str, object]] = {
            part.portion.split: {
                "destination": str(part.portion.destination), "sequences": part.sequences, "tokens": part.tokens,
                "max_id": part.max_id,
            }
            for part in written if part.portion.split is not None
        }  # fmt: skip
        return Conversion(
            destination=str(self.request.destination),
            format=self.format.name,
            sources=[{"path": str(p), "format": s.format.name} for s in sources for p in s.paths],
            sequences=_total([part.sequences for part in written]),
            tokens=_total([part.tokens for part in written]),
            max_id=max((part.max_id for part in written if part.max_id is not None), default=None),
            separator={"eos_id": eos.eos_id, "from": eos.source or None, "inferred": eos.inferred},
            dropped=dropped,
            notes=list(self.notes),
            plan={
                "tasks": sum(part.tasks for part in written),
                "executor": self.request.executor,
                "jobs": self.request.jobs,
            },
            verified=self.request.verify,
            tokenizer=self.tokenizer.describe() if self.tokenizer else None,
            shuffle=arrangement.shuffle,
            splits=splits,
        )

    def _dry_run(self, sources: Sequence[Source]) -> Conversion:
        eos = self._separator(sources)
        if any(isinstance(source.reader, RecordReader) for source in sources):
            written = [Written(portion, None, None) for portion in self.portions]
            return replace(self._result(sources, eos, written, {}), dry_run=True, verified=False)
        with make_executor("serial", 1) as executor:
            axis, _ = token_axis(sources, None, self.request.select, Workers(executor, 1, Path()), self.progress)
        self._need_separator(axis, eos)
        writer = self.format.writer(self.request.destination, self.options, Target(eos.eos_id))
        losses = known_losses(axis, sources, writer, split_chosen=self.request.source.one_split)
        dropped = accepted(losses, self.request.source.drop, str(self.request.destination))
        written = [self._would_write(axis, portion, Target(eos.eos_id)) for portion in self.portions]
        return replace(self._result(sources, eos, written, dropped), dry_run=True, verified=False)

    def _would_write(self, axis: TokenReader, portion: Portion, target: Target) -> Written:
        view = portion_of(axis, self.request.arrangement, portion)
        writer = self.format.writer(portion.destination, self._options(portion), target)
        info, tasks = view.info, len(writer.regions(view, self.request.region))
        return Written(portion, info.sequences, info.tokens, info.max_id, tasks)

    def _manifests(
        self, done: Conversion, sources: Sequence[Source], stagings: Mapping[Path, Staging]
    ) -> dict[Path, bytes]:
        shares = self.request.arrangement.shares
        given = {
            "options": {"from": pairs(self.request.source.options), "to": self._words()},
            "select": self.request.select,
            "split": shares.described() if shares else None,
        }
        return manifests(done, sources, stagings, given, self.progress)


def _place(portion: Portion, places: Places, workers: Workers) -> tuple[Path, Workers]:
    """Where a portion is written, and the workers with the scratch directory and the journal of its destination."""
    staging, journal = places[portion.destination]
    return staging.path, replace(workers, scratch=staging.scratch, journal=journal)


def _total(counts: Sequence[int | None]) -> int | None:
    """Their sum; None if one is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _guard(request: Request, path: Path) -> None:
    """Refuse destinations that would destroy something: a source, or a directory that is no dataset."""
    destination = Path(os.path.realpath(path))
    for given in request.source.paths:
        source = Path(os.path.realpath(given))
        if destination == source or destination in source.parents or source in destination.parents:
            raise ConversionError(f"{printable(path)}: is also a source. Choose another destination")
    if request.overwrite and destination.is_dir() and any(destination.iterdir()):
        try:
            registry.detect(destination)
        except UnknownFormatError as error:
            raise ConversionError(
                f"{printable(path)}: is a directory that holds no dataset; --overwrite would delete it"
            ) from error
