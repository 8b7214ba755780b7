"""Through views and back: where each position of any stack of views lies beneath, against the tokens themselves."""

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from model.separated import beneath, is_laid, split_at, with_separators, without_trailing

from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.core.reader import ByteOffset
from tokfmt.model.select import Chosen, Concat, Known, NonEmpty, Rows, Slice
from tokfmt.testing import datasets

EOS = 9


class Placed(MemoryReader):
    """A stored reader: token p lies at byte 4 * p of a file of its own."""

    def __init__(self, ragged, name):
        super().__init__(ragged)
        self.name = name

    def locate(self, position):
        return ByteOffset(self.name, 4 * position, 4)

    def find(self, path, offset):
        return offset // 4 if path == self.name and 0 <= offset < 4 * self.info.tokens else None


def stacks(names=None):
    """A stored reader, and any views upon it. The separator is in it, and stays in it or not."""
    count = iter(range(1 << 30))

    def plain(ragged):
        return Placed(ragged, f"file-{next(count)}")

    def trailing(ragged):
        return without_trailing(plain(Ragged.of([[*s, EOS] for s in ragged.tolist()])), EOS, "x")

    def stream(args):
        lists, padding, ended = args
        flat = [t for s in lists.tolist() for t in [*s, EOS]] + [EOS] * padding
        flat = flat if ended else flat[:-1]
        return split_at(plain(Ragged.of([flat] if flat else [])), EOS)

    small = datasets(12, max_sequences=6, max_length=5)
    base = st.one_of(
        small.map(plain), small.map(trailing), st.tuples(small, st.integers(0, 3), st.booleans()).map(stream)
    )

    def over(source):
        count = source.info.sequences
        masks = st.lists(st.booleans(), min_size=count, max_size=count)
        return st.one_of(
            st.just(NonEmpty(source)),
            st.just(Known(source, 12)),
            st.just(with_separators(source, EOS)),
            st.just(with_separators(source, EOS + 1)),
            st.just(split_at(with_separators(source, EOS), EOS)),
            st.just(split_at(source, 3)),
            st.just(without_trailing(with_separators(source, EOS), EOS, "x")),
            st.just(Rows(source, 3)),
            st.tuples(st.integers(0, count), st.integers(0, count)).map(lambda ab: Slice(source, min(ab), max(ab))),
            masks.map(lambda mask: Chosen(source, lambda a, b: np.array(mask, np.bool_)[a:b])),
            base.map(lambda other: Concat([source, other])),
            base.map(lambda other: Concat([other, source])),
        )

    return st.recursive(base, lambda inner: inner.flatmap(over), max_leaves=4)


def all_readers(reader):
    yield reader
    for below in beneath(reader):
        yield from all_readers(below)


@settings(max_examples=examples(120), deadline=None)
@given(stacks())
def test_there_and_back(top):
    for reader in all_readers(top):
        tokens = reader.tokens(0, reader.info.tokens).tolist()
        for wrong in (-1, len(tokens)) if beneath(reader) else ():
            with pytest.raises(IndexError):
                reader.locate(wrong)
        for position, token in enumerate(tokens if beneath(reader) else ()):
            spot = reader.to_source(position)
            if spot is None:
                assert is_laid(reader) and token == reader.info.eos_id
                continue
            below, at = spot
            assert any(below is source for source in beneath(reader))
            assert below.tokens(at, at + 1).tolist() == [token]
            assert reader.locate(position) == below.locate(at)


@settings(max_examples=examples(80), deadline=None)
@given(stacks())
def test_places_through_all_views(top):
    tokens = top.tokens(0, top.info.tokens).tolist()
    files = {r.name: r for r in all_readers(top) if isinstance(r, Placed)}
    for position, token in enumerate(tokens):
        place = top.locate(position)
        if place is None:
            continue
        stored = files[place.path]
        assert stored.tokens(place.offset // 4, place.offset // 4 + 1).tolist() == [token]
        assert top.find(place.path, place.offset + 3) == position
    assert top.find("no such file", 0) is None
