"""What the browser shows, without a screen: windows, spelling, layout, scrolling."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from viewed import Endless, Memory

from tokfmt.browser.data.rows import WINDOW, Damage, Span, Viewport, fetched, fetched_span


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
