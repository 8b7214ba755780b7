"""Where records lie in a plain file of lines, and which record lies at a byte."""

from __future__ import annotations

import numpy as np

from tokfmt.core.inside import Place
from tokfmt.formats.jsonl.lines import border
from tokfmt.formats.jsonl.parse import Parser
from tokfmt.formats.jsonl.part import Part


def record_place(part: Part, record: int, valid: Parser | None, longest: int) -> Place:
    """The line of a record of one file.

    Args:
        part: The file.
        record: Its number there.
        valid: As in `Part.records`.
        longest: Bytes that a line may have.
    """
    text = part.text
    if text.compression is not None:
        return Place(text.path, 0, None, f"record {record:,} of the decompressed text")
    start, _ = part.span(record, record + 1, valid)
    stop = border(text, start + 1, longest)
    tail = text.file.read(max(start, stop - 2), stop - max(start, stop - 2))
    return Place(text.path, start, stop - start - (len(tail) - len(tail.rstrip(b"\r\n"))))


def record_at(part: Part, offset: int, valid: Parser | None, longest: int) -> int | None:
    """The record of one plain file whose line holds a byte."""
    if part.text.compression is not None or not 0 <= offset < part.text.size:
        return None
    if part.index is not None and valid is None:
        record = int(np.searchsorted(part.index.offsets, offset, side="right")) - 1
        if record < 0 or offset >= border(part.text, int(part.index.offsets[record]) + 1, longest):
            return None
        return record
    return _by_census(part, offset, valid)


def _by_census(part: Part, offset: int, valid: Parser | None) -> int | None:
    census = part.census(valid)
    piece = int(np.searchsorted(census.offsets, offset, side="right")) - 1
    record = int(census.firsts[piece])
    for lines in part.lines(int(census.offsets[piece]), int(census.offsets[piece + 1])):
        stop = lines.offset + len(lines.data)
        if offset < stop:
            starts = lines.starts + lines.offset
            if not lines.offset:
                starts[:1] = 0  # before a byte order mark
            line = int(np.searchsorted(starts, offset, side="right")) - 1
            end = lines.data.find(b"\n", int(lines.ends[line])) + 1 or len(lines.data)
            if line < 0 or offset >= lines.offset + end:
                return None
            kept = None if valid is None else valid(lines).kept
            if kept is None:
                return record + line
            return record + kept.index(line) if line in kept else None
        record += len(lines) if valid is None else len(valid(lines).values)
    return None
