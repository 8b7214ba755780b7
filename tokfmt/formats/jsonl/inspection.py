"""The inspection of JSON lines, for their reader, check and sections: their files are opened once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from tokfmt.core.findings import Audit, Finding, Problem, fatal
from tokfmt.core.format import Hints
from tokfmt.core.inspection import Inspection
from tokfmt.core.reader import Damage
from tokfmt.errors import NO_DAMAGE, FormatError, TruncatedError
from tokfmt.files.fields import Section
from tokfmt.files.place import Place
from tokfmt.formats.jsonl.index import RawIndex, code_of, read_certain, read_index
from tokfmt.formats.jsonl.lines import TextFile, names_of
from tokfmt.formats.jsonl.options import ReadOptions
from tokfmt.formats.jsonl.parse import Fault, load
from tokfmt.formats.jsonl.reader import JsonlReader


class JsonlInspection(Inspection):
    """Files of lines. The index of each is read when the lines are, and the first line shows what records hold."""

    def __init__(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> None:
        self._paths, self._options, self._hints = paths, options, hints
        self._texts, self._damage = list[TextFile](), list[Damage]()

    @cached_property
    def problems(self) -> Sequence[Problem]:  # type: ignore[override]
        """Files that cannot be opened. With `Hints.allow_partial`, damaged ones are left out."""
        try:
            for path in files_of(self._paths):
                try:
                    self._texts.append(TextFile(path))
                except FormatError as error:
                    self._leave_out(error)
        except FormatError as error:
            return [fatal(code_of("TF502", error), error)]
        return []

    def _leave_out(self, error: FormatError) -> None:
        """Add the damage of a file."""
        if not self._hints.allow_partial or isinstance(error, NO_DAMAGE):
            raise error
        self._damage.append(Damage(error.sentence))

    def reader(self) -> JsonlReader:
        files, notes = list[tuple[TextFile, RawIndex | None]](), list[str]()
        for text in self._texts:
            try:
                index, noted = self._partly(text) if self._hints.allow_partial else self._wholly(text)
            except FormatError as error:
                self._leave_out(error)
                continue
            notes += noted
            if text.limit != 0:
                files.append((text, index))
        if self._damage and not files:
            what = f"no record of it is certain to be complete: {self._damage[0].what}"
            raise TruncatedError(self._paths[0], what, remedy="Copy it again")
        return JsonlReader(files, self._options, self._hints, notes, self._damage)

    def _wholly(self, text: TextFile) -> tuple[RawIndex | None, Sequence[str]]:
        """Return the index of a file, and notes on it."""
        options = self._options
        index = None if options.index == "none" else read_index(text, trusted=options.index == "trust")
        return index, () if index is None else index.checked(text)

    def _partly(self, text: TextFile) -> tuple[RawIndex | None, Sequence[str]]:
        """Return the same of what is certain of a file, and add the damage of the rest."""
        cut, lost = text.keep_certain(_is_complete, self._options.max_line), None
        index: RawIndex | None = None
        notes: Sequence[str] = ()
        if self._options.index != "none":
            index, notes, lost = read_certain(text, trusted=self._options.index == "trust")
        self._damage += [damage for damage in (cut, lost) if damage is not None]
        return index, notes

    def look(self, how: Audit) -> Iterator[Finding]:
        from tokfmt.formats.jsonl.check import findings  # Only a check needs its codes.

        return iter(()) if self.is_fatal else findings(self._texts, self._options, how)

    def sections(self) -> Sequence[Section]:
        from tokfmt.formats.jsonl.sections import of_error, of_file

        try:
            files = files_of(self._paths)
        except FormatError as error:
            return of_error(self._paths[0], error)
        return [part for file in files for part in of_file(file, self._options)]

    def close(self) -> None:
        for text in self._texts:
            text.file.close()


def _is_complete(line: bytes) -> bool:
    """Return True if a line is a complete JSON object. Such an object is never the beginning of another."""
    return line.lstrip().startswith(b"{") and not isinstance(load(line), Fault)


def files_of(paths: Sequence[Place]) -> list[Place]:
    """Return the given files, and the *.jsonl(.gz, .zst) of the given directories in natural order."""
    return [file for path in paths for file in (_in_directory(path) if path.is_dir() else [path])]


def _in_directory(path: Place) -> list[Place]:
    names = names_of(path)
    if not names:
        raise FormatError(path, "holds no *.jsonl, *.jsonl.gz, *.jsonl.zst or *.json.gz")
    stems: dict[str, str] = {}
    for name in names:
        stem = name.removesuffix(".gz").removesuffix(".zst")
        if stem in stems:
            raise FormatError(
                path,
                f"holds {stems[stem]} and {name}: the same records twice",
                remedy="Remove one of them, or name the files to be read",
            )
        stems[stem] = name
    return [path / name for name in names]
