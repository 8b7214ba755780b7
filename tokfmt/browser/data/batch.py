"""The batch of a training step: its samples, with their documents, sources, padding, loss mask and ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tokfmt.base.options import parse_count
from tokfmt.browser.data.layout import TokenStyle, bytes_of
from tokfmt.browser.data.opening import recipe_of, run_of, samples_of
from tokfmt.browser.data.parts import RowParts, SamplePart
from tokfmt.browser.data.rows import Damage, View, fetched
from tokfmt.browser.data.session import Session, Sizes
from tokfmt.core.reader import Layout, TokenReader
from tokfmt.core.records import RecordReader
from tokfmt.errors import OptionError
from tokfmt.wording import counted, percent, visible

MOST = 1 << 16
"""Maximum number of samples of a batch."""
_TEXT = 1 << 11  # tokens that are shown


class BatchRow(NamedTuple):
    """A sample of a batch."""

    row: int  # number of the row in the view
    number: int  # number of the sample, as `show --step` prints it
    rank: int | None  # the rank that reads it; None if the ranks are not known


@dataclass(frozen=True)
class Batch:
    """The samples of a step."""

    step: int  # the step, from 0
    steps: int | None  # the number of whole steps; None if it is not known
    sizes: Sizes | None  # the number of samples and of ranks; None of a run, which states its own
    ranks: int  # the number of ranks that read it
    rows: Sequence[BatchRow]  # the samples, by ranks


def samples_view(session: Session) -> View | None:
    """Return the view of samples of a dataset; None if its rows are documents, which no batch is made of."""
    return next((view for view in session.opened.views if _is_of_samples(view.port.reader)), None)


def _is_of_samples(reader: TokenReader | RecordReader) -> bool:
    return not isinstance(reader, RecordReader) and reader.info.layout is Layout.SAMPLES


def parse_sizes(words: str) -> Sizes:
    """Return the sizes of `512` samples, or of `512/64`: for 64 ranks."""
    batch, slash, ranks = words.partition("/")
    sizes = Sizes(parse_count(batch.strip()), parse_count(ranks.strip()) if slash else 1)
    if not 0 < sizes.batch <= MOST or not 0 < sizes.ranks <= sizes.batch or sizes.batch % sizes.ranks:
        what = f"a batch has 1 to {MOST:,} samples, as many for each rank"
        raise OptionError(f"{words}: {what}. 512/64 is 512 for 64 ranks")
    return sizes


def batch_of(view: View, step: int, sizes: Sizes) -> Batch:
    """Return the batch of a step; of a run that states its own, `sizes` are not used. Reads indexes."""
    reader, count = view.port.reader, view.port.count
    run = run_of(reader)
    if run is not None and run.order.batches.is_known:
        rows = [BatchRow(sample - run.order.first, sample, rank) for sample, rank in run.taken(step, None)]
        steps = run.order.batches.step_of(run.order.first + count)
        return Batch(step, max(1, steps), None, len({one.rank for one in rows}), rows)
    steps = max(1, count // sizes.batch)
    if not 0 <= step < steps:
        there = f"step {steps - 1:,}: {counted(count, 'sample')}"
        raise OptionError(f"step {step:,} is beyond the last whole batch, {there}")
    samples = samples_of(reader)
    if samples is not None and count >= sizes.batch:
        shares = [samples.where_at(step, sizes.batch, rank, sizes.ranks) for rank in range(sizes.ranks)]
        named = [None] if sizes.ranks == 1 else range(sizes.ranks)
        rows = [BatchRow(at.sample, at.sample, rank) for rank, share in zip(named, shares, strict=True) for at in share]
        return Batch(step, steps, sizes, sizes.ranks, rows)
    rows = [BatchRow(row, row, None) for row in range(step * sizes.batch, min(count, (step + 1) * sizes.batch))]
    return Batch(step, steps, sizes, 1, rows)


def batch_size_of(view: View, row: int, sizes: Sizes) -> int:
    """Return the number of samples of the step that has a row; of a run, its own if it states it."""
    run = run_of(view.port.reader)
    if run is None or not run.order.batches.is_known:
        return sizes.batch
    first, last = run.order.batches.samples_of(step_of(view, row, sizes))
    return int(last - first)


def step_of(view: View, row: int, sizes: Sizes) -> int:
    """Return the step that has a row, or the last whole one."""
    reader = view.port.reader
    run = run_of(reader)
    if run is not None and run.order.batches.is_known:
        step: int = run.order.batches.step_of(run.order.first + row)
        return step
    return min(row // sizes.batch, max(1, view.port.count // sizes.batch) - 1)


def text_of(view: View, style: TokenStyle, row: int, parts: Sequence[SamplePart]) -> str:
    """Return the beginning of some documents of a sample, as text or as IDs. Reads."""
    texts, left = list[str](), _TEXT
    for part in parts:
        piece = fetched(view.port, row, part.start, min(part.stop, part.start + left))
        if isinstance(piece, Damage) or not left:
            break
        left -= len(piece.units)
        if style.decoder is None:
            texts.append(" ".join(map(str, piece.units.tolist())))
        else:
            texts.append(visible(b"".join(bytes_of(style.decoder, piece.units)).decode("utf-8", "replace")))
    return "\n╌╌ next document ╌╌\n".join(texts)


def planned_of(view: View) -> dict[str, str]:
    """Return the share that a run asks for of each source, in words; {} of another dataset."""
    reader = view.port.reader
    run = run_of(reader)
    sources = () if run is None else run.order.sources
    total = sum(source.weight or 0 for source in sources)
    return {one.name: percent((one.weight or 0) / total) for one in sources} if total else {}


def attention_words(view: View, parts: RowParts | None) -> str:
    """Return whether attention crosses the documents of a sample, as far as the dataset says it."""
    if parts is None or len(parts.parts) < 2:
        return "one document"
    reader = view.port.reader
    is_made = recipe_of(reader) is not None or run_of(reader) is not None  # where documents begin is known, not stored
    if is_made or isinstance(reader, RecordReader) or not reader.has_begins:
        return "attention crosses documents unless masked"
    return "documents are marked: attention can stop at them"
