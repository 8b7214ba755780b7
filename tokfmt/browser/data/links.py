"""Links to a place in a dataset: the words of `--at`, the command that opens the browser there, and the last place."""

from __future__ import annotations

import shlex

from tokfmt.base.options import parse_count
from tokfmt.browser.data.session import NAMED, Landing, Session, Where
from tokfmt.browser.data.state import recall, remember
from tokfmt.errors import OptionError
from tokfmt.files.place import place_of
from tokfmt.source.request import words_of

VIEWS = ("documents", "samples", "rows", "records")
"""Names of views, as `View.name` has them."""

_GIVEN = frozenset({*NAMED, "last time"})
"""Sources of a tokenizer that another user of the dataset does not have."""


def parse_landing(words: str) -> Landing:
    """Return the place of `123`, `123:45` or `samples:12:0`: a view, the number of a row, and a token in it.

    Raises:
        OptionError: The words are not a place.
    """
    view, colon, rest = words.strip().partition(":")
    if not colon or view[:1].isdecimal():
        view, rest = "", words.strip()
    if view and view not in VIEWS:
        raise OptionError(f"{view!r} is not a view (expected one of {', '.join(VIEWS)})")
    row, _, unit = rest.partition(":")
    found = Landing(parse_count(row), parse_count(unit) if unit else 0, view)
    if min(found.row, found.unit) < 0:
        raise OptionError(f"{words!r} is not a place (expected ROW or ROW:TOKEN, both from 0). Write 123:45")
    return found


def landing_words(session: Session, where: Where) -> str:
    """Return the place of a token as `parse_landing` reads it; the view is named if there may be several."""
    several = len(session.opened.views) > 1 or bool(session.opened.pending)
    view = [session.shown] if several else []
    row, unit = where
    return ":".join([*view, str(row), *([str(unit)] if unit else [])])


def remember_place(session: Session) -> None:
    """Remember the place in a dataset for the next time, unless it is the beginning."""
    if session.refused is None:
        begun = session.where == (0, 0)
        place = None if begun else {"at": landing_words(session, session.where), "split": session.split}
        remember(session.path, place=place)


def last_place(session: Session) -> Landing | None:
    """Return the place that is remembered for a dataset and a split; None without one."""
    place = recall(session.path).get("place")
    if not isinstance(place, dict) or place.get("split") != session.split:
        return None
    try:
        return parse_landing(str(place.get("at")))
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
    return shlex.join([*words, "--at", landing_words(session, where)])
