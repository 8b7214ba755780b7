"""Count the contribution of each source to a recipe, or to a range of it, exactly and from indexes alone.

Complete passes over one source follow from its packing. In three cases the sequences of a pass are counted in windows,
with memory that does not depend on their number:

- sources are packed together,
- a pass is not complete,
- a source is a recipe.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.reader import TokenReader, windows
from tokfmt.mix.cache import Numbers
from tokfmt.mix.documents import Documents
from tokfmt.mix.packing import Packing, Selection
from tokfmt.mix.samples import Drawn, Samples

_AT_ONCE = 1 << 18  # documents per window
_ROWS = 1 << 12  # samples per window of a source that is a recipe, because each is resolved by itself


@dataclass(slots=True)
class Amount:
    """The contribution of a source."""

    tokens: int = 0  # in the result; for samples, all positions except padding, separators included
    # how often a sequence that filters and quota take is in the result, on average; for samples, `tokens` over the
    # positions of the source in the samples of one pass
    passes: float = 0.0
    # sequences in the result that samples cut, each counted once; None for documents, and if cuts are not counted
    cut: int | None = None
    documents: int = 0  # in the result; 0 for samples, which hold parts of documents
    inner: list[Amount] = field(default_factory=list)  # of the sources of a source that is a recipe

    def add(self, other: Amount) -> None:
        """Add another contribution of the same source; `cut` and `documents` stay unchanged."""
        self.tokens, self.passes = self.tokens + other.tokens, self.passes + other.passes
        if not self.inner:
            self.inner = [Amount() for _ in other.inner]
        for mine, more in zip(self.inner, other.inner, strict=True):
            mine.add(more)


def amounts_of(
    view: Samples | Documents, first: int = 0, last: int | None = None, *, cut: bool = False
) -> list[Amount]:
    """Return what each source gives to the samples or documents `first <= k < last`, and what they `cut`."""
    last = view.info.sequences if last is None else last
    return _of_samples(view, first, last, cut=cut) if isinstance(view, Samples) else _of_documents(view, first, last)


def nonempty(reader: TokenReader) -> int:
    """Return the number of sequences that are not empty."""
    count = reader.info.sequences
    return sum(int(np.count_nonzero(np.diff(reader.offsets(a, b)))) for a, b in windows(0, count, _AT_ONCE))


class _Tally:
    """The counts of sequences and tokens by source, and by the sources of sources that are recipes."""

    def __init__(self, recipe: Documents | Samples) -> None:
        self.recipe, count = recipe, len(recipe.sources)
        self.sequences, self.tokens = np.zeros(count, np.int64), np.zeros(count, np.int64)
        readers = [source.all_of_it for source in recipe.sources]
        self.inner = {k: _Tally(reader) for k, reader in enumerate(readers) if isinstance(reader, (Documents, Samples))}

    def add(self, source: Numbers, numbers: Numbers, tokens: Numbers) -> None:
        """Count sequences that contribute tokens. Sequences that contribute 0 tokens do not count."""
        count, contributing = len(self.tokens), np.flatnonzero(tokens)
        self.sequences += np.bincount(source[contributing], minlength=count)
        self.tokens += np.bincount(source, tokens, count).astype(np.int64)
        for k, inner in self.inner.items():
            mine = contributing[source[contributing] == k]
            inner.follow(numbers[mine], tokens[mine])

    def follow(self, numbers: Numbers, tokens: Numbers) -> None:
        """Count sequences of this recipe, by their numbers in it, for its sources."""
        if isinstance(self.recipe, Documents):
            self.add(*self.recipe.origins(numbers), tokens)
            return
        for a, b in windows(0, len(numbers), _ROWS):
            spans = self.recipe.table(numbers[a:b])
            self.add(spans.source, spans.sequence, spans.stop - spans.start)

    def plus(self, other: _Tally, times: int = 1) -> None:
        """Add another tally of the same recipe, `times` times."""
        self.sequences += other.sequences * times
        self.tokens += other.tokens * times
        for k, inner in self.inner.items():
            inner.plus(other.inner[k], times)

    def inside(self, k: int, whole: _Tally) -> list[Amount]:
        """Return the contributions of the sources of source k, if it is a recipe; `whole` is the tally of one pass."""
        return self.inner[k].given(whole.inner[k]) if k in self.inner else []

    def given(self, whole: _Tally) -> list[Amount]:
        """Return the contribution of each source; `whole` is the tally of one pass over the outer recipe."""
        amounts = list[Amount]()
        once = amounts_of(self.recipe) if isinstance(self.recipe, Samples) else None
        for k, source in enumerate(self.recipe.sources):
            tokens, of_pass = int(self.tokens[k]), int(whole.tokens[k])
            passes = tokens / of_pass if of_pass else 0.0
            passes *= once[k].passes if once else int(whole.sequences[k]) / max(1, nonempty(source.distinct))
            amounts.append(Amount(tokens, passes, inner=self.inside(k, whole)))
        return amounts


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
    """The sequences that samples cut, by source."""

    def __init__(self, view: Samples, lists: list[Drawn]) -> None:
        self.counts = np.zeros(len(view.sources), np.int64)
        walks = np.zeros(len(view.sources), np.int64)
        for one in lists:
            walks[one.packing.axis.numbers] += 1 if one.whole else len(one.parts)
        self.marks: dict[int, NDArray[np.bool_]] = {  # of sources whose sequences can be counted twice
            k: np.zeros(source.all_of_it.info.sequences, np.bool_)
            for k, source in enumerate(view.sources)
            if walks[k] > 1 or source.once < source.info.sequences
        }

    def add(self, source: Numbers, numbers: Numbers, cut: NDArray[np.bool_]) -> None:
        """Add sequences by their sources and their numbers there, with True for each that is cut."""
        self.counts += np.bincount(source[cut], minlength=len(self.counts))
        for k, marks in self.marks.items():
            marks[numbers[cut & (source == k)]] = True

    def of(self, k: int) -> int:
        """Return the number of sequences of a source that are cut."""
        return int(self.marks[k].sum() if k in self.marks else self.counts[k])


def _every(a: int, b: int) -> NDArray[np.bool_]:
    return np.ones(b - a, np.bool_)


def _of_samples(view: Samples, first: int, last: int, *, cut: bool) -> list[Amount]:
    amounts, lists = [Amount() for _ in view.sources], view.lists(first, last)
    cuts = _Cuts(view, lists) if cut else None
    for drawn_list in lists:
        numbers = drawn_list.packing.axis.numbers
        of_pass, drawn = _of_pass(view, drawn_list, cuts if drawn_list.whole else None), _Tally(view)
        drawn.plus(of_pass, drawn_list.whole)
        for part in drawn_list.parts:
            drawn.plus(_walked(view, drawn_list.packing, part, None if drawn_list.whole else cuts))
        for k in numbers:
            source, tokens, each = view.sources[k], int(drawn.tokens[k]), int(of_pass.tokens[k])
            repeated = source.info.sequences / max(1, source.once)
            passes = tokens / each * repeated if each else 0.0
            amounts[k].add(Amount(tokens, passes, inner=drawn.inside(k, of_pass)))
    for k, amount in enumerate(amounts):
        amount.cut = cuts.of(k) if cuts else None
    return amounts


def _of_pass(view: Samples, drawn_list: Drawn, cuts: _Cuts | None) -> _Tally:
    """Return the tally of one pass over a list."""
    tally, (k, *others) = _Tally(view), drawn_list.packing.axis.numbers
    if others or k in tally.inner or cuts:
        return _walked(view, drawn_list.packing, _every, cuts)
    tally.tokens[k] = drawn_list.packing.tokens
    return tally


def _walked(view: Samples, packing: Packing, selection: Selection, cuts: _Cuts | None) -> _Tally:
    """Return the tally of the selected samples of a pass."""
    tally, names = _Tally(view), np.array(packing.axis.numbers, np.int64)
    for window in packing.sequences_in(selection):
        source, numbers = packing.axis.located(window.sequences)
        tally.add(names[source], numbers, window.tokens)
        if cuts:
            cuts.add(names[source], numbers, window.cut)
    return tally
