"""The datasets below a folder or a bucket: found as far as the screen needs them, with their facts.

Only facts are kept of a dataset, about a kilobyte each. A dataset is opened to read them, and closed again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tokfmt.browser.data.opening import UNKNOWN, Opening, opened
from tokfmt.core.format import Format
from tokfmt.errors import FormatError, TokfmtError
from tokfmt.files.listing import Listing
from tokfmt.files.place import Place
from tokfmt.source.discover import Skipped, datasets_below
from tokfmt.source.manifest import describes, extent, read_manifest
from tokfmt.source.request import SourceRequest


@dataclass(slots=True)
class Listed:
    """A dataset of a catalog.

    Attributes:
        place: Its path.
        name: Its path relative to the folder. Of files in the folder itself, their name, or what all names begin with.
        format: Its format; None if the path cannot be read.
        failure: The error that prevents reading, or reading more than tokens; "" without one.
        looked: The facts are read.
        sequences, tokens: Their numbers; None if they are unknown.
        size: The size of its files in bytes; None if it is unknown.
        severities: The number of findings of a check without the data, by severity; None before the check.
    """

    place: Place
    name: str
    format: Format | None
    failure: str = ""
    looked: bool = False
    sequences: int | None = None
    tokens: int | None = None
    size: int | None = None
    severities: dict[str, int] | None = None


Rank = str | int | tuple[int, ...]
"""A value of a column, which orders the datasets of a catalog."""

_SEVERITIES = ("error", "warning", "info")


def _loose(format_: Format | TokfmtError, place: Place) -> str:
    """Return the name of a dataset whose files are in the folder of the catalog itself: what their names begin with."""
    names = [] if isinstance(format_, TokfmtError) else [file.name for file in format_.files(place)]
    prefix = os.path.commonprefix(names)  # noqa: RUF071 - of names, character by character
    return f"{prefix}*" if prefix and len(names) > 1 else prefix or "."


def _health(one: Listed) -> Rank | None:
    return None if one.severities is None else tuple(one.severities.get(name, 0) for name in _SEVERITIES)


COLUMNS: Mapping[str, Callable[[Listed], Rank | None]] = {
    "name": lambda one: one.name,
    "format": lambda one: None if one.format is None else one.format.name,
    "sequences": lambda one: one.sequences,
    "tokens": lambda one: one.tokens,
    "size": lambda one: one.size,
    "health": _health,
}
"""The columns in order, each with the value of a dataset; None if it is unknown."""


@dataclass(slots=True)
class Catalog:
    """The datasets below a directory. One thread at a time may call `find`.

    Attributes:
        request: The directory, and how to read the datasets in it.
        directory: The directory.
        found: The datasets so far, in order.
        whole: All datasets are found.
        others: The number of files so far that are not datasets.
        failure: The error that ended the search early; "" without one.
        words: A part of the names of the datasets to list; "" for all.
        by: The column of the order, and whether its values fall. Names rise in the order of the search.
        known: The number of listed datasets whose values were known when they were ordered.
        cursor: The number of the listed dataset under the cursor, for showing the catalog again.
    """

    request: SourceRequest
    directory: Place
    found: list[Listed] = field(default_factory=list)
    whole: bool = False
    others: int = 0
    failure: str = ""
    words: str = ""
    by: tuple[str, bool] = ("name", False)
    known: int = 0
    cursor: int = 0
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

        Args:
            name: The column.
            falling: Begin with the largest value.
        """
        self.by, self._listed, self._passed = (name, falling), [], 0
        listed, values = self.listed, [COLUMNS[name](one) for one in self.listed]
        ranked = [number for number, value in enumerate(values) if value is not None]
        self.known = len(ranked)
        if name == "name":  # they were found in the order of their names
            ranked = ranked[::-1] if falling else ranked
        else:
            ranked.sort(key=values.__getitem__, reverse=falling)  # type: ignore[arg-type]
        unknown = [one for one, value in zip(listed, values, strict=True) if value is None]
        self._listed = [listed[number] for number in ranked] + unknown

    def nothing(self) -> FormatError:
        """Return the error of a directory without datasets."""
        return FormatError(self.directory, "holds no dataset, nor does a directory below it")

    def request_of(self, one: Listed) -> SourceRequest:
        """Return the request for one dataset."""
        return replace(self.request, paths=(one.place,), recursive=False)

    def look(self, one: Listed) -> None:
        """Read the facts of a dataset, in a time that does not depend on its size."""
        try:
            with Listing() as listing:
                self._read(one, one.place.asking(listing))
        except TokfmtError as error:
            one.failure = str(error)
        one.looked = True

    def _read(self, one: Listed, place: Place) -> None:
        if one.format is None:
            return
        one.size = extent(one.format.files(place))["bytes"]
        manifest = read_manifest(place)
        counts = manifest.counts(samples=manifest.rows)
        sequences, tokens = counts.get("sequences"), counts.get("tokens")
        if isinstance(sequences, int) and isinstance(tokens, int) and describes(manifest, one.format, place):
            one.sequences, one.tokens = sequences, tokens
            return
        first = opened(replace(self.request, paths=(place,), recursive=False, format=one.format.name))
        try:
            _count(one, first)
            one.failure = first.damage
        finally:
            first.close()

    def check(self, one: Listed) -> None:
        """Check headers and index of a dataset."""
        from tokfmt.commands.check import CheckRequest, check

        try:
            request = replace(self.request_of(one), format=None if one.format is None else one.format.name)
            one.severities = next(check(CheckRequest(request))).severities
        except TokfmtError as error:
            one.severities, one.failure = {"error": 1}, one.failure or str(error)


def record_of(one: Listed) -> dict[str, object]:
    """Return a dataset for an export; facts that were not read are null."""
    return {
        "path": str(one.place),
        "format": None if one.format is None else one.format.name,
        "sequences": one.sequences,
        "tokens": one.tokens,
        "bytes": one.size,
        "findings": one.severities,
    }


def _count(one: Listed, opening: Opening) -> None:
    """Take the counts of a dataset from what is opened at once."""
    view = opening.views[0]
    if view.axis is None:
        if view.port.whole:
            one.sequences = view.port.count
        return
    if view.name != UNKNOWN:
        one.sequences = view.port.count
    one.tokens = view.tokens
