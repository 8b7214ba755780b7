"""The parts of a dataset's files as lines: findings and fields below each part; the bytes of a file, and their tokens.

The number of fields is unbounded: lines are addressed by number, and fields are decoded in blocks when they are shown.
As in `rows`, `peek` returns cached fields or bytes, and `load` reads in a worker.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tokfmt.base.resources import Recent
from tokfmt.browser.data.facts import spelling
from tokfmt.browser.data.layout import TokenStyle
from tokfmt.browser.data.opening import is_small
from tokfmt.browser.data.rows import Damage
from tokfmt.browser.data.session import Session, Where, row_at
from tokfmt.commands.show.parts import ROW, HexRow, Raw, sections
from tokfmt.core.annotation import broken
from tokfmt.core.findings import Finding
from tokfmt.core.reader import Axis
from tokfmt.core.records import RecordReader
from tokfmt.errors import TokfmtError
from tokfmt.files.fields import Field, Pointer, Section
from tokfmt.files.place import Place, place_of
from tokfmt.model.readers import dataset_of
from tokfmt.source.request import given_to

BLOCK = 64
"""Fields decoded at once."""

SHORT = 64
"""Limit of fields of a section that is open at first, in a small dataset."""

_BLOCKS = 1024

NOWHERE = -1
"""The section of findings that are about no byte of a part."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line: a section, or one of its fields or findings by number."""

    section: int
    field: int | None = None
    finding: int | None = None


class Outline:
    """The lines of sections, and below each its findings and its fields. Findings about no section come first.

    Only the thread of the screen opens and closes sections; workers load fields.
    """

    def __init__(self, sections: Sequence[Section]) -> None:
        self.sections = sections
        self.findings: Mapping[int, Sequence[Finding]] = {}
        self.counts: dict[int, int] = {}
        self._open: set[int] = set()
        self._blocks = Recent[tuple[int, int], Sequence[Field]](_BLOCKS)
        self._starts: dict[int, Pointer | None] = {}
        self._lines = np.empty(0, np.int64)
        self._settle()

    def _settle(self) -> None:
        sizes = np.ones(1 + len(self.sections), np.int64)
        sizes[0] = 0
        for section in self._open:
            sizes[section + 1] += self.counts[section]
        for section, findings in self.findings.items():
            sizes[section + 1] += len(findings)
        self._lines = np.concatenate([[0], np.cumsum(sizes)])

    @property
    def count(self) -> int:
        """Return the number of lines."""
        return int(self._lines[-1])

    def row(self, line: int) -> Row:
        """Return the section, finding or field of a line."""
        section = int(np.searchsorted(self._lines, line, side="right")) - 2
        within = line - int(self._lines[section + 1])
        if section == NOWHERE:
            return Row(section, finding=within)
        count = len(self.findings.get(section, ()))
        if not within:
            return Row(section)
        return Row(section, finding=within - 1) if within <= count else Row(section, within - 1 - count)

    def line(self, row: Row) -> int:
        """Return the line of a row; for a field of a closed section, that of the section."""
        first = int(self._lines[row.section + 1])
        if row.finding is not None:
            return first + (row.section != NOWHERE) + row.finding
        if row.field is None or row.section not in self._open:
            return first
        return first + 1 + len(self.findings.get(row.section, ())) + row.field

    def is_open(self, section: int) -> bool:
        """Return whether a section is open."""
        return section in self._open

    def open(self, section: int, count: int) -> None:
        """Show the `count` fields of a section."""
        self.counts[section] = count
        self._open.add(section)
        self._settle()

    def close(self, section: int) -> None:
        """Hide the fields of a section."""
        self._open.discard(section)
        self._settle()

    def mark(self, findings: Mapping[int, Sequence[Finding]]) -> None:
        """Show findings below their sections."""
        self.findings = findings
        self._settle()

    def finding(self, row: Row) -> Finding | None:
        """Return the finding of a row, if it is one."""
        return None if row.finding is None else self.findings[row.section][row.finding]

    def row_of(self, finding: Finding) -> Row | None:
        """Return the row of a finding; None if it is not shown."""
        for section, findings in self.findings.items():
            if finding in findings:
                return Row(section, finding=findings.index(finding))
        return None

    def start_of(self, section: int) -> Pointer | None:
        """Return the file and the byte offset of the first field of a section; None without one. Reads once."""
        if section not in self._starts:
            part = self.sections[section]
            try:
                first = next(iter(part.fields(0, 1)), None)
            except TokfmtError:
                first = None
            at = None if first is None else first.offset
            self._starts[section] = None if first is None or at is None else Pointer(first.path or part.path, at)
        return self._starts[section]

    def starts_in(self, path: Place) -> list[tuple[int, int]]:
        """Return the sections that begin in a file, as byte offset and number, in the order of the offsets. Reads."""
        numbers = [k for k, section in enumerate(self.sections) if section.path == path]
        if not numbers:  # a part may be in another file than its section
            numbers = list(range(len(self.sections)))[:_SECTIONS]
        starts = [(start.offset, k) for k in numbers if (start := self.start_of(k)) is not None and start.path == path]
        return sorted(starts)

    def section_of(self, path: Place, offset: int) -> int | None:
        """Return the section that begins last up to a byte of a file; None without one. Reads."""
        return max([one for one in self.starts_in(path) if one[0] <= offset], default=(0, None))[1]

    def peek(self, row: Row) -> Field | None:
        """Return a field if it is loaded."""
        if row.field is None:
            return None
        block = self._blocks.get((row.section, row.field // BLOCK))
        within = row.field % BLOCK
        return block[within] if block is not None and within < len(block) else None

    def load(self, rows: Sequence[Row]) -> None:
        """Decode the fields of some lines."""
        for section, number in sorted({(row.section, row.field // BLOCK) for row in rows if row.field is not None}):
            if self._blocks.get((section, number)) is None:
                self._blocks.put((section, number), self._read(section, number * BLOCK))

    def _read(self, section: int, first: int) -> Sequence[Field]:
        wanted = min(BLOCK, self.counts[section] - first)
        try:
            read = tuple(self.sections[section].fields(first, first + wanted))
        except TokfmtError as error:
            read = (broken(error),) * wanted
        missing = Field("…", None, 0, "nothing more can be read", wrong=True)
        return read + (missing,) * (wanted - len(read))


_SECTIONS = 256  # sections that are looked at for a file that is none of theirs


def placed(outline: Outline, findings: Sequence[Finding]) -> dict[int, list[Finding]]:
    """Return findings by the section that holds their byte, or NOWHERE. Reads."""
    by_section: dict[int, list[Finding]] = {}
    for finding in findings:
        at = None if finding.offset is None else outline.section_of(place_of(finding.path), finding.offset)
        by_section.setdefault(NOWHERE if at is None else at, []).append(finding)
    return by_section


def first_open(sections: Sequence[Section], *, small: bool) -> dict[int, int]:
    """Return the sections that are open at first, with their number of fields. Reads.

    These are the first section, and in a small dataset the short ones, up to about 256 fields.
    """
    counts: dict[int, int] = {}
    for number, section in enumerate(sections):
        if number and (not small or sum(counts.values()) > 4 * SHORT):
            break
        count = section.count
        if not number or count <= SHORT:
            counts[number] = count
    return counts


_SCANNED = 1024  # fields of a section whose offsets do not ascend


def row_of_byte(outline: Outline, path: Place, offset: int) -> Row | None:
    """Return the field of an open section that holds a byte of a file, or the section of the byte if it is closed.

    None if no field of an open section holds the byte, or nothing begins before it. Reads.
    """
    for number in range(len(outline.sections)):
        count = outline.counts.get(number, 0) if outline.is_open(number) else 0
        section = outline.sections[number]

        def field(at: int, number: int = number) -> Field | None:
            row = Row(number, at)
            outline.load([row])
            return outline.peek(row)

        def holds(at: int, section: Section = section) -> bool:
            candidate = field(at)
            if candidate is None or candidate.offset is None or (candidate.path or section.path) != path:
                return False
            return candidate.offset <= offset < candidate.offset + max(1, candidate.length)

        def begins_after(at: int) -> bool:
            candidate = field(at)
            return candidate is None or candidate.offset is None or candidate.offset > offset

        at = bisect_left(range(count), True, key=begins_after) - 1
        if at >= 0 and holds(at):
            return Row(number, at)
        scanned = next((at for at in range(min(count, _SCANNED)) if holds(at)), None)
        if scanned is not None:
            return Row(number, scanned)
    last = outline.section_of(path, offset)
    return None if last is None or outline.is_open(last) else Row(last)


def sequence_of(session: Session, section: Section, field: Field) -> Where | None:
    """Return the row and the token that a field is about, if any. Reads."""
    path = field.path or section.path
    target = field.target or (None if field.offset is None else Pointer(path, field.offset))
    return None if target is None else row_at(session, target)


# the bytes

BYTES_IN_ROW = ROW
"""Bytes of a line of the hex view."""

_ROWS = 256  # rows per window

_WINDOWS = 64
_SPELLED = 1024  # rows


class StoredToken(NamedTuple):
    """A token in the bytes of a file."""

    offset: int  # of its first byte
    width: int  # in bytes
    text: str  # its text, escaped; its ID without a tokenizer


class Bytes:
    """The bytes of the files of a dataset in rows of 16, and their tokens. `load` and `size` are for a worker."""

    def __init__(self, raw: Raw, axis: Axis | None, style: TokenStyle) -> None:
        self._raw, self._axis, self._style = raw, axis, style
        self._others: dict[Place, Raw] = {}
        self._windows = Recent[tuple[Place, int], list[HexRow] | Damage](_WINDOWS)
        self._tokens = Recent[tuple[Place, int], list[StoredToken]](_SPELLED)

    @property
    def root(self) -> Place:
        """Return the path of the dataset."""
        return self._raw.path

    def admit(self, path: Place) -> None:
        """Let a file be read that the reader of the dataset has opened, though it may be elsewhere.

        Files of the sources of a recipe are. A link in a dataset, which nobody opened, may not lead out of it.
        """
        self._others.setdefault(path, Raw(path, None, (), ()))

    def _of(self, path: Place) -> Raw:
        return self._others.get(path, self._raw)

    def size(self, path: Place) -> int | Damage:
        """Return the number of bytes of a file."""
        try:
            return self._of(path).size_of(path)
        except TokfmtError as error:
            return Damage(str(error))

    def peek(self, path: Place, row: int) -> HexRow | Damage | None:
        """Return a row if it is loaded."""
        window = self._windows.get((path, row // _ROWS))
        if window is None or isinstance(window, Damage):
            return window
        within = row % _ROWS
        return window[within] if within < len(window) else Damage("the file has become shorter")

    def tokens(self, path: Place, row: int) -> Sequence[StoredToken] | None:
        """Return the tokens with a byte in a row; None if they are not loaded."""
        return () if self._axis is None else self._tokens.get((path, row))

    def load(self, path: Place, rows: range) -> None:
        """Read some rows, and their tokens."""
        for number in range(rows.start // _ROWS, -(-rows.stop // _ROWS)):
            if self._windows.get((path, number)) is None:
                try:
                    window: list[HexRow] | Damage = self._of(path).hex_rows(path, number * _ROWS * ROW, _ROWS)
                except TokfmtError as error:
                    window = Damage(str(error))
                self._windows.put((path, number), window)
        for row in rows:
            shown = self.peek(path, row)
            if self._axis is not None and self.tokens(path, row) is None:
                try:
                    tokens = _tokens_in(self._axis, self._style, path, shown) if isinstance(shown, HexRow) else []
                except TokfmtError:
                    tokens = []  # the row that cannot be read shows the error
                self._tokens.put((path, row), tokens)


def _tokens_in(axis: Axis, style: TokenStyle, path: Place, row: HexRow) -> list[StoredToken]:
    tokens, at, stop = list[StoredToken](), row.offset, row.offset + len(row.data)
    while at < stop:
        position = axis.find(path, at)
        place = None if position is None else axis.locate(position)
        if position is None or place is None or not place.width or not place.offset <= at < place.offset + place.width:
            at += 1  # not a token, or one of a compressed chunk
            continue
        token = int(axis.tokens(position, position + 1)[0])
        tokens.append(StoredToken(place.offset, place.width, spelling(style, token)[1] or f"{token} "))
        at = place.offset + place.width
    return tokens


def cells_of(
    row: HexRow, tokens: Sequence[StoredToken], digits: int, cursor: int, marked: range, under: str
) -> list[tuple[str, str, int]]:
    """Return the cells of a row, each with the byte that it is about, or -1.

    They are its byte offset, its bytes in hexadecimal, and its tokens, or else its characters. Bytes of a token are
    joined if the row holds only tokens. The byte at `cursor` is of the kind `under` as well.
    """
    begins = {token.offset: token for token in tokens}
    first, stop = row.offset, row.offset + len(row.data)
    is_full = sum(min(stop, one.offset + one.width) - max(first, one.offset) for one in tokens) == len(row.data)
    cells, kind = [(f"{first:0{digits}x} ", "offset", -1)], ""
    for at in range(first, first + ROW if not is_full else stop):
        joined = is_full and at > first and at not in begins
        joins = at - 1 in marked and at in marked and first < at < stop
        gap = " " * ((not joined) + (at - first == ROW // 2))
        cells.append((gap, "gap marked" if joins else "gap", -1))
        if at >= stop:
            cells.append(("  ", "gap", -1))
            continue
        byte = row.data[at - first]
        holder = next((one for one in tokens if one.offset <= at < one.offset + one.width), None)
        kind = ("zero" if not byte else "print" if 32 <= byte < 127 else "other") if holder is None else _shade(holder)
        cells.append((f"{byte:02x}", _with(kind, at in marked, at == cursor, under), at))
    cells.append(("  ", "gap", -1))
    for token in tokens:
        if token.offset >= first:
            is_under = token.offset <= cursor < token.offset + token.width
            cells.append((token.text, _with(_shade(token), token.offset in marked, is_under, under), token.offset))
    for at in range(first, stop if not tokens else first):
        byte = row.data[at - first]
        kind = "zero" if not byte else "print" if 32 <= byte < 127 else "other"
        cells.append((chr(byte) if 32 <= byte < 127 else "·", _with(kind, at in marked, at == cursor, under), at))
    return cells


def _shade(token: StoredToken) -> str:
    return f"token-{token.offset // token.width % 2}"


def _with(kind: str, is_marked: bool, is_under: bool, under: str) -> str:
    return f"{kind}{' marked' if is_marked else ''}{f' {under}' if is_under else ''}"


def numbers_at(data: bytes) -> str:
    """Return the bytes as little-endian numbers of 8, 16 and 32 bits, as far as they suffice."""
    numbers = [f"u{8 * width} {int.from_bytes(data[:width], 'little'):,}" for width in (1, 2, 4) if len(data) >= width]
    return "  ".join(numbers)


class OpenedParts(NamedTuple):
    """The files of a dataset, opened."""

    outline: Outline  # their parts
    notes: Sequence[str]  # what was inferred, or the error of files whose parts cannot be read
    content: Bytes | None  # their bytes; None if they are not what was opened


def opened_parts(session: Session) -> OpenedParts:
    """Open the parts and the bytes of a dataset. Reads."""
    format_, reader = session.opened.format, session.view.reader
    try:
        session.check_unchanged()
    except TokfmtError as error:
        return OpenedParts(Outline(()), (str(error),), None)
    try:
        options = given_to(format_, session.request) if format_ else {}
        raw = sections(session.path, format=session.format_name, options=options)
    except TokfmtError as error:
        raw = Raw(session.path, None, (str(error),), ())
    outline = Outline(raw.sections)
    for section, count in first_open(raw.sections, small=is_small(session.path)).items():
        outline.open(section, count)
    axis = None if isinstance(reader, RecordReader) else dataset_of(reader).axis
    return OpenedParts(outline, raw.notes, Bytes(raw, axis, session.token_style))


def full_text(field: Field) -> str:
    """Return the full text of a field, which its line may cut."""
    value = f"{field.name}: {field.value}"
    return f"{value} · {field.meaning}" if field.meaning else value
