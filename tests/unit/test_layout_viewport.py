"""What the browser shows, without a screen: windows, spelling, layout, scrolling."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from viewed import ALPHABET

from tokfmt.browser.data.layout import Kind, Mode, Piece, glyphs, lines_of, spell


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


@given(st.integers(0, 3000), st.integers(1, 400), st.sampled_from(Mode), st.integers(8, 200), st.booleans())
def test_lines_hold_every_token_once_and_fit(first, count, mode, width, whitespace):
    piece = Piece(np.arange(first, first + count, dtype=np.uint32))
    lines = lines_of(piece, first, ALPHABET, mode, width, whitespace)
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
    text, ids, labels = lines_of(piece, 0, ALPHABET, Mode.BOTH, 500, False)[:3]
    assert [run.text.strip() for run in ids.runs][:3] == ["1", "2", "3"]
    assert [run.text.strip() for run in labels.runs][:3] == ["2", "3", "4"]
    assert text.column_of(2) == ids.column_of(2) == labels.column_of(2)


def test_a_border_is_drawn_between_documents_but_not_in_padding():
    units = np.array([1, 2, 4, 5, 4, 4, 4], np.uint32)
    lines = lines_of(Piece(units), 0, ALPHABET, Mode.TEXT, 80, False)
    assert [line.runs[0].kind is Kind.RULE for line in lines] == [False, True, False]
