"""JSON lines: one JSON object per line, which holds a text or a list of token IDs.

    bytes                                        content
    {"text": "..."} \\n                           a document of text; options give the path of the field
    {"messages": [{...}, ...]} \\n                a chat, which a chat template renders; also conversations
    {"prompt": "...", "completion": "..."} \\n    a document of which the completion counts in the loss; texts, or
                                                 lists of messages
    {"input_ids": [1, 2, 3]} \\n                  a sequence of token IDs, 0..2^32-1
    EF BB BF at the start, or nothing            UTF-8 byte order mark; not part of the first record
    0A, or 0D 0A                                 the end of a line; the last line may lack it; nothing else ends a line

    field            beside 3 IDs  value of each ID
    labels           [-100, 2, 3]  the ID, or -100 if it does not count in the loss
    completion_mask  [0, 1, 1]     1 if it counts; also assistant_masks, and loss_mask by option
    attention_mask   [1, 1, 0]     0 for padding at the ends, which is left out
    position_ids     [0, 1, 0]     in a packed row: from 0 in each of its documents
    seq_lengths      [2, 1]        in a packed row: the length of each document

- A directory of *.jsonl(.gz, .zst), in natural order, is one dataset; without any, one of *.json.gz or *.json.zst.
  Several files given together are one dataset too.
- UTF-8 is strict. If a key occurs twice, the last one counts. Fields that are not read may hold NaN, Infinity and lone
  surrogates. The limits are 512 levels of nesting, and 256 MiB per line (`max_line`).
- Labels and masks of a record must count the same IDs; the option `loss_mask` chooses one of them, or `all`.
- Columns are read in every record. Labels and masks that the first record does not have are an error unless the
  option `loss_mask` names them, and so are several documents in a record.
- Written lines have json.dumps' spacing: `{"input_ids": [1, 2, 3]}`, `{"text": "..."}`, LF, no byte order mark, and
  non-ASCII characters as they are. If the name ends in .gz or .zst, they are compressed.
- Several gzip members or zstd frames in a file are one text.

The raw index `X.idx` of `X.jsonl`, which Modalities reads, is a pickled list with one (offset, length) per document.

    id   written                   offset   length              peculiarities
    I0   2023-11-03                bytes    bytes               an entry (size, 0) after the last line feed; CR counted
    I1   2023-11-07                bytes    bytes               lacks a last line without line feed; CR counted
    I2   2023-11-10 .. 2024-01-28  bytes    bytes               CR counted
    I3   2024-01-29                bytes    bytes               as I2
    I4   2024-02-06 .. 2024-11-19  bytes    characters          the last length counts its line feed; CR not counted
    I5   2024-11-20 .. 2024-12-11  bytes    characters          CR not counted
    I6   2024-12-12 .. today       bytes    bytes               CR counted; what `tokfmt index` writes

Offsets are right in all versions, so tokfmt reads each entry from its offset to the end of the line. An entry of length
0 is not a document. If an entry does not begin a line, the index belongs to another file.
Source: the output of each version of Modalities.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tokfmt.base.options import LazyAttribute
from tokfmt.core.format import Confidence, Format, Probe
from tokfmt.errors import TokfmtError
from tokfmt.files.place import Place
from tokfmt.formats.jsonl.lines import BOM, FILE_NAME, OTHER_FILE_NAME, TextFile, compression_of, names_of
from tokfmt.formats.jsonl.options import ReadOptions, WriteOptions

_LINES = re.compile(r".*\.(jsonl|ndjson)(\.gz|\.zst)?", re.IGNORECASE | re.DOTALL)
_BEGINS = re.compile(rb'\{\s*"')


class Jsonl(Format):
    """The format of JSON lines."""

    name = "jsonl"
    title = "JSON Lines of text or of token IDs"
    extensions = (".jsonl", ".jsonl.gz", ".jsonl.zst")
    joins_files = numbers_files = True
    can_stream = takes_lines = True
    stores = "sequences in order, empty ones too; IDs up to 2^32-1; with a tokenizer, text"
    cannot_store = "fields beside the text or the IDs, except from jsonl to jsonl"

    read_options = ReadOptions
    write_options = WriteOptions
    inspect = LazyAttribute("tokfmt.formats.jsonl.inspection", "JsonlInspection")
    writer = LazyAttribute("tokfmt.formats.jsonl.writer", "JsonlWriter")
    writer_traits = LazyAttribute("tokfmt.formats.jsonl.writer", "traits")
    repairs = LazyAttribute("tokfmt.formats.jsonl.check", "REPAIRS")

    def sniff(self, probe: Probe) -> Confidence | None:
        """See `Format.sniff`. Looks for an object with at least one key in the first line."""
        if probe.is_directory:
            if any(FILE_NAME.fullmatch(name) for name in probe.entries):
                return Confidence.STRUCTURE
            return Confidence.PLAUSIBLE if any(OTHER_FILE_NAME.fullmatch(name) for name in probe.entries) else None
        named = _LINES.fullmatch(probe.path.name) is not None
        if not probe.size:
            return Confidence.STRUCTURE if named else None
        line, whole = _first_line(probe)
        if whole and _is_object(line):
            return Confidence.CERTAIN if named else Confidence.STRUCTURE
        if not whole and _BEGINS.match(line):
            return Confidence.STRUCTURE if named else Confidence.PLAUSIBLE
        return Confidence.NAME if named else None

    def files(self, path: Place) -> list[Place]:
        texts = [path]
        if path.is_dir():
            texts = [path / name for name in names_of(path)]
        found = []
        for text in texts:
            index = text.with_suffix(".idx")
            found += [text, index] if text.suffix.lower() not in (".gz", ".zst") and index.is_file() else [text]
        return found


def _first_line(probe: Probe) -> tuple[bytes, bool]:
    """Return the first line that is not empty, as far as the probe holds it, and True if that is all of it."""
    text, ended = probe.head, len(probe.head) == probe.size
    if compression_of(probe.head) is not None:
        text, ended = _decompressed(probe.path)
    text = text.removeprefix(BOM).lstrip(b" \t\r\n")
    line, newline, _ = text.partition(b"\n")
    return line, bool(newline) or ended


def _decompressed(path: Place) -> tuple[bytes, bool]:
    """Return about the first 256 KiB of a compressed file, and True if that is all of it; b"" if it is unreadable."""
    try:
        pieces: Iterator[bytes] = TextFile(path).pieces()
        return next(pieces, b""), next(pieces, None) is None
    except TokfmtError:
        return b"", False


def _is_object(line: bytes) -> bool:
    if not line.startswith(b"{"):
        return False
    from tokfmt.formats.jsonl.parse import Document, load  # The import takes 10 ms, and every file is sniffed.

    document = load(line)
    return isinstance(document, Document) and isinstance(document.value, dict) and len(document.value) > 0


FORMAT = Jsonl()
