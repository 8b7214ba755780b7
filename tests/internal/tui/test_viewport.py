"""What the browser shows, without a screen: windows, spelling, layout, scrolling."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from viewed import ALPHABET, Endless, Memory

from tokfmt.base.resources import Recent
from tokfmt.browser.data.layout import (
    UNBOUNDED,
    Kind,
    LayoutOptions,
    Mode,
    NotLoadedError,
    ReaderPosition,
    RowLayout,
    TokenStyle,
    lines_of,
)
from tokfmt.browser.data.rows import WINDOW, Characters, Piece, Viewport, fetched_span
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged


def test_the_cache_keeps_what_was_used_last():
    cache = Recent(2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.get("a")
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_a_line_that_goes_on_begins_with_a_word():
    """Not with the blank before it, whether that is a part of the word's token or one by itself."""

    def drawn(units, style, width):
        lines = lines_of(Piece(np.array(units, np.uint32)), 0, style, Mode.TEXT, width, False)
        assert [token for line in lines for token in range(line.first, line.last)] == [*range(len(units))]
        return ["".join(run.text for run in line.runs) for line in lines]

    assert drawn([5] * 6, ALPHABET, 11) == [" word word", "word word", "word word"]
    assert drawn([5, 7, 5, 5, 5], ALPHABET, 10) == [" word ", " word word", "word"]  # what is indented stays so
    letters = TokenStyle(Characters())
    assert drawn([ord(letter) for letter in "ab cd ef  gh"], letters, 5) == ["ab ", "cd ", "ef  ", "gh"]


def test_a_border_is_drawn_where_a_row_was_cut_to_be_laid_out():
    size = RowLayout(*row_of(np.ones(8, np.uint32))).size
    units = np.ones(3 * size, np.uint32)
    units[[size - 1, 2 * size, 2 * size + 5]] = ALPHABET.separator
    roll = RowLayout(*row_of(units))
    for number in range(roll.count):
        roll.load(number)
    lines = [line for number in range(roll.count) for line in roll.peek(number).lines]
    assert [line.first for line in lines if line.runs[0].kind is Kind.RULE] == [size, 2 * size + 1, 2 * size + 6]
    leading = [line for line in lines if line.leads]
    assert [line.last for line in leading[:-1]] == [line.first for line in leading[1:]]


def row_of(units):
    port = Viewport(MemoryReader(Ragged.of([units])))
    port.load_spans(0, 1)
    return port, 0, port.peek_span(0), ALPHABET._replace(decoder=None), LayoutOptions(Mode.IDS, 60)


def loaded(scroll, step):
    """Do a step, loading what it misses, as the reader does."""
    for _ in range(100):
        try:
            return step()
        except NotLoadedError as missing:
            scroll.roll.load(missing.chunk)
    raise AssertionError("never has what it needs")


@pytest.mark.parametrize("mode", list(Mode))
def test_down_and_up_again_passes_every_line(mode):
    port = Viewport(Memory([5, 9000]))
    roll = RowLayout(port, 1, fetched_span(port, 1), ALPHABET, LayoutOptions(mode, 60))
    scroll = ReaderPosition(roll)
    seen, before = [], -1
    while scroll.cursor != before:
        before = scroll.cursor
        seen.append(loaded(scroll, lambda: scroll.find(scroll.cursor)))
        loaded(scroll, lambda: scroll.by_lines(1))
        loaded(scroll, lambda: scroll.reveal(20))
    assert seen == sorted(set(seen))
    assert seen[-1][0] == roll.count - 1
    stops = [roll.peek(number) for number in range(roll.count)]
    assert [chunk.start for chunk in stops[1:]] == [chunk.stop for chunk in stops[:-1]]
    loaded(scroll, lambda: scroll.by_lines(-(10**6)))
    assert loaded(scroll, lambda: scroll.find(scroll.cursor)) == (0, 0)


@given(st.integers(0, 10**15 - 1), st.sampled_from(Mode))
def test_any_token_of_a_sequence_of_10_to_the_15(token, mode):
    reader = Endless(10**15)
    port = Viewport(reader)
    roll = RowLayout(port, 0, fetched_span(port, 0), ALPHABET, LayoutOptions(mode, 80))
    scroll = ReaderPosition(roll)
    scroll.to(token)
    loaded(scroll, lambda: scroll.reveal(30))
    lines, _ = scroll.visible(30)
    assert any(line.first <= token < line.last for line in lines)
    assert reader.asked <= 20 * WINDOW


def test_a_token_of_many_lines_does_not_hold_the_cursor():
    class Long:
        def pieces(self, units):
            return [b"x" * 200 if unit == 1 else b"y" for unit in units]

    port = Viewport(Memory([3]))
    roll = RowLayout(port, 0, fetched_span(port, 0), TokenStyle(Long()), LayoutOptions(Mode.TEXT, 20))
    scroll = ReaderPosition(roll)
    for lines, token, line in ((1, 1, 1), (5, 1, 6), (100, 1, 10), (-1, 1, 9), (-100, 0, 0)):
        loaded(scroll, lambda lines=lines: scroll.by_lines(lines))
        assert (scroll.cursor, scroll.here()) == (token, (0, line))


def test_scrolling_stops_where_the_last_line_is_at_the_bottom():
    port = Viewport(Memory([3000]))
    roll = RowLayout(port, 0, fetched_span(port, 0), ALPHABET, LayoutOptions(Mode.IDS, UNBOUNDED))
    scroll = ReaderPosition(roll)
    loaded(scroll, lambda: scroll.by_view(10**6, 10))
    lines, missing = scroll.visible(10)
    assert missing is None
    assert len(lines) == 10
    assert lines[-1].last == 3000
