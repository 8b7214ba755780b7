"""Inspect HDF5 datasets: open their files once, for the reader, the check and the parts of files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from tokfmt.core.findings import Audit, Finding, Problem, fatal
from tokfmt.core.format import Hints
from tokfmt.core.inspection import Inspection, Unreadable
from tokfmt.core.reader import Damage, TokenReader
from tokfmt.errors import CorruptError, FormatError, TruncatedError, UnreachableError, UnsafeError, UnsupportedError
from tokfmt.files.fields import Section
from tokfmt.files.place import Place
from tokfmt.formats.hdf5.files import Params, arrange, files_in, params_beside
from tokfmt.formats.hdf5.options import PARAMS, ReadOptions
from tokfmt.formats.hdf5.partial import open_first
from tokfmt.formats.hdf5.problems import (
    AS_SAMPLES,
    PARTS,
    examples_problem,
    gaps_in_names,
    gaps_in_streams,
    misfit,
    other_type,
    size_problems,
    stated_by,
)
from tokfmt.formats.hdf5.stored import Hdf5File, WriterAttributes, open_hdf5

_FIND = "Find the missing file; --from-opt gaps=accept reads the others, and cuts documents at the gap"
_CODES = {TruncatedError: "TF304", UnsafeError: "TF305", CorruptError: "TF303"}


def inspect(paths: Sequence[Place], options: ReadOptions, hints: Hints) -> Inspection:
    """Inspect a file, a directory, or several files; see `Format.inspect`."""
    try:
        return SamplesInspection(paths, options, hints)
    except FormatError as error:
        return Unreadable("TF301", paths[0], error)


class SamplesInspection(Inspection):
    """The inspection of one file or of several. No file is opened before its headers are needed.

    Attributes:
        place: The path as given, for messages.
        options: The options of reading.
        hints: The hints of the command.
        streams: The files in the order of reading, in runs in which documents may continue in the next file.
        inferred: See `reader.Info`.
    """

    def __init__(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> None:
        """List the files."""
        self.place, self.options, self.hints = paths[0], options, hints
        in_order_given = files_in(paths)
        self.streams = arrange(in_order_given, options.order)
        self.inferred: list[str] = []
        if len(paths) > 1 and self.files != in_order_given:
            self.inferred.append("files are read in the order of their numbers (--from-opt order=given keeps yours)")

    @property
    def files(self) -> list[Place]:
        """The files in the order of reading."""
        return [path for stream in self.streams for path in stream]

    @cached_property
    def params(self) -> Params:
        """The contents of `data_params.json`."""
        return params_beside(self.files)

    @cached_property
    def _opened(self) -> tuple[list[Hdf5File], list[FormatError], list[Damage]]:
        """The files that could be opened, the errors of the others, and what is lost of a stream that was cut."""
        if self.hints.allow_partial and len(self.streams) == 1:
            try:
                opened, damage = open_first(self.files)
            except FormatError as error:
                return [], [error], []
            return opened, [], damage
        opened, errors = [], []
        for path in self.files:
            try:
                opened.append(open_hdf5(path, few=self.hints.few_sequences, opened=self.hints.opened))
            except FormatError as error:
                errors.append(error)
                if isinstance(error, UnreachableError):  # The others would take as long to fail.
                    break
        return opened, errors, []

    @property
    def opened(self) -> list[Hdf5File]:
        """The files that could be opened, in the order of reading."""
        return self._opened[0]

    @property
    def damage(self) -> list[Damage]:
        return self._opened[2]

    @property
    def groups(self) -> list[int]:
        """Number of opened files of each stream."""
        return [len(self.opened)] if len(self.streams) == 1 else [len(stream) for stream in self.streams]

    @cached_property
    def stated(self) -> list[WriterAttributes | CorruptError | None]:
        """What the attributes of each opened file state, or why they are invalid."""
        return [stated_by(stored) for stored in self.opened]

    @cached_property
    def problems(self) -> Sequence[Problem]:  # type: ignore[override]
        return list(self._problems())

    def _problems(self) -> Iterator[Problem]:
        opened, errors, _ = self._opened
        if self.params.note:
            yield self._ignored_params()
        yield from (fatal(_CODES.get(type(error), "TF306"), error) for error in errors)
        for stored, stated in zip(opened, self.stated, strict=True):
            if (problem := misfit(stored, opened[0])) is not None:
                yield problem
            if stored.table.layout.dtype != opened[0].table.layout.dtype:
                yield other_type(stored, opened[0])
            if stored.rank == 3 and (problem := examples_problem(stored)) is not None:
                yield problem
            yield from size_problems(stored)
            if isinstance(stated, CorruptError):
                yield Problem("TF310", "error", stated, is_fatal=self._reads_attributes(stored))
        if not errors and self.place.is_dir() and (gap := self._gap()) is not None:
            yield gap
        for stored in opened:
            if stored.foreign:
                yield self._foreign(stored)

    def _reads_attributes(self, stored: Hdf5File) -> bool:
        """Return whether the attributes of tokfmt decide how the rows of a file are read."""
        documents = stored.rank == 1 or (self.options.view == "documents" and stored.shape[1] == 3)
        return documents and self.options.stride == "auto"

    def _ignored_params(self) -> Problem:
        what = self.params.note.removeprefix(f"{PARAMS} ")
        remedy = "Repair or remove it; without it, separator and padding may be unknown"
        error = CorruptError(self.files[0].parent / PARAMS, what, remedy=remedy)
        return Problem("TF328", "warning", error, note=self.params.note)

    def _foreign(self, stored: Hdf5File) -> Problem:
        is_fatal = self.options.view == "documents" or not all(stored.shape[1:])
        remedy = AS_SAMPLES if all(stored.shape[1:]) else None
        error = UnsupportedError(stored.path, f"holds {stored.foreign}, not GPT samples", remedy=remedy)
        return Problem("TF307", "error", error, is_fatal)

    def _gap(self) -> Problem | None:
        """Return the problem of the first file that is missing in a directory."""
        what = next(gaps_in_streams(self.opened, self.stated), "") or next(gaps_in_names(self.opened), "")
        error, refused = CorruptError(self.place, what, remedy=_FIND), self.options.gaps == "refuse"
        return Problem("TF344", "error" if refused else "warning", error, refused, PARTS) if what else None

    def reader(self) -> TokenReader:
        from tokfmt.formats.hdf5.reader import Opening, reader_of  # A list of the parts does not need this module.

        notes = list[str]()
        if len(kinds := sorted({str(stored.table.layout.dtype) for stored in self.opened})) > 1:
            notes.append(f"files hold IDs of different types ({', '.join(kinds)}); map-style trainers refuse that")
        if not self.place.is_dir() and any(gaps_in_streams(self.opened, self.stated)):
            notes.append(PARTS)
        return reader_of(
            Opening(
                self.place,
                self.opened,
                self.stated,
                self.groups,
                self.options,
                self.hints,
                self.params,
                notes,
                list(self.inferred),
                tuple(self.damage),
            )
        )

    def look(self, how: Audit) -> Iterator[Finding]:
        """See `Inspection.look`. Each file is looked at whatever the problems of the others."""
        from tokfmt.formats.hdf5.check import look  # Readers do not need this module.

        return look(self.place, self.files, self.opened, self.params, how)

    def sections(self) -> Sequence[Section]:
        from tokfmt.formats.hdf5.sections import sections  # Readers do not need this module.

        return sections(self.files)

    def close(self) -> None:
        for stored in self.opened if "_opened" in vars(self) else ():
            stored.table.close()
