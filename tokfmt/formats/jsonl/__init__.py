"""JSON lines: one JSON object a line, that holds a text or a list of token ids.

    file      bytes                                content
    records   {"text": "..."} \\n                   a document of text; the field's name and place are options
         or   {"input_ids": [1, 2, 3]} \\n          a sequence of token ids, 0..2^32-1
    start     EF BB BF, or nothing                 UTF-8 byte order mark; no part of the first record
    line end  0A, or 0D 0A                         the last line may lack it; nothing else ends a line
    X.jsonl.gz, X.jsonl.zst                        the same, compressed; several members or frames are one text

- A directory of *.jsonl(.gz, .zst), in natural order, is one dataset, and so are several files given together.
- UTF-8 is strict. Of a duplicate key the last one counts. NaN, Infinity and lone surrogates may stand in fields that
  are not read. At most 512 levels of nesting, and 256 MiB a line (`max_line`).
- Written lines have json.dumps' spacing: `{"input_ids": [1, 2, 3]}`, `{"text": "..."}`, LF, no byte order mark, and
  non-ASCII characters as they are.

The raw index `X.idx` beside `X.jsonl`, which Modalities reads: a pickled list of (offset, length), one a document.

    id   written                   offset   length              peculiarities
    I0   2023-11-03                bytes    bytes               an entry (size, 0) after the last line feed; CR counted
    I1   2023-11-07                bytes    bytes               a last line without line feed is missing; CR counted
    I2   2023-11-10 .. 2024-01-28  bytes    bytes               CR counted
    I3   2024-01-29                bytes    bytes               as I2
    I4   2024-02-06 .. 2024-11-19  bytes    characters          the last length counts its line feed; CR not counted
    I5   2024-11-20 .. 2024-12-11  bytes    characters          CR not counted
    I6   2024-12-12 .. today       bytes    bytes               CR counted; what `tokfmt index` writes

Offsets are right in all of them, so each entry is read from its offset to the line's own end; length 0 is no document.
An entry that does not begin a line belongs to another file. Source: the output of each version of Modalities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tokfmt.core.format import Confidence, Finding, Hints, Probe, Target
from tokfmt.core.options import Late
from tokfmt.formats.jsonl.sniff import sniff

if TYPE_CHECKING:  # detection asks every format, and a JSON decoder takes 10 ms to load
    from tokfmt.core.audit import Audit, Code, Repair
    from tokfmt.core.inside import Section
    from tokfmt.formats.jsonl.options import ReadOptions, WriteOptions
    from tokfmt.formats.jsonl.reader import JsonlReader
    from tokfmt.formats.jsonl.writer import JsonlWriter


class Jsonl:
    """JSON lines."""

    name = "jsonl"
    title = "JSON lines of text or of ids"
    extensions = (".jsonl",)
    joins = True
    carries = "sequences in order, empty ones too; ids up to 2^32-1; with a tokenizer, text"
    cannot = "fields beside the text or the ids, except from jsonl to jsonl"

    read_options = Late("tokfmt.formats.jsonl.options", "ReadOptions")
    write_options = Late("tokfmt.formats.jsonl.options", "WriteOptions")

    def sniff(self, probe: Probe) -> Confidence | None:
        return sniff(probe)

    def open(self, paths: Sequence[Path], options: ReadOptions, hints: Hints) -> JsonlReader:
        from tokfmt.formats.jsonl.reader import JsonlReader

        return JsonlReader(paths, options, hints)

    def writer(self, path: Path, options: WriteOptions, target: Target) -> JsonlWriter:
        from tokfmt.formats.jsonl.writer import JsonlWriter

        return JsonlWriter(path, options, target)

    def check(self, path: Path, options: ReadOptions) -> Iterator[Finding]:
        from tokfmt.core.audit import Audit

        return self.audit(path, options, Audit())

    def audit(self, path: Path, options: ReadOptions, how: Audit) -> Iterator[Finding]:
        from tokfmt.formats.jsonl.check import findings

        return findings(path, options, how)

    def codes(self) -> Mapping[str, Code]:
        from tokfmt.formats.jsonl.codes import CODES

        return CODES

    def repairs(self) -> Mapping[str, Repair]:
        from tokfmt.formats.jsonl.codes import REPAIRS

        return REPAIRS

    def repaired_with(self, path: Path, options: ReadOptions) -> Mapping[str, object]:  # noqa: ARG002 - lines are copied
        return {}

    def sections(self, path: Path, options: ReadOptions) -> Sequence[Section]:
        from tokfmt.formats.jsonl.sections import sections

        return sections(path, options)


FORMAT = Jsonl()
