"""The list during a search: the words around the first hit of each row, read for the rows on the screen only."""

import random
import threading

import numpy as np
import pytest
from browsing import PACK, Fake, browse, session_of, tab_of
from paths import CORPUS, TOKENIZER, golden
from rich.cells import cell_len
from textual.widgets import Input

from tokfmt.browser.data.excerpts import Excerpt
from tokfmt.browser.data.layout import TokenStyle
from tokfmt.browser.data.rows import WINDOW, Characters, Piece, fetched
from tokfmt.browser.widgets.frame import Summary


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


async def find(app, press, words):
    await press("slash")
    app.screen.query_one(Input).value = words
    await press("enter")


def hits_at(app, y):
    """What a line of the list shows in the style of hits."""
    shown = tab_of(app).list
    color = shown.get_component_rich_style("list--excerpt").bgcolor
    return "".join(part.text for part in shown.render_line(y) if part.style and part.style.bgcolor == color)


@pytest.mark.parametrize(("path", "known"), [(PACK, False), (CORPUS, True)])
def test_a_hit_in_the_list_is_the_hit_in_the_reader(path, known):
    """IDs, and text that is tokenized on reading, whose hits are characters."""
    tokenizer = TOKENIZER if known else golden("gpt2")

    async def steps(app, press):
        tab = tab_of(app)
        await find(app, press, " (the|to|of) ")
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


class Long(Fake):
    """1,000 documents of 20,000 tokens, each with a 7 at 15,000; reads are kept, and none is on the screen's thread."""

    def __init__(self):
        super().__init__()
        self.info = self.info.__class__(self.info.layout, np.dtype(np.uint32), 1000, 20_000_000)
        self.main, self.reads = threading.get_ident(), []

    def tokens(self, start, stop):
        assert threading.get_ident() != self.main, "read on the thread of the screen"
        self.reads.append((start, stop))
        at = np.arange(start, stop)
        return np.where(at % 20_000 == 15_000, 7, 8).astype(np.uint32)

    def offsets(self, first, last):
        return np.arange(first, last + 1, dtype=np.int64) * 20_000


def test_excerpts_are_read_for_the_rows_on_the_screen_only(monkeypatch):
    monkeypatch.setattr("tokfmt.browser.app.summary", lambda *_: (Summary("fake"), ""))
    reader = Long()

    async def steps(app, press):
        tab = tab_of(app)
        await press("end")
        await find(app, press, "token:7")
        assert tab.search.results.sequences == 1000
        await press("home")
        reader.reads.clear()
        await press("pagedown", "pagedown")
        assert hits_at(app, 3).strip() == "7"
        seen = tab.list.seen
        rows = {start // 20_000 for start, _ in reader.reads}
        assert rows <= set(range(max(seen) + 1))
        assert sum(stop - start for start, stop in reader.reads) <= 4 * WINDOW * (max(seen) + 1)

    browse([], steps, session=session_of(reader))


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
