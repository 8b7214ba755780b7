"""InternEvo's and InternLM's training data: `.bin` of JSON lines, and `.bin.meta`, which lists the lines.

    file           content
    X.bin          one {"tokens": [IDs]} per line, UTF-8; further keys are ignored
    X.bin.meta     NumPy's .npy of integers (documents, 2 or more): byte offset of the line, ..., number of its IDs
    FOLDER         train/TYPE/X.bin and valid/TYPE/X.bin, or any other folders: in order of folders, then of names

- The meta decides which documents there are, and their order; lines that it does not list are not read. Where no file
  has one, as in folders that xtuner reads, all lines are read.
- A negative number is an ID without loss: the ID is its absolute value. ID 0 cannot have a loss.
- BOS and EOS are stored as the tokenizer wrote them: 1 in front and 2 behind, for InternLM.
- The writer of upstream opens X.bin to append: running it twice doubles the documents. Its i32 offsets end at 2 GiB.
- Training leaves out documents of fewer than min_length IDs, 50 by default for validation.
Source: InternLM/InternEvo c628a8c8, tools/tokenizer.py, tools/alpaca_tokenizer.py and single_dataset.py, run.
"""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.options import option
from tokfmt.core.findings import Audit, Finding
from tokfmt.core.format import Confidence, Hints, Probe
from tokfmt.core.loss_mask import MASKS
from tokfmt.core.reader import windows
from tokfmt.errors import CorruptError, FormatError, TruncatedError
from tokfmt.files.file import File, Stream, everything_in, names_in, open_file
from tokfmt.files.place import AnyPlace, Place
from tokfmt.formats.folders import ids_in
from tokfmt.formats.npy import MAGIC, header_of
from tokfmt.formats.record_files import Record, RecordFiles, RecordFilesFormat, RecordFilesInspection, Row
from tokfmt.wording import counted, printable

META = ".meta"
_LINE, _AT_ONCE = 1 << 28, 1 << 10  # bytes of a line, lines per read, at most
_LARGEST = (1 << 32) - 1
_LINES = re.compile(rb'\{"tokens": ?\[')
MASK = MASKS[0]
_LOOKED_AT = 16  # lines that show whether numbers are negative


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading lines."""

    loss: Literal["sign", "refuse"] | None = option(
        None, "negative numbers are IDs without loss, or errors; auto: sign if one of the first lines has any"
    )


class Reader(RecordFiles):
    """A reader of files of lines, by their metas."""

    def __init__(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> None:
        """Read the headers of all metas, and the first lines."""
        files = _files_of(paths[0])
        if not files:
            raise FormatError(paths[0], "holds no X.bin of lines")
        alone = [path for path in files if not path.with_name(path.name + META).is_file()]
        counts = None if alone else [_meta(path)[0] for path in files]
        self.signed = options.loss == "sign"
        if options.loss is None:
            first = itertools.islice((record for path in files for record in self._lines(path, _LOOKED_AT)), _LOOKED_AT)
            self.signed = any(len(record) and int(record.min()) < 0 for record in first)
        masks = "loss masks by sign: negative IDs count not in the loss" if self.signed else ""
        notes = ["the ID 0 has no sign: it is read as an ID that does not count in the loss"] if self.signed else []
        if alone:
            what = f"{alone[0].name}{META} is missing"
            notes.append(f"{what}: all lines of {counted(len(alone), 'file')} without a meta are read")
        columns = (MASK,) if self.signed else ()
        super().__init__(
            "ids", files, hints, counts=counts, columns=columns, field="tokens", loss_masks=masks, notes=tuple(notes)
        )

    def records(self, path: Place) -> Iterator[Record]:
        for record in self._lines(path):
            if not self.signed and len(record) and int(record.min()) < 0:
                remedy = "--from-opt loss=sign reads negative numbers as IDs that do not count in the loss"
                found = int(record[record < 0][0])
                raise CorruptError(path, "has a negative ID", expected="0 or more", found=found, remedy=remedy)
            yield Row(np.abs(record), {MASK: (record > 0).astype(np.int64)}) if self.signed else record

    def _lines(self, path: Place, at_once: int = _AT_ONCE) -> Iterator[NDArray[np.int64]]:
        """Yield the numbers of each line that the meta lists, in its order; `at_once` lines are asked for together."""
        meta = path.with_name(path.name + META)
        if not meta.is_file():
            yield from _all_lines(path)
            return
        count, begin, dtype, columns = _meta(path)
        with closing(open_file(path)) as file, closing(open_file(meta)) as index:
            for a in range(0, count, at_once):
                b = min(count, a + at_once)
                raw = index.array(begin + a * columns * dtype.itemsize, (b - a) * columns, dtype)
                rows = raw.reshape(-1, columns)[:, [0, -1]].astype(np.int64)
                yield from self._read(file, meta, a, rows)

    def _read(self, file: File, meta: Place, first: int, rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Yield the numbers of some lines: `rows` are the byte offset of each, and the number of its IDs."""
        starts = rows[:, 0]
        if (away := np.flatnonzero((starts < 0) | (starts >= file.size))).size:
            k = int(away[0])
            what, expected = f"byte offset of line {first + k:,}", f"0 to {file.size - 1:,}"
            raise CorruptError(meta, what, expected=expected, found=int(starts[k]), remedy="Write the meta again")
        bounds = np.append(np.unique(starts), file.size)
        stops = bounds[np.searchsorted(bounds, starts, side="right")]
        ranges = [(max(0, a - 1), min(b, a + _LINE)) for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]
        for number, ((start, content), stated) in enumerate(
            zip(zip(starts.tolist(), file.read_ranges(ranges), strict=True), rows[:, 1].tolist(), strict=True)
        ):
            line = bytes(content[1:] if start else content)
            text, newline, _ = line.partition(b"\n")
            if start and bytes(content[:1]) != b"\n":
                what = f"line {first + number:,} does not begin at the byte that the meta states"
                raise CorruptError(file.path, what, offset=start, remedy="Write the meta again")
            ids = _ids(file.path, start, text, may_be_cut=not newline)
            if len(ids) != stated:
                what = f"IDs of line {first + number:,} at byte {start:,}"
                raise CorruptError(meta, what, expected=len(ids), found=stated, remedy="Write the meta again")
            yield ids


def _all_lines(path: Place) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of each line of a file without a meta."""
    with closing(open_file(path)) as file:
        lines, at = io.BufferedReader(Stream(file), 1 << 20), 0
        while line := lines.readline(_LINE):
            if line.strip():
                yield _ids(path, at, line, may_be_cut=not line.endswith(b"\n"))
            at += len(line)


def _ids(path: Place, at: int, text: bytes, *, may_be_cut: bool) -> NDArray[np.int64]:
    """Return the numbers of a line."""
    try:
        stated = json.loads(text)
    except (ValueError, RecursionError) as error:
        if may_be_cut:
            end = at + len(text)
            raise TruncatedError(path, "ends inside a line", offset=end, remedy="Copy it again") from error
        raise CorruptError(path, "holds a line that is not JSON", offset=at, remedy="Write it again") from error
    values = stated.get("tokens") if isinstance(stated, dict) else None
    if not isinstance(values, list):
        found = printable(text[:40].decode("utf-8", "replace"))
        raise CorruptError(path, "holds a line without a list tokens", offset=at, found=found)
    return ids_in(path, values, lowest=-_LARGEST, offset=at).astype(np.int64)


def _meta(path: Place) -> tuple[int, int, np.dtype[Any], int]:
    """Return the number of documents of a meta, the byte offset of the first entry, its dtype, and the columns."""
    place = path.with_name(path.name + META)
    if not place.is_file():
        raise CorruptError(place, "is missing: it lists the lines", remedy="tools/tokenizer.py of InternEvo writes it")
    with closing(open_file(place)) as file:
        header = header_of(file)
        count, columns = header.shape[0], header.shape[1] if len(header.shape) > 1 else 0
        if count and columns < 2:
            expected, found = "(documents, 2)", str(header.shape)
            raise CorruptError(place, "does not list lines: its shape", expected=expected, found=found)
        size = header.begin + count * columns * header.dtype.itemsize
        if file.size != size:
            what, remedy = "is not as long as its header states", "Copy it again"
            raise CorruptError(place, what, expected=f"{size:,} bytes", found=f"{file.size:,}", remedy=remedy)
    return count, header.begin, header.dtype, columns


def _files_of(path: Place) -> list[Place]:
    if not path.is_dir():
        return [path]
    found = [file for file in everything_in(path) if file.name.endswith(".bin" + META)]
    if not found:
        found = [file for file in everything_in(path) if file.name.endswith(".bin")]
    return [file.with_name(file.name.removesuffix(META)) for file in sorted(found, key=lambda file: file.parts)]


class InternEvoInspection(RecordFilesInspection):
    """The inspection of files of lines. It looks for documents that were appended a second time."""

    def look(self, how: Audit) -> Iterator[Finding]:
        yield from super().look(how)
        for path in self._reader.places:
            try:
                count, begin, dtype, columns = _meta(path)
                with closing(open_file(path.with_name(path.name + META))) as index:
                    entries = index.array(begin, count * columns, dtype) if count else np.empty(0)
                lengths = entries.reshape(-1, max(1, columns))[:, -1]
                is_double = count % 2 == 0 < count and np.array_equal(lengths[: count // 2], lengths[count // 2 :])
                with closing(open_file(path)) as file:
                    half = file.size // 2
                    same = (
                        bool(is_double)
                        and file.size % 2 == 0
                        and all(
                            file.read(at, min(1 << 20, half - at)) == file.read(half + at, min(1 << 20, half - at))
                            for at in range(0, half, 1 << 20)
                        )
                    )
            except FormatError:
                continue  # The reader reports it.
            if how.deep and (unlisted := _unlisted(path)):
                error = CorruptError(path, f"has {counted(unlisted, 'line')} that the meta does not list")
                yield Finding.of("TF845", error, "warning")
            if same:
                error = CorruptError(path, f"holds each of its {counted(count // 2, 'document')} twice")
                yield Finding.of("TF843", error, "warning")


def _unlisted(path: Place) -> int:
    """Return the number of lines of a file that its meta does not list."""
    count, begin, dtype, columns = _meta(path)
    with closing(open_file(path.with_name(path.name + META))) as index:
        starts = index.array(begin, count * columns, dtype).reshape(-1, columns)[:, 0] if count else np.empty(0)
    with closing(open_file(path)) as file:
        lines = sum(file.read(a, b - a).count(b"\n") for a, b in windows(0, file.size))
    return max(0, lines - len(np.unique(starts)))


class InternEvo(RecordFilesFormat):
    """The format of InternEvo's training data."""

    name = "internevo"
    title = "InternEvo and InternLM: .bin of JSON lines and .bin.meta"
    stores = "sequences in order, empty ones too; loss masks by sign; IDs up to 2^32-1"
    read_only = True
    read_options = ReadOptions
    Reader, inspection = Reader, InternEvoInspection
    unreadable, damaged, unsafe = "TF841", "TF842", "TF844"

    def sniff(self, probe: Probe) -> Confidence | None:
        if probe.path.name.endswith(".bin" + META):
            lines = probe.path.with_name(probe.path.name.removesuffix(META))
            return Confidence.CERTAIN if probe.head.startswith(MAGIC) and lines.is_file() else None
        if not probe.is_directory:
            meta = probe.path.with_name(probe.path.name + META)
            if not probe.path.name.endswith(".bin") or probe.head[:1] not in (b"{", b""):
                return None
            if not meta.is_file():
                return Confidence.CERTAIN if _LINES.match(probe.head) else None
            with closing(open_file(meta)) as file:
                is_array = file.read(0, min(file.size, len(MAGIC))) == MAGIC
            return Confidence.CERTAIN if is_array else None
        folders = [probe.path, *(probe.path / name for name in ("train", "valid") if name in probe.entries)]
        folders += [folder / name for folder in folders[1:] for name in sorted(names_in(folder))[:8]]
        for folder in (folder for folder in folders if folder.is_dir()):
            names = names_in(folder)
            if any(name.endswith(".bin" + META) for name in names):
                return Confidence.CERTAIN
            first = min((name for name in names if name.endswith(".bin")), default="")
            if (
                first
                and (beside := probe.opened(folder / first))
                and _LINES.match(beside.read(0, min(64, beside.size)))
            ):
                return Confidence.CERTAIN
        return None

    def files(self, path: Place) -> Sequence[Place]:
        found = [each for file in _files_of(path) for each in (file, file.with_name(file.name + META))]
        return [file for file in found if file.is_file()]

    def canonical(self, path: AnyPlace) -> AnyPlace:
        is_meta = path.name.endswith(".bin" + META)
        return path.with_name(path.name.removesuffix(META)) if is_meta else path

    def companions(self, path: Place) -> Sequence[Place]:
        return [path.with_name(path.name + META)] if path.name.endswith(".bin") else []


FORMAT = InternEvo()
