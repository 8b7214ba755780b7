"""Bookmarks of a dataset: places in its views, kept between runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from tokfmt.tui.remembered import recall, remember

MOST = 100
"""Bookmarks of a dataset; one more replaces the oldest."""

_WORDS = 48


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A place.

    Attributes:
        view: Name of the view. row: In it. unit: Of the row.
        words: What the row begins with.
        split: In which split; "" where there are none.
    """

    view: str
    row: int
    unit: int
    words: str = ""
    split: str = ""


class Bookmarks:
    """Those of one dataset, the oldest first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        told = recall(path).get("bookmarks")
        self.all = [found for found in map(_read, told if isinstance(told, list) else []) if found][-MOST:]

    def rows(self, view: str, split: str = "") -> frozenset[int]:
        """The rows of a view that have one."""
        return frozenset(one.row for one in self.all if (one.view, one.split) == (view, split))

    def toggle(self, bookmark: Bookmark) -> bool:
        """Add it, or remove those of its row; whether there is one now."""
        kept = [one for one in self.all if _place(one) != _place(bookmark)]
        added = len(kept) == len(self.all)
        self._keep([*kept, bookmark] if added else kept)
        return added

    def remove(self, bookmark: Bookmark) -> None:
        """Forget one."""
        self._keep([one for one in self.all if one != bookmark])

    def _keep(self, bookmarks: list[Bookmark]) -> None:
        self.all = bookmarks[-MOST:]
        remember(self._path, bookmarks=[asdict(one) for one in self.all] or None)


def bookmark(view: str, row: int, unit: int, words: str, split: str = "") -> Bookmark:
    """One whose words are short enough to be kept."""
    return Bookmark(view, row, unit, " ".join(words.split())[:_WORDS], split)


def _place(one: Bookmark) -> tuple[str, str, int]:
    """A row has one at most."""
    return one.split, one.view, one.row


def _read(told: object) -> Bookmark | None:
    """One from the file, which anybody may have edited."""
    if not isinstance(told, dict):
        return None
    view, row, unit, words = (told.get(name) for name in ("view", "row", "unit", "words"))
    split = told.get("split", "")
    if not isinstance(view, str) or not isinstance(words, str) or not isinstance(row, int) or not isinstance(unit, int):
        return None
    return bookmark(view, row, unit, words, split) if min(row, unit) >= 0 and isinstance(split, str) else None
