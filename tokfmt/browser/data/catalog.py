"""The datasets below a folder or a bucket: found as far as the screen needs them, with their facts.

Only facts are kept of a dataset, about a kilobyte each. A dataset is opened to read them, and closed again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tokfmt.base.plain import plain
from tokfmt.core.format import Format
from tokfmt.core.losses import READS
from tokfmt.errors import FormatError, TokfmtError
from tokfmt.files.listing import Listing
from tokfmt.files.place import Place
from tokfmt.source.discover import Skipped, dataset_at, datasets_below
from tokfmt.source.manifest import extent
from tokfmt.source.request import SourceRequest
from tokfmt.wording import human_bytes, short

if TYPE_CHECKING:
    from tokfmt.commands.info import End, Overview


@dataclass(slots=True)
class Listed:
    """A dataset of a catalog."""

    place: Place  # its path
    # Its path relative to the folder. Of files in the folder itself, their name, or what all names begin with.
    name: str
    format: Format | None  # its format; None if the path cannot be read
    failure: str = ""  # the error that prevents reading, or reading more than tokens; "" without one
    looked: bool = False  # the facts are read
    facts: Overview | None = None  # those of `tokfmt info`; None if they cannot be read
    size: int | None = None  # the size of its files in bytes; None if it is unknown
    # the number of findings of a check without the data, by severity; None before the check
    severities: dict[str, int] | None = None


Rank = str | int | tuple[int, ...]
"""A value of a column, which orders the datasets of a catalog."""

_STEP = 10  # datasets that are found before the screen shows them
_SEVERITIES = ("error", "warning", "info")


def _loose(format_: Format | TokfmtError, place: Place) -> str:
    """Return the name of a dataset whose files are in the folder of the catalog itself: what their names begin with."""
    names = [] if isinstance(format_, TokfmtError) else [file.name for file in format_.files(place)]
    prefix = os.path.commonprefix(names)  # noqa: RUF071 - of names, character by character
    return f"{prefix}*" if prefix and len(names) > 1 else prefix or "."


def _health(one: Listed) -> Rank | None:
    return None if one.severities is None else tuple(one.severities.get(name, 0) for name in _SEVERITIES)


def _fact(of: Callable[[Overview], Rank | None]) -> Callable[[Listed], Rank | None]:
    return lambda one: None if one.facts is None else of(one.facts)


def _end(of: Callable[[Overview], End | None]) -> Callable[[Listed], Rank | None]:
    def value(facts: Overview) -> Rank | None:
        end = of(facts)
        return None if end is None else (end.id, int(100 * end.share))

    return _fact(value)


class Column(NamedTuple):
    """A column of a catalog."""

    value: Callable[[Listed], Rank | None]  # the value of a dataset, which orders the list; None if it is unknown
    width: int  # in cells; 0 for the rest of the line
    place: int  # its place among the columns that a narrow screen keeps
    words: Callable[[Any], str] = str  # the value in words
    is_left: bool = False  # it begins at its left
    rises: bool = False  # its smallest value is first at first


COLUMNS = {
    "name": Column(lambda one: one.name, 0, 0, is_left=True, rises=True),
    "format": Column(lambda one: None if one.format is None else one.format.name, 12, 2, str, is_left=True, rises=True),
    "sequences": Column(_fact(lambda facts: facts.sequences), 10, 3, short),
    "tokens": Column(_fact(lambda facts: facts.tokens), 8, 4, short),
    "dtype": Column(_fact(lambda facts: facts.dtype), 6, 10, str, is_left=True, rises=True),
    "eos": Column(_fact(lambda facts: facts.eos_id), 7, 7),
    "first ID": Column(_end(lambda facts: facts.first), 12, 6, lambda value: f"{value[0]} {value[1]}%"),
    "last ID": Column(_end(lambda facts: facts.last), 12, 8, lambda value: f"{value[0]} {value[1]}%"),
    "largest": Column(_fact(lambda facts: facts.max_id), 8, 9),
    "size": Column(lambda one: one.size, 9, 5, human_bytes),
    "health": Column(_health, 8, 1, is_left=True),
}
"""The columns in order. The first (last) ID is the commonest one that its sequences begin (end) with, and its share."""


@dataclass(slots=True)
class Catalog:
    """The datasets below a directory. One thread at a time may call `find`."""

    request: SourceRequest  # the directory, and how to read the datasets in it
    directory: Place  # the directory
    found: list[Listed] = field(default_factory=list)  # the datasets so far, in order
    whole: bool = False  # all datasets are found
    others: int = 0  # the number of files so far that are not datasets
    failure: str = ""  # the error that ended the search early; "" without one
    words: str = ""  # a part of the names of the datasets to list; "" for all
    # The column of the order, and whether its values fall. Names rise in the order of the search.
    by: tuple[str, bool] = ("name", False)
    known: int = 0  # the number of listed datasets whose values were known when they were ordered
    cursor: int = 0  # the number of the listed dataset under the cursor, for showing the catalog again
    odd: frozenset[tuple[str, str]] = frozenset()  # the path and the column of each value that differs from most others
    _listed: list[Listed] = field(default_factory=list)
    _passed: int = 0  # datasets that were compared with the words
    _search: Iterator[Listed | Skipped] | None = None
    _answers: Listing = field(default_factory=Listing)

    def find(self, count: int) -> None:
        """Find up to `count` datasets more."""
        if self._search is None:
            self._search = self._below()
        wanted = len(self.found) + count
        try:
            with self._answers:
                for one in self._search:
                    if isinstance(one, Skipped):
                        self.others += 1
                    else:
                        self.found.append(one)
                    if len(self.found) >= wanted:
                        return
        except TokfmtError as error:
            self.failure = str(error)
        self.whole = True

    def _below(self) -> Iterator[Listed | Skipped]:
        for one in datasets_below(self.directory.asking(self._answers), self.request.format):
            if isinstance(one, Skipped):
                yield one
                continue
            place, found = one
            name = place.relative(self.directory)
            text = str(name) if name is not None and name.parts else _loose(found, place)
            if isinstance(found, TokfmtError):
                yield Listed(place, text, None, str(found), looked=True, severities={"error": 1})
            else:
                yield Listed(place, text, found)

    @property
    def listed(self) -> list[Listed]:
        """Return the datasets so far whose names have the words in them."""
        upto = len(self.found)
        self._listed += [one for one in self.found[self._passed : upto] if self.words in one.name.lower()]
        self._passed = upto
        return self._listed

    def filter(self, words: str) -> None:
        """List only the datasets that have these words in their names, in any case."""
        self.words = words.strip().lower()
        self.order(*self.by)

    def order(self, name: str, falling: bool) -> None:
        """Order the listed datasets by what is known of them now. Nothing is read.

        Datasets with unknown values are last, and so are datasets that are found later. The order stays the same until
        the next call: a dataset that moved when it was read would bring another one on the screen, to be read next.
        """
        self.by, self._listed, self._passed = (name, falling), [], 0
        values = [(one, COLUMNS[name].value(one)) for one in self.listed]
        known = [(one, value) for one, value in values if value is not None]
        self.known = len(known)
        if name == "name":  # they were found in the order of their names
            known = known[::-1] if falling else known
        else:
            known.sort(key=lambda one: one[1], reverse=falling)
        self._listed = [one for one, _ in known] + [one for one, value in values if value is None]

    def nothing(self) -> FormatError:
        """Return the error of a directory without datasets."""
        return FormatError(self.directory, "holds no dataset, nor does a directory below it")

    def next_work(self, shown: Iterable[Listed], ahead: int) -> Callable[[], None] | None:
        """Return what is done next: find `ahead` datasets, read one of these or check it; None if all of it is done."""
        if ahead > 0 and not self.whole:
            return lambda: self.find(min(_STEP, ahead))
        for one in shown:
            if not one.looked:
                return partial(self.look, one)
            if one.severities is None:
                return partial(self.check, one)
        return None

    def request_of(self, one: Listed) -> SourceRequest:
        """Return the request for one dataset."""
        return replace(self.request, paths=(one.place,), recursive=False)

    def look(self, one: Listed) -> None:
        """Read the facts of a dataset, in a time that does not depend on its size."""
        from tokfmt.commands.fleet import differences
        from tokfmt.commands.info import overview

        try:
            if one.format is not None:
                with Listing() as listing:
                    place = one.place.asking(listing)
                    one.size = extent(one.format.files(place))["bytes"]
                    request = replace(self.request_of(one), paths=(place,)).accepting(READS["info"])
                    one.facts = overview([dataset_at(place, request, one.format)], request, None)
        except TokfmtError as error:
            one.failure = str(error)
        one.looked = True
        found = differences([other.facts for other in self.found if other.facts is not None])
        self.odd = frozenset((other.path, _OF_FACTS[fact.fact]) for fact in found for other in fact.others)

    @property
    def total(self) -> tuple[int, int]:
        """Return the tokens and the bytes of all datasets that were looked at, but for recipes and runs."""
        stored = [one for one in self.found if one.format is not None and not one.format.is_computed]
        tokens = (one.facts.tokens or 0 for one in stored if one.facts is not None)
        return sum(tokens), sum(one.size or 0 for one in stored)

    def check(self, one: Listed) -> None:
        """Check headers and index of a dataset."""
        from tokfmt.commands.check import CheckRequest, check

        try:
            request = replace(self.request_of(one), format=None if one.format is None else one.format.name)
            one.severities = next(check(CheckRequest(request))).severities
        except TokfmtError as error:
            one.severities, one.failure = {"error": 1}, one.failure or str(error)


_OF_FACTS = {
    "format": "format",
    "dtype": "dtype",
    "eos_id": "eos",
    "tokenizer": "name",
    "first": "first ID",
    "last": "last ID",
}
"""The column of each fact in which datasets can differ."""


def record_of(one: Listed) -> dict[str, object]:
    """Return a dataset for an export; facts that were not read are null."""
    facts = one.facts
    ends = {"first": None, "last": None} if facts is None else {"first": plain(facts.first), "last": plain(facts.last)}
    return {
        "path": str(one.place),
        "format": None if one.format is None else one.format.name,
        **{name: getattr(facts, name, None) for name in ("sequences", "tokens", "dtype", "eos_id", "max_id")},
        **ends,
        "bytes": one.size,
        "findings": one.severities,
    }
