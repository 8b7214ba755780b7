"""Whether a file or directory is JSON lines, by a look at its first line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tokfmt.core.errors import TokfmtError
from tokfmt.core.format import Confidence, Probe
from tokfmt.formats.jsonl.streams import BOM, FILE_NAME, TextFile, compression_of

_LINES = re.compile(r".*\.(jsonl|ndjson)(\.gz|\.zst)?", re.IGNORECASE | re.DOTALL)
_JSON = re.compile(r".*\.json(\.gz|\.zst)?", re.IGNORECASE | re.DOTALL)
_BEGINS = re.compile(rb'\{\s*"')


def sniff(probe: Probe) -> Confidence | None:
    """How surely a probe is JSON lines: an object in its first line that holds anything."""
    if probe.is_directory:
        return Confidence.STRUCTURE if any(FILE_NAME.fullmatch(name) for name in probe.entries) else None
    named = _LINES.fullmatch(probe.path.name) is not None
    if not probe.size:
        return Confidence.STRUCTURE if named else None
    line, whole = _first_line(probe)
    if whole and _is_object(line):
        sure = named or _JSON.fullmatch(probe.path.name) is not None
        return Confidence.CERTAIN if sure else Confidence.STRUCTURE
    if not whole and _BEGINS.match(line):
        return Confidence.STRUCTURE if named else Confidence.PLAUSIBLE
    return Confidence.NAME if named else None


def _first_line(probe: Probe) -> tuple[bytes, bool]:
    """The first line that is not empty, as far as the probe shows it, and whether that is all of it."""
    text, ended = probe.head, len(probe.head) == probe.size
    if compression_of(probe.head) is not None:
        text, ended = _decompressed(probe.path)
    text = text.removeprefix(BOM).lstrip(b" \t\r\n")
    line, newline, _ = text.partition(b"\n")
    return line, bool(newline) or ended


def _decompressed(path: Path) -> tuple[bytes, bool]:
    """The first 256 KiB or so of a compressed file, and whether it is all; nothing when it cannot be read."""
    try:
        pieces: Iterator[bytes] = TextFile(path).pieces()
        return next(pieces, b""), next(pieces, None) is None
    except TokfmtError:
        return b"", False


def _is_object(line: bytes) -> bool:
    if not line.startswith(b"{"):
        return False
    from tokfmt.formats.jsonl.parse import Document, load  # takes 10 ms to import, and every file is sniffed

    document = load(line)
    return isinstance(document, Document) and isinstance(document.value, dict) and len(document.value) > 0
