"""Views: each against plain lists."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.core.errors import CorruptError
from tokfmt.core.ragged import Ragged
from tokfmt.core.reader import Info, Layout, Separators, sequence_at
from tokfmt.testing import datasets, sequences
from tokfmt.views.memory import MemoryReader
from tokfmt.views.select import Concat, Known, NonEmpty, Slice, empty_sequences
from tokfmt.views.view import SplitAt, WithoutTrailing, WithSeparators

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
    view = WithSeparators(MemoryReader(ragged), EOS)
    lists = ragged.tolist()
    check_windows(view, [t for s in lists for t in [*s, EOS]], data)
    assert sequences(view) == [[*s, EOS] for s in lists]


@quick
@given(st.data(), datasets(20))
def test_without_trailing_is_the_inverse(data, ragged):
    view = WithoutTrailing(MemoryReader(Ragged.of([[*s, EOS] for s in ragged.tolist()])), EOS, "x")
    check_windows(view, ragged.tokens.tolist(), data)
    assert sequences(view) == ragged.tolist()


@quick
@given(st.data(), datasets(20, avoid=EOS), st.integers(0, 3), st.booleans())
def test_separators_taken_away_and_put_in_again(data, ragged, padding, ended):
    """The short cut through the stored axis gives what the long way gives."""
    lists = ragged.tolist()
    flat = [t for s in lists for t in [*s, EOS]] + [EOS] * padding
    stream = SplitAt(MemoryReader(Ragged.of([flat[: len(flat) - (not ended)]] if flat else [])), EOS)
    trailing = WithoutTrailing(MemoryReader(Ragged.of([[*s, EOS] for s in lists])), EOS, "x")
    for view, kept in ((stream, [s for s in lists if s]), (trailing, lists), (Known(trailing, 3), lists)):
        again = WithSeparators(view, EOS)
        check_windows(again, [t for s in kept for t in [*s, EOS]], data)
        assert sequences(again) == [[*s, EOS] for s in kept]
        other = WithSeparators(view, EOS + 1)
        assert sequences(other) == [[*s, EOS + 1] for s in kept]


class Stream(MemoryReader):
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
    after = SplitAt(Stream(ended, Separators.AFTER), EOS)
    before = SplitAt(Stream(begun, Separators.BEFORE), EOS)
    for view, stored in ((after, ended), (before, begun)):
        assert sequences(view) == lists
        check_windows(view, ragged.tokens.tolist(), data)
        for position in range(view.info.tokens):
            beneath, at = view.to_source(position)
            assert stored[at] == view.tokens(position, position + 1)[0]
            assert view.from_source(beneath, at) == position
    again = WithSeparators(MemoryReader(ragged), EOS, before=True)
    check_windows(again, begun, data)
    assert sequences(again) == [[EOS, *s] for s in lists]
    for at, token in enumerate(begun):
        found = again.to_source(at)
        assert (found is None) == (token == EOS)
        if found:
            assert again.from_source(*found) == at
    if whole and lists:  # cut at one of its ends
        rest = [lists[-1]] if lists[-1] else []
        assert sequences(SplitAt(Stream(ended[:-1], Separators.AFTER), EOS)) == lists[:-1] + rest
        first = [lists[0]] if lists[0] else []
        assert sequences(SplitAt(Stream(begun[1:], Separators.BEFORE), EOS)) == first + lists[1:]


def test_the_short_cut_looks_too():
    view = WithoutTrailing(MemoryReader(Ragged.of([[1, EOS], [2, 3]])), EOS, "x.pbin")
    with pytest.raises(CorruptError, match="sequence 1 does not end with the separator"):
        WithSeparators(view, EOS).tokens(0, 4)


def test_without_trailing_looks_at_what_it_takes_away():
    view = WithoutTrailing(MemoryReader(Ragged.of([[1, EOS], [2, 3], [4, EOS]])), EOS, "x.pbin")
    with pytest.raises(CorruptError, match=r"sequence 1 does not end with the separator 9: found 3\. --eos none"):
        sequences(view)


def test_widens_for_the_separator():
    view = WithSeparators(MemoryReader(Ragged.of([[1]], np.dtype(np.uint8))), 50256)
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
            pieces, current = pieces + ([current] if current else []), []
        else:
            current.append(token)
    view = SplitAt(stored_stream(lists), EOS)
    assert sequences(view) == pieces
    check_windows(view, [t for t in flat if t != EOS], data)
    assert view.info.free_of == EOS


def test_split_without_a_last_separator():
    assert sequences(SplitAt(MemoryReader(Ragged.of([[EOS, 1, 2, EOS, EOS, 3]])), EOS)) == [[1, 2], [3]]


def test_split_in_many_scan_pieces(monkeypatch):
    monkeypatch.setattr("tokfmt.views.view._SCAN", 7)
    lists = [[1] * (i % 5) for i in range(50)]
    assert sequences(SplitAt(stored_stream(lists), EOS)) == [s for s in lists if s]


@quick
@given(st.lists(st.lists(st.just(1), max_size=3), max_size=20), st.integers(1, 5))
def test_split_counts_pieces_in_windows(lists, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tokfmt.views.view.windows", lambda a, b, _=0: ((x, min(x + size, b)) for x in range(a, b, size)))
        view = SplitAt(stored_stream(lists), EOS)
        assert sequences(view) == [s for s in lists if s]


def test_long_runs_of_separators_come_in_windows(monkeypatch):
    asked = []
    reader = stored_stream([[1]] + [[]] * 5000 + [[2]])
    view = SplitAt(reader, EOS)
    original = reader.tokens
    monkeypatch.setattr(reader, "tokens", lambda a, b: asked.append(b - a) or original(a, b))
    monkeypatch.setattr("tokfmt.views.view.windows", lambda a, b: ((x, min(x + 64, b)) for x in range(a, b, 64)))
    assert view.tokens(0, 2).tolist() == [1, 2]
    assert max(asked) == 64


@quick
@given(st.data(), st.lists(datasets(20, max_sequences=4), min_size=1, max_size=4))
def test_concat(data, parts):
    view = Concat([MemoryReader(part) for part in parts])
    lists = [s for part in parts for s in part.tolist()]
    assert sequences(view) == lists
    check_windows(view, [t for s in lists for t in s], data)
    i, k = sorted(data.draw(st.tuples(*[st.integers(0, len(lists))] * 2)))
    lengths = [len(s) for s in lists]
    assert view.offsets(i, k).tolist() == [sum(lengths[:j]) for j in range(i, k + 1)]


def test_facts_of_several_sources_are_those_of_all():
    """What one source alone tells is not told of what they are together."""
    facts = {"pad_id": 3, "split": "a", "other_splits": ("b",), "nonstandard_masks": 0, "loss_masks": "masks"}

    def source(**how):
        reader = MemoryReader(Ragged.of([[1, 2]]))
        reader.info = replace(reader.info, **facts, **how)
        return reader

    one, same, other = (source(extras={"width": 2, "order": order}) for order in ("le", "le", "be"))
    assert Concat([one, same]).info.extras == {"width": 2, "order": "le"}
    told = Concat([one, other, MemoryReader(Ragged.of([[7]]))]).info
    assert Concat([one, other]).info.extras == {"width": 2}
    assert told.extras == {}
    assert (told.pad_id, told.split, told.other_splits, told.nonstandard_masks, told.loss_masks) == (
        None,
        None,
        (),
        None,
        "",
    )
    assert {name: getattr(Concat([one, other]).info, name) for name in facts} == facts


@quick
@given(st.data(), datasets(20))
def test_slice_and_nonempty(data, ragged):
    lists = ragged.tolist()
    i, k = sorted(data.draw(st.tuples(*[st.integers(0, len(lists))] * 2)))
    assert sequences(Slice(MemoryReader(ragged), i, k)) == lists[i:k]
    assert sequences(NonEmpty(MemoryReader(ragged))) == [s for s in lists if s]
    empties = [j for j, s in enumerate(lists) if not s]
    assert empty_sequences(MemoryReader(ragged)) == (len(empties), empties[0] if empties else -1)


@quick
@given(datasets(20), st.integers(0, 30))
def test_sequence_at(ragged, position):
    reader = MemoryReader(ragged)
    starts = ragged.offsets[:-1].tolist()
    before = [i for i, a in enumerate(starts) if a <= position]
    assert sequence_at(reader, position) == (max(before) if before else 0)
    shifted = [i for i, a in enumerate(starts) if a + i <= position]
    assert sequence_at(reader, position, shift=1) == (max(shifted) if shifted else 0)


def test_views_of_nothing_and_errors():
    nothing = MemoryReader(Ragged.of([]))
    for view in (
        WithSeparators(nothing, EOS),
        WithoutTrailing(nothing, EOS, "x"),
        SplitAt(nothing, EOS),
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
    view = Known(SplitAt(stored_stream([[1, 2], [3]]), EOS), 3)
    again = pickle.loads(pickle.dumps(view))
    assert sequences(again) == [[1, 2], [3]]
    assert again.info.max_id == 3


def test_info_is_a_value():
    info = Info(Layout.STREAM, np.dtype(np.uint8), 1, 2)
    assert info.separators is Separators.NONE
    with pytest.raises(AttributeError):
        info.tokens = 3
