"""OLMo's and dolma's token files: raw tokens in `X.npy`, starts and ends of documents in `X.csv.gz`.

    file                    content
    X.npy                   token IDs, little-endian u8, u16, u32 or u64, and no numpy header in spite of the name
    X.csv.gz                gzip, no header row, one row per document: start,end in tokens, end exclusive; dolma adds
                            id,src,loc, quoted where needed
    labels_mask_part_K.npy  label mask of token_ids_part_K.npy, one byte per token: 1 if its label counts in the loss,
                            else 0; labels_mask_X.npy is that of another X.npy; in a folder, masks and token files
                            match by rank

- The files do not state the width. If a file is complete, the end of the last row times the width is its size; tokfmt
  checks the IDs against that. OLMo-core uses the smallest of 1, 2, 4, 8 bytes that holds the vocabulary, dolma 2 by
  default.
- EOS follows every document unless it is its last token already. An empty document is an EOS alone.
- dolma makes files at their full size. If it is killed, zeros remain after the last row.
- open-instruct cuts its stream every 1 GiB, so a document may continue in the next file; the piece in each file has a
  row.
- OLMo-core finds documents of local files by a scan for EOS and ignores the rows: documents without EOS run together.
Source: allenai/dolma 669f534, allenai/OLMo-core fa6c5014, allenai/open-instruct e6c3044a, run.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from tokfmt.base.options import option
from tokfmt.core.annotation import all_or_none, first_tokens
from tokfmt.core.findings import Audit, Finding, Problem, fatal
from tokfmt.core.format import Confidence, Hints, Probe
from tokfmt.core.ragged import Offsets, Tokens, offsets_of
from tokfmt.core.reader import Damage, Layout, Separators, TokenReader, windows
from tokfmt.core.widths import LOOKED_AT, ends_alike, likely_width, width_of_size
from tokfmt.errors import CorruptError, FormatError, TruncatedError, UnsafeError, UnsupportedError
from tokfmt.files.file import File, matching, open_file
from tokfmt.files.place import AnyPlace, Place
from tokfmt.files.side_by_side import side_by_side
from tokfmt.formats.flat import (
    Extent,
    FileLayout,
    FlatFormat,
    FlatInspection,
    FlatOptions,
    FlatReader,
    FlatWriter,
    joined,
    loss_mask,
)
from tokfmt.wording import counted, printable

_ROWS = 1 << 20  # rows per gzip member that is written
_LOOKED_AT = 1 << 16  # bytes at each end of a tail that are compared with zero
_MASKS = "labels_mask*.npy"
_ENDS = 64  # documents whose last tokens are compared to infer the separator
_LINE = 1 << 16  # characters per row, at most
_GZIP_INPUT, _GZIP_OUTPUT = 1 << 16, 1 << 20  # bytes per step of decompression, at most
_ROW_BYTES, _SLACK = 1 << 10, 1 << 20  # limit of a .csv.gz in bytes: 1 KiB per byte of tokens, plus 1 MiB


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading raw tokens."""

    width: Literal[1, 2, 4, 8] | None = option(None, "bytes per token, if no .csv.gz states it")


@dataclass(frozen=True, slots=True)
class WriteOptions(FlatOptions):
    """Options for writing raw tokens."""

    width: Literal[1, 2, 4, 8] | None = option(
        None, "bytes per token, to fit the vocabulary; auto: 2 unless IDs need more"
    )
    shard_size: int = option(
        1 << 29, "tokens per file of a folder; documents stay complete", minimum=1, maximum=1 << 40
    )


class Writer(FlatWriter):
    """A writer of X.npy and X.csv.gz, or of such pairs in a folder; masks have the names of open-instruct."""

    separators = Separators.SCANNED  # OLMo-core scans local files for EOS and ignores the rows.
    suffix, whole = ".npy", True
    needs_max_id, dtypes, limit = True, ("<u2", "<u4", "<u8"), 2**63 - 1

    @property
    def names(self) -> str:  # type: ignore[override]
        return "token_ids_part_{number:04d}.npy" if self.masked else "part-0-{number:05d}.npy"

    @staticmethod
    def mask_file(tokens: AnyPlace) -> AnyPlace:
        """Return the path of the label mask of a token file.

        As in open-instruct, "labels_mask" replaces "token_ids" in the name. Any other name gets the prefix
        "labels_mask_".
        """
        named = tokens.name.replace("token_ids", "labels_mask")
        return tokens.with_name(named if named != tokens.name else f"labels_mask_{named}")

    def index(self, stored: TokenReader, dtype: np.dtype[Any]) -> Iterator[tuple[Path, int, bytes]]:  # noqa: ARG002
        for cut in self.cuts(stored):
            path, at = rows_of(self.file(cut.number)), 0
            for first, last in list(windows(cut.first, cut.last, _ROWS)) or [(0, 0)]:
                bounds = (stored.offsets(first, last) - cut.start).tolist()
                rows = "".join(f"{a},{b}\n" for a, b in zip(bounds, bounds[1:], strict=False))
                member = gzip.compress(rows.encode(), mtime=0)
                yield path, at, member
                at += len(member)


class OlmoInspection(FlatInspection):
    """The inspection of token files with their rows and masks."""

    def look(self, how: Audit) -> Iterator[Finding]:
        """See `Inspection.look`. If `how.deep`, the rows are compared with a scan for the separator as well."""
        findings = list(super().look(how))
        yield from findings
        if how.deep and not findings and not self.problems:
            yield from _scanned(FlatReader(self.layout), self.paths[0], how.eos_id)


class Olmo(FlatFormat):
    """The format of OLMo's raw tokens."""

    name = "olmo"
    title = "OLMo and dolma: raw tokens in .npy, documents in .csv.gz"
    extensions = ("part-*.npy", "token_ids_part_*.npy")
    joins_files = numbers_files = True
    stores = "sequences in order, empty ones too; label masks; IDs up to 2^63-1"
    cannot_store = "sequences that contain the separator"
    read_options, write_options, Writer = ReadOptions, WriteOptions, Writer
    # masks, and the order files of a run, are not tokens
    pattern = r"(?!labels_mask|global_indices|(?:labels|attention_mask)\.npy|[._]).+\.npy"
    unreadable, masked, other_index, inspection = "TF701", "TF706", "TF707", OlmoInspection
    suffixes, member = (".npy", ".csv.gz"), "X.npy with raw tokens"
    entries = ("*.csv.gz",)

    def sniff(self, probe: Probe) -> Confidence | None:
        stopped = probe.is_directory and "_tokens.partial.bin" in probe.entries
        return Confidence.CERTAIN if stopped else super().sniff(probe)

    def recognize(self, probe: Probe) -> Confidence | None:
        if probe.path.suffix != ".npy" or _numpy(probe.head):
            return None
        rows = rows_of(probe.path)
        packed = rows.is_file() and open_file(rows).read(0, min(3, rows.status().size)) == b"\x1f\x8b\x08"
        if packed or not probe.size:
            return Confidence.CERTAIN if packed else None
        named = re.fullmatch(r"token_ids_part_\d+\.npy|part-\d+-\d+\.npy", probe.path.name)
        return Confidence.PLAUSIBLE if named else Confidence.NAME

    def names(self, path: AnyPlace) -> list[AnyPlace]:
        found: list[AnyPlace] = super().names(path)
        if found[1:]:
            found.append(Writer.mask_file(found[0]))
        return found

    def files(self, path: Place) -> list[Place]:
        return list(dict.fromkeys([*super().files(path), *self._tokens_and_masks([path])[1]]))

    def _tokens_and_masks(self, paths: Sequence[Place]) -> tuple[list[Place], list[Place]]:
        """Return the token files and the masks, both in order; file k belongs to mask k."""
        tokens = [file for path in paths for file in self.members(path)]
        found = [matching(path, _MASKS) if path.is_dir() else [Writer.mask_file(path)] for path in paths]
        return tokens, sorted(mask for masks in found for mask in masks if mask.is_file() and mask not in tokens)

    def examine(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> FileLayout:
        tokens, masks = self._tokens_and_masks(paths)
        if not tokens:
            stopped = (paths[0] / "_tokens.partial.bin").exists()
            what = "is a run of open-instruct that was stopped" if stopped else f"holds no {self.member}"
            raise FormatError(paths[0], what, remedy="Finish the run" if stopped else None)
        rows = all_or_none([rows_of(file) for file in tokens])
        beside: list[Place | None] = [*masks] if len(masks) == len(tokens) else [None] * len(tokens)
        masked = dict(zip(tokens, beside, strict=True))
        if hints.allow_partial:

            def look(path: Place) -> FileLayout:
                if rows:
                    return _look_partly(open_file(path), masked[path], options.width, hints.eos_id)
                return _look(open_file(path), masked[path], options.width, rows=False)

            looks = self.certain_parts(tokens, look, hints.allow_loss)
            looks = _closed(looks, hints.eos_id) if rows else looks
        else:
            looks = list(
                side_by_side(lambda file: _look(open_file(file), masked[file], options.width, rows=rows), tokens)
            )
        file_layout, problems = joined(looks), list[Problem]()
        if len(masks) not in (0, len(tokens)):
            what = "label masks and token files differ in number"
            problems.append(fatal("TF706", CorruptError(masks[0], what, expected=len(tokens), found=len(masks))))
        starts, notes = _run_on(looks, hints.eos_id) if rows else (None, ())
        label_masks = f"label masks of {counted(len(masks), 'file')}" if masks else ""
        file_layout = replace(
            file_layout, starts=starts, notes=notes, loss_masks=label_masks, extras={"files": len(tokens)}
        )
        return replace(file_layout, problems=[*file_layout.problems, *problems])


def rows_of(tokens: AnyPlace) -> AnyPlace:
    """Return the path of the rows (.csv.gz) of a token file."""
    return tokens.with_suffix(".csv.gz")


def _numpy(head: bytes) -> bool:
    """Return True for a numpy array: its magic and the "{" of its header, as tokens may have the magic alone."""
    return head.startswith(b"\x93NUMPY") and b"{" in (head[10:11], head[12:13])


def _look(file: File, mask: Place | None, width: int | None, *, rows: bool) -> FileLayout:
    """Return the layout of one token file: the runs of tokens that rows cover, their documents, and the mask."""
    file.prefetch([(0, min(LOOKED_AT, file.size))], keep=True)  # as `width_of_size` reads it
    head = file.read(0, min(16, file.size))
    if _numpy(head) or file.path.name.startswith("labels_mask"):
        found = "a numpy array" if _numpy(head) else "a label mask"
        raise UnsupportedError(file.path, "does not hold raw tokens", found=found, remedy="Name the token file")
    spans = _rows(rows_of(file.path), file.size) if rows else None
    end = int(spans[-1, 1]) if spans is not None and len(spans) else 0
    if width is None and spans is None:
        likely = likely_width(file.array(0, min(file.size, _LOOKED_AT) // 8 * 8, "u1"))
        remedy = f"Give the bytes per token with --from-opt width={likely}, probably"
        raise UnsupportedError(file.path, "raw tokens without a .csv.gz, which states their width", remedy=remedy)
    given = width is not None
    width, inferred, problems = _width(file, width, end, spans)
    count = file.size // width
    if spans is None:
        if rest := file.size % width:
            what, at = f"a stream of {width}-byte tokens ends inside one", file.size - rest
            problems.append(fatal("TF701", TruncatedError(file.path, what, offset=at), is_truncated=True))
        spans = np.array([[0, count]])
    before, path = np.concatenate(([0], spans[:-1, 1])), rows_of(file.path)
    wrong = (spans[:, 0] < before) | (spans[:, 1] < spans[:, 0]) | (spans[:, 1] > count)
    for k in np.flatnonzero(wrong)[:1].tolist():
        what, expected = f"row {k + 1:,}", f"from {before[k]:,} on, up to {count:,}"
        found = f"{spans[k, 0]:,} to {spans[k, 1]:,}"
        error = CorruptError(path, what, expected=expected, found=found, remedy="Copy it and the tokens again")
        if (spans[:, 0] >= before).all() and (spans[:, 1] >= spans[:, 0]).all():  # The rows agree with each other.
            error = _too_few(file, count, end, path.name, width_given=given)
        return FileLayout(extents=(), starts=offsets_of([]), problems=[*problems, fatal("TF702", error)])
    gaps = np.flatnonzero(spans[:, 0] > before)
    for k in gaps[:1].tolist():
        error = CorruptError(
            path,
            f"row {k + 1:,} begins",
            expected=int(before[k]),
            found=int(spans[k, 0]),
            remedy="--allow-loss gaps leaves out tokens outside of documents",
        )
        tokens = int((spans[gaps, 0] - before[gaps]).sum())
        lost = f"{counted(tokens, 'token')} between rows, from byte {before[k] * width:,} of {file.path.name} on"
        problems.append(fatal("TF703", error, "gaps", lost=lost))
    if left := file.size - end * width if rows else 0:
        zeros = _zeros(file, end * width)
        what = "zeros after the last row" if zeros else "tokens after the last row"
        word, code = ("tail", "TF704") if zeros else ("gaps", "TF703")
        error = CorruptError(
            file.path, what, offset=end * width, found=f"{left:,} bytes", remedy=f"--allow-loss {word} leaves them out"
        )
        problems.append(fatal(code, error, word, lost=f"{counted(left, 'byte')} from byte {end * width:,} on"))
    runs = np.split(spans, gaps[gaps > 0])
    covered = [(int(run[0, 0]), int(run[-1, 1] - run[0, 0])) for run in runs if len(run)]
    masks = list[Extent]()
    if mask is not None:
        whole_mask, wrong_mask = loss_mask(mask, count, "TF706")
        masks = [whole_mask._replace(begin=at, tokens=many) for at, many in covered]
        problems += wrong_mask
    dtype = np.dtype(f"<u{width}")
    extents = [Extent(file, at * width, many, dtype) for at, many in covered]
    stored = Separators.TRAILING if rows else Separators.AFTER
    starts = offsets_of(spans[:, 1] - spans[:, 0])
    return FileLayout(
        extents=extents, starts=starts, masks=masks, problems=problems, separators=stored, inferred=inferred
    )


def _too_few(file: File, count: int, end: int, rows: str, *, width_given: bool) -> CorruptError:
    """Return the error of a token file that ends before its last row does."""
    remedy = f"Copy it and {rows} again"
    if not width_given:
        how = "--from-opt width=N (bytes per token) with --allow-partial"
        remedy += f". {how} saves the complete documents of a cut file"
    expected = f"{end:,} or more, as {rows} states"
    return CorruptError(file.path, "tokens", expected=expected, found=f"{count:,}", remedy=remedy)


def _width(
    file: File, given: int | None, end: int, spans: Offsets | None
) -> tuple[int, tuple[str, ...], list[Problem]]:
    """Determine the bytes per token, from the option, or from the size of the file and the last row.

    Returns:
        The width; the inferred facts; the problems.
    """
    exact = [w for w in (1, 2, 4, 8) if end * w == file.size]
    if given:
        if not exact or given in exact:
            return given, (), []
        what, expected, remedy = "bytes per token", f"{exact[0]}, from the rows", f"Leave out --from-opt width={given}"
        if given > exact[0]:
            remedy = (
                f"If it was cut, --allow-partial saves the complete documents; else leave out --from-opt width={given}"
            )
        error = CorruptError(file.path, what, expected=expected, found=f"{given}, as given", remedy=remedy)
        return given, (), [fatal("TF702", error)]
    width = [*exact, *(w for w in (1, 2, 4, 8) if not exact and _zeros(file, end * w)), 2][0]
    ends = np.zeros(0, np.int64) if spans is None else np.maximum.accumulate(spans[:, 1])
    whole, starts = Extent(file, 0, file.size // width, np.dtype(f"<u{width}")), np.concatenate(([0], ends))
    try:
        return width, width_of_size(whole, starts, (1, 2, 4, 8), rows_of(file.path).name), []
    except CorruptError as error:
        return width, (), [fatal("TF702", error)]


def _look_partly(file: File, mask: Place | None, width: int | None, eos_id: int | None) -> FileLayout:
    """Return the layout of one token file, or of rows, that may be cut: the documents that have both.

    Raises:
        FormatError: The width cannot be determined, as the size of a cut file does not show it; or there is more
            damage than a cut.
    """
    path = rows_of(file.path)
    ends, lost = _rows_there(path, file.size)
    widths = [w for w in (1, 2, 4, 8) if int(ends[-1]) * w == file.size]
    tried = [
        Extent(file, 0, file.size // w, np.dtype(f"<u{w}")) for w in ((width,) if width else (*widths, 2, 4, 8, 1))
    ]
    extent = next((one for one in tried if width or ends_alike(one, ends, eos_id)), None)
    if extent is None:
        remedy = "Give the bytes per token with --from-opt width=N"
        raise CorruptError(path, "does not show the width of tokens, of which some may be missing", remedy=remedy)
    count, short = extent.tokens, extent.tokens < int(ends[-1])
    if not short and not lost:
        return _look(file, mask, extent.dtype.itemsize, rows=True)
    problems, masks, damage = list[Problem](), list[Extent](), list[Damage]()
    if short:
        error = _too_few(file, count, int(ends[-1]), path.name, width_given=True)
        problems.append(fatal("TF702", error, is_truncated=True))
    if lost:
        unused = max(0, count - int(ends[-1]))
        damage.append(Damage(lost, None, unused, unused * extent.dtype.itemsize))
    if mask is not None:
        whole, wrong = loss_mask(mask, count if lost else int(ends[-1]), "TF706")
        masks, problems = [whole._replace(tokens=int(ends[-1]))], [*problems, *wrong]
    extents = [extent._replace(tokens=int(ends[-1]))]
    return FileLayout(
        extents=extents,
        starts=ends,
        masks=masks,
        problems=problems,
        separators=Separators.TRAILING,
        damage=tuple(damage),
    )


def _rows_there(path: Place, token_bytes: int) -> tuple[Offsets, str]:
    """Read the complete rows of a file that may be cut.

    Returns:
        int64[documents + 1], the start of each document and the end of the last; and the reason why rows are missing,
        or "".
    """
    lost = ""
    try:
        rows = _rows(path, token_bytes)
    except CorruptError as error:
        if not isinstance(error.__cause__, EOFError):
            raise
        found, tail, lost = array("q"), b"", error.sentence
        try:
            with suppress(EOFError):
                for piece in members(open_file(path)):
                    *lines, tail = (tail + piece).split(b"\n")
                    found.extend(int(cell) for line in lines for cell in line.split(b",", 2)[:2])
            rows = np.asarray(found, np.int64).reshape(-1, 2)
        except (ValueError, OverflowError):
            raise error from None
    ends = np.concatenate([np.zeros(1, np.int64), rows[:, 1]])
    if not np.array_equal(rows[:, 0], ends[:-1]) or (np.diff(ends) < 0).any():
        raise CorruptError(
            path, "rows overlap, or leave tokens out", remedy="--allow-loss gaps reads a file that is complete"
        )
    return ends, lost


def _closed(looks: list[FileLayout], eos_id: int | None) -> list[FileLayout]:
    """Leave out the last document if it does not end with the separator: it may continue in a missing file."""
    ends = _ends_of([FlatReader(look) for look in looks])
    eos_id = _common_end(ends) if eos_id is None else eos_id
    last, last_id = looks[-1], ends[-1].last
    if len(looks) < 2 or last.starts is None or last_id in (None, eos_id):
        return looks
    total = sum(extent.tokens for extent in last.extents)
    begin, what = int(last.starts[-2]), f"ends without {eos_id}: its last document may continue in the next file"
    damage = Damage(f"{printable(last.extents[-1].file.path)}: {what}", 1, total - begin)
    return [
        *looks[:-1],
        replace(
            last,
            extents=first_tokens(last.extents, begin),
            starts=last.starts[:-1],
            masks=first_tokens(last.masks, begin),
            damage=(*last.damage, damage),
        ),
    ]


def _zeros(file: File, at: int) -> bool:
    """Return whether the bytes from `at` on are zeros, as far as 64 KiB at each end show it."""
    if not at < file.size:
        return False
    many = min(file.size - at, _LOOKED_AT)
    return not any(file.read(at, many)) and not any(file.read(file.size - many, many))


def _rows(path: Place, token_bytes: int) -> Offsets:
    """Return int64[rows, 2]: start and exclusive end of each document, in tokens.

    Args:
        path: The .csv.gz.
        token_bytes: Bytes of the token file, which bound the number of rows and the size of the .csv.gz.

    Raises:
        CorruptError: The file is empty, is damaged, or is not a table of numbers.
        UnsafeError: The file is too large for its tokens.
    """
    file = open_file(path)
    if not file.size:
        raise CorruptError(path, "is empty: its writer was killed", remedy="Copy it again, or write the dataset again")
    if file.size > (largest := _ROW_BYTES * token_bytes + _SLACK):
        expected = f"at most {largest:,} bytes for {token_bytes:,} of tokens"
        what = "is too large for the rows of its tokens"
        raise UnsafeError(path, what, expected=expected, found=f"{file.size:,}")
    text = io.TextIOWrapper(io.BufferedReader(_Inflated(file)), "utf-8", "replace", newline="")
    rows = csv.reader(iter(lambda: text.readline(_LINE), ""))
    pairs = ((int(row[0]), int(row[1])) for row, _ in zip(rows, range(token_bytes + _LINE), strict=False))
    try:
        found: Offsets = np.fromiter(pairs, np.dtype((np.int64, 2)))
        if next(rows, None):
            raise UnsafeError(path, "has more rows than the token file has bytes")
    except (OSError, EOFError, zlib.error) as error:
        raise CorruptError(path, "is damaged: gzip cannot decode it", remedy="Copy it again") from error
    except (csv.Error, ValueError, IndexError, OverflowError) as error:
        found_at = f"line {rows.line_num:,}"
        raise CorruptError(path, "is not a table of start,end", expected="two numbers", found=found_at) from error
    return found


class _Inflated(io.RawIOBase):
    """The decompressed content of all members of a gzip file. Zeros after a member are padding, as for gzip(1)."""

    def __init__(self, file: File) -> None:
        self._pieces, self._rest = members(file), memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            if (piece := next(self._pieces, None)) is None:
                return 0
            self._rest = memoryview(piece)
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def members(file: File) -> Iterator[bytes]:
    """Yield the content of a gzip file in pieces; EOFError if it is cut."""
    member: Any = None
    for at, stop in windows(0, file.size, _GZIP_INPUT):
        rest = file.read(at, stop - at)
        while rest:
            if member is None and not rest.strip(b"\0"):
                return
            if member is None:
                member, rest = zlib.decompressobj(wbits=31), rest.lstrip(b"\0")
            yield member.decompress(rest, _GZIP_OUTPUT)
            rest = member.unused_data if member.eof else member.unconsumed_tail
            member = None if member.eof else member
    if member is not None:
        raise EOFError


def _run_on(looks: Sequence[FileLayout], eos_id: int | None) -> tuple[Offsets, tuple[str, ...]]:
    """Join the documents of several files.

    A document that does not end with its file continues in the next file, if its file is as long as the first, and more
    than half of the documents inside of files end with the separator.

    Returns:
        int64[documents + 1] of token positions; notes on documents that cross files.
    """
    readers = [FlatReader(replace(look, problems=())) for look in looks]
    ends = _ends_of(readers)
    shown = _common_end(ends)
    eos_id = shown if eos_id in (None, shown) else None
    starts, notes, base, goes_on = list[Offsets](), list[str](), 0, False
    for number, reader in enumerate(readers):
        total, begins = reader.info.tokens, reader.offsets(0, reader.info.sequences)
        starts.append(begins[goes_on:-1] + base)
        base, goes_on = base + total, False
        if number + 1 < len(readers) and total and eos_id not in (None, ends[number].last):
            goes_on = total == readers[0].info.tokens and readers[number + 1].info.tokens > 0
            how = "continues in the next file" if goes_on else "was kept by itself: its file is not full"
            notes.append(f"{reader.extents[-1].file.path.name} ends without {eos_id}; its last document {how}")
    return np.concatenate([*starts, [base]]).astype(np.int64), tuple(notes)


class _Ends(NamedTuple):
    """The IDs at the ends of the first documents of a file, and its last ID; None without tokens."""

    documents: Tokens
    last: int | None


def _ends_of(readers: Sequence[FlatReader]) -> list[_Ends]:
    """Read the ends of the first documents of each file, and its last ID: side by side, if they are in a store."""
    are_stored = any(not extent.file.path.is_local for reader in readers for extent in reader.extents[:1])
    return list(side_by_side(_ends, readers, are_stored=are_stored))


def _ends(reader: FlatReader) -> _Ends:
    ends, total = reader.offsets(0, min(reader.info.sequences, _ENDS - 1))[1:], reader.info.tokens
    if not total:
        return _Ends(np.empty(0, reader.info.dtype), None)
    ends = np.append(ends[ends > 0], total)
    places = np.unique(ends)
    ids = np.concatenate(list(reader.intervals([(at - 1, at) for at in places.tolist()])))[
        np.searchsorted(places, ends)
    ]
    return _Ends(ids[:-1], int(ids[-1]))


def _common_end(ends: Sequence[_Ends]) -> int | None:
    """Return the ID with which more than half of the first documents end; None without one."""
    values, counts = np.unique(np.concatenate([end.documents for end in ends]), return_counts=True)
    return int(values[np.argmax(counts)]) if len(values) and 2 * counts.max() > counts.sum() else None


def _scanned(reader: FlatReader, path: Place, eos_id: int | None) -> Iterator[Finding]:
    """Yield a finding if a scan of all tokens for the separator finds other documents than the rows state."""
    info, found, within = reader.info, 0, 0
    if info.layout is not Layout.DOCUMENTS or not info.tokens:
        return
    eos_id = _common_end(_ends_of([reader])) if eos_id is None else eos_id
    if eos_id is None:
        what, remedy = (
            "no ID ends most rows, so tokfmt cannot compare them with a scan",
            "Give the ID to scan for with --eos ID",
        )
        yield Finding.of("TF705", CorruptError(path, what, remedy=remedy), "info")
        return
    ends = reader.offsets(0, info.sequences)[1:]
    for a, b in windows(0, info.tokens):
        stops = a + 1 + np.flatnonzero(reader.tokens(a, b) == eos_id)
        near = ends[np.searchsorted(ends, a) : np.searchsorted(ends, b, side="right")]
        found, within = found + len(stops), within + int(np.isin(stops, near, invert=True).sum())
    if found != info.sequences or within:
        what = f"a scan for {eos_id}, as OLMo-core reads local files, does not find the documents of the rows"
        counts = f"{found:,}, of which {within:,} {'is' if within == 1 else 'are'} within a row"
        yield Finding.of("TF705", CorruptError(path, what, expected=info.sequences, found=counts), "warning")


FORMAT = Olmo()
