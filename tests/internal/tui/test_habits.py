"""What hands know from vim, from web browsers and from the mouse: hits, ends, half pages, the way back, recent lines."""

import pytest
from browsing import BLOCKS, PACK, browse, line, reader_text, tab_of
from paths import FIXTURES
from textual.widgets import DataTable, Input

from tokfmt.browser.data.history import History, Spot
from tokfmt.browser.data.session import shown_session
from tokfmt.browser.dialogs import Page, PageBlock
from tokfmt.browser.keys import bindings_of, words_of
from tokfmt.browser.widgets.frame import KeyBar
from tokfmt.browser.widgets.reader import Reader
from tokfmt.source.request import SourceRequest

HIT = "11"
"""A token that PACK has 92 times."""


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def said(app):
    return [str(notification.message) for notification in app._notifications]


async def answer(app, press, key, words):
    await press(key)
    app.screen.query_one(Input).value = words
    await press("enter")


# keys of vim


def test_n_and_shift_n_go_from_hit_to_hit():
    async def steps(app, press):
        tab = tab_of(app)
        await press("n")
        assert said(app)[-1] == "Search with / first. ] goes to the next row."
        assert tab.where == (0, 0)
        await answer(app, press, "slash", HIT)
        places = [tab.where]
        for _ in range(3):
            await press("n")
            places.append(tab.where)
        assert len(set(places)) == 4
        for where in places[2::-1]:
            await press("N")
            assert tab.where == where

    browse([PACK], steps)


def test_a_dollar_is_the_last_row_and_q_also_leaves_what_cannot_be_read(tmp_path):
    bad = tmp_path / "x.pbin"
    bad.write_bytes(b"\x05" * 40)

    async def last(app, press):
        await press("g", "dollar_sign", "enter")
        assert tab_of(app).where == (41, 0)

    async def refused(app, press):
        assert app.session.refused is not None
        await press("g", "q", "enter")
        assert app._exit

    browse([PACK], last)
    browse([bad], refused, session=shown_session(SourceRequest((str(bad),))))


@pytest.mark.parametrize("key", ["2", "3", "4"])
def test_a_search_and_a_filter_begin_in_every_tab(key):
    async def steps(app, press):
        name = next(entry.name for entry in app.tabs if entry.key == key)
        await press(key)
        assert "/ Find" in line(app.query_one(KeyBar), 0)
        await answer(app, press, "slash", HIT)
        assert app.entry.name == "sequences"
        assert tab_of(app).reader.hits
        await press("backspace", "backspace")
        assert app.entry.name == name
        await answer(app, press, "f", "len>50")
        assert app.entry.name == "sequences"
        assert tab_of(app).filtered.results.sequences
        await press("escape", "backspace")
        assert app.entry.name == name

    browse([PACK], steps)


def test_ctrl_c_says_how_to_quit():
    async def steps(app, press):
        await press("ctrl+c")
        assert said(app) == ["q quits."]

    browse([PACK], steps)


# the way back


def test_back_and_forward_through_every_kind_of_jump():
    async def steps(app, press):
        tab = tab_of(app)
        await press("backspace")
        assert said(app) == ["No jump has led here."]
        places = [tab.where]
        for keys in (
            ("g", "9", "enter"),
            ("g", "t", "colon", *"700", "enter"),
            ("r",),
            ("slash", *HIT, "enter"),
            ("n",),
            ("G",),
        ):
            await press(*keys)
            if tab.where != places[-1]:
                places.append(tab.where)
        assert len(places) > 4
        for where in places[-2::-1]:
            await press("ctrl+o")
            assert tab.where == where
        for where in places[1:]:
            await press("alt+right")
            assert tab.where == where
        await press("backspace", "g", "3", "enter", "alt+right")
        assert said(app)[-1] == "There is no place to go forward to."
        assert tab.where == (3, 0)

    browse([PACK], steps)


def test_places_are_kept_in_order_and_bounded():
    places = [Spot("sequences", 0, "", "documents", (row, 0), "") for row in range(1000)]
    history = History()
    for place in (*places, places[-1]):
        history.leave(place)
    assert history.go(1, places[5]) is None
    assert history.go(-1, places[-1]) == places[-2]
    back = [history.go(-1, places[-2 - k]) for k in range(198)]
    assert back == places[-3:-201:-1]
    assert history.go(-1, back[-1]) is None
    assert history.go(1, back[-1]) == places[-199]


# the mouse


def cell_of(reader, token):
    """Column and line of the first cell of a token on the screen, in the widget."""
    y = next(y for y, one in enumerate(reader.lines) if one.first <= token < one.last)
    return reader.lines[y].column_of(token)[0], y


def test_a_drag_marks_tokens_and_a_copy_takes_them():
    async def steps(app, press):
        tab, pilot = tab_of(app), press.pilot
        await press("g", "1", "1", "enter")
        reader = tab.reader
        assert await pilot.mouse_down(reader, offset=cell_of(reader, 7))
        await pilot.hover(reader, offset=cell_of(reader, 20))
        await pilot.hover(reader, offset=cell_of(reader, 9))
        await pilot.mouse_up(reader, offset=cell_of(reader, 9))
        await press()
        assert reader.marked == range(7, 10)
        assert "3 marked" in tab.query_one("#reading").border_title
        await press("c")
        piece = app.session.port.peek(11, 7, 10)
        assert app.clipboard == " ".join(map(str, piece.units.tolist()))
        assert "3 tokens of part of document 11" in said(app)[-1]
        await pilot.click(reader, offset=cell_of(reader, 30))
        await press()
        assert (tab.where, reader.marked) == ((11, 30), range(0))

    browse([PACK], steps)


def test_a_double_click_opens_a_row_and_a_finding():
    async def steps(app, press):
        tab, pilot = tab_of(app), press.pilot
        await pilot.click(tab.list, offset=(10, 4 + tab.list.gutter.top))
        await press()
        assert tab.list.has_focus
        await pilot.click(tab.list, offset=(10, 4 + tab.list.gutter.top), times=2)
        await press()
        assert isinstance(app.focused, Reader)
        await press("3")
        table = app.query_one(DataTable)
        await pilot.click(table, offset=(30, 1))
        await press()
        assert app.entry.name == "findings"  # also where the cursor was there before
        await pilot.click(table, offset=(30, 1), times=2)
        await press()
        assert app.entry.name == "index"

    browse([FIXTURES / "modalities" / "E_D_2byte_gpt2.pbin"], steps)


def test_help_lists_each_thing_once():
    async def steps(app, press):
        for key in "1234":
            await press(key, "question_mark")
            assert isinstance(app.screen, Page)
            *blocks, _ = app.screen._blocks
            assert not any("Compare" in words for _, rows in blocks for _, words in rows)
            for _, rows in blocks:
                assert len({words for _, words in rows}) == len(rows)
            await press("escape")

    browse([PACK], steps)


@pytest.mark.parametrize("columns", [40, 80])
def test_words_of_the_help_stay_in_their_column(columns):
    async def steps(app, press):
        await press("question_mark")
        for block in app.screen.query(PageBlock):
            lines = [one for one in (line(block, y).rstrip() for y in range(block.size.height)) if one]
            wide = max(len(name) for name, _ in block._rows)
            assert all(one[: wide + 2].endswith("  ") for one in lines[1:])
            words = " ".join(one[wide + 2 :].strip() for one in lines[1:])
            assert words.split() == " ".join(text for _, text in block._rows).split()

    browse([PACK], steps, size=(columns, 24))


def test_every_key_has_a_word_for_the_line_and_words_for_the_help():
    async def steps(app, press):
        for key in "12345":
            await press(key)
            for node in (app, app.tab, *app.tab.query("*")):
                for binding in bindings_of(node):
                    assert binding.description, binding
                    assert binding.system or len(binding.description) <= 16, binding
                    assert words_of(binding)[0].isupper(), binding

    browse([PACK, BLOCKS], steps)


# what is listed, and what is shown


def test_a_filter_that_finds_nothing_shows_nothing():
    async def steps(app, press):
        tab = tab_of(app)
        await press("g", "9", "enter", "tab", "right", "right")
        await answer(app, press, "f", "len>100000")
        assert "nothing to list" in line(tab.list, 1)
        assert reader_text(app) == str(tab.query_one("#detail").render()) == ""
        assert "nothing is listed" in tab.query_one("#reading").border_title
        await press("c")
        assert said(app)[-1] == "Nothing is listed. F lists all."
        await press("F")
        assert tab.where == (9, 2)
        assert reader_text(app)
        await answer(app, press, "f", "len>100000")
        await answer(app, press, "f", "len>50")
        assert reader_text(app)
        assert tab.filtered.results.has(tab.where[0])

    browse([PACK], steps)
