"""`tokfmt show --raw`: the parts of a dataset's files, named, and any of their bytes; of damaged files as well."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tokfmt import registry
from tokfmt.core.annotation import Listed, Part, shown
from tokfmt.core.errors import DetectionError, UnsafeError
from tokfmt.core.fields import Field, Section
from tokfmt.core.files import File
from tokfmt.core.format import Probe, look
from tokfmt.core.options import given_options
from tokfmt.ops.source.discover import format_of, found_at
from tokfmt.ops.source.manifest import found_as_written
from tokfmt.ops.source.request import Options, SourceRequest, read_options

ROW = 16
"""Bytes in a row of a hex view."""

_MOST_ROWS = 1 << 12
_MOST_OPEN = 64


@dataclass(frozen=True, slots=True)
class HexRow:
    """Some consecutive bytes of a file."""

    offset: int
    data: bytes


@dataclass(slots=True)
class Raw:
    """A dataset as files.

    Attributes:
        path: As given.
        format: Its format's name, None when none was recognised.
        notes: What a person should be told.
        sections: Its parts; see `protocols.Section`.
    """

    path: Path
    format: str | None
    notes: tuple[str, ...]
    sections: Sequence[Section]
    _files: dict[Path, File] = field(default_factory=dict, repr=False)

    def bytes_of(self, section: Section, one: Field, most: int) -> bytes:
        """The first bytes of a field, at most so many; none of a field that is not at one place."""
        if one.offset is None or not one.length:
            return b""
        file = self._file(one.path or section.path)
        return file.read(one.offset, max(0, min(most, one.length, file.size - one.offset)))

    def hex_rows(self, path: Path, offset: int, count: int) -> list[HexRow]:
        """Rows of 16 bytes of one of its files, from the one that holds byte `offset` on; at most 4,096.

        Fewer at the file's end.

        Raises:
            FormatError: It is no regular file, or cannot be read.
            UnsafeError: It lies outside of the dataset.
        """
        file = self._file(path)
        start = max(0, offset) // ROW * ROW
        size = max(0, min(min(count, _MOST_ROWS) * ROW, file.size - start))
        data = file.read(start, size) if size else b""
        return [HexRow(start + at, data[at : at + ROW]) for at in range(0, size, ROW)]

    def size_of(self, path: Path) -> int:
        """Bytes of one of its files.

        Raises:
            FormatError: It is no regular file, or cannot be read.
            UnsafeError: It lies outside of the dataset.
        """
        return self._file(path).size

    def _file(self, path: Path) -> File:
        if path not in self._files:
            if len(self._files) == _MOST_OPEN:
                self._files.pop(next(iter(self._files))).close()
            self._files[path] = _inside(path, self.path)
        return self._files[path]


def sections(path: str | os.PathLike[str], *, format: str | None = None, options: Options = ()) -> Raw:  # noqa: A002
    """The parts of a dataset's files.

    Args:
        path: A file or a directory.
        format: Its format's name; detected from the content when left out. A file that no format recognises has its
            size and first bytes, and nothing more.
        options: The format's own read options.

    Raises:
        FormatError: The path cannot be read at all.
        OptionError: No such format or option.
    """
    path = registry.of_prefix(Path(path))
    probe = look(path)
    try:
        chosen = format_of(path, format)
    except DetectionError as error:
        return Raw(path, None, (str(error),), [_facts(probe)])
    asked = SourceRequest((path,), options=given_options(options))
    request, notes = found_as_written(found_at(path, chosen, asked), asked)
    parsed = read_options(chosen, request)
    sections = chosen.sections(path, parsed)
    if sections is None:
        return Raw(path, chosen.name, (f"the format {chosen.name} does not name its parts",), [_facts(probe)])
    return Raw(path, chosen.name, notes, sections)


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


def _inside(path: Path, dataset: Path) -> File:
    """A file of a dataset: what was named itself, or what lies beside it, or in the directory that was."""
    if path != dataset:
        home = os.path.realpath(dataset if dataset.is_dir() else dataset.parent)
        if os.path.commonpath([os.path.realpath(path), home]) != home:
            raise UnsafeError(path, "is a symbolic link that leaves the dataset", remedy="Look at what it points to")
    return File(path)
