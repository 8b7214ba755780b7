"""n-grams of evals against sets of n-grams in lists, also where n-grams that differ have the same hash."""

import numpy as np
import overlap_oracle as oracle
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tokfmt.core.ragged import Ragged
from tokfmt.text.ngrams import of_texts, of_tokens
from tokfmt.text.words import spans_of, words_of

SEQUENCES = st.lists(st.lists(st.integers(0, 4), max_size=10), max_size=6)
TEXTS = st.lists(st.text("ab \u00e9\u0130\u6771\u30ab.\u03a3\U00020000", max_size=20), max_size=6)
BASES = st.sampled_from([1, None])
"""With 1, a hash is a sum: each order of the same numbers, or letters, has the same hash."""


def places(found):
    return list(zip(*(column.tolist() for column in found[:2]), strict=True))


def expected(documents, items, n):
    wanted = {one for item in items for one in oracle.grams(item, n)}
    return [
        (k, at) for k, one in enumerate(documents) for at, gram in enumerate(oracle.grams(one, n)) if gram in wanted
    ]


@given(SEQUENCES, SEQUENCES.filter(len), st.integers(1, 4), BASES)
@settings(deadline=None)
@example([[1, 2], [2, 1], [0, 3], [3, 0]], [[2, 1], [3, 0], [1, 2]], 2, 1)
def test_tokens(documents, items, n, base):
    index = of_tokens([np.array(item, np.uint32) for item in items], n, base)
    assert places(index.in_ragged(Ragged.of(documents, np.dtype(np.uint16)))) == expected(documents, items, n)
    grams = {}
    for item, (a, b) in enumerate(zip(index.bounds.tolist(), index.bounds.tolist()[1:], strict=False)):
        for at, gram in enumerate(oracle.grams(items[item], n)):
            assert grams.setdefault(gram, int(index.grams[a + at])) == index.grams[a + at]
        assert (index.grams[max(a, b - n + 1) : b] == -1).all()
    assert len(set(grams.values())) == len(grams) == len(index.hashes)


@given(TEXTS, TEXTS.filter(len), st.integers(1, 3), BASES)
@settings(deadline=None)
@example(["ab ba abb"], ["ba ab", "bab"], 1, 1)
def test_words(documents, items, n, base):
    split = [list(map(oracle.words, texts)) for texts in (documents, items)]
    assert places(of_texts(items, n, base).in_texts(documents, every=True)) == expected(split[0], split[1], n)


@given(TEXTS)
@settings(deadline=None)
def test_spans_are_those_of_the_words(texts):
    for text in texts:
        starts, stops = spans_of(text)
        spelled = [text[a:b].lower() for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]
        assert [one.replace("\u03c2", "\u03c3") for one in spelled] == [
            one.replace("\u03c2", "\u03c3") for one in oracle.words(text)
        ]


@pytest.mark.parametrize("shift", range(4))
def test_a_cut_through_a_character_keeps_its_word(shift):
    """Pieces of 256 KiB end within words of characters of two, three and four bytes."""
    text = "a" * shift + " " + " ".join("\u00e9\ud55c\U0001d4b6b" for _ in range(60_000))
    found = [word.decode() for words in words_of([text]) for word in words.spelled(slice(None))]
    assert found == oracle.words(text)


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_many_n_grams_and_large_ids(dtype):
    rng = np.random.default_rng(2)
    top = min(int(np.iinfo(dtype).max), 1 << 40)
    corpus = rng.integers(0, top, 300_000).astype(dtype)
    items = [corpus[a : a + 20] for a in range(0, 200_000, 1_000)] + [
        rng.integers(0, top, 100).astype(dtype) for _ in range(5_000)
    ]
    at, _ = of_tokens(items, 13).in_tokens(corpus)
    assert at.tolist() == [a + k for a in range(0, 200_000, 1_000) for k in range(8)]
