"""Write the portions of a conversion region by region, read each back if asked, and count what was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.commands.convert.arrangement import Shares, SplitTarget, arranged, count_beside, stored_axis
from tokfmt.commands.convert.destination import NO_LEAD, Destination
from tokfmt.commands.convert.inputs import Inputs
from tokfmt.commands.convert.losses import Content
from tokfmt.commands.convert.publish import Workplace
from tokfmt.commands.convert.report import PortionCounts
from tokfmt.commands.convert.request import Notes, Request
from tokfmt.core.format import Receipt, Target, TokenWriter
from tokfmt.core.reader import Separators, TokenReader
from tokfmt.errors import TokenRangeError
from tokfmt.files.journal import Task
from tokfmt.model import Boundaries
from tokfmt.model.batch import LEAD
from tokfmt.model.readers import LaidReader
from tokfmt.run.plan import Workers, plan, run
from tokfmt.run.progress import Progress
from tokfmt.source.manifest import needed_to_read
from tokfmt.wording import printable

_KEPT, _SPREAD = 1 << 20, 64  # a region of a run that keeps its work has at least 2^20 tokens, or 1/64 of the axis


def write_portion(
    request: Request,
    destination: Destination,
    content: Content,
    target: Target,
    portion: SplitTarget,
    writer: TokenWriter,
    place: Workplace,
    workers: Workers,
    notes: Notes,
) -> PortionCounts:
    """Write one portion in its order, read it back if the request says so, and return its numbers."""
    arrangement, traits = request.arrangement, destination.traits
    path, workers = place.of(portion, workers)
    with_masks = traits.keeps_masks and "loss-mask" not in content.losses
    with arranged(content.reader, arrangement, portion, target, workers, notes, marked=with_masks) as view:
        content = content.of_view(view)
        stored = stored_axis(content.reader, target)
        if arrangement.shares is not None:
            place.need_room(portion, writer, stored)
        size = region_size(request, content.reader)
        try:
            counts = write_regions(stored, writer, portion, size, workers, notes, request.task)
        except TokenRangeError as error:
            renumbered = not arrangement.plain or request.select is not None
            raise content.located(error, stored, request.source.paths, renumbered) from error
        if request.verify and request.task is None:
            compared = _verify(destination, content, target, path, portion, workers, notes)
            counts = replace(counts, compared=compared)
        for note in writer.notes(stored):
            notes.add(f"{printable(portion.destination.name)}: {note}")
    info = content.reader.info
    ended = content.closes and target.eos_id is not None and info.separators is Separators.TRAILING
    ends = info.sequences if ended else 0
    counts = replace(counts, tokens=info.tokens - ends)
    if destination.rows is not None:  # Samples are stored as they are.
        return counts
    boundaries = Boundaries(target.eos_id, only_closed=True) if content.closes else Boundaries()
    boundaries = stored.target if isinstance(stored, LaidReader) and not content.closes else boundaries
    return _with_separators(counts, content, boundaries, arrangement.shares, has_lead=destination.lead != NO_LEAD)


def _with_separators(
    counts: PortionCounts, content: Content, boundaries: Boundaries, shares: Shares | None, *, has_lead: bool
) -> PortionCounts:
    """Return the numbers of a portion with what became of separators and leads."""
    if counts.sequences is None:
        return counts
    number = counts.portion.number

    def chosen(first: int, last: int, lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
        is_written = lengths > 0 if "empty-sequences" in content.losses else np.ones(last - first, np.bool_)
        return is_written if shares is None else is_written & (shares.split_of(first, last) == number)

    separators = count_beside(content.axis, chosen, counts.sequences, boundaries)
    leads = count_beside(content.axis, chosen, counts.sequences, boundaries, LEAD) if has_lead else None
    return replace(counts, separators=separators, leads=leads)


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
    top, detailed, parts_bytes = -1, list[Receipt](), 0
    for receipt in run(job, workers, task, portion.split or ""):
        top = max(top, receipt.max_id)
        detailed += [receipt] if receipt.details is not None else []
        parts_bytes += receipt.written
        progress.advance(lengths[receipt.region])
    largest, lost = top if top >= 0 else None, writer.lost(detailed) if detailed else ()
    info, tasks = stored.info, len(job.regions)
    counts = PortionCounts(portion, info.sequences, info.tokens, largest, tasks, lost=lost, packed=writer.packed)
    return replace(counts, parts_bytes=parts_bytes) if writer.parts_of(job.regions) else counts


def write_ledger(
    inputs: Inputs, destination: Destination, content: Content, scratch: Path, progress: Progress
) -> Mapping[str, Any]:
    """Write the rows of the ledger of a recipe to scratch, and return their facts; see `Written.ledger`."""
    from tokfmt.mix import write_ledger  # it imports all of tokfmt.mix

    recipe = destination.rows or inputs.sources[0].reader
    facts = write_ledger(scratch, recipe, content.axis, content.reader, content.losses, progress)
    return {"unit": "sequences" if destination.rows is None else "samples", **facts}


def region_size(request: Request, axis: TokenReader) -> int:
    """Return the tokens per region; fewer if the work is kept, so that an interruption loses little of it."""
    if not request.resume or request.in_tasks:
        return request.region
    return min(request.region, max(_KEPT, axis.info.tokens // _SPREAD))


def _verify(
    destination: Destination,
    content: Content,
    target: Target,
    path: Path,
    portion: SplitTarget,
    workers: Workers,
    progress: Progress,
) -> Mapping[str, int]:
    """Read a portion back, compare it, and return the numbers of what was compared."""
    from tokfmt.commands.convert.verify import verify_tokens

    format_ = destination.format
    written = asdict(portion.options)
    options = needed_to_read(format_, written, {"split"})
    if path.is_dir() and written.get("split"):  # A file states no split.
        options["split"] = written["split"]
    if destination.rows is not None or (destination.traits.keeps_boundaries and content.reader.info.is_samples):
        options["view"] = "samples"
    return verify_tokens(content, path, format_, target, options, workers, progress)
