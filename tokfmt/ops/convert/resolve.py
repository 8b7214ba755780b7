"""Stage 1 of a conversion, Request to Resolved: open the sources, and refuse what cannot be done before anything is
written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tokfmt.core import listing
from tokfmt.core.errors import (
    NAME_SEPARATOR,
    Loss,
    OptionError,
    SeparatorUnknownError,
    TokenizerMismatchError,
    TokfmtError,
)
from tokfmt.core.format import Target
from tokfmt.core.place import Place, Url, local_path
from tokfmt.core.publisher import Publisher
from tokfmt.core.reader import Separators, TokenReader
from tokfmt.core.records import RecordInfo, RecordReader, SkippedRecords
from tokfmt.core.replacing import readable_by
from tokfmt.core.store import Identity
from tokfmt.core.text_format import printable
from tokfmt.model.batch import Kind, Leads
from tokfmt.model.gap import Gap, Known, joined_gap
from tokfmt.model.select import Concat, Slice
from tokfmt.model.separator import SeparatorNeededError, lead_to_write, separator_to_write
from tokfmt.ops.convert.destination import Destination
from tokfmt.ops.convert.losses import Losses, known_losses, record_losses
from tokfmt.ops.convert.notes import Notes
from tokfmt.ops.convert.refusals import (
    refuse_ledger,
    refuse_rejects,
    refuse_selection_of_none,
    refuse_splits_of_one_file,
    refuse_tasks,
    refuse_text,
    refuse_undealt,
)
from tokfmt.ops.convert.request import Request
from tokfmt.ops.destination import guard, refuse_foreign, strangers_in
from tokfmt.ops.source.content import Manifest
from tokfmt.ops.source.discover import find_sources, snapshot
from tokfmt.ops.source.ingest import first_look
from tokfmt.ops.source.manifest import read_manifest
from tokfmt.ops.source.open import open_sources, text_recipe_of, with_named
from tokfmt.ops.source.request import SourceFiles, option_names, parse_selection
from tokfmt.ops.source.stored import (
    GIVEN,
    NO_SEPARATOR,
    Separator,
    Source,
    agreed_tokenizer,
    files_of_sources,
    paths_of,
    refuse_other_ends,
    tokenizer_of,
)
from tokfmt.run.execute import may_spawn

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

_NOTES = 20  # number of notes on sources that are reported one by one
# Bytes of text, or tokens to gather, from which processes pay off. A process takes 1 CPU second to start for text, and
# 0.2 for gathering.
_WORTH = 64 << 20

Given = tuple[Sequence[Source], TokenReader]
"""Sources that are open already, and the axis over them that is written instead of all their sequences."""


class Lead(NamedTuple):
    """What a destination stores in front of sequences.

    Attributes:
        id: The lead; None: none is stored.
        leads: The sequences that get it.
        read: The leads of the sources, each once.
        lost: The loss of these leads, if the destination cannot store them.
    """

    id: int | None = None
    leads: Leads = "as-read"
    read: tuple[int, ...] = ()
    lost: tuple[Loss, ...] = ()


NO_LEAD = Lead()
"""Neither the sources nor the destination have a lead."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A conversion whose sources are open and whose request passes all checks that precede writing.

    Attributes:
        request: The request, with the destination path that the format gives it and the executor that was chosen.
        destination: The path, format and options of the destination.
        stagings: The hidden directory where each path of the destination is built.
        tokenizer: The tokenizer that encodes text or decodes token IDs; None if there is none.
        files: Every dataset that is read, including those that recipes name.
        before: The identity of these files before they were opened.
        stated: The manifest of each of these datasets, reduced to the size, number and checksum of its files. Empty
            with --ignore-manifest.
        sources: The sources of the conversion.
        read: The readers to read from: the sources, one given reader over them, or the packed rows of one.
        separator: The separator that the destination uses.
        lead: The lead that the destination stores in front of sequences.
        made_by: The tokenizer that is known to make or to have made all token IDs, or None; and the accepted
            differences, in words.
        copies: Records are copied to JSON Lines as they are. Otherwise the sources become one token axis.
        losses: The losses that are known of sources that hold tokens.
    """

    request: Request
    destination: Destination
    stagings: Mapping[Place, Publisher]
    tokenizer: TokenizerHandle | None
    files: tuple[SourceFiles, ...]
    before: Mapping[Place, Identity]
    stated: Mapping[Place, Manifest]
    sources: tuple[Source, ...]
    read: tuple[Source, ...]
    separator: Separator
    made_by: tuple[Mapping[str, Any] | None, str]
    copies: bool
    losses: tuple[Loss, ...]
    lead: Lead = NO_LEAD

    @property
    def holds_records(self) -> bool:
        """True if a source holds records, which tokfmt has to encode or gather first."""
        return any(isinstance(source.reader, RecordReader) for source in self.sources)

    @property
    def holds_something(self) -> bool:
        """True if the sources hold a sequence, or a byte that may belong to a record."""
        return _hold_something(self.sources)

    @property
    def decodes(self) -> bool:
        """True if the tokenizer decodes token IDs: the destination can hold text, and no source does."""
        infos = [source.reader.info for source in self.sources]
        of_text = any(isinstance(info, RecordInfo) and info.kind == "text" for info in infos)
        writes_text = "text_field" in option_names(self.destination.format.write_options)
        return self.tokenizer is not None and writes_text and not of_text

    def target(self, **how: Any) -> Target:
        """Return the facts that writers need.

        Args:
            how: Further attributes of the target.
        """
        return Target(
            self.separator.eos_id,
            self.destination.traits.separators,
            allow_loss=self.request.source.allow_loss,
            eos_for="as-read" if self.request.to_eos == "as-stored" else "all",
            bos_id=self.lead.id,
            bos_for=self.lead.leads,
            **how,
        )

    def facts(self) -> dict[str, object]:
        """Return the facts that the output depends on besides the request; see `resume.facts_of`."""
        return {
            "to": self.destination.format.name,
            "to-opt": asdict(self.destination.options),
            "the formats of the sources": [source.format.name for source in self.sources],
            "the separator": self.separator.eos_id,
            "the place of the separator": self.destination.traits.separators.value,
            "the lead": [self.lead.id, self.lead.leads, self.lead.read],
            "the tokenizer": self.tokenizer.describe() if self.tokenizer else None,
        }


def resolve(request: Request, notes: Notes, given: Given | None = None) -> Resolved:
    """Open the sources of a request, and refuse what cannot be done.

    Raises:
        TokfmtError: The request cannot be done. Nothing was written.
    """
    if request.task:
        refuse_tasks(request)
    destination = Destination.of(request)
    request = replace(request, destination=destination.path)
    if len(destination.portions) > 1:
        refuse_splits_of_one_file(destination.portions, destination.traits)
    tokenizer = tokenizer_of(request.tokenizer, special_tokens=request.special_tokens, engine=request.engine)
    with listing.kept() as answers:
        found = files_of_sources(given[0]) if given else find_sources(request.source)
        found = [with_named(one) if one.format.is_computed else one for one in found]
    files = tuple(one for source in found for one in source.all())
    for path in destination.paths:
        guard(path, request.source.paths, files)
    before = snapshot(files)
    stagings = _stagings(request, destination, before, notes)
    with listing.kept(answers):
        sources = given[0] if given else _opened(request, tokenizer, found, notes)
        compared = () if request.source.ignore_manifest else files
        stated = {one.path: read_manifest(one.path).of_files for one in compared}
    read = [sources[0]._replace(reader=given[1])] if given else sources
    is_computed = any(source.format.is_computed for source in sources)
    tokenizer = _named_tokenizer(sources, tokenizer) if is_computed else tokenizer
    if is_computed and len(sources) == 1:
        destination = with_rows(destination, read[0], request)
        if destination.packed is not None:
            sources = read = [sources[0]._replace(reader=destination.packed)]
    if request.rejects is not None:
        refuse_rejects(request, request.rejects, sources, files)
    if request.ledger:
        refuse_ledger(request, sources)
    _pass_on(sources, notes)
    made_by = agreed_tokenizer(sources, tokenizer, request.source.allow_loss)
    copies = tokenizer is None and destination.format.takes_lines and _are_lines(sources)
    if not copies and tokenizer is None:
        refuse_text(sources, destination.format)
    separator = Separator(None)
    if not copies:
        separator, destination = _separator_of(sources, destination, request, tokenizer)
    resolved = Resolved(
        request,
        destination,
        stagings,
        tokenizer,
        files,
        before,
        stated,
        tuple(sources),
        tuple(read),
        separator,
        made_by,
        copies,
        losses=(),
    )
    is_led = request.to_bos is not None or any(source.bos_id is not None for source in sources)
    resolved = replace(resolved, lead=_lead_of(resolved)) if is_led else resolved
    return _checked(resolved, notes, by_request=given is None)


def _checked(resolved: Resolved, notes: Notes, *, by_request: bool) -> Resolved:
    """Refuse losses, a missing separator and unsuitable tasks before the sources are read, and choose the executor.

    Args:
        resolved: The conversion.
        notes: Receives notes.
        by_request: The request says all, so that another process can open the same sources.
    """
    request, sources = resolved.request, resolved.sources
    if resolved.tokenizer is not None:
        _note_copied_ids(resolved, resolved.tokenizer, notes)
    if request.task:
        refuse_undealt(sources, copies=resolved.copies)
    if isinstance(request.destination, Url) and (request.task or request.executor.startswith("dask:")):
        _refuse_unshared(resolved, request.destination, by_request=by_request)
    looked = [first_look(source) for source in sources]
    if not resolved.copies:
        resolved = replace(resolved, losses=tuple(_known_losses(resolved)))
    _refuse_losses(resolved, [skipped for _, skipped in looked])
    texts = next((texts for texts, _ in looked if texts), [])
    if resolved.tokenizer is not None and texts:
        resolved = replace(resolved, tokenizer=resolved.tokenizer.tried_on(texts))
        for note in resolved.tokenizer.notes if resolved.tokenizer is not None else ():
            notes.add(note)
        _note_bos(resolved, resolved.tokenizer, notes)
    if resolved.tokenizer is not None and (texts or resolved.decodes):
        _note_round_trip(resolved, resolved.tokenizer, texts, notes)
    if request.executor == "auto":
        resolved = replace(resolved, request=replace(request, executor=_best_executor(resolved)))
    return resolved


def _note_bos(resolved: Resolved, tokenizer: TokenizerHandle | None, notes: Notes) -> None:
    """Add a note on the ID that the tokenizer puts in front of a text, if the destination has no lead: D10."""
    if tokenizer is None or tokenizer.bos_id is None or resolved.copies:
        return
    bos_id = tokenizer.bos_id
    if resolved.lead.id is not None or resolved.request.to_bos == "none":
        return
    what = f"{printable(tokenizer.name)} puts {bos_id} in front of a text, and it is not written"
    notes.add(f"{what}. --to-bos {bos_id} writes it, --to-bos none omits this note")


def _lead_of(resolved: Resolved) -> Lead:
    """Return what the destination stores in front of sequences, and the loss of the leads of the sources.

    Raises:
        OptionError: The destination stores no token IDs, or the lead is its separator.
        ConversionError: Sources have different leads.
    """
    request, traits, name = resolved.request, resolved.destination.traits, resolved.destination.format.name
    found = dict.fromkeys(source.bos_id for source in resolved.sources)
    read, to_bos = tuple(lead for lead in found if lead is not None), request.to_bos
    if isinstance(to_bos, int):
        if resolved.copies or resolved.decodes:
            what = "gets records or texts, which have no lead"
            raise OptionError(f"--to-bos {to_bos}: {name} {what}", name="to_bos")
        if traits.separators.separated and to_bos == resolved.separator.eos_id:
            what = f"--to-bos {to_bos} is the separator, which alone marks boundaries in {name}"
            raise OptionError(f"{what}. --to-eos ID writes another separator", name="to_bos")
    elif not resolved.destination.format.writer_traits(resolved.destination.options).needs_eos:
        return Lead(read=read)  # D8: contents alone are stored.
    kind: Kind = "index" if not traits.separators.alone else "after"
    if traits.separators is Separators.BETWEEN and traits.sample_length is not None:  # Runs of separators are padding.
        kind = "between"
    lead, leads = lead_to_write(read, kind, to_bos, frozenset({"leads"}), name)
    what = f"the lead {', '.join(map(str, read))} of sequences"
    lost = (Loss("leads", what),) if read and to_bos is None and kind == "between" else ()
    return Lead(lead, leads, read, lost)


def _note_round_trip(resolved: Resolved, tokenizer: TokenizerHandle, texts: Sequence[str], notes: Notes) -> None:
    """Add a note if the tokenizer does not give back some texts, or the IDs of some documents."""
    from tokfmt.ops.convert.round_trip import note_on_documents, note_on_texts

    tried = [source for source in resolved.sources if resolved.decodes and not source.format.is_computed]
    found = [note_on_texts(tokenizer, texts)] if texts else [note_on_documents(tokenizer, one) for one in tried[:1]]
    for note in filter(None, found):
        notes.add(note)


def _note_copied_ids(resolved: Resolved, tokenizer: TokenizerHandle, notes: Notes) -> None:
    """Add a note on token IDs that are copied, although a tokenizer is given that is not known to have made them."""
    if resolved.decodes or not resolved.holds_something:
        return
    copied = [
        path
        for source in resolved.sources
        if not isinstance(source.reader, RecordReader) or source.reader.info.kind == "ids"
        for path, made in zip(source.paths, source.tokenizers, strict=True)
        if made is None or made["digest"] != tokenizer.digest
    ]
    if copied:
        others = f" and {len(copied) - 1:,} more" if len(copied) > 1 else ""
        name, source = printable(tokenizer.name), printable(copied[0])
        notes.add(
            f"{source}{others}: token IDs are copied, not encoded again: {name} is not known to have made them. "
            f"{_encode_again(source, printable(resolved.request.destination), name)}"
        )


def _encode_again(source: str = "SRC", destination: str = "DST", tokenizer: str = "NEW") -> str:
    """Return the sentence with the two commands that encode the token IDs of another tokenizer again."""
    return (
        f"To encode them again, name the tokenizer that made them for OLD: tokfmt convert {source} text.jsonl "
        f"--tokenizer OLD, then tokfmt convert text.jsonl {destination} --tokenizer {tokenizer}"
    )


def _refuse_unshared(resolved: Resolved, url: Url, *, by_request: bool) -> None:
    """Refuse tasks, and a cluster, that share nothing but the store and cannot write whole files of the destination.

    `parts.refuse_parts` does that for text.

    Raises:
        OptionError: Tasks write parts of one file, or replace a dataset; or the workers of a cluster write to the spool
            of this process, and no spool is named.
    """
    from tokfmt.ops.convert.tasks_in_stores import refuse_one_file, refuse_overwrite, refuse_unshared

    request, destination = resolved.request, resolved.destination
    is_spread = request.is_spread and by_request
    if request.task is None and not is_spread:
        refuse_unshared(url, request.spool, "its workers write to the spool")
        return
    if resolved.holds_records:
        return
    if request.overwrite:
        refuse_overwrite(url)
    portion = destination.portions[0]
    writer = destination.writer(resolved.stagings[portion.destination].path, portion, resolved.target())
    if writer.finishes_files:
        return
    if request.task:
        refuse_one_file(url)
    refuse_unshared(url, request.spool, "each writes a part of one file")


def _stagings(
    request: Request,
    destination: Destination,
    before: Mapping[Place, Identity],
    notes: Notes,
) -> dict[Place, Publisher]:
    """Return the hidden directory of each destination, after a check that the destination may be replaced.

    If the request keeps its work, `resumed` makes that check instead.

    Args:
        request: The request, with the path that the format gives the destination.
        destination: The destination with its portions.
        before: The identity of each source file; a destination gets no permissions that a source file lacks.
        notes: Receives notes on destinations in stores.
    """
    stagings = dict[Place, Publisher]()
    for path in destination.paths:
        companions = destination.format.companions(path)
        if isinstance(path, Url):
            stagings[path] = _in_store(path, destination, request, notes)
            continue
        stagings[path] = Publisher(
            local_path(path, "a destination"),
            overwrite=request.overwrite,
            objection=strangers_in(path),
            readable=readable_by(before),
            kept=request.kept,
            shared=request.task is not None,
            companions=[companion.name for companion in companions],
        )
    for path, staging in stagings.items():
        refuse_foreign(path)
        if not request.kept or request.dry_run:
            staging.check_replaceable()
    return stagings


def _in_store(path: Url, destination: Destination, request: Request, notes: Notes) -> Publisher:
    from tokfmt.ops.convert.upload import StorePublisher

    return StorePublisher(
        path,
        destination.format,
        spool=request.spool,
        overwrite=request.overwrite,
        kept=request.kept,
        shared=request.task is not None,
        companions=[one for one in destination.format.companions(path) if isinstance(one, Url)],
        note=notes.report,
    )


def _opened(
    request: Request,
    tokenizer: TokenizerHandle | None,
    found: Sequence[SourceFiles],
    notes: Notes,
) -> Sequence[Source]:
    try:
        return open_sources(request.source, tokenizer, request.jobs, notes.progress, found=found, collect_invalid=True)
    except SeparatorUnknownError as error:
        if error.remedy != NAME_SEPARATOR:  # A recipe names its keys.
            raise
        remedy = _name_separator(tokenizer)
        raise SeparatorUnknownError(error.path, error.why, remedy) from error
    except TokenizerMismatchError as error:
        error.add_note(_encode_again())
        raise


def with_rows(destination: Destination, source: Source, request: Request) -> Destination:
    """Return the destination with samples stored as they are, if the source is a recipe and the format stores samples.

    For a recipe of text only the options change, because its samples do not exist yet.
    """
    if not isinstance(source.reader, RecordReader) and source.reader.has_labels:
        from tokfmt.recipes.samples import Samples  # only recipes need what it imports

        return destination.with_rows_of(source.reader, request) if isinstance(source.reader, Samples) else destination
    recipe = text_recipe_of(source)
    if recipe is not None and recipe.file.seq_len is not None:
        return destination.with_rows_of_length(recipe.file.seq_len, request) or destination
    return destination


def _named_tokenizer(sources: Sequence[Source], tokenizer: TokenizerHandle | None) -> TokenizerHandle | None:
    """Return the tokenizer that a recipe of text names, else the one that was given.

    Raises:
        OptionError: --tokenizer differs from the tokenizer of the recipe.
    """
    for source in sources:
        recipe = text_recipe_of(source)
        if recipe is None or recipe.tokenizer is None:  # a recipe of token IDs needs no tokenizer
            continue
        named = recipe.tokenizer
        if tokenizer is not None and tokenizer.describe()["digest"] != named.describe()["digest"]:
            raise OptionError(f"--tokenizer: {printable(source.paths[0])} names another tokenizer, {named.name}")
        tokenizer = named
    return tokenizer


def _pass_on(sources: Sequence[Source], notes: Notes) -> None:
    """Add the notes on the sources, except those on losses, which the result has."""
    found = [
        (source.paths[0], note)
        for source in sources
        for note in source.notes
        if note.removeprefix("left out: ") not in source.left_out and note not in source.accepted
    ]
    for path, note in found[:_NOTES]:
        own = path.name if note.startswith((f"{path.name}: ", f"{path.name} ")) else ""
        notes.add(f"{path}{note.removeprefix(own)}" if own else f"{path}: {note}")
    if len(found) > _NOTES:
        notes.add(f"{len(found) - _NOTES:,} more notes of this kind on the other sources")


def _are_lines(sources: Sequence[Source]) -> bool:
    """Return True if all sources are copied to jsonl record by record: JSON lines, and text.

    Records of token IDs that are not JSON lines, such as rows of Parquet, become sequences of tokens instead.
    """
    infos = [source.reader.info for source in sources if not source.format.is_computed]
    records = [info for info in infos if isinstance(info, RecordInfo)]
    return len(records) == len(sources) and all(info.json_lines or info.kind == "text" for info in records)


def _hold_something(sources: Sequence[Source]) -> bool:
    infos = [source.reader.info for source in sources]
    return any(info.size if isinstance(info, RecordInfo) else info.sequences for info in infos)


def _gap_of(source: Source) -> Gap:
    """Return what is known of the separator of a source.

    Raises:
        ConversionError: It is that of a tokenizer, and all sequences end with another ID.
    """
    separator, reader = source.separator, source.reader
    if separator.source == "tokenizer":
        refuse_other_ends(source)
    gap = Gap() if source.dataset is None else source.dataset.gap
    known: Known = "user" if separator.source in {GIVEN, NO_SEPARATOR} else gap.known
    is_stored = separator.is_stored
    if isinstance(reader, RecordReader):  # Texts have none; rows of IDs may have one, if the user says so.
        is_stored = reader.info.kind == "ids" and separator.source == GIVEN
    common, path = None if separator.doubt else gap.common, printable(source.paths[0])
    return replace(gap, id=separator.eos_id, known=known, stored=is_stored, common=common, path=path)


def _separator_of(
    sources: Sequence[Source], destination: Destination, request: Request, tokenizer: TokenizerHandle | None
) -> tuple[Separator, Destination]:
    """Return the separator with its origin, for the manifest, and the destination, which may store none.

    Raises:
        OptionError: The option --to-eos is not possible for this destination.
        SeparatorUnknownError: The separator is not known. The remedy names the options that give it.
        ConversionError: Sources have different separators, or the variant of the destination takes another one.
    """
    traits, to_eos = destination.traits, request.to_eos
    gaps = [_gap_of(source) for source in sources]
    joined = gaps[0] if len(gaps) == 1 else joined_gap(gaps)
    kind: Kind = "after" if traits.separators.separated else "index"
    try:
        found = separator_to_write(
            joined, kind, to_eos, traits.eos_id, needs=traits.needs_eos, name=destination.format.name
        )
    except SeparatorNeededError as error:
        if request.select is not None:
            refuse_selection_of_none(request.select, sources)
        if not _hold_something(sources):
            return sources[0].separator, destination
        remedy = f"{_name_separator(tokenizer)}, or {error.ways}"
        raise SeparatorUnknownError(request.destination, error.why, remedy) from error
    if found is None and (traits.needs_eos or to_eos == "none"):
        destination = destination.without_separators()
    if isinstance(to_eos, int):
        return Separator(to_eos, "--to-eos"), destination
    if joined.parts and len(joined.ids) > 1:
        return Separator(None), destination
    source = next((source for source in sources if source.separator.eos_id is not None), sources[0])
    separator = source.separator
    if len(sources) > 1 and separator.inferred:
        separator = separator._replace(source=f"in {printable(source.paths[0].name)} {separator.source}")
    return separator, destination


def _name_separator(tokenizer: TokenizerHandle | None) -> str:
    """Return the remedy for a source whose separator is not known."""
    if tokenizer is None:
        return NAME_SEPARATOR
    if not tokenizer.ends:
        return "Give its token ID with --eos ID"
    tokens = " or ".join(f"{printable(name)} = {token}: --eos {token}" for name, token in tokenizer.ends[:3])
    return f"The tokenizer has {tokens}"


def _known_losses(resolved: Resolved) -> list[Loss]:
    """Return the losses that are known of sources that hold tokens, without reading a token."""
    axes = [source.reader for source in resolved.read if not isinstance(source.reader, RecordReader)]
    if not axes:
        return []
    axis, selection = axes[0] if len(axes) == 1 else Concat(axes), resolved.request.select
    if selection is not None and len(axes) == len(resolved.read):
        axis = Slice(axis, *parse_selection(selection, axis.info.sequences, paths_of(resolved.sources)))
    return known_losses(axis, resolved.sources, resolved.destination.traits, resolved.request.source)


def _refuse_losses(resolved: Resolved, skipped: Sequence[SkippedRecords]) -> None:
    """Refuse losses that are known before the first byte is written.

    A first look at records shows only a part of their losses. A dry run refuses those. A run continues, so that it can
    report all of them at once.
    """
    request, losses = resolved.request, Losses()
    if request.dry_run:
        pairs = list(zip(resolved.sources, skipped, strict=True))
        losses = record_losses(pairs, resolved.destination.format, request.source.allow_loss)
    losses.found.extend((*resolved.losses, *resolved.lead.lost))
    try:
        losses.accepted(request)
    except TokfmtError as error:
        if request.dry_run and len(losses.found) > len((*resolved.losses, *resolved.lead.lost)):
            error.add_note("A dry run looks at some records only; a run counts all")
        raise


def _best_executor(resolved: Resolved) -> str:
    """Return "processes" if workers would wait for the interpreter's lock and the work pays for their start.

    Otherwise return "threads". Parsing JSON holds the lock, and so does gathering parts while others are written.
    Codecs release it.
    """
    readers = [source.reader for source in resolved.sources]
    text = sum(reader.info.size for reader in readers if isinstance(reader, RecordReader))
    tokens = sum(reader.info.tokens for reader in readers if not isinstance(reader, RecordReader))
    gathers = tokens >= _WORTH and resolved.destination.traits.joins_under_lock
    much = gathers or (resolved.tokenizer is not None and text >= _WORTH)
    spawns = much and resolved.request.jobs > 1 and may_spawn([source.reader for source in resolved.read])
    return "processes" if spawns else "threads"
