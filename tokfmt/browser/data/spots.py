"""Places in the browser: words and commands for one, the last one of a dataset, and the way back to earlier ones."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from tokfmt.base.options import parse_count
from tokfmt.browser.data.session import NAMED, Session, Where
from tokfmt.browser.data.state import recall, remember
from tokfmt.errors import OptionError
from tokfmt.files.place import Place, place_of
from tokfmt.source.request import words_of

VIEWS = ("documents", "samples", "rows", "records")
"""Names of views, as `View.name` has them."""

_GIVEN = frozenset({*NAMED, "last time"})
"""Sources of a tokenizer that another user of the dataset does not have."""

_MOST = 200  # places before


class Spot(NamedTuple):
    """A place in the browser. What it leaves open stays as it is."""

    # the row, of which -1 is the last, and the token under the cursor; None leaves them open
    where: Where | None = None
    # name of the view; "" leaves it open, but a dataset that is being loaded shows its first view before
    view: str = ""
    split: str = ""  # name of the split; "" leaves it open
    number: int | None = None  # number of the dataset; None leaves it open
    words: str | None = None  # the filter of the list, "" for none; None leaves it open
    tab: str = "sequences"  # name of the tab; "" leaves it open
    inside: object = None  # the place within the tab, if it has one of its own (`Tab.spot`)


class ByteSpot(NamedTuple):
    """Bytes of a file, as the place within the tab of the bytes."""

    path: Place  # the file
    offset: int  # byte offset
    length: int = 0  # number of bytes to mark
    opened: bool = False  # the reader of the dataset has opened the file


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
            spot = left.pop()
            if spot != here:
                entered.append(here)
                return spot
        return None

    def has(self, step: int) -> bool:
        """Return whether there is a place before (step -1) or after (step 1)."""
        return bool(self._before if step < 0 else self._after)


def parse_spot(words: str) -> Spot:
    """Return the place of `123`, `123:45` or `samples:12:0`: a view, the number of a row, and a token in it."""
    view, colon, rest = words.strip().partition(":")
    if not colon or view[:1].isdecimal():
        view, rest = "", words.strip()
    if view and view not in VIEWS:
        raise OptionError(f"{view!r} is not a view (expected one of {', '.join(VIEWS)})")
    row, _, unit = rest.partition(":")
    where = parse_count(row), parse_count(unit) if unit else 0
    if min(where) < 0:
        raise OptionError(f"{words!r} is not a place (expected ROW or ROW:TOKEN, both from 0). Write 123:45")
    return Spot(where, view)


def spot_words(session: Session, where: Where) -> str:
    """Return the place of a token as `parse_spot` reads it; the view is named if there may be several."""
    several = len(session.opened.views) > 1 or bool(session.opened.pending)
    view = [session.shown] if several else []
    row, unit = where
    return ":".join([*view, str(row), *([str(unit)] if unit else [])])


def remember_place(session: Session) -> None:
    """Remember the place in a dataset for the next time, unless it is the beginning."""
    if session.refused is None:
        begun = session.where == (0, 0)
        place = None if begun else {"at": spot_words(session, session.where), "split": session.split}
        remember(session.path, place=place)


def last_place(session: Session) -> Spot | None:
    """Return the place that is remembered for a dataset and a split; None without one."""
    place = recall(session.path).get("place")
    if not isinstance(place, dict) or place.get("split") != session.split:
        return None
    try:
        return parse_spot(str(place.get("at")))
    except OptionError:
        return None


def command_of(session: Session, where: Where) -> str:
    """Return the command that opens the browser at a token, with the options that the dataset was opened with."""
    request = session.request
    words = ["tokfmt", "browse", *(str(place_of(path).normalized()) for path in request.paths)]
    words += ["--from", request.format] if request.format else []
    for word in words_of(request.options):
        words += ["--from-opt", word]
    split = session.split or request.split
    words += ["--split", split] if split and (len(session.splits) > 1 or request.split) else []
    words += ["--text-field", request.text_field] if request.text_field else []
    words += ["--eos", str(request.eos)] if request.eos is not None else []
    words += ["--bos", str(request.bos)] if request.bos is not None else []
    for loss in sorted(request.allow_loss):
        words += ["--allow-loss", loss]
    if session.choice is not None and session.choice.source in _GIVEN:
        words += ["--tokenizer", session.choice.name]
    return shlex.join([*words, "--at", spot_words(session, where)])
