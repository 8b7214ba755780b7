"""Make the result of a conversion, of a dry run, or of a repeated run, and the manifests that state it.

`source.manifest` describes the keys of a manifest.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any, cast

from tokfmt import registry
from tokfmt.base.version import __version__
from tokfmt.commands.convert.arrangement import SplitTarget, deal, portion_of, stored_axis
from tokfmt.commands.convert.destination import NO_LEAD, Destination
from tokfmt.commands.convert.gather import gather
from tokfmt.commands.convert.inputs import Inputs
from tokfmt.commands.convert.losses import Losses, needs_scan
from tokfmt.commands.convert.request import (
    Became,
    Conversion,
    ConvertedLead,
    Estimate,
    Notes,
    Plan,
    PreparedSource,
    Request,
    SplitCounts,
)
from tokfmt.commands.convert.resume import Facts, digest_of, finished, finished_in_stores
from tokfmt.commands.guards import disk_of, free_bytes, need_room, replaced
from tokfmt.core.reader import TokenReader
from tokfmt.core.tokenizer_ids import TokenizerIds
from tokfmt.errors import Loss
from tokfmt.files.place import LocalPlace, Place, place_of
from tokfmt.files.publisher import Publisher
from tokfmt.model.batch import Counts
from tokfmt.run.execute import make_executor
from tokfmt.run.plan import Workers
from tokfmt.run.progress import Progress
from tokfmt.source.content import Manifest
from tokfmt.source.manifest import (
    LITTLE,
    SCHEMA,
    checksum_contradictions,
    combined,
    extent,
    fingerprint,
    measured,
    written_files,
)
from tokfmt.source.request import SourceFiles
from tokfmt.source.stored import records_of, unknown_id
from tokfmt.wording import human_bytes, percent, printable

_LISTED = 16  # losses of one name that the result lists
_LISTED_SOURCES = 20_000  # sources listed one by one: tokfmt reads a manifest of at most 16 MiB
_NO_LEAD: ConvertedLead = {"bos_id": None, "stored": None}


@dataclass(frozen=True, slots=True)
class PortionCounts:
    """The numbers of one portion that was written, or that a dry run would write."""

    portion: SplitTarget
    sequences: int | None
    tokens: int | None  # without separators; None also if text is copied
    max_id: int | None = None  # largest token ID written; None if it is not known
    tasks: int = 0  # regions that were written
    minimum_bytes: int | None = None  # see `TokenWriter.minimum_bytes`
    passes: int = 1  # how often a run reads the tokens of the portion
    lost: Sequence[Loss] = ()  # accepted by the user; see `TokenWriter.lost`
    # None before it is written, and if it holds lines, or samples of a recipe as they are
    separators: Counts | None = None
    leads: Counts | None = None  # None as well if neither the sources nor the portion have a lead
    compared: Mapping[str, int] = field(default_factory=dict)  # numbers of what was read back and compared
    packed: bool = False  # rows hold several documents or padding; see `TokenWriter.packed`
    parts_bytes: int = 0  # of intermediate files beside the destination that are there until it is complete


@dataclass(frozen=True, slots=True)
class Written:
    """What was built and is not visible yet, or what a dry run would build."""

    portions: Sequence[PortionCounts]
    losses: Mapping[str, str]  # in words, by their --allow-loss name
    report: Sequence[Mapping[str, Any]] = ()  # what each source of a recipe gives; see `tokfmt.mix.report`
    padded: int = 0  # positions of samples that hold padding
    ledger: Mapping[str, Any] | None = None  # "unit", and what `mix.write_ledger` returns


def result_of(request: Request, inputs: Inputs, destination: Destination, written: Written, notes: Notes) -> Conversion:
    """Return the result of a conversion, with the notes so far."""
    arrangement, counts, separator = request.arrangement, written.portions, destination.separator
    made, mixed = _made_by(request, inputs, separator.eos_id, counts)
    sequences, tokens = (total_of(count.sequences for count in counts), total_of(count.tokens for count in counts))
    if counts and request.task is None and sequences == 0:
        why = "the sources contain no sequences"
        if request.select is not None:
            why = f"--select {request.select} takes none of the sequences of the sources"
        notes.add(f"the dataset is empty: {why}")
    lost = [loss for source in inputs.sources for loss in source.reader.info.lost]
    losses, lost = dict(written.losses), [*lost, *(loss for count in counts for loss in count.lost)]
    if lost:
        losses = _with(losses, lost)
    if mixed:
        losses["tokenizers"] = mixed
    if others := [note for source in inputs.sources for note in source.left_out]:
        losses["other-files"] = "; ".join(others)
    if arrangement.shares is not None and not arrangement.shares.seeded:
        notes.add(f"sequences were dealt to splits by seed {arrangement.shares.seed}; override with --seed N")
    if arrangement.shares is not None and arrangement.shares.by == "content" and sequences:
        parts = ", ".join(f"{count.portion.split} {percent((count.sequences or 0) / sequences)}" for count in counts)
        notes.add(f"equal sequences are in the same split, which has of all sequences: {parts}")
    compared = Counter[str]()
    for one in counts:
        compared.update(one.compared)
    lead, leads = _NO_LEAD, None
    if destination.lead != NO_LEAD:
        leads = _sum_of(count.leads and count.leads._asdict() for count in counts)
        lead = _lead_in(destination, leads)
    return Conversion(
        destination=str(request.destination),
        format=destination.format.name,
        sources=[
            {"path": notes.named(str(path)), "format": source.format.name}
            for source in inputs.sources
            for path in source.paths
        ],
        sequences=sequences,
        tokens=tokens,
        max_id=max((count.max_id for count in counts if count.max_id is not None), default=None),
        separator={
            "eos_id": separator.eos_id,
            "from": separator.source or None,
            "seen": separator.seen or None,
            "inferred": separator.inferred,
        },
        separators=_sum_of(count.separators and count.separators._asdict() for count in counts),
        lead=lead,
        leads=leads,
        losses=losses,
        notes=list(notes.kept),
        plan={
            "tasks": sum(count.tasks for count in counts),
            "executor": request.executor,
            "jobs": request.jobs,
            "minimum_bytes": None,
            "free_bytes": None,
        },
        verified=request.verify,
        compared=dict(compared),
        tokenizer=dict(made) if made is not None else None,
        sample_length=destination.traits.sample_length,
        shuffle=arrangement.shuffle,
        splits={} if arrangement.shares is None else _splits_of(counts),
        recipe=None if destination.rows is None else destination.rows.fingerprint,
        labels=None if destination.rows is None else destination.rows.labels_from,
        prepared=cast("list[PreparedSource]", list(written.report)),
        padded=written.padded,
        partial=[source.partial.facts() for source in inputs.sources if source.partial is not None],
    )


def _splits_of(counts: Sequence[PortionCounts]) -> dict[str, SplitCounts]:
    """Return the destination, the counts and the largest ID of each split, by its name."""
    return {
        str(portion.portion.split): {
            "destination": str(portion.portion.destination),
            "sequences": portion.sequences,
            "tokens": portion.tokens,
            "max_id": portion.max_id,
            "separators": portion.separators and _became(portion.separators),
            "leads": portion.leads and _became(portion.leads),
        }
        for portion in counts
    }


def _with(losses: dict[str, str], lost: Sequence[Loss]) -> dict[str, str]:
    """Return losses, in words by their name, with further ones."""
    reasons = dict[str, list[str]]()
    for loss in dict.fromkeys(lost):
        if loss.what not in losses.get(loss.name, ""):
            reasons.setdefault(loss.name, [losses[loss.name]] if loss.name in losses else []).append(loss.what)
    for name, reason in reasons.items():
        more = [f"{len(reason) - _LISTED:,} more of this kind"] if len(reason) > _LISTED else []
        losses[name] = "; ".join((*reason[:_LISTED], *more))
    return losses


def total_of(counts: Iterable[int | None]) -> int | None:
    """Return the sum of counts; None if one of them is not known."""
    numbers = list(counts)
    return None if None in numbers else sum(filter(None, numbers))


def _lead_in(destination: Destination, leads: Became | None) -> ConvertedLead:
    """Return the lead of the destination, or of the sources if it is left out, and where it is stored."""
    lead = destination.lead
    is_bare = leads is not None and not any(count for name, count in leads.items() if name != "bare")
    if is_bare or destination.rows is not None or destination.copies_lines:
        return _NO_LEAD
    return {"bos_id": lead.read[0], "stored": "none"} if lead.id is None else {"bos_id": lead.id, "stored": "before"}


def _sum_of(counts: Iterable[object]) -> Became | None:
    """Return the sum of counts of separators or leads by name; None if there are none, or one is something else."""
    counts_of_all, names = list(counts), set(Counts._fields)
    stated = [Counts(**one) for one in counts_of_all if isinstance(one, dict) and one.keys() == names]
    return _became(reduce(Counts.plus, stated)) if stated and len(stated) == len(counts_of_all) else None


def _became(counts: Counts) -> Became:
    return cast("Became", counts._asdict())


def _made_by(
    request: Request, inputs: Inputs, eos_id: int | None, counts: Sequence[PortionCounts]
) -> tuple[Mapping[str, Any] | None, str]:
    """Return the tokenizer that the manifest may name, and the accepted contradictions in words."""
    made, mixed = inputs.made_by
    largest = max((count.max_id for count in counts if count.max_id is not None), default=-1)
    used, source = inputs.tokenizer, request.source
    if used is not None and used.ids.lacks_largest(largest, eos_id):
        if "tokenizers" not in source.allow_loss:
            path = place_of(source.paths[0]) if len(source.paths) == 1 else request.destination
            raise unknown_id(path, used.name, used.ids, largest)
        return None, "; ".join(filter(None, (mixed, f"{used.name} does not have the ID {largest:,}")))
    ids = None if made is None else TokenizerIds.stated(made)
    if made is None or ids is None or not ids.lacks_largest(largest, eos_id):
        return made, mixed
    return None, f"{made.get('name')} does not have the ID {largest:,}"


def finished_before(
    request: Request, inputs: Inputs, destination: Destination, facts: Facts, notes: Notes
) -> Conversion | None:
    """Return the result of an earlier run with --resume of the same request; None if there is something to do."""
    local = [path for path in destination.paths if isinstance(path, LocalPlace)]
    if local:
        published = finished(local, destination.format, digest_of(facts), inputs.files, verified=request.verify)
    else:
        published = finished_in_stores(destination.paths, destination.format, facts, verified=request.verify)
    if not published:
        return None
    contents = [manifest.content for manifest in published]
    notes.add("complete already: an earlier run of the same request has written it, and nothing has changed since")
    largest = [content["max_id"] for content in contents if content.get("max_id") is not None]
    written = Written([], dict(contents[0].get("losses", {})))
    return replace(
        result_of(request, inputs, destination, written, notes),
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


def dry_run(
    request: Request,
    inputs: Inputs,
    destination: Destination,
    of_sources: Sequence[Loss],
    publishers: Mapping[Place, Publisher],
    notes: Notes,
    opened: int,
    estimate: Callable[[Request, Inputs, TokenReader | None], Estimate | str],
) -> Conversion:
    """Return the result of a conversion as far as it is known before text is tokenized. `opened` is the bytes that were
    read from stores to open the sources. The last argument of `estimate` is all sequences of sources of token IDs, else
    None.
    """
    built_at = [
        portion.destination if isinstance(portion.destination, LocalPlace) else publishers[portion.destination].path
        for portion in destination.portions
    ]
    axis = None
    if records_of(inputs.read):  # Records are counted when they are read. If there are none, the counts are 0.
        count = None if inputs.holds_something else 0
        written = Written([PortionCounts(portion, count, count) for portion in destination.portions], {})
    else:
        written, axis = _would_write(request, inputs, destination, of_sources, built_at, notes)
    taken = "" if destination.copies_lines or destination.packed is not None else estimate(request, inputs, axis)
    if isinstance(taken, str) and taken:
        notes.add(f"no estimate: {taken}")
    elif not isinstance(taken, str) and destination.path.is_local:
        for short in _lacking_space(taken, built_at[0]):
            notes.add(short)
    result = result_of(request, inputs, destination, written, notes)
    goes = {str(path): replacement for path in destination.paths if (replacement := replaced(path))}
    minimum_bytes = total_of(one.minimum_bytes for one in written.portions)
    plan: Plan = {**result.plan, "minimum_bytes": minimum_bytes, "free_bytes": free_bytes(built_at[0])}
    if not isinstance(taken, str):
        plan["estimate"] = taken
    if stored := [identity.size for place, identity in inputs.before.items() if not place.is_local]:
        plan["download"] = _download(stored, max(one.passes for one in written.portions), opened)
    if not destination.path.is_local:
        from tokfmt.files.spool import minimum_requests, spool_parent

        plan["spool"] = str(spool_parent(request.spool))
        plan["upload"] = {"minimum_bytes": minimum_bytes, "minimum_requests": minimum_requests(minimum_bytes or 0)}
    return replace(result, dry_run=True, verified=False, replaces=goes, plan=plan)


def _lacking_space(taken: Estimate, destination: Path) -> Iterator[str]:
    """Yield a note if the destination and scratch, which are on disk at once, do not fit."""
    needed = dict[tuple[int, int], tuple[Path, int]]()
    home, scratch = destination.absolute().parent, Path(tempfile.gettempdir())
    for place, size in ((home, taken["size_bytes"]), (scratch, taken["scratch_bytes"])):
        if (disk := disk_of(place)) is not None:
            first, before = needed.get((disk.f_fsid, disk.f_blocks), (place, 0))
            needed[disk.f_fsid, disk.f_blocks] = first, before + size
    for place, size in needed.values():
        room = free_bytes(place)
        if room is not None and size > room:
            yield f"needs about {human_bytes(size)} at once in {printable(place)}, and {human_bytes(room)} are free"


def read_from_stores() -> int:
    """Return the bytes that this process has read from stores."""
    account = sys.modules.get("tokfmt.stores.account")
    transfer = None if account is None else account.so_far()
    return 0 if transfer is None else transfer.read


def _download(sizes: Sequence[int], passes: int, opened: int) -> dict[str, int]:
    """Return what a run reads from stores: objects, passes, bytes, requests, and the lists that found the objects."""
    from tokfmt.stores import account
    from tokfmt.stores.blocks import LARGEST

    passes += 2 * opened > sum(sizes) > LARGEST
    requests = sum(max(1, -(-size // LARGEST)) for size in sizes)
    return {
        "objects": len(sizes),
        "passes": passes,
        "bytes": passes * sum(sizes),
        "requests": passes * requests,
        "lists": account.so_far().requests["list"],
    }


def _would_write(
    request: Request,
    inputs: Inputs,
    destination: Destination,
    of_sources: Sequence[Loss],
    built_at: Sequence[Path],
    notes: Notes,
) -> tuple[Written, TokenReader]:
    """Return what a run would write of sources that hold token IDs, and all their sequences."""
    target, traits = destination.target(request), destination.traits
    with make_executor("serial", 1) as executor:
        workers = Workers(executor, 1, Path())
        gathered = gather(request, inputs, destination, workers, notes)
        shares = deal(request.arrangement.shares, gathered.axis, workers, notes)
        arrangement = replace(request.arrangement, shares=shares)
    for note in gathered.notes:
        notes.add(note)
    accepted, counts = Losses([*of_sources, *destination.lead.lost]).accepted(request), []
    for portion, path in zip(destination.portions, built_at, strict=True):
        view = portion_of(gathered.axis, arrangement, portion)
        stored, info = stored_axis(view, target), view.info
        writer = destination.writer(path, portion, target)
        minimum_bytes = writer.minimum_bytes(view if "empty-sequences" in target.allow_loss else stored)
        need_room(portion.destination, path, minimum_bytes)
        tasks, passes = (
            len(writer.regions(stored, request.region)),
            1 + needs_scan(gathered.axis, writer, traits, target),
        )
        of_portion = PortionCounts(portion, info.sequences, info.tokens, info.max_id, tasks, minimum_bytes, passes)
        counts.append(of_portion)
    return Written(counts, accepted, gathered.report, gathered.padded), gathered.axis


def manifests(
    done: Conversion,
    sources: Sequence[SourceFiles],
    publishers: Mapping[Place, Publisher],
    facts: Mapping[str, object],
    progress: Progress,
    jobs: int,
    *,
    stated: Mapping[Place, Manifest] | None = None,
    outputs: Mapping[Place, Mapping[str, Any]] | None = None,
) -> dict[Place, bytes]:
    """Return the manifest of each destination, as bytes by path. The checksums of sources are compared with the
    manifests in `stated`. `outputs` are the files of each destination, which are read if they are not given.
    """
    progress.phase("checksums", len(sources) + len(publishers), "files")
    if outputs is None:
        format_ = registry.get(done.format)
        outputs = {
            path: fingerprint(publisher.path, written_files(format_, publisher.path), jobs)
            for path, publisher in publishers.items()
        }
    proves = bool(done.verified) and facts.get("select") is None
    described = _described(sources, progress, jobs, {} if done.partial else stated or {}, proves=proves)
    made = {}
    for path in publishers:
        part = done if len(publishers) == 1 else _part(done, path)
        made[path] = _manifest(part, path.parent, {**described, "output": outputs[path], **facts})
        progress.advance(1)
    return made


def with_objects(manifest: bytes, objects: Sequence[Mapping[str, Any]]) -> bytes:
    """Return a manifest whose output lists its objects in a store, unless there are too many for a manifest."""
    content = json.loads(manifest)
    if len(objects) <= _LISTED_SOURCES:
        content["output"]["objects"] = list(objects)
    return _text(content)


def _described(
    sources: Sequence[SourceFiles], progress: Progress, jobs: int, stated: Mapping[Place, Manifest], *, proves: bool
) -> dict[str, object]:
    """Return path, format, size and checksum of each source, and only sums of those beyond the first 20,000.

    Large sources are not read again for a checksum, unless a conversion `proves` what it wrote: those with a manifest
    then are, as bytes that changed since they were written would be proven too.
    """
    import xxhash

    listed, more, total, count = list[dict[str, Any]](), xxhash.xxh3_128(), 0, 0
    is_little = extent([file for dataset in sources for file in dataset.files])["bytes"] <= LITTLE
    for number, dataset in enumerate(sources):
        manifest = stated.get(dataset.path)
        has_checksum = manifest is not None and any(one.output.get("xxh3_128") for one in manifest.each)
        if is_little or (proves and has_checksum):
            digests = measured(dataset.path, dataset.files, jobs, dataset.opened)
            facts = combined(digests, single=list(dataset.files) == [dataset.path])
            for wrong in () if manifest is None else checksum_contradictions(dataset, manifest, digests):
                raise wrong
        else:
            facts = extent(dataset.files)
        progress.advance(1)
        if number < _LISTED_SOURCES:
            listed.append({"path": str(dataset.path), "format": dataset.format.name, **facts})
            continue
        more.update(f"{dataset.path} {facts['bytes']} {facts['xxh3_128']}\n".encode("utf-8", "surrogateescape"))
        total, count = total + facts["bytes"], count + facts["files"]
    described: dict[str, object] = {"sources": listed}
    if len(sources) > _LISTED_SOURCES:
        others = len(sources) - _LISTED_SOURCES
        described["more_sources"] = {"sources": others, "bytes": total, "files": count, "xxh3_128": more.hexdigest()}
    return described


def _part(done: Conversion, destination: Place) -> Conversion:
    """Return the result of one of several destinations."""
    splits = {name: split for name, split in done.splits.items() if split["destination"] == str(destination)}
    facts: Any = next(iter(splits.values()))
    return replace(done, **facts, splits=splits)


def _portable(made: Mapping[str, Any], home: Place) -> Mapping[str, Any]:
    """Return a tokenizer as a manifest in `home` names it: a local file also has its path, relative to `home`."""
    place, rest = made.get("path", made.get("name")), {key: value for key, value in made.items() if key != "path"}
    if not isinstance(place, str) or not home.is_local or not os.path.exists(place):
        return rest
    return {**rest, "path": os.path.relpath(os.path.realpath(place), home.real().text)}


def _manifest(done: Conversion, home: Place, facts: Mapping[str, object]) -> bytes:
    content = {
        "schema": SCHEMA,
        "tokfmt": __version__,
        "format": done.format,
        "sequences": done.sequences,
        "tokens": done.tokens,
        "max_id": done.max_id,
        "eos_id": done.separator["eos_id"],
        "eos_from": done.separator["from"],
        "separators": done.separators,
        "bos_id": done.lead["bos_id"],
        "bos_stored": done.lead["stored"],
        "leads": done.leads,
        "tokenizer": None if done.tokenizer is None else _portable(done.tokenizer, home),
        "shuffle": done.shuffle,
        "recipe": done.recipe,
        "labels": done.labels,
        "splits": done.splits,
        "losses": done.losses,
        "notes": done.notes,
        **({"prepared": done.prepared} if done.prepared else {}),
        **({"partial": done.partial} if done.partial else {}),
        **facts,
    }
    return _text(content)


def _text(content: Mapping[str, object]) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
