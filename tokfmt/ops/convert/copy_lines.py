"""Stages 2 and 3 of a conversion of records to JSON Lines: copy lines as they are, and write a line for each text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tokfmt.core.errors import ConversionError, OptionError
from tokfmt.core.format import Target
from tokfmt.core.reader import TokenReader, windows
from tokfmt.core.records import RecordReader
from tokfmt.ops.convert.arrangement import SplitTarget, arranged
from tokfmt.ops.convert.lines import LineReader, LineWriter, copied_text, copies_in, copy_records, dealt_text
from tokfmt.ops.convert.losses import record_losses
from tokfmt.ops.convert.notes import Notes
from tokfmt.ops.convert.request import Request
from tokfmt.ops.convert.resolve import Resolved
from tokfmt.ops.convert.workplace import Workplace
from tokfmt.ops.convert.write import PortionCounts, Written, region_size, write_regions
from tokfmt.ops.source.stored import paths_of
from tokfmt.run.plan import Workers


def copy_lines(resolved: Resolved, place: Workplace, workers: Workers, notes: Notes) -> Written:
    """Write the selected records of all sources, one line each.

    Raises:
        TokfmtError: A record cannot be copied, or something would be lost. Nothing was published.
    """
    request, destination, sources = resolved.request, resolved.destination, resolved.sources
    readers = [source.reader for source in sources if isinstance(source.reader, RecordReader)]
    _refuse_fields(resolved, readers)
    first, plain, compared = destination.portions[0], request.arrangement.plain, Counter[str]()
    path = place.stagings[first.destination].path
    copy = path if plain else copies_in(workers) / "lines"
    copied = copy_records(readers, copy, request.select, paths_of(sources), workers, notes.progress)
    skipped = [(source, copied.skipped[k]) for k, source in enumerate(sources)]
    accepted = record_losses(skipped, destination.format, request.source.allow_loss).accepted(request)
    counts = [PortionCounts(first, copied.records, copied.tokens, None, len(copied.blocks))]
    if not plain:
        lines = LineReader(copy, copied.records)
        counts = [
            _write_portion(request, lines, portion, place, workers, notes, compared) for portion in destination.portions
        ]
        if len(counts) == 1:
            counts = [replace(counts[0], tokens=copied.tokens)]
    elif request.verify:
        from tokfmt.ops.convert.verify import verify_records  # fingerprints need numpy.random and xxhash

        compared.update(
            verify_records(copied_text, readers, copied.blocks, path, workers, notes.progress, records=copied.records)
        )
    if request.verify and request.select is None:
        from tokfmt.ops.convert.verify import verify_counts

        verify_counts((source, copied.counts[k], None) for k, source in enumerate(sources))
    return Written(destination, counts, accepted, compared)


def _refuse_fields(resolved: Resolved, readers: Sequence[RecordReader]) -> None:
    """Refuse sources of text and of token IDs together, and a field that copied lines do not have.

    Raises:
        ConversionError: Some sources hold text, and some hold token IDs.
        OptionError: The option of the field names another field than the lines have.
    """
    kinds = {reader.info.kind for reader in readers}
    if len(kinds) > 1:
        raise ConversionError("some sources hold text, and others hold token IDs. Give --tokenizer to encode the text")
    name, given = f"{min(kinds)}_field", resolved.destination.given
    wanted = given.get(name, given.get(name.replace("_", "-")))
    fields = {reader.info.field if reader.info.json_lines else "text" for reader in readers}
    if wanted is not None and fields != {wanted}:
        why = f"lines are copied as they are, with the field {min(fields)!r}. Leave the option out"
        raise OptionError(f"{resolved.destination.format.name} option {name}={wanted}: {why}", name=name)


def _write_portion(
    request: Request,
    lines: TokenReader,
    portion: SplitTarget,
    place: Workplace,
    workers: Workers,
    notes: Notes,
    compared: Counter[str],
) -> PortionCounts:
    """Write the lines of one portion in their order; if it is read back, add the numbers to `compared`."""
    path, workers = place.of(portion, workers)
    with arranged(lines, request.arrangement, portion, Target(), workers, notes.progress) as view:
        writer, size = LineWriter(path, workers.jobs, keep=workers.journal.keeps), region_size(request, view)
        counts = write_regions(view, writer, portion, size, workers, notes.progress)
        if request.verify:
            from tokfmt.ops.convert.verify import verify_records

            spans = list(windows(0, view.info.tokens, size))
            compared.update(verify_records(dealt_text, view, spans, path, workers, notes.progress))
    return replace(counts, tokens=None)
