"""Flat tokens: a zarr store of encoded ids and where each sequence begins, as MatX's seqax trains on.

    X.zarr/.zgroup                        {"zarr_format": 2}
    X.zarr/train, X.zarr/validation       each split is a flat-tokens array, a group; a store may have one only,
                                          or be such a group itself (a bare array)
    .../.zattrs                           {"max_token_id": m}; no id is above m, 0 <= m <= 2^31-1
    .../encoded_tokens/.zarray, 0, 1, ... <u4 [tokens], fill_value null or 0
    .../seq_starts/.zarray, 0, 1, ...     <u8 [sequences + 1], fill_value 0, filter delta of <i8

    item               type   content
    encoded_tokens[i]  u4 LE  2 * id + 1 for the first token of a sequence, else 2 * id; ids up to 2^31-1
    seq_starts[i]      u8 LE  position of the first token of sequence i; [0] == 0, non-decreasing, [-1] == tokens

- Both arrays: compressor blosc (lz4, level 5, bit shuffle, block size 0), order C.
- A chunk file always decodes to a whole chunk; what lies beyond the shape is padding, 0.
- Delta works in a chunk: the first item of every chunk is absolute, the others are differences, padding included.
- An empty sequence repeats an entry of seq_starts and has no start bit: seq_starts alone says what sequences there
  are. Set bits are the distinct entries below the number of tokens.
- No separator, padding or begin mark is stored. There is no checksum.
- An absent chunk reads as the fill value if that is a number, and a lost one looks the same: it is refused here, save
  with `holes=fill` (and save the only entry of an empty dataset's seq_starts). With null its content is undefined.
- Also read: zarr v3 (`zarr.json`, sharding), zips of a store; zstd, lz4, gzip, zlib or no compressor; big-endian items.

Source: the format's documentation (docs/flat-tokens.md) and reference code in the public repository of seqax, and the
zarr v2 and v3 specifications.
"""

from __future__ import annotations

import re
from pathlib import Path

from tokfmt.core import listing
from tokfmt.core.errors import TokfmtError
from tokfmt.core.format import Confidence, Format, Probe, everything_in, look
from tokfmt.core.options import LazyAttribute
from tokfmt.formats.flat_tokens.options import ReadOptions, WriteOptions

_ARRAYS = {"encoded_tokens", "seq_starts"}
_MARKS = {".zgroup", ".zattrs", ".zmetadata", "zarr.json"}
_CHILDREN = 16
_KEY = re.compile(
    r"([^/.][^/]*/)?"  # a split, or none
    r"((encoded_tokens|seq_starts)/(\.zarray|\.zattrs|zarr\.json|(c[./])?[0-9]+([./][0-9]+)*)"
    r"|\.zgroup|\.zattrs|\.zmetadata|zarr\.json)"
)
"""Files of a store that are metadata of flat-tokens groups, or chunks of their two arrays."""


class FlatTokens(Format):
    """Flat tokens in zarr."""

    name = "flat-tokens"
    title = "seqax flat-tokens: a zarr store with splits"
    extensions = (".zarr",)
    carries = "sequences in order, empty ones too; IDs up to 2^31-1"
    cannot = "IDs above 2^31-1"

    read_options = ReadOptions
    write_options = WriteOptions
    open = LazyAttribute("tokfmt.formats.flat_tokens.reader", "FlatTokensReader")
    glimpse = LazyAttribute("tokfmt.formats.flat_tokens.reader", "glimpse")
    writer = LazyAttribute("tokfmt.formats.flat_tokens.writer", "FlatTokensWriter")
    writer_traits = LazyAttribute("tokfmt.formats.flat_tokens.writer", "traits")
    audit = LazyAttribute("tokfmt.formats.flat_tokens.check", "findings")
    codes = LazyAttribute("tokfmt.formats.flat_tokens.check", "CODES")
    patches = LazyAttribute("tokfmt.formats.flat_tokens.check", "PATCHES")
    patch = LazyAttribute("tokfmt.formats.flat_tokens.check", "patch")
    sections = LazyAttribute("tokfmt.formats.flat_tokens.sections", "sections")

    def sniff(self, probe: Probe) -> Confidence | None:
        if not probe.is_directory:
            zipped = probe.head.startswith(b"PK\x03\x04") and any(
                f"{name}/".encode() in text for name in _ARRAYS for text in (probe.head, probe.tail)
            )
            return Confidence.CERTAIN if zipped else None
        names, named = set(probe.entries), probe.path.suffix == ".zarr"
        if names >= _ARRAYS or (names & _ARRAYS and names & _MARKS):
            return Confidence.CERTAIN
        if not named and not names & _MARKS:  # `cp X.zarr/* Y.zarr` leaves the marks behind: a name makes up for them
            return None
        example = "tokens" in names
        for child in [name for name in probe.entries if not name.startswith(".")][:_CHILDREN]:
            inside = _entries(probe.path / child)
            if inside & _ARRAYS:
                return Confidence.CERTAIN
            example = example or "tokens" in inside
        if example:
            return Confidence.STRUCTURE
        return Confidence.NAME if named else None

    def files(self, path: Path) -> list[Path]:
        if not listing.is_dir(path):
            return [path]
        return [file for file in everything_in(path) if _KEY.fullmatch(file.relative_to(path).as_posix())]


def _entries(path: Path) -> set[str]:
    """Names in a directory; nothing when it is none, or cannot be read."""
    try:
        return set(look(path).entries) if listing.is_dir(path) else set()
    except (TokfmtError, OSError):
        return set()


FORMAT = FlatTokens()
