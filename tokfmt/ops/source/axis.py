"""Sources as one token axis: of records the ids that are made of them, of anything else what is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tokfmt.core.axis import TokenReader
from tokfmt.core.records import Aside, RecordReader
from tokfmt.core.text_format import printable
from tokfmt.ops.source.opened import Source, ends_of
from tokfmt.ops.source.request import parse_selection
from tokfmt.run.execute import Progress
from tokfmt.run.plan import Workers
from tokfmt.views.concat import Concat
from tokfmt.views.select import Slice
from tokfmt.views.view import WithoutTrailing

if TYPE_CHECKING:
    from tokfmt.ops.prepare.draft import Draft
    from tokfmt.text.tokenizer import TokenizerHandle

_TEXTS, _PLACES, _PIECE = 64, 16, 1 << 22  # of a first look


class Reading(NamedTuple):
    """All sources as one token axis.

    Attributes:
        axis: Without separators.
        asides: What each source of records left out.
        encoded: False: it is refused anyway for what was left out, and the rest of the text was only looked at.
        notes: On separators that were there already.
        report: What became of the sources of a recipe of text; see `prepare`.
    """

    axis: TokenReader
    asides: list[tuple[Source, Aside]]
    encoded: bool = True
    notes: tuple[str, ...] = ()
    report: Sequence[Mapping[str, Any]] = ()


def _never(source: Source, aside: Aside) -> bool:  # noqa: ARG001
    return False


def token_axis(
    sources: Sequence[Source],
    tokenizer: TokenizerHandle | None,
    selection: str | None,
    workers: Workers,
    progress: Progress,
    refused: Callable[[Source, Aside], bool] = _never,
    *,
    stored_eos: int | None = None,
    rejects: Path | None = None,
) -> Reading:
    """All sources as one token axis without separators.

    Args:
        sources: In order.
        tokenizer: For text.
        selection: Sequence numbers `A:B`, or None.
        workers: Where to run.
        progress: Told how far it is.
        refused: Whether what a source leaves out will be refused; text is no longer encoded then.
        stored_eos: The separator that the target stores after each sequence: not a second time where it is already.
        rejects: A file for what filters of recipes leave out.
    """
    readers: list[TokenReader] = []
    asides: list[tuple[Source, Aside]] = []
    encoded, notes, report = True, list[str](), list[Mapping[str, Any]]()
    for number, source in enumerate(sources):
        if not isinstance(source.reader, RecordReader):
            readers.append(_not_twice(source.reader, stored_eos, source.paths[0], notes))
            continue
        from tokfmt.ops.source.ingest import encoder_for, encoder_of, ingest  # with all of text
        from tokfmt.text.ingest import Unread

        if source.format.name == "recipe":
            from tokfmt.ops.prepare.prepare import prepared

            draft = cast("Draft", source.reader)  # else it would be no reader of records
            done = prepared(draft, encoder_of(draft, tokenizer), workers, progress, number, rejects)
            readers.append(done.reader)
            asides += done.asides
            report += done.report
            continue
        first, last = 0, None
        if selection is not None and len(sources) == 1:
            first, last = parse_selection(selection, source.reader.count())
            selection = None
        encoder = encoder_for(source.reader, tokenizer, progress) if encoded else Unread()
        shards = ingest(
            source.reader, encoder, workers, first=first, last=last, name=f"source-{number}",
            progress=lambda shard: progress.advance(shard.size),
            refused=partial(refused, source),
        )  # fmt: skip
        asides.append((source, shards.aside))
        if shards.aside.blank:
            progress.note(f"{printable(source.paths[0])}: blank lines, which are no documents: {shards.aside.blank:,}")
        encoded = encoded and not refused(source, shards.aside)
        readers.append(_not_twice(shards, stored_eos, source.paths[0], notes))
    axis = readers[0] if len(readers) == 1 else Concat(readers)
    if selection is not None:
        axis = Slice(axis, *parse_selection(selection, axis.info.sequences))
    return Reading(axis, asides, encoded or workers.journal.keeps, tuple(notes), report)


def _not_twice(axis: TokenReader, eos_id: int | None, path: Path, notes: list[str]) -> TokenReader:
    """An axis without the separators that all its sequences end with already: rows as others pack them.

    Where some do, and where they stand inside, they are content: a writer that cannot carry that refuses it.
    """
    if eos_id is None or eos_id in (axis.info.eos_id, axis.info.free_of):
        return axis
    ends = ends_of(axis)
    if ends is None or eos_id not in ends:
        return axis
    if len(ends) == 1:
        notes.append(f"{path}: its sequences end with the separator {eos_id} already; they are not given a second one")
        return WithoutTrailing(axis, eos_id, str(path))
    notes.append(f"{path}: some of its sequences end with {eos_id} already, and are given another one as separator")
    return axis


def first_look(source: Source) -> tuple[list[str], Aside]:
    """Some texts of a source, from up to sixteen places spread over it, and what was set aside beside them."""
    records, texts, aside = source.reader, list[str](), Aside()
    if isinstance(records, RecordReader):
        blocks = records.blocks(max(_PIECE, records.info.size // _PLACES))
        looked = blocks[:: -(-len(blocks) // _PLACES) or 1]
        for block in looked:
            batch = next(iter(records.texts(block) if records.info.kind == "text" else records.ids(block)), None)
            if batch is not None:
                texts += batch.texts[: max(1, _TEXTS // len(looked))]
                aside += batch.aside
    return texts, aside
