"""Views: each against plain lists."""

from dataclasses import replace

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from model.separated import split_at, with_separators, without_trailing

from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.core.reader import ByteOffset, Info, Layout
from tokfmt.errors import CorruptError
from tokfmt.plugin import Separators
from tokfmt.testing import datasets, sequences

EOS = 9
quick = settings(max_examples=examples(60), deadline=None)


def stored_stream(lists):
    """A reader of one stream: the separator after each list."""
    flat = [t for s in lists for t in [*s, EOS]]
    return MemoryReader(Ragged.of([flat] if flat else []))


def check_windows(reader, flat, data):
    n = len(flat)
    assert reader.info.tokens == n
    a, b = sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n))))
    assert reader.tokens(a, b).tolist() == flat[a:b]
    assert reader.tokens(0, n).dtype == reader.info.dtype


@quick
@given(st.data(), datasets(20))
def test_with_separators(data, ragged):
    view = with_separators(MemoryReader(ragged), EOS)
    lists = ragged.tolist()
    check_windows(view, [t for s in lists for t in [*s, EOS]], data)
    assert sequences(view) == [[*s, EOS] for s in lists]


@quick
@given(st.data(), datasets(20))
def test_without_trailing_is_the_inverse(data, ragged):
    view = without_trailing(MemoryReader(Ragged.of([[*s, EOS] for s in ragged.tolist()])), EOS, "x")
    check_windows(view, ragged.tokens.tolist(), data)
    assert sequences(view) == ragged.tolist()


class Rows(MemoryReader):
    """Sequences of a file in which each token has four bytes."""

    def locate(self, position):
        return ByteOffset("file", 4 * position, 4)

    def find(self, place, byte):
        return byte // 4


class Stream(Rows):
    """A stream whose separators stand as `where` says."""

    def __init__(self, flat, where):
        super().__init__(Ragged.of([flat] if flat else []))
        self.info = replace(self.info, separators=where)


@quick
@given(st.data(), datasets(20, avoid=EOS), st.booleans())
def test_a_separator_after_or_before_each_sequence(data, ragged, whole):
    """Runs are empty sequences, and the first or last sequence of a stream that was cut lacks its separator."""
    lists = ragged.tolist()
    ended = [t for s in lists for t in [*s, EOS]]
    begun = [t for s in lists for t in [EOS, *s]]
    after = split_at(Stream(ended, Separators.AFTER), EOS)
    before = split_at(Stream(begun, Separators.BEFORE), EOS)
    for view, stored in ((after, ended), (before, begun)):
        assert sequences(view) == lists
        check_windows(view, ragged.tokens.tolist(), data)
        for position in range(view.info.tokens):
            place = view.locate(position)
            assert stored[place.offset // 4] == view.tokens(position, position + 1)[0]
            assert view.find("file", place.offset + 3) == position
    again = with_separators(Rows(ragged), EOS, before=True)
    check_windows(again, begun, data)
    assert sequences(again) == [[EOS, *s] for s in lists]
    for at, token in enumerate(begun):
        place = again.locate(at)
        assert (place is None) == (token == EOS)
        if place:
            assert again.find("file", place.offset) == at
    if whole and lists:  # cut at one of its ends
        rest = [lists[-1]] if lists[-1] else []
        assert sequences(split_at(Stream(ended[:-1], Separators.AFTER), EOS)) == lists[:-1] + rest
        first = [lists[0]] if lists[0] else []
        assert sequences(split_at(Stream(begun[1:], Separators.BEFORE), EOS)) == first + lists[1:]


def test_the_short_cut_looks_too():
    view = without_trailing(MemoryReader(Ragged.of([[1, EOS], [2, 3]])), EOS, "x.pbin")
    with pytest.raises(CorruptError, match="sequence 1 does not end with the separator"):
        with_separators(view, EOS).tokens(0, 4)


def test_without_trailing_looks_at_what_it_takes_away():
    view = without_trailing(MemoryReader(Ragged.of([[1, EOS], [2, 3], [4, EOS]])), EOS, "x.pbin")
    with pytest.raises(CorruptError, match="sequence 1 does not end with the separator 9: found 3"):
        sequences(view)


def test_widens_for_the_separator():
    view = with_separators(MemoryReader(Ragged.of([[1]], np.dtype(np.uint8))), 50256)
    assert view.info.dtype == np.uint16
    assert view.tokens(0, 2).tolist() == [1, 50256]


@quick
@given(st.data(), datasets(20))
def test_split(data, ragged):
    lists = ragged.tolist()
    flat = [t for s in lists for t in [*s, EOS]]
    pieces, current = [], []
    for token in flat:
        if token == EOS:
            pieces, current = [*pieces, current], []
        else:
            current.append(token)
    view = split_at(stored_stream(lists), EOS)
    assert sequences(view) == pieces
    check_windows(view, [t for t in flat if t != EOS], data)
    assert view.info.free_of == EOS


def test_split_without_a_last_separator():
    assert sequences(split_at(MemoryReader(Ragged.of([[EOS, 1, 2, EOS, EOS, 3]])), EOS)) == [[], [1, 2], [], [3]]


@quick
@given(datasets(20), st.integers(0, 30))
def test_sequence_at(ragged, position):
    reader = MemoryReader(ragged)
    starts = ragged.offsets[:-1].tolist()
    before = [i for i, a in enumerate(starts) if a <= position]
    assert reader.sequence_at(position) == (max(before) if before else 0)


def test_info_is_a_value():
    info = Info(Layout.STREAM, np.dtype(np.uint8), 1, 2)
    assert info.separators is Separators.NONE
    with pytest.raises(AttributeError):
        info.tokens = 3
