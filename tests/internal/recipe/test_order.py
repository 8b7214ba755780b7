"""The order of samples: permutations, the even tree, passes, budgets, steps and ranks."""

import tracemalloc
from pathlib import Path

import numpy as np

from tokfmt.core.reader import Info, Layout
from tokfmt.plugin import TokenReader
from tokfmt.recipes.documents import Source
from tokfmt.recipes.language import parse_recipe
from tokfmt.recipes.samples import Samples


class Endless(TokenReader):
    """A stream of 2 * 10^13 tokens that nobody stores: the id at p is p % 50000."""

    info = Info(Layout.STREAM, np.dtype(np.uint16), 1, 2 * 10**13)

    def tokens(self, start, stop):
        return (np.arange(start, stop) % 50_000).astype(np.uint16)

    def offsets(self, first, last):
        return np.array([0, self.info.tokens])[first : last + 1]

    def close(self):
        pass


def test_a_recipe_of_five_billion_samples():
    entries = [{"path": "a", "weight": 0.9}, {"path": "b", "weight": 0.1}]
    words = {"seq_len": 4096, "shuffle": "samples", "to_eos": "none", "tokens": 2 * 10**13, "source": entries}
    file = parse_recipe(words, Path("mix.toml"))
    held = [Source(name, (Path(name),), "held", Endless(), None, [name], {"name": name}) for name in "ab"]
    first = Samples(file, held)  # what is imported is not counted
    assert len(first.samples([0])["input_ids"]) == len(first.spans(0)) == 1
    tracemalloc.start()
    view = Samples(file, held)
    for k in (0, 10**9, len(view) - 1):
        row = view.samples([k])["input_ids"][0].astype(int)
        assert ((row[1:] - row[:-1]) % 50_000 == 1).all()
        assert (row[0] - view.spans(k)[0].start) % 50_000 == 0
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()
    assert len(view) == 2 * 10**13 // 4096
