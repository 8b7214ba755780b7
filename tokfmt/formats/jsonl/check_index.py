"""Compare a raw index with the lines it belongs to, and tell which version of Modalities wrote it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tokfmt.core.errors import FormatError, UnsafeError
from tokfmt.core.files import File
from tokfmt.core.format import Finding
from tokfmt.formats.jsonl.lines import Lines, Positions
from tokfmt.formats.jsonl.raw_index import has_index, index_path
from tokfmt.formats.jsonl.streams import TextFile
from tokfmt.formats.pickled_index import read_entries

_NEW = "tokfmt index writes a new one"


class IndexAudit:
    """Sees all lines of a file once, in order, and judges the index beside it."""

    def __init__(self, text: TextFile) -> None:
        self.text, self.path = text, index_path(text.path)
        self.error: FormatError | None = None
        self.present = has_index(text)
        self.offsets = self.lengths = np.empty(0, np.int64)
        self.extra = self.lines = self.misses = self.hits = self.other_bytes = self.other_characters = 0
        self.first_miss = self.first_fall = -1
        self.last_difference = 0
        self.unended = self.last_line_missing = False
        if self.present:
            self._load()

    def _load(self) -> None:
        try:
            file = File(self.path)
            self.offsets, self.lengths = _entries_of(file, self.text.size)
            file.close()
        except FormatError as error:
            self.error = error
            return
        real = self.lengths > 0
        self.extra = int(np.count_nonzero(~real))
        self.offsets, self.lengths = self.offsets[real], self.lengths[real]
        falls = np.flatnonzero(np.diff(self.offsets) <= 0)
        if len(falls):
            self.first_fall = int(falls[0]) + 1
            order = np.argsort(self.offsets, kind="stable")
            self.offsets, self.lengths = self.offsets[order], self.lengths[order]

    def look(self, lines: Lines) -> None:
        """Compare the entries that fall into these lines with them."""
        if not self.present or self.error is not None:
            return
        starts, lengths = lines.stretches()
        first, last = np.searchsorted(self.offsets, [lines.offset, lines.offset + len(lines.data)]).tolist()
        entries, counted = self.offsets[first:last], self.lengths[first:last]
        at = np.minimum(np.searchsorted(starts, entries), len(starts) - 1)
        hit = starts[at] == entries
        self._misses(first, hit, last)
        self.hits += int(np.count_nonzero(hit))
        self.lines += len(lines)
        self.unended = not lines.data.endswith(b"\n")
        self.last_line_missing = self.unended and not (hit & (at == len(starts) - 1)).any()
        characters = _characters(lines)[at[hit]]
        self.other_bytes += int(np.count_nonzero(counted[hit] != lengths[at[hit]]))
        wrong = counted[hit] - characters
        self.other_characters += int(np.count_nonzero(wrong))
        if len(wrong):
            self.last_difference = int(wrong[-1])

    def _misses(self, first: int, hit: np.ndarray[tuple[int], np.dtype[np.bool_]], last: int) -> None:
        count = last - first - int(np.count_nonzero(hit))
        if count and self.first_miss < 0:
            self.first_miss = first + int(np.argmin(hit))
        self.misses += count

    def findings(self) -> Iterator[Finding]:
        """What is wrong with the index, after all lines were seen."""
        name, error = str(self.path), self.error
        if not self.present:
            return
        if error is not None:
            code = "TF516" if isinstance(error, UnsafeError) else "TF511"
            yield Finding(code, "error", name, error.what, _NEW, error.offset)
            return
        beyond = len(self.offsets) - int(np.searchsorted(self.offsets, self.text.size))
        misses = self.misses + beyond
        if misses:
            first = self.first_miss if self.first_miss >= 0 else len(self.offsets) - beyond
            message = (
                f"{misses:,} of {len(self.offsets):,} entries begin no line of {self.text.path.name} "
                f"(first: offset {int(self.offsets[first]):,}): it is the index of another file or an older one"
            )
            yield Finding("TF512", "error", name, message, _NEW)
            return
        if self.first_fall >= 0:
            yield Finding(
                "TF518", "error", name, f"entry {self.first_fall:,} begins at or before the one before it", _NEW
            )
            return
        if self.hits < self.lines and not self._misses_only_the_last():
            message = f"{self.lines - self.hits:,} of {self.lines:,} lines have no entry and are no documents"
            yield Finding("TF513", "warning", name, message, f"If that is not intended, {_NEW}")
        yield from self._version(name)

    def _misses_only_the_last(self) -> bool:
        return self.last_line_missing and self.lines - self.hits == 1 and not self.other_bytes

    def _version(self, name: str) -> Iterator[Finding]:
        version = ""
        if not self.other_bytes:
            if self.extra:
                version = "I0 (2023-11-03), with an entry of length 0 at its end"
            elif self._misses_only_the_last():
                version = "I1 (2023-11-07), which leaves out a last line without a line feed"
        elif not self.other_characters:
            version = "I4 or I5 (2024-02-06 to 2024-12-11)" if self.unended else "I5 (2024-11-20 to 2024-12-11)"
            version += ", whose lengths count characters, not bytes"
        elif self.other_characters == 1 and self.last_difference == 1:
            version = "I4 (2024-02-06 to 2024-11-19), whose lengths count characters, not bytes, and the last line feed"
        else:
            message = f"the lengths of {self.other_bytes:,} entries are neither bytes nor characters of their lines"
            yield Finding("TF515", "warning", name, message, _NEW)
        if version:
            yield Finding("TF514", "warning", name, f"is an index of version {version}", f"For today's readers, {_NEW}")


def _characters(lines: Lines) -> Positions:
    """Characters of each line, without its carriage return and with its byte order mark; int64[lines]."""
    raw = np.frombuffer(lines.data, np.uint8)
    before = np.concatenate(([0], np.cumsum((raw & 0xC0) != 0x80)))  # continuation bytes begin no character
    starts = lines.starts.copy()
    starts[:1] = 0
    counts: Positions = before[lines.ends] - before[starts]
    return counts


def _entries_of(file: File, size: int) -> tuple[Positions, Positions]:
    """All entries of an index of a text of `size` bytes, those of length 0 included.

    Returns:
        Offsets and lengths, int64[entries] each.
    """
    offsets, lengths = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for some_offsets, some_lengths in read_entries(file, 0, file.size, size + 1):
        offsets.append(some_offsets)
        lengths.append(some_lengths)
    return np.concatenate(offsets), np.concatenate(lengths)
