"""Decide whether the rows of samples are parts of cut documents, or separate sequences. All formats follow this rule.

    asked       a read option of the format decides                           stride=disjoint, view=samples
    stated      the file or its manifest states it                            attribute `stride`, `Manifest.rows`
    shown       the tokens continue each other, or the format is one stream   shared tokens, stage-1 blocks
    otherwise   each row is a sequence, and a note has the option that joins rows

The first source that decides wins: a statement is never compared with statistics of the tokens. Rows are joined if
there is evidence that they continue each other. The absence of contrary evidence is not enough: rows in random order,
and rows that are documents, look like consecutive windows.
"""

from __future__ import annotations

from typing import NamedTuple

ROWS = "rows"
"""Each row is a sequence."""


class Continuation(NamedTuple):
    """The relation between consecutive rows."""

    how: str  # `ROWS`, or a word of the format
    why: str  # the evidence, in words and numbers
    joins: str = ""  # with `ROWS`, the word of the format that joins rows anyway
