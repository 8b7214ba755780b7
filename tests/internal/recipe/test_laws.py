"""Laws of packings over made datasets, against an oracle that shares no code."""

from pathlib import Path

import numpy as np
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from recipe import oracle

from tokfmt.core.reader import Info, Layout, check_interval
from tokfmt.plugin import TokenReader
from tokfmt.recipes.documents import Documents, Source
from tokfmt.recipes.language import parse_recipe
from tokfmt.recipes.samples import Samples

sequence = st.lists(st.integers(1, 60), max_size=11)
source = st.lists(sequence, min_size=1, max_size=12)
sources = st.lists(source, min_size=1, max_size=3).filter(lambda found: sum(map(len, sum(found, []))) > 1)


class Held(TokenReader):
    """Sequences in memory."""

    def __init__(self, sequences):
        self.flat = np.array([token for ids in sequences for token in ids], np.uint16)
        self.bounds = np.cumsum([0, *map(len, sequences)]).astype(np.int64)
        self.info = Info(Layout.DOCUMENTS, np.dtype(np.uint16), len(sequences), len(self.flat))

    def tokens(self, start, stop):
        check_interval(start, stop, len(self.flat))
        return self.flat[start:stop]

    def offsets(self, first, last):
        check_interval(first, last, len(self.bounds) - 1)
        return self.bounds[first : last + 1]

    def close(self):
        pass


def opened(found, **words):
    """A recipe of sequences in memory."""
    weights = words.pop("weights", None) or [None] * len(found)
    epochs = words.pop("epochs_of", None) or [None] * len(found)
    entries = [
        {"path": f"s{k}", **({"weight": w} if w else {}), **({"epochs": e} if e else {})}
        for k, (w, e) in enumerate(zip(weights, epochs, strict=True))
    ]
    file = parse_recipe({**words, "source": entries}, Path("mix.toml"))
    held = [
        Source(f"s{k}", (Path(f"s{k}"),), "held", Held(sequences), None, [k], {"name": k})
        for k, sequences in enumerate(found)
    ]
    if file.seq_len is None:
        return Documents(file, held, None)
    return Samples(file, held)


@settings(max_examples=examples(60), deadline=None)
@given(sources, st.integers(1, 9), st.integers(1, 9))
def test_best_fit_in_groups_is_best_fit_of_each_group(found, width, group):
    """Pieces are planned so many at a time; a group has no part in another's samples."""
    from unittest import mock

    sequences = oracle.items_of(found, None)
    pieces = oracle.document(sequences, width, "same", "split")
    if not pieces:
        return
    wanted = []
    for at in range(0, len(pieces), group):
        rows, _ = oracle.bestfit([[item for item, _ in piece] for piece in pieces[at : at + group]], width, "same")
        wanted += rows
    with mock.patch("tokfmt.recipes.packing.GROUP", group):
        view = opened(found, pack="bestfit", seq_len=width, labels="same", to_eos="none")
    assert [view.spans(k) for k in range(len(view))] == [oracle.spans_of(rows, "same", None) for rows in wanted]
