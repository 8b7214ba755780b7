"""Cerebras GPT HDF5: samples with loss masks and labels, packed sequences, and plain corpora.

    dataset `data`   shape          content
    samples          [n, 3, width]  int32 <i4; fields input_ids, loss mask ("attention_mask"), labels
    VSL              [n, 5, width]  the same and attention_span, position_ids: several segments in a row
    corpus           [tokens]       u1, u2 or u4 by vocabulary; no sample structure, separators between documents

    object           content
    /                attribute n_examples, int64: samples in the file (not for a corpus)
    data             chunks (1, fields, width), each one zlib stream (deflate); a corpus is contiguous, uncompressed
    data             attributes of files that tokfmt wrote: stride, eos_id, pad_id, first_token, stream_tokens,
                     first_mask

- The `*.h5` files of a directory (top level, case-sensitive) are one dataset. The option `order` chooses which of them
  make one stream.
- A sample is a window T of width + 1 tokens of a stream: input_ids = T[:-1], labels = T[1:]. Windows overlap by one
  token, follow each other without overlap, or come after a BOS; the files of upstream do not state which. If the tokens
  show it (see the option `stride`), samples are joined to documents; otherwise each T is a sequence.
- A command decodes each chunk once if there are at most 64 MiB of samples. If there are more, `show` inspects 24 MiB of
  them at most, and none of tokfmt's own files. It then reads the first samples, and looks up only the chunks it reads.
- If the attribute `stride` is "rows" (samples of a recipe), the input_ids of each row are a sequence, with padding.
- Padding is on the right: one ID in input_ids and labels, mask 0. tokfmt counts samples with other zeros in the mask (a
  prompt) as masked samples. The samples view keeps them. Files that tokfmt wrote from documents with loss masks keep
  them as well: position i of the mask describes token i + 1 of the stream, and `first_mask` the first token.
- tokfmt refuses other kinds of samples by name: 6 fields (DPO), 2 fields with `/labels` (MLM), 4 fields (VSL MLM), 5
  fields with `/img_path` (multimodal), `/data_0` ... (mixed shapes).

Source: runs of the writers and readers of Cerebras ModelZoo R2.10.
"""

from __future__ import annotations

from collections.abc import Mapping

from tokfmt.base.options import LazyAttribute, choices
from tokfmt.core.format import Confidence, Format, Hints, Probe
from tokfmt.errors import FormatError, SourceChangedError, UnreachableError
from tokfmt.files.file import names_in, natural_key
from tokfmt.files.place import Place
from tokfmt.formats.hdf5.options import PARAMS, ReadOptions, WriteOptions

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_SIGNATURE_AT = (0, *(512 << k for k in range(7)))  # byte offsets: a user block may come first


class Hdf5(Format):
    """Cerebras GPT HDF5: one file, or a directory of files."""

    name = "hdf5"
    title = "Cerebras HDF5: samples, masks and labels"
    extensions = (".h5",)
    joins_files = stores_rows = True
    packages = ("h5py", "deflate", "isal")
    stores = "sequences in order; loss masks, if samples overlap; IDs up to 2^31-1"
    cannot_store = "empty sequences; sequences that contain the separator"

    read_options = ReadOptions
    write_options = WriteOptions
    inspect = LazyAttribute("tokfmt.formats.hdf5.inspection", "inspect")
    writer = LazyAttribute("tokfmt.formats.hdf5.writer", "make_writer")
    writer_traits = LazyAttribute("tokfmt.formats.hdf5.writer", "traits")
    row_traits = LazyAttribute("tokfmt.formats.hdf5.writer", "row_traits")
    repairs = LazyAttribute("tokfmt.formats.hdf5.check", "REPAIRS")

    def sniff(self, probe: Probe) -> Confidence | None:
        if probe.is_directory:
            first = next((name for name in probe.entries if name.endswith(".h5")), None)
            looked = None if first is None else probe.entry(first)
            return None if first is None or (looked is not None and _is_of_others(looked)) else Confidence.CERTAIN
        signed = any(probe.head[at : at + 8] == _SIGNATURE for at in _SIGNATURE_AT)
        return Confidence.CERTAIN if signed and not _is_of_others(probe) else None

    def repaired_with(self, path: Place, options: ReadOptions) -> Mapping[str, object]:
        """See `Format.repaired_with`. A corpus stays one, and samples keep their length and stride."""
        inspection = self.inspect([path], options, Hints())
        first = inspection.opened[0]
        if first.rank == 1:
            return {"layout": "corpus"}
        stride = inspection.open(frozenset()).info.facts.get("stride")
        known = {"stride": stride} if stride in choices(WriteOptions, "stride") else {}
        return {"seq_len": first.shape[2], **known}

    def files(self, path: Place) -> list[Place]:
        params = (path if path.is_dir() else path.parent) / PARAMS
        metadata = [params] if params.is_file() else []
        if not path.is_dir():
            return [path, *metadata]
        names = sorted((name for name in names_in(path) if name.endswith(".h5")), key=natural_key)
        return [*(path / name for name in names if not (path / name).is_dir()), *metadata]


def _is_of_others(probe: Probe) -> bool:
    """Return whether a file has datasets, but none of the names of Cerebras: the format array reads it."""
    if probe.file is None or not probe.head.startswith(_SIGNATURE):
        return False
    try:
        from tokfmt.formats.hdf5_arrays.container import is_without_samples

        return is_without_samples(probe.file, probe.head)
    except (UnreachableError, SourceChangedError):
        raise
    except (FormatError, ModuleNotFoundError):  # Whoever opens it gets the error.
        return False


FORMAT = Hdf5()
