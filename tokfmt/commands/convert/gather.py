"""Join all sources of a conversion to one token axis: tokenize or gather records, then cut out the selection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tokfmt.commands.convert.destination import Destination
from tokfmt.commands.convert.inputs import Inputs, text_recipe_of
from tokfmt.commands.convert.request import Request
from tokfmt.commands.convert.retokenize import notes_on_changes
from tokfmt.commands.convert.selection import list_rest, query_of, selected
from tokfmt.core.format import Format
from tokfmt.core.reader import TokenReader
from tokfmt.core.records import RecordReader, SkippedRecords
from tokfmt.model.readers import ContentReader
from tokfmt.model.select import Concat
from tokfmt.run.plan import Workers
from tokfmt.run.progress import Progress
from tokfmt.source.ingest import as_stored, encoder_for, ingest, note_on_chats
from tokfmt.source.request import parse_selection
from tokfmt.source.stored import Source, records_of, without_ends, without_leads, without_separators
from tokfmt.text.ingest import ShardReader, Unread
from tokfmt.wording import counted, printable


class Gathered(NamedTuple):
    """All sources as one token axis."""

    axis: TokenReader  # without separators
    skipped: list[tuple[Source, SkippedRecords]]  # each source of records, with what was left out of it
    encoded: bool = True  # False: the losses will be refused, so the rest of the text was only parsed
    # on separators that sequences end with already, and on quotas that documents do not fill
    notes: tuple[str, ...] = ()
    report: Sequence[Mapping[str, Any]] = ()  # what each source of a recipe gives
    # each source of records, how many of its records were read, and how many were selected (None: all)
    counts: Sequence[tuple[Source, int, int | None]] = ()
    made: Sequence[Source] = ()  # recipes of text, each with the reader of its prepared sequences or samples
    padded: int = 0  # positions that hold padding in samples of recipes


def gather(
    request: Request, inputs: Inputs, destination: Destination, workers: Workers, progress: Progress
) -> Gathered:
    """Return all sources as one token axis without separators, nor those of the destination at all ends."""
    sources, tokenizer, selection = inputs.read, inputs.tokenizer, request.select
    every_end = request.source.every_end
    stored_eos = destination.separator.eos_id if destination.traits.needs_eos else None
    rejects = None if request.rejects is None else _file_of_rejects(request, workers)

    def refused(source: Source, skipped: SkippedRecords) -> bool:
        return not names_lost(source, skipped, destination.format) <= request.source.allow_loss

    readers, skipped = list[TokenReader](), list[tuple[Source, SkippedRecords]]()
    encoded, notes, rows = True, list[str](), dict[int, tuple[object, list[Any]]]()
    counts, made = list[tuple[Source, int, int | None]](), list[Source]()
    for number, source in enumerate(sources):
        if (draft := text_recipe_of(source)) is not None:
            from tokfmt.mix import prepared

            done = prepared(draft, tokenizer, workers, progress, number, rejects)
            readers.append(done.reader)
            skipped += done.skipped
            rows[number] = (done.reader, done.report)
            made.append(source._replace(reader=done.reader))
            notes += done.notes
            continue
        contents = source.reader
        remarks: Sequence[str] = ()
        if isinstance(contents, RecordReader):
            first, last = 0, None
            if selection is not None and len(sources) == 1 and query_of(selection) is None:
                first, last = parse_selection(selection, contents.count(), source.paths)
                selection = None
            shards = ingest(
                as_stored(contents),
                encoder_for(contents, tokenizer, progress) if encoded else Unread(),
                workers,
                first=first,
                last=last,
                name=f"source-{number}",
                progress=lambda shard: progress.advance(shard.size),
                refused=partial(refused, source),
            )
            skipped.append((source, shards.skipped))
            counts.append((source, shards.info.sequences, None if last is None else last - first))
            if blank := shards.skipped.blank:
                progress.note(f"{printable(source.paths[0])}: blank lines, which are not documents: {blank:,}")
            encoded = encoded and not refused(source, shards.skipped)
            if encoded and workers.share is None:
                notes += notes_on_changes(source, shards, tokenizer, first, workers.jobs, progress)
            contents, remarks = _contents_of(source, shards, every_end=every_end)
        else:
            rows[number] = (contents, [])
        reader, noted = without_ends(source, contents, stored_eos, each=every_end)
        readers.append(reader)
        notes += [f"{source.paths[0]}: {note}" for note in (*remarks, *noted)]
    lead = None if request.source.bos == "none" else destination.lead.id
    if lead is not None or any(source.bos_id is not None for source in sources):
        pairs = zip(sources, readers, strict=True)
        readers = [_without_lead(source, reader, lead, notes, every_end=every_end) for source, reader in pairs]
    chosen = None if workers.share is not None and records_of(sources) else selection  # Else --finish selects.
    axis = readers[0] if len(readers) == 1 else Concat(readers)
    taken = selected(chosen, axis, inputs.sources, tokenizer, progress, readers, workers.jobs)
    list_rest(rejects, taken, sources, readers)
    is_encoded = encoded or workers.journal.keeps
    reported = is_encoded and workers.share is None and any(source.format.is_computed for source in sources)
    report, padded = _report(sources, readers, rows, taken.interval) if reported and taken.interval else ([], 0)
    return Gathered(taken.axis, skipped, is_encoded, tuple(notes), report, counts, made, padded)


def _contents_of(source: Source, shards: ShardReader, *, every_end: bool) -> tuple[TokenReader, Sequence[str]]:
    """Return the gathered records of a source without separators, with notes on them and on chats."""
    if not source.reader.info.is_text:
        reader, notes = without_separators(shards, source.separator, None, source.paths[0], every_end=every_end)
        return reader, (*shards.info.notes, *notes)
    note = note_on_chats([shards])
    return shards, [note] if note else []


def _file_of_rejects(request: Request, workers: Workers) -> Path | None:
    """Create the file in scratch for the texts that filters leave out; None for a task and for a dry run."""
    path = workers.scratch / "rejects"
    if request.task is not None or request.dry_run:
        return None
    path.write_bytes(b"")
    return path


def names_lost(source: Source, skipped: SkippedRecords, target: Format) -> set[str]:
    """Return the --allow-loss names that the records and fields left out of a source require."""
    return {name for name, count in _counts(source, skipped, target).items() if count}


def _counts(source: Source, skipped: SkippedRecords, target: Format) -> dict[str, int]:
    """Return the number of losses by --allow-loss name.

    Fields beside text that becomes tokens are not a loss, because only a destination of text could store them.
    """
    text = source.reader.info.is_text
    asked = not text or target is source.format or target.takes_lines
    return {"invalid-lines": skipped.invalid, "fields": skipped.others if asked else 0}


def _report(
    sources: Sequence[Source],
    readers: Sequence[TokenReader],
    rows: Mapping[int, tuple[object, list[Any]]],
    chosen: tuple[int, int],
) -> tuple[list[Mapping[str, Any]], int]:
    """Return the rows of the report on each recipe, and the number of positions of its samples that hold padding."""
    listed, padded, before = list[Mapping[str, Any]](), 0, 0
    for number, (source, reader) in enumerate(zip(sources, readers, strict=True)):
        if source.format.name == "run":
            from tokfmt.runs.reader import RunReader  # few sources are runs

            first, last = (min(max(limit - before, 0), reader.info.sequences) for limit in chosen)
            padded += (source.reader.padding_of(first, last) or 0) if isinstance(source.reader, RunReader) else 0
        elif source.format.is_computed and number in rows:
            from tokfmt.mix import report_on  # only recipes need what it imports

            first, last = (limit - before for limit in chosen)
            counted, padding = report_on(*rows[number], first, last, ended=isinstance(reader, ContentReader))
            listed, padded = [*listed, *counted], padded + padding
        before += reader.info.sequences
    return listed, padded


def _without_lead(
    source: Source, axis: TokenReader, written: int | None, notes: list[str], *, every_end: bool
) -> TokenReader:
    """Return the contents of a source that begin behind its lead, or behind that of the destination: no second one."""
    if source.format.is_computed:
        return axis
    if source.bos_id is None:
        alone = isinstance(axis, ContentReader) and any(
            gap.alone and gap.id == written for gap in axis.dataset.gap.each()
        )
        if written is None or alone:
            return axis
        contents, _ = without_leads(axis, written, source.paths[0], each=every_end)
        count, begun = axis.info.sequences, axis.info.tokens - contents.info.tokens
        if not begun:
            return axis
        those = "its sequences begin" if begun == count else f"{begun:,} of {counted(count, 'sequence')} begin"
        notes.append(f"{source.paths[0]}: {those} with the lead {written} already; they do not get a second one")
        return contents
    contents, noted = without_leads(axis, source.bos_id, source.paths[0], each=every_end)
    notes += [f"{source.paths[0]}: {note}" for note in noted if note not in source.notes]
    return contents
