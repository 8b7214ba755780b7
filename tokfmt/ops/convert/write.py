"""Stage 3 of a conversion, Prepared to Written: arrange the axis, write each portion, and read it back if asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import Loss, TokenRangeError
from tokfmt.core.format import Receipt, TokenWriter
from tokfmt.core.reader import Separators, TokenReader
from tokfmt.core.text_format import printable
from tokfmt.model.batch import LEAD, Counts, Target
from tokfmt.model.readers import LaidReader
from tokfmt.ops.convert.arrangement import SplitTarget, arranged
from tokfmt.ops.convert.destination import Destination
from tokfmt.ops.convert.losses import Content
from tokfmt.ops.convert.notes import Notes
from tokfmt.ops.convert.prepare import Prepared
from tokfmt.ops.convert.request import Request
from tokfmt.ops.convert.resolve import NO_LEAD, Resolved
from tokfmt.ops.convert.separators import count_beside, stored_axis
from tokfmt.ops.convert.workplace import Workplace
from tokfmt.ops.source.request import option_names
from tokfmt.run.execute import Progress
from tokfmt.run.plan import Task, Workers, plan, run

_KEPT, _SPREAD = 1 << 20, 64  # a region of a run that keeps its work has at least 2^20 tokens, or 1/64 of the axis


@dataclass(frozen=True, slots=True)
class PortionCounts:
    """The numbers of one portion that was written, or that a dry run would write.

    Attributes:
        portion: The portion.
        sequences: Number of sequences; None if it is not known yet.
        tokens: Number of tokens without separators; None if it is not known yet, or if text is copied.
        max_id: Largest token ID written; None if it is not known.
        tasks: Number of regions that were written.
        minimum_bytes: Minimum size of the portion in bytes; see `TokenWriter.minimum_bytes`. None if that is not known.
        passes: How often a run reads the tokens of the portion.
        lost: What the writer lost because the user accepted it; see `TokenWriter.lost`.
        separators: What became of the separators of its sequences; None before it is written, and if it holds lines, or
            samples of a recipe as they are.
        leads: What became of their leads; None as well if neither the sources nor the portion have a lead.
    """

    portion: SplitTarget
    sequences: int | None
    tokens: int | None
    max_id: int | None = None
    tasks: int = 0
    minimum_bytes: int | None = None
    passes: int = 1
    lost: Sequence[Loss] = ()
    separators: Counts | None = None
    leads: Counts | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """A conversion whose destinations are built but not visible yet. For a dry run they are not built.

    Attributes:
        destination: The path, format and options of the destination.
        portions: The numbers of each portion.
        losses: The losses that were accepted, in words, by their --allow-loss name.
        compared: Numbers of what was read back and compared.
        report: What each source of a recipe gives; see `tokfmt.ops.prepare.report`.
        padded: Positions of samples that hold padding.
        ledger: "unit", and what `provenance.write_rows` returns; None without --ledger.
    """

    destination: Destination
    portions: Sequence[PortionCounts]
    losses: Mapping[str, str]
    compared: Mapping[str, int]
    report: Sequence[Mapping[str, Any]] = ()
    padded: int = 0
    ledger: Mapping[str, Any] | None = None


def write(resolved: Resolved, prepared: Prepared, place: Workplace, workers: Workers, notes: Notes) -> Written:
    """Write each portion, and read it back if the request says so.

    Raises:
        TokfmtError: Writing or the comparison failed. Nothing was published.
    """
    request, content, destination = resolved.request, prepared.content, prepared.destination
    if content is None:
        return _share_written(prepared, workers)
    compared: Counter[str] = Counter()
    counts = []
    for portion, writer in zip(destination.portions, prepared.writers, strict=True):
        counts.append(_write_portion(resolved, prepared, content, portion, writer, place, workers, notes, compared))
    ledger = None
    if request.ledger and request.task is None:
        from tokfmt.ops.provenance import write_rows  # it imports all of tokfmt.recipes

        rows = destination.rows
        opened = rows or resolved.sources[0].reader
        facts = write_rows(place.first.scratch, opened, prepared.axis, content.reader, prepared.losses, notes.progress)
        ledger = {"unit": "sequences" if rows is None else "samples", **facts}
    content.reader.close()
    return Written(
        destination,
        counts,
        prepared.losses,
        compared,
        prepared.report,
        prepared.padded,
        ledger,
    )


def write_regions(
    stored: TokenReader,
    writer: TokenWriter,
    portion: SplitTarget,
    size: int,
    workers: Workers,
    progress: Progress,
    task: Task | None = None,
) -> PortionCounts:
    """Write an axis in regions of about `size` tokens; with `task`, only the regions of that task."""
    job = plan(stored, writer, size)
    lengths = {region.index: len(region.tokens) for region in job.regions}
    progress.phase(" ".join(filter(None, ("writing", portion.split))), sum(lengths.values()), "tokens")
    top, detailed = -1, list[Receipt]()
    for receipt in run(job, workers, task, portion.split or ""):
        top = max(top, receipt.max_id)
        detailed += [receipt] if receipt.details is not None else []
        progress.advance(lengths[receipt.region])
    largest, lost = top if top >= 0 else None, writer.lost(detailed) if detailed else ()
    return PortionCounts(portion, stored.info.sequences, stored.info.tokens, largest, len(job.regions), lost=lost)


def region_size(request: Request, axis: TokenReader) -> int:
    """Return the tokens per region; fewer if the work is kept, so that an interruption loses little of it."""
    if request.kept != "resume":
        return request.region
    return min(request.region, max(_KEPT, axis.info.tokens // _SPREAD))


def _share_written(prepared: Prepared, workers: Workers) -> Written:
    """Record in the journal that this task has tokenized its part of the text; --finish joins all parts."""
    workers.journal.sync()
    if workers.share is not None:
        workers.journal.add("task", workers.share.task.index, None)
    counts = PortionCounts(prepared.destination.portions[0], None, None)
    return Written(prepared.destination, [counts], prepared.losses, {})


def _write_portion(
    resolved: Resolved,
    prepared: Prepared,
    content: Content,
    portion: SplitTarget,
    writer: TokenWriter,
    place: Workplace,
    workers: Workers,
    notes: Notes,
    compared: Counter[str],
) -> PortionCounts:
    """Write one portion; if it is read back, add the numbers to `compared`."""
    request, arrangement, traits = resolved.request, resolved.request.arrangement, prepared.destination.traits
    path, workers = place.of(portion, workers)
    with_masks = traits.keeps_masks and "loss-mask" not in content.losses
    with arranged(
        content.reader, arrangement, portion, prepared.target, workers, notes.progress, marked=with_masks
    ) as view:
        carried = content.carried(view)
        stored = stored_axis(carried.reader, prepared.target)
        if arrangement.shares is not None:
            place.need_room(portion, writer, stored)
        size = region_size(request, carried.reader)
        try:
            counts = write_regions(stored, writer, portion, size, workers, notes.progress, request.task)
        except TokenRangeError as error:
            other = not arrangement.plain or request.select is not None
            raise carried.located(error, stored, request.source.paths, other) from error
        if request.verify and request.task is None:
            compared.update(_verify(prepared, carried, path, portion, workers, notes.progress))
        for note in writer.notes(stored):
            notes.add(f"{printable(portion.destination.name)}: {note}")
    about = carried.reader.info
    ends = about.sequences if prepared.closes and about.separators is Separators.TRAILING else 0
    counts = replace(counts, tokens=about.tokens - ends)
    return _with_ledger(resolved, prepared, content, counts, stored)


def _with_ledger(
    resolved: Resolved, prepared: Prepared, content: Content, counts: PortionCounts, stored: TokenReader
) -> PortionCounts:
    """Return the numbers of a portion with what became of separators and leads, unless it holds samples as they are."""
    if prepared.destination.rows is not None or counts.sequences is None:
        return counts
    shares, number = resolved.request.arrangement.shares, counts.portion.number

    def chosen(first: int, last: int, lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
        found = lengths > 0 if "empty-sequences" in content.losses else np.ones(last - first, np.bool_)
        return found if shares is None else found & (shares.split_of(first, last) == number)

    to = (
        Target(prepared.target.eos_id, only_closed=True)
        if prepared.closes
        else stored.target
        if isinstance(stored, LaidReader)
        else Target()
    )
    found, leads = count_beside(prepared.axis, chosen, counts.sequences, to), None
    if resolved.lead != NO_LEAD:
        leads = count_beside(prepared.axis, chosen, counts.sequences, to, LEAD)
    return replace(counts, separators=found, leads=leads)


def _verify(
    prepared: Prepared,
    content: Content,
    path: Path,
    portion: SplitTarget,
    workers: Workers,
    progress: Progress,
) -> Mapping[str, int]:
    """Read a portion back, compare it, and return the numbers of what was compared."""
    from tokfmt.ops.convert.verify import verify_tokens

    destination, target = prepared.destination, prepared.target
    format_ = destination.format
    shared = option_names(format_.read_options) & {"split", "seq_len", "width", "text_field", "ids_field"}
    usual, written = asdict(format_.write_options()), asdict(portion.options)
    options = {name: written[name] for name in shared & written.keys() if written[name] != usual[name]}
    if "width" in shared and isinstance(written.get("width"), int):
        options["width"] = written["width"]  # even if it is the default, because the reader's default infers the width
    if destination.rows is not None or content.segmented(destination.traits):
        options["view"] = "samples"
    return verify_tokens(content, path, format_, target, options, workers, progress)
