"""The order of samples: permutations, the even tree, passes, budgets, steps and ranks."""

import pickle
import random
import tracemalloc
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from recipe.held import explain, opened, samples_of

from tokfmt.core.reader import Info, Layout, TokenReader
from tokfmt.errors import ConversionError, OptionError
from tokfmt.mix.order import ORDER_SAMPLES, EvenTree, Permutation, samples_of_step

WEIGHTS = st.lists(st.fractions(Fraction(1, 10**6), 10**6), min_size=1, max_size=9)


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(1, 3000), st.integers(0, 2**64 - 1), st.integers(0, 2**40))
def test_a_permutation_is_one(size, seed, place):
    order = Permutation(size, seed, ORDER_SAMPLES, place)
    found = order.many(np.arange(size))
    assert sorted(found.tolist()) == list(range(size))
    some = random.Random(seed).sample(range(size), min(size, 20))
    assert [order(k) for k in some] == found[some].tolist()


def test_permutations_of_other_seeds_places_and_sizes_differ_and_spread():
    base = Permutation(10_000, 1, ORDER_SAMPLES, 0).many(np.arange(10_000))
    for other in (Permutation(10_000, 2, ORDER_SAMPLES, 0), Permutation(10_000, 1, ORDER_SAMPLES, 1)):
        assert np.count_nonzero(other.many(np.arange(10_000)) == base) < 20
    assert abs(np.corrcoef(base, np.arange(10_000))[0, 1]) < 0.05
    assert abs(np.corrcoef(base[1:], base[:-1])[0, 1]) < 0.05


def test_every_order_of_four_is_about_as_likely():
    seen = Counter(tuple(Permutation(4, seed, ORDER_SAMPLES, 0).many(np.arange(4)).tolist()) for seed in range(4800))
    assert len(seen) == 24
    assert min(seen.values()) > 100
    assert max(seen.values()) < 320


def test_a_permutation_of_ten_to_the_fifteen_takes_no_memory():
    order = Permutation(10**15, 3, ORDER_SAMPLES, 0)
    tracemalloc.start()
    found = {order(k) for k in range(500)}
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert len(found) == 500
    assert max(found) < 10**15


@settings(max_examples=examples(200), deadline=None)
@given(WEIGHTS, st.integers(0, 5000))
def test_every_source_is_within_two_samples_of_its_share(weights, count):
    tree, total = EvenTree(weights), sum(weights)
    for weight, got in zip(weights, tree.counts(count), strict=True):
        assert abs(got - count * weight / total) < 2


@settings(max_examples=examples(100), deadline=None)
@given(WEIGHTS)
def test_a_sample_of_the_tree_is_the_next_of_its_source(weights):
    tree, given_out = EvenTree(weights), [0] * len(weights)
    for k in range(300):
        assert tree.counts(k) == given_out
        source, number = tree.locate(k)
        assert number == given_out[source]
        given_out[source] += 1


def test_extreme_weights_are_no_index_error():
    tree = EvenTree([Fraction(1, 10**15), Fraction(10**15), Fraction(1)])
    assert sum(tree.counts(10**12)) == 10**12
    assert tree.locate(10**12)[0] == 1


@settings(max_examples=examples(100), deadline=None)
@given(WEIGHTS, st.lists(st.integers(0, 200), min_size=9, max_size=9))
def test_the_most_ends_before_the_first_sample_beyond_a_cap(weights, caps):
    tree, caps = EvenTree(weights), caps[: len(weights)]
    most = tree.maximum(caps)
    assert all(got <= cap for got, cap in zip(tree.counts(most), caps, strict=True))
    assert any(got > cap for got, cap in zip(tree.counts(most + 1), caps, strict=True))


def test_shares_count_tokens_and_not_documents():
    """Documents of 2 and of 400 tokens, packed one a sample: each source has half of the tokens."""
    found = [[[1, 2]] * 4000, [[3] * 400] * 20]
    words = {"pack": "document", "seq_len": 400, "to_eos": "none", "labels": "same", "weights": [0.5, 0.5]}
    view = opened(found, **words)
    tokens = Counter()
    for k in range(len(view)):
        for span in view.spans(k):
            tokens[span.source] += span.stop - span.start
    assert abs(tokens[0] / sum(tokens.values()) - 0.5) < 0.02


def test_a_longer_budget_goes_on_with_the_same_order():
    found = [[[k] * 7 for k in range(1, 50)], [[k] * 3 for k in range(1, 90)]]
    words = {"seq_len": 5, "weights": [0.7, 0.3], "shuffle": "samples", "to_eos": "none", "epochs_of": [9, 9]}
    short, long = opened(found, **words, tokens=200), opened(found, **words, tokens=600)
    assert short.fingerprint == long.fingerprint
    assert [short.spans(k) for k in range(len(short))] == [long.spans(k) for k in range(len(short))]
    assert (len(short), len(long)) == (40, 120)


def test_each_pass_has_its_own_order_and_follows_the_one_before():
    found = [[[k + 1] for k in range(60)]]
    view = opened(found, seq_len=2, to_eos="none", labels="same", shuffle="samples", epochs=3)
    every = [tuple(map(tuple, view.spans(k))) for k in range(len(view))]
    passes = [every[k : k + 30] for k in (0, 30, 60)]
    assert sorted(passes[0]) == sorted(passes[1]) == sorted(passes[2])
    assert passes[0] != passes[1] != passes[2]
    assert [view.where(k).epoch for k in (0, 29, 30, 89)] == [0, 0, 1, 2]


def test_the_tail_of_each_pass_is_its_own():
    """The last sample of a pass is padded, not filled with the beginning of the next, and comes once a pass."""
    view = opened([[[1, 2, 3], [4, 5, 6, 7]]], seq_len=4, to_eos="none", labels="same", epochs=2)
    rows = view.samples(range(len(view)))["input_ids"].tolist()
    assert rows == [[1, 2, 3, 4], [5, 6, 7, 0]] * 2
    view = opened([[[1, 2, 3], [4, 5, 6, 7]]], seq_len=4, to_eos="none", labels="same", tail="drop")
    assert explain(view)[0].left_out == {"tail": 3}


def test_passes_of_a_list_whose_sources_have_different_numbers_of_them():
    found = [[[1, 2]], [[3, 4]]]
    view = opened(found, seq_len=2, to_eos="none", labels="same", epochs_of=[1, 3])
    assert view.samples(range(len(view)))["input_ids"].tolist() == [[1, 2], [3, 4], [3, 4], [3, 4]]
    assert [view.where(k).epoch for k in range(4)] == [0, 0, 1, 2]


def test_a_budget_beyond_the_passes_allowed_says_by_how_much():
    found = [[[1] * 40], [[2] * 40]]
    words = {"seq_len": 4, "to_eos": "none", "labels": "same", "weights": [0.5, 0.5]}
    with pytest.raises(
        ConversionError, match=r'source "s0": the budget needs 15 samples; one pass yields 10: short by 5'
    ):
        opened(found, **words, tokens=120)
    assert len(opened(found, **words, tokens=80)) == 20
    assert len(opened(found, **words, tokens=120, epochs_of=[2, 2])) == 30
    with pytest.raises(ConversionError, match="short by 1 samples"):
        opened(found, seq_len=4, to_eos="none", labels="same", tokens=84)


def test_weights_without_a_budget_end_before_the_first_sample_beyond_a_cap():
    view = opened([[[1] * 40], [[2] * 400]], seq_len=4, to_eos="none", labels="same", weights=[0.5, 0.5])
    assert len(view) == 20


@pytest.mark.parametrize("world", range(1, 9))
def test_every_world_slices_the_same_order(world):
    batch = 840
    for step in (0, 7):
        taken = [k for rank in range(world) for k in samples_of_step(step, batch, rank, world)]
        assert taken == list(range(step * batch, (step + 1) * batch))


def test_steps_that_cannot_be():
    view = opened([[[1] * 400]], seq_len=4, to_eos="none", labels="same")
    assert [w.sample for w in view.where_at(3, 8, rank=1, world_size=4)] == [26, 27]
    assert [w.sample for w in view.where_at(0, 8, start=12)] == list(range(12, 20))
    with pytest.raises(OptionError, match="cannot be divided evenly among 3 ranks"):
        view.where_at(0, 8, world_size=3)
    with pytest.raises(OptionError, match="rank 4 of 4"):
        view.where_at(0, 8, rank=4, world_size=4)
    with pytest.raises(OptionError, match="beyond the last whole batch, step 11"):
        view.where_at(12, 8)
    with pytest.raises(IndexError, match="sample 100 of 100"):
        view.spans(100)


def test_the_same_from_a_pickle_and_from_threads(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    found = [[[k % 50 + 1] * (k % 9) for k in range(200)], [[7] * 500]]
    view = opened(found, seq_len=6, shuffle="samples", weights=[1, 2], epochs_of=[5, 5])
    every = view.samples(range(len(view)))["labels"]
    other = pickle.loads(pickle.dumps(view))
    assert (other.samples(range(len(other)))["labels"] == every).all()
    assert other.fingerprint == view.fingerprint
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda k: view.samples([k])["labels"][0], range(len(view))))
    assert (np.stack(rows) == every).all()


def test_fingerprints_hold_what_decides_the_order_and_nothing_else():
    found = [[[1] * 400], [[2] * 400]]
    words = {
        "seq_len": 4,
        "to_eos": "none",
        "labels": "same",
        "weights": [1, 2],
        "epochs_of": [4, 4],
        "shuffle": "samples",
    }
    base = opened(found, **words).fingerprint
    assert opened(found, **words, tokens=400).fingerprint == base
    assert opened(found, **{**words, "epochs_of": [3, 9]}).fingerprint == base
    for key, value in {
        "seq_len": 5,
        "labels": "next",
        "weights": [2, 1],
        "shuffle": "none",
        "seed": 1,
        "to_eos": 9,
        "pad": 3,
        "tail": "drop",
        "pack": "bestfit",
    }.items():
        assert opened(found, **{**words, key: value}).fingerprint != base, key


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
    first = samples_of(words, [Endless(), Endless()])  # what is imported is not counted
    assert len(first.samples([0])["input_ids"]) == len(first.spans(0)) == 1
    tracemalloc.start()
    view = samples_of(words, [Endless(), Endless()])
    for k in (0, 10**9, len(view) - 1):
        row = view.samples([k])["input_ids"][0].astype(int)
        assert ((row[1:] - row[:-1]) % 50_000 == 1).all()
        assert (row[0] - view.spans(k)[0].start) % 50_000 == 0
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()
    assert len(view) == 2 * 10**13 // 4096


@settings(max_examples=examples(80), deadline=None)
@given(st.integers(1, 3000), st.integers(0, 2**64 - 1), st.integers(0, 2**40))
def test_the_inverse_of_a_permutation(size, seed, place):
    order = Permutation(size, seed, ORDER_SAMPLES, place)
    assert order.inverse(order.many(np.arange(size))).tolist() == list(range(size))
