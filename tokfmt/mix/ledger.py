"""Write and read `DST.ledger`, which has the file and the record that each sequence of a recipe comes from.

    DST.ledger         an array of `ROW` for numpy.load: one row for each piece of a sequence, in order
    DST.ledger.json    {"schema": "tokfmt.ledger/1", "unit": "sequences" | "samples", "sequences": ..., "rows": ...,
                        "dataset": {"bytes", "files", "xxh3_128"}, "sources": [{"name", "kind", "paths", "format",
                        "bytes", "files", ...}]}

A row states that a sequence holds positions `start <= p < stop` of a record of `sources[source]`. That source is a file
of text, or a dataset of token IDs. Position len(record) is the separator; padding has no row.

- "unit" is "samples" if samples of a recipe are stored as they are. Otherwise sequences are counted as `show` does.
- Paths are relative to the directory of the dataset. In a store, paths of local files are absolute.
- "dataset" identifies the dataset that the ledger was written beside.
"""

from __future__ import annotations

import bisect
import json
import os
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt import registry
from tokfmt.base.options import fit, given_options
from tokfmt.core.format import Format
from tokfmt.core.output import whole
from tokfmt.core.ragged import offsets_of
from tokfmt.core.reader import TokenReader, windows
from tokfmt.core.records import RecordReader
from tokfmt.errors import CorruptError, OptionError, SourceChangedError, TruncatedError
from tokfmt.files.file import File, open_file
from tokfmt.files.named import place_named
from tokfmt.files.place import LocalPlace, Place, Url, place_of
from tokfmt.mix.cache import Numbers
from tokfmt.mix.deferred import leaves_of
from tokfmt.mix.documents import Documents, SpanTable
from tokfmt.mix.samples import Samples
from tokfmt.run.progress import Progress
from tokfmt.source.discover import format_of
from tokfmt.source.manifest import LITTLE, extent, fingerprint, ledger_paths, read_manifest, written_files
from tokfmt.source.open import open_dataset
from tokfmt.source.request import EosChoice, SourceRequest, viewed, words_of
from tokfmt.source.stored import Source as Opened
from tokfmt.wording import printable

if TYPE_CHECKING:
    from tokfmt.files.publisher import Publisher

SCHEMA = "tokfmt.ledger/1"
ROW = np.dtype([("sequence", "<i8"), ("source", "<i4"), ("record", "<i8"), ("start", "<i8"), ("stop", "<i8")])
_HEAD = 256  # bytes of numpy's header before the rows; the padding leaves room for any number of rows
_AT_ONCE = 1 << 16  # sequences, or positions of samples, whose rows are made at a time
_OPEN = 16  # datasets that stay open while rows are followed
_LIMIT = 1 << 28  # maximum size of DST.ledger.json, in bytes
_AGAIN = "Convert the recipe again with --ledger, or remove the ledger"


def _head(rows: int) -> bytes:
    described = f"{{'descr': {ROW.descr}, 'fortran_order': False, 'shape': ({rows},), }}"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", _HEAD - 10) + described.ljust(_HEAD - 11).encode() + b"\n"


# Writing a ledger.


@dataclass(frozen=True, slots=True)
class Listed:
    """The parts of a source of a recipe, each a file of text, a dataset or a recipe."""

    begins: Numbers  # int64[parts], ascending: the number in the source of the first record of each part
    firsts: Numbers  # int64[parts]: the number of that record in the part
    targets: list[int | Tracer]  # number of each part in the ledger's list of sources, or the tracer of a recipe


class Tracer:
    """Follow spans of a recipe's sources through nested recipes to datasets of token IDs and files of text."""

    def __init__(
        self, recipe: Documents | Samples, allow_loss: frozenset[str], listed: list[dict[str, Any]], outer: str = ""
    ) -> None:
        """List the sources of a recipe: files and datasets go to `listed`, `outer` in front of their names."""
        self.recipe, self.allow_loss = recipe, allow_loss
        self._sources = [self._list(k, listed, outer) for k in range(len(recipe.sources))]

    def _list(self, number: int, listed: list[dict[str, Any]], outer: str) -> Listed:
        source, file = self.recipe.sources[number], self.recipe.file
        entry, targets = file.sources[number], list[int | Tracer]()
        parts: list[tuple[list[Place], str | None, TokenReader | None]]
        reading: dict[str, object] = {
            "text": entry.text,
            "split": None,
            "eos": None,
            "allow_loss": sorted(self.allow_loss),
        }
        if source.files:
            parts = [([part.path], part.format, None) for part in source.files]
            firsts = [part.first for part in source.files]
            begins = offsets_of([part.records for part in source.files])[:-1]
        else:
            leaves, first = leaves_of(source)
            files = [registry.of_prefix(path) for path in source.paths]
            paths = [[path] for path in files] if len(leaves) > 1 else [files]
            name = source.format if len(leaves) == 1 else entry.format  # several datasets can have different formats
            parts = [(places, name, leaf) for places, leaf in zip(paths, leaves, strict=True)]
            firsts, begins = [0] * len(leaves), offsets_of([leaf.info.sequences for leaf in leaves])[:-1] - first
            reading |= {"split": entry.split, "eos": entry.eos}
        options = given_options(entry.options)
        for named, name, leaf in parts:
            if isinstance(leaf, (Documents, Samples)):
                targets.append(Tracer(leaf, self.allow_loss, listed, f"{outer}{source.name}/"))
                continue
            format_ = format_of(named[0], name)
            places = [format_.canonical(path) for path in named]  # the manifests are beside these paths
            request = SourceRequest(tuple(places), options=options)
            if file.pack == "stored":
                request = viewed(request, format_, "samples")
            extent_of_files = extent(file_ for path in places for file_ in format_.files(path))
            targets.append(len(listed))
            listed.append(
                {
                    "name": f"{outer}{source.name}",
                    "kind": "text" if source.files else "ids",
                    "paths": [path.text for path in places],
                    "format": format_.name,
                    "bytes": extent_of_files["bytes"],
                    "files": extent_of_files["files"],
                    "xxh3_128": read_manifest(places[0]).output.get("xxh3_128") if len(places) == 1 else None,
                    "options": words_of(request.options),
                    **reading,
                }
            )
        return Listed(np.asarray(begins, np.int64), np.array(firsts, np.int64), targets)

    def follow(self, spans: SpanTable) -> SpanTable:
        """Return spans, numbers in the list and of records, for spans of the recipe's sources."""
        keyed, tables = spans._replace(row=np.arange(len(spans.row))), list[SpanTable]()
        for k in np.unique(spans.source).tolist():
            listed, of_source = self._sources[k], _those(keyed, keyed.source == k)
            parts = np.searchsorted(listed.begins, of_source.sequence, side="right") - 1
            for p in np.unique(parts).tolist():
                of_part, target = _those(of_source, parts == p), listed.targets[p]
                of_part = of_part._replace(sequence=of_part.sequence - listed.begins[p] + listed.firsts[p])
                if isinstance(target, Tracer):
                    tables.append(target.within(of_part))
                else:
                    tables.append(of_part._replace(source=np.full(len(of_part.row), target, np.int64)))
        together = SpanTable.joined(tables)
        return together._replace(row=spans.row[together.row])

    def within(self, spans: SpanTable) -> SpanTable:
        """Return spans of the listed files and datasets for spans of the recipe's own sequences or samples."""
        if isinstance(self.recipe, Documents):
            source, sequence = self.recipe.origins(spans.sequence)
            return self.follow(spans._replace(source=source, sequence=sequence))
        return self.follow(_clipped(self.recipe.table(spans.sequence), spans))


def _those(spans: SpanTable, mask: NDArray[np.bool_]) -> SpanTable:
    return SpanTable(*(column[mask] for column in spans))


def _clipped(inner: SpanTable, spans: SpanTable) -> SpanTable:
    """Return the parts of inner spans that outer spans hold. `row` of an inner span is the index of the outer span."""
    lengths = inner.stop - inner.start
    ends = np.cumsum(lengths)
    before = ends - lengths
    position = before - before[np.searchsorted(inner.row, inner.row)] if len(before) else before
    start = np.maximum(spans.start[inner.row], position)
    stop = np.minimum(spans.stop[inner.row], position + lengths)
    moved = inner._replace(
        row=spans.row[inner.row], start=inner.start + start - position, stop=inner.start + stop - position
    )
    return _those(moved, start < stop)


def write_ledger(
    scratch: Path,
    opened: object,
    axis: TokenReader,
    written: TokenReader,
    losses: Collection[str],
    progress: Progress,
) -> dict[str, Any]:
    """Write the rows of the ledger of a recipe to `scratch / "ledger"`, in bounded memory. If the reader of the recipe
    is not `Documents` or `Samples`, the recipe has text, and `axis` is its prepared reader. The result is the
    "sequences", "rows" and "sources" of `DST.ledger.json`; paths are as they were opened.
    """
    recipe, allow_loss = opened if isinstance(opened, (Documents, Samples)) else axis, frozenset(losses)
    if not isinstance(recipe, (Documents, Samples)) or "embedded-separators" in allow_loss:
        raise OptionError(
            "--allow-loss embedded-separators does not go with --ledger: it splits the sequences that the rows name"
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
            written_rows = np.empty(len(table.row), ROW)
            written_rows["sequence"] = sequences + (np.cumsum(there) - 1)[table.row]
            written_rows["source"], written_rows["record"] = table.source, table.sequence
            written_rows["start"], written_rows["stop"] = table.start, table.stop
            file.write(written_rows.data)
            sequences, rows = sequences + int(there.sum()), rows + len(written_rows)
            progress.advance(last - first)
        file.seek(0)
        file.write(_head(rows))
    return {"sequences": sequences, "rows": rows, "sources": listed}


def _table(recipe: Documents | Samples, numbers: Numbers) -> SpanTable:
    """Return the spans of consecutive sequences or samples of a recipe."""
    if isinstance(recipe, Samples):
        return recipe.table(numbers)
    row, (source, sequence) = np.arange(len(numbers)), recipe.origins(numbers)
    lengths = np.diff(recipe.offsets(int(numbers[0]), int(numbers[-1]) + 1))
    return SpanTable(row, source, sequence, np.zeros(len(row), np.int64), lengths)


def ledger_files(
    ledger: Mapping[str, Any], format_: Format, staging: Publisher, manifest: bytes | None
) -> Mapping[str, bytes | Path]:
    """Return the files of the ledger beside a destination, by name. The ledger has "unit", and the values of
    `write_ledger`. The scratch of `staging` holds the rows. The manifest has checksums of sources.
    """
    content: dict[str, Any] = json.loads(manifest) if manifest else {}
    output = content["output"] if manifest else extent(written_files(format_, staging.path))
    digests = {source["path"]: source["xxh3_128"] for source in content.get("sources", ())}
    in_store = not place_of(staging.given).is_local
    home, sources = "" if in_store else os.path.realpath(staging.destination.parent), list[dict[str, Any]]()
    for source in ledger["sources"]:
        (path, *_), digest = source["paths"], source["xxh3_128"]
        place = place_of(path)
        alike = (found for name, found in digests.items() if place_of(name).is_local == place.is_local)
        if source["kind"] == "text" and any(alike):  # the manifest may have the directory, not the file
            digest = digests.get(path) or _digest_of(place, registry.get(source["format"]))
        sources.append({**source, "xxh3_128": digest, "paths": [_relative(path, home) for path in source["paths"]]})
    described = {
        "schema": SCHEMA,
        "unit": ledger["unit"],
        "sequences": ledger["sequences"],
        "rows": ledger["rows"],
        "dataset": output,
        "sources": sources,
    }
    text = (json.dumps(described, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "surrogateescape")
    rows, about = ledger_paths(staging.destination)
    return {rows.name: staging.scratch / "ledger", about.name: text}


def _digest_of(path: Place, format_: Format) -> Any:
    """Return the checksum of the files of a dataset; reads all of them."""
    return fingerprint(path, format_.files(path))["xxh3_128"]


def _relative(path: str, home: str) -> str:
    """Return a path relative to a directory, or a URL; resolve links only if removing `..` would name another file.

    If `home` is "", because the ledger is in a store, the path is absolute.
    """
    if isinstance(place_of(path), Url):
        return path
    short = os.path.abspath(path)
    real = short if os.path.samefile(short, path) else os.path.realpath(path)
    return os.path.relpath(real, home) if home else real


# Reading a ledger.


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a piece of a sequence: positions `start <= p < stop` of a record.

    Attributes:
        source: Name of the source; `outer/inner` for a source of a nested recipe.
        path: The file.
        record: Number of the record in the file, or of the sequence in a dataset of token IDs, from 0.
        start: First position in the record, in tokens.
        stop: Position after the last; position len(record) is the separator.
        line: Number of the line in the file, from 1; None if records are not lines.
        byte_offset: Offset in bytes of the line, in the decompressed text if `decompressed`; None without a line.
        decompressed: The file is compressed.
        detail: The place in terms of the format, such as a row group; "" without one.
        via: The prepared datasets that lead to the record, each with the number of a sequence, outermost first.
    """

    source: str
    path: str
    record: int
    start: int
    stop: int
    line: int | None = None
    byte_offset: int | None = None
    decompressed: bool = False
    detail: str = ""
    via: tuple[tuple[str, int], ...] = ()


class LedgerRows:
    """The rows of a ledger that cannot be mapped. Rows and slices are read by byte offset."""

    def __init__(self, file: File, count: int) -> None:
        self._file, self._count = file, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, rows: int | slice) -> Any:
        first, last, _ = (rows if isinstance(rows, slice) else slice(rows, rows + 1)).indices(self._count)
        read = self._file.array(_HEAD + first * ROW.itemsize, max(0, last - first), ROW)
        return read if isinstance(rows, slice) else read[0]


class Ledger(NamedTuple):
    """A ledger that belongs to its dataset."""

    path: Place  # of rows
    home: Place  # directory that its paths are relative to
    unit: str  # "sequences" or "samples"
    sequences: int  # that it covers
    sources: Sequence[Mapping[str, Any]]  # files and datasets that it lists
    rows: NDArray[np.void] | LedgerRows  # ROW[rows]: mapped, or read when they are needed if the ledger is in a store

    def pieces(self, sequence: int, start: int, stop: int | None) -> list[tuple[int, int, int, int]]:
        """Return source, record, start and stop of each piece of positions `start <= p < stop` of a sequence.

        A separator without a row belongs to the end of the last piece.
        """
        rows, pieces, position = self.rows, list[tuple[int, int, int, int]](), 0
        k = bisect.bisect_left(range(len(rows)), sequence, key=lambda row: int(rows[row]["sequence"]))
        while k < len(rows) and int((row := rows[k])["sequence"]) == sequence:
            _, source, record, a, b = row.tolist()
            low, high = max(start, position), position + b - a if stop is None else min(stop, position + b - a)
            if low < high or a == b:
                pieces.append((source, record, a + low - position, a + high - position))
            last, position, k = (source, record, b, b), position + b - a, k + 1
        return pieces or ([last] if position and start >= position else [])


def read_ledger(path: Place, name: str | None) -> Ledger | None:
    """Return the ledger beside a dataset, which may be named by its prefix or index, or beside the target of a link;
    None without one.
    """
    path = registry.of_prefix(path)
    path = registry.get(name).canonical(path) if name else path
    rows_at, about_at = ledger_paths(path.normalized())
    if not about_at.exists() and path.is_symlink():
        rows_at, about_at = ledger_paths(path.real())
    if not about_at.exists():
        return None
    file = open_file(about_at)
    try:
        content = json.loads(file.read(0, min(file.size, _LIMIT)))
        valid = content["schema"] == SCHEMA and content["unit"] in ("sequences", "samples")
        count, rows, dataset = int(content["sequences"]), int(content["rows"]), dict(content["dataset"])
        sources = [_described(source) for source in content["sources"]]
    except (OptionError, ValueError, KeyError, TypeError, RecursionError):
        valid = False
    finally:
        file.close()
    if not valid:
        raise CorruptError(about_at, "is not a ledger of tokfmt", remedy=_AGAIN)
    counted = {
        **extent(written_files(format_of(path, name), path)),
        "xxh3_128": read_manifest(path).output.get("xxh3_128"),
    }
    for key, value in counted.items():
        if None not in (value, dataset.get(key)) and value != dataset[key]:
            problem = f"belongs to another {printable(path.name)} than the one that is there, by its {key}"
            raise CorruptError(about_at, problem, expected=dataset[key], found=value, remedy=_AGAIN)
    file = open_file(rows_at)
    size = _HEAD + rows * ROW.itemsize
    if file.size < size:
        raise TruncatedError(rows_at, "is cut", expected=f"{size:,} bytes", found=f"{file.size:,}", remedy=_AGAIN)
    if file.size > size or file.read(0, _HEAD) != _head(rows):
        problem = f"does not match {printable(about_at.name)}, which states {rows:,} rows"
        raise CorruptError(rows_at, problem, remedy=_AGAIN)
    stored_rows: NDArray[np.void] | LedgerRows = np.empty(0, ROW)
    if rows:
        mapped = isinstance(rows_at, Path)
        stored_rows = np.memmap(rows_at, ROW, "r", _HEAD, (rows,)) if mapped else LedgerRows(file, rows)  # type: ignore[call-overload]
    return Ledger(rows_at, about_at.parent.real(), content["unit"], count, sources, stored_rows)


_DESCRIPTION = {
    "name": str,
    "kind": Literal["ids", "text"],
    "paths": tuple[str, ...],
    "format": str,
    "bytes": int,
    "eos": EosChoice,
    "options": tuple[str, ...],
    "text": str | None,
    "split": str | None,
    "allow_loss": tuple[str, ...],
}


def _described(listed: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a source of a ledger with each value in its type."""
    values = {key: fit(key, listed[key], hint) for key, hint in _DESCRIPTION.items()}
    if not values["paths"] or not all(values["paths"]):
        raise OptionError("a source without a path", name="paths")
    return {**listed, **values, "options": given_options(values["options"])}


def compare_ledger(ledger: Ledger, reader: TokenReader) -> None:
    """Compare all rows of a ledger with its dataset, in 8 bytes of memory per sequence."""
    info, count, before = reader.info, ledger.sequences, 0
    if info.sequences != count:
        problem = f"does not have the {ledger.unit} of the dataset"
        raise CorruptError(ledger.path, problem, expected=f"{info.sequences:,}", found=f"{count:,}", remedy=_AGAIN)
    tokens_of_rows = np.zeros(count, np.int64)
    for a, b in windows(0, len(ledger.rows)):
        sequence, source, record, start, stop = (
            np.asarray(ledger.rows[a:b][name], np.int64) for name in ROW.names or ()
        )
        wrong = (np.diff(sequence, prepend=before) < 0) | (sequence >= count) | (record < 0) | (start < 0)
        wrong |= (stop < start) | (source < 0) | (source >= len(ledger.sources))
        if wrong.any():
            row = a + int(np.argmax(wrong))
            problem = f"row {row:,} names a sequence, source or record that cannot exist"
            raise CorruptError(ledger.path, problem, offset=_HEAD + row * ROW.itemsize, remedy=_AGAIN)
        np.add.at(tokens_of_rows, sequence, stop - start)
        before = int(sequence[-1])
    for a, b in windows(0, count):
        lengths = np.diff(reader.offsets(a, b))
        wrong = (
            tokens_of_rows[a:b] != lengths if ledger.unit == "sequences" else tokens_of_rows[a:b] > lengths
        )  # rows hold no padding
        if wrong.any():
            wrong_sequence = a + int(np.argmax(wrong))
            problem = f"the rows of sequence {wrong_sequence:,} do not hold as many tokens as the sequence"
            expected, found = f"{int(lengths[wrong_sequence - a]):,}", f"{int(tokens_of_rows[wrong_sequence]):,}"
            raise CorruptError(ledger.path, problem, expected=expected, found=found, remedy=_AGAIN)


class Ledgers:
    """The ledgers of datasets, and the sources that they list; each is opened once."""

    def __init__(self) -> None:
        self._ledgers: dict[Place, Ledger | None] = {}
        self._opened: dict[tuple[Place, int], Opened] = {}

    def of(self, path: Place, name: str | None = None) -> Ledger | None:
        """Return the ledger of a dataset; None if it has none; see `read_ledger`."""
        if path not in self._ledgers:
            self._ledgers[path] = read_ledger(path, name)
        return self._ledgers[path]

    def origins(self, ledger: Ledger, sequence: int, start: int = 0, stop: int | None = None) -> list[Origin]:
        """Return the origins of positions `start <= p < stop` of a sequence, through every ledger on the way."""
        origins = list[Origin]()
        for number, record, a, b in ledger.pieces(sequence, start, stop):
            if not 0 <= number < len(ledger.sources):
                raise CorruptError(ledger.path, f"names source {number}", found=f"{len(ledger.sources)} sources")
            origins += self._origins(ledger, number, record, (a, b))
        return origins

    def _origins(self, ledger: Ledger, number: int, record: int, span: tuple[int, int]) -> list[Origin]:
        opened, name = self._source(ledger, number), str(ledger.sources[number]["name"])
        reader, path = opened.reader, opened.paths[0]
        if isinstance(reader, RecordReader):
            if not reader.files:
                return [Origin(name, shown_path(path), record, *span)]
            count = reader.count()
            if not 0 <= record < count:
                raise CorruptError(ledger.path, f"names record {record:,} of {printable(path)}", found=f"{count:,}")
            line = reader.record_line(record)
            if line is None:
                byte_offset = reader.record_byte_offset(record)
                return [Origin(name, shown_path(byte_offset.path), record, *span, detail=byte_offset.detail)]
            return [Origin(name, shown_path(line.path), record, *span, line.number, line.offset, line.decompressed)]
        count = reader.info.sequences
        if not 0 <= record < count:
            raise CorruptError(ledger.path, f"names sequence {record:,} of {printable(path)}", found=f"{count:,}")
        inner = self.of(path, opened.format.name) if len(opened.paths) == 1 else None
        if inner is not None and inner.sequences == count:
            below = self.origins(inner, record, *span)
            return [replace(origin, via=((shown_path(path), record), *origin.via)) for origin in below]
        begin, end = reader.offsets(record, record + 1).tolist()
        place = reader.locate(begin) if begin < end else None
        return [Origin(name, shown_path(path if place is None else place.path), record, *span)]

    def _source(self, ledger: Ledger, number: int) -> Opened:
        """Return a listed source, opened with the options that the ledger records."""
        key = ledger.path, number
        if key not in self._opened:
            if len(self._opened) == _OPEN:
                self._opened.pop(next(iter(self._opened))).reader.close()
            self._opened[key] = open_dataset(listed_request(ledger, ledger.sources[number]))
        return self._opened[key]


def listed_request(ledger: Ledger, listed: Mapping[str, Any]) -> SourceRequest:
    """Return the request that opens a listed source with the options that the ledger records."""
    paths = [_named(ledger, path) for path in listed["paths"]]
    format_ = registry.get(listed["format"])
    request = SourceRequest(
        tuple(paths),
        listed["format"],
        listed["eos"],
        listed["options"],
        listed["text"],
        listed["split"],
        frozenset(listed["allow_loss"]),
    )
    expected, text = listed["bytes"], listed["kind"] == "text"
    size = extent(place for path in paths for place in format_.files(path))["bytes"]
    if size != expected:
        problem = "has changed since the ledger was written"
        raise SourceChangedError(paths[0], problem, expected=f"{expected:,} bytes", found=f"{size:,}", remedy=_AGAIN)
    digest = None
    if listed.get("xxh3_128") is not None and len(paths) == 1 and not (text and size > LITTLE):
        digest = _digest_of(paths[0], format_) if text else read_manifest(paths[0]).output.get("xxh3_128")
    if digest not in (None, listed.get("xxh3_128")):
        problem = f"has changed since the ledger was written, by its {'bytes' if text else 'manifest'}"
        raise SourceChangedError(paths[0], problem, expected=listed["xxh3_128"], found=digest, remedy=_AGAIN)
    return request


def _named(ledger: Ledger, name: str) -> Place:
    """The place that a ledger names: an address, or a path from the directory of the ledger."""
    place = place_named(ledger.path, name, ledger.home)
    return LocalPlace(os.path.normpath(place.text)) if place.is_local else place


def shown_path(path: Place) -> str:
    """Return a path for messages, relative to the working directory if it is below that."""
    if not path.is_local:
        return str(path)
    relative = os.path.relpath(path.text)
    return str(path) if relative.startswith(os.pardir) else relative
