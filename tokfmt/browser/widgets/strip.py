"""The packing strip: the documents of a sample side by side, with their sources, and its padding."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual import events
from textual.content import Content
from textual.style import Style
from textual.widgets import Static

from tokfmt.browser.colors import SHADES, tone_of
from tokfmt.browser.data.layout import TokenStyle
from tokfmt.browser.data.parts import RowParts, parts_of
from tokfmt.browser.data.rows import RowSource
from tokfmt.browser.widgets.loading import WithLoader
from tokfmt.wording import printable, shortened

_PADDING, _PROMPT = "·", "░"
_LEAST = 12  # cells of the bar, before its facts are left out
_QUIET = "$quiet"


class Stretch(NamedTuple):
    """Adjacent cells of a bar that show the same."""

    text: str
    tone: int | None  # number of the color of the source; None for padding
    part: int | None  # index of the part; None in padding
    is_prompt: bool


def bar_of(parts: RowParts, width: int) -> list[Stretch]:
    """Return the bar of a row in a number of cells."""
    units = [(2 * x + 1) * parts.length // (2 * max(1, width)) for x in range(width)]  # in the middle of each cell
    owners = [(parts.at(unit), parts.is_prompt(unit)) for unit in units]
    if parts.parts and owners and owners[0][0] is None:  # a sample with a token shows it
        owners[0] = 0, parts.is_prompt(0)
    out = list[Stretch]()
    for (part, prompt), group in groupby(owners):
        cells = sum(1 for _ in group)
        if part is None:
            out.append(Stretch(_PADDING * cells, None, None, False))
            continue
        shade = parts.parts[part].shade
        text = (_PROMPT if prompt else SHADES[shade % len(SHADES)]) * cells
        text = text[:-1] + "▌" if not prompt and cells > 1 and part + 1 < len(parts.parts) else text
        out.append(Stretch(text, tone_of(shade), part, prompt))
    return out


class PackingStrip(WithLoader, Static):
    """Show the parts of the row in the reader; the part under the cursor is current.

    `chosen` gets the first unit of a part that is clicked, and whether twice; `loaded` is called with other parts.
    """

    def __init__(self, chosen: Callable[[int, bool], object], loaded: Callable[[], object]) -> None:
        super().__init__(id="strip", markup=False)
        self.parts: RowParts | None = None
        self.unit = 0
        self._chosen, self._found = chosen, loaded
        self._asked: tuple[RowSource, TokenStyle, int] | None = None
        self.display = False

    @property
    def current(self) -> int | None:
        """Return the index of the part under the cursor; None in padding."""
        return self.parts.at(self.unit) if self.parts else None

    def show(self, port: RowSource, token_style: TokenStyle, row: int, unit: int) -> None:
        """Show the parts of a row, and mark the one that holds a unit."""
        self.unit = unit
        asked = (port, token_style, row)
        if asked == self._asked:
            self.refresh()
            return
        self._asked = asked
        self.loader.forget()

        def then(parts: RowParts | None) -> None:
            self.parts = parts
            self.display = parts is not None
            self._fit()
            self._found()

        self.loader.ask(lambda: parts_of(port, token_style, row), then)

    def clear(self) -> None:
        """Show nothing."""
        self.loader.forget()
        self._asked = self.parts = None
        self.display = False

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        """Take as many lines as there are, which depends on the width."""
        self.styles.height = len(self._lines(self.parts)) if self.parts is not None else 1
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        part = event.style.meta.get("part")
        if part is not None and self.parts is not None:
            self._chosen(self.parts.parts[part].start, event.chain == 2)

    # drawing

    def render(self) -> Content:
        return Content("\n").join(self._lines(self.parts) if self.parts is not None else [])

    def _bar_width(self, parts: RowParts) -> int:
        facts = 1 + len(parts.words)
        return self.size.width - facts if self.size.width - facts >= _LEAST else self.size.width

    def _lines(self, parts: RowParts) -> list[Content]:
        """Return the bar, the names of its parts or, without names, the facts if they have no room beside it, and
        how the loss mask differs from others, in two lines at most.
        """
        width = self.size.width
        found = [self._bar(parts)]
        if not parts.is_alone:
            found.append(self._names(parts))
        elif self._bar_width(parts) == width:
            found.append(Content.styled(shortened(parts.words, width), _QUIET))
        words = [line.plain.rstrip() for line in Text(f"▲ {parts.odd}").wrap(self.app.console, max(8, width))]
        words = [words[0], shortened(" ".join(words[1:]), width)] if len(words) > 2 else words
        return found + [Content.styled(text, "bold $text-warning") for text in words if parts.odd]

    def _bar(self, parts: RowParts) -> Content:
        wide, current = self._bar_width(parts), self.current
        out = list[Content]()
        for one in bar_of(parts, wide):
            style = _QUIET if one.tone is None else f"$tone-{one.tone}"
            is_current = one.part is not None and one.part == current
            out.append(_of_part(one.text, f"{style} underline" if is_current else style, one.part))
        return Content("").join([*out, Content.styled(f" {parts.words}" if wide < self.size.width else "", _QUIET)])

    def _names(self, parts: RowParts) -> Content:
        """Return the label of each part that has room at its beginning; the current one always has."""
        wide, width, current = self._bar_width(parts), self.size.width, self.current
        wanted = [
            (k, one.start * wide // (parts.length or 1), cell_len(one.label)) for k, one in enumerate(parts.parts)
        ]
        found = list[tuple[range, int]]()
        kept = range(0)
        if current is not None:
            _, at, cells = wanted[current]
            at = max(0, min(at, width - cells))
            kept = range(at, min(width, at + cells))
            found.append((kept, current))
        free = 0
        for k, at, cells in wanted:
            taken = range(max(at, free), max(at, free) + cells)
            clear = not kept or taken.stop < kept.start or taken.start > kept.stop
            if k != current and at >= free and clear and taken.stop <= width:
                found.append((taken, k))
                free = taken.stop + 1
        out, at = list[Content](), 0
        for taken, k in sorted(found, key=lambda one: one[0].start):
            style = "bold $line-ink on $line" if k == current else _QUIET
            label = set_cell_size(printable(parts.parts[k].label), len(taken))
            out += [Content(" " * (taken.start - at)), _of_part(label, style, k)]
            at = taken.stop
        return Content("").join(out)


def _of_part(text: str, style: str, part: int | None) -> Content:
    """Return words that lead to a part when they are clicked."""
    return Content.styled(text, style).stylize(Style.from_meta({"part": part}))
