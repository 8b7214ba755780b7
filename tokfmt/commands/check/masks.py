"""Find sequences without a token that counts in the loss."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tokfmt.core.findings import Finding
from tokfmt.core.loss_mask import MASKED_END, TARGET, UNENDED
from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import TokenReader
from tokfmt.files.place import Place
from tokfmt.model.readers import ContentReader


class Counted:
    """A search for sequences without a token that counts in the loss; it holds 1 byte per sequence."""

    def __init__(self, reader: TokenReader) -> None:
        self.reader = reader
        self.counts = np.zeros(reader.info.sequences, np.bool_)
        self.separated = isinstance(reader, ContentReader)
        """True if the marks of removed separators are those of the tokens before them."""

    @staticmethod
    def of(reader: TokenReader) -> Counted | None:
        """Return a search; None if the dataset has no masks."""
        return None if reader.marks(0, 0) is None else Counted(reader)

    def search(self, start: int, tokens: Tokens) -> None:
        """Look at the marks of the tokens from position `start` on. Threads may call this."""
        stop = start + len(tokens)
        marks = self.reader.marks(start, stop)
        if marks is None or start == stop:
            return
        first = self.reader.sequence_at(start)
        bounds = self.reader.offsets(first, self.reader.sequence_at(stop - 1) + 1)
        counted = marks & TARGET != 0
        if self.separated:
            ends = bounds[1:][(bounds[1:] > start) & (bounds[1:] <= stop)] - 1 - start
            counted[ends] |= marks[ends] & (MASKED_END | UNENDED) == 0
        at = np.flatnonzero(counted) + start
        self.counts[first + np.unique(np.searchsorted(bounds, at, side="right")) - 1] = True

    def findings(self, path: Place) -> Iterator[Finding]:
        """Report the sequences without a token that counts, once every token was looked at."""
        lengths = np.diff(self.reader.offsets(0, len(self.counts)))
        silent = np.flatnonzero(~self.counts & (lengths > 0))
        if len(silent):
            problem = f"{len(silent):,} of {len(self.counts):,} sequences have no token that counts in the loss"
            remedy = "Remove them: they add nothing to training"
            yield Finding("TF942", "warning", str(path), f"{problem} (first: sequence {silent[0]:,})", remedy)
