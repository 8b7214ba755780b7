"""The table of the overview: lines of any number, from a model, of which the cursor chooses one or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

from rich.cells import cell_len

from tokfmt.browser import keys
from tokfmt.browser.data.cells import Cells, Lines
from tokfmt.browser.widgets.virtual_table import VirtualTable, kinds

MOST_CHOSEN = 1000
"""Limit of lines that are listed together."""


class Table(VirtualTable):
    """The lines of a model; space selects lines, and Enter opens them."""

    COMPONENT_CLASSES: ClassVar[set[str]] = kinds("name", "count", "bar", "text", "value", "leads", "odd", "good")
    BINDINGS = keys.TABLE
    selects = drags = marks_selected = True
    blurs = False
    filler = "text"

    def __init__(self, id: str, title: str = "") -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id, classes="table")
        self.title = title  # without lines
        self.lines: Lines | None = None

    def show(self, lines: Lines | None, nothing: str = "", first: Callable[[], int] = lambda: 0) -> None:
        """Show lines, or why there are none, with the cursor on the first one if they are others."""
        before, self.lines, self.nothing = self.lines, lines, (nothing, "none")
        if before is None or lines is None or before.count != lines.count:
            self.cursor = first() if lines is not None else 0
            self.selected.clear()
        self.loader.forget()
        self.selection_changed()
        self.point_at(self.cursor)

    @property
    def count(self) -> int:
        """Return the number of lines."""
        return self.lines.count if self.lines is not None else 0

    def fetch(self) -> None:
        lines, seen = self.lines, self.seen
        missing = lines.missing(seen) if lines is not None and seen else []
        if lines is not None and missing:
            self.loader.ask(lambda: lines.load(missing), lambda _: self.refresh())

    # choosing

    @property
    def chosen(self) -> list[int]:
        """Return the selected lines; that of the cursor if none is selected."""
        return sorted(self.selected) or ([self.cursor] if self.count else [])

    def selection_changed(self) -> None:
        """Show the number of selected lines."""
        titles = self.lines.titles if self.lines is not None else (self.title,)
        room = self.size.width - 2
        self.border_title = next((title for title in titles if cell_len(title) <= room), titles[-1])
        self.border_subtitle = f"{len(self.selected):,} selected" if self.selected else ""
        self.refresh()

    def on_resize(self) -> None:
        super().on_resize()
        self.selection_changed()

    def action_choose(self) -> None:
        chosen = self.chosen
        if len(chosen) > MOST_CHOSEN:
            self.notify(f"At most {MOST_CHOSEN:,} lines can be listed together.", severity="warning")
        elif chosen:
            super().action_choose()

    def records(self) -> Iterator[Mapping[str, object]]:
        """Return the selected lines for an export; all of them if none is selected."""
        lines = self.lines
        return iter(()) if lines is None else map(lines.record, sorted(self.selected) or range(lines.count))

    def cells(self, line: int, width: int) -> Cells:
        return self.lines.cells(line, width) if self.lines is not None else []


class TokenTable(Table):
    """IDs: the frequent ones, the rare ones, the first and the last ones of rows."""

    BINDINGS = keys.TOKENS

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's word
        super().__init__(id=id)
        self.choices: Mapping[str, Lines] = {}
        self.turned = ""

    def offer(self, choices: Mapping[str, Lines], nothing: str) -> None:
        """Show one of several rankings by its name."""
        self.choices = choices
        self.turned = self.turned if self.turned in choices else next(iter(choices), "")
        self.show(choices.get(self.turned), nothing)

    def selection_changed(self) -> None:
        super().selection_changed()
        others = (f"[reverse] {name} [/]" if name == self.turned else name for name in self.choices)
        self.border_title = " ".join(others) if self.choices else "tokens"

    def turn_to(self, name: str) -> None:
        """Show another ranking."""
        if name in self.choices:
            self.turned, self.cursor = name, 0
            self.selected.clear()
            self.show(self.choices[name])

    def action_turn(self, step: int) -> None:
        names = list(self.choices)
        if names:
            self.turn_to(names[(names.index(self.turned) + step) % len(names)])
