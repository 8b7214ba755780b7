"""Find what a conversion would lose, refuse losses that the user does not accept, and note what a tokenizer changes.

    refuse_known_losses  before a token is read
    try_tokenizer        on some texts or documents, before all are read
    accept_losses        once all sources are one axis, before a byte is written

Not every tokenizer gives back what it encodes or decodes: SentencePiece models drop a space at the start of a text,
others lower its case, and one that lacks a token for a character drops the character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.commands.convert.arrangement import stored_axis
from tokfmt.commands.convert.destination import Destination
from tokfmt.commands.convert.gather import Gathered, names_lost
from tokfmt.commands.convert.inputs import Inputs, encode_again
from tokfmt.commands.convert.request import Notes, Request
from tokfmt.commands.convert.selection import has_text, query_of
from tokfmt.core.format import Format, Target, TokenWriter, WriterTraits
from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import WINDOW, Info, Layout, Separators, TokenReader, windows
from tokfmt.core.records import RecordInfo, RecordReader, SkippedRecords
from tokfmt.errors import FormatError, Loss, LossyConversionError, OptionError, TokenRangeError, TokfmtError
from tokfmt.files.place import place_of
from tokfmt.model.batch import AFTER, SEP
from tokfmt.model.readers import dataset_of, stored_reader, with_own_separators
from tokfmt.model.select import Concat, Known, NonEmpty, Slice
from tokfmt.run.plan import Scan, Workers, scan
from tokfmt.source.ingest import some_ids
from tokfmt.source.request import SourceRequest, parse_selection
from tokfmt.source.stored import Source, axes_of, boundaries_of, paths_of
from tokfmt.wording import counted, printable

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle


_BORDERS = "where documents begin inside of rows (without --from-opt view=samples each is a sequence)"
_AT_ONCE = 1 << 18  # tokens whose marks are read together, as many as the HDF5 reader caches
_NAMED = 12
"""Number of fields or paths that a message names; it counts the others."""


@dataclass(frozen=True, slots=True)
class Content:
    """A token axis to write, whose losses are known and accepted."""

    axis: TokenReader  # all sources as one token axis, without separators and without losses
    reader: TokenReader  # the axis to write, empty sequences included
    losses: dict[str, str]  # in words, by their --allow-loss name
    embedded: bool = False  # sequences contain the separator, and a reader of the destination splits them there
    closes: bool = False  # the separators of the sources are stored as tokens of their sequences
    notes: tuple[str, ...] = ()  # on what is left out without being a loss

    def of_view(self, view: TokenReader) -> Content:
        """Return this content for a view of the reader, without empty sequences if their loss was accepted."""
        return replace(self, reader=NonEmpty(view) if "empty-sequences" in self.losses else view)

    def located(
        self, error: TokenRangeError, stored: TokenReader, paths: Sequence[object], renumbered: bool
    ) -> TokenRangeError:
        """Return the error of an ID that the destination cannot store, with the sequence that holds it, if found. The
        writer counts positions on the axis that it stores. With `renumbered`, sequences of the reader have other
        numbers than in the sources.
        """
        number = stored.sequence_at(error.position)
        start, stop = self.reader.offsets(number, number + 1).tolist()
        inside = error.position - int(stored.offsets(number, number)[0])
        for at in (start + inside, start + inside - 1):  # A separator may be before the sequence.
            if start <= at < stop and int(self.reader.tokens(at, at + 1)[0]) == error.token:
                same = len(paths) == 1 and not renumbered and "empty-sequences" not in self.losses
                origin = f"{'' if same else 'the sequences to write of '}{', '.join(map(printable, paths[:_NAMED]))}"
                remedy = f"It is token {at - start:,} of sequence {number:,} of {origin}"
                return TokenRangeError(
                    error.where,
                    error.token,
                    error.limit,
                    error.position,
                    f"{remedy}. {error.remedy}" if error.remedy else remedy,
                )
        return error


@dataclass(frozen=True, slots=True)
class Losses:
    """The losses that were found so far."""

    found: list[Loss] = field(default_factory=list)
    # on what is left out without being a loss: fields beside text that becomes tokens
    notes: list[str] = field(default_factory=list)
    fault: TokfmtError | None = None  # of the first invalid line

    def accepted(self, request: Request) -> dict[str, str]:
        """Return the losses, in words by name, if all of them are accepted; else raise an error with all."""
        if not self.found:
            return {}
        allow_loss, target = request.source.allow_loss, str(request.destination)
        refused = [loss for loss in self.found if loss.name not in allow_loss]
        if self.fault is not None and any(loss.name == "invalid-lines" for loss in refused):
            raise self._with_rest(self.fault, refused, target)
        if refused:
            raise LossyConversionError(target, _joined(refused))
        return {loss.name: loss.what for loss in _joined(self.found)}

    def _with_rest(self, fault: TokfmtError, refused: Sequence[Loss], target: str) -> TokfmtError:
        fault.accepted_by = "invalid-lines"
        lines = [loss for loss in refused if loss.name == "invalid-lines"]
        if len(lines) > 1 or not lines[0].what.startswith("1 "):
            fault.add_note(f"In all {'; '.join(loss.what for loss in lines)}")
        others = _joined([loss for loss in refused if loss.name != "invalid-lines"])
        if others:
            fault.add_note(LossyConversionError(target, others).args[0])
        return fault


def _joined(losses: Sequence[Loss]) -> list[Loss]:
    """Join the losses of each name to one."""
    reasons: dict[str, list[str]] = {}
    for loss in losses:
        reasons.setdefault(loss.name, []).append(loss.what)
    return [Loss(name, "; ".join(parts)) for name, parts in reasons.items()]


def known_losses(request: Request, inputs: Inputs, destination: Destination) -> list[Loss]:
    """Return the losses that are known of sources that hold tokens, without reading a token."""
    axes, splits = axes_of(inputs.read), left_splits(inputs.sources, request.source)
    if not axes or destination.copies_lines or query_of(request.select) is not None:
        return splits
    axis = axes[0] if len(axes) == 1 else Concat(axes)
    if request.select is not None and len(axes) == len(inputs.read):
        axis = Slice(axis, *parse_selection(request.select, axis.info.sequences, paths_of(inputs.sources)))
    return _losses_of_axis(axis, inputs.sources, destination.traits, request.source)


def refuse_known_losses(
    request: Request,
    inputs: Inputs,
    destination: Destination,
    of_sources: Sequence[Loss],
    skipped: Sequence[SkippedRecords],
) -> None:
    """Refuse losses that are known before the first byte is written.

    A first look at records shows only a part of their losses. A dry run refuses those. A run continues, so that it can
    report all of them at once.
    """
    losses, of_tokens = Losses(), (*of_sources, *destination.lead.lost)
    if request.dry_run:
        pairs = list(zip(inputs.sources, skipped, strict=True))
        losses = record_losses(pairs, destination.format, request.source.allow_loss)
    losses.found.extend(of_tokens)
    try:
        losses.accepted(request)
    except TokfmtError as error:
        if request.dry_run and len(losses.found) > len(of_tokens):
            error.add_note("A dry run looks at some records only; a run counts all")
        raise


def accept_losses(
    request: Request,
    inputs: Inputs,
    destination: Destination,
    gathered: Gathered,
    of_sources: Sequence[Loss],
    target: Target,
    writer: TokenWriter,
    workers: Workers,
) -> Content:
    """Return the axis to write, if the user accepts all that is lost. If need be, read the tokens once for that."""
    allow_loss, traits = request.source.allow_loss, destination.traits
    axis, losses, inside = destination.packed or gathered.axis, Losses(), list[Loss]()
    if gathered.skipped:
        losses = record_losses(gathered.skipped, destination.format, allow_loss)
        of_sources = _losses_of_axis(axis, inputs.sources, traits, request.source)
    if gathered.encoded:
        axis, inside = _scanned(axis, writer, traits, target, workers)
    losses.found.extend((*of_sources, *destination.lead.lost, *inside))
    accepted = losses.accepted(request)
    closes = traits.keeps_separators and destination.packed is None and _keeps_separators(axis, allow_loss)
    if closes and target.bos_id is not None:
        problem = "loss masks are stored with the separators of the source, and a lead has none"
        raise OptionError(f"--to-bos: {problem}. --allow-loss loss-mask leaves them out", name="to_bos")
    return Content(
        gathered.axis,
        with_own_separators(axis, target.eos_id) if closes else axis,
        accepted,
        embedded=bool(inside) and traits.separators.alone,
        closes=closes,
        notes=(*losses.notes, *gathered.notes, *_notes_on_samples((*inputs.sources, *gathered.made), traits)),
    )


def _losses_of_axis(
    axis: TokenReader, sources: Sequence[Source], traits: WriterTraits, request: SourceRequest
) -> list[Loss]:
    """Return what the destination cannot store, as far as it is known without reading tokens.

    If the user accepts the loss of loss masks, they are counted as lost even if the destination could store them.
    """
    allow_loss = request.allow_loss
    masks = traits.keeps_masks and "loss-mask" not in allow_loss and axis.marks(0, 0) is not None
    rows = traits.keeps_boundaries and axis.info.segmented and not axis.info.inner
    stored = {"loss-mask": masks, "inner-boundaries": rows and "inner-boundaries" not in allow_loss}
    losses = _of_sources(sources, masks=traits.keeps_masks, are_stored=masks) + left_splits(sources, request)
    of_records = any(isinstance(source.reader, RecordReader) for source in sources)
    if of_records and axis.marks(0, 0) is not None and not any(loss.name == "loss-mask" for loss in losses):
        losses.append(Loss("loss-mask", axis.info.loss_masks or "loss masks of its records"))  # no first record said so
    lost = [loss for loss in losses if not stored.get(loss.name)]
    closes = traits.keeps_separators and _keeps_separators(axis, allow_loss)
    unmarked = _unmarked(axis, sources, traits) if masks and not traits.keeps_labels and not closes else ()
    return [*lost, *unmarked, *traits.lost(axis, allow_loss)]


def _keeps_separators(axis: TokenReader, allow_loss: frozenset[str]) -> bool:
    """Return whether `WriterTraits.keeps_separators` holds for an axis, so that no mark of a separator is lost."""
    is_lost = bool(allow_loss & {"loss-mask", "masked-separators"})
    return not is_lost and axis.info.layout is Layout.DOCUMENTS and axis.marks(0, 0) is not None


def _notes_on_samples(sources: Sequence[Source], traits: WriterTraits) -> list[str]:
    """Return notes on masks and borders of a recipe's samples that are not stored, and can be made again."""
    if traits.keeps_labels:
        return []
    note = (
        "each sample is a sequence of IDs with padding; its loss mask and the borders of its documents are not stored"
    )
    notes = []
    for source in sources:
        path, axis = source.paths[0], source.reader
        if isinstance(axis, RecordReader) or not axis.has_labels:
            continue
        if axis.marks(0, 0) is None:
            way = f"; --to-opt pack_size={axis.info.sample_length} stores both, without padding"
            notes.append(f"{path}: {note}{way if traits.keeps_boundaries else ''}")
        elif source.made_labels and not traits.keeps_masks:
            notes.append(f"{path}: {note}")
    return notes


@dataclass(slots=True)
class _Tally:
    """A count of the sequences that lose something."""

    name: str  # of --allow-loss
    what: str  # the loss in words, with `{}` for the counted sequences
    unit: str  # noun for one sequence
    count: int = 0
    first: int = -1  # number of the first of them; -1 if there is none

    def add(self, axis: TokenReader, positions: NDArray[np.int64]) -> None:
        """Count sequences; `positions` has one ascending position in each of them."""
        if len(positions) and not self.count:
            self.first = axis.sequence_at(int(positions[0]))
        self.count += len(positions)

    def add_all(self, sequences: NDArray[np.int64]) -> None:
        """Count sequences, given their numbers."""
        if len(sequences) and not self.count:
            self.first = int(sequences[0])
        self.count += len(sequences)

    def losses(self) -> Iterator[Loss]:
        if self.count:
            loss = self.what.format(counted(self.count, self.unit))
            yield Loss(self.name, f"{loss} (first: {self.unit.split()[-1]} {self.first:,})")


def _unmarked(axis: TokenReader, sources: Sequence[Source], traits: WriterTraits) -> Iterator[Loss]:
    """Yield the masks and labels that a loss mask over written tokens cannot state.

    These are masked separators that the destination does not store, and labels of tokens after the end of a sample.
    """
    from tokfmt.core.loss_mask import MASKED_END

    yield from _masked_empties(sources)
    labeled = [axis for axis in axes_of(sources) if axis.has_labels]
    sampled = [reader for reader in labeled if reader.shifted]
    if traits.needs_eos and not sampled:
        return
    separators = _Tally("masked-separators", "separators of {} that do not count in the loss", "sequence")
    for a, b in windows(0, axis.info.tokens, _AT_ONCE):
        marks = axis.marks(a, b)
        if marks is not None and not traits.needs_eos:
            separators.add(axis, a + np.flatnonzero(marks & MASKED_END))
    yield from separators.losses()
    for reader in sampled:
        yield from _last_labels(reader)


def _last_labels(reader: Any) -> Iterator[Loss]:
    """Yield the labels at the ends of samples that count in the loss: no sample holds the tokens that they predict."""
    from tokfmt.core.loss_mask import counted_of

    labels = _Tally("last-labels", "the last label of {}, whose token is in no row", "sample")
    total = reader.info.tokens if reader.info.layout is Layout.SAMPLES else 0
    for a, b in windows(0, total, _AT_ONCE):
        ends = reader.offsets(reader.sequence_at(a), reader.sequence_at(b - 1) + 1)[1:] - 1
        ends = np.unique(ends[(a <= ends) & (ends < b)])
        counted = counted_of(reader, a, b)
        labels.add(reader, ends[:0] if counted is None else ends[counted[ends - a]])
    yield from labels.losses()


def _masked_empties(sources: Sequence[Source]) -> Iterator[Loss]:
    """Yield the empty sequences whose separator does not count in the loss; they have no token to carry the mask."""
    tally = _Tally("masked-separators", "separators of {} that do not count in the loss", "empty sequence")
    for axis in axes_of(sources):
        dataset = dataset_of(axis, drawn=True)
        if dataset.marks is None:
            continue
        many = len(dataset) * WINDOW // max(1, axis.info.tokens)  # of about a window of tokens, which are read once
        for a, b in windows(0, len(dataset), min(WINDOW, max(1, many))):
            starts, stops, beside = dataset.contents(a, b)
            empty = np.flatnonzero((starts == stops) & (beside & SEP != 0))
            masked = dataset.marks.at(np.where(beside & AFTER, stops, starts - 1)[empty]) & 1 == 0
            tally.add_all(a + empty[masked])
    yield from tally.losses()


def record_losses(
    skipped_records: Sequence[tuple[Source, SkippedRecords]], target: Format, allow_loss: frozenset[str]
) -> Losses:
    """Return the invalid lines and the fields that a conversion of records loses, in words, with the first of each."""
    losses = Losses()
    fault: TokfmtError | None = None
    for source, skipped in skipped_records:
        asked = names_lost(source, skipped, target)
        if skipped.faults and isinstance(source.reader, RecordReader) and source.reader.describes_lines:
            faults = [source.reader.record_error(spot) for spot in skipped.faults]
            fault = fault or faults[0]
            losses.found.append(Loss("invalid-lines", _invalid_lines(skipped.invalid, faults)))
        elif skipped.invalid:
            losses.found.append(Loss("invalid-lines", counted(skipped.invalid, "invalid line")))
        if skipped.others:
            if "fields" in asked or "fields" in allow_loss:
                losses.found.append(Loss("fields", _fields(source, skipped, located=True)))
            else:
                fields = _fields(source, skipped, located=False)
                more = f" and {len(source.paths) - 1:,} more" if len(source.paths) > 1 else ""
                losses.notes.append(f"{source.paths[0]}{more}: {fields} are not kept")
    return replace(losses, fault=fault)


def _invalid_lines(count: int, faults: Sequence[TokfmtError]) -> str:
    words, before = list[str](), ""
    for fault in faults:
        name = printable(place_of(fault.place).name) if isinstance(fault, FormatError) else ""
        words.append(_sentence(fault) if name == before else f"{name}: {_sentence(fault)}")
        before = name
    more = "; tokfmt check lists them" if count > len(words) else ""
    return f"{counted(count, 'invalid line')} ({'; '.join(words)}{more})"


def _sentence(fault: TokfmtError) -> str:
    if not isinstance(fault, FormatError):
        return str(fault)
    at = "" if fault.offset is None else f" at byte {fault.offset:,}"
    return f"{fault.what}{at}"


def _fields(source: Source, skipped: SkippedRecords, *, located: bool) -> str:
    """Return the fields that are left out in words; `located` adds the file and the byte of the first record."""
    info = source.reader.info
    read = info.field if isinstance(info, RecordInfo) else ""
    where = f'beside "{read}" ' if read else ""
    names = sorted(skipped.fields, key=lambda name: (-skipped.fields[name], name))
    counts = [f'"{name}" in {skipped.fields[name]:,}' for name in islice(names, _NAMED)]
    if len(names) > _NAMED:
        counts.append(f"{len(names) - _NAMED:,} other fields")
    first, reader = "", source.reader
    if skipped.first is not None and isinstance(reader, RecordReader) and reader.describes_lines:
        path, number = reader.line(skipped.first)
        same = not located and [place_of(path)] == list(source.paths)
        where_first = "" if same else f" of {printable(path.name)} at byte {skipped.first[1]:,}"
        first = f"; first: line {number:,}{where_first}"
    return f"fields {where}of {counted(skipped.others, 'record')} ({', '.join(counts)}{first})"


def left_splits(sources: Sequence[Source], request: SourceRequest) -> list[Loss]:
    """Return the loss of the splits that are not read, unless the request names the split."""
    others = [", ".join(info.other_splits) for info in (source.reader.info for source in sources) if info.other_splits]
    how = "--split NAME or --from-opt split=NAME reads one"
    return [Loss("splits", f"the other splits ({each}; {how})") for each in others if request.split is None]


def _of_sources(sources: Sequence[Source], *, masks: bool, are_stored: bool) -> list[Loss]:
    """Return the losses that sources state themselves; with `masks`, also of labels that a recipe can make again.

    Masks that `are_stored` are not counted: that can take as long as to read them.
    """
    losses = []
    for source in sources:
        reader = source.reader
        if isinstance(reader, RecordReader):
            losses += [Loss("loss-mask", reader.info.loss_masks)] if reader.info.loss_masks else []
        elif masks or not (source.made_labels and reader.has_labels):  # the recipe makes its labels again
            losses += _masks(replace(reader.info, odd=None) if are_stored else reader.info)
    return losses


def _masks(info: Info) -> list[Loss]:
    masked, first = info.nonstandard_masks, info.first_nonstandard
    loss = f"loss masks or labels that are not the plain ones in {masked or 0:,} samples (first: sample {first})"
    lost = [Loss("loss-mask", words) for words in (loss if masked else "", info.loss_masks) if words]
    inner = [_BORDERS] if info.segmented else [boundaries_of(one) for one in info.inner]
    return [*lost, *(Loss("inner-boundaries", words) for words in inner)]


def _scanned(
    axis: TokenReader, writer: TokenWriter, traits: WriterTraits, target: Target, workers: Workers
) -> tuple[TokenReader, list[Loss]]:
    """Read the tokens once, if the writer needs the largest ID or a sequence might contain the separator."""
    look_for = target.eos_id if traits.separators.separated and axis.info.free_of != target.eos_id else None
    if look_for is None and (axis.info.max_id is not None or not writer.wants_max_id(stored_axis(axis, target))):
        return axis, []
    tally = Scan(*workers.journal.once("scan", lambda: list(_looked_for(axis, target, look_for, workers))))
    if not tally.separators:
        return Known(axis, tally.max_id), []
    sequence = axis.sequence_at(tally.first)
    loss = (
        f"{tally.separators:,} separator{'s' * (tally.separators != 1)} ({target.eos_id}) inside sequences "
        f"(first: sequence {sequence:,}, token position {tally.first:,})"
    )
    if tally.first == int(axis.offsets(sequence, sequence)[0]):
        loss += f"; --bos {target.eos_id} reads an ID at the beginning as a lead, which is not content"
    if axis.marks(0, 0) is not None:
        loss += '; a recipe with pack = "bestfit" and labels = "same" packs documents as they are'
    return Known(axis, tally.max_id), [Loss("embedded-separators", loss)]


def needs_scan(axis: TokenReader, writer: TokenWriter, traits: WriterTraits, target: Target) -> bool:
    """Return whether the tokens are read once before they are written; see `_scanned`."""
    separated = target.eos_id is not None and traits.separators.separated and axis.info.free_of != target.eos_id
    return separated or (axis.info.max_id is None and writer.wants_max_id(stored_axis(axis, target)))


def _looked_for(axis: TokenReader, target: Target, look_for: int | None, workers: Workers) -> Scan:
    """Scan the axis for its largest ID and for separators inside sequences.

    If the source stores the same separators, a scan of the stored tokens costs less. The largest ID then includes the
    separator, which is right for writers that store it.
    """
    stored = None if target.separators is Separators.NONE else stored_reader(axis, target.eos_id)
    if stored is not None:
        result = scan(stored, look_for, workers)
        if look_for is None or result.separators == axis.info.sequences:
            return Scan(result.max_id, 0, -1)
    return scan(axis, look_for, workers)


_DOCUMENTS = 64
_LONGEST = 1 << 12  # characters of a text, and tokens of a document, that are tried
_BEFORE, _SHOWN = 8, 24  # characters before a difference, and in all, that a note shows


def note_ids(inputs: Inputs, destination: Destination, notes: Notes) -> None:
    """Add a note on token IDs that are written although the destination can hold their text."""
    made = inputs.made_by[0]
    if inputs.tokenizer is None and made is not None and destination.holds_text and not destination.copies_lines:
        notes.add(f"token IDs are written; --tokenizer {printable(made['name'])} writes their text")


def try_tokenizer(
    request: Request,
    inputs: Inputs,
    destination: Destination,
    tokenizer: TokenizerHandle,
    texts: Sequence[str],
    notes: Notes,
) -> Inputs:
    """Return the inputs with a tokenizer that was tried on some texts, and add notes on what it does."""
    _note_copied_ids(request, inputs, destination, tokenizer, notes)
    if texts:
        tokenizer = tokenizer.tried_on(texts)
        for note in tokenizer.notes:
            notes.add(note)
        infos = [source.reader.info for source in inputs.sources]
        if not all(
            isinstance(info, RecordInfo) and info.is_templated for info in infos
        ):  # a chat template adds it itself
            _note_bos(request, destination, tokenizer, texts, notes)
            if not destination.copies_lines:
                _note_spelled(tokenizer, texts, notes)
        if note := _note_on_texts(tokenizer, texts):
            notes.add(note)
    elif destination.decodes:
        stored = [source for source in inputs.sources if not source.format.is_computed]
        for note in filter(None, (_note_on_documents(tokenizer, source) for source in stored[:1])):
            notes.add(note)
    return replace(inputs, tokenizer=tokenizer)


def _note_copied_ids(
    request: Request, inputs: Inputs, destination: Destination, tokenizer: TokenizerHandle, notes: Notes
) -> None:
    """Add a note on token IDs that are copied, although a tokenizer is given that is not known to have made them."""
    if destination.decodes or not inputs.holds_something or has_text(request.select):
        return
    copied = [
        path
        for source in inputs.sources
        if not source.reader.info.is_text
        for path, made in zip(source.made, source.tokenizers, strict=True)
        if made is None or made["digest"] != tokenizer.digest
    ]
    if copied:
        others = f" and {len(copied) - 1:,} more" if len(copied) > 1 else ""
        name, source = printable(tokenizer.name), printable(copied[0])
        notes.add(
            f"{source}{others}: token IDs are copied, not encoded again: {name} is not known to have made them. "
            f"{encode_again(source, printable(request.destination), name)}"
        )


def _note_bos(
    request: Request, destination: Destination, tokenizer: TokenizerHandle, texts: Sequence[str], notes: Notes
) -> None:
    """Add a note on the ID that the tokenizer puts in front of a text, if neither the destination nor texts have it."""
    bos_id = tokenizer.bos_id
    if bos_id is None or destination.copies_lines or destination.lead.id is not None or request.to_bos == "none":
        return
    begins = tuple(name for name, token in tokenizer.special.items() if token == bos_id)
    if tokenizer.special_tokens == "parse" and texts[0].startswith(begins):
        return
    note = f"{printable(tokenizer.name)} puts {bos_id} in front of a text, and it is not written"
    notes.add(f"{note}. --to-bos {bos_id} writes it, --to-bos none omits this note")


def _note_spelled(tokenizer: TokenizerHandle, texts: Sequence[str], notes: Notes) -> None:
    """Add a note on the special tokens that texts spell, if they are encoded as text."""
    if tokenizer.special_tokens == "parse" or not tokenizer.special:
        return
    spelled = re.compile("|".join(map(re.escape, sorted(tokenizer.special, key=len, reverse=True))))
    tried = [text[:_LONGEST] for text in texts[:_DOCUMENTS]]
    found = [spelled.findall(text) for text in tried]
    if number := sum(map(len, found)):
        first = printable(next(filter(None, found))[0])
        notes.add(
            f"{counted(number, 'special token')} of {printable(tokenizer.name)} (first: {first}) spelled in "
            f"{sum(map(bool, found)):,} of {counted(len(tried), 'text')} that were tried: encoded as text. "
            "--special-tokens parse encodes them as special tokens"
        )


def _note_on_texts(handle: TokenizerHandle, texts: Sequence[str]) -> str:
    """Return a note if the first 64 texts, up to 4,096 characters each, decode to other texts; else ""."""
    tried = [text[:_LONGEST] for text in texts[:_DOCUMENTS]]
    decoder = handle.decoder(lenient=True)
    back = [decoder.decode(ids) for ids in handle.encoder().encode(tried)]
    changed = [(a, b) for a, b in zip(tried, back, strict=True) if a != b]
    if not changed:
        return ""
    before, after = changed[0]
    at = next((k for k, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after)))
    begin = max(0, at - _BEFORE)
    first, second = (printable(repr(text[begin : begin + _SHOWN])) for text in (before, after))
    return (
        f"tokenizer {printable(handle.name)} does not give every text back: {len(changed):,} of {len(tried):,} that "
        f"were tried differ once encoded and decoded (first: {first} becomes {second})"
    )


def _note_on_documents(handle: TokenizerHandle, source: Source) -> str:
    """Return a note if the texts of 64 documents of at most 4,096 tokens have other IDs; else ""."""
    tried = [ids for ids in _first_documents(source.reader) if not handle.ids.lacks(ids).any()]
    if not tried:
        return ""
    decoder = handle.decoder(lenient=True)
    again = handle.encoder().encode([decoder.decode(ids) for ids in tried])
    changed = sum(new.tolist() != ids.tolist() for new, ids in zip(again, tried, strict=True))
    if not changed:
        return ""
    return (
        f"{source.paths[0]}: its text does not give every ID back: {changed:,} of {len(tried):,} documents that were "
        f"tried differ once decoded and encoded again with {printable(handle.name)}"
    )


def _first_documents(reader: TokenReader | RecordReader) -> list[Tokens]:
    if isinstance(reader, RecordReader):
        return [ids for ids in islice(some_ids(reader, 1), _DOCUMENTS) if 0 < len(ids) <= _LONGEST]
    bounds = reader.offsets(0, min(reader.info.sequences, _DOCUMENTS)).tolist()
    spans = [(a, b) for a, b in zip(bounds, bounds[1:], strict=False) if 0 < b - a <= _LONGEST]
    return [reader.tokens(a, b) for a, b in spans]
