"""Through views and back: where each position of any stack of views lies beneath, against the tokens themselves."""

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from model.separated import split_at, with_separators, without_trailing

from tokfmt.core.protocols import ByteOffset, HasByteOffsets, MappedView
from tokfmt.core.ragged import Ragged
from tokfmt.dataset import Dataset
from tokfmt.model.bridge import ContentReader, LaidReader
from tokfmt.testing import datasets
from tokfmt.views.memory import MemoryReader
from tokfmt.views.select import Chosen, Concat, Known, NonEmpty, Rows, Slice
from tokfmt.views.view import byte_offset_of, position_of

EOS = 9


class Placed(MemoryReader):
    """A stored reader: token p lies at byte 4 * p of a file of its own."""

    def __init__(self, ragged, name):
        super().__init__(ragged)
        self.name = name

    def byte_offset(self, position):
        return ByteOffset(self.name, 4 * position, 4)

    def position(self, path, offset):
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
            st.just(Dataset(source, "x")),
            st.just(Rows(source, 3)),
            st.tuples(st.integers(0, count), st.integers(0, count)).map(lambda ab: Slice(source, min(ab), max(ab))),
            masks.map(lambda mask: Chosen(source, lambda a, b: np.array(mask, np.bool_)[a:b])),
            base.map(lambda other: Concat([source, other])),
            base.map(lambda other: Concat([other, source])),
        )

    return st.recursive(base, lambda inner: inner.flatmap(over), max_leaves=4)


def all_readers(reader):
    yield reader
    if isinstance(reader, MappedView):
        for below in reader.readers():
            yield from all_readers(below)


@settings(max_examples=examples(120), deadline=None)
@given(stacks())
def test_there_and_back(top):
    for reader in all_readers(top):
        tokens = reader.tokens(0, reader.info.tokens).tolist()
        if not isinstance(reader, MappedView):
            continue
        for position, token in enumerate(tokens):
            found = reader.to_source(position)
            if found is None:
                assert isinstance(reader, LaidReader) and token == reader.info.eos_id
                continue
            below, at = found
            assert any(below is one for one in reader.readers())
            assert below.tokens(at, at + 1).tolist() == [token]
            assert reader.from_source(below, at) == position
        for wrong in (-1, len(tokens)):
            with pytest.raises(IndexError):
                reader.to_source(wrong)
        assert reader.from_source(Placed(Ragged.of([[1]]), "stranger"), 0) is None


@settings(max_examples=examples(120), deadline=None)
@given(stacks())
def test_what_is_not_on_the_axis_has_no_position_but_separators_taken_away(top):
    for reader in all_readers(top):
        if not isinstance(reader, MappedView):
            continue
        reached = [reader.to_source(p) for p in range(reader.info.tokens)]  # type: ignore[attr-defined]
        for below in reader.readers():
            mine = [found[1] for found in reached if found is not None and found[0] is below]
            for at in sorted(set(range(below.info.tokens)) - set(mine)):
                here = reader.from_source(below, at)
                if isinstance(reader, ContentReader):
                    follows = [p for p in mine if p > at]
                    assert here == (reader.from_source(below, min(follows)) if follows else None)
                    assert below.tokens(at, at + 1)[0] == reader.info.eos_id
                elif isinstance(reader, LaidReader):  # between the tokens around it, beside separators that were added
                    here_of = {p: reader.from_source(below, p) for p in mine}
                    before = [found for p, found in here_of.items() if p < at and found is not None]
                    after = [found for p, found in here_of.items() if p > at and found is not None]
                    least, most = max(before, default=-1) + 1, min(after, default=len(reached))
                    assert least <= (len(reached) if here is None else here) <= most
                else:
                    assert here is None


@settings(max_examples=examples(80), deadline=None)
@given(stacks())
def test_places_through_all_views(top):
    tokens = top.tokens(0, top.info.tokens).tolist()
    files = {r.name: r for r in all_readers(top) if isinstance(r, HasByteOffsets)}  # type: ignore[attr-defined]
    for position, token in enumerate(tokens):
        place = byte_offset_of(top, position)
        if place is None:
            continue
        stored = files[place.path]
        assert stored.tokens(place.offset // 4, place.offset // 4 + 1).tolist() == [token]  # type: ignore[attr-defined]
        assert position_of(top, place.path, place.offset + 3) == position
    assert position_of(top, "no such file", 0) is None
