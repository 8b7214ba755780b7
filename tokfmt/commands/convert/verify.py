"""Read a destination back and compare it with the source, before it is published."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from xxhash import xxh3_128, xxh3_128_digest

from tokfmt.base.options import given_options
from tokfmt.commands.compare.fingerprint import Fingerprints, Hashing, RecordSide, Utf8, cuts, fingerprints, hash_axis
from tokfmt.commands.convert.arrangement import stored_axis
from tokfmt.commands.convert.losses import Content
from tokfmt.core.format import REGION, Decoder, Format, Target, empty_sequences
from tokfmt.core.reader import Separators, TokenReader, batches, windows
from tokfmt.core.records import RecordReader
from tokfmt.errors import VerificationError
from tokfmt.files.place import LocalPlace
from tokfmt.formats.jsonl.lines import TextFile
from tokfmt.model.readers import ContentReader, from_reader
from tokfmt.model.select import Slice
from tokfmt.run.plan import Workers
from tokfmt.run.progress import Progress
from tokfmt.source.ingest import as_stored
from tokfmt.source.open import open_dataset
from tokfmt.source.request import EosChoice, Options, SourceRequest
from tokfmt.source.stored import Source
from tokfmt.wording import printable


def verify_tokens(
    content: Content,
    path: Path,
    format_: Format,
    target: Target,
    options: Options,
    workers: Workers,
    progress: Progress,
) -> dict[str, int]:
    """Compare a destination with its content by sequence; return counts of "sequences" and "tokens", or "texts"."""
    expected: TokenReader = content.reader
    eos: EosChoice = "none"
    bos: EosChoice = "none" if target.bos_id is None else target.bos_id
    if target.separators is not Separators.NONE and target.eos_id is not None:
        eos = target.eos_id
        if content.embedded:
            expected = ContentReader(from_reader(stored_axis(expected, target), eos, where=target.separators))
    # The presumption that no sequence is empty is known to be wrong if one is.
    every_end = isinstance(eos, int) and empty_sequences(expected)[0] > 0
    request = SourceRequest((path,), format_.name, eos, given_options(options), bos=bos, every_end=every_end)
    source = open_dataset(request)
    reader = source.reader
    if isinstance(reader, RecordReader):  # They are compared as they are stored.
        expected = expected if target.bos_id is None else stored_axis(expected, target)
        compared = compare_records(expected, target.decoder, as_stored(reader), workers, progress)
    else:
        progress.phase("verifying", expected.info.tokens, "tokens")
        if (
            content.embedded and target.separators is Separators.BETWEEN
        ):  # A separator after the last document may be padding.
            expected, reader = _ended(expected), _ended(reader)
        compare(expected, reader, workers, progress, last_labels="last-labels" not in content.losses)
        compared = {"sequences": reader.info.sequences, "tokens": reader.info.tokens}
    reader.close()
    return compared


def _ended(reader: TokenReader) -> TokenReader:
    """Return the sequences up to the last one that is not empty."""
    tokens = reader.info.tokens
    return Slice(reader, 0, reader.sequence_at(tokens - 1) + 1 if tokens else 0)


def compare(
    expected: TokenReader, written: TokenReader, workers: Workers, progress: Progress, *, last_labels: bool = True
) -> None:
    """Compare the sequences, loss masks and labels of two axes; with `last_labels`, the last label of samples too."""
    _same_number("sequences", written.info.sequences, expected.info.sequences)
    _same_number("tokens", written.info.tokens, expected.info.tokens)
    for a, b in windows(0, expected.info.sequences):
        wrong = np.flatnonzero(expected.offsets(a, b) != written.offsets(a, b))
        if len(wrong):
            at = a + int(wrong[0]) - 1
            raise VerificationError(f"sequence {at:,} of the destination has another length; it was removed")
    intervals = list(windows(0, expected.info.tokens, REGION))
    shared = (expected, written, last_labels)
    tasks = workers.map(_first_difference, shared, intervals)
    for length, position in tasks:
        if position >= 0:
            raise VerificationError(f"token position {position:,} of the destination differs; it was removed")
        progress.advance(length)


def compare_records(
    expected: TokenReader, decoder: Decoder | None, records: RecordReader, workers: Workers, progress: Progress
) -> dict[str, int]:
    """Compare records with sequences by fingerprints of IDs or texts, in 32 bytes of memory per record."""
    progress.phase("verifying", records.info.size, "bytes")
    side = RecordSide(records, None if decoder is None else Utf8(), workers, progress.advance)
    name = "sequences" if decoder is None else "texts"
    _same_number(name, side.count, expected.info.sequences)
    wanted = np.empty((expected.info.sequences, 2), np.uint64)
    progress.phase("verifying", expected.info.tokens, "tokens")
    if decoder is None:
        hash_axis(Hashing(expected, (expected.tokens,)), 0, wanted, workers, progress.advance)
    else:
        tasks = workers.map(_hash_decoded, (expected, decoder), cuts(expected, 0, len(wanted)))
        for first, prints, tokens in tasks:
            wanted[first : first + len(prints)] = prints
            progress.advance(tokens)
    wrong = np.flatnonzero((side.fingerprints(0, workers, progress.advance) != wanted).any(1))
    if len(wrong):
        subject = "" if decoder is None else "the text of "
        raise VerificationError(f"{subject}sequence {int(wrong[0]):,} of the destination differs; it was removed")
    return {name: side.count} if decoder is not None else {name: side.count, "tokens": side.tokens}


def _same_number(unit: str, got: int, wanted: int) -> None:
    if wanted != got:
        raise VerificationError(f"the destination holds {got:,} {unit}, the source {wanted:,}; it was removed")


def _hash_decoded(shared: tuple[TokenReader, Decoder], cut: tuple[int, int]) -> tuple[int, Fingerprints, int]:
    """Return the number of the first sequence of a cut, the fingerprints of the decoded texts, and their tokens."""
    reader, decoder = shared
    prints, total = [np.empty((0, 2), np.uint64)], 0
    for batch in batches(reader, *cut):
        prints.append(fingerprints(Utf8().encode([decoder.decode(sequence) for sequence in batch])))
        total += len(batch.tokens)
    return cut[0], np.concatenate(prints), total


def _first_difference(shared: tuple[TokenReader, TokenReader, bool], interval: tuple[int, int]) -> tuple[int, int]:
    """Return the length of an interval, and the first position where IDs, loss masks or labels differ (-1 if none)."""
    expected, written, last_labels = shared
    for a, b in windows(*interval):
        different = expected.tokens(a, b) != written.tokens(a, b)
        if (
            expected.has_labels and written.has_labels and expected.shifted == written.shifted
        ):  # samples stored as they are, with any labels
            other = expected.masks(a, b) != written.masks(a, b)
            other |= expected.labels(a, b) != written.labels(a, b)
            if not last_labels:
                ends = expected.offsets(expected.sequence_at(a), expected.sequence_at(b - 1) + 1)[1:] - 1
                other[ends[(ends >= a) & (ends < b)] - a] = False
            different |= other
            wanted = marks = None
        else:
            wanted, marks = expected.marks(a, b), written.marks(a, b)
        if wanted is not None and marks is not None:
            flags = (wanted ^ marks) & 1 != 0
            if written.has_labels:  # a label is stored at the token before it, so the first token has none
                firsts = expected.offsets(expected.sequence_at(a), expected.sequence_at(b - 1) + 1)
                flags[firsts[(firsts >= a) & (firsts < b)] - a] = False
            different |= flags
        wrong = np.flatnonzero(different)
        if len(wrong):
            return interval[1] - interval[0], a + int(wrong[0])
    return interval[1] - interval[0], -1


class _Stretch(NamedTuple):
    """Some expected records."""

    records: int
    size: int  # bytes of their lines, line ends included
    digest: bytes  # of these bytes


def verify_records(
    text: Callable[[Any, Any], Iterator[bytes]],
    shared: object,
    items: Sequence[object],
    path: Path,
    workers: Workers,
    progress: Progress,
    *,
    records: int | None = None,
) -> dict[str, int]:
    """Compare a JSON Lines destination with the expected lines, some megabytes at a time. A worker calls `text` with
    `shared` and an item; it yields the expected text in pieces, line ends included.
    """
    done = workers.map(_stretch, (text, shared), list(enumerate(items)))
    wanted = [stretch for _, stretch in sorted(done)]
    sizes, file = [stretch.size for stretch in wanted], TextFile(LocalPlace(path))
    progress.phase("verifying", sum(sizes), "bytes")
    if file.compression is None:
        places = [(k, at, size) for k, (at, size) in enumerate(zip(accumulate(sizes, initial=0), sizes, strict=False))]
        read = workers.map(_read_back, file, places)
    else:  # compressed text can only be read from its start
        read = ((k, xxh3_128_digest(part)) for k, part in enumerate(islice(_parts(file, sizes), len(sizes))))
    wrong = len(sizes)
    for k, digest in read:
        progress.advance(sizes[k])
        if digest != wanted[k].digest:
            wrong = min(wrong, k)
    there = next(islice(_parts(file, sizes), wrong, None))
    if wrong < len(sizes):
        lines = zip_longest(b"".join(text(shared, items[wrong])).splitlines(True), there.splitlines(True))
        record = sum(stretch.records for stretch in wanted[:wrong])
        record += next(k for k, (one, other) in enumerate(lines) if one != other)
        raise VerificationError(f"record {record:,} of the destination differs; it was removed")
    if there:
        raise VerificationError("the destination holds more records than the source; it was removed")
    compared = sum(stretch.records for stretch in wanted)
    if records is not None:
        _same_number("records", compared, records)
    return {"records": compared}


def verify_counts(counts: Iterable[tuple[Source, int, int | None]]) -> None:
    """Compare the number of records that were read of each source with the number that it holds."""
    for source, read, selected in counts:
        records = source.reader.count() if selected is None and isinstance(source.reader, RecordReader) else selected
        if read != records:
            path = printable(source.paths[0])
            raise VerificationError(
                f"{path}: {read:,} of its {records:,} records were read; the destination was removed"
            )


def _stretch(shared: tuple[Callable[[Any, Any], Iterator[bytes]], Any], item: tuple[int, Any]) -> tuple[int, _Stretch]:
    text, source = shared
    records, size, state = 0, 0, xxh3_128()
    for piece in text(source, item[1]):
        records, size = records + piece.count(b"\n"), size + len(piece)
        state.update(piece)
    return item[0], _Stretch(records, size, state.digest())


def _read_back(file: TextFile, place: tuple[int, int, int]) -> tuple[int, bytes]:
    number, at, size = place
    state = xxh3_128()
    for piece in file.passing(at, min(at + size, file.size)):
        state.update(piece)
    return number, state.digest()


def _parts(file: TextFile, sizes: Iterable[int]) -> Iterator[bytes]:
    """Yield the text of a file in parts of these sizes, and then a piece of the rest. A part is short at the end."""
    pieces, buffered = file.pieces(), bytearray()
    for size in sizes:
        while len(buffered) < size and (piece := next(pieces, b"")):
            buffered += piece
        yield bytes(buffered[:size])
        del buffered[:size]
    yield bytes(buffered) or next(pieces, b"")
