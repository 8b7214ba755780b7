"""`DST.ledger`: which record of which file each sequence of a prepared dataset came from.

    DST.ledger         an array of `ROW` as numpy.load reads it: a row for each piece of a sequence, in order
    DST.ledger.json    {"schema": "tokfmt.ledger/1", "unit": "sequences" | "samples", "sequences": ..., "rows": ...,
                        "dataset": {"bytes", "files", "xxh3_128"}, "sources": [{"name", "kind", "paths", "format",
                        "bytes", "files", ...}]}

A row says: this sequence holds positions `start <= p < stop` of that record of `sources[source]`, which is a file of
text, or a dataset of ids. Rows of a sequence are in its order; position len(record) is the separator, padding is in no
row. Sequences are as `show` counts them, or samples where rows of a recipe are stored as they are ("unit"). Paths are
relative to the directory that the dataset is in; "dataset" is what the ledger was written beside, to know it by.
"""

from __future__ import annotations

import bisect
import json
import os
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt import registry
from tokfmt.core.errors import CorruptError, OptionError, SourceChangedError, TruncatedError
from tokfmt.core.files import File
from tokfmt.core.format import Format
from tokfmt.core.messages import Option, allowing
from tokfmt.core.options import given_options
from tokfmt.core.output import whole
from tokfmt.core.protocols import LocatedRecords
from tokfmt.core.ragged import offsets_of
from tokfmt.core.reader import TokenReader, windows
from tokfmt.core.records import RecordReader
from tokfmt.core.text_format import printable
from tokfmt.ops.source.discover import format_of
from tokfmt.ops.source.manifest import LITTLE, extent, fingerprint, ledger_paths, read_manifest, written_files
from tokfmt.ops.source.open import open_sources
from tokfmt.ops.source.recipe import Deferred
from tokfmt.ops.source.request import SourceRequest, viewed, words_of
from tokfmt.ops.source.stored import Source as Opened
from tokfmt.recipes.cache import Numbers
from tokfmt.recipes.documents import Documents, Source, SpanTable
from tokfmt.recipes.samples import Samples
from tokfmt.run.execute import Progress
from tokfmt.views.select import Concat, Slice
from tokfmt.views.view import byte_offset_of

if TYPE_CHECKING:
    from tokfmt.core.atomic_output import Staging

SCHEMA = "tokfmt.ledger/1"
ROW = np.dtype([("sequence", "<i8"), ("source", "<i4"), ("record", "<i8"), ("start", "<i8"), ("stop", "<i8")])
_HEAD = 256  # bytes before the rows: the header of numpy's format, padded, so that the number of rows may come last
_AT_ONCE = 1 << 16  # sequences, or positions of samples
_OPEN = 16  # files that are kept open while rows are followed
_LIMIT = 1 << 28
_AGAIN = f"Convert the recipe again with {Option('ledger')}, or remove the ledger"


def _head(rows: int) -> bytes:
    told = f"{{'descr': {ROW.descr}, 'fortran_order': False, 'shape': ({rows},), }}"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", _HEAD - 10) + told.ljust(_HEAD - 11).encode() + b"\n"


# writing


@dataclass(frozen=True, slots=True)
class Listed:
    """What a source of a recipe is made of, as the ledger lists it.

    Attributes:
        begins: int64[parts], the number in the source of the first record of each part. Ascending.
        firsts: int64[parts], the number in the part of that record.
        targets: Its number in the list, or the tracer of the recipe that it is.
    """

    begins: Numbers
    firsts: Numbers
    targets: list[int | Tracer]


class Tracer:
    """Follows spans of a recipe's sources to datasets of ids and files of text, through recipes among them."""

    def __init__(
        self, recipe: Documents | Samples, allow_loss: frozenset[str], listed: list[dict[str, Any]], outer: str = ""
    ) -> None:
        """Add what the recipe is made of to `listed`; `outer`: begins the names of its sources."""
        self.recipe, self.allow_loss = recipe, allow_loss
        self._sources = [self._list(k, listed, outer) for k in range(len(recipe.sources))]

    def _list(self, number: int, listed: list[dict[str, Any]], outer: str) -> Listed:
        source, file = self.recipe.sources[number], self.recipe.file
        entry, targets = file.sources[number], list[int | Tracer]()
        found: list[tuple[list[Path], str | None, TokenReader | None]]
        said: dict[str, object] = {
            "text": entry.text,
            "split": None,
            "eos": None,
            "allow_loss": sorted(self.allow_loss),
        }
        if source.files:
            found = [([part.path], part.format, None) for part in source.files]
            firsts = [part.first for part in source.files]
            begins = offsets_of([part.records for part in source.files])[:-1]
        else:
            leaves, first = _leaves(source)
            files = [registry.of_prefix(path) for path in source.paths]
            paths = [[path] for path in files] if len(leaves) > 1 else [files]
            name = source.format if len(leaves) == 1 else entry.format  # of several each may be of another format
            found = [(places, name, leaf) for places, leaf in zip(paths, leaves, strict=True)]
            firsts, begins = [0] * len(leaves), offsets_of([leaf.info.sequences for leaf in leaves])[:-1] - first
            said |= {"split": entry.split, "eos": file.eos}
        options = given_options(entry.options)
        for named, name, leaf in found:
            if isinstance(leaf, (Documents, Samples)):
                targets.append(Tracer(leaf, self.allow_loss, listed, f"{outer}{source.name}/"))
                continue
            format_ = format_of(named[0], name)
            places = [format_.canonical(path) for path in named]  # beside these their manifests stand
            request = SourceRequest(tuple(places), options=options)
            if file.pack == "stored":
                request = viewed(request, format_, "samples")
            held = extent(one for path in places for one in format_.files(path))
            targets.append(len(listed))
            listed.append({
                "name": f"{outer}{source.name}", "kind": "text" if source.files else "ids",
                "paths": [str(path) for path in places], "format": format_.name,
                "bytes": held["bytes"], "files": held["files"],
                "xxh3_128": read_manifest(places[0]).output.get("xxh3_128") if len(places) == 1 else None,
                "options": words_of(request.options), **said,
            })  # fmt: skip
        return Listed(np.asarray(begins, np.int64), np.array(firsts, np.int64), targets)

    def follow(self, spans: SpanTable) -> SpanTable:
        """Spans of sources as spans of what is listed: `source` its number there, `sequence` that of the record."""
        keyed, found = spans._replace(row=np.arange(len(spans.row))), list[SpanTable]()
        for k in np.unique(spans.source).tolist():
            listed, of_source = self._sources[k], _those(keyed, keyed.source == k)
            parts = np.searchsorted(listed.begins, of_source.sequence, side="right") - 1
            for p in np.unique(parts).tolist():
                one, target = _those(of_source, parts == p), listed.targets[p]
                one = one._replace(sequence=one.sequence - listed.begins[p] + listed.firsts[p])
                if isinstance(target, Tracer):
                    found.append(target.within(one))
                else:
                    found.append(one._replace(source=np.full(len(one.row), target, np.int64)))
        together = SpanTable.joined(found)
        return together._replace(row=spans.row[together.row])

    def within(self, spans: SpanTable) -> SpanTable:
        """Spans of sequences of the recipe itself, followed."""
        if isinstance(self.recipe, Documents):
            source, sequence = self.recipe.origins(spans.sequence)
            return self.follow(spans._replace(source=source, sequence=sequence))
        return self.follow(_clipped(self.recipe.table(spans.sequence), spans))


def _those(spans: SpanTable, mask: NDArray[np.bool_]) -> SpanTable:
    return SpanTable(*(column[mask] for column in spans))


def _clipped(inner: SpanTable, spans: SpanTable) -> SpanTable:
    """What some spans hold of those that their sequences are made of; `inner.row` counts these sequences."""
    lengths = inner.stop - inner.start
    ends = np.cumsum(lengths)
    before = ends - lengths
    at = before - before[np.searchsorted(inner.row, inner.row)] if len(before) else before
    start = np.maximum(spans.start[inner.row], at)
    stop = np.minimum(spans.stop[inner.row], at + lengths)
    moved = inner._replace(row=spans.row[inner.row], start=inner.start + start - at, stop=inner.start + stop - at)
    return _those(moved, start < stop)


def _leaves(source: Source) -> tuple[Sequence[TokenReader], int]:
    """The readers of the datasets that a source of ids is made of, and how many of their sequences come before it."""
    reader, first = source.whole or source.reader, 0
    while isinstance(reader, (Deferred, Slice)):
        first += reader.first if isinstance(reader, Slice) else 0
        reader = reader.reader if isinstance(reader, Deferred) else reader.source
    several = isinstance(reader, Concat) and len(reader.sources) == len(source.paths)
    return (reader.sources if several and isinstance(reader, Concat) else [reader]), first


def write_rows(
    scratch: Path,
    opened: object,
    axis: TokenReader,
    written: TokenReader,
    dropped: Collection[str],
    progress: Progress,
) -> dict[str, Any]:
    """Write the rows of a dataset that is made of a recipe to `scratch / "ledger"`; memory does not grow with them.

    Args:
        scratch: Where to.
        opened: The recipe's reader; of a recipe of text it is `axis`, which exists once it is prepared.
        axis: All its sequences.
        written: The sequences as they are written.
        dropped: Words of --allow-loss for what was given up.
        progress: Told how far it is.

    Returns:
        Of `DST.ledger.json`: "sequences", "rows", "sources"; paths not yet relative to anything.

    Raises:
        OptionError: Sequences were told to be split, so that no row would be of one.
    """
    recipe, allow_loss = opened if isinstance(opened, (Documents, Samples)) else axis, frozenset(dropped)
    if not isinstance(recipe, (Documents, Samples)) or "embedded-separators" in allow_loss:
        raise OptionError(
            f"{allowing('embedded-separators')} does not go with {Option('ledger')}: it splits sequences that "
            "rows are of"
        )
    listed = list[dict[str, Any]]()
    tracer = Tracer(recipe, allow_loss, listed)
    count, sequences, rows = axis.info.sequences, 0, 0
    step = _AT_ONCE if isinstance(recipe, Documents) else max(1, _AT_ONCE // recipe.seq_len)
    progress.phase("writing the ledger", count, "sequences")
    with whole(scratch / "ledger") as file:
        file.write(_head(0))
        for first, last in windows(0, count, step):
            numbers = np.arange(first, last)
            there = np.ones(last - first, np.bool_)
            if "empty-sequences" in allow_loss:
                there = np.diff(written.offsets(first, last)) > 0
            table = _table(recipe, numbers)
            table = tracer.follow(_those(table, there[table.row]))
            found = np.empty(len(table.row), ROW)
            found["sequence"] = sequences + (np.cumsum(there) - 1)[table.row]
            found["source"], found["record"] = table.source, table.sequence
            found["start"], found["stop"] = table.start, table.stop
            file.write(found.data)
            sequences, rows = sequences + int(there.sum()), rows + len(found)
            progress.advance(last - first)
        file.seek(0)
        file.write(_head(rows))
    return {"sequences": sequences, "rows": rows, "sources": listed}


def _table(recipe: Documents | Samples, numbers: Numbers) -> SpanTable:
    """The spans of consecutive sequences of a recipe."""
    if isinstance(recipe, Samples):
        return recipe.table(numbers)
    row, (source, sequence) = np.arange(len(numbers)), recipe.origins(numbers)
    lengths = np.diff(recipe.offsets(int(numbers[0]), int(numbers[-1]) + 1))
    return SpanTable(row, source, sequence, np.zeros(len(row), np.int64), lengths)


def built(
    told: Mapping[str, Any], format_: Format, staging: Staging, manifest: bytes | None
) -> Mapping[str, bytes | Path]:
    """The ledger beside a destination, by the names of its files.

    Args:
        told: "unit", and what `write_rows` tells.
        format_: Of the destination.
        staging: Of the destination; its scratch holds the rows.
        manifest: Of the destination, if it gets one: it knows the checksums.
    """
    said: dict[str, Any] = json.loads(manifest) if manifest else {}
    output = said["output"] if manifest else extent(written_files(format_, staging.path))
    digests = {one["path"]: one["xxh3_128"] for one in said.get("sources", ())}
    home, sources = os.path.realpath(staging.destination.parent), list[dict[str, Any]]()
    for one in told["sources"]:
        (path, *_), digest = one["paths"], one["xxh3_128"]
        if one["kind"] == "text" and any(digests.values()):  # of a file, where the manifest may have a directory
            digest = digests.get(path) or _digest_of(Path(path), registry.get(one["format"]))
        sources.append({**one, "xxh3_128": digest, "paths": [_relative(path, home) for path in one["paths"]]})
    content = {
        "schema": SCHEMA, "unit": told["unit"], "sequences": told["sequences"], "rows": told["rows"],
        "dataset": output, "sources": sources,
    }  # fmt: skip
    text = (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "surrogateescape")
    rows, about = ledger_paths(staging.destination)
    return {rows.name: staging.scratch / "ledger", about.name: text}


def _digest_of(path: Path, format_: Format) -> Any:
    """The checksum of a dataset's files, which are read."""
    return fingerprint(path, format_.files(path))["xxh3_128"]


def _relative(path: str, home: str) -> str:
    """A path from a directory; `..` is taken away where that means the same, which it need not behind a link."""
    short = os.path.abspath(path)
    return os.path.relpath(short if os.path.samefile(short, path) else os.path.realpath(path), home)


# reading


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a piece of a sequence comes from: positions `start <= p < stop` of a record.

    Attributes:
        source: Name of the source; of one in a recipe that is a source, `outer/inner`.
        path: The file.
        record: Its number in the file, of ids in the dataset, from 0.
        start, stop: In tokens; position len(record) is the separator.
        line: Of the file, from 1; None where records are no lines.
        byte: At which the line begins, of the decompressed text where `decompressed`; None without a line.
        detail: Where that is in the words of the format; "" for nothing more.
        via: Datasets that were themselves prepared, and their sequences, outermost first.
    """

    source: str
    path: str
    record: int
    start: int
    stop: int
    line: int | None = None
    byte: int | None = None
    decompressed: bool = False
    detail: str = ""
    via: tuple[tuple[str, int], ...] = ()


class Ledger(NamedTuple):
    """A ledger that fits its dataset.

    Attributes:
        path: The file of rows; home: what its paths are relative to.
        unit: "sequences" or "samples"; sequences: how many it tells of.
        sources: What it lists.
        rows: ROW[...], mapped.
    """

    path: Path
    home: str
    unit: str
    sequences: int
    sources: Sequence[Mapping[str, Any]]
    rows: NDArray[np.void]

    def pieces(self, sequence: int, start: int, stop: int | None) -> list[tuple[int, int, int, int]]:
        """Source, record, start and stop of each piece of positions `start <= p < stop` of a sequence.

        A separator that no row has is the end of the last piece.
        """
        column, found, at = self.rows["sequence"], list[tuple[int, int, int, int]](), 0
        k = bisect.bisect_left(column, sequence)
        while k < len(column) and int(column[k]) == sequence:
            _, source, record, a, b = self.rows[k].tolist()
            low, high = max(start, at), at + b - a if stop is None else min(stop, at + b - a)
            if low < high or a == b:
                found.append((source, record, a + low - at, a + high - at))
            last, at, k = (source, record, b, b), at + b - a, k + 1
        return found or ([last] if at and start >= at else [])


def read_ledger(path: Path, name: str | None) -> Ledger | None:
    """The ledger beside a dataset; beside what it is a link to, when there is none beside the link. None without one.

    Args:
        path: Of the dataset.
        name: Of its format; None: it is looked at for that, if there is a ledger.

    Raises:
        FormatError: It is damaged, cut, or of another dataset than the one that is there.
    """
    columns, about = ledger_paths(Path(os.path.abspath(path)))
    if not about.exists() and path.is_symlink():
        columns, about = ledger_paths(Path(os.path.realpath(path)))
    if not about.exists():
        return None
    file = File(about)
    try:
        told = json.loads(file.read(0, min(file.size, _LIMIT)))
        known = told["schema"] == SCHEMA and told["unit"] in ("sequences", "samples")
        count, rows, dataset = int(told["sequences"]), int(told["rows"]), dict(told["dataset"])
        sources = [dict(one) for one in told["sources"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        known = False
    finally:
        file.close()
    if not known:
        raise CorruptError(about, "is no ledger as tokfmt writes it", remedy=_AGAIN)
    found = {
        **extent(written_files(format_of(path, name), path)),
        "xxh3_128": read_manifest(path).output.get("xxh3_128"),
    }
    for key, value in found.items():
        if None not in (value, dataset.get(key)) and value != dataset[key]:
            what = f"is of another {printable(path.name)} than the one that is there: its {key}"
            raise CorruptError(about, what, expected=dataset[key], found=value, remedy=_AGAIN)
    file = File(columns)
    size = _HEAD + rows * ROW.itemsize
    if file.size < size:
        raise TruncatedError(columns, "is cut", expected=f"{size:,} bytes", found=f"{file.size:,}", remedy=_AGAIN)
    if file.size > size or file.read(0, _HEAD) != _head(rows):
        what = f"is not what {printable(about.name)} says: {rows:,} rows"
        raise CorruptError(columns, what, remedy=_AGAIN)
    mapped = np.memmap(columns, ROW, "r", _HEAD, (rows,)) if rows else np.empty(0, ROW)
    return Ledger(columns, os.path.realpath(about.parent), told["unit"], count, sources, mapped)


def compare(ledger: Ledger, reader: TokenReader) -> None:
    """Compare all rows with the dataset that they are of; memory grows by 8 bytes a sequence.

    Args:
        ledger: Of the dataset.
        reader: Its sequences, or samples, as the ledger counts them.

    Raises:
        CorruptError: A row cannot be, or the rows are of other sequences than the dataset holds.
    """
    info, count, before = reader.info, ledger.sequences, 0
    if info.sequences != count:
        what = f"tells of other {ledger.unit} than the dataset holds"
        raise CorruptError(ledger.path, what, expected=f"{info.sequences:,}", found=f"{count:,}", remedy=_AGAIN)
    held = np.zeros(count, np.int64)
    for a, b in windows(0, len(ledger.rows)):
        sequence, source, record, start, stop = (
            np.asarray(ledger.rows[a:b][name], np.int64) for name in ROW.names or ()
        )
        wrong = (np.diff(sequence, prepend=before) < 0) | (sequence >= count) | (record < 0) | (start < 0)
        wrong |= (stop < start) | (source < 0) | (source >= len(ledger.sources))
        if wrong.any():
            row = a + int(np.argmax(wrong))
            what = f"row {row:,} is of no sequence, source or record that there can be"
            raise CorruptError(ledger.path, what, offset=_HEAD + row * ROW.itemsize, remedy=_AGAIN)
        np.add.at(held, sequence, stop - start)
        before = int(sequence[-1])
    for a, b in windows(0, count):
        lengths = np.diff(reader.offsets(a, b))
        wrong = held[a:b] != lengths if ledger.unit == "sequences" else held[a:b] > lengths  # rows hold no padding
        if wrong.any():
            at = a + int(np.argmax(wrong))
            what = f"the rows of sequence {at:,} do not hold as many tokens as the sequence"
            expected, found = f"{int(lengths[at - a]):,}", f"{int(held[at]):,}"
            raise CorruptError(ledger.path, what, expected=expected, found=found, remedy=_AGAIN)


class Ledgers:
    """Ledgers of datasets, and the files that they name, each opened once."""

    def __init__(self) -> None:
        self._ledgers: dict[Path, Ledger | None] = {}
        self._opened: dict[tuple[Path, int], Opened] = {}

    def of(self, path: Path, name: str | None = None) -> Ledger | None:
        """The ledger of a dataset, None if it has none; see `read_ledger`."""
        if path not in self._ledgers:
            self._ledgers[path] = read_ledger(path, name)
        return self._ledgers[path]

    def origins(self, ledger: Ledger, sequence: int, start: int = 0, stop: int | None = None) -> list[Origin]:
        """Where positions `start <= p < stop` of a sequence come from, by ledgers as far as there are any.

        Raises:
            FormatError: What the ledger names is not there, has changed since, or cannot be read.
        """
        found = list[Origin]()
        for number, record, a, b in ledger.pieces(sequence, start, stop):
            if not 0 <= number < len(ledger.sources):
                raise CorruptError(ledger.path, f"names source {number}", found=f"{len(ledger.sources)} sources")
            found += self._origins(ledger, number, record, (a, b))
        return found

    def _origins(self, ledger: Ledger, number: int, record: int, span: tuple[int, int]) -> list[Origin]:
        opened, name = self._source(ledger, number), str(ledger.sources[number]["name"])
        reader, path = opened.reader, opened.paths[0]
        if isinstance(reader, RecordReader):
            if not isinstance(reader, LocatedRecords):
                return [Origin(name, shown_path(path), record, *span)]
            count = reader.count()
            if not 0 <= record < count:
                raise CorruptError(ledger.path, f"names record {record:,} of {printable(path)}", found=f"{count:,}")
            line = reader.record_line(record)
            if line is None:
                found = reader.record_byte_offset(record)
                return [Origin(name, shown_path(found.path), record, *span, detail=found.detail)]
            return [Origin(name, shown_path(line.path), record, *span, line.number, line.offset, line.decompressed)]
        count = reader.info.sequences
        if not 0 <= record < count:
            raise CorruptError(ledger.path, f"names sequence {record:,} of {printable(path)}", found=f"{count:,}")
        inner = self.of(path, opened.format.name) if len(opened.paths) == 1 else None
        if inner is not None and inner.sequences == count:
            below = self.origins(inner, record, *span)
            return [replace(one, via=((shown_path(path), record), *one.via)) for one in below]
        begin, end = reader.offsets(record, record + 1).tolist()
        place = byte_offset_of(reader, begin) if begin < end else None
        return [Origin(name, shown_path(path if place is None else place.path), record, *span)]

    def _source(self, ledger: Ledger, number: int) -> Opened:
        """What a ledger lists, opened as it was when the ledger was written."""
        key = ledger.path, number
        if key not in self._opened:
            if len(self._opened) == _OPEN:
                self._opened.pop(next(iter(self._opened))).reader.close()
            self._opened[key] = _opened(ledger, ledger.sources[number])
        return self._opened[key]


def _opened(ledger: Ledger, told: Mapping[str, Any]) -> Opened:
    try:
        paths = [Path(os.path.normpath(os.path.join(ledger.home, path))) for path in told["paths"]]
        format_ = registry.get(told["format"])
        request = SourceRequest(
            tuple(paths), told["format"], told["eos"], given_options(told["options"]), told["text"], told["split"],
            frozenset(told["allow_loss"]),
        )  # fmt: skip
        expected, text = int(told["bytes"]), told["kind"] == "text"
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptError(ledger.path, "has a source that is described otherwise", remedy=_AGAIN) from error
    size = extent(one for path in paths for one in format_.files(path))["bytes"]
    if size != expected:
        raise SourceChangedError(
            paths[0], "has changed since the ledger was written", expected=f"{expected:,} bytes", found=f"{size:,}",
            remedy=_AGAIN,
        )  # fmt: skip
    digest = None
    if told.get("xxh3_128") is not None and len(paths) == 1 and not (text and size > LITTLE):
        digest = _digest_of(paths[0], format_) if text else read_manifest(paths[0]).output.get("xxh3_128")
    if digest not in (None, told.get("xxh3_128")):
        what = f"is another than when the ledger was written, by its {'bytes' if text else 'manifest'}"
        raise SourceChangedError(paths[0], what, expected=told["xxh3_128"], found=digest, remedy=_AGAIN)
    return open_sources(request)[0]


def shown_path(path: Path) -> str:
    """A path for people: relative to the working directory, where it lies below."""
    found = os.path.relpath(path)
    return str(path) if found.startswith(os.pardir) else found
