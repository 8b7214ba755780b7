"""All sources of a conversion as one token axis: records are tokenized or gathered first, a selection is cut out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tokfmt.core.reader import TokenReader
from tokfmt.core.records import RecordReader, SkippedRecords
from tokfmt.core.text_format import printable
from tokfmt.ops.source.endings import Look
from tokfmt.ops.source.ingest import encoder_for, encoder_of, ingest
from tokfmt.ops.source.open import text_recipe_of
from tokfmt.ops.source.request import parse_selection
from tokfmt.ops.source.stored import Source, paths_of
from tokfmt.run.execute import Progress
from tokfmt.run.plan import Workers
from tokfmt.text.ingest import Unread
from tokfmt.views.select import Concat, Slice
from tokfmt.views.view import WithoutTrailing

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle


class Reading(NamedTuple):
    """All sources as one token axis.

    Attributes:
        axis: Without separators.
        asides: What each source of records left out.
        encoded: False: it is refused anyway for what was left out, and the rest of the text was only looked at.
        notes: On separators that were there already, and quotas that documents do not fill.
        report: What each source of a recipe gives; see `ops.prepare.report`.
        counts: Of each source of records: itself, how many of its records were read, and how many were selected (None:
            all of them).
        made: Recipes of text, each with the reader of what was made of it.
        padded: Positions that hold padding in samples of recipes.
    """

    axis: TokenReader
    asides: list[tuple[Source, SkippedRecords]]
    encoded: bool = True
    notes: tuple[str, ...] = ()
    report: Sequence[Mapping[str, Any]] = ()
    counts: Sequence[tuple[Source, int, int | None]] = ()
    made: Sequence[Source] = ()
    padded: int = 0


def _never(source: Source, aside: SkippedRecords) -> bool:  # noqa: ARG001
    return False


def token_axis(
    sources: Sequence[Source],
    tokenizer: TokenizerHandle | None,
    selection: str | None,
    workers: Workers,
    progress: Progress,
    refused: Callable[[Source, SkippedRecords], bool] = _never,
    *,
    stored_eos: int | None = None,
    rejects: Path | None = None,
) -> Reading:
    """All sources as one token axis without separators.

    Args:
        tokenizer: For text.
        selection: Sequence numbers `A:B`, or None.
        refused: Whether what a source leaves out will be refused; text is no longer encoded then.
        stored_eos: The separator that the target stores after each sequence: not a second time where it is already.
        rejects: A file for what filters of recipes leave out.
    """
    readers: list[TokenReader] = []
    asides: list[tuple[Source, SkippedRecords]] = []
    encoded, notes, rows = True, list[str](), dict[int, tuple[object, list[Any]]]()
    counts, made = list[tuple[Source, int, int | None]](), list[Source]()
    for number, source in enumerate(sources):
        if not isinstance(source.reader, RecordReader):
            rows[number] = (source.reader, [])
            readers.append(_not_twice(source.reader, stored_eos, source.paths[0], notes))
            continue
        if (draft := text_recipe_of(source)) is not None:
            from tokfmt.ops.prepare.prepare import prepared

            done = prepared(draft, encoder_of(draft, tokenizer), workers, progress, number, rejects)
            readers.append(done.reader)
            asides += done.asides
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
            source.reader, encoder, workers, first=first, last=last, name=f"source-{number}",
            progress=lambda shard: progress.advance(shard.size),
            refused=partial(refused, source),
        )  # fmt: skip
        asides.append((source, shards.aside))
        counts.append((source, shards.info.sequences, None if last is None else last - first))
        if shards.aside.blank:
            progress.note(f"{printable(source.paths[0])}: blank lines, which are no documents: {shards.aside.blank:,}")
        encoded = encoded and not refused(source, shards.aside)
        readers.append(_not_twice(shards, stored_eos, source.paths[0], notes))
    axis = readers[0] if len(readers) == 1 else Concat(readers)
    chosen = (0, axis.info.sequences)
    if selection is not None:
        chosen = parse_selection(selection, axis.info.sequences, paths_of(sources))
        axis = Slice(axis, *chosen)
    kept = encoded or workers.journal.keeps
    told = kept and workers.share is None and any(source.format.computed for source in sources)
    report, padded = _report(sources, readers, rows, chosen) if told else ([], 0)
    return Reading(axis, asides, kept, tuple(notes), report, counts, made, padded)


def _report(
    sources: Sequence[Source],
    readers: Sequence[TokenReader],
    rows: Mapping[int, tuple[object, list[Any]]],
    chosen: tuple[int, int],
) -> tuple[list[Mapping[str, Any]], int]:
    """What became of the sources of each recipe, and how many positions of its samples hold padding.

    Args:
        chosen: The range of all sequences that is taken.
    """
    found, padded, before = list[Mapping[str, Any]](), 0, 0
    for number, (source, reader) in enumerate(zip(sources, readers, strict=True)):
        if source.format.computed and number in rows:
            from tokfmt.ops.prepare.report import padding, rows_of_ids, with_amounts

            recipe, of_ids = rows_of_ids(rows[number][0])
            if recipe is not None:
                first, last = (min(max(0, k - before), recipe.info.sequences) for k in chosen)
                ended = isinstance(reader, WithoutTrailing)
                told = with_amounts(rows[number][1] or of_ids, recipe, first, last, ended=ended)
                found, padded = [*found, *told], padded + padding(told, rows[number][0], last - first)
        before += reader.info.sequences
    return found, padded


def _not_twice(axis: TokenReader, eos_id: int | None, path: Path, notes: list[str]) -> TokenReader:
    """An axis without the separators that all its sequences end with already: rows as others pack them.

    Where some do, and where they stand inside, they are content: a writer that cannot carry that refuses it.
    """
    if eos_id is None or eos_id in (axis.info.eos_id, axis.info.free_of):
        return axis
    ends = Look(axis).ids
    if ends is None or eos_id not in ends:
        return axis
    if len(ends) == 1:
        notes.append(f"{path}: its sequences end with the separator {eos_id} already; they are not given a second one")
        return WithoutTrailing(axis, eos_id, str(path))
    notes.append(f"{path}: some of its sequences end with {eos_id} already, and are given another one as separator")
    return axis
