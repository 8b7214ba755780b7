"""Make the result of a conversion, or of a repeated one whose destination is complete already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from tokfmt.core.errors import Loss
from tokfmt.core.place import LocalPlace, place_of
from tokfmt.core.tokenizer_ids import TokenizerIds
from tokfmt.model.batch import Counts
from tokfmt.ops.convert.notes import Notes
from tokfmt.ops.convert.request import Conversion
from tokfmt.ops.convert.resolve import NO_LEAD, Resolved
from tokfmt.ops.convert.resume import Facts, digest_of, finished, finished_in_stores
from tokfmt.ops.convert.write import PortionCounts, Written
from tokfmt.ops.source.stored import unknown_id

_LISTED = 16  # losses of one name that the result lists


_NO_LEAD: dict[str, object] = {"bos_id": None, "stored": None}


def result_of(resolved: Resolved, written: Written, notes: Notes) -> Conversion:
    """Return the result of a conversion, with the notes so far.

    Raises:
        TokenizerMismatchError: The destination has an ID that the tokenizer in use does not have.
    """
    request, arrangement, destination = resolved.request, resolved.request.arrangement, written.destination
    counts, separator = written.portions, resolved.separator
    made, mixed = _made_by(resolved, counts)
    sequences, tokens = (total_of(one.sequences for one in counts), total_of(one.tokens for one in counts))
    if counts and request.task is None and sequences == 0:
        why = "the sources contain no sequences"
        if request.select is not None:
            why = f"--select {request.select} takes none of the sequences of the sources"
        notes.add(f"the dataset is empty: {why}")
    lost = [loss for source in resolved.sources for loss in source.reader.info.lost]
    losses, lost = dict(written.losses), [*lost, *(loss for one in counts for loss in one.lost)]
    if lost:
        losses = _with(losses, lost)
    if mixed:
        losses["tokenizers"] = mixed
    if others := [note for source in resolved.sources for note in source.left_out]:
        losses["other-files"] = "; ".join(others)
    if arrangement.shares is not None and not arrangement.shares.seeded:
        notes.add(f"sequences were dealt to splits by seed {arrangement.shares.seed}; override with --seed N")
    splits: dict[str, dict[str, object]] = {
        one.portion.split: {
            "destination": str(one.portion.destination),
            "sequences": one.sequences,
            "tokens": one.tokens,
            "max_id": one.max_id,
            "separators": one.separators and one.separators._asdict(),
            **({"leads": one.leads._asdict()} if one.leads is not None else {}),
        }
        for one in counts
        if one.portion.split is not None
    }
    lead, leads = _NO_LEAD, None
    if resolved.lead != NO_LEAD:
        leads = _sum_of(one.leads and one.leads._asdict() for one in counts)
        lead = _lead_in(resolved, leads)
    return Conversion(
        destination=str(request.destination),
        format=destination.format.name,
        sources=[
            {"path": notes.named(str(path)), "format": source.format.name}
            for source in resolved.sources
            for path in source.paths
        ],
        sequences=sequences,
        tokens=tokens,
        max_id=max((one.max_id for one in counts if one.max_id is not None), default=None),
        separator={
            "eos_id": separator.eos_id,
            "from": separator.source or None,
            "seen": separator.seen or None,
            "inferred": separator.inferred,
        },
        separators=_sum_of(one.separators and one.separators._asdict() for one in counts),
        lead=dict(lead),
        leads=leads,
        losses=losses,
        notes=list(notes.kept),
        plan={
            "tasks": sum(one.tasks for one in counts),
            "executor": request.executor,
            "jobs": request.jobs,
            "minimum_bytes": None,
            "free_bytes": None,
        },
        verified=request.verify,
        compared=dict(written.compared),
        tokenizer=dict(made) if made is not None else None,
        sample_length=written.destination.traits.sample_length,
        shuffle=arrangement.shuffle,
        splits=splits,
        recipe=None if destination.rows is None else destination.rows.fingerprint,
        labels=None if destination.rows is None else destination.rows.labels_from,
        prepared=list(written.report),
        padded=written.padded,
        partial=[source.partial.facts() for source in resolved.sources if source.partial is not None],
    )


def _with(losses: dict[str, str], lost: Sequence[Loss]) -> dict[str, str]:
    """Return losses, in words by their name, with further ones."""
    found = dict[str, list[str]]()
    for loss in dict.fromkeys(lost):
        if loss.what not in losses.get(loss.name, ""):
            found.setdefault(loss.name, [losses[loss.name]] if loss.name in losses else []).append(loss.what)
    for name, what in found.items():
        more = [f"{len(what) - _LISTED:,} more of this kind"] if len(what) > _LISTED else []
        losses[name] = "; ".join((*what[:_LISTED], *more))
    return losses


def total_of(counts: Iterable[int | None]) -> int | None:
    """Return the sum of counts; None if one of them is not known."""
    known = list(counts)
    return None if None in known else sum(filter(None, known))


def _lead_in(resolved: Resolved, leads: Mapping[str, int] | None) -> dict[str, object]:
    """Return the lead of the destination, or of the sources if it is left out, and where it is stored.

    Args:
        resolved: The conversion.
        leads: What became of leads. If no sequence had or got one, there is none to state.
    """
    lead = resolved.lead
    is_bare = leads is not None and not any(count for name, count in leads.items() if name != "bare")
    if is_bare or resolved.destination.rows is not None or resolved.copies:
        return _NO_LEAD
    return {"bos_id": lead.read[0], "stored": "none"} if lead.id is None else {"bos_id": lead.id, "stored": "before"}


def _sum_of(counts: Iterable[object]) -> dict[str, int] | None:
    """Return the sum of counts of separators or leads by name; None if there are none, or one is something else."""
    found, names = list(counts), set(Counts._fields)
    known = [Counts(**one) for one in found if isinstance(one, dict) and one.keys() == names]
    return reduce(Counts.plus, known)._asdict() if known and len(known) == len(found) else None


def _made_by(resolved: Resolved, counts: Sequence[PortionCounts]) -> tuple[Mapping[str, Any] | None, str]:
    """Return the tokenizer that the manifest may name, and the accepted contradictions in words.

    Raises:
        TokenizerMismatchError: The tokenizer in use does not have the largest ID, and --allow-loss does not accept
            that.
    """
    made, mixed = resolved.made_by
    largest = max((one.max_id for one in counts if one.max_id is not None), default=-1)
    eos_id = resolved.separator.eos_id
    used, source = resolved.tokenizer, resolved.request.source
    if used is not None and used.ids.lacks_largest(largest, eos_id):
        if "tokenizers" not in source.allow_loss:
            path = place_of(source.paths[0]) if len(source.paths) == 1 else resolved.request.destination
            raise unknown_id(path, used.name, used.ids, largest)
        return None, "; ".join(filter(None, (mixed, f"{used.name} does not have the ID {largest:,}")))
    ids = None if made is None else TokenizerIds.stated(made)
    if made is None or ids is None or not ids.lacks_largest(largest, eos_id):
        return made, mixed
    return None, f"{made.get('name')} does not have the ID {largest:,}"


def finished_before(resolved: Resolved, facts: Facts, notes: Notes) -> Conversion | None:
    """Return the result of an earlier run with --resume of the same request; None if there is something to do."""
    request, destination = resolved.request, resolved.destination
    local = [path for path in destination.paths if isinstance(path, LocalPlace)]
    if local:
        found = finished(local, destination.format, digest_of(facts), resolved.files, verified=request.verify)
    else:
        found = finished_in_stores(destination.paths, destination.format, facts, verified=request.verify)
    if not found:
        return None
    contents = [manifest.content for manifest in found]
    notes.add("complete already: an earlier run of the same request has written it, and nothing has changed since")
    largest = [content["max_id"] for content in contents if content.get("max_id") is not None]
    written = Written(destination, [], dict(contents[0].get("losses", {})), {})
    return replace(
        result_of(resolved, written, notes),
        sequences=total_of(content.get("sequences") for content in contents),
        tokens=total_of(content.get("tokens") for content in contents),
        max_id=max(largest, default=None),
        separator={
            "eos_id": contents[0].get("eos_id"),
            "from": contents[0].get("eos_from"),
            "seen": None,
            "inferred": False,
        },
        separators=_sum_of(content.get("separators") for content in contents),
        leads=_sum_of(content.get("leads") for content in contents),
        splits={name: split for content in contents for name, split in content.get("splits", {}).items()},
        verified=request.verify,
    )
