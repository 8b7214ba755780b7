"""What each source gives to a recipe, or to a range of it: counted exactly, from indexes alone.

Whole passes over one source follow from its packing. Where sources are packed together, a pass is taken in part, or a
source is a recipe itself, the sequences of a pass are counted window by window, in memory that does not depend on them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.reader import TokenReader, windows
from tokfmt.recipes.cache import Numbers
from tokfmt.recipes.documents import Documents
from tokfmt.recipes.packing import Packing, Some
from tokfmt.recipes.samples import Drawn, Samples

_AT_ONCE = 1 << 18  # documents
_ROWS = 1 << 12  # samples of a recipe among the sources, which are followed one by one


@dataclass(slots=True)
class Amount:
    """What a source gives.

    Attributes:
        tokens: In the result; of samples all positions but padding, so separators as well.
        passes: How often a sequence of the source is in the result, on average over those that its filters and its
            quota take. Of samples: `tokens` over the positions of the source that the samples of one pass hold.
        cut: Its sequences in the result that samples cut, each counted once; None if it was not asked for, and of
            documents, which stay whole.
        documents: How many are in the result; 0 of samples, which hold parts of them.
        inner: The same of each source of the recipe that it is; empty for a dataset.
    """

    tokens: int = 0
    passes: float = 0.0
    cut: int | None = None
    documents: int = 0
    inner: list[Amount] = field(default_factory=list)

    def add(self, other: Amount) -> None:
        """Add what the same source gives besides; nothing of `cut`."""
        self.tokens, self.passes = self.tokens + other.tokens, self.passes + other.passes
        if not self.inner:
            self.inner = [Amount() for _ in other.inner]
        for mine, more in zip(self.inner, other.inner, strict=True):
            mine.add(more)


def amounts(view: Samples | Documents, first: int = 0, last: int | None = None, *, cut: bool = False) -> list[Amount]:
    """What each source gives to samples or documents `first <= k < last`; None: to the end.

    Args:
        cut: Count the sequences that samples cut, which takes a walk over all of them.
    """
    last = view.info.sequences if last is None else last
    return _of_samples(view, first, last, cut=cut) if isinstance(view, Samples) else _of_documents(view, first, last)


def filled(reader: TokenReader) -> int:
    """Sequences that have a token."""
    count = reader.info.sequences
    return sum(int(np.count_nonzero(np.diff(reader.offsets(a, b)))) for a, b in windows(0, count, _AT_ONCE))


class _Tally:
    """Sequences and tokens by source, and by the sources of recipes among them."""

    def __init__(self, recipe: Documents | Samples) -> None:
        self.recipe, count = recipe, len(recipe.sources)
        self.sequences, self.tokens = np.zeros(count, np.int64), np.zeros(count, np.int64)
        readers = [source.all_of_it for source in recipe.sources]
        self.inner = {k: _Tally(one) for k, one in enumerate(readers) if isinstance(one, (Documents, Samples))}

    def add(self, source: Numbers, numbers: Numbers, tokens: Numbers) -> None:
        """Sequences by their numbers in sources, and how many tokens each of them gives; none of those without any."""
        count, given = len(self.tokens), np.flatnonzero(tokens)
        self.sequences += np.bincount(source[given], minlength=count)
        self.tokens += np.bincount(source, tokens, count).astype(np.int64)
        for k, inner in self.inner.items():
            mine = given[source[given] == k]
            inner.follow(numbers[mine], tokens[mine])

    def follow(self, numbers: Numbers, tokens: Numbers) -> None:
        """The same of sequences of the recipe."""
        if isinstance(self.recipe, Documents):
            self.add(*self.recipe.origins(numbers), tokens)
            return
        for a, b in windows(0, len(numbers), _ROWS):
            spans = self.recipe.table(numbers[a:b])
            self.add(spans.source, spans.sequence, spans.stop - spans.start)

    def plus(self, other: _Tally, times: int = 1) -> None:
        """Add another tally of the same recipe."""
        self.sequences += other.sequences * times
        self.tokens += other.tokens * times
        for k, inner in self.inner.items():
            inner.plus(other.inner[k], times)

    def inside(self, k: int, whole: _Tally) -> list[Amount]:
        """What the sources of source k give, if it is a recipe; `whole`: the tally of one pass."""
        return self.inner[k].given(whole.inner[k]) if k in self.inner else []

    def given(self, whole: _Tally) -> list[Amount]:
        """What the sources give; `whole`: the tally of one pass over the recipe that this one is inside of."""
        found = list[Amount]()
        once = amounts(self.recipe) if isinstance(self.recipe, Samples) else None
        for k, source in enumerate(self.recipe.sources):
            tokens, of_pass = int(self.tokens[k]), int(whole.tokens[k])
            passes = tokens / of_pass if of_pass else 0.0
            passes *= once[k].passes if once else int(whole.sequences[k]) / max(1, filled(source.distinct))
            found.append(Amount(tokens, passes, inner=self.inside(k, whole)))
        return found


def _of_documents(view: Documents, first: int, last: int) -> list[Amount]:
    tally, count = _Tally(view), len(view.sources)
    sequences = np.zeros(count, np.int64)
    if not tally.inner and view.in_ranges(first, last):
        for k, a, b, tokens in view.ranges(first, last):
            sequences[k] += b - a
            tally.tokens[k] += tokens
    else:
        for a, b in windows(first, last, _AT_ONCE):
            source, numbers = view.origins(np.arange(a, b))
            tally.add(source, numbers, np.diff(view.offsets(a, b)))
            sequences += np.bincount(source, minlength=count)
    return [
        Amount(tokens, count / max(1, source.once), documents=count, inner=tally.inside(k, tally))
        for k, (source, tokens, count) in enumerate(
            zip(view.sources, tally.tokens.tolist(), sequences.tolist(), strict=True)
        )
    ]


class _Cuts:
    """Sequences that samples cut, by source."""

    def __init__(self, view: Samples, lists: list[Drawn]) -> None:
        self.counts = np.zeros(len(view.sources), np.int64)
        walks = np.zeros(len(view.sources), np.int64)
        for one in lists:
            walks[one.packing.axis.numbers] += 1 if one.whole else len(one.parts)
        self.marks: dict[int, NDArray[np.bool_]] = {  # where a sequence may come twice
            k: np.zeros(source.all_of_it.info.sequences, np.bool_)
            for k, source in enumerate(view.sources)
            if walks[k] > 1 or source.once < source.info.sequences
        }

    def add(self, source: Numbers, numbers: Numbers, cut: NDArray[np.bool_]) -> None:
        """Sequences by their numbers in sources, and which of them are cut."""
        self.counts += np.bincount(source[cut], minlength=len(self.counts))
        for k, marks in self.marks.items():
            marks[numbers[cut & (source == k)]] = True

    def of(self, k: int) -> int:
        """How many sequences of a source."""
        return int(self.marks[k].sum() if k in self.marks else self.counts[k])


def _every(a: int, b: int) -> NDArray[np.bool_]:
    return np.ones(b - a, np.bool_)


def _of_samples(view: Samples, first: int, last: int, *, cut: bool) -> list[Amount]:
    found, lists = [Amount() for _ in view.sources], view.lists(first, last)
    cuts = _Cuts(view, lists) if cut else None
    for one in lists:
        numbers = one.packing.axis.numbers
        of_pass, drawn = _of_pass(view, one, cuts if one.whole else None), _Tally(view)
        drawn.plus(of_pass, one.whole)
        for part in one.parts:
            drawn.plus(_walked(view, one.packing, part, None if one.whole else cuts))
        for k in numbers:
            source, tokens, each = view.sources[k], int(drawn.tokens[k]), int(of_pass.tokens[k])
            repeated = source.info.sequences / max(1, source.once)
            passes = tokens / each * repeated if each else 0.0
            found[k].add(Amount(tokens, passes, inner=drawn.inside(k, of_pass)))
    for k, amount in enumerate(found):
        amount.cut = cuts.of(k) if cuts else None
    return found


def _of_pass(view: Samples, one: Drawn, cuts: _Cuts | None) -> _Tally:
    """What one pass over a list holds."""
    tally, (k, *others) = _Tally(view), one.packing.axis.numbers
    if others or k in tally.inner or cuts:
        return _walked(view, one.packing, _every, cuts)
    tally.tokens[k] = one.packing.tokens
    return tally


def _walked(view: Samples, packing: Packing, some: Some, cuts: _Cuts | None) -> _Tally:
    """What some samples of a pass hold."""
    tally, names = _Tally(view), np.array(packing.axis.numbers, np.int64)
    for held in packing.held(some):
        source, numbers = packing.axis.located(held.places)
        tally.add(names[source], numbers, held.tokens)
        if cuts:
            cuts.add(names[source], numbers, held.cut)
    return tally
