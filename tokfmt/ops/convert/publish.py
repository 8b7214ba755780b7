"""Stage 4 of a conversion, Written to its result: describe what was written, and make it visible in one step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tokfmt.core.atomic_output import Beside, Staging
from tokfmt.core.together import publish_together
from tokfmt.ops.convert.manifests import manifests
from tokfmt.ops.convert.notes import Notes
from tokfmt.ops.convert.request import Conversion
from tokfmt.ops.convert.resolve import Resolved
from tokfmt.ops.convert.results import result_of
from tokfmt.ops.convert.resume import digest_of
from tokfmt.ops.convert.workplace import Workplace
from tokfmt.ops.convert.write import Written
from tokfmt.ops.destination import remove_manifest_of_link
from tokfmt.ops.source.discover import check_unchanged
from tokfmt.ops.source.manifest import ledger_paths, manifest_path
from tokfmt.ops.source.request import words_of

Proof = Callable[[Staging], Mapping[str, Path]]
"""A check of the built destination, which raises to prevent publication.

It returns files that are built already and appear beside the destination, by name.
"""


def publish(resolved: Resolved, written: Written, place: Workplace, notes: Notes, prove: Proof | None) -> Conversion:
    """Publish the destinations, unless this run is a task: --finish publishes tasks.

    Raises:
        SourceChangedError: A source changed while it was read. Nothing was published.
        TokfmtError: A manifest or a name could not be written. Nothing was published.
    """
    request = resolved.request
    done = result_of(resolved, written, notes)
    if request.task is not None:
        check_unchanged(resolved.before, resolved.files)
        return done
    texts = _manifests(resolved, written, place, done, notes) if request.manifest else {}
    check_unchanged(resolved.before, resolved.files)
    if request.rejects is not None:
        from tokfmt.formats.jsonl.lines import join

        join([place.first.scratch / "rejects"], request.rejects, request.jobs)
    files: dict[Staging, Beside] = {}
    for path, staging in place.stagings.items():
        manifest = texts.get(path)
        named = {manifest_path(staging.destination).name: manifest}
        proven = {} if prove is None else prove(staging)
        files[staging] = {**named, **_ledger(written, staging, manifest), **proven}
    publish_together(files)
    for path in place.stagings:
        remove_manifest_of_link(path)
    return done


def _ledger(written: Written, staging: Staging, manifest: bytes | None) -> Beside:
    """Return the files of the ledger by name; without a ledger, None for each, which removes that of a predecessor."""
    if written.ledger is None:
        return dict.fromkeys(path.name for path in ledger_paths(staging.destination))
    from tokfmt.ops.provenance import built

    return built(written.ledger, written.destination.format, staging, manifest)


def _manifests(
    resolved: Resolved, written: Written, place: Workplace, done: Conversion, notes: Notes
) -> dict[Path, bytes]:
    request, shares = resolved.request, resolved.request.arrangement.shares
    given: dict[str, object] = {
        "options": {"from": words_of(request.source.options), "to": words_of(written.destination.given)},
        "select": request.select,
        "split": shares.described() if shares else None,
    }
    if request.resume:
        given["request"] = {"digest": digest_of(place.facts), "verified": request.verify}
    if written.ledger is not None:
        given["ledger"] = {"unit": written.ledger["unit"], "rows": written.ledger["rows"]}
    made = manifests(
        done, resolved.files, place.stagings, given, notes.progress, request.jobs, checksums=request.checksums
    )
    return {path: notes.named(text.decode()).encode() if request.piped else text for path, text in made.items()}
