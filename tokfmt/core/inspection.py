"""The base class `Inspection`: what a format found out about a dataset, for its reader, check and parts of files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tokfmt.core.annotation import Part, broken
from tokfmt.core.findings import Audit, Finding, Problem, fatal, raise_fatal
from tokfmt.core.reader import TokenReader
from tokfmt.core.records import RecordReader
from tokfmt.errors import FormatError
from tokfmt.files.fields import Section
from tokfmt.files.place import Place


class Inspection(ABC):
    """The examination of a dataset, which `Format.inspect` returns. What was examined is not examined again.

    A subclass defines `reader`. Every other method has a default.
    """

    problems: Sequence[Problem] = ()  # found so far, in order; a subclass may find them when it is first asked for them

    @abstractmethod
    def reader(self) -> TokenReader | RecordReader:
        """Return the reader of what was examined, called only if each fatal problem is accepted."""

    def look(self, how: Audit) -> Iterator[Finding | Problem]:  # noqa: ARG002 - nothing
        """Yield what only a check finds, in bounded memory. The default looks at nothing.

        It is also called if problems are fatal; `is_fatal` tells. Never raises for damaged content.
        """
        return iter(())

    def sections(self) -> Sequence[Section] | None:
        """Return the parts of the files, as `Format.sections` does."""
        return None

    def close(self) -> None:  # noqa: B027 - no files
        """Close the files of an inspection whose reader is not used."""

    @property
    def is_fatal(self) -> bool:
        """True if a problem prevents reading, accepted or not."""
        return any(problem.is_fatal for problem in self.problems)

    def findings(self, how: Audit) -> Iterator[Finding]:
        """Yield every finding: first the problems, then what `look` finds, but for what is a problem already."""
        known = [problem.finding() for problem in self.problems]
        yield from known
        for found in self.look(how):
            finding = found.finding() if isinstance(found, Problem) else found
            if finding not in known:
                yield finding

    def open(self, accepted: frozenset[str]) -> TokenReader | RecordReader:
        """Return the reader with problems noted and losses accepted; raise what no word of `accepted` accepts."""
        lost = raise_fatal(self.problems, accepted)
        notes = tuple(problem.note for problem in self.problems if problem.note)
        reader: Any = self.reader()
        if lost or notes:
            info = reader.info
            reader.info = replace(info, notes=(*notes, *info.notes), lost=(*lost, *info.lost))
        return reader  # type: ignore[no-any-return]


class Unreadable(Inspection):
    """The inspection of a dataset of which nothing can be read."""

    def __init__(self, code: str, path: Place, error: FormatError) -> None:
        """State why: `code` is the code of the finding, and `error` is raised instead of reading `path`."""
        self.path, self.error, self.problems = path, error, [fatal(code, error)]

    def reader(self) -> TokenReader | RecordReader:
        raise self.error

    def sections(self) -> Sequence[Section]:
        failed = broken(self.error)
        return [Part("file", self.path, lambda: (failed,))]
