"""Compare a dataset with its manifest, its ledger, a tokenizer, and the corpus that it was made from.

Files      numbers in their names, widths of their tokens
Content    tokens at all, sequences without a token that counts in the loss, and separators and BOS where they should be
Manifest   size, checksum and counts of what was written
Ledger     number of rows, and with --deep every row
Tokenizer  IDs, end of text, and the text that IDs decode to
Corpus     document by document, in order

A corpus is compared by fingerprints of its documents. A text is tokenized for this, and nothing is written. The
fingerprints are aligned as by `tokfmt diff`, so a document that only moved is never reported as missing. The comparison
holds 16 bytes per document of either side, and 96 bytes while it aligns them.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.threads import in_threads
from tokfmt.commands.check.doubled import Doubled, doubled_in
from tokfmt.commands.compare.alignment import Step, Stretch, aligned, check_room, surpluses
from tokfmt.commands.compare.fingerprint import AxisSide, Fingerprints, Side, empty_fingerprint, hands, read_records
from tokfmt.core.findings import Finding
from tokfmt.core.loss_mask import MASKED_END, TARGET, UNENDED
from tokfmt.core.losses import READS
from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import Layout, Separators, TokenReader, largest_id, windows
from tokfmt.core.records import RecordReader, has_records
from tokfmt.core.tokenizer_ids import TokenizerIds, wrapped_bits
from tokfmt.errors import FormatError, OptionError, TokfmtError
from tokfmt.files.file import EMPTY, is_empty
from tokfmt.files.place import Place
from tokfmt.files.shard_names import names_by_directory, shard_problem
from tokfmt.formats.flat import FlatFormat
from tokfmt.model.batch import SEP
from tokfmt.model.dataset import Dataset
from tokfmt.model.gap import Gap
from tokfmt.model.readers import ContentReader, dataset_of, is_divided, is_unfinished
from tokfmt.model.separator import unled
from tokfmt.run.progress import Progress
from tokfmt.source.content import Manifest, dataset_path
from tokfmt.source.ingest import encoder_of
from tokfmt.source.manifest import (
    file_differences,
    fingerprint,
    ledger_paths,
    manifests_of_siblings,
    own_manifest,
    read_manifest,
    written_files,
)
from tokfmt.source.open import open_dataset
from tokfmt.source.request import Reading, SourceFiles, SourceRequest, viewed
from tokfmt.source.stored import Source, without_leads
from tokfmt.wording import grouped, printable

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import SpecialTokens, TokenizerHandle


_COPY = "Copy it again; if it was changed on purpose, remove the manifest"


class Splits:
    """The datasets that manifests name as splits of one run. Each manifest is read once."""

    def __init__(self) -> None:
        self._named: dict[tuple[Place, str], dict[str, tuple[str, int]]] = {}

    def missing(self, path: Place, place: Place) -> Iterator[Finding]:
        """Report a dataset without a manifest, if that of another split names it.

        The manifests of splits appear when all of them are there. A run that is killed before leaves them in hidden
        directories.
        """
        dataset = dataset_path(place)
        group = place.parent, "" if place.is_local else dataset.name.partition(".")[0]
        if group not in self._named:
            self._named[group] = {
                name: (_shown(manifest.path, place.parent), len(names))
                for manifest in manifests_of_siblings(dataset)
                for names in [manifest.split_names]
                for name in names
            }
        named = self._named[group].get(dataset.name)
        if named is not None:
            problem = "has no manifest, and {} names it as one of {:,} splits. ".format(*named)
            problem += "Manifests of splits are written when all of them are there"
            remedy = "If their conversion was interrupted, repeat it with --overwrite; otherwise remove their manifests"
            yield Finding("TF910", "error", str(path), problem, remedy)


def _shown(manifest: Place, home: Place) -> str:
    return printable(manifest.name if manifest.parent == home else f"{manifest.parent.name}/{manifest.name}")


def file_findings(dataset: SourceFiles, deep: bool, jobs: int, progress: Progress, splits: Splits) -> Iterator[Finding]:
    """Compare the format, the size and the number of files with the manifest; if deep, the checksum as well."""
    path, manifest = dataset.path, own_manifest(dataset)
    if not manifest.path.is_there():
        yield from splits.missing(path, manifest.path)
        return
    if not manifest.output:
        why = f": {manifest.broken}" if manifest.broken else ""
        problem = f"is not a valid manifest{why}"
        yield Finding("TF910", "warning", str(manifest.path), problem, "Remove it, or restore it")
        return
    try:
        wrong = {quantity: (expected, found) for quantity, expected, found in file_differences(dataset, manifest)}
        if "the format" in wrong:
            problem = f"is {dataset.format.name}; its manifest states {printable(manifest.content.get('format'))}"
            yield Finding("TF913", "error", str(path), problem, "The manifest belongs to another dataset of this name")
            return
        if wrong:
            sizes = [(key, wrong[key]) for key in ("bytes", "files") if key in wrong]
            differences = [
                f"{found:,} {key}, the manifest states {_number(expected)}" for key, (expected, found) in sizes
            ]
            yield Finding("TF911", "error", str(path), f"has {' and '.join(differences)}", _COPY)
        elif deep:
            progress.phase(f"checksum of {path.name}", 0, "bytes")
            digest = fingerprint(path, written_files(dataset.format, path, dataset.files), jobs, dataset.opened)[
                "xxh3_128"
            ]
            if digest != manifest.output.get("xxh3_128"):
                yield Finding(
                    "TF912",
                    "error",
                    str(path),
                    f"has the checksum {digest}, the manifest states {printable(manifest.output.get('xxh3_128'))}",
                    _COPY,
                )
    except FormatError as error:
        yield Finding("TF911", "error", error.path, error.what, _COPY)
    yield from _sources(manifest, path)


def _sources(manifest: Manifest, path: Place) -> Iterator[Finding]:
    """Report sources in the directory of the dataset whose size is not that of the manifest.

    A manifest may come from anyone. Files in other directories are not examined, so that no message reveals whether
    they exist and how large they are. No directory is listed.
    """
    if not path.is_local:
        return
    sources, home = manifest.content.get("sources"), path.parent.real().text
    for source in sources if isinstance(sources, list) else []:
        name, bytes_ = (source.get("path"), source.get("bytes")) if isinstance(source, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(bytes_, int) or "\0" in name or source.get("files") != 1:
            continue
        if os.path.dirname(os.path.realpath(name)) != home or not os.path.isfile(name):
            continue
        size = os.stat(name).st_size
        if size != bytes_:
            yield Finding(
                "TF914",
                "info",
                str(path),
                f"its source {printable(name)} has {size:,} bytes now, and had {_number(bytes_)} when it was converted",
                "If it should follow its source, convert again",
            )


def ledger_findings(dataset: SourceFiles, asked: SourceRequest, *, deep: bool) -> Iterator[Finding]:
    """Check the number of rows of a ledger that is there or in the manifest; if deep, each row with its sequence."""
    manifest, about = own_manifest(dataset).ledger, ledger_paths(dataset.path)[1]
    if not about.exists() and not dataset.path.is_symlink():
        if manifest:
            problem = f"has no ledger {printable(about.name)}; its manifest lists one"
            yield Finding(
                "TF916", "warning", str(dataset.path), problem, "Copy it again, or convert again with --ledger"
            )
        return
    from tokfmt.mix import compare_ledger, read_ledger  # imports every module of recipes

    try:
        ledger = read_ledger(dataset.path, dataset.format.name)
    except FormatError as error:
        yield Finding.of("TF916", error)
        return
    if ledger is not None and manifest and manifest.get("rows") != len(ledger.rows):
        problem = (
            f"has {len(ledger.rows):,} rows, the manifest of {dataset.path.name} states {_number(manifest.get('rows'))}"
        )
        yield Finding("TF916", "error", str(ledger.path), problem, "Copy both again, or convert again with --ledger")
        return
    if not deep:
        return
    request = replace(asked, format=dataset.format.name, every_end=True)
    request = viewed(request, dataset.format, "samples") if ledger is not None and ledger.unit == "samples" else request
    try:
        reader = open_dataset(request).reader
    except TokfmtError:  # reported where the dataset itself is read
        return
    try:
        if ledger is not None and isinstance(reader, TokenReader):
            compare_ledger(ledger, reader)
    except FormatError as error:
        yield Finding.of("TF916", error)
    finally:
        reader.close()


def other_findings(dataset: SourceFiles) -> Iterator[Finding]:
    """Report empty files of a dataset, and files in its directory that do not belong to it."""
    bare = isinstance(dataset.format, FlatFormat) and not own_manifest(dataset).output
    for file in dataset.files if bare else ():  # An empty file of JSON lines is a corpus without a document.
        if is_empty(file):
            yield Finding("TF919", "warning", str(file), EMPTY, "Copy it again, or remove it")
    if dataset.left_out:
        problem = f"is read as {dataset.format.name}, which leaves out {dataset.left_out}"
        yield Finding(
            "TF915",
            "warning",
            str(dataset.path),
            problem,
            "convert, stats, show and diff refuse it; see `tokfmt check --explain TF915`",
        )


_NUMBER = re.compile(r"(\d+)(?![0-9A-Za-z])")
"""A number in the name of a file; the digits of a hash have letters behind them."""


def number_findings(dataset: SourceFiles) -> Iterator[Finding]:
    """Report numbers that are left out in the names of the files of a directory.

    Numbers are compared among names that are equal before them. If most of them are left out, they do not count files.
    """
    if not dataset.format.numbers_files or not dataset.path.is_dir():
        return
    counted: dict[tuple[object, ...], dict[int, str]] = {}
    for file in dataset.files:
        parts = _NUMBER.split(file.name)
        for k in range(1, len(parts), 2):
            key = file.parent, "".join(parts[:k]), parts[k + 1], parts[-1], k + 2 == len(parts)
            counted.setdefault(key, {})[int(parts[k])] = parts[k]
    told = set[tuple[object, int]]()  # a file may have others of its number beside it
    for (home, before, behind, end, last), numbers in counted.items():
        low, high = min(numbers), max(numbers)
        if not 0 < (missing := high - low + 1 - len(numbers)) < len(numbers):
            continue
        first = next(number for number in range(low, high) if number not in numbers)
        if ((home, before), first) in told:
            continue
        told.add(((home, before), first))
        width = len(numbers[low]) if len(numbers[low]) == len(numbers[high]) else 0
        name = printable(f"{before}{first:0{width}}{behind}{'' if last else f'*{end}'}")
        more = f" and {missing - 1:,} more" if missing > 1 else ""
        problem = f"lacks {name}{more}: the others are numbered from {low:,} to {high:,}"
        yield Finding("TF917", "warning", str(dataset.path), problem, "Find it, unless it was left out on purpose")


def empty_findings(path: Place, reader: TokenReader | RecordReader) -> Iterator[Finding]:
    """Report a dataset that holds no tokens, or no records."""
    try:
        if has_records(reader) if isinstance(reader, RecordReader) else reader.info.tokens:
            return
    except TokfmtError:  # reported where records are read
        return
    problem = "holds no records" if isinstance(reader, RecordReader) else "holds no tokens"
    remedy = "Make sure that this is intended: a packer that fails leaves the same, with exit code 0"
    yield Finding("TF941", "warning", str(path), problem, remedy)


def width_findings(path: Place, reader: TokenReader) -> Iterator[Finding]:
    """Report files whose tokens have another number of bytes than those of the first file."""
    stored = dataset_of(reader).axis.readers()
    pieces = [piece for one in stored if one.length for piece in one.pieces(0, one.length) or ()]
    files = {piece.dtype.itemsize: piece.file.path.name for piece in reversed(pieces)}
    if len(files) > 1:
        widths = ", ".join(f"{width} bytes in {printable(name)}" for width, name in sorted(files.items()))
        problem = f"its files have tokens of several widths ({widths})"
        yield Finding(
            "TF943", "warning", str(path), problem, "Find out which tokenizer made each file, and convert them"
        )


class Counted:
    """A search for sequences without a token that counts in the loss; it holds 1 byte per sequence."""

    def __init__(self, reader: TokenReader) -> None:
        self.reader = reader
        self.counts = np.zeros(reader.info.sequences, np.bool_)
        self.separated = isinstance(reader, ContentReader)
        """True if the marks of removed separators are those of the tokens before them."""

    @staticmethod
    def of(reader: TokenReader) -> Counted | None:
        """Return a search; None if the dataset has no masks."""
        return None if reader.marks(0, 0) is None else Counted(reader)

    def search(self, start: int, tokens: Tokens) -> None:
        """Look at the marks of the tokens from position `start` on. Threads may call this."""
        stop = start + len(tokens)
        marks = self.reader.marks(start, stop)
        if marks is None or start == stop:
            return
        first = self.reader.sequence_at(start)
        bounds = self.reader.offsets(first, self.reader.sequence_at(stop - 1) + 1)
        counted = marks & TARGET != 0
        if self.separated:
            ends = bounds[1:][(bounds[1:] > start) & (bounds[1:] <= stop)] - 1 - start
            counted[ends] |= marks[ends] & (MASKED_END | UNENDED) == 0
        at = np.flatnonzero(counted) + start
        self.counts[first + np.unique(np.searchsorted(bounds, at, side="right")) - 1] = True

    def findings(self, path: Place) -> Iterator[Finding]:
        """Report the sequences without a token that counts, once every token was looked at."""
        lengths = np.diff(self.reader.offsets(0, len(self.counts)))
        silent = np.flatnonzero(~self.counts & (lengths > 0))
        if len(silent):
            problem = f"{len(silent):,} of {len(self.counts):,} sequences have no token that counts in the loss"
            remedy = "Remove them: they add nothing to training"
            yield Finding("TF942", "warning", str(path), f"{problem} (first: sequence {silent[0]:,})", remedy)


_LOOKED_AT = 256  # sequences whose ends show the ID that ends most of them
_FEWEST = 8  # fewer sequences may end alike by chance
_BEGUN, _BEGUN_TOKENS = 4, 1 << 12  # runs of documents whose beginnings are looked at, and tokens of each
_STARTS = 1 << 18  # documents whose first IDs are read together
_MOST = 0.75  # share of sequences that end with an ID from which on it is taken for the separator


class Endings:
    """A search for separators that documents of an index lack, end with twice, or hold inside."""

    def __init__(self, reader: TokenReader, eos_id: int, *, removed: bool) -> None:
        # eos_id: the separator that was removed from ends; else the ID that ends most sequences
        self.reader, self.eos_id, self._removed = reader, eos_id, removed
        self.ended, self._lock = 0, threading.Lock()
        # sequences that are not empty and lack it, that end with it twice, or hold it inside: how many, and the first
        self.lack = self.twice = self.inside = (0, -1)
        self.is_doubled = False  # most that end with it end with it twice; known once findings were asked for

    @staticmethod
    def of(source: Source) -> Endings | None:
        """Return a search; None for streams and samples, or if no ID ends most sequences."""
        reader = source.stored_documents
        if reader is None or reader.is_split:
            return None
        gap = dataset_of(reader).gap
        if gap.id is not None:
            return Endings(reader, gap.id, removed=True)
        usual = None
        with suppress(TokfmtError):  # reported where all tokens are read
            usual = _usual_end(reader)
        return None if usual is None else Endings(reader, usual, removed=False)

    def search(self, start: int, tokens: Tokens) -> None:
        """Look at the tokens from position `start` on. Threads may call this."""
        separators = np.flatnonzero(tokens == self.eos_id)
        if not len(tokens) or (self._removed and not len(separators)):
            return
        first = self.reader.sequence_at(start)
        bounds = self.reader.offsets(first, self.reader.sequence_at(start + len(tokens) - 1) + 1) - start
        there = np.flatnonzero((bounds[1:] > bounds[:-1]) & (bounds[1:] > 0) & (bounds[1:] <= len(tokens)))
        last = bounds[1:][there] - 1
        ends = tokens[last] == self.eos_id
        before = np.zeros(len(last), np.bool_)
        if not self._removed:  # The token before the end, in this window or before it.
            long = np.flatnonzero(ends & (bounds[1:][there] - bounds[:-1][there] > 1))
            filled = long[last[long] > 0]
            before[filled] = tokens[last[filled] - 1] == self.eos_id
            for k in long[last[long] == 0].tolist():
                before[k] = self.reader.tokens(start - 1, start).item() == self.eos_id
        twice = there[ends if self._removed else before]
        closing = np.concatenate((last[ends], last[before] - 1))
        inside = separators[~np.isin(separators, closing)]
        numbers = np.searchsorted(bounds, inside, side="right") - 1
        with self._lock:
            self.ended += int(np.count_nonzero(ends))
            if not self._removed:
                self.lack = _added(self.lack, first + there[~ends])
            self.twice = _added(self.twice, first + twice)
            self.inside = _added(self.inside, first + numbers)

    def findings(self, path: Place) -> Iterator[Finding]:
        """Report what was found, once every token was looked at."""
        count, query = self.reader.info.sequences, f"token:{self.eos_id}"
        if self._removed:
            self.ended = 0
            for numbers, closed, lengths in _closed(self.reader):
                self.ended += int(np.count_nonzero(closed))
                self.lack = _added(self.lack, numbers[~closed & (lengths > 0)])
        elif self.inside[0] > self.ended / 2:  # A full stop ends most texts as well.
            return
        of, first = f"of {count:,} documents", "first: document"
        if self.ended and self.lack[0] and not _are_rows(self.reader):
            problem = f"{self.lack[0]:,} {of} do not end with the separator {self.eos_id:,}, as others do"
            remedy = "They may be cut: compare them with their source"
            yield Finding("TF944", "warning", str(path), f"{problem} ({first} {self.lack[1]:,})", remedy)
        self.is_doubled = self.twice[0] > self.ended / 2  # If few do, a text ended with its spelling.
        if self.is_doubled:
            yield _doubled_finding(path, Doubled(self.twice[0], count, self.twice[1]), self.eos_id)
        inside = self.inside if self.is_doubled or not self.twice[0] else _joined(self.inside, self.twice)
        if inside[0]:
            problem = f"the separator {self.eos_id:,} occurs inside documents {inside[0]:,}x"
            remedy = (
                "Formats that split at it cannot store these documents: --allow-loss embedded-separators splits there"
            )
            yield Finding("TF946", "info", str(path), f"{problem} ({first} {inside[1]:,})", remedy, query=query)


def _joined(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """Return the sum of two numbers of sequences that are not 0, and the first of both."""
    return (a[0] + b[0], min(a[1], b[1])) if a[0] else b


def _added(sum_: tuple[int, int], numbers: NDArray[np.int64]) -> tuple[int, int]:
    """Return a number of sequences and the first of them, with further ones."""
    if not len(numbers):
        return sum_
    return _joined(sum_, (len(numbers), int(numbers[0])))


def _closed(reader: TokenReader) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]]:
    """Yield numbers of sequences, whether the source has a separator beside each, and their lengths."""
    dataset = dataset_of(reader)
    for a, b in windows(0, len(dataset)):
        starts, stops, beside = dataset.contents(a, b)
        yield np.arange(a, b), beside & SEP != 0, stops - starts


def _are_rows(reader: TokenReader) -> bool:
    """Return whether all sequences but the last have one length, with their separators: rows that were cut alike."""
    spans, lengths = dataset_of(reader).spans, set[int]()
    for a, b in windows(0, spans.count - 1, _STARTS):
        starts, stops = spans.extents(a, b)
        lengths.update(np.unique(stops - starts)[:2].tolist())
    return len(lengths) == 1 and spans.count > _FEWEST and lengths != {1}


def _usual_end(reader: TokenReader) -> int | None:
    """Return the ID with which most of the sequences end that were looked at; None without one."""
    count = reader.info.sequences
    numbers = np.unique(np.linspace(0, max(count - 1, 0), min(count, _LOOKED_AT)).astype(np.int64)).tolist()
    bounds = [reader.offsets(number, number + 1).tolist() for number in numbers]
    ends = [reader.tokens(stop - 1, stop).item() for start, stop in bounds if start < stop]
    if len(ends) < _FEWEST:
        return None
    usual, often = Counter(ends).most_common(1)[0]
    return usual if often >= _MOST * len(ends) else None


def missing_findings(path: Place, source: Source) -> Iterator[Finding]:
    """Report a separator that is known from elsewhere, if none of the documents that were looked at ends with it."""
    gap = Gap() if source.dataset is None else source.dataset.gap
    if gap.id is not None and gap.stored and not gap.closed and gap.lack >= _FEWEST:
        seen = f"{gap.lack:,} documents" + (" that were looked at" if gap.looked < gap.of else "")
        problem = f"none of {seen} ends with the separator {gap.id:,} ({source.separator.source})"
        remedy = "A trainer that reads them as one stream sees no boundary. A conversion to a pack adds one"
        yield Finding("TF944", "warning", str(path), problem, remedy)


def lead_findings(path: Place, source: Source, handle: TokenizerHandle | None) -> Iterator[Finding]:
    """Report a BOS with which a part of the documents begin.

    The BOS is that of --bos, of the manifest or of the tokenizer. Without these, it is an ID that begins several
    documents and that is outside of the range of all IDs behind the first of each, their last ones aside: a word that
    begins many texts is in others as well, and among the words. The rest is read only if the look shows a BOS.
    """
    reader = source.stored_documents
    if reader is None or not reader.info.tokens:
        return
    dataset = unled(dataset_of(reader))
    try:
        begun, shown = _beginnings(dataset)
        stated = source.bos_id if source.bos_id is not None or handle is None else handle.bos_id
        lead = shown if stated is None else stated
        if lead is None or not (begun == lead).any():
            return
        documents, lack = 0, (0, -1)
        for a, b in windows(0, len(dataset), _STARTS):
            starts, stops, _ = dataset.contents(a, b)
            full = np.flatnonzero(stops > starts)
            documents += len(full)
            lack = _added(lack, a + full[dataset.axis.at(starts[full]) != lead])
    except TokfmtError:  # reported where all tokens are read
        return
    if lack[0]:
        problem = f"{documents - lack[0]:,} of {documents:,} documents begin with the BOS {lead:,}, as others do not"
        remedy = f"If others should have it, convert it with --bos {lead} --to-bos {lead}, which adds it to these alone"
        yield Finding("TF948", "warning", str(path), f"{problem} (first: document {lack[1]:,})", remedy)


def _beginnings(dataset: Dataset) -> tuple[Tokens, int | None]:
    """Return the first IDs of a few runs of documents, spread over a dataset, and the BOS that these runs show."""
    count, run = len(dataset), _LOOKED_AT // _BEGUN
    firsts = np.unique(np.linspace(0, max(count - run, 0), _BEGUN).astype(np.int64)).tolist()
    extents = [dataset.contents(first, min(first + run, count)) for first in firsts]
    starts, lengths = np.concatenate([(one[0], one[1] - one[0]) for one in extents], axis=1)
    read = np.minimum(lengths, _BEGUN_TOKENS)
    tokens, stops = dataset.axis.gather(starts, read), np.cumsum(read)
    full = read > 0
    begun, inner = tokens[(stops - read)[full]], np.ones(len(tokens), np.bool_)
    inner[(stops - read)[full]] = inner[stops[full & (read == lengths)] - 1] = False
    usual, often = Counter(begun.tolist()).most_common(1)[0] if len(begun) else (0, 0)
    others = tokens[inner]
    apart = len(others) > len(begun) and not int(others.min()) <= usual <= int(others.max())
    return begun, usual if apart and often >= _FEWEST else None


def doubled_findings(path: Place, reader: TokenReader) -> Iterator[Finding]:
    """Report the documents of a stream that have two separators, if most of them have two."""
    doubled = doubled_in(reader) if reader.is_split else Doubled(0, 0, -1)
    if doubled.documents > doubled.of / 2:
        yield _doubled_finding(path, doubled, reader.info.eos_id or 0, dataset_of(reader).gap.side)


def _doubled_finding(path: Place, doubled: Doubled, eos_id: int, side: str = "after") -> Finding:
    verb = "begin" if side == "before" else "end"
    problem = f"{doubled.documents:,} of {doubled.of:,} documents {verb} with the separator {eos_id:,} twice"
    remedy = "The tokenizer and the packer each added one: pack the text again, or let --fix OUT leave one out"
    return Finding("TF945", "warning", str(path), f"{problem} (first: document {doubled.first:,})", remedy)


def unfinished_findings(path: Place, reader: TokenReader) -> Iterator[Finding]:
    """Report the last document of a stream if no separator follows it."""
    if is_unfinished(reader):
        place, last = reader.locate(reader.info.tokens - 1), reader.info.sequences - 1
        problem = f"no separator {reader.info.eos_id:,} follows its last document, {last:,}"
        remedy = "Copy it again if it was cut. A conversion adds a separator"
        where = (str(path), None) if place is None else (str(place.path), place.offset)
        yield Finding("TF947", "info", where[0], problem, remedy, where[1])


def shard_findings(dataset: SourceFiles) -> Iterator[Finding]:
    """Report a directory whose names of files state that one is missing, or that there are two sets of them."""
    for directory, names in names_by_directory(dataset.files if dataset.path.is_dir() else ()).items():
        if problem := shard_problem(names):
            yield Finding("TF918", "error", str(directory), problem, "Find the files, or keep those of one upload")


def count_findings(
    dataset: SourceFiles, source: Source, sequences: int | None, tokens: int | None, max_id: int | None = None
) -> Iterator[Finding]:
    """Compare the counts of a dataset with those of its manifest."""
    path, manifest, reader = dataset.path, own_manifest(dataset), source.reader
    eos_id, bos_id = source.separator.eos_id, source.bos_id
    # empty if the manifest counts several splits, and one was read
    counts = manifest.counts(samples=reader.info.is_samples, divided=is_divided(reader))
    alike = manifest.ids == (eos_id, bos_id)  # otherwise only one counts them
    compared = [("sequences", sequences), ("tokens", tokens if alike else None)]
    different = [(key, found, counts.get(key)) for key, found in compared if found not in (None, counts.get(key))]
    for key, found, expected in different:
        if isinstance(expected, int):
            problem = f"holds {found:,} {key}, the manifest states {expected:,}"
            remedy = "The manifest belongs to another dataset, or --eos differs from what was converted"
            yield Finding("TF913", "error", str(path), problem, remedy)
    stated = counts.get("max_id")
    if isinstance(stated, int) and max_id is not None and alike and tokens is not None and not different:
        largest = max(max_id, stated if stated in (eos_id, bos_id) else max_id)  # they count where they are stored
        if stated != largest:
            problem = f"has the largest ID {largest:,}, the manifest states {stated:,}"
            yield Finding("TF913", "error", str(path), problem, "The manifest belongs to another dataset")


def stored_count_findings(dataset: SourceFiles, source: Source) -> Iterator[Finding]:
    """Compare the counts of a dataset that was opened as it is stored, if they need no search for separators."""
    reader = source.reader
    if isinstance(reader, RecordReader) or reader.info.layout is Layout.STREAM:
        return
    info = reader.info
    if info.separators in (Separators.NONE, Separators.TRAILING):
        tokens = info.tokens if info.separators is Separators.NONE else None
        yield from count_findings(dataset, source, info.sequences, tokens if source.bos_id is None else None)


def _number(value: object) -> str:
    return grouped(value) if isinstance(value, int) and not isinstance(value, bool) else printable(value)


_CHEAP = 1 << 24  # up to this number of tokens, all are read: that takes less than a second
_PLACES = 64  # number of places that are read in a longer dataset
_PLACE = 1 << 14  # tokens that are read at each place
_SEQUENCES = 64  # sequences that are decoded
_LONGEST = 1 << 13  # tokens of a sequence that are decoded
_FEW = 4  # fewer texts are not enough for a finding
_REPLACED = "\ufffd"
_HALF = 0.5  # share of the texts from which on there is a finding
_SHORT = 8  # tokens: a shorter document is not compared with its encoding
_UINT16 = 1 << 16
_ENOUGH = 1 << 12  # tokens: fewer may hold no large ID by chance
_SAMPLED = " at the places that were read"


class Beyond(NamedTuple):
    """The IDs of a window that are not in the vocabulary."""

    number: int
    position: int  # on the token axis; -1 without one
    token: int  # -1 without one
    top: int  # the largest of all IDs of the window; -1 without one
    wrapped: int  # tokens with the ID to which the end of text wraps in 16 bits


class Vocabulary:
    """A search for IDs that a tokenizer does not have, in windows that a caller reads or at sampled places."""

    def __init__(self, reader: TokenReader, handle: TokenizerHandle, jobs: int, *, complete: bool = True) -> None:
        self.reader, self.handle, self.jobs, self.complete = reader, handle, jobs, complete
        self.found: list[Beyond] = []  # only those with such IDs, in order
        # the largest ID, tokens with the ID to which the end of text wraps in 16 bits, and whether all is read
        self.top, self.wrapped, self.whole = -1, 0, False
        self._wraps_to = -1 if handle.eos_id is None or handle.eos_id < _UINT16 else handle.eos_id % _UINT16

    def beyond(self, start: int, tokens: Tokens) -> Beyond:
        """Return the IDs without a token in the window that begins at position `start`. Threads may call this."""
        wrong = np.flatnonzero(self.handle.ids.lacks(tokens))
        wrapped = int(np.count_nonzero(tokens == self._wraps_to)) if self._wraps_to >= 0 else 0
        first, token = (start + int(wrong[0]), int(tokens[wrong[0]])) if len(wrong) else (-1, -1)
        return Beyond(len(wrong), first, token, largest_id(tokens), wrapped)

    def note(self, looked: Iterable[Beyond], *, whole: bool = False) -> None:
        """Record results in the order of the token axis; `whole` states that they cover all of it."""
        self.whole = self.whole or (whole and self.complete)
        for span in looked:
            self.top, self.wrapped = max(self.top, span.top), self.wrapped + span.wrapped
            self.found += [span] if span.number else []

    def sample(self) -> None:
        """Read some places of the token axis, or all of it if it has at most `_CHEAP` tokens."""
        total = self.reader.info.tokens
        if total <= _CHEAP:
            spans = windows(0, total)
            looked = in_threads(lambda span: self.beyond(span[0], self.reader.tokens(*span)), spans, self.jobs)
            self.note(looked, whole=True)
            return
        starts = np.unique(np.linspace(0, max(0, total - _PLACE), _PLACES).astype(np.int64)).tolist() if total else []

        def beyond_at(start: int) -> Beyond:
            return self.beyond(start, self.reader.tokens(start, min(start + _PLACE, total)))

        self.note(in_threads(beyond_at, starts, self.jobs))


def metadata_findings(source: Source) -> Iterator[Finding]:
    """Report files of one dataset whose metadata name different tokenizers."""
    info = source.reader.info
    named = info.tokenizers
    if len(named) > 1:
        yield Finding(
            "TF928",
            "error",
            str(source.paths[0]),
            f"the metadata of its files name {len(named)} tokenizers: {', '.join(named)}",
            "Convert the files of each alone; --allow-loss tokenizers joins IDs of several",
        )


def tokenizer_findings(
    source: Source, reader: TokenReader, handle: TokenizerHandle, vocabulary: Vocabulary
) -> Iterator[Finding]:
    """Compare a dataset with a tokenizer.

    The findings: the manifest lists another tokenizer, IDs are not in the vocabulary, IDs wrapped, the separator is not
    the end of text, or the decoded text shows another tokenizer. The dataset is sampled if the vocabulary did not see
    all of it.
    """
    name, named = str(source.paths[0]), handle.name
    manifest = read_manifest(source.paths[0]).tokenizer
    if manifest is not None and manifest["digest"] != handle.digest:
        yield Finding(
            "TF926",
            "warning",
            name,
            f"its manifest lists a tokenizer with the checksum {manifest['digest']}, and {named} has {handle.digest}",
            "Give the tokenizer that it was made with",
        )
    try:
        if not vocabulary.whole:
            vocabulary.sample()
        wrapped = list(_wrapped(name, source, handle, vocabulary))
        if wrapped:  # decoding it with any tokenizer shows nothing else
            yield from wrapped
            return
        yield from _beyond(name, reader, handle, vocabulary)
        eos_id = source.separator.eos_id
        if eos_id is not None and handle.eos_id is not None and eos_id != handle.eos_id:
            yield Finding(
                "TF922",
                "warning",
                name,
                f"its separator is {eos_id:,} ({source.separator.source}), and the end of "
                f"text of {named} is {handle.eos_id:,}",
                "Give the tokenizer that it was made with, or the right separator with --eos ID",
            )
        yield from _decoded(name, reader, handle)
    except TokfmtError as error:
        yield Finding("TF901", "error", name, str(error).removeprefix(f"{name}: "))


def _wrapped(name: str, source: Source, handle: TokenizerHandle, vocabulary: Vocabulary) -> Iterator[Finding]:
    """Report IDs that wrapped around: the separator is what is left of the end of text in 16 bits."""
    eos_id, info, endings = handle.eos_id, vocabulary.reader.info, source.separator.endings
    if eos_id is None:
        return
    ends = [source.separator.eos_id, endings[0] if len(endings) == 1 else None]
    wrapped = next(((end, bits) for end in ends if end is not None and (bits := wrapped_bits(eos_id, end))), None)
    alone = source.separator.eos_id == eos_id and info.sequences <= 1 and info.tokens >= _ENOUGH
    severity, sentence, why = "error", "documents end with", "IDs wrapped around"
    if wrapped is None and alone and vocabulary.wrapped:
        wrapped = eos_id % _UINT16, 16
        severity, why = "warning", "IDs seem to have wrapped around"
        sentence = f"it is one sequence without {eos_id:,}, and {vocabulary.wrapped:,} of its tokens are"
    top = max(vocabulary.top, -1 if info.max_id is None else info.max_id)
    if wrapped is None or top >> wrapped[1]:
        return
    end, limit = wrapped[0], 1 << wrapped[1]
    yield Finding(
        "TF927",
        severity,
        name,
        f"{sentence} {end:,} = {eos_id:,} mod {limit:,}; {eos_id:,} is the end of text of {handle.name}, and of its "
        f"{handle.ids.size:,} IDs none above {limit - 1:,} is stored{'' if vocabulary.whole else _SAMPLED}: {why}",
        "Encode the text again, and store IDs in 32 bits: the lost bits are not in the dataset",
    )


def _beyond(name: str, reader: TokenReader, handle: TokenizerHandle, vocabulary: Vocabulary) -> Iterator[Finding]:
    """Report IDs that the tokenizer does not have: of all tokens, or of the sampled places."""
    beyond, ids = vocabulary.found, handle.ids
    if not beyond:
        top, bound = reader.info.max_id, reader.info.extras.get("max_token_id")
        stated = [
            (top, ids, "error", "its largest ID is"),
            (bound, TokenizerIds(ids.stop), "warning", "its max_token_id is"),
        ]
        for value, wanted, severity, sentence in stated if not vocabulary.whole else ():
            if isinstance(value, int) and wanted.lacks_largest(value, reader.info.eos_id):
                yield Finding(
                    "TF921",
                    severity,
                    name,
                    f"{sentence} {value:,}, and {handle.name} has {ids}",
                    "Give the tokenizer that it was made with; --deep finds the place",
                    query=ids.query,
                )
                return
        return
    position, token = beyond[0].position, beyond[0].token
    sequence = reader.sequence_at(position)
    place = reader.locate(position)
    at = position - int(reader.offsets(sequence, sequence)[0])
    where = "" if vocabulary.whole else _SAMPLED
    number = f"sequence {sequence:,}{'' if vocabulary.complete else ' of those that were read'}"
    count = sum(part.number for part in beyond)
    yield Finding(
        "TF921",
        "error",
        str(place.path) if place else name,
        f"tokens with an ID that {handle.name} does not have{where}: {count:,} (first: ID {token:,}, {number}, "
        f"position {at:,}; {handle.name} has {ids})",
        "Give the tokenizer that it was made with",
        place.offset if place else None,
        ids.query,
    )


@dataclass(slots=True)
class _Texts:
    """Some sequences and their decoded texts; `whole` if each is a complete document."""

    ids: list[list[int]]
    texts: list[str]
    whole: bool


def _decoded(name: str, reader: TokenReader, handle: TokenizerHandle) -> Iterator[Finding]:
    texts = _some(reader, handle)
    count = len(texts.texts)
    if count < _FEW:
        return
    replaced = sum(_REPLACED in text[8:-8] for text in texts.texts)
    if replaced > _HALF * count:
        yield Finding(
            "TF923",
            "warning",
            name,
            f"{replaced:,} of {count:,} sequences decoded with {handle.name} hold bytes that are not UTF-8",
            "Give the tokenizer that it was made with",
        )
        return
    foreign = [text for text in texts.texts if not text.isascii()]
    misread = sum(map(_is_misread, foreign))
    if misread >= _FEW and misread > _HALF * len(foreign):
        yield Finding(
            "TF924",
            "warning",
            name,
            f"{misread:,} of {len(foreign):,} texts that are not ASCII are UTF-8 read as Latin-1",
            "Pack the text again with a newer version: Modalities before 2024-02-06 read text as Latin-1",
        )
    if texts.whole:
        yield from _encoded_again(name, texts, handle)


def _encoded_again(name: str, texts: _Texts, handle: TokenizerHandle) -> Iterator[Finding]:
    """Report documents whose texts have other IDs. Special tokens among the IDs of a text were parsed."""
    special = set(handle.special.values())
    how: list[SpecialTokens] = ["text" if special.isdisjoint(ids) else "parse" for ids in texts.ids]
    again = {one: handle.parsing(one).encoder().encode(texts.texts) for one in dict.fromkeys(how)}
    long = [number for number, ids in enumerate(texts.ids) if len(ids) >= _SHORT]
    other = sum(again[how[number]][number].tolist() != texts.ids[number] for number in long)
    if len(long) >= _FEW and other > _HALF * len(long):
        yield Finding(
            "TF925",
            "warning",
            name,
            f"{other:,} of {len(long):,} documents, decoded with {handle.name} and encoded again, have other IDs",
            "Give the tokenizer that it was made with",
        )


def _some(reader: TokenReader, handle: TokenizerHandle) -> _Texts:
    """Decode sequences at even distances: documents of at most `_LONGEST` tokens, or the beginnings of samples."""
    info, decoder = reader.info, handle.decoder(lenient=True)
    count = min(info.sequences, _SEQUENCES)
    ids, whole = [], info.layout is Layout.DOCUMENTS
    for number in np.unique(np.linspace(0, info.sequences - 1, count).astype(np.int64)).tolist():
        start, stop = reader.offsets(number, number + 1).tolist()
        if stop - start > _LONGEST and whole:
            continue
        tokens = reader.tokens(start, min(stop, start + _LONGEST)).tolist()
        if handle.eos_id is not None and tokens and tokens[-1] == handle.eos_id:
            tokens.pop()
        if tokens and not handle.ids.lacks(np.array(tokens)).any():
            ids.append(tokens)
    return _Texts(ids, [decoder.decode(tokens) for tokens in ids], whole)


def _is_misread(text: str) -> bool:
    """Return True if all of a text is UTF-8 that was read as Latin-1."""
    try:
        text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return False
    return True


_REMEDY = "Run tokfmt check on the corpus, correct it, and pack it again"
_KINDS: dict[Step, str] = {"only_in_a": "extra", "only_in_b": "missing", "changed": "changed"}
_COMPARED = 1 << 20  # tokens from the start of two documents in which the first difference is looked for


class Corpus:
    """The corpus that datasets are compared with. It is opened at once, and read once, when it is first needed."""

    def __init__(
        self,
        request: SourceRequest,
        handle: TokenizerHandle | None,
        jobs: int,
        progress: Progress,
        *,
        ignore_order: bool = False,
        processes: bool = False,
    ) -> None:
        self.handle, self.jobs, self.progress = handle, jobs, progress
        self.ignore_order, self.processes = ignore_order, processes
        self._compared: dict[SpecialTokens, tuple[Side, Fingerprints]] = {}
        # only documents are compared, so the user need not allow the loss of other fields
        asked = replace(request.accepting(READS["diff"]), every_end=True)
        self.source = open_dataset(asked, Reading(jobs=jobs, progress=progress))
        reader = self.source.reader
        if handle is None and reader.info.is_text:
            raise OptionError(
                "--against compares tokens with text, which needs a tokenizer. Add --tokenizer NAME|DIR|FILE"
            )

    def compared(self, special_tokens: SpecialTokens) -> tuple[Side, Fingerprints]:
        """Return the documents of the corpus as they are compared, and their fingerprints."""
        if special_tokens not in self._compared:
            side = self.side_of(self.source, special_tokens)
            with hands(self.jobs) as workers:
                self._compared[special_tokens] = side, side.fingerprints(0, workers, lambda _: None)
        return self._compared[special_tokens]

    def side_of(self, source: Source, special_tokens: SpecialTokens = "text") -> Side:
        """Return the sequences of a dataset as they are compared with the corpus."""
        reader = source.reader
        if not isinstance(reader, RecordReader):
            # if not every document of a pack ends with the separator, the reader returns those that are stored
            trailing = self.handle is not None and reader.info.separators is Separators.TRAILING
            return AxisSide(reader, ignored_end=self.handle.eos_id if self.handle and trailing else None)
        handle = self.handle and self.handle.parsing(special_tokens)
        return read_records(reader, encoder_of(reader, handle), self.jobs, self.progress, processes=self.processes)

    def close(self) -> None:
        self.source.reader.close()


@dataclass(frozen=True, slots=True)
class Differences:
    """The differences between a dataset and a corpus."""

    total: int
    missing: int = 0
    extra: int = 0
    changed: int = 0
    moved: int = 0
    # the first of each kind: (sequence of the dataset, document of the corpus); that of a side that lacks it has no
    # meaning
    firsts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    cut_off: bool = False  # the missing documents are the last ones of the corpus

    def first(self, kind: str) -> tuple[int, int]:
        """Return the first difference of a kind, as in `firsts`; (-1, -1) without one."""
        return self.firsts.get(kind, (-1, -1))


def behind_bos(source: Source, handle: TokenizerHandle | None, note: Callable[[str], None]) -> Source:
    """Return a dataset whose documents begin behind the ID that the tokenizer puts in front, if all have it."""
    bos_id, reader = None if handle is None else handle.bos_id, source.stored_documents
    made = (source.manifests[0].tokenizer if source.manifests else None) or {}
    is_of_text = "chat_template" in made or made.get("special_tokens") == "parse"  # The texts have it, or the template.
    if handle is None or bos_id is None or source.bos_id is not None or reader is None or is_of_text:
        return source
    try:
        contents, _ = without_leads(reader, bos_id, source.paths[0])
        if not dataset_of(contents).spans.led:
            return source
        contents, _ = without_leads(reader, bos_id, source.paths[0], each=True)
    except TokfmtError:  # reported where all tokens are read
        return source
    name = printable(source.paths[0].name)
    problem = f"documents begin with {bos_id}, which {printable(handle.name)} puts in front of a text"
    note(f"{name}: {problem}; what follows it is compared. --bos {bos_id} reads it as no content")
    return source._replace(reader=contents)


def corpus_findings(source: Source, corpus: Corpus) -> Iterator[Finding]:
    """Report documents that are missing, additional, different, shifted, or in another order."""
    name, path = str(source.paths[0]), source.paths[0]
    try:
        maker = source.manifests[0].tokenizer if source.manifests else None
        there, theirs = corpus.compared("parse" if maker and maker.get("special_tokens") == "parse" else "text")
        here = corpus.side_of(_as_led(source, there))
        corpus.progress.phase(f"comparing with {corpus.source.paths[0].name}", here.tokens, "tokens")
        with hands(corpus.jobs) as workers:
            mine = here.fingerprints(0, workers, corpus.progress.advance)
        # a stream that is split at separators cannot hold empty documents, so they are not missing
        splits = isinstance(here, AxisSide) and here.reader.info.free_of is not None
        ignored = corpus.ignore_order
        if not ignored and read_manifest(path).content.get("shuffle") is not None:
            corpus.progress.note(f"{path.name}: the manifest states that it was shuffled, so the order is ignored")
            ignored = True
        differences = compare(mine, theirs, skip_empty=splits, ignore_order=ignored)
        yield from _difference_findings(name, here, there, differences)
    except TokfmtError as error:
        yield Finding("TF901", "error", name, str(error).removeprefix(f"{name}: "))


def _as_led(source: Source, corpus: Side) -> Source:
    """Return a dataset with the leads of its documents, if those of the corpus begin with the same ID."""
    reader = source.reader
    if not isinstance(reader, ContentReader) or (lead := reader.dataset.gap.lead) is None:
        return source
    begins = corpus.neighbors(0, min(corpus.count, _SEQUENCES), 1)
    if not any(lead in ids[:1] for ids in begins):
        return source
    return source._replace(reader=ContentReader(unled(reader.dataset)))


def compare(
    here: Fingerprints, there: Fingerprints, *, skip_empty: bool = False, ignore_order: bool = False
) -> Differences:
    """Compare the documents of a dataset with those of a corpus. The fingerprints are uint64[documents, 2]."""
    mine = theirs = None
    if skip_empty:
        mine, theirs = (np.flatnonzero((prints != empty_fingerprint()).any(1)) for prints in (here, there))
        here, there = here[mine], there[theirs]

    def places(a: int, b: int) -> tuple[int, int]:
        """Map two indexes to numbers that count empty documents as well; -1 without one."""
        return tuple(  # type: ignore[return-value]
            k if numbers is None else int(numbers[k]) if 0 <= k < len(numbers) else -1
            for k, numbers in ((a, mine), (b, theirs))
        )

    if ignore_order:
        more, less = surpluses(here, there, 1)
        first = {"extra": places((more.examples or (-1,))[0], -1), "missing": places(-1, (less.examples or (-1,))[0])}
        return Differences(len(there), missing=less.count, extra=more.count, firsts=first)
    check_room(len(here) + len(there), 0)
    alignment = aligned(here, there)
    steps = _firsts(alignment.stretches())
    lost = steps.get("only_in_b")
    missing = alignment.differing.get("only_in_b", 0)
    first = {_KINDS[step]: places(stretch.a, stretch.b) for step, stretch in steps.items() if step in _KINDS}
    if len(alignment.moves):
        first["moved"] = places(*alignment.moves[0].tolist())
    return Differences(
        len(there),
        missing=missing,
        extra=alignment.differing.get("only_in_a", 0),
        changed=alignment.differing.get("changed", 0),
        moved=len(alignment.moves),
        firsts=first,
        cut_off=lost is not None and lost.b + missing == len(there),
    )


def _firsts(stretches: Iterator[Stretch]) -> dict[Step, Stretch]:
    first_stretches: dict[Step, Stretch] = {}
    for stretch in stretches:
        first_stretches.setdefault(stretch.step, stretch)
    return first_stretches


def _difference_findings(name: str, here: Side, corpus: Side, differences: Differences) -> Iterator[Finding]:
    if differences.missing:
        line = differences.first("missing")[1] + 1
        place = (
            f"from document {line:,} of the corpus on"
            if differences.cut_off
            else f"first: document {line:,} of the corpus"
        )
        problem = f"{differences.missing:,} of {differences.total:,} documents are missing ({place})"
        yield Finding("TF931", "error", name, problem, _REMEDY)
    if differences.extra:
        problem = (
            f"{differences.extra:,} documents are not in the corpus (first: sequence {differences.first('extra')[0]:,})"
        )
        yield Finding(
            "TF932", "error", name, problem, "Find out whether a text was packed twice, or the corpus changed"
        )
    if differences.moved:
        sequence, document = differences.first("moved")
        place = f"sequence {sequence:,}, document {document + 1:,} of the corpus"
        problem = f"{differences.moved:,} documents are in another order (first: {place})"
        yield Finding("TF935", "error", name, problem, "If their order does not matter, add --ignore-order")
    if differences.changed:
        yield _changed(name, here, corpus, differences)


def _changed(name: str, here: Side, corpus: Side, differences: Differences) -> Finding:
    sequence, document = differences.first("changed")
    mine, theirs = _beginning(here, sequence), _beginning(corpus, document)
    length = min(len(mine), len(theirs))
    differ = np.flatnonzero(mine[:length] != theirs[:length])
    at = int(differ[0]) if len(differ) else length
    path, offset = _place(name, here, sequence, at)
    shift = shift_of(here, corpus, sequence, document)
    head = f"{differences.changed:,} documents differ (first: sequence {sequence:,}, document {document + 1:,} of "
    if shift:
        tokens, way = abs(shift), "early" if shift > 0 else "late"
        problem = f"{head}the corpus): they begin {tokens:,} tokens too {way}"
        return Finding(
            "TF934",
            "error",
            path,
            problem,
            "It was made from a merged pack by a program that used its shifted offsets: "
            "see `tokfmt check --explain TF934`",
            offset,
        )
    if at == len(mine):
        detail = f"it ends after {len(mine):,} of {len(theirs):,} tokens"
    elif at == len(theirs):
        detail = f"it continues after all {len(theirs):,} tokens"
    else:
        detail = f"position {at:,}: {int(mine[at]):,}, expected {int(theirs[at]):,}"
    return Finding(
        "TF933",
        "error",
        path,
        f"{head}the corpus, {detail})",
        "Compare it with the tokenizer and the corpus that it was made with",
        offset,
    )


def _place(name: str, here: Side, sequence: int, token: int) -> tuple[str, int | None]:
    """Return the file and the byte offset of a token; the dataset and None if it has no such place."""
    if not isinstance(here, AxisSide) or not here.tokens:
        return name, None
    start = int(here.reader.offsets(sequence, sequence)[0])
    place = here.reader.locate(min(start + token, here.tokens - 1))
    return (name, None) if place is None else (str(place.path), place.offset)


def _beginning(side: Side, number: int) -> NDArray[np.integer]:
    return side.values(number, 0, min(side.length(number), _COMPARED))


_FARTHEST = 64
"""Tokens: the largest shift that is looked for. One merge shifts by 12 bytes (3, 6 or 12 tokens), and merges add up."""

_ENOUGH = 8  # tokens that have to be equal
_LOOK = 256  # tokens from the start of the document that are compared
_BEFORE = 1 << 20  # tokens of an earlier document that are read to get its end


def shift_of(here: Side, corpus: Side, sequence: int, document: int) -> int:
    """Return the number of tokens by which a document begins too early.

    The number is negative if the document begins too late, and 0 if it is not shifted.

    The stream of the corpus has one token after each document for the separator, which is not compared.
    """
    mine = here.values(sequence, 0, min(here.length(sequence), _LOOK)).astype(np.int64)
    if len(mine) < _ENOUGH:
        return 0
    stream, is_content, begin = _stream(corpus, document)
    for tokens in sorted(range(-_FARTHEST, _FARTHEST + 1), key=abs):
        at = begin - tokens
        if not tokens or at < 0 or at + _ENOUGH > len(stream):
            continue
        length = min(len(mine), len(stream) - at)
        compared = is_content[at : at + length]
        same = (stream[at : at + length] == mine[:length])[compared]
        if len(same) >= _ENOUGH and same.all():
            return tokens
    return 0


def _stream(corpus: Side, document: int) -> tuple[NDArray[np.int64], NDArray[np.bool_], int]:
    """Return the corpus around a document: IDs (-1 for a separator), which are known, and where it begins."""
    pieces: list[NDArray[np.int64]] = []
    first, last = max(0, document - _FARTHEST), min(corpus.count, document + 8)
    around = corpus.neighbors(first, last, _BEFORE)
    for number, ids in enumerate(around, first):
        piece = ids[-2 * _FARTHEST :] if number < document else ids[: 2 * _LOOK]
        pieces.append(np.append(piece.astype(np.int64), -1))
    begin = sum(map(len, pieces[: document - first]))
    stream = np.concatenate(pieces) if pieces else np.empty(0, np.int64)
    return stream, stream >= 0, begin
