"""What rows of samples are: pieces of documents that were cut, or sequences of their own. One rule for every format.

    asked       an option of the reader says it                               stride=disjoint, view=samples
    stated      what wrote the rows says it: in the file, or in the manifest   attribute `stride`, `Manifest.rows`
    shown       the tokens continue each other, or the format is one stream   shared tokens, stage-1 blocks
    otherwise   each row is a sequence, and a note names the option that joins

The first that says anything decides: what is stated is never compared with statistics of the tokens. Rows are joined
where something shows that they continue each other. That nothing shows the contrary is no evidence: rows in random
order, and rows that are documents, look like windows side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

ROWS = "rows"
"""Each row is a sequence."""


class Continuation(NamedTuple):
    """How rows continue each other.

    Attributes:
        how: `ROWS`, or a word of the format.
        why: In words, with numbers.
        joins: Of `ROWS`, the word of the format that joins them all the same.
    """

    how: str
    why: str
    joins: str = ""


def continuation(asked: str | None, stated: str | None, shown: Callable[[], Continuation]) -> Continuation:
    """Decide how rows continue each other.

    Args:
        asked: What the user says; None: nothing.
        stated: What the file or its manifest says; None: nothing.
        shown: Looks for evidence; `ROWS` if it finds none. Called only if nothing is asked or stated.
    """
    if asked is not None:
        return Continuation(asked, "as asked")
    if stated is not None:
        return Continuation(stated, "as stated by what wrote it")
    return shown()
