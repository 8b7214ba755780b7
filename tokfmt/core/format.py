"""The contract of a format: the base class `Format`, the protocol `TokenWriter`, and the values that they exchange.

The module of a format ends with `FORMAT`, an object of a subclass of `Format`. `registry.BUILT_IN` refers to it;
that of another package is an entry point in the group `tokfmt.formats`. `tokfmt.testing` has the laws that every format
keeps.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.findings import Audit, Code, Finding, Repair, codes_beside
from tokfmt.core.inspection import Inspection
from tokfmt.core.ragged import Ragged
from tokfmt.core.reader import Separators, TokenReader, windows
from tokfmt.core.records import RecordReader
from tokfmt.errors import Loss, OptionError
from tokfmt.files.fields import Section
from tokfmt.files.file import File, everything_in, files_at_hand, names_in, natural_key, open_file
from tokfmt.files.place import AnyPlace, Place, PlaceLike, place_of
from tokfmt.wording import counted

REGION = 1 << 24
"""Tokens per region by default. The bytes of the destination do not depend on it."""

PROBE_BYTES = 1 << 16
MOST_AT_ONCE = 1 << 26
"""Bytes of the largest index that is requested as a whole when a dataset in a store is opened."""
_NATURAL = 4096


class Confidence(IntEnum):
    """The certainty of `sniff`. The highest confidence wins; a tie is an error with the remedy --from."""

    NAME = 1  # Only the name of the file fits.
    PLAUSIBLE = 2  # The content fits, but has no magic number.
    STRUCTURE = 3  # Several fields of the content agree with each other, or the name and the content both fit.
    CERTAIN = 4  # A magic number, or a structure that no other format has.


ZSTANDARD = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")
"""The magic numbers of the frames of zstandard. pzstd begins a file with a frame that readers skip."""


class Probe(NamedTuple):
    """A bounded look at a path, which every format gets to detect the format.

    Attributes:
        path: The place, as given.
        is_directory: True for a directory, False for a regular file.
        size: Size of a file in bytes; 0 for a directory.
        head: Up to 64 KiB from the beginning of a file.
        tail: Up to 64 KiB from the end of a file.
        entries: All names in a directory, in natural order. More than 4,096 names are sorted as strings, which is ten
            times as fast.
        file: The file, which is still open; None for a directory.
        files: All files that were looked at, which are still open, by path; None to keep none but `file` open.
    """

    path: Place
    is_directory: bool
    size: int = 0
    head: bytes = b""
    tail: bytes = b""
    entries: tuple[str, ...] = ()
    file: File | None = None
    files: dict[Place, File] | None = None

    def opened(self, place: Place) -> File:
        """Return another file of the dataset. It stays open for the other formats, and for the reader.

        Raises:
            FormatError: As `files.open_file`.
        """
        files = {} if self.files is None else self.files
        if place not in files:
            files[place] = open_file(place, may_be_page=True)
        return files[place]

    def read(self, offset: int, length: int) -> bytes:
        """Return up to 64 KiB from a byte offset of the file; b"" beyond its end, or for a directory."""
        length = max(0, min(length, PROBE_BYTES, self.size - offset))
        if self.file is None or offset < 0 or not length:
            return b""
        known = self.head[offset : offset + length]
        return known if len(known) == length else self.file.read(offset, length)

    def announce(self, offset: int) -> None:
        """Announce that the file will be read from a byte offset to its end, as an index is; see `File.prefetch`.

        Nothing is announced if the offset is not within the file, or if an index of that size is read in parts.
        """
        if self.file is not None and 0 < self.size - offset <= MOST_AT_ONCE and offset >= 0:
            self.file.prefetch([(offset, self.size)], keep=True)

    def entry(self, name: str) -> Probe | None:
        """Probe a file of the directory; None if it is not a regular file."""
        return probe_of(self.path / name, self) if self.is_directory and (self.path / name).is_file() else None


class Signature(NamedTuple):
    """Properties of every file that a format claims or writes. If a file has none of them, the format is not imported.

    To import all formats takes longer than to convert a small file. The signatures are in `registry.BUILT_IN`. A format
    without a signature is asked about every file, as are those of other packages; all are asked about directories.
    """

    names: tuple[str, ...] = ()  # substrings of the file name; one of them is enough
    words: tuple[bytes, ...] = ()  # bytes that occur in `Probe.head`, if it holds no zero byte; one of them is enough
    # suffix of a file with the same stem in the same directory, in capitals if that of the file is; ".bin.json": beside
    # files that end with ".bin"
    beside: str = ""
    text: bool = False  # `Probe.head` holds no zero byte
    binary: bool = False  # `Probe.head` holds a zero byte
    # bytes with which `Probe.head` begins, or that are at one of the offsets `at`; one of them is enough
    starts: tuple[bytes, ...] = ()
    at: tuple[int, ...] = (0,)  # byte offsets of `starts`

    def is_named(self, name: str) -> bool:
        """Return whether the name of a file, in lower case, fits, whatever its content."""
        for part in self.names:  # noqa: SIM110 - a generator takes longer, and detection asks every format
            if part in name:
                return True
        return False

    def fits(self, name: str, head: bytes, *, is_text: bool) -> bool:
        """Return whether a file may be of the format by its lower-case name or by its head."""
        if self.is_named(name) or (self.binary and not is_text):
            return True
        if is_text and (self.text or any(word in head for word in self.words)):
            return True
        if self.starts:
            for offset in self.at:
                if head.startswith(self.starts, offset):
                    return True
        return False

    def has_beside(self, path: Place) -> bool:
        """Return whether the file `beside` is there."""
        beside = self.beside.upper() if path.suffix.isupper() else self.beside
        first = beside[: beside.rfind(".")]
        return first in ("", path.suffix) and path.with_suffix(beside).exists()


def probe_of(path: PlaceLike, directory: Probe | None = None) -> Probe:
    """Probe a place. Files stay open: close `Probe.files` unless they are used. A `directory` keeps its files open."""
    path = place_of(path)
    if path.is_dir():
        names = names_in(path)
        names = sorted(names, key=natural_key if len(names) <= _NATURAL else None)
        return Probe(path, is_directory=True, entries=tuple(names), files={})
    with files_at_hand():
        file = open_file(path, may_be_page=True) if directory is None else directory.opened(path)
        files = {path: file} if directory is None else directory.files
        size, ends = file.size, min(file.size, PROBE_BYTES)
        file.prefetch([(0, ends), (size - ends, size)], keep=True)
        head = file.read(0, ends)
        tail = head if ends == size else file.read(size - ends, ends)
    return Probe(path, is_directory=False, size=size, head=head, tail=tail, file=file, files=files)


class Hints(NamedTuple):
    """Facts and wishes that a command passes to `Format.inspect`.

    Attributes:
        eos_id: The separator that --eos or a manifest states. It is a fact.
        allow_loss: The words of --allow-loss.
        no_eos: `--eos none`: the dataset has no separator, whatever it states itself.
        jobs: Threads that `open` may use; None: one per core.
        collect_invalid: Invalid records do not raise. Batches report them as `records.SkippedRecords`.
        tokenizer_eos: The end of text of the tokenizer. It overrides a convention of the format, but not what the
            dataset itself states.
        every_end: The command looks at the end of every sequence.
        source_files: The files of a dataset that is computed from others, and of those as far as they were found: a
            `source.request.SourceFiles`.
        allow_partial: Read what is certain of a damaged dataset, and report the rest in `Info.damage`.
        few_sequences: The caller reads few sequences. A reader may then read only the needed entries of a long index,
            and `Info.notes` lists what it did not compare.
        max_sequences: The caller reads only so many sequences, from the first; None: it may read all.
        files: The open files that were looked at to detect the format, by path. `opened` takes them.
        tokenizer: The `text.tokenizer.TokenizerHandle` of the command, for the texts that a computed dataset names.
    """

    eos_id: int | None = None
    allow_loss: frozenset[str] = frozenset()
    no_eos: bool = False
    jobs: int | None = None
    collect_invalid: bool = False
    tokenizer_eos: int | None = None
    every_end: bool = False
    source_files: Any = None
    allow_partial: bool = False
    few_sequences: bool = False
    max_sequences: int | None = None
    files: dict[Place, File] | None = None
    tokenizer: Any = None

    def opened(self, place: Place, *, may_be_page: bool = False) -> File:
        """Return a file of the dataset: the one that was looked at to detect its format, or it is opened now.

        Whoever calls this closes the file.

        Args:
            place: The file.
            may_be_page: See `files.open_file`.

        Raises:
            FormatError: As `files.open_file`.
        """
        file = None if self.files is None else self.files.pop(place, None)
        if file is None:
            return open_file(place, may_be_page=may_be_page)
        file.expect(may_be_page=may_be_page)
        return file


class Encoded(NamedTuple):
    """Encoded texts."""

    ragged: Ragged  # of each text, as uint32
    # uint8 per token, see `core.loss_mask`; None if the encoder has no `loss_masks`
    marks: NDArray[np.uint8] | None = None
    roles: Mapping[str, int] = {}  # number of messages of each role, of chats


class Encoder(Protocol):
    """An encoder of text to token IDs. Picklable; loads its tokenizer on first use in a process; thread-safe."""

    loss_masks: str = ""  # description of the loss masks that `marked` returns

    @abstractmethod
    def encode(self, texts: list[str]) -> Ragged:
        """Return the token IDs of each text as uint32, in order, without special tokens."""

    def marked(self, texts: list[str]) -> Encoded:
        """Return the token IDs of each text, with their loss masks; raises as `encode` does."""
        return Encoded(self.encode(texts))


class Decoder(Protocol):
    """A decoder of token IDs to text. Picklable."""

    def decode(self, tokens: Sequence[int] | NDArray[np.integer]) -> str:
        """Return the text of one sequence. An ID beyond the vocabulary, and bytes that are not UTF-8, are an error."""


class SampleRows(NamedTuple):
    """Rows of a recipe of samples, stored as they are. Their source has labels, and regions of it are whole rows."""

    seq_len: int  # if the format has an option of this name, it has this value
    shifted: bool  # labels are the next tokens; False: the row itself, as models of Hugging Face take them


class Target(NamedTuple):
    """Facts and wishes that a command passes to `Format.writer`."""

    eos_id: int | None = None  # the separator; None if it is unknown
    separators: Separators = Separators.NONE  # where the source of the writer has it
    decoder: Decoder | None = None  # for formats that store text; None if the user gave no tokenizer
    allow_loss: frozenset[str] = frozenset()
    # `commit` may be interrupted and called again, so it keeps the parts of regions, which the caller removes
    keep_parts: bool = False
    jobs: int = 1  # threads that `commit` may use
    # decodes as `decoder` and raises where that replaces what is not text; None if `decoder` raises itself
    strict: Decoder | None = None
    # sequences that have it: all that the format gives one, or of these those that were read with one
    eos_for: Literal["all", "as-read"] = "all"
    bos_id: int | None = None  # the lead that the source of the writer has in front of sequences
    bos_for: Literal["as-read", "all"] = "as-read"  # sequences that have it: those that were read with one, or all
    rows: SampleRows | None = None  # that the source of the writer has, if the format `stores_rows`; None: sequences


@dataclass(frozen=True, slots=True)
class Region:
    """A part of the output that exactly one task writes. The writer defines the regions."""

    index: int  # 0, 1, 2, ... in the order of the output
    sequences: range  # if the writer cuts between sequences
    tokens: range  # positions on the source


class Receipt(NamedTuple):
    """The result of a task that wrote a region. Small and picklable."""

    region: int
    max_id: int  # -1 if none; if tokens were copied as raw bytes, the largest ID of the source
    written: int  # bytes
    # what the writer's own `commit` needs, such as sizes of parts: JSON values, because receipts are journaled
    details: Any = None


def lost_nothing(source: TokenReader, allow_loss: frozenset[str]) -> Sequence[Loss]:  # noqa: ARG001
    """Implement `WriterTraits.lost` for a format that stores every sequence."""
    return ()


@dataclass(frozen=True, slots=True)
class WriterTraits:
    """Properties of what a writer with certain options stores. Known without a writer; see `Format.writer_traits`."""

    # NONE: not stored. TRAILING: after each sequence that has one in the source or is not empty. Any other: with
    # every sequence
    separators: Separators = Separators.NONE
    eos_id: int | None = None  # the only separator that readers of this variant take; None: any
    keeps_masks: bool = False  # stores the marks of the source (`TokenReader.marks`), or its loss masks and labels
    # stores no separators, but with marks those of the source: each is a token that counts or not
    keeps_separators: bool = False
    keeps_labels: bool = False  # stores any label, not only whether a label counts in the loss
    keeps_boundaries: bool = False  # stores where documents begin in a row
    sample_length: int | None = None  # if it cuts the stream into samples of one length
    pack_size: int | None = None  # tokens per row, if it packs complete documents into rows
    joins_under_lock: bool = False  # `join_parts` holds the interpreter's lock
    file_suffixes: tuple[str, ...] = ()  # of a destination that is one file; one with another suffix is a directory
    # Returns what the writer cannot store of a source, apart from embedded separators. Takes the source and the words
    # of --allow-loss. Reads offsets, never tokens.
    lost: Callable[[TokenReader, frozenset[str]], Sequence[Loss]] = lost_nothing

    @property
    def needs_eos(self) -> bool:
        """True if the separator is stored, so that `Target.eos_id` must be known."""
        return self.separators is not Separators.NONE


class TokenWriter(ABC):
    """A writer of one destination. Picklable: it holds a path and options, and any method may run in another process.

    The source of each method is the axis that is stored: the tokens, offsets and marks of all sequences with their
    separators. A writer adds no separators. If `Target.separators` is NONE, the source holds contents alone.

    Define `regions`, `create`, `write` and `commit`. Every other method has a default.
    """

    @abstractmethod
    def regions(self, source: TokenReader, size: int) -> Sequence[Region]:
        """Cut the output into disjoint regions of about `size` tokens that cover it. Without sequences, return none."""

    @abstractmethod
    def create(self, source: TokenReader) -> None:
        """Create the destination with all files preallocated. Called once, before any `write`.

        A destination with several splits already holds the splits that were written before. If a run is resumed, it
        also holds what an interrupted `create` of this split left.
        """

    @abstractmethod
    def write(self, region: Region, source: TokenReader) -> Receipt:
        """Write one region, in any order and in any process. A repeated call writes the same bytes.

        Two processes may write the same region at the same time, if a live task is taken for dead. Write a file that
        belongs to one region with `output.whole`. Hold windows of at most `reader.WINDOW` tokens in memory, whatever
        the size of the region.
        """

    @abstractmethod
    def commit(self, source: TokenReader, receipts: Sequence[Receipt]) -> None:
        """Finish the destination (indexes, attributes), given the receipts of all regions in order of region.

        With `Target.keep_parts`, it may be interrupted at any point and called again.
        """

    def lost(self, receipts: Sequence[Receipt]) -> Sequence[Loss]:
        """Return what the regions lost because the user accepted it, from the details of their receipts."""
        return ()

    def join_parts(self, source: TokenReader, receipt: Receipt) -> None:  # noqa: B027 - `commit` can do it all
        """Join the parts of the next region while other regions are written. By default, do nothing.

        Called in order of region, in the process that calls `commit`, for any number of regions. `commit` joins the
        rest.
        """

    packed: bool = False
    """Rows hold several documents or padding, which readers divide and leave out. Known once `regions` was called."""

    finishes_files: bool = False
    """Files are complete before `commit`: `files_of` states which, and `finish_files` completes them."""

    def files_of(self, source: TokenReader, region: Region) -> Sequence[Path]:
        """Return the files that are complete once all regions for which they are returned are finished.

        `commit` neither reads nor writes them: they may be gone by then. Two regions share all of these files, or none.
        """
        return ()

    def finish_files(self, source: TokenReader, regions: Sequence[Region], receipts: Sequence[Receipt]) -> object:
        """Complete the files of these regions, which are all regions of these files, and return facts for `commit`.

        It may be called again after an interruption. The facts are a JSON value, which `recall_files` takes.
        """
        return None

    def recall_files(self, facts: object) -> None:  # noqa: B027 - most writers need no facts
        """Take the facts of files that another process has finished, before `commit`."""

    def parts_of(self, regions: Sequence[Region]) -> Sequence[Path]:
        """Return the intermediate files of these regions, which are not needed once their files are finished."""
        return ()

    def wants_max_id(self, source: TokenReader) -> bool:
        """Return whether `create` needs `source.info.max_id`. If it is unknown, the caller scans the source for it."""
        return False

    def minimum_bytes(self, source: TokenReader) -> int | None:
        """Return a lower bound of the destination's size in bytes; None if it depends on compression, or on text.

        Reads no token, and may be called before `source.info.max_id` is known.
        """
        return None

    def notes(self, source: TokenReader) -> Iterable[str]:
        """Return sentences on what other projects cannot read of the destination."""
        return ()


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of a format without options."""


class Format(ABC):
    """A format: class attributes, the methods it must define, and optional methods.

    Define a subclass, and bind an object of it to `FORMAT` in the module. A format is immutable. `sniff` and `inspect`
    are required. `writer` and `writer_traits` are required unless the format is `read_only`. Every other method
    has a default.

    Attributes:
        name: The name that users type, such as `flat-tokens`.
        title: One line: what it is, and which project reads it.
        extensions: Suffixes (".pbin") or name patterns ("stage1_block_*.bin") of destinations that imply this format.
        suffixes: Suffixes of a dataset of several files PREFIX + suffix, the suffix of the tokens first.
        prefix: The suffix of the file that must exist if PREFIX alone stands for the dataset; "" if PREFIX alone does
            not.
        joins_files: Several files given together are one dataset, whose sequences may cross file boundaries.
        numbers_files: Numbers in the names of its files count them, and no index lists them. `check` then reports a
            number that is left out, as its file may be missing.
        has_splits: Its reader finds the splits of a directory, and reads one by the option `split`. Of other formats, a
            directory is limited to the files whose names state one split before it is read.
        names_are_titles: Names of files say what is in them, so that one of them alone states no split.
        can_stream: The concatenation of its files is a valid stream, so `-` can be the destination.
        is_computed: A dataset is computed from other datasets, to which its files refer.
        read_only: tokfmt does not write this format.
        left_to_deep: What only `check --deep` does, in words.
        entries: Patterns of the names of files without which no reader opens the dataset, in the order in which they
            appear in a store, after all other files.
        takes_lines: It stores JSON lines. Lines of a source are copied with all their fields.
        stores_rows: It can store the rows of a recipe of samples; see `SampleRows`.
        packages: Packages that a reader needs in addition to numpy, by their pip names.
        stores: What it stores, for `tokfmt formats`.
        cannot_store: What it cannot store, for `tokfmt formats`; "" if the format is read-only.
        losses: Its own words of --allow-loss.
        read_options: A frozen dataclass; see `base.options`.
        write_options: A frozen dataclass; see `base.options`. An option `split` means that one destination holds
            several splits. Each split has its own writer, and the writers run one after the other for one path.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    extensions: ClassVar[tuple[str, ...]] = ()
    suffixes: ClassVar[tuple[str, ...]] = ()
    prefix: ClassVar[str] = ""
    joins_files: ClassVar[bool] = False
    numbers_files: ClassVar[bool] = False
    has_splits: ClassVar[bool] = False
    names_are_titles: ClassVar[bool] = False
    can_stream: ClassVar[bool] = False
    is_computed: ClassVar[bool] = False
    read_only: ClassVar[bool] = False
    left_to_deep: ClassVar[str] = "--deep reads every token"
    entries: ClassVar[tuple[str, ...]] = ()
    takes_lines: ClassVar[bool] = False
    stores_rows: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ()
    stores: ClassVar[str] = ""
    cannot_store: ClassVar[str] = ""
    losses: ClassVar[tuple[str, ...]] = ()
    read_options: ClassVar[type] = NoOptions
    write_options: ClassVar[type] = NoOptions

    def __repr__(self) -> str:
        return f"<tokfmt format {self.name}: {self.title}>"

    # The files of a dataset

    @abstractmethod
    def sniff(self, probe: Probe) -> Confidence | None:
        """Return how certain it is that the probe is of this format; None if it is not. Never raises.

        Judge the content first: a name alone is weak evidence.
        """

    def files(self, path: Place) -> Sequence[Place]:
        """Return every existing file of the dataset at `path`, in natural order: data, metadata and indexes.

        Of a directory, return only files that belong to the dataset: tokfmt never replaces or removes other files. The
        default is the file itself, or all files of the directory.

        Raises:
            FormatError: If a directory cannot be listed.
        """
        return everything_in(path) if path.is_dir() else [path]

    def named(self, path: Place) -> Sequence[Place]:
        """Return the files and directories of other datasets that a file names, such as a list; never raises."""
        return ()

    def canonical(self, path: AnyPlace) -> AnyPlace:
        """Return the canonical path of a dataset that has several: `x.bin` for `x.bin`, `x.idx` and the prefix `x`."""
        return path

    def destination(self, path: AnyPlace, options: Any) -> AnyPlace:
        """Return the canonical path of a destination. The options may decide whether it is a file or a directory.

        Raises:
            OptionError: If the options need another kind of name, or the format is read-only.
        """
        if self.read_only:
            raise OptionError(f"{path}: {self.name} is read, not written. Name a destination of another format")
        return self.canonical(path)

    def companions(self, path: Place) -> Sequence[Place]:
        """Return the other files of the dataset at the canonical path, such as the index."""
        return ()

    # Readers and writers

    @abstractmethod
    def inspect(self, paths: Sequence[Place], options: Any, hints: Hints) -> Inspection:
        """Examine a dataset, with no more reads than opening takes. Unless `joins_files`, there is one path.

        Damaged content does not raise: it is a problem of the inspection. If nothing can be read, the inspection is
        `Unreadable`.

        Args:
            paths: The paths of one dataset, in order.
            options: The parsed read options.
            hints: Facts and wishes of the command.
        """

    def open(self, paths: Sequence[Place], options: Any, hints: Hints) -> TokenReader | RecordReader:
        """Return a reader of the stored axis, or of text records; raise FormatError if it is not valid."""
        return self.inspect(paths, options, hints).open(hints.allow_loss)

    def glimpse(self, paths: Sequence[Place], options: Any, hints: Hints) -> TokenReader | None:
        """Return all tokens as one stream after a read of the header alone; None if that is not possible.

        The browser shows these tokens while a long index is read. Never raises for damaged content: `open` reports it.
        """
        return None

    def writer_traits(self, options: Any) -> WriterTraits:
        """Return the properties of what a writer with these options stores."""
        return WriterTraits()

    def writer(self, path: Path, options: Any, target: Target) -> TokenWriter:
        """Return a writer of `path`, which does not exist yet.

        Args:
            path: The destination.
            options: The parsed write options.
            target: Facts and wishes of the command.

        Raises:
            OptionError: If the format is read-only; or stores labels shifted by one, and those of rows are not.
        """
        self.destination(path, options)  # Raises OptionError if the format is read-only.
        raise TypeError(f"the format {self.name} defines no writer, and does not state that it is read_only")

    def row_traits(self, options: Any, seq_len: int) -> WriterTraits:
        """Return the same as `writer_traits`, for the writer of rows of `seq_len` tokens; see `SampleRows`."""
        return replace(self.writer_traits(options), sample_length=seq_len)

    # Checks, repairs and the parts of files

    def audit(self, path: Place, options: Any, how: Audit = Audit()) -> Iterator[Finding]:  # noqa: B008 - frozen
        """Yield every finding, in bounded memory. Never raises for damaged content.

        Reads headers, indexes and sizes. If `how.deep`, it reads all tokens as well.

        Args:
            path: The dataset.
            options: The parsed read options.
            how: The depth of the audit, the separator, and a map for parallel work.
        """
        inspection = self.inspect([path], options, Hints(how.eos_id))
        try:
            yield from inspection.findings(how)
        finally:
            inspection.close()

    def codes(self) -> Mapping[str, Code]:
        """Return every code that a finding may have, with its explanation for `check --explain`.

        By default, these are in a TOML file beside the module of the format: megatron.toml beside megatron.py.
        """
        return next(filter(None, (codes_beside(kind.__module__) for kind in type(self).__mro__)), {})

    def repairs(self) -> Mapping[str, Repair]:
        """Return the repair for each code that has one: its options, with which the dataset is read, or its patch.

        `docs/inspect.md` has a table of the repairs of all formats of tokfmt.
        """
        return {}

    def repaired_with(self, path: Place, options: Any) -> Mapping[str, object]:
        """Return write options that keep the token IDs of a repaired dataset as they are stored."""
        return {}

    def sections(self, path: Place, options: Any) -> Sequence[Section] | None:
        """Return the parts of the files in order, for `show --raw` and the browser; None if the format defines none.

        It returns at once: a long part is decoded when its fields are read. Never raises for damaged content: a part
        that cannot be read has one field with `wrong`, which describes the damage.
        """
        return self.inspect([path], options, Hints()).sections()


def unrelated_files(format_: Format, path: Place) -> list[Place]:
    """Return the files at any depth of the directory `path` that do not belong to the dataset, in natural order.

    Empty directories and links to directories count as files. If `path` is a file, the result is empty.
    """
    if not path.is_dir():
        return []
    own = set(format_.files(path))
    return [entry for entry in everything_in(path) if entry not in own]


def empty_sequences(source: TokenReader) -> tuple[int, int]:
    """Return the number of empty sequences, and the number of the first (-1 without one). Reads only offsets."""
    count, first = 0, -1
    for a, b in windows(0, source.info.sequences):
        empty = np.flatnonzero(np.diff(source.offsets(a, b)) == 0)
        if len(empty):
            first = first if count else a + int(empty[0])
            count += len(empty)
    return count, first


def lost_empties(source: TokenReader, allow_loss: frozenset[str] = frozenset()) -> list[Loss]:  # noqa: ARG001
    """Implement `WriterTraits.lost` for a format that cannot store empty sequences."""
    count, first = empty_sequences(source)
    if not count:
        return []
    return [Loss("empty-sequences", f"{counted(count, 'empty sequence')} (first: sequence {first:,})")]
