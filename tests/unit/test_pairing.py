"""What a comparison shows, without a screen: which rows belong together, which tokens of them differ."""

import numpy as np
from browsing import AxisSide, Info, Layout, Viewport, offsets_of
from hypothesis import given
from hypothesis import strategies as st

from tokfmt.browser.data.pairing import LOOKED, Hunk, Marks, Pairing, Row, align, first_unlike, hands, marks_of, unlike
from tokfmt.core.reader import TokenReader
from tokfmt.errors import CorruptError


class Memory(TokenReader):
    """Sequences in memory; reading one of the `broken` positions fails."""

    def __init__(self, sequences, dtype=np.uint32, broken=()):
        self.bounds = offsets_of([len(one) for one in sequences])
        self.data = np.array([token for one in sequences for token in one], dtype)
        self.info = Info(Layout.DOCUMENTS, np.dtype(dtype), len(sequences), len(self.data))
        self.broken = broken

    def tokens(self, start, stop):
        if any(start <= position < stop for position in self.broken):
            raise CorruptError("x", "is damaged")
        return self.data[start:stop]

    def offsets(self, first, last):
        return self.bounds[first : last + 1]

    def close(self):
        pass


class Masked(Memory):
    """The same with masks and labels."""

    sample_length = 4

    def __init__(self, sequences, masks, labels):
        super().__init__(sequences)
        self._masks, self._labels = np.array(masks, np.uint8), np.array(labels, np.int64)

    has_labels = True

    def masks(self, start, stop):
        return self._masks[start:stop]

    def labels(self, start, stop):
        return self._labels[start:stop]


sequences = st.lists(st.lists(st.integers(0, 3), max_size=3), max_size=12)


@given(
    st.lists(st.integers(0, 40), max_size=120),
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 4), st.lists(st.integers(0, 40), max_size=4)), max_size=4),
    st.booleans(),
)
def test_what_differs_turns_one_into_the_other(x, edits, whole):
    y = list(x)
    for place, gone, more in edits:
        y[place : place + gone] = more
    _out, i, j = [], 0, 0
    for p, q in unlike(np.array(x, np.uint16), np.array(y, np.uint64), whole=whole):
        assert p.start - i == q.start - j >= 0
        assert x[i : p.start] == y[j : q.start]
        assert list(p) or list(q)
        i, j = p.stop, q.stop
    assert x[i:] == y[j:]
    assert (x == y) == (i == j == 0)


def rows(x, y):
    return Row(Viewport(Memory([[7], x])), 1), Row(Viewport(Memory([y], np.uint64)), 0)


def test_an_insertion_and_a_change_in_a_long_row():
    x = np.random.default_rng(1).integers(0, 50_000, 30_000).tolist()
    y = [*x[:9000], 1, 2, *x[9000:20_000], 77_777, *x[20_001:]]
    marks = marks_of(*rows(x, y))
    assert marks.hunks == [Hunk(9000, 9000, 9000, 9002), Hunk(20_000, 20_001, 20_002, 20_003)]
    assert marks.known is None
    assert marks.across(0, 8999) == 8999
    assert marks.across(0, 9000) == 9000  # where only B has something
    assert marks.across(0, 9001) == 9003
    assert marks.across(1, 9001) == 9000
    assert marks.across(1, 20_002) == 20_000
    assert marks.across(1, 25_000) == 24_998
    assert [list(part) for part in marks.between(1, 8990, 9001)] == [[9000, 9001]]
    assert marks.between(0, 9100, 19_999)[1:] == []
    assert marks.following(0, 9000) == marks.hunks[1]
    assert marks.preceding(1, 20_002) == marks.hunks[0]
    assert marks.preceding(0, 9000) is None


def test_what_is_looked_at_is_bounded_and_said():
    x = [0] * 10 + list(range(3 * LOOKED))
    y = [0] * 10 + list(range(1, 3 * LOOKED))
    marks = marks_of(*rows(x, y))
    assert marks.hunks[0] == Hunk(10, 11, 10, 10)
    assert marks.known == (10 + LOOKED, 10 + LOOKED)


def test_a_row_that_ends_early_and_rows_alike():
    assert marks_of(*rows([1, 2, 3], [1, 2])).hunks == [Hunk(2, 3, 2, 2)]
    assert marks_of(*rows([1, 2], [1, 2])) == Marks()
    assert marks_of(*rows([], [])) == Marks()
    assert first_unlike(*rows([], [4])) == 0


def test_masks_and_labels_count_where_both_have_them():
    ids = [[5, 6, 7, 8]]
    a = Masked(ids, [1, 1, 1, 0], [6, 7, 8, -100])
    b = Masked(ids, [1, 0, 1, 0], [6, 7, 9, -100])
    found = marks_of(Row(Viewport(a), 0), Row(Viewport(b), 0))
    assert found.hunks == [Hunk(1, 3, 1, 3)]
    assert marks_of(Row(Viewport(a), 0), Row(Viewport(Memory(ids)), 0)) == Marks()


@given(sequences, sequences, st.lists(st.integers(0, 2), max_size=12))
def test_steps_hold_every_row_once_and_in_order(x, y, edits):
    y = x[:] if len(edits) % 3 else y  # often alike but for a few edits
    for place, edit in enumerate(edits):
        if edit == 1 and y:
            y = y[: place % len(y)] + y[place % len(y) + 1 :]
        elif edit == 2:
            y = [*y[:place], [9, place], *y[place:]]
    with hands(1) as workers:
        found = align(AxisSide(Memory(x)), AxisSide(Memory(y)), workers)
    pairing = Pairing((len(x), len(y)), found)
    pairs = [pairing.pair(step) for step in range(pairing.total)]
    assert [pair.a for pair in pairs if pair.a is not None] == list(range(len(x)))
    assert [pair.b for pair in pairs if pair.b is not None] == list(range(len(y)))
    for step, pair in enumerate(pairs):
        same = pair.a is not None and pair.b is not None and x[pair.a] == y[pair.b]
        assert pair.differs == (not same)
        assert pair.a is None or pairing.step_of(0, pair.a) == step
        assert pair.b is None or pairing.step_of(1, pair.b) == step
        assert pairing.following(step) == next((s for s in range(step + 1, len(pairs)) if pairs[s].differs), None)
        assert pairing.preceding(step) == next((s for s in reversed(range(step)) if pairs[s].differs), None)
    assert len(pairs) - sum(pair.differs for pair in pairs) == int(found.runs[:, 2].sum())
    assert sum(pair.elsewhere is not None for pair in pairs) <= 2 * len(found.moves)
    for pair in pairs:
        if pair.elsewhere is not None:
            assert (x[pair.a] if pair.b is None else y[pair.b]) == (y if pair.b is None else x)[pair.elsewhere]
    assert pairing.following(-1) == next((s for s, pair in enumerate(pairs) if pair.differs), None)
