"""What a conversion would lose, and whether the user accepted it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tokfmt.core.axis import TokenReader, sequence_at
from tokfmt.core.errors import Loss, LossyConversionError
from tokfmt.core.format import TokenWriter
from tokfmt.ops.open import Source
from tokfmt.run.plan import Scan, Workers, scan
from tokfmt.views.select import Known, NonEmpty


@dataclass(frozen=True, slots=True)
class Prepared:
    """A source that its writer can carry wholly.

    Attributes:
        reader: What is to be written.
        embedded: Separators stand inside sequences, which the target will split there.
        dropped: What was given up, in words, by its --drop name.
    """

    reader: TokenReader
    embedded: bool
    dropped: dict[str, str]


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
    """Find every loss; refuse those nobody accepted, apply those accepted.

    Raises:
        LossyConversionError: With all that is not accepted, each with its word.
    """
    axis, embedded = _scanned(axis, writer, eos_id, workers)
    losses = [*_of_sources(sources, split_chosen=split_chosen), *writer.lost(axis), *embedded]
    refused = [loss for loss in losses if loss.name not in drop]
    if refused:
        raise LossyConversionError(target, refused)
    dropped = {loss.name: loss.what for loss in losses}
    reader = NonEmpty(axis) if "empty-sequences" in dropped else axis
    return Prepared(reader, bool(embedded), dropped)


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
            losses.append(Loss("splits", f"the other splits ({', '.join(others)}; --split NAME reads one)"))
    return losses


def _scanned(
    axis: TokenReader, writer: TokenWriter, eos_id: int | None, workers: Workers
) -> tuple[TokenReader, list[Loss]]:
    """One pass over the tokens, if the writer needs the largest id or a sequence might hold the separator."""
    look_for = eos_id if writer.separated and axis.info.free_of != eos_id else None
    if look_for is None and (not writer.needs_max_id or axis.info.max_id is not None):
        return axis, []
    found = Scan(*workers.journal.once("scan", lambda: list(scan(axis, look_for, workers))))
    if not found.separators:
        return Known(axis, found.max_id), []
    sequence = sequence_at(axis, found.first)
    what = (
        f"{found.separators:,} separators ({eos_id}) inside sequences "
        f"(first: sequence {sequence:,}, token position {found.first:,})"
    )
    return Known(axis, found.max_id), [Loss("embedded-separators", what)]
