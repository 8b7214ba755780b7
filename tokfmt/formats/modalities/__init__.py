"""Modalities packs (`.pbin`): header, tokens of all documents, pickled index.

    bytes            layout D (since 2024-07, what is written)         layout A (2023-12 .. 2024-03)
    0 .. 7           u64 little-endian, bytes of the data section      u64 big-endian, the same
    8 .. 11          u32 little-endian, bytes a token: 1, 2 or 4       (no such field: 4 bytes a token)
    ...              token ids, little-endian                          token ids, big-endian
    to the end       pickled [(offset, length), ...]                   the same

- Documents lie one after the other in the order of the index. Offsets and lengths are bytes, lengths include the
  separator (`eod`), which follows every document, also the last. Offsets count from 0 in D, from the start of the file
  in A (8), B and C (12). There is no magic number, no checksum, no vocabulary.
- B (2024-03) is D's header big-endian, C (2024-04) little-endian; both count offsets from 12. P0 .. P3 (2023-12, never
  released) have a header of 4 bytes or none. E is the output of a merge that subtracts 12 bytes from the offsets of
  each further file; the first may even be negative.
- Right for all of them: ignore the stored offsets; document i begins after the header and the lengths before it.
- A writer that was killed leaves a length of 0 in the header. Tokens of 3 bytes (one day in 2024) no Modalities reads.
- An empty pack of layout D has 17 bytes: 12 of header, and `80 04 5d 94 2e`.

The index is decoded by `tokfmt.formats.pickled_index`. Source: files written by the code of each version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tokfmt.core.format import Confidence, Finding, Hints, Probe, Target
from tokfmt.core.options import Late
from tokfmt.formats.modalities.header import sniff

if TYPE_CHECKING:  # detection asks every format
    from tokfmt.core.audit import Audit, Code, Repair
    from tokfmt.core.inside import Section
    from tokfmt.formats.modalities.options import ReadOptions, WriteOptions
    from tokfmt.formats.modalities.reader import ModalitiesReader
    from tokfmt.formats.modalities.writer import ModalitiesWriter


class Modalities:
    """Modalities packs."""

    name = "modalities"
    title = "Modalities packs: documents and their index"
    extensions = (".pbin",)
    joins = False
    carries = "documents in order, empty ones as well; ids up to 2^32-1; separators inside documents"
    cannot = "ids of 2^32 and more"

    read_options = Late("tokfmt.formats.modalities.options", "ReadOptions")
    write_options = Late("tokfmt.formats.modalities.options", "WriteOptions")

    def sniff(self, probe: Probe) -> Confidence | None:
        return sniff(probe)

    def open(self, paths: Sequence[Path], options: ReadOptions, hints: Hints) -> ModalitiesReader:
        from tokfmt.formats.modalities.reader import ModalitiesReader

        return ModalitiesReader(paths, options, hints)

    def glimpse(self, paths: Sequence[Path], options: ReadOptions, hints: Hints) -> ModalitiesReader | None:  # noqa: ARG002
        """See `core.glimpse.Glimpsed`."""
        from tokfmt.formats.modalities.glimpse import glimpse

        return glimpse(paths[0], options)

    def writer(self, path: Path, options: WriteOptions, target: Target) -> ModalitiesWriter:
        from tokfmt.formats.modalities.writer import ModalitiesWriter

        return ModalitiesWriter(path, options, target)

    def check(self, path: Path, options: ReadOptions) -> Iterator[Finding]:
        from tokfmt.core.audit import Audit

        return self.audit(path, options, Audit())

    def audit(self, path: Path, options: ReadOptions, how: Audit) -> Iterator[Finding]:
        from tokfmt.formats.modalities.check import findings

        return findings(path, options, how)

    def codes(self) -> Mapping[str, Code]:
        from tokfmt.formats.modalities.codes import CODES

        return CODES

    def repairs(self) -> Mapping[str, Repair]:
        from tokfmt.formats.modalities.codes import REPAIRS

        return REPAIRS

    def repaired_with(self, path: Path, options: ReadOptions) -> Mapping[str, object]:
        """Documents as they are, with whatever ends them; the token width as it is, where Modalities reads it."""
        width = self.open([path], options, Hints()).width
        return {"eod": "none", "width": 4 if width == 3 else width}

    def sections(self, path: Path, options: ReadOptions) -> Sequence[Section]:
        from tokfmt.formats.modalities.sections import sections

        return sections(path, options)


FORMAT = Modalities()
