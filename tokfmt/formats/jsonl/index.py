"""Read, check and write the raw index `X.idx` of `X.jsonl`, which lists the lines that are documents.

The index is a pickled list with one (offset, length) per line. Every version of its writer stored the right offsets,
in bytes. The meaning of the lengths changed several times; see the docstring of the package. So an offset is used if
the byte before it is a line end, and a line is read to its own end. An entry of length 0 is not a document. No writer
stored a length that reaches beyond the line: an entry that overlaps the next one hides lines.

Upstream can leave out lines that are blank or not JSON. Any other line without an entry is hidden by an index that is
older than the text, belongs to another text, or is damaged. That is an error unless `index=trust` is given.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.reader import Damage
from tokfmt.errors import NO_DAMAGE, CorruptError, FormatError, OptionError, UnsafeError, UnsupportedError
from tokfmt.files.file import File, open_file, writing
from tokfmt.files.place import AnyPlace, Place, PlaceLike, destination_of, place_of
from tokfmt.files.replacing import readable_by, resolve_link
from tokfmt.files.spool import staging_for
from tokfmt.formats.jsonl.lines import Lines, Positions, TextFile, border, bounds, lines_of, walk
from tokfmt.formats.jsonl.options import MAX_LINE
from tokfmt.formats.jsonl.parse import Fault, Validator, line_error
from tokfmt.formats.pickled_index import read_entries, write_entries

REMEDY = "tokfmt index makes a new one; --from-opt index=none reads every line without it"
_OTHER_FILE = "this is the index of another file or an older one"
_LOOKED_AT = 64  # entries that opening compares with the lines; reading compares each
_GAPS = 4096  # gaps between entries that are read, at most, to count the lines without an entry
_GAP_BYTES = 1 << 24  # bytes of these gaps, at most
_OTHER_TOOLS = (b"MMIDIDX", b"TNTIDX")  # magic of an .idx of another toolkit, which belongs to a .bin


class RawIndex:
    """The entries of the index of a text file, and what is wrong with them.

    Args:
        text: The text file.
        trusted: See below.
        lengths: Keep the lengths, and read on after a problem, as a check of all lines does.

    Attributes:
        path: The path of the index.
        offsets: int64[documents], the byte offset of each document in the text; ascending, unless TF518 is a problem.
        lengths: int64[documents], their lengths; empty if they were not asked for.
        extra: The number of entries of length 0, which are not documents.
        problems: The first error of each kind, by the code of its finding, in the order in which they were found.
        trusted: True if lines that are documents may have no entry.
    """

    def __init__(self, text: TextFile, *, trusted: bool, lengths: bool = False) -> None:
        self.path, self.trusted, self.extra = index_path(text.path), trusted, 0
        self.offsets = self.lengths = np.empty(0, np.int64)
        self.problems: dict[str, FormatError] = {}
        self._gaps: _Gaps | None = _Gaps(text)
        self._keeps, self._end = lengths, 0

    def read(self, file: File, text: TextFile, *, partial: bool, is_truncated: bool) -> None:
        """Read the entries; see `read_index`."""
        offsets, sizes = array("q"), array("q")  # Unlike numpy's, these arrays grow in place.
        try:
            for batch in read_entries(file, 0, file.size, text.file.size + 1, is_truncated=is_truncated):
                real = batch[1] > 0
                self.extra += len(real) - int(np.count_nonzero(real))
                if partial:
                    real &= batch[0] + batch[1] <= text.size
                some, each = batch[0][real], batch[1][real]
                self._look(text, len(offsets), offsets[-1] if offsets else -1, some, each)
                if self.problems and not self._keeps:
                    return
                offsets.frombytes(some.tobytes())
                if self._keeps:
                    sizes.frombytes(each.tobytes())
        except FormatError as error:
            self.problems["TF511"] = type(error)(
                error.path, error.what, offset=error.offset, expected=error.expected, found=error.found, remedy=REMEDY
            )
        self.offsets, self.lengths = np.asarray(offsets, np.int64), np.asarray(sizes, np.int64)

    def _look(self, text: TextFile, first: int, before: int, offsets: Positions, lengths: Positions) -> None:
        """Compare the next entries with each other, and with the size of the text."""
        if error := _disorder(self.path, offsets, first, before):
            self.problems.setdefault("TF518", error)
        if not self.trusted and "TF515" not in self.problems:
            found = next(overlaps(self.path, text, first, (self._end, offsets, lengths)), None)
            if found is not None:
                self.problems["TF515"] = found
        if not self.problems and self._gaps is not None:
            self._gaps.add(offsets, lengths)
        if len(offsets):
            self._end = int(offsets[-1] + lengths[-1])

    def checked(self, text: TextFile) -> tuple[str, ...]:
        """Compare the entries with the text, as far as opening does, and return notes on lines without an entry."""
        for error in self.problems.values():
            raise error
        _check_places(self.path, self.offsets, text)
        gaps, self._gaps = self._gaps, None
        return () if gaps is None else tuple(gaps.notes(self.path, trusted=self.trusted))

    def documents(self, lines: Lines) -> Lines:
        """Return the lines that have an entry."""
        first, at, hit = begun(self.offsets, lines)
        if not hit.all():
            miss = first + int(np.argmin(hit))
            raise stale(self.path, miss, int(self.offsets[miss]))
        if len(at) == len(lines):
            return lines
        if not self.trusted and (hidden := hidden_lines(lines, at)):
            raise hiding(self.path, lines.text, len(hidden), hidden[0])
        return lines.take(at)


def begun(offsets: Positions, lines: Lines) -> tuple[int, Positions, NDArray[np.bool_]]:
    """Match the entries that point into some lines with these lines.

    Args:
        offsets: The offsets of all entries, ascending.
        lines: Whole lines of the text, none left out.

    Returns:
        The number of the first of the n entries; int64[m], the index of the line of each entry that begins a line;
        bool[n], True for an entry that begins a line.
    """
    starts = lines.starts + lines.offset
    starts[:1] = lines.offset  # An entry begins before the byte order mark.
    first, last = np.searchsorted(offsets, [lines.offset, lines.offset + len(lines.data)]).tolist()
    wanted = offsets[first:last]
    at = np.searchsorted(starts, wanted)
    hit = at < len(starts)
    hit[hit] = starts[at[hit]] == wanted[hit]
    return first, at, hit


def index_path(text: AnyPlace) -> AnyPlace:
    """Return the path of the index of a text file: `X.idx` for `X.jsonl`."""
    return text.with_suffix(".idx")


def has_index(text: TextFile) -> bool:
    """Return True if a plain text file has an index. The .idx of another toolkit does not count."""
    file = open_index(text)
    if file is not None:
        file.close()
    return file is not None


def open_index(text: TextFile) -> File | None:
    """Open the index of a plain text file; None without one. The .idx of another toolkit does not count."""
    path = index_path(text.path)
    if text.compression is not None or path == text.path or not path.is_there():
        return None
    file = open_file(path)
    if not file.read(0, min(file.size, 8)).startswith(_OTHER_TOOLS):
        return file
    file.close()
    return None


def read_index(
    text: TextFile, *, trusted: bool, lengths: bool = False, partial: bool = False, is_truncated: bool = False
) -> RawIndex | None:
    """Read the index of a plain text file, up to its first problem; None without an index.

    Args:
        text: The text file. With `is_truncated`, its `limit` is set to the end of the last line that has an entry.
        trusted: Leave out lines without an entry.
        lengths: Keep the lengths, and read on after a problem, as a check of all lines does.
        partial: Leave out entries after the end of the text, which may be cut.
        is_truncated: The index ends too early: return its complete entries.
    """
    file = open_index(text)
    if file is None:
        return None
    with closing(file):
        index = RawIndex(text, trusted=trusted, lengths=lengths)
        index.read(file, text, partial=partial, is_truncated=is_truncated)
    if is_truncated and len(index.offsets):
        text.limit = border(text, int(index.offsets[-1]) + 1, MAX_LINE)
    return index


def read_certain(text: TextFile, *, trusted: bool) -> tuple[RawIndex | None, tuple[str, ...], Damage | None]:
    """Return the checked index of a plain text file, its notes and its damage; of a truncated index, complete entries.

    The lines after the last complete entry may or may not have entries, so the text is read only up to them.
    """
    index = read_index(text, trusted=trusted, partial=True)
    if index is None:
        return None, (), None
    try:
        return index, index.checked(text), None
    except NO_DAMAGE:
        raise
    except FormatError as error:
        index = read_index(text, trusted=trusted, partial=True, is_truncated=True)
        notes = () if index is None else index.checked(text)
        if index is None or not len(index.offsets):
            raise
        return index, notes, Damage(error.sentence, unused=text.file.size - text.size)


def _disorder(path: Place, offsets: Positions, first: int = 0, before: int = -1) -> CorruptError | None:
    """Return the error of the first entry whose offset does not ascend; None if all do. `first` is the number of the
    first of these entries, and `before` the offset of the entry before them.
    """
    falling = np.flatnonzero(offsets <= np.concatenate(([before], offsets[:-1]))[: len(offsets)])
    if not len(falling):
        return None
    at = int(falling[0])
    return out_of_order(path, first + at, int(offsets[at]), int(offsets[at - 1]) if at else before)


def code_of(code: str, error: FormatError) -> str:
    """Return the code of the finding of an error: TF516 if it is unsafe."""
    return "TF516" if isinstance(error, UnsafeError) else code


def out_of_order(path: Place, entry: int, offset: int, before: int) -> CorruptError:
    """Return the error of an entry that does not begin after the entry before it, which begins at `before`."""
    what = f"entry {entry:,} begins at or before the one before it"
    return CorruptError(path, what, expected=f"an offset above {before:,}", found=offset, remedy=REMEDY)


def _check_places(path: Place, offsets: Positions, text: TextFile) -> None:
    outside = int(np.searchsorted(offsets, text.size))
    spread = np.unique(np.linspace(0, len(offsets) - 1, min(len(offsets), _LOOKED_AT)).astype(np.int64)).tolist()
    for at in spread if outside == len(offsets) else [outside]:
        if error := misplaced(path, text, at, int(offsets[at])):
            raise error


def misplaced(path: Place, text: TextFile, entry: int, offset: int) -> CorruptError | None:
    """Return the error of an entry that does not begin a line of the text; None if it does."""
    if not 0 <= offset < text.size:
        return CorruptError(
            path,
            f"entry {entry:,} points outside {text.path.name}: {_OTHER_FILE}",
            expected=f"an offset below {text.size:,}",
            found=offset,
            remedy=REMEDY,
        )
    return stale(path, entry, offset) if offset and text.file.read(offset - 1, 1) != b"\n" else None


def stale(path: Place, entry: int, offset: int) -> CorruptError:
    """Return the error of an entry that points into a line."""
    return CorruptError(
        path, f"entry {entry:,} points to byte {offset:,}, where no line begins: {_OTHER_FILE}", remedy=REMEDY
    )


def overlaps(
    path: Place, text: TextFile, first: int, entries: tuple[int, Positions, Positions]
) -> Iterator[CorruptError]:
    """Yield errors of entries that reach beyond the end of the text, or into the next entry: the first of each.

    Args:
        path: The path of the index.
        text: The text file.
        first: The number of the first entry.
        entries: The end of the entry before them; their offsets; their lengths, none of them 0.
    """
    before, offsets, lengths = entries
    ends = offsets + lengths  # The decoder refuses entries whose end is above 2^63.
    beyond = np.flatnonzero((lengths > text.size) | (ends > text.size))
    beyond = beyond[offsets[beyond] < text.size]  # `misplaced` reports entries outside of the text.
    if len(beyond):
        at = int(beyond[0])
        yield CorruptError(
            path,
            f"entry {first + at:,} reaches beyond the end of {text.path.name}: {_OTHER_FILE}",
            expected=f"at most {text.size - int(offsets[at]):,} bytes",
            found=int(lengths[at]),
            remedy=REMEDY,
        )
    reached = np.concatenate(([before], np.minimum(ends, text.size)[:-1]))[: len(offsets)]
    over = np.flatnonzero(reached > offsets)
    if len(over):
        at = int(over[0])
        yield CorruptError(
            path,
            f"entry {first + at - 1:,} overlaps the next: {_OTHER_FILE}",
            expected=f"an end at byte {int(offsets[at]):,} or before",
            found=int(reached[at]),
            remedy=REMEDY,
        )


def hidden_lines(lines: Lines, indexed: Positions | None = None) -> list[int]:
    """Return the byte offsets of lines that are JSON, and so documents, but are not among those that have an entry."""
    rest = lines if indexed is None else lines.take(np.delete(np.arange(len(lines)), indexed))
    validator, starts = Validator(), (rest.starts + rest.offset).tolist()
    return [
        at for at, line in zip(starts, rest.tolist(), strict=True) if line.strip() and validator.fault(line) is None
    ]


def hiding(path: Place, text: TextFile, count: int, offset: int) -> CorruptError:
    """Return the error of `count` lines that are documents but have no entry; `offset` is that of the first of them."""
    what = f"{count:,} lines of {text.path.name} that are" if count > 1 else f"a line of {text.path.name} that is"
    first = f"the first at byte {offset:,}" if count > 1 else f"at byte {offset:,}"
    return CorruptError(
        path,
        f"leaves out {what} JSON ({first}): it is older than the text, or belongs to another one",
        remedy=f"{REMEDY}; --from-opt index=trust leaves such lines out",
    )


class _Gaps:
    """The gaps between entries, from their lengths: they hold line ends, and lines without an entry."""

    def __init__(self, text: TextFile) -> None:
        self.text = text
        self.end = self.size = 0
        self.found: list[tuple[int, int]] = []  # start and stop of each gap, in order, until there are too many
        self.many = False

    def add(self, offsets: Positions, lengths: Positions) -> None:
        """Add the gaps between the next entries."""
        ends = offsets + np.minimum(lengths, self.text.size - offsets)
        starts = np.concatenate(([self.end], ends[:-1]))
        self._keep(starts, offsets)
        if len(ends):
            self.end = int(ends[-1])

    def _keep(self, starts: Positions, stops: Positions) -> None:
        wide = np.flatnonzero(stops - starts > (starts > 0))  # A line feed alone is not a gap.
        self.size += int((stops - starts)[wide].sum())
        self.many = self.many or len(self.found) + len(wide) > _GAPS or self.size > _GAP_BYTES
        if not self.many:  # Reading the text inspects the other gaps.
            self.found += zip(starts[wide].tolist(), stops[wide].tolist(), strict=True)

    def notes(self, path: Place, *, trusted: bool) -> Iterator[str]:
        """Yield a note on lines without an entry, with their number if there are few gaps to read."""
        self._keep(np.asarray([self.end], np.int64), np.asarray([self.text.size], np.int64))
        count, hidden = 0, list[int]()
        for start, stop in self.found:
            lines = _lines_between(self.text, start, stop)
            count += len(lines)
            hidden += [] if trusted else hidden_lines(lines)
        if hidden:
            raise hiding(path, self.text, len(hidden), hidden[0])
        if self.many:
            yield f"{path.name} decides which lines are documents; lines without an entry are left out"
        elif count:
            lines_ = "lines" if count > 1 else "line"
            what = "" if trusted else f" that {'are' if count > 1 else 'is'} blank or not JSON"
            yield f"{path.name} leaves out {count:,} {lines_}{what}; --from-opt index=none reads all"


def _lines_between(text: TextFile, start: int, stop: int) -> Lines:
    """Return the lines that begin in a gap. A gap after an entry begins inside a line."""
    gap = text.file.read(start, stop - start)
    cut = gap.find(b"\n") + 1 if start else 0
    return lines_of(text, gap[cut:] if cut or not start else b"", start + cut)


_ENTRIES = 1 << 16  # entries in memory while the index is written
_BARE = 4  # bytes of a line up to which it may be only a byte order mark and a carriage return
_SKIP = "--skip-invalid leaves such lines out of the index"

Pairs = NDArray[np.int64]
Faults = Callable[[Lines], list[tuple[int, Fault]]]


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The report of an index that was written.

    Attributes:
        source: The text file.
        destination: The index.
        entries: Number of lines in the index.
        skipped: Number of lines that were left out because they are not JSON.
        size_bytes: Size of the text in bytes.
    """

    source: Place
    destination: Place
    entries: int
    skipped: int
    size_bytes: int


def write_index(
    source: PlaceLike,
    destination: PlaceLike | None = None,
    *,
    validate: bool = True,
    skip_invalid: bool = False,
    overwrite: bool = False,
    advance: Callable[[int], None] | None = None,
) -> IndexReport:
    """Write the raw index of a file: the offset and length in bytes of every line.

    Lengths include carriage returns and a byte order mark. If the function raises, no index is written.

    Args:
        source: A plain JSONL file.
        destination: The index (default: `X.idx` beside `X.jsonl`).
        validate: Parse every line; else only empty lines are invalid.
        skip_invalid: Leave out lines that are not JSON, instead of stopping at the first.
        overwrite: Replace an existing index.
        advance: Called with the number of bytes of the text that were read since the last call.

    Raises:
        FormatError: A line is not JSON (the message has its number and byte offset), or the file has no line.
        UnsupportedError: The file is compressed.
        OptionError: The destination is the source.
        DestinationExistsError: The index exists, and `overwrite` is not set.
    """
    source = place_of(source)
    text = TextFile(source)
    if text.compression is not None:
        what = f"is {text.compression} data; only plain text can have an index"
        raise UnsupportedError(source, what, remedy="Decompress it")
    destination = destination_of(destination or index_path(source))
    place = resolve_link(destination)
    if place.real() == source.real() or _is_same(place, source):
        raise OptionError(f"{source}: the index would replace the text. Name another file with -o")
    validator = Validator() if validate else None
    with staging_for(destination, overwrite=overwrite, readable=readable_by([source])) as staging:
        spilled = staging.scratch / "entries"
        with writing(destination):
            with open(spilled, "wb") as out:
                entries, skipped = _spill(text, validator, out, advance, skip_invalid=skip_invalid)
            text.file.check_unchanged()
            with open(spilled, "rb") as entries_file, open(staging.path, "wb") as index:
                index.writelines(write_entries(entries, _batches(entries_file)))
        staging.publish()
    return IndexReport(source, destination, entries, skipped, text.size)


def _is_same(place: Place, source: Place) -> bool:
    """Return whether two paths are links to one file."""
    return place.is_local and source.is_local and place.exists() and os.path.samefile(place.text, source.text)


def _spill(
    text: TextFile,
    validator: Validator | None,
    out: BinaryIO,
    advance: Callable[[int], None] | None,
    *,
    skip_invalid: bool,
) -> tuple[int, int]:
    """Write (offset, length) of each valid line as int64[2]; return the number of entries, and of lines left out."""
    entries = skipped = end = 0
    found = _found(text, skip_invalid) if validator is None else _looked_at(text, validator.faults, skip_invalid)
    for pairs, lines in found:
        out.write(pairs.data)
        entries, skipped = entries + len(pairs), skipped + lines - len(pairs)
        if advance is not None and len(pairs):
            before, end = end, int(pairs[-1].sum())
            advance(end - before)
    if not entries and not skip_invalid:
        raise FormatError(text.path, "is empty", remedy="--skip-invalid writes an index without entries")
    return entries, skipped


def _looked_at(
    text: TextFile, faults_of: Faults, skip_invalid: bool, start: int = 0, stop: int | None = None
) -> Iterator[tuple[Pairs, int]]:
    """Yield batches of lines that are parsed: int64[n, 2], offset and length of each valid line, and the line count."""
    for lines in walk(text, start, stop, MAX_LINE):
        faults = faults_of(lines)
        if faults and not skip_invalid:
            index, fault = faults[0]
            remedy = fault.remedy.partition(";")[0]
            raise line_error(lines, index, replace(fault, remedy=f"{remedy}; {_SKIP}"))
        pairs = _pairs(*lines.stretches())
        yield np.delete(pairs, [index for index, _ in faults], axis=0) if faults else pairs, len(pairs)


def _found(text: TextFile, skip_invalid: bool) -> Iterator[tuple[Pairs, int]]:
    """Yield the same for lines that are not parsed, unless one of them may be empty or too long."""
    for starts, ends in bounds(text):
        lengths = ends - starts
        if len(lengths) and (int(lengths.min()) <= _BARE or int(lengths.max()) > MAX_LINE):
            yield from _looked_at(text, _empty, skip_invalid, int(starts[0]), min(int(ends[-1]) + 1, text.size))
        else:
            yield _pairs(starts, lengths), len(lengths)


def _pairs(offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> Pairs:
    pairs = np.empty((len(offsets), 2), np.int64)
    pairs[:, 0], pairs[:, 1] = offsets, lengths
    return pairs


def _empty(lines: Lines) -> list[tuple[int, Fault]]:
    """Return the faults of empty lines, which no reader accepts."""
    return [(int(index), Fault("is empty", remedy="Remove it")) for index in np.flatnonzero(lines.ends == lines.starts)]


def _batches(file: BinaryIO) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    while True:
        pairs = np.fromfile(file, np.int64, 2 * _ENTRIES).reshape(-1, 2)
        if not len(pairs):
            return
        yield np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
