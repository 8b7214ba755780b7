"""Datasets in Python: selected, joined, shuffled, saved, as tables of Arrow, in notebooks. Oracles are numpy's."""

import re

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from paths import CORPUS, FIXTURES, TOKENIZER

import tokfmt
from tokfmt import registry
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.dataset import Dataset
from tokfmt.model import select
from tokfmt.model.select import Picked
from tokfmt.testing import datasets, write

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
quick = settings(max_examples=examples(80), deadline=None)


def held(ragged):
    return Dataset(MemoryReader(ragged), "memory")


@quick
@given(
    st.data(), datasets(max_sequences=20, max_length=9), st.sampled_from([0, 3, 1 << 16]), st.sampled_from([1, 7, 64])
)
def test_any_window_of_picked_sequences(data, ragged, gap, window):
    numbers = data.draw(st.lists(st.integers(0, max(0, len(ragged) - 1)), max_size=30 if len(ragged) else 0))
    lists = ragged.tolist()
    flat = [t for number in numbers for t in lists[number]]
    before = select._GAP, select.WINDOW, select._MANY
    try:
        select._GAP, select.WINDOW, select._MANY = gap, window, 3
        view = Picked(MemoryReader(ragged), np.array(numbers, np.int64))
        a, b = sorted(data.draw(st.tuples(*[st.integers(0, len(flat))] * 2)))
        assert view.tokens(a, b).tolist() == flat[a:b]
    finally:
        select._GAP, select.WINDOW, select._MANY = before
    for position, token in enumerate(flat):
        reader, there = view.to_source(position)
        assert reader.tokens(there, there + 1).tolist() == [token]
        assert flat[view.from_source(there)] == token
    for wrong in ((-1, 0), (0, len(flat) + 1), (1, 0)):
        with pytest.raises(IndexError):
            view.tokens(*wrong)


FLAT = {
    "stage1": "stage1_block_0000.bin", "modalities": "x.pbin", "megatron": "x_document.bin", "nanogpt": "train.bin",
    "llmc": "llmc.bin", "olmo": "x.npy", "datatrove": "x.ds", "litdata": "litdata",
}  # fmt: skip
DOCUMENTS = [list(range(k, k + 40)) for k in range(1, 30)]


def flat(home, name):
    """A dataset of DOCUMENTS, stored in a flat format."""
    write(registry.get(name), home / FLAT[name], Ragged.of(DOCUMENTS), eos_id=50256)
    return tokfmt.open(home / FLAT[name], format=name, eos=50256)


def test_near_sequences_are_read_together_and_far_ones_are_not():
    class Counting(MemoryReader):
        reads = []

        def tokens(self, start, stop):
            self.reads.append((start, stop))
            return super().tokens(start, stop)

    ids = np.arange(600_000, dtype=np.uint32)
    source = Counting(Ragged(ids, np.arange(0, 600_001, 100)))
    assert Picked(source, np.array([7, 5, 6, 5])).tokens(0, 400).tolist() == [
        *range(700, 800), *range(500, 600), *range(600, 700), *range(500, 600)
    ]  # fmt: skip
    assert source.reads == [(500, 800)]
    source.reads.clear()
    Picked(source, np.array([5999, 0])).tokens(0, 200)
    assert source.reads == [(0, 100), (599_900, 600_000)]


def test_in_a_notebook_it_is_a_small_table():
    dataset = tokfmt.open(PACK)
    shown = dataset._repr_html_()
    first = " ".join(map(str, dataset[0][:12].tolist()))
    assert first in shown and f"{len(dataset[0]):,}" in shown and "… 37 more" in shown
    assert len(shown) < 3000
    hostile = Dataset(MemoryReader(Ragged.of([[1]])), "<script>alert(1)</script>", notes=("<img src=x>",))
    shown = hostile._repr_html_()
    assert set(re.findall(r"</?([a-z]+)", shown)) <= {"div", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert "&lt;script&gt;" in shown
    assert "records, tokenized when they are read" in tokfmt.open(CORPUS, tokenizer=str(TOKENIZER))._repr_html_()
    assert "0 sequences" in held(Ragged.of([]))._repr_html_()
