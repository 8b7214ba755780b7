"""What the browser shows, without a screen: windows, spelling, layout, scrolling."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tokfmt.core.errors import CorruptError
from tokfmt.plugin import Info, Layout, TokenReader, offsets_of
from tokfmt.tui.rows import WINDOW, Damage, Span, Viewport, fetched, fetched_span


class Memory(TokenReader):
    """Sequences in memory; positions in `broken` cannot be read. Counts what was read."""

    def __init__(self, lengths, broken=()):
        self.bounds = offsets_of(lengths)
        total = int(self.bounds[-1])
        self.data = np.arange(total, dtype=np.uint32)
        self.info = Info(Layout.DOCUMENTS, np.dtype(np.uint32), len(lengths), total)
        self.broken, self.read = set(broken), 0

    def tokens(self, start, stop):
        if not 0 <= start <= stop <= self.info.tokens:
            raise IndexError(f"{start}:{stop}")
        if any(start <= position < stop for position in self.broken):
            raise CorruptError("x", "is damaged")
        self.read += stop - start
        return self.data[start:stop]

    def offsets(self, first, last):
        return self.bounds[first : last + 1]


class Endless(TokenReader):
    """10^12 sequences of 1,000 tokens each, computed; or one sequence of 10^15."""

    def __init__(self, length=1000, total=10**15):
        self.width, self.asked = length, 0
        self.info = Info(Layout.SAMPLES, np.dtype(np.uint64), total // length, total, sample_length=length)

    def tokens(self, start, stop):
        assert stop - start <= 1 << 16
        self.asked += stop - start
        return np.arange(start, stop, dtype=np.uint64) % np.uint64(50_000)

    def offsets(self, first, last):
        assert last - first <= 1 << 10
        return np.arange(first, last + 1, dtype=np.int64) * self.width


@given(st.lists(st.integers(0, 3 * WINDOW), min_size=1, max_size=200), st.data())
def test_pieces_are_what_was_stored(lengths, data):
    reader = Memory(lengths)
    port = Viewport(reader)
    row = data.draw(st.integers(0, len(lengths) - 1))
    start = data.draw(st.integers(0, lengths[row] + 5))
    stop = data.draw(st.integers(start, lengths[row] + 10))
    assert port.peek(row, start, stop) is None
    assert fetched_span(port, row) == Span(int(reader.bounds[row]), lengths[row])
    own = reader.data[reader.bounds[row] : reader.bounds[row + 1]]
    assert np.array_equal(fetched(port, row, start, stop).units, own[start:stop])
    assert port.peek(row, start, stop) is not None
    assert reader.read <= stop - start + 2 * WINDOW


def test_a_position_leads_to_its_row():
    lengths = [3, 0, 0, 5, 1]
    port = Viewport(Memory(lengths))
    assert [port.row_at(position) for position in (-1, 0, 2, 3, 7, 8, 9)] == [None, 0, 0, 3, 3, 4, None]


def test_damage_is_cached_and_the_rest_is_shown():
    reader = Memory([10, WINDOW, 10], broken=[WINDOW])
    port = Viewport(reader)
    assert isinstance(fetched(port, 2, 0, 4), Damage)
    assert "is damaged" in fetched(port, 1, WINDOW - 5, WINDOW).why
    assert list(fetched(port, 0, 0, 3).units) == [0, 1, 2]


def test_the_last_of_10_to_the_12_rows_is_read_alone():
    reader = Endless()
    port = Viewport(reader)
    last = reader.info.sequences - 1
    assert fetched_span(port, last) == Span(last * 1000, 1000)
    assert len(fetched(port, last, 0, 10).units) == 10
    assert port.row_at(10**15 - 1) == last
    assert reader.asked <= WINDOW
