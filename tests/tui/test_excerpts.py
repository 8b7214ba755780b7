"""The list during a search: the words around the first hit of each row, read for the rows on the screen only."""

import json
import random

import numpy as np
import pytest
from amount import FUZZ_ONLY, only
from browsing import PACK, Characters, Piece, TokenStyle, browse, fetched, line, tab_of
from paths import CORPUS, TOKENIZER, golden
from rich.cells import cell_len
from textual.widgets import Input

from tokfmt.browser.data.excerpts import Excerpt


def texts_of(tmp_path, texts):
    path = tmp_path / "some.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


async def find(app, press, words):
    await press("slash")
    app.screen.query_one(Input).value = words
    await press("enter")


def hits_at(app, y):
    """What a line of the list shows in the style of hits."""
    shown = tab_of(app).list
    color = shown.get_component_rich_style("table--excerpt").bgcolor
    return "".join(part.text for part in shown.render_line(y) if part.style and part.style.bgcolor == color)


@pytest.mark.parametrize("columns", only([200, 24], [200, 80, 40, 24]))
def test_the_list_shows_the_words_around_a_hit(tmp_path, columns):
    far, near = "many words go before it, " * 40, "the needle is here"
    path = texts_of(tmp_path, [far + "a needle in hay " + far, "nothing here " * 9, near, far + "needle", "needle"])

    async def steps(app, press):
        shown = tab_of(app).list
        before = [line(shown, y) for y in range(1, 6)]
        assert "needle" not in before[0]
        await find(app, press, "needle")
        drawn = [line(shown, y) for y in range(1, 6)]
        assert all(cell_len(one) <= shown.size.width for one in drawn)
        if columns >= 80:
            assert [hits_at(app, y) for y in range(1, 6)] == ["needle", "", "needle", "needle", "needle"]
            assert ("…go before it, a needle" if columns == 200 else "…a needle") in drawn[0]
            assert "…" not in drawn[2]  # all before the hit is shown
            assert drawn[3].rstrip().endswith("needle")  # nothing follows it, so that more is shown before it
        assert drawn[1] == before[1]
        await press("escape")
        assert [line(shown, y)[6:] for y in range(1, 6)] == [one[6:] for one in before]

    browse([path], steps, size=(columns, 24))


@FUZZ_ONLY
@pytest.mark.parametrize(("path", "known"), [(PACK, False), (CORPUS, True)])
def test_a_hit_in_the_list_is_the_hit_in_the_reader(path, known):
    """IDs, and text that is tokenized on reading, whose hits are characters."""
    tokenizer = TOKENIZER if known else golden("gpt2")

    async def steps(app, press):
        tab = tab_of(app)
        await find(app, press, "regex:' (the|to|of) '")
        found = [y for y in tab.list.seen if tab.search.results.has(tab.list.row_of(y))]
        assert found
        for y in found:
            row = tab.list.row_of(y)
            hit = tab.search.first_in(row)
            assert tab.search.visible(row, 0, 1 << 20)[0] == hit
            units = fetched(tab.port, row, hit.start, hit.stop).units
            spelled = tab.scope.decoder.pieces(units.tolist())
            text = b"".join(one if isinstance(one, bytes) else one.encode() for one in spelled).decode()
            assert hits_at(app, 1 + y - tab.list.top).startswith(text.replace("\n", "⏎"))  # others follow it

    browse([path], steps, tokenizer=str(tokenizer), size=(160, 30))


@FUZZ_ONLY
def test_an_excerpt_fits_any_width_and_has_the_hit():
    chosen = random.Random(3)
    letters = "abc  \n字é‍👩🏽क्षि\u0301\t"
    style = TokenStyle(Characters(), characters=True)
    for _ in range(300):
        text = "".join(chosen.choice(letters) for _ in range(chosen.randrange(1, 90)))
        start = chosen.randrange(len(text))
        hit = range(start, min(len(text), start + chosen.randrange(4)))
        first = chosen.choice((0, 70))
        piece = Piece(np.array([ord(char) for char in text], np.uint32))
        moved = range(hit.start + first, hit.stop + first)
        excerpt = Excerpt(first, piece, moved, frozenset(moved))
        for width in (-1, 0, 1, 2, 3, 5, 9, 20, 80, 400):
            words = excerpt.words(style, width)
            assert sum(cell_len(one.text) for one in words) <= max(0, width)
            assert any(one.is_hit for one in words) or width < 4
