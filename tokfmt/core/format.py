"""What a format is: the contracts that readers, writers and formats keep, and the small values they exchange.

A format module ends in `FORMAT`, an object of a subclass of `Format`; an entry point in the group `tokfmt.formats`
names it. tokfmt's own formats are found the same way as anybody else's. `tokfmt.testing` holds the laws.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tokfmt.core import listing
from tokfmt.core.errors import Loss, OptionError
from tokfmt.core.fields import Section
from tokfmt.core.files import File, names_in, natural_key, reading_error
from tokfmt.core.findings import Audit, Code, Finding, Repair
from tokfmt.core.place import AnyPlace, Kind
from tokfmt.core.ragged import Ragged
from tokfmt.core.reader import Separators, TokenReader
from tokfmt.core.records import RecordReader

REGION = 1 << 24
"""Tokens a task owns by default. Output never depends on it."""

PROBE_BYTES = 1 << 16
_NATURAL = 4096


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
        entries: All names in a directory, in natural order (of more than 4,096: in that of the alphabet, which is ten
            times as fast).
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
        return look(self.path / name) if self.is_directory and listing.is_file(self.path / name) else None


class Signature(NamedTuple):
    """What every file has that a format claims or writes: without any of it, the format is not imported to be asked.

    To import all formats takes longer than to convert a small file. A package states the signatures of its formats in a
    module `signatures` beside them, as `SIGNATURES`, by the names of the formats. A format without a signature is asked
    about every file. All formats are asked about directories.

    Attributes:
        names: One of these is part of its name.
        marks: One of these is among the bytes at its beginning.
        beside: There is a file of its name with this suffix.
        text: There is no zero byte at its beginning.
    """

    names: tuple[str, ...] = ()
    marks: tuple[bytes, ...] = ()
    beside: str = ""
    text: bool = False

    def is_named(self, name: str) -> bool:
        """Whether a file of that name may be of the format, whatever it holds."""
        return any(part in name.lower() for part in self.names)

    def fits(self, probe: Probe) -> bool:
        """Whether a file may be of the format."""
        return (
            self.is_named(probe.path.name)
            or any(mark in probe.head for mark in self.marks)
            or (self.beside != "" and probe.path.with_suffix(self.beside).exists())
            or (self.text and b"\0" not in probe.head)
        )


def look(path: str | os.PathLike[str]) -> Probe:
    """Probe a path.

    Raises:
        FormatError: It does not exist, cannot be read, or is neither a regular file nor a directory.
    """
    path = Path(path)
    if listing.is_dir(path):
        names = names_in(path)
        return Probe(path, is_directory=True, entries=tuple(sorted(names, key=_order_of(names))))
    file = File(path)
    try:
        size = file.size
        head = file.read(0, min(size, PROBE_BYTES))
        tail = file.read(max(0, size - PROBE_BYTES), min(size, PROBE_BYTES))
    finally:
        file.close()
    return Probe(path, is_directory=False, size=size, head=head, tail=tail)


def _order_of(names: Sequence[str]) -> Callable[[str], Any] | None:
    return natural_key if len(names) <= _NATURAL else None


class Hints(NamedTuple):
    """What a conversion knows before it opens a source.

    Attributes:
        eos_id: The separator, when --eos or a manifest tells it: a fact.
        allow_loss: What the user said may be given up.
        no_eos: `--eos none`: nothing is a separator, whatever the dataset itself says.
        jobs: Threads that opening may use; None: as many as there are cores.
        collect: Records with trouble are set aside and told by their batches (`records.SkippedRecords`), not raised.
        tokenizer_eos: The tokenizer's end of text: it goes before a convention of the format, not before what the
            dataset itself states.
        recipes: Opens the sources that a recipe (`tokfmt.recipes`) names, and gives the reader of what it says.
        partial: Read of a damaged dataset what is certain, and tell in `Info.damage` what is not.
        few: Few sequences are going to be read. A long index may be read where their entries lie; what is not compared
            then is named in `Info.notes`.
        most: Only the first so many sequences are going to be read; None: any.
    """

    eos_id: int | None = None
    allow_loss: frozenset[str] = frozenset()
    no_eos: bool = False
    jobs: int | None = None
    collect: bool = False
    tokenizer_eos: int | None = None
    recipes: Callable[[Any, Hints], TokenReader | RecordReader] | None = None
    partial: bool = False
    few: bool = False
    most: int | None = None


class Encoder(Protocol):
    """Text to token ids. Picklable; loads its tokenizer on first use in a process; threads may share it."""

    def encode(self, texts: list[str]) -> Ragged:
        """The ids of each text, in order, uint32; no special tokens are added.

        Raises:
            TokfmtError: A text that the tokenizer fails on.
        """


class Decoder(Protocol):
    """Token ids to text. Picklable."""

    def decode(self, tokens: Sequence[int] | NDArray[np.integer]) -> str:
        """The text of one sequence.

        Raises:
            TokfmtError: An id beyond the vocabulary, or bytes that are not UTF-8.
        """


class Target(NamedTuple):
    """What a conversion knows that a writer needs.

    Attributes:
        eos_id: The separator to write, None when none is known.
        decoder: Set when the user asked for text.
        allow_loss: What the user said may be given up.
        keep_parts: `commit` may be cut off and called again, so it leaves parts of regions where they are; whoever
            asked for that removes them.
        jobs: Threads that `commit` may use.
    """

    eos_id: int | None = None
    decoder: Decoder | None = None
    allow_loss: frozenset[str] = frozenset()
    keep_parts: bool = False
    jobs: int = 1


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


def lost_nothing(source: TokenReader, allow_loss: frozenset[str]) -> Sequence[Loss]:  # noqa: ARG001
    """See `WriterTraits.lost`: the format carries every sequence."""
    return ()


@dataclass(frozen=True, slots=True)
class WriterTraits:
    """What writers with certain options store. Known before there is a writer; see `Format.writer_traits`.

    Attributes:
        separators: Where they store the separator. NONE: they store no separator.
        separated: The separator alone marks boundaries, so a sequence must not contain it.
        keeps_masks: They store the marks of their source (`protocols.Marked`), or its masks and labels.
        keeps_labels: They store any label, not only whether it counts.
        keeps_boundaries: They store where documents begin inside of a row.
        whole_files: Files hold whole sequences, so that a length of samples cuts nothing.
        gathers: They are `protocols.Gatherer`s, which put parts together under the interpreter's lock.
        file_suffixes: Suffixes of a destination that is one file; others are folders.
        lost: What they cannot carry of a source, apart from embedded separators; called with the source and the words
            of `--allow-loss`. Reads offsets, never tokens.
    """

    separators: Separators = Separators.NONE
    separated: bool = False
    keeps_masks: bool = False
    keeps_labels: bool = False
    keeps_boundaries: bool = False
    whole_files: bool = False
    gathers: bool = False
    file_suffixes: tuple[str, ...] = ()
    lost: Callable[[TokenReader, frozenset[str]], Sequence[Loss]] = lost_nothing

    @property
    def needs_eos(self) -> bool:
        """Whether they store a separator, so that `Target.eos_id` must be known."""
        return self.separators is not Separators.NONE


class TokenWriter(Protocol):
    """Writes one destination. Picklable: path and options; every method may run in another process.

    Attributes:
        needs_max_id: `create` wants `source.info.max_id`; the caller scans for it when it is unknown. A method
            `wants_max_id(source)`, which may be left out, says that of one source.
        merged: A method `merged(source)`, which may be left out: how many sequences end with the separator and get no
            other, so that reading takes their own away.
        notes: A method `notes(source)`, which may be left out: what others than tokfmt will not read of it, in words.
        least_bytes: A method `least_bytes(source)`, which may be left out: bytes that the destination takes at least;
            None if that depends on compression. Reads no token, and may be asked before `source.info.max_id` is known.
    """

    needs_max_id: bool

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


@dataclass(frozen=True, slots=True)
class NoOptions:
    """Of a format that has none."""


class Format(ABC):
    """One format: what its class states, what it must define, and what it may offer beyond that.

    Subclass it, and make the module-level `FORMAT` of the subclass. A format is immutable. `sniff`, `open` and `audit`
    must be defined, and `writer` with `writer_traits` unless it is `read_only`; every other method has a default.

    Attributes:
        name: What users type, e.g. `flat-tokens`.
        title: One line: what it is and who reads it.
        extensions: Suffixes (".pbin") or name patterns ("stage1_block_*.bin") of destinations that mean this format.
        suffixes: Of a dataset that is several files of one PREFIX: that of its tokens first.
        prefix: The suffix of which there is a file if PREFIX by itself means a dataset; "" if it means none.
        joins: Several files given together are one dataset whose sequences may run across them.
        streams: Its files, one after the other, make sense as one stream: `-` is a destination.
        computed: Its datasets are computed from other datasets, which their files name.
        read_only: Nothing is written in this format.
        takes_lines: It stores JSON lines: those of a source are copied with all their fields.
        stores_rows: Its samples can store the rows of a recipe as they are; see `row_writer`.
        packages: What reading it needs beside numpy, as pip knows it.
        carries, cannot: What it keeps and what it cannot, for `tokfmt formats`.
        drops: Words of `--allow-loss` of its own.
        read_options, write_options: Frozen dataclasses; see `core.options`. A write option `split` says that one
            destination holds several splits: each is written by a writer of its own, one after the other, to one path.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    extensions: ClassVar[tuple[str, ...]] = ()
    suffixes: ClassVar[tuple[str, ...]] = ()
    prefix: ClassVar[str] = ""
    joins: ClassVar[bool] = False
    streams: ClassVar[bool] = False
    computed: ClassVar[bool] = False
    read_only: ClassVar[bool] = False
    takes_lines: ClassVar[bool] = False
    stores_rows: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ()
    carries: ClassVar[str] = ""
    cannot: ClassVar[str] = ""
    drops: ClassVar[tuple[str, ...]] = ()
    read_options: ClassVar[type] = NoOptions
    write_options: ClassVar[type] = NoOptions

    def __repr__(self) -> str:
        return f"<tokfmt format {self.name}: {self.title}>"

    # what a dataset consists of

    @abstractmethod
    def sniff(self, probe: Probe) -> Confidence | None:
        """How surely the probe is this format. Content first; a name alone is weak. Never raises."""

    def files(self, path: Path) -> Sequence[Path]:
        """Every file of the dataset at `path` that exists, in natural order: data, metadata, indexes that are read.

        Of a directory only what belongs to the dataset: what else lies in it is a stranger's, which nothing replaces
        or removes. By default the file itself, or all that the directory holds.

        Raises:
            FormatError: A directory cannot be listed.
        """
        return everything_in(path) if listing.is_dir(path) else [path]

    def canonical(self, path: Path) -> Path:
        """The name of a dataset that has several: `x.bin`, where `x.idx` and the prefix `x` mean it too."""
        return path

    def destination(self, path: Path, options: Any) -> Path:
        """The same of what is written with these options, where a folder may be meant.

        Raises:
            OptionError: The options want another kind of name, or nothing is written in this format.
        """
        if self.read_only:
            raise OptionError(f"{path}: {self.name} is read, not written. Name a destination of another format")
        return self.canonical(path)

    def companions(self, path: Path) -> Sequence[Path]:
        """Files beside the (canonical) path that belong to it and are written with it: the index."""
        return ()

    # reading and writing

    @abstractmethod
    def open(self, paths: Sequence[Path], options: Any, hints: Hints) -> TokenReader | RecordReader:
        """A reader of the stored axis (or of records of text). One path unless `joins`.

        Raises:
            FormatError: It is not what it should be.
        """

    def glimpse(self, paths: Sequence[Path], options: Any, hints: Hints) -> TokenReader | None:
        """All tokens as one stream, after a look at the header alone; None when that does not tell where they are.

        For a format whose index takes long to read: the browser shows tokens before. Never raises for damaged content:
        `open` will say what is wrong.
        """
        return None

    def writer_traits(self, options: Any) -> WriterTraits:
        """What a writer with these options stores; a writer is only made to write."""
        return WriterTraits()

    def writer(self, path: Path, options: Any, target: Target) -> TokenWriter:
        """A writer of `path`, which does not exist yet.

        Raises:
            OptionError: Nothing is written in this format.
        """
        self.destination(path, options)  # which refuses it in the words of the format
        raise TypeError(f"the format {self.name} defines no writer, and does not state that it is read_only")

    def row_traits(self, options: Any) -> WriterTraits:
        """The same as `writer_traits`, of the writer that `row_writer` makes."""
        raise TypeError(f"the format {self.name} stores_rows, and defines no row_traits")

    def row_writer(self, path: Path, options: Any, target: Target, shifted: bool) -> TokenWriter:
        """A writer of rows of `options.seq_len`; its sources are `Sampled`, and regions are whole rows.

        Args:
            path, options, target: As for `writer`.
            shifted: Labels are the next tokens; else they are the row itself, as models of Hugging Face take them.

        Raises:
            OptionError: The format stores labels that are moved by one, and these are not.
        """
        raise TypeError(f"the format {self.name} stores_rows, and defines no row_writer")

    # looking at it

    @abstractmethod
    def audit(self, path: Path, options: Any, how: Audit) -> Iterator[Finding]:
        """Every violation, not the first. Bounded memory; never raises for damaged content.

        Reads headers, indexes and sizes, and, if `how.deep`, all that only shows in the tokens.
        """

    def check(self, path: Path, options: Any) -> Iterator[Finding]:
        """What `audit` finds without decoding everything."""
        return self.audit(path, options, Audit())

    def codes(self) -> Mapping[str, Code]:
        """Every code that its findings have, with its meaning for `check --explain`."""
        return {}

    def repairs(self) -> Mapping[str, Repair]:
        """The codes whose findings go away when a dataset is read with the repair's options and written again."""
        return {}

    def repaired_with(self, path: Path, options: Any) -> Mapping[str, object]:
        """Write options with which the sequences of a repaired dataset stay as they are stored."""
        return {}

    def patches(self) -> Mapping[str, Repair]:
        """The codes that `patch` puts right: where writing again could change more than a few bytes do."""
        return {}

    def patch(self, copy: Path, options: Any) -> None:
        """Put right what is wrong with a copy of a dataset, in place.

        Raises:
            TokfmtError: It is not certain what would be right.
        """
        raise TypeError(f"the format {self.name} names patches, and defines no patch")

    def sections(self, path: Path, options: Any) -> Sequence[Section] | None:
        """The parts of its files for `show --raw` and the browser, in their order; None if the format names none.

        Opens at once: what is long is decoded when its fields are read. Never raises for damaged content: a part that
        cannot be read has one field that says so, with `wrong`.
        """
        return None


def unrelated_files(format_: Format, path: Path) -> list[Path]:
    """What lies in the directory `path`, at any depth, and is no file of the dataset there: in natural order.

    Empty directories and links to directories count as well. Nothing of a path that is a file.

    Raises:
        FormatError: A directory cannot be listed.
    """
    if not listing.is_dir(path):
        return []
    own = set(format_.files(path))
    return [entry for entry in everything_in(path) if entry not in own]


def everything_in(directory: AnyPlace) -> list[AnyPlace]:
    """All files below a directory, links and directories that hold nothing included, in natural order.

    Raises:
        FormatError: One cannot be listed.
    """
    found, left = list[str](), [""]
    while left:
        inside = left.pop()
        try:
            entries = listing.entries(directory / inside)
        except OSError as error:
            raise reading_error(error.filename or directory, error) from error
        for name, kind in entries.items():
            if kind is Kind.DIRECTORY:
                left.append(f"{inside}{name}/")
            else:
                found.append(f"{inside}{name}")
        if inside and not entries:
            found.append(inside.removesuffix("/"))
    return [directory / name for name in sorted(found, key=natural_key)]
