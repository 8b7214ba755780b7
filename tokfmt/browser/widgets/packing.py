"""The head of the first tab of a recipe: how full its samples are, and what it takes of each source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.widgets import Static

from tokfmt.browser.colors import tone_of
from tokfmt.browser.data.opening import recipe_of, samples_of
from tokfmt.browser.data.session import Session
from tokfmt.browser.widgets.loading import WithLoader
from tokfmt.wording import bar, columns, percent, printable

if TYPE_CHECKING:
    from tokfmt.browser.data.packing import Packing

_MOST = 8  # lines of sources
_INTERVALS = 4  # of the histogram
_BAR = 12  # cells of a bar of the histogram
_GAP = 4  # cells before the histogram
_USED = "USED "
_FULL = 0.98  # share of positions that hold tokens, from which no bar is drawn
_QUIET = "$quiet"


class PackingHead(WithLoader, Static):
    """Show the packing of a recipe; hidden for another dataset."""

    def __init__(self) -> None:
        super().__init__("", id="packing", markup=False)
        self.packing: Packing | None = None
        self._shown: object = None  # the reader of the recipe
        self._failure = ""
        self.display = False

    def show(self, session: Session) -> None:
        """Show a dataset. The packing of a recipe is found in a worker."""
        reader = session.view.reader
        if reader is self._shown:
            return
        self._shown, self.packing, self._failure = reader, None, ""
        self.loader.forget()
        recipe = recipe_of(reader)
        self.display = recipe is not None
        if recipe is not None:
            lines = min(len(recipe.sources), _MOST) + 1
            self.styles.height = lines if samples_of(recipe) is None else max(lines, _INTERVALS) + 1

            def work() -> Packing | str:
                from tokfmt.browser.data.packing import packing_of

                return packing_of(session)

            self.loader.ask(work, self._found)
            self.refresh()

    @property
    def planned(self) -> dict[str, str]:
        """Return what the recipe asks for of each source, in words."""
        sources = () if self.packing is None else self.packing.sources
        return {source.name: source.asked for source in sources if source.depth == 1 and source.asked}

    def _found(self, found: Packing | str) -> None:
        self.packing, self._failure = (None, found) if isinstance(found, str) else (found, "")
        self.refresh()

    def render(self) -> Content:
        packing, room = self.packing, self.content_size.width
        if packing is None:
            return Content.styled(f"✗ {printable(self._failure)}" if self._failure else "◌ packing", _QUIET)
        beside = _beside(packing)
        wide = max((line.cell_length for line in beside), default=0)
        table = _table(packing, room, self.size.height - bool(packing.pack))
        taken = max((line.cell_length for line in table), default=0)
        if taken + _GAP + wide > room:
            beside, wide = [], 0
        left = room - wide - _GAP if beside else room
        lines = [_used(packing, left), *table] if packing.pack else table
        lines += [Content("")] * (len(beside) - len(lines))
        padded = [line + Content(" " * (left + _GAP - line.cell_length)) for line in lines] if beside else lines
        lines = [line + (beside[k] if k < len(beside) else Content("")) for k, line in enumerate(padded)]
        return Content("\n").join(lines)


def _used(packing: Packing, room: int) -> Content:
    """Return the line of the share of positions that hold tokens, with a remedy if they are few."""
    share, odd = f" {percent(packing.used)}", f" · ▲ {packing.words}" if packing.is_odd else ""
    if packing.used > _FULL:
        return Content.assemble((_USED.strip(), "bold $text-primary"), (f"{share} · b shows a step", _QUIET))
    wide = min(40, max(4, room - len(_USED) - len(share) - len(odd)))
    drawn = bar(packing.used, wide)
    return Content.assemble(
        (_USED, "bold $text-primary"),
        (drawn, "$text-primary"),
        (f"{'·' * (wide - len(drawn))}{share}", _QUIET),
        (odd, "bold $text-warning"),
    )


def _table(packing: Packing, room: int, most: int) -> list[Content]:
    """Return the lines of the sources, with a line of headings first."""
    rows = packing.table(room)
    lines = columns(rows)
    found = [Content.styled(f"  {lines[0]}", f"italic {_QUIET}")]
    for source, line in list(zip(packing.sources, lines[1:], strict=True))[: most - 1]:
        sign = ("■ ", f"$tone-{tone_of(source.shade)}") if source.depth == 1 else ("  ", "")
        found.append(Content.assemble(sign, line))
    left_out = len(lines) - len(found)
    return [*found[:-1], Content.styled(f"  and {left_out + 1:,} more", _QUIET)] if left_out and most > 1 else found


def _beside(packing: Packing) -> list[Content]:
    """Return the histogram of the fill, with a heading; nothing if it is not counted."""
    if packing.fills is None:
        return []
    from tokfmt.browser.data.packing import FillLines

    histogram = FillLines(packing.fills, _INTERVALS)
    counts = histogram.counts
    most, cells = max(1, *counts), max(len(f"{count:,}") for count in counts)
    found = list[Content]()
    for line, count in enumerate(counts):
        found.append(
            Content.assemble(
                (f"{histogram.interval(line):>7} ", _QUIET),
                (f"{bar(count / most, _BAR):<{_BAR}} ", "$text-primary"),
                (f"{count:>{cells},}", "$foreground"),
                ("" if line else " samples", _QUIET),
            )
        )
    return found
