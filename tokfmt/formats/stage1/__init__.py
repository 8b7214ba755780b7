"""Stage-1 packed blocks: raw token streams in whole samples, no header.

    file      bytes                       content
    block     samples · 8,192 · 4         int32 little-endian token ids, 0..2^31-1
    ...       62,500 samples at most      = 512,000,000 tokens = 2,048,000,000 bytes; only the last block is shorter

- Files of a directory are `stage1_block_0000.bin`, `stage1_block_0001.bin`, ...; their concatenation is one stream.
- A separator (EOS; 50256, GPT-2's) follows every document; documents run on across samples, batches (125 samples) and
  blocks. Padding is EOS at the end of the last sample. Nothing else is stored: no index, no counts, no checksum.
- Runs of EOS are padding or empty documents, which cannot be told apart: reading drops them, writing refuses empty
  sequences (`--drop empty-sequences`).

Source: the public dataset card of a stage-1 packed pretraining dataset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tokfmt.core.format import Confidence, Finding, Hints, Probe, Target
from tokfmt.core.options import Late
from tokfmt.formats.stage1.blocks import BLOCK_NAME, SAMPLE

if TYPE_CHECKING:  # detection asks every format
    from tokfmt.core.audit import Audit, Code
    from tokfmt.core.inside import Section
    from tokfmt.formats.stage1.options import ReadOptions, WriteOptions
    from tokfmt.formats.stage1.reader import Stage1Reader
    from tokfmt.formats.stage1.writer import Stage1Writer

_PLAUSIBLE_ID = (
    1 << 22
)  # no tokenizer in use has more than 4 Mi ids; uint16 or big-endian data read as int32 exceeds it


class Stage1:
    """Stage-1 packed blocks."""

    name = "stage1"
    title = "stage-1 blocks: raw int32 samples of 8,192"
    extensions = ("stage1_block_*.bin",)
    joins = True
    carries = "sequences in order; ids up to 2^31-1"
    cannot = "empty sequences; sequences that contain the separator"

    read_options = Late("tokfmt.formats.stage1.options", "ReadOptions")
    write_options = Late("tokfmt.formats.stage1.options", "WriteOptions")

    def sniff(self, probe: Probe) -> Confidence | None:
        if probe.is_directory:
            return Confidence.CERTAIN if any(BLOCK_NAME.fullmatch(name) for name in probe.entries) else None
        named = BLOCK_NAME.fullmatch(probe.path.name) is not None
        if not probe.size:
            return Confidence.STRUCTURE if named else None
        head = np.frombuffer(probe.head[: len(probe.head) // 4 * 4], "<i4")
        plausible = len(head) > 0 and int(head.min()) >= 0 and int(head.max()) < _PLAUSIBLE_ID
        if named:
            return Confidence.STRUCTURE if plausible else Confidence.NAME
        return Confidence.PLAUSIBLE if plausible and probe.size % (SAMPLE * 4) == 0 else None

    def open(self, paths: Sequence[Path], options: ReadOptions, hints: Hints) -> Stage1Reader:
        from tokfmt.formats.stage1.reader import Stage1Reader

        return Stage1Reader(paths, options, hints)

    def writer(self, path: Path, options: WriteOptions, target: Target) -> Stage1Writer:
        from tokfmt.formats.stage1.writer import Stage1Writer

        return Stage1Writer(path, options, target)

    def check(self, path: Path, options: ReadOptions) -> Iterator[Finding]:
        from tokfmt.core.audit import Audit

        return self.audit(path, options, Audit())

    def audit(self, path: Path, options: ReadOptions, how: Audit) -> Iterator[Finding]:
        from tokfmt.formats.stage1.check import findings

        return findings(path, options, how)

    def codes(self) -> Mapping[str, Code]:
        from tokfmt.formats.stage1.codes import CODES

        return CODES

    def sections(self, path: Path, options: ReadOptions) -> Sequence[Section]:
        from tokfmt.formats.stage1.sections import sections

        return sections(path, options)


FORMAT = Stage1()
