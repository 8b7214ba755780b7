"""Filters of texts: each rule as its words say, against an oracle that reads them character by character."""

import tracemalloc
from dataclasses import asdict

import pytest
from amount import every, first
from filter_oracle import broken, value_of
from hypothesis import example, given
from hypothesis import strategies as st

from tokfmt.text.filters import GARBAGE, Rejection, rejections

FilterRules = type(GARBAGE)


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


@given(st.lists(TEXTS), FILTERS)
@example(["a     a", "aaaaa", "aaaaaaaaab", "", " ", "aaa", "aa"], FilterRules(max_char_repetition=0.0))
def test_rules_equal_their_definitions(texts, rules):
    assert rejections(texts, rules) == [judged(text, rules) for text in texts]


@pytest.mark.parametrize("rule", [rule for rule in FilterRules.__dataclass_fields__ if "tokens" not in rule])
@given(text=TEXTS)
def test_equal_to_a_threshold_stays(rule, text):
    value = value_of(text, rule)
    assert rejections([text], FilterRules(**{rule: value})) == [None]


@pytest.mark.parametrize("count", [1_000, every(10_000)])
def test_thousands_of_texts(count):
    """Words of few letters, so that sums of weights collide; runs across the borders of texts and batches."""
    state, texts = 12345, []
    for k in range(count):
        words = []
        for _ in range(k % 300):
            state = state * 1103515245 + 12345 & 0x7FFFFFFF
            words.append(
                ("ab", "ba", "abc", "cab", "-----", "é", f"w{state >> 8 & 511}")[(state >> 16) % 7 if k % 3 else 6]
            )
        texts.append(" ".join(words) if k % 5 else "".join(words))
    for rules in (
        GARBAGE,
        FilterRules(min_word_diversity=0.4),
        FilterRules(max_word_share=0.2),
        FilterRules(max_char_repetition=0.3),
    ):
        expected = [judged(text, rules) for text in texts]
        assert rejections(texts, rules) == expected
        assert 0 < sum(verdict is None for verdict in expected) < len(texts)


def test_more_than_a_thousand_words():
    text = " ".join(["same"] * 1000 + [f"w{k}" for k in range(5000)])
    assert rejections([text], FilterRules(max_word_share=0.5)) == [Rejection("max_word_share", 1.0)]
    assert rejections([text], FilterRules(min_word_diversity=0.002)) == [Rejection("min_word_diversity", 0.001)]


@pytest.mark.parametrize("text", ["a " * 4_000_000, "x" * 8_000_000, "! " * 4_000_000, "é\u6f22 " * 2_700_000])
def test_a_long_text_takes_little_memory(text):
    """Judged whole, each of its characters took up to 25 bytes."""
    tracemalloc.start()
    for rule in FilterRules.__dataclass_fields__:
        rejections([text], FilterRules(**{rule: getattr(GARBAGE, rule)}))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30 << 20


def test_every_code_point_is_known():
    """Unicode assigns planes as it grows: all are asked, one text each of 4,096 code points in a row."""
    rules = FilterRules(max_symbol_ratio=0.0)
    for a in range(0, 0x110000, 0x1000):
        text = "".join(map(chr, range(a, a + 0x1000)))
        assert rejections([text], rules) == [judged(text, rules)]


PIECE = 1 << 19
"""Code points that are judged at once."""
BORDERS = {
    "run": "x" * 3000,
    "words": "the " * 750,
    "symbols": "-" * 3000,
    "marks": "e\u0301" * 1500,
    "han": "\u6f22\u5b57 " * 1000,
    "halves": "\ud800" * 3000,
    "space": " \t\n" * 1000,
}


@pytest.mark.parametrize("border", first(1, BORDERS))
def test_long_texts_are_judged_in_pieces(border):
    """As they would be whole, wherever a piece ends: in a word, in a run, between the halves of a character."""
    filler = "ab cab été 12 -- "
    text = (filler * (PIECE // len(filler) + 1))[: PIECE - 1500] + BORDERS[border] + " " + filler * 100
    for rule in ("max_symbol_ratio", "max_char_repetition", "min_word_diversity", "max_word_share"):
        value = value_of(text, rule)
        beyond = value * (1.0001 if rule.startswith("min") else 0.9999)
        assert rejections([text], FilterRules(**{rule: value})) == [None]
        if value:
            assert rejections([text], FilterRules(**{rule: beyond})) == [Rejection(rule, value)]
