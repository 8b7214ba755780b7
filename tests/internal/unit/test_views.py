"""Views: each against plain lists."""

import pickle

import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from model.separated import split_at, with_separators, without_trailing

from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.model.select import Known, NonEmpty, Slice
from tokfmt.testing import datasets, sequences

EOS = 9
quick = settings(max_examples=examples(60), deadline=None)


def stored_stream(lists):
    """A reader of one stream: the separator after each list."""
    flat = [t for s in lists for t in [*s, EOS]]
    return MemoryReader(Ragged.of([flat] if flat else []))


def documents(flat):
    """The sequences of a stream. One between two separators is empty, and no separator need follow the last."""
    found = [[]]
    for token in flat:
        found.append([]) if token == EOS else found[-1].append(token)
    return found if found[-1] else found[:-1]


def check_windows(reader, flat, data):
    n = len(flat)
    assert reader.info.tokens == n
    a, b = sorted(data.draw(st.tuples(st.integers(0, n), st.integers(0, n))))
    assert reader.tokens(a, b).tolist() == flat[a:b]
    assert reader.tokens(0, n).dtype == reader.info.dtype


@quick
@given(st.data(), datasets(20, avoid=EOS), st.integers(0, 3), st.booleans())
def test_separators_taken_away_and_put_in_again(data, ragged, padding, ended):
    """The short cut through the stored axis gives what the long way gives."""
    lists = ragged.tolist()
    flat = [t for s in lists for t in [*s, EOS]] + [EOS] * padding
    flat = flat if ended else flat[:-1]
    stream = split_at(MemoryReader(Ragged.of([flat] if flat else [])), EOS)
    trailing = without_trailing(MemoryReader(Ragged.of([[*s, EOS] for s in lists])), EOS, "x")
    for view, kept in ((stream, documents(flat)), (trailing, lists), (Known(trailing, 3), lists)):
        again = with_separators(view, EOS)
        check_windows(again, [t for s in kept for t in [*s, EOS]], data)
        assert sequences(again) == [[*s, EOS] for s in kept]
        other = with_separators(view, EOS + 1)
        assert sequences(other) == [[*s, EOS + 1] for s in kept]


def test_split_in_many_scan_pieces(monkeypatch):
    monkeypatch.setattr("tokfmt.model.stream._SCAN", 7)
    lists = [[1] * (i % 5) for i in range(50)]
    assert sequences(split_at(stored_stream(lists), EOS)) == lists


@quick
@given(st.lists(st.lists(st.just(1), max_size=3), max_size=20), st.integers(1, 5))
def test_split_counts_pieces_in_windows(lists, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "tokfmt.model.stream.windows", lambda a, b, _=0: ((x, min(x + size, b)) for x in range(a, b, size))
        )
        view = split_at(stored_stream(lists), EOS)
        assert sequences(view) == lists


def test_views_of_nothing_and_errors():
    nothing = MemoryReader(Ragged.of([]))
    for view in (
        with_separators(nothing, EOS),
        without_trailing(nothing, EOS, "x"),
        split_at(nothing, EOS),
        NonEmpty(nothing),
    ):
        assert (view.info.sequences, view.info.tokens) == (0, 0)
        assert view.tokens(0, 0).tolist() == []
        assert view.offsets(0, 0).tolist() == [0]
        with pytest.raises(IndexError):
            view.tokens(0, 1)
    with pytest.raises(IndexError):
        Slice(nothing, 0, 1)


def test_views_travel():
    view = Known(split_at(stored_stream([[1, 2], [3]]), EOS), 3)
    again = pickle.loads(pickle.dumps(view))
    assert sequences(again) == [[1, 2], [3]]
    assert again.info.max_id == 3
