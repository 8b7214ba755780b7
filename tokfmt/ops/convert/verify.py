"""Read a destination back and compare it with its source, before it appears."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tokfmt.core.axis import Separators, TokenReader, batches, sequence_at, windows
from tokfmt.core.errors import VerificationError
from tokfmt.core.format import REGION, Decoder, Format
from tokfmt.core.protocols import Sampled, marks_of
from tokfmt.core.records import RecordReader
from tokfmt.ops.compare.fingerprint import Fingerprints, Hashing, RecordSide, Utf8, cuts, fingerprints, hash_axis
from tokfmt.ops.convert.lines import selected_blocks
from tokfmt.ops.convert.losses import Prepared
from tokfmt.ops.progress import Progress
from tokfmt.ops.source.opened import open_source
from tokfmt.ops.source.request import EosChoice, Options
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
) -> dict[str, int]:
    """Compare the destination at `path` with what was to be written, sequence by sequence.

    Returns:
        What was read back and compared: how many "sequences" and "tokens", or "texts".

    Raises:
        VerificationError: With the first difference.
    """
    expected: TokenReader = prepared.reader
    where = prepared.embedded
    if where is not None and isinstance(eos, int):
        expected = SplitAt(WithSeparators(expected, eos, before=where is Separators.BEFORE), eos, where=where)
    source = open_source([path], format=format_.name, eos=eos, options=options)
    if isinstance(source.reader, RecordReader):
        compared = compare_records(expected, decoder, source.reader, workers, progress)
    else:
        progress.phase("verifying", expected.info.tokens, "tokens")
        compare(expected, source.reader, workers, progress)
        compared = {"sequences": source.reader.info.sequences, "tokens": source.reader.info.tokens}
    source.reader.close()
    return compared


def compare(expected: TokenReader, found: TokenReader, workers: Workers, progress: Progress) -> None:
    """Raise VerificationError unless both axes hold the same sequences."""
    _same_number("sequences", found.info.sequences, expected.info.sequences)
    _same_number("tokens", found.info.tokens, expected.info.tokens)
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


def compare_records(
    expected: TokenReader, decoder: Decoder | None, records: RecordReader, workers: Workers, progress: Progress
) -> dict[str, int]:
    """Compare records with sequences by their fingerprints: ids with ids, or text with what they decode to.

    Holds 32 bytes a record.

    Returns:
        What was compared, in words and numbers.

    Raises:
        VerificationError: With the first record that differs.
    """
    progress.phase("verifying", records.info.size, "bytes")
    side = RecordSide(records, None if decoder is None else Utf8(), workers, progress.advance)
    name = "sequences" if decoder is None else "texts"
    _same_number(name, side.count, expected.info.sequences)
    wanted = np.empty((expected.info.sequences, 2), np.uint64)
    progress.phase("verifying", expected.info.tokens, "tokens")
    if decoder is None:
        hash_axis(Hashing(expected, (expected.tokens,)), 0, wanted, workers, progress.advance)
    else:
        tasks = run_tasks(
            _hash_decoded, (expected, decoder), cuts(expected, 0, len(wanted)), workers.executor, workers.jobs,
            workers.scratch,
        )  # fmt: skip
        for first, prints, tokens in tasks:
            wanted[first : first + len(prints)] = prints
            progress.advance(tokens)
    wrong = np.flatnonzero((side.fingerprints(0, workers, progress.advance) != wanted).any(1))
    if len(wrong):
        what = "" if decoder is None else "the text of "
        raise VerificationError(f"{what}sequence {int(wrong[0]):,} of the destination differs; it was removed")
    return {name: side.count} if decoder is not None else {name: side.count, "tokens": side.tokens}


def _same_number(what: str, got: int, wanted: int) -> None:
    if wanted != got:
        raise VerificationError(f"the destination holds {got:,} {what}, the source {wanted:,}; it was removed")


def _hash_decoded(shared: tuple[TokenReader, Decoder], cut: tuple[int, int]) -> tuple[int, Fingerprints, int]:
    """The task: the first sequence, fingerprints of what they decode to, how many tokens they are."""
    reader, decoder = shared
    found, total = [np.empty((0, 2), np.uint64)], 0
    for batch in batches(reader, *cut):
        found.append(fingerprints(Utf8().encode([decoder.decode(sequence) for sequence in batch])))
        total += len(batch.tokens)
    return cut[0], np.concatenate(found), total


def _first_difference(shared: tuple[TokenReader, TokenReader], interval: tuple[int, int]) -> tuple[int, int]:
    """Length of the interval, and the first position where ids or loss masks differ (-1 if none does)."""
    expected, found = shared
    for a, b in windows(*interval):
        different = expected.tokens(a, b) != found.tokens(a, b)
        wanted, marks = marks_of(expected, a, b), marks_of(found, a, b)
        if wanted is not None and marks is not None:
            flags = (wanted ^ marks) & 1 != 0
            if isinstance(found, Sampled):  # which store a label at the token before it: the first of all has none
                firsts = expected.offsets(sequence_at(expected, a), sequence_at(expected, b - 1) + 1)
                flags[firsts[(firsts >= a) & (firsts < b)] - a] = False
            different |= flags
        wrong = np.flatnonzero(different)
        if len(wrong):
            return interval[1] - interval[0], a + int(wrong[0])
    return interval[1] - interval[0], -1


def verify_records(expected: Iterator[bytes], path: Path, format_: Format, progress: Progress) -> dict[str, int]:
    """Compare copied records with the lines they should be."""
    source = open_source([path], format=format_.name)
    if not isinstance(source.reader, RecordReader):
        raise VerificationError("the destination does not hold records; it was removed")
    progress.phase("verifying", source.reader.info.size, "bytes")
    found, count = lines_of([source.reader], None, progress), 0
    for line in expected:
        if next(found, None) != line:
            raise VerificationError(f"record {count:,} of the destination differs; it was removed")
        count += 1
    if next(found, None) is not None:
        raise VerificationError("the destination holds more records than the source; it was removed")
    return {"records": count}


def lines_of(
    readers: Sequence[RecordReader], selection: str | None, progress: Progress | None = None
) -> Iterator[bytes]:
    """The selected records of all readers, as they stand, without line ends."""
    for k, block in selected_blocks(readers, selection):
        for batch in readers[k].lines(block):
            yield from batch.lines
            if progress is not None:
                progress.advance(sum(len(line) + 1 for line in batch.lines))
