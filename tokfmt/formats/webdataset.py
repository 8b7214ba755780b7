"""WebDataset: tar archives whose samples hold token IDs, as OpenLM and DCLM train on, and a manifest.

    file                      content
    FOLDER/manifest.jsonl     one {"shard": NAME, "num_sequences": samples} per line, in the order of training; older
                              ones have num_chunks
    FOLDER/NAME.tar           members KEY.EXT, where KEY ends at the first dot after the last slash
    member of a tar           header of 512 bytes (ustar, GNU or PAX), the content, zeros to a multiple of 512
    end of a tar              two blocks of zeros, perhaps more
    KEY.json.gz, KEY.json     a JSON list of IDs, or {"input_ids": [IDs]} without another key
    KEY.txt                   a Python list of IDs, with the string '<|endoftext|>' for the ID 0
    KEY.npy, KEY.X.npy        a one-dimensional array of integers; NumPy's header states its dtype

- Without a manifest, a folder is all its .tar in natural order, and one .tar is a dataset, too.
- OpenLM packs documents into rows of seq_len + 1 IDs, each followed by 0 whatever the tokenizer, and fills the last row
  of a file. Rows are shuffled, so documents that cross rows cannot be put together again. A row is a sequence.
- Neighbors with one KEY and one EXT are several samples: OpenLM names a row by its hash, and equal rows occur.
- DCLM's tokshuf ends the manifest without a newline, and OpenLM then leaves out the last shard.
- Pickles (.pyd, .pkl, .pth, and arrays of objects) are refused. Names are data: no file is ever extracted.
Source: mlfoundations/open_lm 9bb92ef and dclm 361714b, webdataset 1.0.2, run; the Rust writer of dclm read.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.options import option
from tokfmt.core.findings import Audit, Finding
from tokfmt.core.format import Confidence, Hints, Probe
from tokfmt.core.reader import TokenReader
from tokfmt.errors import CorruptError, FormatError, TruncatedError, UnsafeError, UnsupportedError
from tokfmt.files.file import Stream, names_in, natural_key, open_file
from tokfmt.files.place import Place
from tokfmt.formats.folders import ids_in, inside, parsed_object, whole_number
from tokfmt.formats.npy import MAGIC, header_of
from tokfmt.formats.record_files import RecordFiles, RecordFilesFormat, RecordFilesInspection, RecordFilesWriter
from tokfmt.wording import counted, printable

MANIFEST = "manifest.jsonl"
_SHARD = re.compile(r"(?![._]).+\.tar(\.gz)?")
_KINDS = ("json.gz", "json", "input_ids.npy", "tokens.npy", "npy", "txt")
"""Endings of the members that hold IDs, the first that a sample has is read."""

_KEY = "input_ids"
_PICKLES = frozenset({"pyd", "pkl", "pickle", "pth", "pt"})
_BLOCK, _BUFFER = 512, 1 << 20
_NAMES, _MEMBER, _LINES = 1 << 16, 1 << 28, 1 << 26  # bytes of a long name, a member, a manifest, at most
_REGULAR, _FOLDER, _NAMING = "0\0" + "7", "5", "LKxg"  # types of members; the last are of the member that follows
_MOST_LENGTHS = 1 << 12  # lengths of rows that are told apart
_END_OF_TEXT = re.compile(r"'<\|endoftext\|>'")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading samples."""

    member: str | None = option(None, "ending of the members that hold IDs, such as json.gz; auto: by the first sample")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options for writing samples."""

    shard_size: int = option(1 << 24, "tokens per shard; samples stay complete", minimum=1)


class Member(NamedTuple):
    """A regular file in an archive."""

    path: Place  # the archive, and the name of the member, for messages
    key: str  # the key of its sample
    kind: str  # the ending, without its first dot, in lower case
    content: bytes  # its bytes

    @property
    def size(self) -> int:
        return len(self.content)

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly `length` bytes of the content; see `npy.Bytes`."""
        if offset + length > len(self.content):
            raise CorruptError(self.path, "ends too early", offset=len(self.content), remedy="Write it again")
        return self.content[offset : offset + length]


def members(path: Place) -> Iterator[Member]:
    """Yield the regular files of a tar archive in order, each read whole.

    Raises:
        TruncatedError: The archive ends too early. All members before are complete.
        UnsafeError: A name leaves the archive, a member is a link or a device, or a size would exhaust memory.
        CorruptError: A header does not fit its checksum.
    """
    with closing(open_file(path)) as file, io.BufferedReader(Stream(file), _BUFFER) as plain:  # frees its buffer
        stream: Any = plain
        if path.name.endswith(".gz") or file.read(0, min(file.size, 2)) == b"\x1f\x8b":
            stream = gzip.GzipFile(fileobj=stream)
        at, name = 0, ""
        while True:
            header = _next(stream, _BLOCK, path, at)
            if not any(header):
                if any(_next(stream, _BLOCK, path, at + _BLOCK)):
                    raise CorruptError(path, "has a header after a block of zeros", offset=at + _BLOCK)
                return
            kind, size = _checked(path, header, at)
            if size > (_NAMES if kind in _NAMING else _MEMBER):
                raise UnsafeError(path, "states a member that is too large", offset=at, found=f"{size:,} bytes")
            content = _next(stream, size, path, at + _BLOCK)
            _next(stream, -size % _BLOCK, path, at + _BLOCK + size)
            at += _BLOCK + size + -size % _BLOCK
            if kind in _NAMING:
                name = _long_name(path, kind, content, at) or name
                continue
            if kind in _REGULAR:
                yield _member(path, name or _plain_name(header), content)
            elif kind in "1234 6":
                what = f"holds {printable(name or _plain_name(header))}, which is a link or a device"
                raise UnsafeError(path, what, remedy="Do not unpack it, unless you made it yourself")
            elif kind != _FOLDER:
                raise UnsupportedError(path, "has a member of another type", found=printable(kind))
            name = ""


def _is_end(probe: Probe) -> bool:
    """Return whether an archive is only the end that tar writes, of two blocks, or of the twenty of its record."""
    return probe.size in {2 * _BLOCK, 20 * _BLOCK} and not any(probe.head) and not any(probe.tail)


def _next(stream: Any, size: int, path: Place, at: int) -> bytes:
    """Return the next `size` bytes of an archive, from byte `at` of its decompressed content."""
    try:
        found: bytes = stream.read(size)
    except EOFError as error:
        raise TruncatedError(path, "its gzip data end too early", remedy="Copy it again") from error
    except (OSError, zlib.error) as error:
        raise CorruptError(path, "is damaged: gzip cannot decode it", remedy="Copy it again") from error
    if len(found) < size:
        what = "the archive ends before its two blocks of zeros" if size == _BLOCK else "ends inside a member"
        raise TruncatedError(path, what, offset=at + len(found), remedy="Copy it again")
    return found


def _checked(path: Place, header: bytes, at: int) -> tuple[str, int]:
    """Return the type and the size of a member, from a header that fits its checksum."""
    try:
        stated = int(header[148:156].strip(b" \0") or b"0", 8)
        big = header[124] & 0x80
        size = int.from_bytes(header[125:136], "big") if big else int(header[124:136].strip(b" \0") or b"0", 8)
    except ValueError as error:
        raise CorruptError(path, "is not a tar archive here", offset=at, remedy="Copy it again") from error
    summed = sum(header) - sum(header[148:156]) + 8 * ord(" ")
    if summed != stated:
        raise CorruptError(path, "checksum of a header", offset=at + 148, expected=summed, found=stated)
    return chr(header[156]), size


def _plain_name(header: bytes) -> str:
    """Return the name in a header; ustar has a prefix in front of it."""
    name = header[:100].split(b"\0")[0].decode("utf-8", "replace")
    prefix = header[345:500].split(b"\0")[0].decode("utf-8", "replace") if header[257:263] == b"ustar\0" else ""
    return f"{prefix}/{name}" if prefix else name


def _long_name(path: Place, kind: str, content: bytes, at: int) -> str:
    """Return the name that a GNU or a PAX header states for the next member; "" without one."""
    if kind != "x":
        return content.rstrip(b"\0").decode("utf-8", "replace") if kind == "L" else ""
    name = ""
    while content:
        length, _, _ = content.partition(b" ")
        end = int(length) if length.isdigit() else 0
        key, _, value = content[len(length) + 1 : max(0, end - 1)].partition(b"=")
        if not 0 < end <= len(content) or not key:
            raise CorruptError(path, "has a damaged PAX header", offset=at, remedy="Copy it again")
        if key == b"size":
            raise UnsupportedError(path, "has a member whose size is in a PAX header", offset=at)
        name, content = value.decode("utf-8", "replace") if key == b"path" else name, content[end:]
    return name


def _member(path: Place, name: str, content: bytes) -> Member:
    if name.startswith("/") or ".." in name.split("/") or "\\" in name or "\0" in name:
        what = f"holds a member whose name leaves the archive, {printable(name)[:200]}"
        raise UnsafeError(path, what, remedy="Do not unpack it, unless you made it yourself")
    folder, slash, base = name.removeprefix("./").rpartition("/")
    key, _, kind = base.partition(".")
    if kind.lower().rpartition(".")[2] in _PICKLES:
        what = f"holds {printable(name)}, a pickle, which can run code when it is loaded"
        raise UnsafeError(path, what, remedy="Write IDs as .json or .npy")
    return Member(path / printable(name.replace("/", " ")), f"{folder}{slash}{key}", kind.lower(), content)


def samples(path: Place) -> Iterator[Mapping[str, Member]]:
    """Yield the members of each sample of an archive, by their endings."""
    held, key = dict[str, Member](), ""
    for member in members(path):
        if held and (member.key != key or member.kind in held):
            yield held
            held = {}
        held[member.kind], key = member, member.key
    if held:
        yield held


def ids_of(member: Member) -> NDArray[np.integer[Any]]:
    """Return the token IDs that a member holds."""
    if member.kind.endswith("npy"):
        header = header_of(member)
        count = header.shape[0]
        if len(header.shape) > 1 or member.size != header.begin + count * header.dtype.itemsize:
            raise CorruptError(member.path, "is not one array of one dimension", found=f"shape {header.shape}")
        return ids_in(member.path, np.frombuffer(member.content, header.dtype, count, header.begin))
    content = member.content
    if member.kind.endswith("gz"):
        content = _inflated(member)
    text = content.decode("utf-8", "replace").strip()
    if member.kind == "txt":  # A literal of Python, of which no more than this is understood.
        text = _END_OF_TEXT.sub("0", text)
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptError(member.path, "is not a list of IDs", found=printable(text[:40])) from error
    if isinstance(values, dict) and values.keys() == {_KEY}:
        values = values[_KEY]
    if not isinstance(values, list):
        raise CorruptError(member.path, "is not a list of IDs", found=printable(text[:40]))
    return ids_in(member.path, values)


def _inflated(member: Member) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    try:
        content = stream.decompress(member.content, _MEMBER)
    except zlib.error as error:
        raise CorruptError(member.path, "is damaged: gzip cannot decode it", remedy="Write it again") from error
    if stream.unconsumed_tail:
        raise UnsafeError(member.path, "inflates to more than a sample can have", expected=f"at most {_MEMBER:,} bytes")
    if not stream.eof or stream.unused_data:
        raise CorruptError(member.path, "is not one whole stream of gzip", remedy="Write it again")
    return content


def _is_list(member: Member) -> bool:
    """Return whether a member is an array, or begins like a list of IDs, whatever else is in it."""
    if member.kind.endswith("npy"):
        return member.content.startswith(MAGIC)
    content = _inflated(member) if member.kind.endswith("gz") else member.content
    return re.match(rb"\s*(\{\s*\"input_ids\"\s*:\s*)?\[\s*(\d|\]|'<)", content) is not None


class Reader(RecordFiles):
    """A reader of archives."""

    def __init__(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> None:
        """List the shards, and look at the first sample."""
        path, counts, notes = paths[0], None, list[str]()
        self.folder = path if path.is_dir() and (path / MANIFEST).is_file() else None
        if self.folder is not None:
            files, counts, notes = _manifest(path)
        elif path.is_dir():
            files = sorted((path / name for name in names_in(path) if _SHARD.fullmatch(name)), key=_order)
        else:
            files = [path]
        if not files and counts is None:
            raise FormatError(path, "holds no archive", expected="NAME.tar")
        first = next((sample for file in files for sample in samples(file)), {})
        self.kind = options.member or next((kind for kind in _KINDS if kind in first), "")
        if first and self.kind not in first:
            expected, found = self.kind or ", ".join(_KINDS), ", ".join(map(printable, first))
            remedy = "--from-opt member=ENDING names the members that hold IDs"
            raise UnsupportedError(files[0], "has no member of IDs", expected=expected, found=found, remedy=remedy)
        if others := [printable(kind) for kind in first if kind != self.kind]:
            notes.append(f"other members of samples are not read: {', '.join(others)}")
        super().__init__(
            "ids", files, hints, counts=counts, field=self.kind, notes=tuple(notes), extras={"shards": len(files)}
        )

    def records(self, path: Place) -> Iterator[NDArray[np.integer[Any]]]:
        for sample in samples(path):
            member = sample.get(self.kind) or (sample.get(next(iter(sample))) if not self.kind else None)
            if member is None:
                one = next(iter(sample.values()))
                raise CorruptError(one.path, f"is of a sample without a member .{self.kind}")
            yield ids_of(member)


def _order(path: Place) -> tuple[object, ...]:
    return natural_key(path.name)


def _manifest(folder: Place) -> tuple[list[Place], list[int], list[str]]:
    """Return the shards that a manifest lists, the number of samples of each, and notes on the manifest."""
    path, notes = folder / MANIFEST, list[str]()
    with closing(open_file(path)) as file:
        if file.size > _LINES:
            raise UnsafeError(path, "is too large for a manifest", expected=f"at most {_LINES:,}", found=file.size)
        raw = file.read(0, file.size)
    files, counts = list[Place](), list[int]()
    for line in filter(None, map(bytes.strip, raw.split(b"\n"))):
        stated = parsed_object(path, line)
        count = stated.get("num_sequences", stated.get("num_chunks"))
        name = stated.get("shard")
        files.append(inside(folder, f"{name}.tar" if isinstance(name, str) else name))
        counts.append(whole_number(path, "num_sequences", count))
    for shard in files:
        if not shard.is_file():
            raise CorruptError(shard, f"is missing: {MANIFEST} lists it", remedy="Copy it again")
    if raw and not raw.endswith(b"\n"):
        notes.append(f"{MANIFEST} ends without a newline: OpenLM then leaves out its last shard; here it is read")
    listed = {file.name for file in files}
    if len(listed) < len(files):
        notes.append(f"{MANIFEST} lists a shard more than once: it is read as often")
    if spare := [name for name in names_in(folder) if _SHARD.fullmatch(name) and name not in listed]:
        notes.append(f"{counted(len(spare), 'shard')} not in {MANIFEST}, and not read: {printable(spare[0])}")
    return files, counts, notes


class Writer(RecordFilesWriter):
    """A writer of archives with the headers of DCLM's tokshuf, and of the manifest."""

    def name(self, number: int) -> str:
        return f"shard_{number:08d}.tar"

    def write_file(self, out: IO[bytes], sequences: Iterator[NDArray[np.integer[Any]]]) -> None:
        for number, ids in enumerate(sequences):
            packed = zlib.compressobj(6, wbits=31)
            content = packed.compress(json.dumps(ids.tolist(), separators=(",", ":")).encode()) + packed.flush()
            out.write(_header(f"{number:08d}.json.gz", len(content)))
            out.write(content + bytes(-len(content) % _BLOCK))
        out.write(bytes(2 * _BLOCK))

    def indexes(self, counts: Sequence[tuple[int, int]]) -> Mapping[str, bytes]:
        lines = [
            json.dumps({"shard": self.name(number).removesuffix(".tar"), "num_sequences": count})
            for number, (count, _) in enumerate(counts)
        ]
        return {MANIFEST: "".join(f"{line}\n" for line in lines).encode()}

    def notes(self, source: TokenReader) -> Iterator[str]:  # noqa: ARG002 - of any source
        """See `TokenWriter.notes`. OpenLM takes only rows that are longer than its sequences."""
        if self.target.rows is None:
            left_out = "OpenLM leaves out those of at most its seq_len tokens"
            yield f"each sequence is a sample: {left_out}; a recipe makes rows"


def _header(name: str, size: int) -> bytes:
    """Return the header of a member, as the Rust crate tar writes it for tokshuf."""
    header = bytearray(_BLOCK)
    header[: len(name)] = name.encode()
    header[100:108], header[124:136] = b"0000644\0", f"{size:011o}\0".encode()
    header[136:148], header[257:265] = b"00000000000\0", b"ustar  \0"
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):07o}\0".encode()
    return bytes(header)


class WebDatasetInspection(RecordFilesInspection):
    """The inspection of archives. Of those with a manifest, it compares the lengths of rows."""

    def look(self, how: Audit) -> Iterator[Finding]:
        self.lengths = dict[int, int]()
        yield from super().look(how)
        if len(self.lengths) > 1 and self._reader.folder is not None:  # type: ignore[attr-defined] # `Reader`
            usual = max(self.lengths, key=self.lengths.__getitem__)
            other = sum(self.lengths.values()) - self.lengths[usual]
            what = f"lists {counted(other, 'sample')} of another length than {usual:,} tokens"
            place = self._reader.folder / MANIFEST  # type: ignore[attr-defined]
            error = CorruptError(place, what, remedy="Write rows of one length")
            yield Finding.of("TF823", error, "warning")

    def see(self, lengths: NDArray[np.int64]) -> None:
        for length, count in zip(*(found.tolist() for found in np.unique(lengths, return_counts=True)), strict=True):
            if len(self.lengths) < _MOST_LENGTHS or length in self.lengths:
                self.lengths[length] = self.lengths.get(length, 0) + count


class WebDataset(RecordFilesFormat):
    """The format of archives of token IDs."""

    name = "webdataset"
    title = "WebDataset archives of OpenLM and DCLM: tar of rows"
    stores_rows = True
    stores = "sequences in order, empty ones too; samples of a recipe; IDs up to 2^32-1"
    cannot_store = "loss masks"
    read_options, write_options = ReadOptions, WriteOptions
    Reader, Writer = Reader, Writer
    entries = (MANIFEST,)
    unreadable, damaged, unsafe = "TF821", "TF822", "TF824"
    inspection = WebDatasetInspection

    def sniff(self, probe: Probe) -> Confidence | None:
        if MANIFEST in probe.entries:
            listed = probe.entry(MANIFEST)
            head = b"" if listed is None else listed.head
            stated = b'"shard"' in head and (b'"num_sequences"' in head or b'"num_chunks"' in head)
            return Confidence.CERTAIN if stated or (listed is not None and not listed.size) else None
        inside_ = (probe.entry(name) for name in probe.entries if _SHARD.fullmatch(name))
        one = next(filter(None, inside_), None) if probe.is_directory else probe
        if one is None or not (one.head[257:262] == b"ustar" or one.path.name.endswith(".tar.gz") or _is_end(one)):
            return None
        if not probe.is_directory and (probe.path.parent / MANIFEST).is_file():
            return None  # The folder is the dataset.
        with suppress(FormatError):
            first = next(samples(one.path), {})
            kind = next((kind for kind in _KINDS if kind in first), None)
            # A writer that got no sample closes an empty archive.
            return Confidence.STRUCTURE if not first or (kind is not None and _is_list(first[kind])) else None
        return None

    def files(self, path: Place) -> Sequence[Place]:
        if not path.is_dir():
            return [path]
        own = {path / name for name in names_in(path) if name == MANIFEST or _SHARD.fullmatch(name)}
        if path / MANIFEST in own:
            with suppress(FormatError):  # `inspect` reports what is wrong with it.
                own.update(_manifest(path)[0])
        return sorted(own, key=_order)


FORMAT = WebDataset()
