"""Stage 4 of a conversion, Written to its result: describe what was written, and make it visible in one step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tokfmt.commands.convert.destination import Destination
from tokfmt.commands.convert.inputs import Inputs
from tokfmt.commands.convert.manifests import manifests
from tokfmt.commands.convert.notes import Notes
from tokfmt.commands.convert.report import result_of
from tokfmt.commands.convert.request import Conversion, Request
from tokfmt.commands.convert.resume import digest_of, digest_of_sources
from tokfmt.commands.convert.tasks_in_stores import agree, remove, send
from tokfmt.commands.convert.upload import StorePublisher
from tokfmt.commands.convert.workplace import Workplace
from tokfmt.commands.convert.write import Written
from tokfmt.commands.destination import remove_manifest_of_link
from tokfmt.commands.source.discover import check_unchanged
from tokfmt.commands.source.manifest import ledger_paths, manifest_path
from tokfmt.commands.source.request import words_of
from tokfmt.core.reader import Separators
from tokfmt.files.place import LocalPlace, Place, Url
from tokfmt.files.publisher import Beside, Publisher, publish_all
from tokfmt.files.spool import put_small

Proof = Callable[[Publisher], Mapping[str, Path]]
"""A check of the built destination, which raises to prevent publication.

It returns files that are built already and appear beside the destination, by name.
"""


def publish(
    request: Request,
    inputs: Inputs,
    destination: Destination,
    written: Written,
    place: Workplace,
    notes: Notes,
    prove: Proof | None,
) -> Conversion:
    """Publish the destinations, unless this run is a task: --finish publishes tasks.

    Raises:
        SourceChangedError: A source changed while it was read. Nothing was published.
        TokfmtError: A manifest or a name could not be written. Nothing was published.
    """
    done = result_of(request, inputs, destination, written, notes)
    uploads = {path: one for path, one in place.stagings.items() if isinstance(one, StorePublisher)}
    if request.task is not None:
        check_unchanged(inputs.before, inputs.files)
        for one in uploads.values():
            one.journal.sync()
            one.claim.check()
            agree(one)
            send(one.url, one.home / request.task.journal)
        return done
    for one in uploads.values():
        one.measure(request.jobs)
        one.progress = notes
    sums = {path: one.summary() for path, one in uploads.items()}
    texts = (
        _manifests(request, inputs, destination, written, place, done, notes, sums or None) if request.manifest else {}
    )
    check_unchanged(inputs.before, inputs.files)
    if request.rejects is not None:
        _write_rejects(request.rejects, request, place)
    files: dict[Publisher, Beside] = {}
    for path, staging in place.stagings.items():
        manifest = texts.get(path)
        proven = {} if prove is None else prove(staging)
        stated = staging.listed(manifest) if isinstance(staging, StorePublisher) and manifest else manifest
        named = {manifest_path(staging.destination).name: stated}
        files[staging] = {**_ledger(written, destination, staging, manifest), **proven, **named}
    publish_all(files)
    for path in place.stagings:
        remove_manifest_of_link(path)
    if request.finish:
        for one in uploads.values():
            remove(one.url, request.finish)
    return done


def _write_rejects(to: Place, request: Request, place: Workplace) -> None:
    """Write the file of rejects."""
    from tokfmt.formats.jsonl.lines import join

    made = place.first.scratch / "rejects"
    if isinstance(to, LocalPlace):
        join([made], to, request.jobs)
        return
    assert isinstance(to, Url)
    copy = place.first.scratch / f"copy-of-{to.name}"
    join([made], copy, request.jobs)
    put_small(to, copy, overwrite=request.overwrite)


def _ledger(written: Written, destination: Destination, staging: Publisher, manifest: bytes | None) -> Beside:
    """Return the files of the ledger by name; without a ledger, None for each, which removes that of a predecessor."""
    if written.ledger is None:
        return dict.fromkeys(path.name for path in ledger_paths(staging.destination))
    from tokfmt.mix import ledger_files

    return ledger_files(written.ledger, destination.format, staging, manifest)


def _manifests(
    request: Request,
    inputs: Inputs,
    destination: Destination,
    written: Written,
    place: Workplace,
    done: Conversion,
    notes: Notes,
    outputs: Mapping[Place, Mapping[str, Any]] | None = None,
) -> dict[Place, bytes]:
    shares = request.arrangement.shares
    stored, separators = destination.traits.separators, done.separators or {}
    is_stored = stored is not Separators.NONE or separators.get("kept")
    side = None if not is_stored else "before" if stored is Separators.BEFORE else "after"
    dropped = separators.get("dropped") or request.to_eos == "none"
    dropped = dropped or (request.to_eos == "as-stored" and not separators.get("kept"))
    given: dict[str, Any] = {
        "eos_stored": "none" if dropped else side,
        "options": {"from": words_of(request.source.options), "to": words_of(destination.given)},
        "select": request.select,
        "split": shares.described() if shares else None,
    }
    if request.resume:
        given["request"] = {"digest": digest_of(place.facts), "verified": request.verify}
        if any(isinstance(path, Url) for path in place.stagings):  # a store does not tell when a source has changed
            given["request"] = {**given["request"], "sources": digest_of_sources(place.facts)}
    if written.ledger is not None:
        given["ledger"] = {"unit": written.ledger["unit"], "rows": written.ledger["rows"]}
    made = manifests(
        done,
        inputs.files,
        place.stagings,
        given,
        notes,
        request.jobs,
        checksums=request.checksums,
        stated=inputs.stated,
        outputs=outputs,
    )
    return {path: notes.named(text.decode()).encode() if request.piped else text for path, text in made.items()}
