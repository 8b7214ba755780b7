"""Flat tokens: a zarr store of encoded token IDs and of the starts of sequences, which seqax of MatX trains on.

    file                                  content
    X.zarr/.zgroup                        {"zarr_format": 2}
    X.zarr/train, X.zarr/validation       each split is a flat-tokens array, a group; a store may have one only,
                                          or be such a group itself (a bare array)
    .../.zattrs                           {"max_token_id": m}; no ID is above m, 0 <= m <= 2^31-1
    .../encoded_tokens/.zarray, 0, 1, ... <u4 [tokens], fill_value null or 0
    .../seq_starts/.zarray, 0, 1, ...     <u8 [sequences + 1], fill_value 0, filter delta of <i8

    item               type   content
    encoded_tokens[i]  u4 LE  2 * ID + 1 for the first token of a sequence, else 2 * ID; IDs up to 2^31-1
    seq_starts[i]      u8 LE  position of the first token of sequence i; [0] == 0, non-decreasing, [-1] == tokens

- Both arrays: compressor blosc (lz4, level 5, bit shuffle, block size 0), order C.
- A chunk file always decodes to a whole chunk. Items beyond the shape are padding, 0.
- The delta filter works per chunk: the first item is absolute, the others are differences, padding included.
- An empty sequence repeats an entry of seq_starts and has no start bit, so only seq_starts holds all sequences. The set
  bits are at the distinct entries below the number of tokens.
- No separator, padding or BOS is stored. There is no checksum.
- An absent chunk reads as the fill value if that is a number. A lost chunk looks the same, so tokfmt refuses both
  unless `holes=fill` is given. The only entry of an empty dataset's seq_starts may be absent. If the fill value is
  null, the content of an absent chunk is undefined.
- tokfmt also reads zarr v3 (`zarr.json`, sharding), zips of a store, the compressors zstd, lz4, gzip and zlib or none,
  and big-endian items.

Source: the format's documentation (docs/flat-tokens.md) and reference code in the public repository of seqax, and the
zarr v2 and v3 specifications.
"""

from __future__ import annotations

import re

from tokfmt.base.options import LazyAttribute
from tokfmt.core.format import Confidence, Format, Probe, probe_of
from tokfmt.errors import TokfmtError
from tokfmt.files.file import everything_in
from tokfmt.files.place import Place
from tokfmt.formats.flat_tokens.options import ReadOptions, WriteOptions

_ARRAYS = {"encoded_tokens", "seq_starts"}
_MARKS = {".zgroup", ".zattrs", ".zmetadata", "zarr.json"}
_CHILDREN = 16
_KEY = re.compile(
    r"([^/.][^/]*/)?"  # a split, or none
    r"((encoded_tokens|seq_starts)/(\.zarray|\.zattrs|zarr\.json|(c[./])?[0-9]+([./][0-9]+)*)"
    r"|\.zgroup|\.zattrs|\.zmetadata|zarr\.json)"
)
"""Keys of the files of flat-tokens groups: metadata, and chunks of their two arrays."""


class FlatTokens(Format):
    """Flat tokens: a directory or a zip that holds a zarr store."""

    name = "flat-tokens"
    title = "seqax flat-tokens: a zarr store with splits"
    extensions = (".zarr",)
    entries = (".zgroup", ".zattrs", ".zarray", "zarr.json")
    stores = "sequences in order, empty ones too; IDs up to 2^31-1"
    cannot_store = "IDs above 2^31-1"

    read_options = ReadOptions
    write_options = WriteOptions
    inspect = LazyAttribute("tokfmt.formats.flat_tokens.inspection", "FlatTokensInspection")
    glimpse = LazyAttribute("tokfmt.formats.flat_tokens.inspection", "glimpse")
    writer = LazyAttribute("tokfmt.formats.flat_tokens.writer", "FlatTokensWriter")
    writer_traits = LazyAttribute("tokfmt.formats.flat_tokens.writer", "traits")
    repairs = LazyAttribute("tokfmt.formats.flat_tokens.check", "REPAIRS")

    def sniff(self, probe: Probe) -> Confidence | None:
        if not probe.is_directory:
            zipped = probe.head.startswith(b"PK\x03\x04") and any(
                f"{name}/".encode() in text for name in _ARRAYS for text in (probe.head, probe.tail)
            )
            return Confidence.CERTAIN if zipped else None
        names, named = set(probe.entries), probe.path.suffix == ".zarr"
        if names >= _ARRAYS or (names & _ARRAYS and names & _MARKS):
            return Confidence.CERTAIN
        if not named and not names & _MARKS:  # `cp X.zarr/* Y.zarr` does not copy the marks; then the name counts
            return None
        children = [name for name in probe.entries if not name.startswith(".")][:_CHILDREN]
        groups = [probe, *filter(None, (_inside(probe.path / child) for child in children))]
        if any(set(group.entries) & _ARRAYS or _is_example(group) for group in groups):
            return Confidence.CERTAIN
        return Confidence.NAME if named and not _is_array(probe) else None

    def files(self, path: Place) -> list[Place]:
        if not path.is_dir():
            return [path]
        there = ((file, file.relative(path)) for file in everything_in(path))
        return [file for file, key in there if key is not None and _KEY.fullmatch(key.as_posix())]


def _is_array(probe: Probe) -> bool:
    """Return whether the metadata of a directory are those of an array, not of a group."""
    node = probe.entry("zarr.json")
    return ".zarray" in probe.entries or (node is not None and b'"group"' not in node.head)


def _is_example(group: Probe) -> bool:
    """Return whether a group calls its array `tokens`, as the documentation's example does, and states their bound."""
    attributes = (group.entry(name) for name in (".zattrs", "zarr.json") if "tokens" in group.entries)
    return any(attribute is not None and b'"max_token_id"' in attribute.head for attribute in attributes)


def _inside(path: Place) -> Probe | None:
    """Return a look at a directory; None if it is not a directory, or cannot be read."""
    try:
        return probe_of(path) if path.is_dir() else None
    except (TokfmtError, OSError):
        return None


FORMAT = FlatTokens()
