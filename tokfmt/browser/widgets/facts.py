"""Facts in columns, of which some lead on: to the rows that they count, to a ranking, to another tab."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tokfmt.browser.widgets.outline import fitted

_LEAST = 36  # cells of a column
_GAP = 2


class Fact(NamedTuple):
    """A fact.

    Attributes:
        name: Its name.
        value: Its value.
        action: The action of the tab that leads on; "" for none.
    """

    name: str
    value: str
    action: str = ""


class Facts(Widget, can_focus=True):
    """Facts in as many columns as fit, with a cursor on those that lead on."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"facts--{part}" for part in ("name", "value", "leads", "cursor")}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "by(-1)", "Previous fact", system=True),
        Binding("right,l", "by(1)", "Next fact", system=True),
        Binding("up,k", "line(-1)", "Up", system=True),
        Binding("down,j", "line(1)", "Down", system=True),
        Binding("home,g", "to(0)", "First", system=True),
        Binding("end,G", "to(-1)", "Last", system=True),
        Binding("enter", "choose", "List"),
    ]

    class Chosen(Message):
        """The user follows a fact."""

        def __init__(self, fact: Fact) -> None:
            super().__init__()
            self.fact = fact

    def __init__(self) -> None:
        super().__init__(id="facts")
        self.facts: Sequence[Fact] = ()
        self.cursor = 0

    def show(self, facts: Sequence[Fact]) -> None:
        """Show facts."""
        if facts != self.facts:
            self.facts = facts
            self.cursor = min(self.cursor, max(0, len(facts) - 1))
            if facts and not facts[self.cursor].action:
                self.cursor = next(iter(self.leading), 0)
            self.refresh(layout=True)

    @property
    def leading(self) -> list[int]:
        """Return the numbers of the facts that lead on."""
        return [number for number, fact in enumerate(self.facts) if fact.action]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002 - Textual's
        places = placed(self.facts, width)
        return places[-1].line + 1 if places else 0

    # the cursor

    def action_by(self, step: int) -> None:
        beyond = [number for number in self.leading if (number - self.cursor) * step > 0]
        if beyond:
            self._point_at(min(beyond, key=lambda number: abs(number - self.cursor)))

    def action_line(self, step: int) -> None:
        places = placed(self.facts, self.size.width)
        if not places:
            return
        here = places[self.cursor]
        beyond = [number for number in self.leading if (places[number].line - here.line) * step > 0]
        if beyond:
            away = [(abs(place.line - here.line), abs(place.left - here.left)) for place in places]
            self._point_at(min(beyond, key=away.__getitem__))

    def action_to(self, end: int) -> None:
        if self.leading:
            self._point_at(self.leading[end])

    def _point_at(self, number: int) -> None:
        self.cursor = number
        self.refresh()

    def action_choose(self) -> None:
        if self.facts and self.facts[self.cursor].action:
            self.post_message(self.Chosen(self.facts[self.cursor]))

    def on_click(self, event: events.Click) -> None:
        inside = event.get_content_offset(self)
        if inside is None:
            return
        for number, place in enumerate(placed(self.facts, self.size.width)):
            hit = place.line == inside.y and place.left <= inside.x < place.left + place.cells
            if hit and self.facts[number].action:
                self._point_at(number)
                if event.chain > 1:
                    self.action_choose()

    def records(self) -> Iterator[Mapping[str, object]]:
        """Return the facts for an export."""
        return ({"name": fact.name, "value": fact.value} for fact in self.facts)

    # drawing

    def render_line(self, y: int) -> Strip:
        segments: list[Segment] = []
        for number, place in enumerate(placed(self.facts, self.size.width)):
            if place.line == y:
                segments += self._drawn(number, place.cells)
        return Strip(segments).crop(0, self.size.width)

    def _drawn(self, number: int, cells: int) -> list[Segment]:
        fact = self.facts[number]
        cursor = ["facts--cursor"] if number == self.cursor and fact.action and self.has_focus else []
        name = f"{fact.name}  "
        value = fitted(fact.value, min(cell_len(fact.value), max(0, cells - _GAP - cell_len(name))))
        style = self.get_component_rich_style
        kind = "facts--leads" if fact.action else "facts--value"
        rest = max(0, cells - cell_len(name) - cell_len(value))
        return [
            Segment(name, style("facts--name")),
            Segment(value, style(kind, *cursor)),
            Segment(" " * rest, style("facts--value")),
        ]


class Place(NamedTuple):
    """The place of a fact: its line, its first cell, and its number of cells."""

    line: int
    left: int
    cells: int


def placed(facts: Sequence[Fact], width: int) -> list[Place]:
    """Return the place of each fact; a long one takes several columns."""
    columns = max(1, width // _LEAST)
    each = max(1, width // columns)
    places, line, column = list[Place](), 0, 0
    for fact in facts:
        needed = cell_len(fact.name) + 2 + cell_len(fact.value) + _GAP
        span = min(columns, -(-needed // each))
        if column + span > columns:
            line, column = line + 1, 0
        places.append(Place(line, column * each, span * each))
        column += span
    return places
