"""The line beneath list and reader while there is a search: what for, how far, how many hits."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.content import Content
from textual.widgets import Static

from tokfmt.core.errors import printable
from tokfmt.tui.headings import short
from tokfmt.tui.widgets.desked import Desked
from tokfmt.tui.widgets.reader import Reader

if TYPE_CHECKING:
    from tokfmt.tui.finding import Finding

_BAR = 12


class FindBar(Desked, Static):
    """Says what a search has found, and marks its hits in a reader.

    Attributes:
        number: Of the hit that was gone to last, from 0. wrapped: Going there went around an end.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "find--words", "find--hits", "find--quiet", "find--done", "find--todo", "find--failure", "find--wrapped",
    }  # fmt: skip

    def __init__(self) -> None:
        super().__init__(id="findbar")
        self.number, self.wrapped = -1, False
        self._finding: Finding | None = None
        self.display = False

    def say(self, finding: Finding | None) -> None:
        """Tell of a search; nothing when there is none."""
        if finding is not self._finding:
            self.number, self.wrapped = -1, False
        self._finding, self.display = finding, finding is not None
        self.refresh()

    def mark(self, reader: Reader, finding: Finding | None) -> None:
        """Mark the hits among the tokens on the screen."""
        self.generation += 1
        if finding is None or not reader.lines or reader.port is not finding.ground.port:
            reader.hits = []
            reader.refresh()
            return
        row, first, last = reader.row, reader.lines[0].first, reader.lines[-1].last

        def marked(hits: list[range]) -> None:
            if reader.row == row:
                reader.hits = hits
                reader.refresh()

        self.ask(lambda: finding.visible(row, first, last), marked)

    def render(self) -> Content:
        finding = self._finding
        if finding is None:
            return Content("")
        parts = [self._styled(printable(finding.words), "words"), self._hits(finding)]
        if finding.failure:
            parts.append(self._styled(finding.failure, "failure"))
        if finding.running:
            parts.append(self._progress(finding))
        elif finding.cancelled:
            parts.append(self._styled("stopped", "wrapped"))
        if self.wrapped:
            parts.append(self._styled("went around", "wrapped"))
        return Content("   ").join([*parts, self._styled(_keys(finding), "quiet")])

    def _styled(self, text: str, name: str) -> Content:
        return Content.styled(text, self.get_visual_style(f"find--{name}", partial=True))

    def _hits(self, finding: Finding) -> Content:
        kept, row = finding.kept, finding.ground.singular
        name = "hit" if finding.marks else row
        if not kept.hits:
            return self._styled("nothing yet" if finding.running else "nothing found", "quiet")
        count = f"{kept.hits:,}{'…' if finding.running else ''}"
        text = f"{name} {self.number + 1:,} of {count}" if self.number >= 0 else f"{count} {_plural(name, kept.hits)}"
        if finding.marks:
            text += f" in {kept.sequences:,} {_plural(row, kept.sequences)}"
        return self._styled(text + (f" ({short(kept.held)} kept)" if kept.capped else ""), "hits")

    def _progress(self, finding: Finding) -> Content:
        job = finding.job
        done = round(_BAR * (job.share or 0))
        bar = self._styled("━" * done, "done") + self._styled("━" * (_BAR - done), "todo")
        rate = f"{job.share or 0:4.0%} {short(job.done)} {job.unit}, {short(round(finding.rate))}/s"
        return bar + self._styled(f" {rate}", "quiet")


def _plural(name: str, count: int) -> str:
    return name if count == 1 else f"{name}s"


def _keys(finding: Finding) -> str:
    moves = ". next  , previous  " if finding.kept.hits else ""
    return f"{moves}esc {'stops' if finding.running else 'closes'}"


def filter_words(filtered: Finding) -> str:
    """A filter in the first line."""
    kept = filtered.kept
    more = "…" if filtered.running else ""
    rows = filtered.kept.rows_held
    cut = f", the first {short(rows)} listed" if rows < kept.sequences else ""
    failed = " ✗" if filtered.failure else ""
    return f"▼ {printable(filtered.words)}: {short(kept.sequences)}{more}{cut}{failed} · F lists all"
