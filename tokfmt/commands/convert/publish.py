"""Build the destinations of a conversion in hidden directories, describe what was written, and publish it.

`publishers_of` chooses the directories, `workplace` makes them or continues in them, `workers_of` starts the workers,
and `publish` makes the result visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from tokfmt.commands.convert.arrangement import SplitTarget
from tokfmt.commands.convert.destination import Destination
from tokfmt.commands.convert.inputs import Inputs
from tokfmt.commands.convert.report import Written, manifests, result_of, with_objects
from tokfmt.commands.convert.request import Conversion, Notes, Request
from tokfmt.commands.convert.resume import Facts, digest_of, digest_of_sources, resumed
from tokfmt.commands.convert.tasks import agree, begun, remove, send
from tokfmt.commands.guards import StoredFormat, need_room, remove_manifest_of_link, strangers_in
from tokfmt.core.format import Format, Target, TokenWriter
from tokfmt.core.reader import Separators, TokenReader
from tokfmt.errors import ConversionError
from tokfmt.files.file import everything_in
from tokfmt.files.place import Place, Url, local_path
from tokfmt.files.publisher import REQUEST, FilesBeside, LocalPublisher, Publisher, publish_all
from tokfmt.files.replacing import readable_by
from tokfmt.files.spool import put_small
from tokfmt.files.store import Identity
from tokfmt.files.store_publisher import StorePublisher
from tokfmt.run.execute import ClusterExecutor, make_executor
from tokfmt.run.plan import Share, Sink, Stretch, Workers
from tokfmt.source.discover import check_unchanged
from tokfmt.source.ingest import blocks_of
from tokfmt.source.manifest import Measured, combined, ledger_paths, manifest_path, measured, written_files
from tokfmt.source.request import words_of
from tokfmt.source.stored import records_of
from tokfmt.wording import printable

Proof = Callable[[Publisher], Mapping[str, Path]]
"""A check of the built destination, which raises to prevent publication.

It returns files that are built already and appear beside the destination, by name.
"""


def publishers_of(
    request: Request, destination: Destination, before: Mapping[Place, Identity], notes: Notes
) -> dict[Place, Publisher]:
    """Return the publisher of each destination, after a check that the destination may be replaced.

    If the request keeps its work, `resumed` makes that check instead. A destination gets no permissions that a source
    file lacks.
    """
    publishers = dict[Place, Publisher]()
    for path in destination.paths:
        how: dict[str, Any] = {
            "overwrite": request.overwrite,
            "kept": "" if not request.keeps_work else "tasks" if request.in_tasks else "resume",
            "shared": request.task is not None,
            "companions": [companion.name for companion in destination.format.companions(path)],
        }
        if isinstance(path, Url):
            kind = StoredFormat(destination.format)
            publishers[path] = StorePublisher(path, kind, spool=request.spool, note=notes.note, **how)
            continue
        place = local_path(path, "a destination")
        publishers[path] = LocalPublisher(place, objection=strangers_in(path), readable=readable_by(before), **how)
    for one in publishers.values() if request.dry_run or not request.keeps_work else ():
        one.check_replaceable()
        one.is_checked = True
    return publishers


@dataclass(frozen=True, slots=True)
class Workplace:
    """The hidden directories where the portions of a conversion are built."""

    publishers: Mapping[Place, Publisher]
    facts: Facts  # what a run has to repeat to continue this one; empty if none can
    # publishers that upload files as soon as they are complete
    sinks: Mapping[Place, Sink] = field(default_factory=dict)

    @property
    def first(self) -> Publisher:
        """The publisher of the first destination. In its directory, the text of all portions is tokenized."""
        return next(iter(self.publishers.values()))

    def of(self, portion: SplitTarget, workers: Workers) -> tuple[Path, Workers]:
        """Return the path to write a portion to, and the workers with the scratch and journal of its destination."""
        publisher, sink = self.publishers[portion.destination], self.sinks.get(portion.destination)
        return publisher.path, replace(workers, scratch=publisher.scratch, journal=publisher.journal, sink=sink)

    def writers(self, destination: Destination, target: Target) -> list[TokenWriter]:
        """Return the writer of each portion, in the order of the portions."""
        return [
            destination.writer(self.publishers[portion.destination].path, portion, target)
            for portion in destination.portions
        ]

    def need_room(self, portion: SplitTarget, writer: TokenWriter, stored: TokenReader) -> None:
        """Refuse a portion that does not fit where it is built, unless its files are uploaded as they are complete."""
        if portion.destination in self.sinks and writer.finishes_files:
            return
        need_room(portion.destination, self.publishers[portion.destination].path, writer.minimum_bytes(stored))


@contextmanager
def workplace(
    request: Request, publishers: Mapping[Place, Publisher], facts: Facts, notes: Notes
) -> Iterator[Workplace]:
    """Make a hidden directory for each destination, or continue in the one that an earlier run kept."""
    with ExitStack() as stack:
        for publisher in publishers.values():
            if request.keeps_work:
                stack.enter_context(
                    resumed(publisher, request, facts, notes.note, partial(begun, publisher, request.task))
                )
            else:
                stack.enter_context(publisher)
            if publisher.removed:
                removed = f"{publisher.home.name}, which an unfinished conversion had left"
                notes.note(f"removed {removed}; --resume would have continued it")
        sinks = {
            path: publisher
            for path, publisher in publishers.items()
            if isinstance(publisher, StorePublisher) and _uploads_early(request, publisher)
        }
        yield Workplace(publishers, facts, sinks)


def _uploads_early(request: Request, publisher: StorePublisher) -> bool:
    """Return whether files are uploaded before all are complete, after what an earlier run has uploaded is taken over.

    That is not done if the files are read back (--verify), or if an old dataset is readable until they are complete.
    """
    if request.verify and request.task is None:
        if publisher.has_early_uploads:
            raise ConversionError(
                f"{printable(publisher.url)}: its files were uploaded as they were complete, so --verify cannot "
                "read them back. Leave it out, and compare with tokfmt diff"
            )
        return False
    may_be_readable = request.task is not None or request.finish > 0 or publisher.url.is_there()
    if request.overwrite and may_be_readable and not publisher.has_early_uploads:
        return False
    publisher.recall()
    return True


@contextmanager
def workers_of(request: Request, inputs: Inputs, place: Workplace) -> Iterator[Workers]:
    """Start the workers of a conversion, which share the scratch of its first destination."""
    first = place.first
    with make_executor(request.executor, request.jobs) as executor:
        slots = executor.slots if isinstance(executor, ClusterExecutor) else request.jobs
        share = Share(request.task) if request.task else Stretch(request.part) if request.part else None
        texts = first.home / "scratch"  # all tasks share this directory
        workers = Workers(executor, slots, first.scratch, first.journal, texts, share)
        if isinstance(share, Stretch):
            share.total = sum(len(blocks_of(records, workers)) for records in records_of(inputs.read))
        yield workers


def publish(
    request: Request,
    inputs: Inputs,
    destination: Destination,
    written: Written,
    place: Workplace,
    notes: Notes,
    prove: Proof | None,
) -> Conversion:
    """Publish the destinations, unless this run is a task: --finish publishes tasks."""
    done = result_of(request, inputs, destination, written, notes)
    uploads = {path: one for path, one in place.publishers.items() if isinstance(one, StorePublisher)}
    if request.task is not None:
        check_unchanged(inputs.before, inputs.files)
        for upload in uploads.values():
            upload.journal.sync()
            upload.claim.check()
            agree(upload.url, (upload.home / REQUEST).read_bytes(), conditional=upload.claim.taken)
            send(upload.url, upload.home / request.task.journal)
        return done
    sums = {path: _measure(one, destination.format, request.jobs, notes.advance) for path, one in uploads.items()}
    texts = (
        _manifests(request, inputs, destination, written, place, done, notes, sums or None) if request.manifest else {}
    )
    check_unchanged(inputs.before, inputs.files)
    if request.rejects is not None:
        _write_rejects(request.rejects, request, place)
    files: dict[Publisher, FilesBeside] = {}
    for path, out in place.publishers.items():
        manifest = texts.get(path)
        proven = {} if prove is None else prove(out)
        stated = _with_objects(out, manifest) if isinstance(out, StorePublisher) and manifest else manifest
        named = {manifest_path(out.destination).name: stated}
        files[out] = {**_ledger(written, destination, out, manifest), **proven, **named}
    if uploads:
        notes.phase("uploading", sum(size for one in uploads.values() for size, _ in one.files.values()), "bytes")
    publish_all(files)
    for path in place.publishers:
        remove_manifest_of_link(path)
    if request.finish:
        for upload in uploads.values():
            remove(upload.url, request.finish)
    return done


def _measure(out: StorePublisher, format_: Format, jobs: int, advance: Callable[[int], None]) -> dict[str, Any]:
    """Let a publisher know the files of its dataset, some uploaded already; return size, number and checksum."""
    built, is_folder = out.path, out.path.is_dir()
    above = f"{built.name}/" if is_folder else ""
    beside = {place.key for place in (manifest_path(out.url), *ledger_paths(out.url))}
    uploaded = {out.name_of(key): one for key, one in out.uploaded.items() if key not in beside}
    files = everything_in(built) if is_folder else written_files(format_, built)  # All files in a folder appear.
    left = [file for file in files if file.is_file() and str(file.relative(built.parent)) not in uploaded]
    early = [Measured(name.removeprefix(above), one.size, one.digest) for name, one in uploaded.items()]
    sums = sorted([*early, *measured(built, left, jobs)])
    out.files, out.advance = {f"{above}{one.name}": (one.size, one.digest) for one in sums}, advance
    return combined(sums, single=len(sums) == 1 and not is_folder)


def _with_objects(out: StorePublisher, manifest: bytes) -> Callable[[], bytes]:
    """Return a function that returns the manifest with the objects of the dataset, once they are uploaded."""
    return lambda: with_objects(manifest, out.objects())


def _write_rejects(to: Place, request: Request, place: Workplace) -> None:
    """Write the file of rejects."""
    from tokfmt.formats.jsonl.lines import join

    made = place.first.scratch / "rejects"
    if not isinstance(to, Url):
        join([made], local_path(to, "a file of rejects"), request.jobs)
        return
    copy = place.first.scratch / f"copy-of-{to.name}"
    join([made], copy, request.jobs)
    put_small(to, copy, overwrite=request.overwrite)


def _ledger(written: Written, destination: Destination, out: Publisher, manifest: bytes | None) -> FilesBeside:
    """Return the files of the ledger by name; without a ledger, None for each, which removes that of a predecessor."""
    if written.ledger is None:
        return dict.fromkeys(path.name for path in ledger_paths(out.destination))
    from tokfmt.mix import ledger_files

    return ledger_files(written.ledger, destination.format, out, manifest)


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
    stored, separators = destination.traits.separators, dict(done.separators or {})
    is_stored = stored is not Separators.NONE or separators.get("kept")
    side = None if not is_stored else "before" if stored is Separators.BEFORE else "after"
    dropped = separators.get("dropped") or request.to_eos == "none"
    dropped = dropped or (request.to_eos == "as-stored" and not separators.get("kept"))
    has_none = destination.separator.eos_id is None and all(source.separator.is_none for source in inputs.sources)
    facts: dict[str, Any] = {
        "eos_stored": "none" if dropped or has_none else side,
        "options": {"from": words_of(request.source.options), "to": words_of(destination.given)},
        "select": request.select,
        "split": shares.described() if shares else None,
    }
    if any(portion.packed for portion in written.portions):
        facts["packed"] = True
    if request.resume:
        facts["request"] = {"digest": digest_of(place.facts), "verified": request.verify}
        if any(isinstance(path, Url) for path in place.publishers):  # a store does not tell when a source has changed
            facts["request"] = {**facts["request"], "sources": digest_of_sources(place.facts)}
    if written.ledger is not None:
        facts["ledger"] = {"unit": written.ledger["unit"], "rows": written.ledger["rows"]}
    made = manifests(
        done,
        inputs.files,
        place.publishers,
        facts,
        notes,
        request.jobs,
        stated=inputs.stated,
        outputs=outputs,
    )
    return {path: notes.named(text.decode()).encode() if request.piped else text for path, text in made.items()}
