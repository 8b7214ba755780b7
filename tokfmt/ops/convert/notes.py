"""Report notes while a conversion runs, and keep those that belong to its result."""

from __future__ import annotations

from collections.abc import Mapping

from tokfmt.core.text_format import printable
from tokfmt.run.execute import Progress


class NotesOnce:
    """Progress that shows each note once, although a conversion begins again."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._shown = progress, set[str]()

    def phase(self, name: str, total: int, unit: str) -> None:
        """Pass the phase on."""
        self._progress.phase(name, total, unit)

    def advance(self, amount: int) -> None:
        """Pass the amount on."""
        self._progress.advance(amount)

    def note(self, text: str) -> None:
        """Show a note, unless it was shown before."""
        if text not in self._shown:
            self._shown.add(text)
            self._progress.note(text)


class Notes:
    """The notes of one conversion.

    Attributes:
        progress: Shows notes and counts to the user.
        kept: The notes of the result, in order.
    """

    def __init__(self, progress: Progress, piped: Mapping[str, str]) -> None:
        """Report to `progress`; `piped` maps copies in scratch to the names that the user gave."""
        self.progress, self.kept = progress, list[str]()
        self._piped = piped

    def add(self, text: str) -> None:
        """Report a note, and keep it for the result."""
        self.kept.append(self._readable(text))
        self.report(text)

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
