"""Cerebras GPT HDF5: samples with masks and labels, packed sequences, and plain corpora.

    dataset `data`   shape          content
    samples          [n, 3, width]  int32 <i4; fields input_ids, loss mask ("attention_mask"), labels
    VSL              [n, 5, width]  the same and attention_span, position_ids: several segments in a row
    corpus           [tokens]       u1, u2 or u4 by vocabulary; no sample structure, separators between documents

    where            content
    /                attribute n_examples, int64: samples in the file (not for a corpus)
    data             chunks (1, fields, width), each one zlib stream (deflate); a corpus is contiguous, uncompressed
    data, attributes of files that tokfmt wrote: stride, eos_id, pad_id, first_token, stream_tokens; see `facts`

- A directory's `*.h5` files (top level, case-sensitive) are one dataset; `order` says which of them make one stream.
- A sample is a window T of width + 1 tokens of a stream: input_ids = T[:-1], labels = T[1:]. Windows overlap by one
  token, lie side by side, or stand behind a BOS; the file does not say which: `stride` finds out.
- Padding is on the right: one id in input_ids and labels, mask 0. Other zeros of the mask (a prompt) cannot be carried
  by documents; they are counted in `Info.extras["nonstandard_masks"]`.
- Not GPT samples, refused by name: 6 fields (DPO), 2 fields beside `/labels` (MLM), 4 fields (VSL MLM), 5 fields beside
  `/img_path` (multimodal), `/data_0` ... (mixed shapes).

Source: the writers and readers of Cerebras ModelZoo R2.10, run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tokfmt.core.axis import TokenReader
from tokfmt.core.format import Confidence, Finding, Hints, Probe, Target, TokenWriter
from tokfmt.core.options import Late

if TYPE_CHECKING:  # detection asks every format
    from tokfmt.core.audit import Audit, Code, Repair
    from tokfmt.core.inside import Section
    from tokfmt.formats.hdf5.options import ReadOptions, WriteOptions

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_SIGNATURE_AT = (0, *(512 << k for k in range(7)))  # behind a user block


class Hdf5:
    """Cerebras GPT HDF5."""

    name = "hdf5"
    title = "Cerebras HDF5: samples, masks and labels"
    extensions = (".h5",)
    joins = True
    carries = "sequences in order; ids up to 2^31-1"
    cannot = "empty sequences; sequences that contain the separator"

    read_options = Late("tokfmt.formats.hdf5.options", "ReadOptions")
    write_options = Late("tokfmt.formats.hdf5.options", "WriteOptions")

    def sniff(self, probe: Probe) -> Confidence | None:
        if probe.is_directory:
            return Confidence.CERTAIN if any(name.endswith(".h5") for name in probe.entries) else None
        signed = any(probe.head[at : at + 8] == _SIGNATURE for at in _SIGNATURE_AT)
        return Confidence.CERTAIN if signed else None

    def open(self, paths: Sequence[Path], options: ReadOptions, hints: Hints) -> TokenReader:
        from tokfmt.formats.hdf5.reader import open_reader

        return open_reader(paths, options, hints)

    def writer(self, path: Path, options: WriteOptions, target: Target) -> TokenWriter:
        from tokfmt.formats.hdf5.writer import make_writer

        return make_writer(path, options, target)

    def check(self, path: Path, options: ReadOptions) -> Iterator[Finding]:
        from tokfmt.core.audit import Audit

        return self.audit(path, options, Audit())

    def audit(self, path: Path, options: ReadOptions, how: Audit) -> Iterator[Finding]:  # noqa: ARG002 - needs none
        from tokfmt.formats.hdf5.check import findings

        return findings(path, how)

    def codes(self) -> Mapping[str, Code]:
        from tokfmt.formats.hdf5.codes import CODES

        return CODES

    def patches(self) -> Mapping[str, Repair]:
        from tokfmt.formats.hdf5.codes import PATCHES

        return PATCHES

    def patch(self, copy: Path, options: ReadOptions) -> None:  # noqa: ARG002 - the samples alone decide
        from tokfmt.formats.hdf5.patch import set_examples

        set_examples(copy)

    def sections(self, path: Path, options: ReadOptions) -> Sequence[Section]:  # noqa: ARG002 - files as they are
        from tokfmt.formats.hdf5.sections import sections

        return sections(path)


FORMAT = Hdf5()
