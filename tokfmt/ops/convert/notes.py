"""Report notes while a conversion runs, and keep those that belong to its result."""

from __future__ import annotations

from collections.abc import Mapping

from tokfmt.core.text_format import printable
from tokfmt.run.execute import Progress


class Notes:
    """The notes of one conversion.

    Attributes:
        progress: Shows notes and counts to the user.
        kept: The notes of the result, in order.
    """

    def __init__(self, progress: Progress, piped: Mapping[str, str]) -> None:
        """Report to `progress`; `piped` maps copies in scratch to the names that the user gave."""
        self.progress, self.kept = progress, list[str]()
        self._piped, self._before = piped, frozenset[str]()

    def add(self, text: str) -> None:
        """Report a note, and keep it for the result."""
        self.kept.append(self._readable(text))
        if self.kept[-1] not in self._before:
            self.report(text)

    def begin_again(self, why: str) -> None:
        """Report why the run begins again, and keep no note so far. No note is reported twice."""
        self.report(why)
        self._before |= {*self.kept}
        self.kept.clear()

    def report(self, text: str) -> None:
        """Report a note that depends on interruptions of the run, without keeping it for the result."""
        self.progress.note(self._readable(text))

    def _readable(self, text: str) -> str:
        return self.named(printable(text))

    def named(self, text: str) -> str:
        """Replace the paths of copies in scratch by the names that the user gave."""
        for copy, name in self._piped.items():
            text = text.replace(copy, name)
        return text
