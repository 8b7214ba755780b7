"""The inspection of a pack."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from tokfmt.core.annotation import FileLayout, certain
from tokfmt.core.findings import Audit, Finding, Problem, fatal
from tokfmt.core.format import Hints
from tokfmt.core.inspection import Inspection
from tokfmt.errors import CorruptError, FormatError, TruncatedError, UnsafeError
from tokfmt.files.fields import Section
from tokfmt.files.file import File
from tokfmt.formats.flat import FlatReader, widths_contradicted
from tokfmt.formats.modalities.layout import Pack, examine, examine_beginning, examine_partly, problems_of
from tokfmt.formats.modalities.options import ReadOptions

_CODES = {TruncatedError: "TF103", UnsafeError: "TF104", CorruptError: "TF102"}


class PackInspection(Inspection):
    """The inspection of a pack. Nothing is read before it is needed: an index of 10^7 documents takes seconds.

    Attributes:
        file: The pack.
        options: The read options.
    """

    def __init__(self, file: File, options: ReadOptions, hints: Hints) -> None:
        """Hold the file; see `Format.inspect`."""
        self.file, self.options, self._hints = file, options, hints

    @property
    def pack(self) -> Pack:
        """The parts of the pack, from its whole index."""
        if isinstance(self._pack, FormatError):
            raise self._pack
        return self._pack

    @cached_property
    def _pack(self) -> Pack | FormatError:
        try:
            return examine(self.file, self.options)
        except FormatError as error:
            return error

    @cached_property
    def layout(self) -> FileLayout | FormatError:
        """The layout of what is read: of a pack with a long index, only the documents that the caller wants."""
        wanted = self._hints.max_sequences if self._hints.few_sequences else None
        try:
            if self._hints.allow_partial:
                layout = certain(examine_partly(self.file, self.options, self._hints.eos_id))
            else:
                beginning = None if wanted is None else examine_beginning(self.file, self.options, wanted)
                layout = beginning or self.pack.file_layout(list(problems_of(self.pack)))
            options = () if layout.extras["header_bytes"] == 12 else self.options  # Then the header states the width.
            found = widths_contradicted(layout.extents, options, layout.starts)
            return replace(layout, problems=[*layout.problems, *found])
        except FormatError as error:
            return error

    @property
    def problems(self) -> Sequence[Problem]:  # type: ignore[override]
        if isinstance(self.layout, FileLayout):
            return self.layout.problems
        code = _CODES.get(type(self.layout), "TF101")
        return [fatal(code if self.file.size else "TF101", self.layout)]

    def reader(self) -> FlatReader:
        if isinstance(self.layout, FormatError):
            raise self.layout
        return FlatReader(self.layout)

    def look(self, how: Audit) -> Iterator[Finding]:
        """See `Inspection.look`. Documents are compared with each other."""
        from tokfmt.formats.modalities.check import look  # Readers do not need this module.

        if not self.is_fatal and (reader := self.reader()).bounds is not None:
            yield from look(reader, how)

    def sections(self) -> Sequence[Section]:
        from tokfmt.formats.modalities.sections import sections  # Readers do not need this module.

        return sections(self.file, self.options, lambda: self.pack)

    def close(self) -> None:
        self.file.close()
