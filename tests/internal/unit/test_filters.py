"""Filters of texts: each rule as its words say, against an oracle that reads them character by character."""

from dataclasses import asdict

import pytest
from amount import examples
from filter_oracle import broken
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.recipes.language import FilterRules
from tokfmt.text import filters
from tokfmt.text.filters import Rejection, rejections


def judged(text, rules):
    found = broken(text, asdict(rules))
    return None if found is None else Rejection(*found)


WORDS = st.sampled_from(
    ["the", "THE", "a", "aaaaaa", "!!!!!", "-", "été", "x" * 4, "漢字", "e\u0301", "१२", "\U0001f600", "\ud800"]
)
SPACES = st.sampled_from([" ", "  ", "\n", "\t     ", "\u00a0", "\u2003", "\x1c", ""])
TEXTS = st.lists(st.tuples(WORDS, SPACES)).map(lambda pairs: "".join(word + space for word, space in pairs)) | st.text()
SHARES = st.none() | st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 1.0]) | st.floats(0, 2)
FILTERS = st.builds(
    FilterRules,
    min_words=st.none() | st.integers(0, 8),
    min_chars=st.none() | st.integers(0, 20),
    max_symbol_ratio=SHARES,
    max_char_repetition=SHARES,
    min_word_diversity=SHARES,
    max_word_share=SHARES,
)


@given(st.lists(TEXTS), FILTERS, st.integers(1, 9))
@settings(max_examples=examples(200))
def test_long_texts_are_judged_in_pieces(texts, rules, batch):
    """As they would be whole, wherever a piece ends: in a word, in a run, between the halves of a character."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(filters, "_BATCH", batch)
        assert rejections(texts, rules) == [judged(text, rules) for text in texts]
