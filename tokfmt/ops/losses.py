"""What a conversion would lose, and whether the user accepted it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tokfmt.core.axis import TokenReader, sequence_at
from tokfmt.core.errors import Loss, LossyConversionError
from tokfmt.core.format import TokenWriter
from tokfmt.ops.open import Source
from tokfmt.run.plan import Scan, Workers, scan
from tokfmt.views.select import Known, NonEmpty
from tokfmt.views.separated import restored


@dataclass(frozen=True, slots=True)
class Prepared:
    """A source whose losses are known and accepted.

    Attributes:
        reader: What is to be written, empty sequences included.
        embedded: Separators stand inside sequences, which the target will split there.
        dropped: What was given up, in words, by its --drop name.
    """

    reader: TokenReader
    embedded: bool
    dropped: dict[str, str]

    def carried(self, view: TokenReader) -> Prepared:
        """What a writer can carry wholly of a view of the reader: without empty sequences, if they were given up."""
        return replace(self, reader=NonEmpty(view) if "empty-sequences" in self.dropped else view)


def prepare(
    axis: TokenReader,
    sources: Sequence[Source],
    writer: TokenWriter,
    eos_id: int | None,
    drop: frozenset[str],
    target: str,
    workers: Workers,
    *,
    split_chosen: bool,
) -> Prepared:
    """Find every loss; refuse those nobody accepted. `Prepared.carried` applies those accepted.

    Raises:
        LossyConversionError: With all that is not accepted, each with its word.
    """
    axis, embedded = _scanned(axis, writer, eos_id, workers)
    losses = [*known_losses(axis, sources, writer, split_chosen=split_chosen), *embedded]
    return Prepared(axis, bool(embedded), accepted(losses, drop, target))


def known_losses(
    axis: TokenReader, sources: Sequence[Source], writer: TokenWriter, *, split_chosen: bool
) -> list[Loss]:
    """What the target cannot carry, as far as it is known without reading tokens."""
    return [*_of_sources(sources, split_chosen=split_chosen), *writer.lost(axis)]


def accepted(losses: Sequence[Loss], drop: frozenset[str], target: str) -> dict[str, str]:
    """What is given up, in words, by its --drop name.

    Raises:
        LossyConversionError: With every loss that is not in `drop`.
    """
    refused = [loss for loss in losses if loss.name not in drop]
    if refused:
        raise LossyConversionError(target, refused)
    return {loss.name: loss.what for loss in losses}


def _of_sources(sources: Sequence[Source], *, split_chosen: bool) -> list[Loss]:
    losses = []
    for source in sources:
        extras = source.reader.info.extras
        masked = extras.get("nonstandard_masks")
        if masked:
            first = extras.get("first_nonstandard", "?")
            what = f"loss masks or labels that are not the plain ones in {masked:,} samples (first: sample {first})"
            losses.append(Loss("loss-mask", what))
        others = extras.get("other_splits")
        if isinstance(others, (tuple, list)) and others and not split_chosen:
            losses.append(
                Loss(
                    "splits", f"the other splits ({', '.join(others)}; --split NAME or --from-opt split=NAME reads one)"
                )
            )
    return losses


def _scanned(
    axis: TokenReader, writer: TokenWriter, eos_id: int | None, workers: Workers
) -> tuple[TokenReader, list[Loss]]:
    """One pass over the tokens, if the writer needs the largest id or a sequence might hold the separator."""
    look_for = eos_id if writer.separated and axis.info.free_of != eos_id else None
    if look_for is None and (not writer.needs_max_id or axis.info.max_id is not None):
        return axis, []
    found = Scan(*workers.journal.once("scan", lambda: list(_looked_for(axis, writer, eos_id, look_for, workers))))
    if not found.separators:
        return Known(axis, found.max_id), []
    sequence = sequence_at(axis, found.first)
    what = (
        f"{found.separators:,} separators ({eos_id}) inside sequences "
        f"(first: sequence {sequence:,}, token position {found.first:,})"
    )
    return Known(axis, found.max_id), [Loss("embedded-separators", what)]


def _looked_for(
    axis: TokenReader, writer: TokenWriter, eos_id: int | None, look_for: int | None, workers: Workers
) -> Scan:
    """A scan of the axis; through what is stored beneath where that is at hand, separators and all, which costs less.

    The largest id is then that of the separators too, which matters to no writer that stores them.
    """
    stored = restored(axis, eos_id) if eos_id is not None and writer.needs_eos else None
    if stored is not None:
        found = scan(stored, look_for, workers)
        if look_for is None or found.separators == axis.info.sequences:
            return Scan(found.max_id, 0, -1)
    return scan(axis, look_for, workers)
