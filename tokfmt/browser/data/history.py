"""The places before jumps, as vim and web browsers keep them: back to each, and forward again."""

from __future__ import annotations

from typing import NamedTuple

from tokfmt.browser.data.session import Where

_MOST = 200


class Spot(NamedTuple):
    """A place in the browser.

    Attributes:
        tab: Name of the tab.
        number: Number of the dataset.
        split: Name of the split; "" without splits.
        view: Name of the view.
        where: The row and the token under the cursor.
        words: The filter of the list; "" for none.
        inside: The place within the tab, if it has one of its own (`Tab.spot`).
    """

    tab: str
    number: int
    split: str
    view: str
    where: Where
    words: str
    inside: object = None


class History:
    """The places before and after the one on the screen."""

    def __init__(self) -> None:
        self._before: list[Spot] = []
        self._after: list[Spot] = []

    def leave(self, here: Spot) -> None:
        """Keep a place that a jump leaves."""
        self._after.clear()
        if not self._before or self._before[-1] != here:
            self._before = [*self._before[1 - _MOST :], here]

    def go(self, step: int, here: Spot) -> Spot | None:
        """Return the place before (step -1) or after (step 1) this one; None at an end."""
        left, entered = (self._before, self._after) if step < 0 else (self._after, self._before)
        while left:
            found = left.pop()
            if found != here:
                entered.append(here)
                return found
        return None

    def has(self, step: int) -> bool:
        """Return whether there is a place before (step -1) or after (step 1)."""
        return bool(self._before if step < 0 else self._after)
