"""The inspection of a store of flat tokens, for its reader, check and sections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tokfmt.core.findings import Audit, Finding
from tokfmt.core.format import Hints
from tokfmt.core.inspection import Inspection
from tokfmt.errors import TokfmtError
from tokfmt.files.fields import Section
from tokfmt.files.place import Place
from tokfmt.formats.flat_tokens.layout import StoreLayout
from tokfmt.formats.flat_tokens.options import ReadOptions
from tokfmt.formats.flat_tokens.reader import FlatTokensReader


class FlatTokensInspection(Inspection):
    """A store. Its problems are those of the store itself; a group is examined when it is read or looked at."""

    def __init__(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> None:
        self._store, self._hints = StoreLayout(paths[0], options), hints
        self.problems = self._store.problems

    def reader(self) -> FlatTokensReader:
        return FlatTokensReader(self._store, is_partial=self._hints.allow_partial)

    def look(self, how: Audit) -> Iterator[Finding]:
        """See `Inspection.look`. The option `split` chooses one group."""
        from tokfmt.formats.flat_tokens.check import findings  # Only a check needs its codes.

        return findings(self._store, how)

    def sections(self) -> Sequence[Section]:
        from tokfmt.formats.flat_tokens.sections import sections

        return sections(self._store)


def glimpse(paths: Sequence[Place], options: ReadOptions, hints: Hints) -> FlatTokensReader | None:
    """Return a reader of the IDs of a split without checks; None if it cannot be opened. See `Format.glimpse`."""
    try:
        return FlatTokensReader(StoreLayout(paths[0], options), is_partial=hints.allow_partial, glimpse=True)
    except TokfmtError:
        return None
