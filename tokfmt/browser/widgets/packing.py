"""The head of the first tab of a recipe: how full its samples are, and what it takes of each source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.widgets import Static

from tokfmt.browser.colors import sign_of
from tokfmt.browser.data.opening import recipe_of, samples_of
from tokfmt.browser.data.session import Session
from tokfmt.browser.widgets.loading import WithLoader
from tokfmt.wording import bar, columns, percent, printable

if TYPE_CHECKING:
    from tokfmt.browser.data.packing import Packing

_MOST = 8  # lines of sources
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
            self.styles.height = lines + (samples_of(recipe) is not None)

            def work() -> Packing | str:
                from tokfmt.browser.data.packing import packing_of

                return packing_of(session)

            self.loader.ask(work, self._found)
            self.refresh()

    @property
    def planned(self) -> dict[str, str]:
        """Return what the recipe asks for of each source, in words."""
        sources = () if self.packing is None else self.packing.sources
        return {source.row.name: source.asked for source in sources if source.asked}

    def _found(self, found: Packing | str) -> None:
        self.packing, self._failure = (None, found) if isinstance(found, str) else (found, "")
        self.refresh()

    def render(self) -> Content:
        packing = self.packing
        if packing is None:
            return Content.styled(f"✗ {printable(self._failure)}" if self._failure else "◌ packing", _QUIET)
        room, head = self.content_size.width, bool(packing.pack)
        lines = [_used(packing, room)] if head else []
        return Content("\n").join([*lines, *_table(packing, room, self.size.height - head)])


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
        sign = sign_of(source.shade) if source.row.depth == 1 else ("  ", "")
        found.append(Content.assemble(sign, line))
    left_out = len(lines) - len(found)
    return [*found[:-1], Content.styled(f"  and {left_out + 1:,} more", _QUIET)] if left_out and most > 1 else found
