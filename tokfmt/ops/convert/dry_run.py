"""Make the result of --dry-run, which writes nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tokfmt.core.format import Target
from tokfmt.core.place import LocalPlace
from tokfmt.core.reader import TokenReader
from tokfmt.ops.convert.arrangement import SplitTarget, portion_of
from tokfmt.ops.convert.axis import token_axis
from tokfmt.ops.convert.losses import Losses, needs_scan
from tokfmt.ops.convert.notes import Notes
from tokfmt.ops.convert.request import Conversion
from tokfmt.ops.convert.resolve import Resolved
from tokfmt.ops.convert.results import result_of, total_of
from tokfmt.ops.convert.separators import stored_axis
from tokfmt.ops.convert.space import free_bytes, need_room
from tokfmt.ops.convert.write import PortionCounts, Written
from tokfmt.ops.destination import replaced
from tokfmt.run.execute import make_executor
from tokfmt.run.plan import Workers


def dry_run(resolved: Resolved, notes: Notes, opened: int) -> Conversion:
    """Return the result of a conversion as far as it is known before text is tokenized.

    Args:
        resolved: The conversion.
        notes: Receives notes.
        opened: Bytes that were read from stores to resolve it.

    Raises:
        TokfmtError: A run would refuse the conversion.
    """
    destination = resolved.destination
    written = _of_records(resolved) if resolved.holds_records else _of_tokens(resolved, notes)
    result = result_of(resolved, written, notes)
    goes = {str(path): what for path in destination.paths if (what := replaced(path))}
    minimum_bytes = total_of(one.minimum_bytes for one in written.portions)
    built_at = _built_at(resolved, destination.portions[0])
    plan = {**result.plan, "minimum_bytes": minimum_bytes, "free_bytes": free_bytes(built_at)}
    if stored := [identity.size for place, identity in resolved.before.items() if not place.is_local]:
        plan["download"] = _download(stored, max(one.passes for one in written.portions), opened)
    if not destination.path.is_local:
        from tokfmt.core.spool import minimum_requests, spool_parent

        plan["spool"] = str(spool_parent(resolved.request.spool))
        plan["upload"] = {"minimum_bytes": minimum_bytes, "minimum_requests": minimum_requests(minimum_bytes or 0)}
    return replace(result, dry_run=True, verified=False, replaces=goes, plan=plan)


def read_from_stores() -> int:
    """Return the bytes that this process has read of objects, from stores or from the cache."""
    account = sys.modules.get("tokfmt.remote.account")
    found = None if account is None else account.so_far()
    return 0 if found is None else found.read + found.cached


def _download(sizes: Sequence[int], passes: int, opened: int) -> Mapping[str, int]:
    """Return what a run reads from stores: objects, passes, bytes, requests, and the lists that found the objects.

    Args:
        sizes: The size of each object.
        passes: How often a run reads the tokens after the sources are open.
        opened: Bytes that were read to open them. If that is most of the objects, it is another pass.
    """
    from tokfmt.remote import account
    from tokfmt.remote.blocks import LARGEST

    passes += 2 * opened > sum(sizes) > LARGEST
    requests = sum(max(1, -(-size // LARGEST)) for size in sizes)
    return {
        "objects": len(sizes),
        "passes": passes,
        "bytes": passes * sum(sizes),
        "requests": passes * requests,
        "lists": account.so_far().requests["list"],
    }


def _of_records(resolved: Resolved) -> Written:
    """Return portions without counts: records are counted when they are read. If there are none, the counts are 0."""
    count = None if resolved.holds_something else 0
    counts = [PortionCounts(portion, count, count) for portion in resolved.destination.portions]
    return Written(resolved.destination, counts, {}, {})


def _of_tokens(resolved: Resolved, notes: Notes) -> Written:
    destination, target = resolved.destination, resolved.target()
    with make_executor("serial", 1) as executor:
        stored = target.eos_id if destination.traits.needs_eos else None
        workers = Workers(executor, 1, Path())
        reading = token_axis(resolved.read, None, resolved.request.select, workers, notes.progress, stored_eos=stored)
    for note in reading.notes:
        notes.add(note)
    accepted = Losses([*resolved.losses, *resolved.lead.lost]).accepted(resolved.request)
    counts = [_would_write(resolved, reading.axis, portion, target) for portion in destination.portions]
    return Written(destination, counts, accepted, {}, reading.report, reading.padded)


def _built_at(resolved: Resolved, portion: SplitTarget) -> Path:
    """Return the path where a portion would be built: the destination, or a path in the spool."""
    place = portion.destination
    return place if isinstance(place, LocalPlace) else resolved.stagings[place].path


def _would_write(resolved: Resolved, axis: TokenReader, portion: SplitTarget, target: Target) -> PortionCounts:
    view = portion_of(axis, resolved.request.arrangement, portion)
    stored = stored_axis(view, target)
    built_at = _built_at(resolved, portion)
    writer = resolved.destination.writer(built_at, portion, target)
    minimum_bytes = writer.minimum_bytes(view if "empty-sequences" in target.allow_loss else stored)
    need_room(portion.destination, built_at, minimum_bytes)
    info, tasks = view.info, len(writer.regions(stored, resolved.request.region))
    passes = 1 + needs_scan(axis, writer, resolved.destination.traits, target)
    return PortionCounts(
        portion, info.sequences, info.tokens, info.max_id, tasks, minimum_bytes=minimum_bytes, passes=passes
    )
