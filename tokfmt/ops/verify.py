"""Read a destination back and compare it with its source, before it appears."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tokfmt.core.axis import TokenReader, batches, windows
from tokfmt.core.errors import VerificationError
from tokfmt.core.format import REGION, Decoder, Format
from tokfmt.core.records import RecordReader
from tokfmt.ops.copy_records import selected_blocks
from tokfmt.ops.losses import Prepared
from tokfmt.ops.open import Options, open_source
from tokfmt.ops.progress import Progress
from tokfmt.ops.separator import EosChoice
from tokfmt.ops.tokenize import ingest
from tokfmt.run.execute import run_tasks
from tokfmt.run.plan import Workers
from tokfmt.views.separated import WithSeparators
from tokfmt.views.split import SplitAt


def verify_tokens(
    prepared: Prepared,
    path: Path,
    format_: Format,
    eos: EosChoice,
    options: Options,
    decoder: Decoder | None,
    workers: Workers,
    progress: Progress,
) -> None:
    """Compare the destination at `path` with what was to be written, sequence by sequence.

    Raises:
        VerificationError: With the first difference.
    """
    expected: TokenReader = prepared.reader
    if prepared.embedded and isinstance(eos, int):
        expected = SplitAt(WithSeparators(expected, eos), eos)
    source = open_source([path], format=format_.name, eos=eos, options=options)
    progress.phase("verifying", expected.info.tokens, "tokens")
    if isinstance(source.reader, RecordReader):
        if decoder is not None:
            _same_texts(expected, decoder, source.reader, progress)
            return
        found: TokenReader = ingest(source.reader, None, workers, name="verify")
    else:
        found = source.reader
    compare(expected, found, workers, progress)
    found.close()


def compare(expected: TokenReader, found: TokenReader, workers: Workers, progress: Progress) -> None:
    """Raise VerificationError unless both axes hold the same sequences."""
    for what in ("sequences", "tokens"):
        wanted, got = getattr(expected.info, what), getattr(found.info, what)
        if wanted != got:
            raise VerificationError(f"the destination holds {got:,} {what}, the source {wanted:,}; it was removed")
    for a, b in windows(0, expected.info.sequences):
        wrong = np.flatnonzero(expected.offsets(a, b) != found.offsets(a, b))
        if len(wrong):
            at = a + int(wrong[0]) - 1
            raise VerificationError(f"sequence {at:,} of the destination has another length; it was removed")
    intervals = list(windows(0, expected.info.tokens, REGION))
    shared = (expected, found)
    tasks = run_tasks(_first_difference, shared, intervals, workers.executor, workers.jobs, workers.scratch)
    for length, position in tasks:
        if position >= 0:
            raise VerificationError(f"token position {position:,} of the destination differs; it was removed")
        progress.advance(length)


def _first_difference(shared: tuple[TokenReader, TokenReader], interval: tuple[int, int]) -> tuple[int, int]:
    """Length of the interval, and the first position where both differ (-1 if none does)."""
    expected, found = shared
    for a, b in windows(*interval):
        wrong = np.flatnonzero(expected.tokens(a, b) != found.tokens(a, b))
        if len(wrong):
            return interval[1] - interval[0], a + int(wrong[0])
    return interval[1] - interval[0], -1


def _same_texts(expected: TokenReader, decoder: Decoder, records: RecordReader, progress: Progress) -> None:
    texts = (text for block in records.blocks(1 << 26) for batch in records.texts(block) for text in batch.texts)
    number = 0
    for batch in batches(expected, 0, expected.info.sequences):
        for sequence in batch:
            if next(texts, None) != decoder.decode(sequence):
                raise VerificationError(f"the text of sequence {number:,} of the destination differs; it was removed")
            number += 1
        progress.advance(len(batch.tokens))
    if next(texts, None) is not None:
        raise VerificationError("the destination holds more records than the source; it was removed")


def verify_records(expected: Iterator[bytes], path: Path, format_: Format, progress: Progress) -> None:
    """Compare copied records with the lines they should be."""
    source = open_source([path], format=format_.name)
    if not isinstance(source.reader, RecordReader):
        raise VerificationError("the destination does not hold records; it was removed")
    progress.phase("verifying", source.reader.info.size, "bytes")
    found = lines_of([source.reader], None, progress)
    for number, line in enumerate(expected):
        if next(found, None) != line:
            raise VerificationError(f"record {number:,} of the destination differs; it was removed")
    if next(found, None) is not None:
        raise VerificationError("the destination holds more records than the source; it was removed")


def lines_of(
    readers: Sequence[RecordReader], selection: str | None, progress: Progress | None = None
) -> Iterator[bytes]:
    """The selected records of all readers, as they stand, without line ends."""
    for k, block in selected_blocks(readers, selection):
        for batch in readers[k].lines(block):
            yield from batch.lines
            if progress is not None:
                progress.advance(sum(len(line) + 1 for line in batch.lines))
