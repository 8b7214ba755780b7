"""Join all sources of a conversion to one token axis: tokenize or gather records, then cut out the selection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tokfmt.core.reader import TokenReader
from tokfmt.core.records import RecordReader, SkippedRecords
from tokfmt.core.text_format import printable
from tokfmt.model.readers import ContentReader
from tokfmt.model.select import Concat, Slice
from tokfmt.ops.source.ingest import as_stored, encoder_for, encoder_of, ingest
from tokfmt.ops.source.open import text_recipe_of
from tokfmt.ops.source.request import parse_selection
from tokfmt.ops.source.stored import Source, paths_of, without_ends, without_leads, without_separators
from tokfmt.run.plan import Workers
from tokfmt.run.progress import Progress
from tokfmt.text.ingest import Unread

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle


class Gathered(NamedTuple):
    """All sources as one token axis.

    Attributes:
        axis: The sequences of all sources, without separators.
        skipped: Each source of records, with what was left out of it.
        encoded: False if the losses will be refused, and the rest of the text was parsed without being encoded.
        notes: Notes on separators that sequences end with already, and on quotas that documents do not fill.
        report: What each source of a recipe gives; see `ops.prepare.report`.
        counts: Each source of records, the number of its records that were read, and the number that was selected
            (None: all of them).
        made: Recipes of text, each with the reader of its prepared sequences or samples.
        padded: Positions that hold padding in samples of recipes.
    """

    axis: TokenReader
    skipped: list[tuple[Source, SkippedRecords]]
    encoded: bool = True
    notes: tuple[str, ...] = ()
    report: Sequence[Mapping[str, Any]] = ()
    counts: Sequence[tuple[Source, int, int | None]] = ()
    made: Sequence[Source] = ()
    padded: int = 0


def _never(source: Source, skipped: SkippedRecords) -> bool:  # noqa: ARG001
    return False


def gather(
    sources: Sequence[Source],
    tokenizer: TokenizerHandle | None,
    selection: str | None,
    workers: Workers,
    progress: Progress,
    refused: Callable[[Source, SkippedRecords], bool] = _never,
    *,
    stored_eos: int | None = None,
    rejects: Path | None = None,
    every_end: bool = False,
) -> Gathered:
    """Return all sources as one token axis without separators.

    Args:
        sources: The sources, in order.
        tokenizer: The tokenizer that encodes text; None if the sources hold token IDs.
        selection: Sequence numbers `A:B`; None for all sequences.
        workers: The workers that tokenize and gather records, and their scratch.
        progress: Receives phases, counts and notes.
        refused: Whether the records that a source leaves out will be refused. If so, the rest is not encoded.
        stored_eos: The separator that the destination stores after each sequence. Sequences that all end with it
            already do not get a second one.
        rejects: A file for the texts that filters of recipes leave out.
        every_end: See `SourceRequest`.
    """
    readers: list[TokenReader] = []
    skipped: list[tuple[Source, SkippedRecords]] = []
    encoded, notes, rows = True, list[str](), dict[int, tuple[object, list[Any]]]()
    counts, made = list[tuple[Source, int, int | None]](), list[Source]()
    for number, source in enumerate(sources):
        if not isinstance(source.reader, RecordReader):
            rows[number] = (source.reader, [])
            reader, noted = without_ends(source, source.reader, stored_eos, each=every_end)
            readers.append(reader)
            notes += [f"{source.paths[0]}: {note}" for note in noted]
            continue
        if (draft := text_recipe_of(source)) is not None:
            from tokfmt.ops.prepare.prepare import prepared

            done = prepared(draft, encoder_of(draft, tokenizer), workers, progress, number, rejects)
            readers.append(done.reader)
            skipped += done.skipped
            rows[number] = (done.reader, done.report)
            made.append(source._replace(reader=done.reader))
            notes += done.notes
            continue
        first, last = 0, None
        if selection is not None and len(sources) == 1:
            first, last = parse_selection(selection, source.reader.count(), source.paths)
            selection = None
        encoder = encoder_for(source.reader, tokenizer, progress) if encoded else Unread()
        shards = ingest(
            as_stored(source.reader),
            encoder,
            workers,
            first=first,
            last=last,
            name=f"source-{number}",
            progress=lambda shard: progress.advance(shard.size),
            refused=partial(refused, source),
        )
        skipped.append((source, shards.skipped))
        counts.append((source, shards.info.sequences, None if last is None else last - first))
        if shards.skipped.blank:
            progress.note(
                f"{printable(source.paths[0])}: blank lines, which are not documents: {shards.skipped.blank:,}"
            )
        encoded = encoded and not refused(source, shards.skipped)
        contents: TokenReader = shards
        named = list[str]()
        if source.reader.info.kind == "ids":
            contents, named = without_separators(shards, source.separator, None, source.paths[0], every_end=every_end)
        reader, noted = without_ends(source, contents, stored_eos, each=every_end)
        readers.append(reader)
        notes += [f"{source.paths[0]}: {note}" for note in (*named, *noted)]
    if any(source.bos_id is not None for source in sources):
        pairs = zip(sources, readers, strict=True)
        readers = [_without_lead(source, reader, notes, every_end=every_end) for source, reader in pairs]
    axis = readers[0] if len(readers) == 1 else Concat(readers)
    chosen = (0, axis.info.sequences)
    if selection is not None:
        chosen = parse_selection(selection, axis.info.sequences, paths_of(sources))
        axis = Slice(axis, *chosen)
    kept = encoded or workers.journal.keeps
    reported = kept and workers.share is None and any(source.format.is_computed for source in sources)
    report, padded = _report(sources, readers, rows, chosen) if reported else ([], 0)
    return Gathered(axis, skipped, kept, tuple(notes), report, counts, made, padded)


def _report(
    sources: Sequence[Source],
    readers: Sequence[TokenReader],
    rows: Mapping[int, tuple[object, list[Any]]],
    chosen: tuple[int, int],
) -> tuple[list[Mapping[str, Any]], int]:
    """Return the rows of the report on each recipe, and the number of positions of its samples that hold padding.

    Args:
        sources: All sources, in order.
        readers: The token axis of each source.
        rows: The reader of each recipe and its rows without amounts, by the number of the source.
        chosen: First and last + 1 of the sequences that are selected.
    """
    found, padded, before = list[Mapping[str, Any]](), 0, 0
    for number, (source, reader) in enumerate(zip(sources, readers, strict=True)):
        if source.format.is_computed and number in rows:
            from tokfmt.ops.prepare.report import padding, rows_of_ids, with_amounts

            recipe, of_ids = rows_of_ids(rows[number][0])
            if recipe is not None:
                first, last = (min(max(0, k - before), recipe.info.sequences) for k in chosen)
                ended = isinstance(reader, ContentReader)
                amounts = with_amounts(rows[number][1] or of_ids, recipe, first, last, ended=ended)
                found, padded = [*found, *amounts], padded + padding(amounts, rows[number][0], last - first)
        before += reader.info.sequences
    return found, padded


def _without_lead(source: Source, axis: TokenReader, notes: list[str], *, every_end: bool) -> TokenReader:
    """Return the contents of a source that begin behind its lead."""
    if source.bos_id is None or source.format.is_computed:
        return axis
    found, noted = without_leads(axis, source.bos_id, source.paths[0], each=every_end)
    notes += [f"{source.paths[0]}: {note}" for note in noted if note not in source.notes]
    return found
