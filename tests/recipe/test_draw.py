"""Documents of a recipe of text are drawn in parts: the same ones whatever memory holds."""

from pathlib import Path

import numpy as np
from amount import examples
from drawn import ENTRY
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.mix.draw import Kept, draw, in_order


def order(seed, count):
    """How documents are drawn: by words of a counter-based generator, whose key says what they are for."""
    keys = np.random.Philox(key=34 << 64 | seed, counter=0).random_raw(max(1, count))[:count]
    return sorted(range(count), key=lambda number: (keys[number], number))


@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 6)), max_size=60),
    st.integers(0, 3), st.none() | st.integers(0, 80), st.integers(1, 9),
)  # fmt: skip
@settings(max_examples=examples(200))
def test_drawing_in_parts(rows, seed, quota, at_once):
    """Whatever is held in memory, and however much is drawn at once."""
    entries = np.array([(tokens, tokens, rule, word % 2, word) for tokens, rule, word in rows], ENTRY)
    kept, seen, total = set(), set(), 0
    for number in order(seed, len(rows)):
        tokens, rule, word = rows[number]
        if rule or word in seen:
            continue
        if quota is not None and total + tokens > quota:
            break
        kept.add(number)
        seen.add(word)
        total += tokens
    chosen, looked, tally, _ = draw(entries, in_order(seed, len(rows), at_once), quota, 0, Kept(Path(), 1 << 30))
    assert set(np.flatnonzero(chosen).tolist()) == kept
    assert (tally.kept, tally.tokens, tally.documents) == (len(kept), total, int(looked.sum()))


def test_hashes_that_memory_does_not_hold(tmp_path):
    """Spilled again and again, the same is found; different documents may share their first 64 bits."""
    generator = np.random.default_rng(1)
    held, spilled = Kept(tmp_path, 1 << 30), Kept(tmp_path, 1_000)
    for source in range(12):
        entries = np.zeros(300, ENTRY)
        entries["high"], entries["low"] = generator.integers(0, 300, 300), generator.integers(0, 3, 300)
        first = np.unique(entries, return_index=True)[1]
        expected = held.sources(entries)
        assert np.array_equal(spilled.sources(entries), expected)
        new = entries[first][expected[first] < 0]
        for kept in (held, spilled):
            kept.add(new, source, np.arange(len(new)))
    assert len(list(tmp_path.iterdir())) > 1
