"""The keys of the browser, what is of use at the moment, and presses of the mouse.

The table of keys is the `BINDINGS` of each class, in the order in which the last line of the screen shows them.

    description  the word for the last line
    tooltip      the words for the help and the palette, if they differ
    system       the key moves a cursor: only the help lists it
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple, Protocol

from textual.actions import parse
from textual.binding import Binding
from textual.content import Content
from textual.dom import DOMNode
from textual.geometry import Offset
from textual.screen import Screen
from textual.style import Style


class Offering(Protocol):
    """A widget with keys that are of use only at times."""

    def offers(self, action: str, parameters: tuple[object, ...]) -> bool:
        """Return whether an action would do something now. Other keys still work, and show why they do nothing."""


def bindings_of(node: DOMNode) -> tuple[Binding, ...]:
    """Return the bindings of a widget that tokfmt defines, one key each; a class may have several for a key."""
    return _bindings(type(node))


@cache
def _bindings(kind: type[DOMNode]) -> tuple[Binding, ...]:
    found: list[Binding] = []
    for cls in kind.__mro__:
        if cls.__module__.startswith("tokfmt"):
            keys = {binding.key for binding in found}
            own = Binding.make_bindings(vars(cls).get("BINDINGS", ()))
            found += [binding for binding in own if binding.key not in keys]
    return tuple(found)


def words_of(binding: Binding) -> str:
    """Return the words about a key for the help and the palette."""
    return binding.tooltip or binding.description


def is_offered(node: DOMNode, binding: Binding) -> bool:
    """Return whether the key of a widget does something now."""
    _, action, parameters = parse(binding.action)
    if not node.check_action(action, parameters):
        return False
    offers = getattr(node, "offers", None)
    return offers is None or bool(offers(action, parameters))


def offered(nodes: Iterable[DOMNode]) -> Iterator[tuple[DOMNode, Binding]]:
    """Yield the keys of some widgets that do something now, each key of the first widget that has it."""
    seen: set[str] = set()
    for node in nodes:
        for binding in bindings_of(node):
            if binding.key not in seen and is_offered(node, binding):
                seen.add(binding.key)
                yield node, binding


# the mouse

_NAMED = re.compile(r"\b(esc|[A-Za-z]|2)(?= (?:stops|shows|finds|counts)\b)")


def pressing(words: str) -> Content:
    """Return words whose keys, as in "esc stops", are pressed by a click on them."""
    content = Content(words)
    for found in _NAMED.finditer(words):
        end = words.find(" ", found.end() + 1)
        key = "escape" if found[1] == "esc" else found[1]
        content = content.stylize(pressed(key), found.start(), len(words) if end < 0 else end)
    return content


def pressed(key: str) -> Style:
    """Return the style of words that press a key when they are clicked."""
    return Style.from_meta({"@click": f"app.simulate_key({key!r})"})


class Press(NamedTuple):
    """A press of a button of the mouse: the screen below it, its place, and its time in seconds."""

    screen: Screen[Any]
    place: Offset
    time: float

    def led_away(self, later: Press, within: float) -> bool:
        """Return whether a later press is the second of a double click that began on another screen."""
        return later.screen is not self.screen and later.place == self.place and later.time - self.time <= within
