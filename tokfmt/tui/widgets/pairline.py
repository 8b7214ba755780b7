"""The line beneath both sides of a comparison: what is the matter with this pair, and both tokens under the cursors."""

from __future__ import annotations

from tokfmt.tui.comparison import Sessions, unit_of
from tokfmt.tui.facts import facts_of
from tokfmt.tui.marks import Marks
from tokfmt.tui.pairing import Pair
from tokfmt.tui.verdict import pair_words
from tokfmt.tui.viewport import Damage
from tokfmt.tui.widgets.desked import Desked
from tokfmt.tui.widgets.says import Says


class PairLine(Says, Desked):
    """Reads what it tells on a desk of its own."""

    def tell(self, sessions: Sessions, pair: Pair, marks: Marks | Damage | None, cursors: tuple[int, int]) -> None:
        """Say what is known of a pair."""
        self.generation += 1
        unit, part = unit_of(sessions), sessions[0].port.unit
        places = [(session, pair.row(side), cursors[side]) for side, session in enumerate(sessions)]

        def work() -> list[object]:
            return [None if row is None else facts_of(session, row, token) for session, row, token in places]

        self.ask(work, lambda facts: self.say(pair_words(pair, marks, facts, unit, part)))
