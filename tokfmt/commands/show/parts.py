"""Show the parts of a dataset's files and their bytes (`tokfmt show --raw`), also if the files are damaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tokfmt import registry
from tokfmt.base.options import given_options
from tokfmt.core.annotation import Listed, Part, shown
from tokfmt.core.format import Probe, probe_of
from tokfmt.errors import DetectionError, FormatError, UnsafeError
from tokfmt.files.fields import Field, Section
from tokfmt.files.file import File, open_file
from tokfmt.files.place import Place, PlaceLike, place_of
from tokfmt.source.discover import dataset_at, format_of
from tokfmt.source.manifest import found_as_written
from tokfmt.source.request import Options, SourceRequest, read_options

ROW = 16
"""Bytes in a row of a hex view."""

_MOST_ROWS = 1 << 12
_MOST_OPEN = 64


@dataclass(frozen=True, slots=True)
class HexRow:
    """One row of a hex view: at most 16 bytes from a byte offset on."""

    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class PrintedField:
    """A field of a part of a file, as --json prints it.

    Attributes:
        offset: The byte offset; None if the field is not at one place.
        length: The length in bytes.
        bytes: The first bytes in hexadecimal.
        value: The value as text.
        meaning: The meaning in a few words.
        wrong: True if the value breaks a rule of the format.
    """

    name: str
    path: str
    offset: int | None
    length: int
    bytes: str
    value: str
    meaning: str
    wrong: bool


@dataclass(frozen=True, slots=True)
class PrintedSection:
    """A part of a file, as --json prints it.

    Attributes:
        count: The number of fields.
        fields: The first fields, up to --limit.
    """

    title: str
    path: str
    count: int
    fields: list[PrintedField]


@dataclass(frozen=True, slots=True)
class PrintedRaw:
    """The parts of the files of a dataset, as --json prints them.

    Attributes:
        format: The format; None if none was detected.
        notes: What tokfmt inferred, and defects that change no token, one sentence each.
        sections: The parts of the files.
    """

    path: str
    format: str | None
    notes: tuple[str, ...]
    sections: list[PrintedSection]


@dataclass(slots=True)
class Raw:
    """The files of a dataset."""

    path: Place
    format: str | None  # None if no format was detected
    notes: tuple[str, ...]  # sentences on what tokfmt inferred, and on defects
    sections: Sequence[Section]
    _files: dict[Place, File] = field(default_factory=dict, repr=False)

    def bytes_of(self, section: Section, field: Field, limit: int) -> bytes:
        """Return the first `limit` bytes of a field; none if it has no place or cannot be read."""
        if field.offset is None or not field.length:
            return b""
        try:
            file = self._file(field.path or section.path)
            return file.read(field.offset, max(0, min(limit, field.length, file.size - field.offset)))
        except FormatError:
            return b""

    def printed(self, fields: int, limit: int) -> PrintedRaw:
        """Return what --json prints: the first fields of each section, with their first bytes."""
        sections = [
            PrintedSection(
                section.title,
                str(section.path),
                section.count,
                [
                    PrintedField(
                        field.name,
                        str(field.path or section.path),
                        field.offset,
                        field.length,
                        self.bytes_of(section, field, limit).hex(),
                        field.value,
                        field.meaning,
                        field.wrong,
                    )
                    for field in section.fields(0, min(fields, section.count))
                ],
            )
            for section in self.sections
        ]
        return PrintedRaw(str(self.path), self.format, self.notes, sections)

    def hex_rows(self, path: Place, offset: int, count: int) -> list[HexRow]:
        """Return up to 4,096 rows of 16 bytes of a file, from the row that holds byte `offset` on."""
        file = self._file(path)
        start = max(0, offset) // ROW * ROW
        size = max(0, min(min(count, _MOST_ROWS) * ROW, file.size - start))
        data = file.read(start, size) if size else b""
        return [HexRow(start + at, data[at : at + ROW]) for at in range(0, size, ROW)]

    def size_of(self, path: Place) -> int:
        """Return the size of a file of the dataset in bytes."""
        return self._file(path).size

    def _file(self, path: Place) -> File:
        if path not in self._files:
            if len(self._files) == _MOST_OPEN:
                self._files.pop(next(iter(self._files))).close()
            self._files[path] = _inside(path, self.path)
        return self._files[path]


def sections(path: PlaceLike, *, format: str | None = None, options: Options = ()) -> Raw:  # noqa: A002
    """Return the parts of a dataset's files; without a format, the size, the first and the last bytes."""
    place = registry.of_prefix(place_of(path))
    probe = probe_of(place)
    try:
        chosen = format_of(place, format)
    except DetectionError as error:
        return Raw(place, None, (str(error),), [_facts(probe)])
    asked = SourceRequest((place,), options=given_options(options))
    request, notes = found_as_written(dataset_at(place, asked, chosen), asked)
    parsed = read_options(chosen, request)
    sections = chosen.sections(place, parsed)
    if sections is None:
        return Raw(place, chosen.name, (f"the format {chosen.name} does not name its parts",), [_facts(probe)])
    return Raw(place, chosen.name, notes, sections)


def _facts(probe: Probe) -> Section:
    if probe.is_directory:
        names = [Field(shown(name), None, 0, "") for name in probe.entries]
        return Part("directory", probe.path, lambda: Listed(names))
    some = min(probe.size, ROW)
    fields = [
        Field("size", None, 0, f"{probe.size:,}", "bytes"),
        Field("first bytes", 0, some, shown(probe.head[:some].decode("latin-1"))),
        Field("last bytes", probe.size - some, some, shown(probe.tail[len(probe.tail) - some :].decode("latin-1"))),
    ]
    return Part("file", probe.path, lambda: fields if some else fields[:1])


def _inside(path: Place, dataset: Place) -> File:
    """Open a file of a dataset. It must be the given path itself, or in its directory once links are resolved."""
    if path != dataset:
        home = (dataset if dataset.is_dir() else dataset.parent).real()
        if path.real().relative(home) is None:
            remedy = "Give the path that it points to"
            raise UnsafeError(path, "is a symbolic link that leaves the dataset", remedy=remedy)
    return open_file(path, may_be_page=True)
