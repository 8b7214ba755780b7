"""What a format is: the contracts that readers, writers and formats keep, and the small values they exchange.

A format module ends in `FORMAT`, an object that satisfies `Format`; an entry point in the group `tokfmt.formats` names
it. tokfmt's own formats are found the same way as anybody else's. `tokfmt.testing.contract` holds the laws.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from tokfmt.core.axis import TokenReader
from tokfmt.core.errors import Loss
from tokfmt.core.files import File, natural_key, reading_error
from tokfmt.core.ragged import Tokens
from tokfmt.core.records import RecordReader

REGION = 1 << 24
"""Tokens a task owns by default. Output never depends on it."""

PROBE_BYTES = 1 << 16
PROBE_ENTRIES = 4096


class Confidence(IntEnum):
    """How sure a sniffer is. The highest wins; a tie is an error that names --from."""

    NAME = 1  # only the file's name speaks for it
    PLAUSIBLE = 2  # the content fits, but has no magic number
    STRUCTURE = 3  # several fields of the content agree with each other, or name and content both fit
    CERTAIN = 4  # a magic number, or a structure that nothing else has


class Probe(NamedTuple):
    """One bounded look at a path, shown to every sniffer.

    Attributes:
        path: As given.
        is_directory: Else it is a regular file.
        size: Bytes of a file; 0 for a directory.
        head, tail: Up to 64 KiB from each end of a file.
        entries: Up to 4,096 names in a directory, in natural order.
    """

    path: Path
    is_directory: bool
    size: int = 0
    head: bytes = b""
    tail: bytes = b""
    entries: tuple[str, ...] = ()

    def read(self, offset: int, length: int) -> bytes:
        """At most 64 KiB from anywhere in the file, cut at its end; b"" where there is nothing."""
        length = max(0, min(length, PROBE_BYTES, self.size - offset))
        if self.is_directory or offset < 0 or not length:
            return b""
        file = File(self.path)
        try:
            return file.read(offset, length)
        finally:
            file.close()

    def entry(self, name: str) -> Probe | None:
        """A look at a file of the directory, or None when it is not a regular file that can be read."""
        return look(self.path / name) if self.is_directory and (self.path / name).is_file() else None


def look(path: str | os.PathLike[str]) -> Probe:
    """Probe a path.

    Raises:
        FormatError: It does not exist, cannot be read, or is neither a regular file nor a directory.
    """
    path = Path(path)
    if path.is_dir():
        names = []
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    names.append(entry.name)
                    if len(names) == PROBE_ENTRIES:
                        break
        except OSError as error:
            raise reading_error(path, error) from error
        return Probe(path, is_directory=True, entries=tuple(sorted(names, key=natural_key)))
    file = File(path)
    try:
        size = file.size
        head = file.read(0, min(size, PROBE_BYTES))
        tail = file.read(max(0, size - PROBE_BYTES), min(size, PROBE_BYTES))
    finally:
        file.close()
    return Probe(path, is_directory=False, size=size, head=head, tail=tail)


class Hints(NamedTuple):
    """What a conversion knows before it opens a source.

    Attributes:
        eos_id: The separator, when --eos, a tokenizer or a manifest tells it.
        drop: What the user said may be given up.
        no_eos: `--eos none`: nothing is a separator, whatever the dataset itself says.
    """

    eos_id: int | None = None
    drop: frozenset[str] = frozenset()
    no_eos: bool = False


class Decoder(Protocol):
    """Token ids to text. Picklable."""

    def decode(self, tokens: Tokens | Sequence[int]) -> str:
        """The text of one sequence.

        Raises:
            TokfmtError: An id beyond the vocabulary, or bytes that are not UTF-8.
        """


class Target(NamedTuple):
    """What a conversion knows that a writer needs.

    Attributes:
        eos_id: The separator to write, None when none is known.
        decoder: Set when the user asked for text.
        drop: What the user said may be given up.
        keep_parts: `commit` may be cut off and called again, so it leaves parts of regions where they are; whoever
            asked for that removes them.
    """

    eos_id: int | None = None
    decoder: Decoder | None = None
    drop: frozenset[str] = frozenset()
    keep_parts: bool = False


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the output that exactly one task owns; the writer cuts.

    Attributes:
        index: 0, 1, 2, ... in the order of the output.
        sequences: Sequence numbers, when the writer cuts at sequences.
        tokens: Token positions on the axis that the writer stores (separators included where it stores them).
    """

    index: int
    sequences: range
    tokens: range


class Receipt(NamedTuple):
    """What a task says of its region when it is done. Small and picklable.

    Attributes:
        region: Region.index.
        max_id: Largest id written, -1 when none was; of the whole source where tokens were copied as they stand.
        written: Bytes written.
        details: What the writer's own commit needs (sizes of parts ...). JSON, and the same after a trip through it:
            receipts are journaled.
    """

    region: int
    max_id: int
    written: int
    details: Any = None


class TokenWriter(Protocol):
    """Writes one destination. Picklable: path and options; every method may run in another process.

    Attributes:
        needs_eos: The format stores a separator, so `Target.eos_id` must be known.
        separated: The separator alone marks boundaries, so a sequence must not contain it.
        needs_max_id: `create` wants `source.info.max_id`; the caller scans for it when it is unknown.
    """

    needs_eos: bool
    separated: bool
    needs_max_id: bool

    def lost(self, source: TokenReader) -> Sequence[Loss]:
        """What this format cannot carry of `source`, apart from embedded separators. Reads offsets, never tokens."""

    def regions(self, source: TokenReader, size: int) -> Sequence[Region]:
        """Cut the output into disjoint regions of about `size` tokens that cover it. Zero sequences: no regions."""

    def create(self, source: TokenReader) -> None:
        """Make the destination with everything preallocated. Called once, before any `write`.

        A writer of one split finds those written before in the same destination, and, when a run was killed in here and
        is continued, what this split's own `create` had made by then.
        """

    def write(self, region: Region, source: TokenReader) -> Receipt:
        """Write one region: in any order, in any process, again if need be, always the same bytes.

        Two processes may write the same region at the same time (one was believed dead): a file of a region's own is
        written with `output.whole`. Holds windows of at most `axis.WINDOW` tokens in memory, whatever the region is.
        """

    def commit(self, source: TokenReader, receipts: Sequence[Receipt]) -> None:
        """Finish (indexes, attributes), given the receipts of all regions in order of region.

        With `Target.keep_parts` it may be cut off anywhere and called again.
        """


@runtime_checkable
class Gatherer(Protocol):
    """A `TokenWriter` that can put its parts together while other regions are being written."""

    def gather(self, source: TokenReader, receipt: Receipt) -> None:
        """Take up what was written of the next region: in order of region, in the process that calls `commit`.

        It may never be called, or not for all regions: `commit` takes up those that are left.
        """


class Finding(NamedTuple):
    """One violation of a format's rules.

    Attributes:
        code: Stable, e.g. `TF101`. Hundreds: 1 modalities, 2 stage1, 3 hdf5, 4 flat-tokens, 5 jsonl.
        severity: "error", "warning" or "info".
        path: The file.
        offset: Byte offset, when there is one place to point at.
        message: What is wrong, in a sentence without a full stop.
        remedy: What to do about it.
    """

    code: str
    severity: str
    path: str
    message: str
    remedy: str = ""
    offset: int | None = None


class Format(Protocol):
    """One format. Immutable; the module-level `FORMAT`.

    Attributes:
        name: What users type, e.g. `flat-tokens`.
        title: One line: what it is and who reads it.
        extensions: Suffixes (".pbin") or name patterns ("stage1_block_*.bin") of destinations that mean this format.
        joins: Several files given together are one dataset whose sequences may run across them.
        carries, cannot: What it keeps and what it cannot, for `tokfmt formats`.
        read_options, write_options: Frozen dataclasses; see `core.options`. A write option `split` says that one
            destination holds several splits: each is written by a writer of its own, one after the other, to one path.
    """

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def extensions(self) -> tuple[str, ...]: ...
    @property
    def joins(self) -> bool: ...
    @property
    def carries(self) -> str: ...
    @property
    def cannot(self) -> str: ...
    @property
    def read_options(self) -> type: ...
    @property
    def write_options(self) -> type: ...

    def sniff(self, probe: Probe) -> Confidence | None:
        """How surely the probe is this format. Content first; a name alone is weak. Never raises."""

    def open(self, paths: Sequence[Path], options: Any, hints: Hints) -> TokenReader | RecordReader:
        """A reader of the stored axis (or of records of text). One path unless `joins`.

        Raises:
            FormatError: It is not what it should be.
        """

    def writer(self, path: Path, options: Any, target: Target) -> TokenWriter:
        """A writer of `path`, which does not exist yet."""

    def check(self, path: Path, options: Any) -> Iterator[Finding]:
        """Every violation, not the first. Reads headers, indexes and sizes; `options.deep` is not its business."""
