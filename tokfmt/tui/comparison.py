"""The walk through two datasets that finds what differs, in a thread of its own; what it has found is there at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tokfmt.core.errors import TokfmtError
from tokfmt.ops.alignment import Alignment
from tokfmt.ops.compared import Request, open_both
from tokfmt.tui.jobs import Job
from tokfmt.tui.marks import Row, first_unlike
from tokfmt.tui.pairing import Pair, Pairing
from tokfmt.tui.session import Session
from tokfmt.tui.viewport import Damage, fetched

Sessions = tuple[Session, Session]


@dataclass(frozen=True, slots=True)
class First:
    """The first difference.

    Attributes:
        step: Of the pairing; pair: its rows.
        token: The first that differs; None where a row is only on one side.
        values: Both ids there; None where a row has ended.
    """

    step: int
    pair: Pair
    token: int | None = None
    values: tuple[int | None, int | None] = (None, None)


class Comparison:
    """Walks through the views that two sessions show.

    Args:
        sessions: A and B.
        told: Called on the walk's thread, at most ten times a second, and at the end; must hand over to the screen.

    Attributes:
        pairing: What is known so far.
        first: The first difference, when there is one.
        alike: Rows alike so far.
        state: "walking", "done", "full" (as many differences as can be held), "stopped" or "failed".
        failure: Why.
    """

    def __init__(self, sessions: Sessions, told: Callable[[], object]) -> None:
        self.sessions, self._told = sessions, told
        self.ports = sessions[0].port, sessions[1].port
        self.pairing = Pairing((self.ports[0].count, self.ports[1].count))
        self.first: First | None = None
        self.alike, self.state, self.failure = 0, "walking", ""
        self._request = _request(sessions)
        self.job = Job(self._walk, self._end, told)

    @property
    def walking(self) -> bool:
        """More may be found."""
        return self.state == "walking"

    def stop(self) -> bool:
        """Call the walk off; False when it has ended."""
        if not self.walking:
            return False
        self.job.cancel()
        self.state = "stopped"
        return True

    def _walk(self, job: Job) -> str:
        both = open_both(self._request, job)
        try:
            job.phase("comparing", both.a.reader.info.tokens, both.unit)
            walk = Alignment(both.a, both.b, None, job.advance)
            for change in walk.changes():
                self.alike = walk.same
                self.pairing.add(change)
                if self.first is None:
                    self.first = self._first()
                    self._told()
                job.advance(0)
                if self.pairing.full:
                    return "full"
            self.alike = walk.same
            return "done"
        finally:
            both.close()

    def _first(self) -> First | None:
        step = self.pairing.following(-1)
        if step is None:
            return None
        pair = self.pairing.pair(step)
        if pair.a is None or pair.b is None:
            return First(step, pair)
        rows = Row(self.ports[0], pair.a), Row(self.ports[1], pair.b)
        try:
            token = first_unlike(*rows)
        except TokfmtError:
            return First(step, pair)
        return First(step, pair, token, (_value(rows[0], token), _value(rows[1], token)))

    def _end(self, outcome: object) -> None:
        if isinstance(outcome, Exception):
            known = isinstance(outcome, TokfmtError)
            self.failure = str(outcome) if known else f"unexpected {type(outcome).__name__}: {outcome}"
            self.state = "failed"
        elif self.walking:
            self.state = str(outcome)
        self._told()


def _value(row: Row, token: int | None) -> int | None:
    found = None if token is None else fetched(row.port, row.number, token, token + 1)
    return None if found is None or isinstance(found, Damage) or not len(found.units) else int(found.units[0])


def _request(sessions: Sessions) -> Request:
    a, b = (session.request for session in sessions)
    choice = next((session.choice for session in sessions if session.vocabulary and session.choice), None)
    return Request(
        a.paths[0],
        b.paths[0],
        sessions[0].format_name,
        sessions[1].format_name,
        tuple(a.options),
        choice.name if choice else None,
        samples=all(session.shown == "samples" for session in sessions),
        eos=a.eos,
        splits=(_split(sessions[0]), _split(sessions[1])),
        text_field=a.text_field,
    )


def _split(session: Session) -> str | None:
    return session.split or session.request.split


def common_view(sessions: Sessions, other_than: str = "") -> str:
    """The name of a view that both have, documents rather than samples; "" when there is none."""
    names = [[view.name for view in session.opened.views] for session in sessions]
    shared = [name for name in ("documents", "records", "rows", "samples") if all(name in some for some in names)]
    return next((name for name in shared if name != other_than), "")


def unit_of(sessions: Sessions) -> str:
    """What a row of either is called: "document", or "sequence" where they differ."""
    names = {session.view.singular for session in sessions}
    return names.pop() if len(names) == 1 else "sequence"


def comparable(sessions: Sessions) -> bool:
    """Whether their tokens can be held against each other."""
    return sessions[0].port.unit == sessions[1].port.unit
