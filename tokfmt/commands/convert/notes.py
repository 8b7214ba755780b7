"""Report the progress of a conversion, and keep the notes that belong to its result."""

from __future__ import annotations

from collections.abc import Mapping

from tokfmt.run.progress import Progress
from tokfmt.wording import printable


class Notes(Progress):
    """The progress of one conversion, which keeps the notes of its result.

    Attributes:
        kept: The notes of the result, in order.
    """

    def __init__(self, progress: Progress, piped: Mapping[str, str]) -> None:
        """Report to `progress`; `piped` maps copies in scratch to the names that the user gave."""
        self.kept = list[str]()
        self._progress, self._piped, self._before = progress, piped, frozenset[str]()

    def phase(self, name: str, total: int, unit: str) -> None:
        self._progress.phase(name, total, unit)

    def advance(self, amount: int) -> None:
        self._progress.advance(amount)

    def note(self, text: str) -> None:
        """Report a note that depends on interruptions of the run, without keeping it for the result."""
        self._progress.note(self._readable(text))

    def add(self, text: str) -> None:
        """Report a note, and keep it for the result."""
        self.kept.append(self._readable(text))
        if self.kept[-1] not in self._before:
            self.note(text)

    def fresh(self) -> Notes:
        """Return the same without the notes so far."""
        return Notes(self._progress, self._piped)

    def begin_again(self, why: str) -> None:
        """Report why the run begins again, and keep no note so far. No note is reported twice."""
        self.note(why)
        self._before |= {*self.kept}
        self.kept.clear()

    def _readable(self, text: str) -> str:
        return self.named(printable(text))

    def named(self, text: str) -> str:
        """Replace the paths of copies in scratch by the names that the user gave."""
        for copy, name in self._piped.items():
            text = text.replace(copy, name)
        return text
