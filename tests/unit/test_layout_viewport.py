"""What the browser shows, without a screen: windows, spelling, layout, scrolling."""

import numpy as np
import pytest
from browsing import WINDOW, Characters, TokenStyle, Viewport, fetched_span
from hypothesis import given
from hypothesis import strategies as st
from viewed import ALPHABET, Endless, Memory

from tokfmt.browser.data import layout
from tokfmt.browser.data.layout import (
    Kind,
    LayoutOptions,
    Mode,
    NotLoadedError,
    ReaderPosition,
    RowLayout,
    glyphs,
    lines_of,
    spell,
)

Piece = layout.Piece


@given(st.binary(max_size=60), st.lists(st.integers(1, 5), min_size=30, max_size=60))
def test_spelling_loses_nothing(data, cuts):
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(data[at : at + cut])
        at += cut
    runs = [run for piece in spell(pieces) for run in piece]
    back = b"".join(bytes.fromhex(text[1:-1]) if kind is Kind.BYTES else text.encode() for text, kind in runs)
    assert back == b"".join(pieces)
    texts = "".join(text if kind is Kind.TEXT else "\0" for text, kind in runs)
    assert texts.count("\0") >= data[:at].decode("utf-8", "replace").count("\ufffd") - data[:at].count(b"\xef\xbf\xbd")


def test_a_character_of_several_tokens_belongs_to_the_first():
    assert spell([b"a\xe2", b"\x9c", b"\x85b"]) == [
        [("a", Kind.TEXT), ("✅", Kind.TEXT)],
        [],
        [("b", Kind.TEXT)],
    ]
    assert spell([b"\xe2", b"\x9c", "x"]) == [[("⟨e2⟩", Kind.BYTES)], [("⟨9c⟩", Kind.BYTES)], [("x", Kind.TEXT)]]


@given(st.integers(0, 3000), st.integers(1, 400), st.sampled_from(Mode), st.integers(8, 200))
def test_lines_hold_every_token_once_and_fit(first, count, mode, width):
    piece = Piece(np.arange(first, first + count, dtype=np.uint32))
    lines = lines_of(piece, first, ALPHABET, mode, width)
    leading = [line for line in lines if line.leads]
    assert leading[0].first == first
    assert leading[-1].last == first + count
    for before, after in zip(leading, leading[1:], strict=False):
        assert before.first <= after.first <= before.last
    widest = 13 if mode is Mode.BOTH else 2
    assert all(sum(run.cells for run in line.runs) <= max(width, widest) for line in lines)
    shown = {run.token for line in lines for run in line.runs if run.kind is not Kind.RULE}
    spelled = set(glyphs(piece.units, first, ALPHABET).tokens)
    assert shown >= spelled if mode is Mode.TEXT else shown == set(range(first, first + count))


def test_labels_stand_beneath_their_tokens():
    units = np.arange(1, 20, dtype=np.uint32)
    piece = Piece(units, np.ones(19, np.uint8), units + 1)
    text, ids, labels = lines_of(piece, 0, ALPHABET, Mode.BOTH, 500)[:3]
    assert [run.text.strip() for run in ids.runs][:3] == ["1", "2", "3"]
    assert [run.text.strip() for run in labels.runs][:3] == ["2", "3", "4"]
    assert text.column_of(2) == ids.column_of(2) == labels.column_of(2)


def test_a_border_is_drawn_between_documents_but_not_in_padding():
    units = np.array([1, 2, 4, 5, 4, 4, 4], np.uint32)
    lines = lines_of(Piece(units), 0, ALPHABET, Mode.TEXT, 80)
    assert [line.runs[0].kind is Kind.RULE for line in lines] == [False, True, False]


def test_a_line_that_goes_on_begins_with_a_word():
    """Not with the blank before it, whether that is a part of the word's token or one by itself."""

    def drawn(units, style, width):
        lines = lines_of(Piece(np.array(units, np.uint32)), 0, style, Mode.TEXT, width)
        assert [token for line in lines for token in range(line.first, line.last)] == [*range(len(units))]
        return ["".join(run.text for run in line.runs) for line in lines]

    assert drawn([5] * 6, ALPHABET, 11) == [" word word", "word word", "word word"]
    assert drawn([5, 7, 5, 5, 5], ALPHABET, 10) == [" word ", " word word", "word"]  # what is indented stays so
    letters = TokenStyle(Characters())
    assert drawn([ord(letter) for letter in "ab cd ef  gh"], letters, 5) == ["ab ", "cd ", "ef  ", "gh"]


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
    assert {number for number, _ in seen} == set(range(roll.count))
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
    roll = RowLayout(port, 0, fetched_span(port, 0), ALPHABET, LayoutOptions(Mode.IDS, 16 * 7))
    scroll = ReaderPosition(roll)
    loaded(scroll, lambda: scroll.by_view(10**6, 10))
    lines, missing = scroll.visible(10)
    assert missing is None
    assert len(lines) == 10
    assert lines[-1].last == 3000
