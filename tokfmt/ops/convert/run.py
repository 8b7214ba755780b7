"""One conversion under way: open the sources, refuse what cannot be, read them as one axis, arrange it, plan and write
each portion, verify, describe in a manifest, publish.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tokfmt import registry
from tokfmt.core.axis import TokenReader, windows
from tokfmt.core.errors import (
    ConversionError,
    Loss,
    OptionError,
    SeparatorUnknownError,
    TokenizerMismatchError,
    TokenRangeError,
    TokfmtError,
)
from tokfmt.core.files import writing
from tokfmt.core.format import Target, TokenWriter, companions_of, destination_of
from tokfmt.core.options import parse_options
from tokfmt.core.output import ANYBODY, followed, readable_by
from tokfmt.core.protocols import Gatherer, Rowed, Sampled
from tokfmt.core.publish import Beside, Staging
from tokfmt.core.records import Aside, RecordInfo, RecordReader
from tokfmt.core.text_format import counted, printable
from tokfmt.core.together import foreseen, publish_together, settle
from tokfmt.ops.convert.arrangement import Portion, arranged, portion_of, portions
from tokfmt.ops.convert.axis import Reading, token_axis
from tokfmt.ops.convert.losses import Losses, Prepared, known_losses, left_out, names_lost, prepare, record_losses
from tokfmt.ops.convert.manifests import manifests
from tokfmt.ops.convert.refusals import (
    refuse_ledger,
    refuse_rejects,
    refuse_selection_of_none,
    refuse_shards,
    refuse_splits_of_one_file,
    refuse_text,
    refuse_undealt,
)
from tokfmt.ops.convert.request import Conversion, Request, Written, holds_something, nothing_in, total_of, write
from tokfmt.ops.convert.resume import digest_of, facts_of, finished, resumed
from tokfmt.ops.convert.space import free_bytes, least_bytes, need_room
from tokfmt.ops.destination import guard, refuse_foreign, remove_manifest_of_link, replaced, strangers_in
from tokfmt.ops.source.discover import check_unchanged, find_sources, snapshot
from tokfmt.ops.source.ingest import first_look
from tokfmt.ops.source.manifest import Manifest, ledger_paths, manifest_path
from tokfmt.ops.source.open import open_sources, with_named
from tokfmt.ops.source.opened import (
    Separator,
    Source,
    agreed_separator,
    agreed_tokenizer,
    files_of_sources,
    paths_of,
    tokenizer_of,
)
from tokfmt.ops.source.request import EosChoice, SourceFiles, option_names, parse_selection, words_of
from tokfmt.run.execute import Progress, is_cluster, make_executor, may_spawn, slots
from tokfmt.run.plan import Forgetful, Share, Workers
from tokfmt.views.select import Concat, Slice

if TYPE_CHECKING:
    from tokfmt.ops.source.draft import Draft
    from tokfmt.recipes.samples import PackedRows, Samples

_NOTES = 20  # on sources that are said one by one
_WORTH = 64 << 20  # bytes of text (tokens to be gathered) for which processes, 1 (0.2) CPU seconds each to start, pay
_KEPT, _SPREAD = 1 << 20, 64  # tokens of a region of what may be continued, at least; regions at most
Places = Mapping[Path, tuple[Staging, Forgetful]]
"""By destination: where it is built, and the journal of what is done of it."""
Proof = Callable[[Staging], Mapping[str, Path]]
"""Raises what forbids publication; else gives files, built already, that appear beside the destination, by name."""


class Run:
    """One conversion under way: `Run(request, progress).convert()`."""

    def __init__(
        self,
        request: Request,
        progress: Progress,
        prove: Proof = lambda staging: {},
        given: tuple[Sequence[Source], TokenReader] | None = None,
    ) -> None:
        """Prepare for it.

        Args:
            prove: Looks at what was built, right before it is published; see `Proof`.
            given: Sources that are open already, and the axis over them that is written instead of all they hold.
        """
        self.request, self.progress, self.prove, self.given = request, progress, prove, given
        self.format = registry.get(request.to) if request.to else registry.for_destination(request.destination)
        self.write_options = request.given_to_writer(self.format)
        options: Any = parse_options(self.format.write_options, self.write_options, self.format.name)
        place = destination_of(self.format, request.destination, options)
        request = self.request = replace(request, destination=place)
        self.portions = portions(request.arrangement, request.destination, self.format, self.write_options)
        self.options = self.portions[0].options
        self.tokenizer = tokenizer_of(request.tokenizer, special_tokens=request.special_tokens, engine=request.engine)
        self.notes: list[str] = []
        self.made: tuple[Mapping[str, Any] | None, str] = (None, "")
        self.compared: Counter[str] = Counter()  # what was read back
        self.known: list[Loss] = []
        self.rows: Samples | None = None  # a recipe whose samples go as they are
        self.packed: PackedRows | None = None  # the same without padding
        self.prepared: list[Mapping[str, Any]] = []
        self.padded = 0  # positions, in samples of recipes
        self.digest = ""  # of a request that may be continued
        self.taken_back: set[Path] = set()  # by a run, which a dry run foresees
        self.ledger: dict[str, Any] | None = None  # what `write_rows` tells, and "unit"

    def _take_tokenizer(self, sources: Sequence[Source]) -> None:
        """Use the tokenizer that a recipe of text names.

        Raises:
            OptionError: --tokenizer is another one.
        """
        for source in sources:
            named = getattr(source.reader, "tokenizer", None) if source.format.name == "recipe" else None
            if named is None:  # it holds ids
                continue
            if self.tokenizer is not None and self.tokenizer.describe()["digest"] != named.describe()["digest"]:
                raise OptionError(f"--tokenizer: {printable(source.paths[0])} says another one, {named.name}")
            self.tokenizer = named

    def _refuse_arrangement(self) -> None:
        """Refuse an order or shares that cannot be written there."""
        refuse_shards(self.request)
        if len(self.portions) > 1:
            refuse_splits_of_one_file(self.portions, self._writer(Target(0)))

    def convert(self) -> Conversion:
        self._refuse_arrangement()
        request = self.request
        destinations = list(dict.fromkeys(portion.destination for portion in self.portions))
        found = files_of_sources(self.given[0]) if self.given else find_sources(request.source)
        found = [with_named(one) for one in found]
        read = [one for source in found for one in source.all()]
        for destination in destinations:
            guard(destination, request.source.paths, read)
        before = snapshot(read)
        self._settle(destinations)
        sources = self.given[0] if self.given else self._opened(found)
        if len(sources) == 1:
            sources = self._with_rows(sources)
        self._take_tokenizer(sources)
        refuse_rejects(request, sources, read)
        refuse_ledger(request, sources)
        self._pass_on_notes(sources)
        self.made = agreed_tokenizer(sources, self.tokenizer, request.source.drop)
        copies = self._copies_records(sources)
        if not copies:
            if self.tokenizer is None:
                refuse_text(sources, self.format)
            self._need_separator(sources)
        refuse_undealt(request, sources, copies=copies)
        looked = [first_look(source) for source in sources]
        if not copies:
            self.known = self._known_losses(sources)
        self._refuse_known(sources, [aside for _, aside in looked])
        self._try_tokenizer(next(filter(None, (texts for texts, _ in looked)), []))
        if request.executor == "auto":
            request = self.request = replace(request, executor=self._best_executor(sources))
        if request.dry_run:
            return self._dry_run(sources)
        facts = facts_of(request, self._resolved(sources), before) if request.kept else {}
        if done := self._finished(sources, destinations, read, facts):
            return done
        return self._built(sources, destinations, read, before, facts, copies=copies)

    def _finished(
        self,
        sources: Sequence[Source],
        destinations: Sequence[Path],
        read: Sequence[SourceFiles],
        facts: Mapping[str, object],
    ) -> Conversion | None:
        """What an earlier run with --resume of the same request has finished; None if there is something to do."""
        if not self.request.resume or self.request.shard is not None:
            return None
        self.digest = digest_of(facts)
        said = finished(destinations, self.format, self.digest, read, verified=self.request.verify)
        return self._done_before(sources, said) if said else None

    def _built(
        self,
        sources: Sequence[Source],
        destinations: Sequence[Path],
        read: Sequence[SourceFiles],
        before: Mapping[Path, tuple[int, int, int]],
        facts: Mapping[str, object],
        *,
        copies: bool,
    ) -> Conversion:
        """Build the destinations, and publish them.

        Args:
            sources: What is converted.
            destinations: Where it goes.
            read: The files of the sources, and of what they name.
            before: Their state before they were opened.
            facts: What a run that is continued must ask for again.
            copies: Records are copied as they stand.
        """
        request, readable = self.request, readable_by(before)
        with ExitStack() as stack:
            places: Places = {
                path: stack.enter_context(self._workplace(self._staging(path, readable), facts))
                for path in destinations
            }
            stagings = {path: staging for path, (staging, _) in places.items()}
            staging, journal = places[destinations[0]]
            with make_executor(request.executor, request.jobs) as executor:
                share = None if request.shard is None else Share(request.shard)
                texts = staging.home / "scratch"  # which shards share
                workers = Workers(executor, slots(executor, request.jobs), staging.scratch, journal, texts, share)
                done = self._copy(sources, places, workers) if copies else self._write(sources, places, workers)
            publishes = request.shard is None  # else --finish does
            beside = self._manifests(done, read, stagings) if request.manifest and publishes else {}
            check_unchanged(before, read)
            if publishes:
                self._publish_rejects(staging)
                self._publish(stagings, beside)
        return done

    def _settle(self, destinations: Sequence[Path]) -> None:
        """Undo or finish what a run that was killed left of several destinations; then refuse what is not to go.

        `resumed` does that if some is kept.
        """
        said = dict[str, None]()
        for destination in destinations if not self.request.kept else ():
            if self.request.dry_run:
                notes, free = foreseen(destination)
                self.taken_back |= free
            else:
                with writing(destination):
                    notes = list(settle(destination))
            for note in notes:
                if note not in said:
                    self._say(note)
            said |= dict.fromkeys(notes)
        for destination in destinations:
            self._refuse(destination)

    def _refuse(self, destination: Path) -> None:
        """Refuse what stands at a destination and is not to go, before any work; `resumed` does if some is kept."""
        refuse_foreign(destination)
        if (not self.request.kept or self.request.dry_run) and followed(destination) not in self.taken_back:
            self._staging(destination).check_replaceable()

    def _staging(self, destination: Path, readable: int = ANYBODY) -> Staging:
        """Where a destination is built; `readable` by whom its sources are."""
        request = self.request
        return Staging(
            destination, overwrite=request.overwrite, objection=strangers_in(destination), readable=readable,
            kept=request.kept, shared=request.shard is not None,
            companions=[path.name for path in companions_of(self.format, destination)],
            by_name=is_cluster(request.executor),
        )  # fmt: skip

    @contextmanager
    def _workplace(self, place: Staging, facts: Mapping[str, object]) -> Iterator[tuple[Staging, Forgetful]]:
        """A place to build, and the journal of what is done there."""
        if self.request.kept:
            with resumed(place, self.request, facts, self._say) as kept:
                yield kept
            return
        with place as staging:
            for name in staging.removed:
                self._say(f"removed {name}, which an unfinished conversion had left; --resume would have continued it")
            yield staging, Forgetful()

    def _rejects(self, workers: Workers) -> Path | None:
        """Where what filters leave out is collected: nothing, as long as none has run."""
        if self.request.rejects is None:
            return None
        path = workers.scratch / "rejects"
        path.write_bytes(b"")
        return path

    def _publish_rejects(self, staging: Staging) -> None:
        if self.request.rejects is not None:
            from tokfmt.formats.jsonl.lines import join

            join([staging.scratch / "rejects"], self.request.rejects, self.request.jobs)

    def _publish(self, stagings: Mapping[Path, Staging], manifests: Mapping[Path, bytes]) -> None:
        beside: dict[Staging, Beside] = {}
        for path, staging in stagings.items():
            about, manifest = manifest_path(staging.destination).name, manifests.get(path)
            beside[staging] = {about: manifest, **self._ledger(staging, manifest), **self.prove(staging)}
        publish_together(beside)
        for path in stagings:
            remove_manifest_of_link(path)

    def _ledger(self, staging: Staging, manifest: bytes | None) -> Beside:
        """The ledger beside a destination; what was there of another goes."""
        if self.ledger is None:
            return dict.fromkeys(path.name for path in ledger_paths(staging.destination))
        from tokfmt.ops.ledger import built

        return built(self.ledger, self.format, staging, manifest)

    def _opened(self, found: Sequence[SourceFiles]) -> Sequence[Source]:
        request = self.request
        try:
            return open_sources(request.source, self.tokenizer, request.jobs, self.progress, found=found, collect=True)
        except SeparatorUnknownError as error:
            raise SeparatorUnknownError(error.path, error.why, self._name_separator()) from error

    def _read(self, sources: Sequence[Source]) -> Sequence[Source]:
        """What is read: all that the sources hold, or the axis that was given, or packed rows of it."""
        reader = self.packed or (self.given[1] if self.given else None)
        return sources if reader is None else [sources[0]._replace(reader=reader)]

    def _with_rows(self, sources: Sequence[Source]) -> Sequence[Source]:
        """One source, or packed rows of it, where its samples are stored as they are."""
        self._take_rows(self._read(sources)[0].reader)
        self._foresee_rows(sources[0])
        return self._read(sources) if self.packed else sources

    def _take_rows(self, reader: object) -> None:
        """Have samples of a recipe stored as they are, where the format has rows; of their length, if none is given.

        Raises:
            OptionError: Only some of them would be stored, or in another order, or packed again.
        """
        packs = getattr(self.options, "pack_size", None)
        if not (isinstance(self.format, Rowed) or packs) or not isinstance(reader, Sampled):
            return
        from tokfmt.recipes.samples import PackedRows, Samples  # only recipes need what it imports

        if isinstance(reader, Samples) and self._lay_rows(reader.seq_len, packs):
            self.rows, self.packed = reader, PackedRows(reader, packs) if packs else None

    def _foresee_rows(self, source: Source) -> None:
        """The same of a recipe of text, whose samples do not exist yet.

        Raises:
            OptionError: As of `_take_rows`.
        """
        if source.format.name == "recipe" and isinstance(source.reader, RecordReader):
            draft, packs = cast("Draft", source.reader), getattr(self.options, "pack_size", None)
            if draft.file.seq_len is not None and (isinstance(self.format, Rowed) or packs):
                self._lay_rows(draft.file.seq_len, packs)

    def _lay_rows(self, seq_len: int, packs: int | None) -> bool:
        """Whether samples of a length are stored as they are; if so, the options are set for them."""
        if not packs and str(self.write_options.setdefault("seq_len", seq_len)) != str(seq_len):
            return False
        request, mixed = self.request, self.request.arrangement
        if request.select is not None or not mixed.plain:
            what = "--select" if request.select is not None else "--shuffle" if mixed.shuffle else "--split"
            raise OptionError(
                f"{what}: samples of a recipe are stored in its order: say tokens or shuffle in the recipe"
            )
        self.portions = portions(request.arrangement, request.destination, self.format, self.write_options)
        self.options = self.portions[0].options
        return True

    def _made_writer(self, path: Path, options: Any, target: Target) -> TokenWriter:
        """The format's writer: of rows as they are, or of sequences."""
        if self.rows is None or not isinstance(self.format, Rowed):
            return self.format.writer(path, options, target)
        return self.format.row_writer(path, options, target, self.rows.shifted)

    def _known_losses(self, sources: Sequence[Source]) -> list[Loss]:
        """What is known to be lost of sources that hold tokens; reads no token."""
        axes = [source.reader for source in self._read(sources) if not isinstance(source.reader, RecordReader)]
        if not axes:
            return []
        axis, selection = axes[0] if len(axes) == 1 else Concat(axes), self.request.select
        if selection is not None and len(axes) == len(self._read(sources)):
            axis = Slice(axis, *parse_selection(selection, axis.info.sequences, paths_of(sources)))
        writer = self._writer(Target(self._agreed(sources).eos_id))
        return known_losses(axis, sources, writer, self.request.source)

    def _refuse_known(self, sources: Sequence[Source], asides: Sequence[Aside]) -> None:
        """Refuse what is known before the first byte is written.

        What a first look at records shows is refused by a dry run only: a run goes on to tell all of it at once.
        """
        drop, losses = self.request.source.drop, Losses()
        if self.request.dry_run:
            losses = record_losses(list(zip(sources, asides, strict=True)), self.format, drop)
        losses.found.extend(self.known)
        try:
            self._accepted(losses)
        except TokfmtError as error:
            if self.request.dry_run and len(losses.found) > len(self.known):
                error.add_note("A dry run looks at some records only; a run counts all")
            raise

    def _accepted(self, losses: Losses) -> dict[str, str]:
        """See `Losses.accepted`."""
        return losses.accepted(self.request.source.drop, str(self.request.destination))

    def _writer(self, target: Target) -> TokenWriter:
        """A writer that is asked what it needs and loses; it writes nothing."""
        return self._made_writer(self.request.destination, self.options, target)

    def _try_tokenizer(self, texts: Sequence[str]) -> None:
        """Compare the engines on the first texts of the run, and say why the faster one is not used, if so."""
        if self.tokenizer is None or not texts:
            return
        self.tokenizer = self.tokenizer.tried_on(texts)
        for note in self.tokenizer.notes:
            self._note(note)

    def _best_executor(self, sources: Sequence[Source]) -> str:
        """Threads, unless workers would wait for the interpreter's lock and there is enough to do for processes to pay.

        Parsing JSON takes it, and so does gathering parts while others are being written. Codecs do not.
        """
        text = [source.reader.info.size for source in sources if isinstance(source.reader, RecordReader)]
        tokens = [source.reader.info.tokens for source in sources if not isinstance(source.reader, RecordReader)]
        gathers = sum(tokens) >= _WORTH and isinstance(self._writer(Target(0)), Gatherer)
        much = gathers or (self.tokenizer is not None and sum(text) >= _WORTH)
        readers = [source.reader for source in self._read(sources)]
        return "processes" if much and self.request.jobs > 1 and may_spawn(readers) else "threads"

    def _resolved(self, sources: Sequence[Source]) -> dict[str, object]:
        """What the output depends on beside the request; see `resume.facts_of`."""
        return {
            "--to": self.format.name,
            "--to-opt": asdict(self.options),
            "the formats of the sources": [source.format.name for source in sources],
            "the separator": self._agreed(sources).eos_id,
            "the tokenizer": self.tokenizer.describe() if self.tokenizer else None,
        }

    def _pass_on_notes(self, sources: Sequence[Source]) -> None:
        notes = [
            (source.paths[0], note)
            for source in sources
            for note in source.notes
            if note.removeprefix("left out: ") not in source.left_out  # which the result tells, as dropped
        ]
        for path, note in notes[:_NOTES]:
            own = path.name if note.startswith((f"{path.name}: ", f"{path.name} ")) else ""
            self._note(f"{path}{note.removeprefix(own)}" if own else f"{path}: {note}")
        if len(notes) > _NOTES:
            self._note(f"{len(notes) - _NOTES:,} more notes of this kind on the other sources")

    def _note(self, text: str) -> None:
        self.notes.append(self._named(printable(text)))
        self._say(text)

    def _say(self, text: str) -> None:
        """For whoever watches; not of the result, which is the same however often the run was interrupted."""
        self.progress.note(self._named(printable(text)))

    def _named(self, text: str) -> str:
        """A text in which pipes have the names that the user gave them."""
        for copy, name in self.request.piped.items():
            text = text.replace(copy, name)
        return text

    # records to JSON lines: lines are copied as they stand, text gets lines of its own

    def _copies_records(self, sources: Sequence[Source]) -> bool:
        """Whether all sources go to jsonl record by record; ids that are not JSON lines go as sequences of tokens."""
        if self.tokenizer is not None or self.format.name != "jsonl":
            return False
        infos = [source.reader.info for source in sources if source.format.name != "recipe"]
        records = [info for info in infos if isinstance(info, RecordInfo)]
        return len(records) == len(sources) and all(info.json_lines or info.kind == "text" for info in records)

    def _copy(self, sources: Sequence[Source], places: Places, workers: Workers) -> Conversion:
        readers = [source.reader for source in sources if isinstance(source.reader, RecordReader)]
        kinds = {reader.info.kind for reader in readers}
        if len(kinds) > 1:
            raise ConversionError("some sources hold text and some ids; give --tokenizer to make ids of the text")
        name = f"{min(kinds)}_field"
        wanted = self.write_options.get(name, self.write_options.get(name.replace("_", "-")))
        fields = {reader.info.field if reader.info.json_lines else "text" for reader in readers}
        if wanted is not None and fields != {wanted}:
            why = f"lines are copied as they stand, with the field {min(fields)!r}. Leave the option out"
            raise OptionError(f"{self.format.name} option {name}={wanted}: {why}", name=name)
        from tokfmt.ops.convert.lines import LineReader, copied_text, copies_in, copy_records  # with jsonl

        plain, path = self.request.arrangement.plain, places[self.portions[0].destination][0].path
        copy = path if plain else copies_in(workers) / "lines"
        copied = copy_records(readers, copy, self.request.select, paths_of(sources), workers, self.progress)
        asides = [(source, copied.asides[k]) for k, source in enumerate(sources)]
        dropped = self._accepted(record_losses(asides, self.format, self.request.source.drop))
        written = [Written(self.portions[0], copied.records, copied.tokens, None, len(copied.blocks))]
        if not plain:
            lines = LineReader(copy, copied.records)
            written = [self._write_lines(lines, portion, places, workers) for portion in self.portions]
            if len(written) == 1:
                written = [replace(written[0], tokens=copied.tokens)]
        elif self.request.verify:
            from tokfmt.ops.convert.verify import verify_records  # fingerprints need numpy.random and xxhash

            compared = verify_records(
                copied_text, readers, copied.blocks, path, workers, self.progress, records=copied.records
            )
            self.compared.update(compared)
        if self.request.verify and self.request.select is None:
            self._verify_counts([(source, copied.counts[k], None) for k, source in enumerate(sources)])
        return self._result(sources, Separator(None), written, dropped)

    def _verify_counts(self, counts: Sequence[tuple[Source, int, int | None]]) -> None:
        """Compare how many records were read of each source with how many it holds; see `Reading.counts`."""
        from tokfmt.ops.convert.verify import verify_counts

        readers = [source.reader for source, _, _ in counts if isinstance(source.reader, RecordReader)]
        verify_counts(
            (source.paths[0], read, reader.count() if selected is None else selected)
            for (source, read, selected), reader in zip(counts, readers, strict=True)
        )

    def _write_lines(self, lines: TokenReader, portion: Portion, places: Places, workers: Workers) -> Written:
        from tokfmt.ops.convert.lines import LineWriter, dealt_text

        path, workers = _place(portion, places, workers)
        with arranged(lines, self.request.arrangement, portion, workers, self.progress) as view:
            writer = LineWriter(path, workers.jobs, keep=workers.journal.keeps)
            written = write(view, writer, portion, self._region(view), workers, self.progress)
            if self.request.verify:
                from tokfmt.ops.convert.verify import verify_records

                spans = list(windows(0, view.info.tokens, self._region(view)))
                self.compared.update(verify_records(dealt_text, view, spans, path, workers, self.progress))
        return replace(written, tokens=None)

    # everything else: a token axis

    def _write(self, sources: Sequence[Source], places: Places, workers: Workers) -> Conversion:
        request, eos, drop = self.request, self._agreed(sources), self.request.source.drop
        reading = token_axis(
            self._read(sources), self.tokenizer, request.select, workers, self.progress,
            lambda source, aside: not names_lost(source, aside, self.format) <= drop,
            stored_eos=self._stored_eos(eos), rejects=None if request.shard else self._rejects(workers),
        )  # fmt: skip
        if request.shard is not None and any(isinstance(source.reader, RecordReader) for source in sources):
            return self._written_share(sources, eos, reading, workers)
        self._take_rows(reading.axis)  # of a recipe of text, which has samples only now
        target = Target(eos.eos_id, self._decoder(sources), drop, workers.journal.keeps, workers.jobs)
        place, (axis, embedded) = places[self.portions[0].destination][0], (self.packed or reading.axis, None)
        writer = self._made_writer(place.path, self.options, target)
        if request.arrangement.shares is None:  # before tokens are read, and before a shuffle takes space
            need_room(self.portions[0].destination, place.path, least_bytes(writer, axis))
        losses = record_losses(reading.asides, self.format, drop)
        losses.found.extend(known_losses(axis, sources, writer, request.source) if reading.asides else self.known)
        if reading.encoded:
            axis, embedded = prepare(axis, writer, eos.eos_id, losses, workers)
        dropped = self._accepted(losses)
        if request.verify and request.shard is None:
            self._verify_counts(reading.counts)
        for note in (*losses.notes, *reading.notes, *left_out((*sources, *reading.made), writer)):
            self._note(note)
        self.prepared, self.padded = list(reading.report), 0 if self.packed else reading.padded
        prepared = Prepared(axis, embedded, dropped)
        written = [self._write_portion(prepared, portion, places, target, workers) for portion in self.portions]
        if request.ledger and request.shard is None:
            from tokfmt.ops.ledger import write_rows  # with all of recipes

            opened = self.rows or sources[0].reader
            told = write_rows(place.scratch, opened, reading.axis, prepared.reader, dropped, self.progress)
            unit = "sequences" if self.rows is None else "samples"
            self.ledger = {"unit": unit, **told}
        prepared.reader.close()
        return self._result(sources, eos, written, dropped)

    def _written_share(
        self, sources: Sequence[Source], eos: Separator, reading: Reading, workers: Workers
    ) -> Conversion:
        """What is said of a shard of text: its part is tokenised, and --finish puts all parts together."""
        dropped = self._accepted(record_losses(reading.asides, self.format, self.request.source.drop))
        workers.journal.sync()
        if self.request.shard is not None:
            workers.journal.add("shard", self.request.shard.index, None)
        return self._result(sources, eos, [Written(self.portions[0], None, None)], dropped)

    def _write_portion(
        self, prepared: Prepared, portion: Portion, places: Places, target: Target, workers: Workers
    ) -> Written:
        path, workers = _place(portion, places, workers)
        writer = self._made_writer(path, portion.options, target)
        arrangement, marked = self.request.arrangement, prepared.marked(writer)
        with arranged(prepared.reader, arrangement, portion, workers, self.progress, marked=marked) as view:
            carried = prepared.carried(view)
            if arrangement.shares is not None:
                need_room(portion.destination, path, least_bytes(writer, carried.reader))
            region, shard = self._region(carried.reader), self.request.shard
            try:
                written = write(carried.reader, writer, portion, region, workers, self.progress, shard)
            except TokenRangeError as error:
                other = not arrangement.plain or self.request.select is not None
                raise carried.located(error, self.request.source.paths, other) from error
            if self.request.verify and shard is None:
                self._verify(carried, path, portion, target, workers)
            for note in getattr(writer, "notes", lambda source: ())(carried.reader):
                self._note(f"{printable(portion.destination.name)}: {note}")
        if written.merged:
            ended = f"{counted(written.merged, 'sequence')} with the separator {target.eos_id} at the end"
            self._note(f"{ended} got no second one; it is read as the mark of the end, and no token")
        return written

    def _region(self, axis: TokenReader) -> int:
        """Tokens of a task; less where what is done is kept, so that an interruption leaves much of it."""
        most = self.request.region
        return min(most, max(_KEPT, axis.info.tokens // _SPREAD)) if self.request.kept == "resume" else most

    def _agreed(self, sources: Sequence[Source]) -> Separator:
        return agreed_separator(sources, self.request.source.eos)

    def _stored_eos(self, eos: Separator) -> int | None:
        """The separator, if the target stores it after each sequence."""
        return eos.eos_id if self._writer(Target(0)).needs_eos else None

    def _certified(self, written: Sequence[Written], eos: Separator) -> tuple[Mapping[str, Any] | None, str]:
        """What the manifest may name as the tokenizer of the ids written, and what speaks against it and was accepted.

        Raises:
            TokenizerMismatchError: There are ids that the tokenizer in use does not have, and nobody accepted that.
        """
        made, mixed = self.made
        largest = max((part.max_id for part in written if part.max_id is not None), default=0)
        size = made.get("vocab_size") if made is not None else None
        if made is None or not isinstance(size, int) or largest < size or largest == eos.eos_id:  # that may be any
            return made, mixed
        found, source = f"id {largest:,}", self.request.source
        if self.tokenizer is not None and "tokenizers" not in source.drop:
            path = source.paths[0] if len(source.paths) == 1 else self.request.destination
            expected = f"ids below {size:,}, as {made.get('name')} has them"
            raise TokenizerMismatchError(path, "holds ids beyond the tokenizer's vocabulary", expected, found)
        return None, f"{found} is beyond the vocabulary of {made.get('name')}"

    def _need_separator(self, sources: Sequence[Source]) -> None:
        known = self._agreed(sources).eos_id is not None
        if not known and self._writer(Target(0)).needs_eos and any(map(holds_something, sources)):
            if self.request.select is not None:
                refuse_selection_of_none(self.request.select, self._read(sources))
            why = f"{self.format.name} stores a separator after each sequence, and nothing says which id it is"
            raise SeparatorUnknownError(self.request.destination, why, self._name_separator())

    def _name_separator(self) -> str:
        """What the user can say when a separator is not known."""
        ways = ["Name its id with --eos ID"]
        if self.tokenizer is None:
            ways.append("give --tokenizer")
        elif self.tokenizer.ends:
            tokens = " or ".join(
                f"{printable(name)} = {token}: --eos {token}" for name, token in self.tokenizer.ends[:3]
            )
            ways = [f"The tokenizer has {tokens}"]
        if "eod" in option_names(self.format.write_options) and self.request.source.eos in (None, "none"):
            without = replace(self.options, eod="none")
            if not self.format.writer(self.request.destination, without, Target(0)).needs_eos:
                ways.append("store none with --to-opt eod=none")
        return ", or ".join(ways)

    def _decoder(self, sources: Sequence[Source]) -> Any:
        """Ids become text when the user gives a tokenizer and no source was text already."""
        if self.tokenizer is None or "text_field" not in option_names(self.format.write_options):
            return None
        if any(isinstance(s.reader, RecordReader) and s.reader.info.kind == "text" for s in sources):
            return None
        return self.tokenizer.decoder(lenient="invalid-utf8" in self.request.source.drop)

    def _verify(self, prepared: Prepared, path: Path, portion: Portion, target: Target, workers: Workers) -> None:
        from tokfmt.ops.convert.verify import verify_tokens

        shared = option_names(self.format.read_options) & {"split", "seq_len", "width", "text_field", "ids_field"}
        usual, written = asdict(self.format.write_options()), asdict(portion.options)
        options = {name: written[name] for name in shared & written.keys() if written[name] != usual[name]}
        if self.rows is not None or prepared.segmented(self._writer(target)):
            options["view"] = "samples"
        eos: EosChoice = "none" if self.request.source.eos == "none" else target.eos_id
        self.compared.update(
            verify_tokens(prepared, path, self.format, eos, options, target.decoder, workers, self.progress)
        )

    # what is said of it

    def _done_before(self, sources: Sequence[Source], said: Sequence[Manifest]) -> Conversion:
        """What an earlier run of the same request has written, by its manifests; nothing is written again."""
        first = said[0].content
        self._note("complete already: an earlier run of the same request has written it, and nothing has changed since")
        splits = {name: split for one in said for name, split in one.content.get("splits", {}).items()}
        counts = {key: [one.content.get(key) for one in said] for key in ("sequences", "tokens")}
        separator = {"eos_id": first.get("eos_id"), "from": first.get("eos_from"), "inferred": False}
        done = self._result(sources, self._agreed(sources), [], dict(first.get("dropped", {})))
        return replace(
            done,
            sequences=total_of(counts["sequences"]),
            tokens=total_of(counts["tokens"]),
            max_id=max((one.content["max_id"] for one in said if one.content.get("max_id") is not None), default=None),
            separator=separator,
            splits=splits,
            verified=self.request.verify,
        )

    def _result(
        self, sources: Sequence[Source], eos: Separator, written: Sequence[Written], dropped: dict[str, str]
    ) -> Conversion:
        arrangement = self.request.arrangement
        made, mixed = self._certified(written, eos)
        if written and self.request.shard is None and total_of([part.sequences for part in written]) == 0:
            self._note(nothing_in(self.request))
        others = [note for source in sources for note in source.left_out]
        dropped = {
            **dropped,
            **({"tokenizers": mixed} if mixed else {}),
            **({"other-files": "; ".join(others)} if others else {}),
        }
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
            sources=[{"path": self._named(str(p)), "format": s.format.name} for s in sources for p in s.paths],
            sequences=total_of([part.sequences for part in written]),
            tokens=total_of([part.tokens for part in written]),
            max_id=max((part.max_id for part in written if part.max_id is not None), default=None),
            separator={"eos_id": eos.eos_id, "from": eos.source or None, "inferred": eos.inferred},
            dropped=dropped,
            notes=list(self.notes),
            plan={
                "tasks": sum(part.tasks for part in written),
                "executor": self.request.executor,
                "jobs": self.request.jobs,
                "least_bytes": None,
                "free_bytes": None,
            },
            verified=self.request.verify,
            compared=dict(self.compared),
            tokenizer=dict(made) if made is not None else None,
            sample_length=self._sample_length(),
            shuffle=arrangement.shuffle,
            splits=splits,
            recipe=None if self.rows is None else self.rows.fingerprint,
            labels=None if self.rows is None else self.rows.labels_from,
            prepared=self.prepared,
            padded=self.padded,
            partial=[source.partial.facts() for source in sources if source.partial is not None],
        )

    def _sample_length(self) -> int | None:
        samples = getattr(self.options, "layout", "samples") == "samples"
        samples &= not getattr(self._writer(Target(0)), "whole", False)  # in files of whole sequences
        return getattr(self.options, "seq_len", None) if samples else None

    def _dry_run(self, sources: Sequence[Source]) -> Conversion:
        eos = self._agreed(sources)
        if any(isinstance(source.reader, RecordReader) for source in sources):
            count = None if any(map(holds_something, sources)) else 0
            written = [Written(portion, count, count) for portion in self.portions]
            return self._planned(self._result(sources, eos, written, {}))
        with make_executor("serial", 1) as executor:
            workers = Workers(executor, 1, Path())
            stored = self._stored_eos(eos)
            reading = token_axis(
                self._read(sources), None, self.request.select, workers, self.progress, stored_eos=stored
            )
        axis, self.prepared, self.padded = reading.axis, list(reading.report), reading.padded
        for note in reading.notes:
            self._note(note)
        dropped = self._accepted(Losses(self.known))
        written = [self._would_write(axis, portion, Target(eos.eos_id)) for portion in self.portions]
        return self._planned(self._result(sources, eos, written, dropped), total_of([part.least for part in written]))

    def _planned(self, result: Conversion, least: int | None = None) -> Conversion:
        goes = {
            str(portion.destination): replaced(portion.destination)
            for portion in self.portions if followed(portion.destination) not in self.taken_back
        }  # fmt: skip
        goes = {destination: what for destination, what in goes.items() if what}
        room = {"least_bytes": least, "free_bytes": free_bytes(self.request.destination)}
        plan = {**result.plan, **room}
        return replace(result, dry_run=True, verified=False, replaces=goes, plan=plan)

    def _would_write(self, axis: TokenReader, portion: Portion, target: Target) -> Written:
        view = portion_of(axis, self.request.arrangement, portion)
        writer = self._made_writer(portion.destination, portion.options, target)
        least = least_bytes(writer, view)
        need_room(portion.destination, portion.destination, least)
        info, tasks = view.info, len(writer.regions(view, self.request.region))
        return Written(portion, info.sequences, info.tokens, info.max_id, tasks, least=least)

    def _manifests(
        self, done: Conversion, read: Sequence[SourceFiles], stagings: Mapping[Path, Staging]
    ) -> dict[Path, bytes]:
        shares = self.request.arrangement.shares
        given = {
            "options": {"from": words_of(self.request.source.options), "to": words_of(self.write_options)},
            "select": self.request.select,
            "split": shares.described() if shares else None,
        }
        if self.digest:
            given["request"] = {"digest": self.digest, "verified": self.request.verify}
        if self.ledger is not None:
            given["ledger"] = {"unit": self.ledger["unit"], "rows": self.ledger["rows"]}
        made = manifests(
            done, read, stagings, given, self.progress, self.request.jobs, checksums=self.request.checksums
        )
        return {
            path: self._named(text.decode()).encode() if self.request.piped else text for path, text in made.items()
        }


def _place(portion: Portion, places: Places, workers: Workers) -> tuple[Path, Workers]:
    """Where a portion is written, and the workers with the scratch directory and the journal of its destination."""
    staging, journal = places[portion.destination]
    return staging.path, replace(workers, scratch=staging.scratch, journal=journal)
