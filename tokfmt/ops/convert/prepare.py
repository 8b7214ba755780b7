"""Stage 2 of a conversion, Resolved to Prepared: read the sources as one token axis, and find what is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokfmt.core.errors import OptionError
from tokfmt.core.format import Target, TokenWriter
from tokfmt.core.reader import TokenReader
from tokfmt.model.readers import with_own_separators
from tokfmt.ops.convert.axis import token_axis
from tokfmt.ops.convert.destination import Destination
from tokfmt.ops.convert.losses import (
    Content,
    Losses,
    keeps_separators,
    known_losses,
    left_out,
    names_lost,
    record_losses,
    scanned,
)
from tokfmt.ops.convert.notes import Notes
from tokfmt.ops.convert.resolve import Resolved, with_rows
from tokfmt.ops.convert.separators import stored_axis
from tokfmt.ops.convert.workplace import Workplace
from tokfmt.run.plan import Workers


@dataclass(frozen=True, slots=True)
class Prepared:
    """A conversion that is ready to be written.

    Attributes:
        destination: The destination as resolved; for a recipe of text with its samples, which exist only now.
        target: The facts that writers need: the separator, the decoder, the accepted losses.
        writers: One writer for each portion.
        axis: All sources as one token axis, without separators and without losses.
        content: The axis to write, and its losses; None if this is a task that only tokenizes its part of the text.
        losses: The losses that were accepted, in words, by their --allow-loss name.
        report: What each source of a recipe gives; see `tokfmt.ops.prepare.report`.
        padded: Positions of samples that hold padding.
        closes: The separators of the source are stored as tokens of their sequences.
    """

    destination: Destination
    target: Target
    writers: Sequence[TokenWriter]
    axis: TokenReader
    content: Content | None
    losses: Mapping[str, str]
    report: Sequence[Mapping[str, Any]] = ()
    padded: int = 0
    closes: bool = False


def prepare(resolved: Resolved, place: Workplace, workers: Workers, notes: Notes) -> Prepared:
    """Read the sources as one token axis, and refuse losses that the user does not accept.

    Raises:
        TokfmtError: A source cannot be read, or something would be lost. Nothing was published.
    """
    request, destination, allow_loss = resolved.request, resolved.destination, resolved.request.source.allow_loss
    eos_id = resolved.separator.eos_id
    lenient = "invalid-utf8" in allow_loss
    target = resolved.target(
        decoder=_decoder(resolved, lenient=lenient),
        keep_parts=bool(request.kept),
        jobs=request.jobs,
        strict=_decoder(resolved, lenient=False) if lenient else None,
    )
    writers = _writers(destination, place, target)  # before text is tokenized: options may contradict each other
    reading = token_axis(
        resolved.read,
        resolved.tokenizer,
        request.select,
        workers,
        notes.progress,
        lambda source, skipped: not names_lost(source, skipped, destination.format) <= allow_loss,
        stored_eos=eos_id if destination.traits.needs_eos else None,
        rejects=None if request.task or request.rejects is None else _rejects(workers),
        every_end=request.source.every_end,
    )
    losses = record_losses(reading.skipped, destination.format, allow_loss) if reading.skipped else Losses()
    if request.task is not None and resolved.holds_records:
        return Prepared(destination, target, (), reading.axis, None, losses.accepted(request))
    if reading.made and len(resolved.read) == 1:  # the samples of a recipe of text exist only now
        destination = with_rows(destination, reading.made[0], request)
        target = target._replace(separators=destination.traits.separators)
        writers = _writers(destination, place, target) if destination.rows is not None else writers
    axis, traits, embedded = destination.packed or reading.axis, destination.traits, False
    if request.arrangement.shares is None:  # before tokens are read, and before a shuffle takes space
        least = axis if "empty-sequences" in allow_loss else stored_axis(axis, target)
        place.need_room(destination.portions[0], writers[0], least)
    known = known_losses(axis, resolved.sources, traits, request.source) if reading.skipped else resolved.losses
    losses.found.extend((*known, *resolved.lead.lost))
    if reading.encoded:
        axis, found = scanned(axis, writers[0], traits, target, workers)
        losses.found.extend(found)
        embedded = bool(found) and traits.separators.alone
    accepted = losses.accepted(request)
    if request.verify and request.task is None:
        from tokfmt.ops.convert.verify import verify_counts  # fingerprints need numpy.random and xxhash

        verify_counts(reading.counts)
    for note in (*losses.notes, *reading.notes, *left_out((*resolved.sources, *reading.made), traits)):
        notes.add(note)
    padded = 0 if destination.packed else reading.padded
    closes = traits.keeps_separators and destination.packed is None and keeps_separators(axis, allow_loss)
    if closes and target.bos_id is not None:
        what = "loss masks are stored with the separators of the source, and a lead has none"
        raise OptionError(f"--to-bos: {what}. --allow-loss loss-mask leaves them out", name="to_bos")
    content = Content(with_own_separators(axis, target.eos_id) if closes else axis, embedded, accepted)
    return Prepared(destination, target, writers, reading.axis, content, accepted, reading.report, padded, closes)


def _decoder(resolved: Resolved, *, lenient: bool) -> Any:
    """Return the decoder of the user's tokenizer, if the destination holds text and no source does; else None."""
    if resolved.tokenizer is None or not resolved.decodes:
        return None
    return resolved.tokenizer.decoder(lenient=lenient)


def _writers(destination: Destination, place: Workplace, target: Target) -> list[TokenWriter]:
    """Return the writer of each portion, in the order of the portions."""
    return [
        destination.writer(place.stagings[portion.destination].path, portion, target)
        for portion in destination.portions
    ]


def _rejects(workers: Workers) -> Path:
    """Create the file in scratch that collects filtered documents, and return its path."""
    path = workers.scratch / "rejects"
    path.write_bytes(b"")
    return path
