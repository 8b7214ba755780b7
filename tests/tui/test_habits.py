"""What hands know from vim, from web browsers and from the mouse: hits, ends, half pages, the way back, recent lines."""

import json

import numpy as np
import pytest
from amount import FUZZ_ONLY
from browsing import BLOCKS, PACK, browse, commands, line, notes, reader_text, tab_of
from paths import FIXTURES
from rich.console import Console
from textual.widgets import Input, Static

import tokfmt


def test_a_hit_has_three_lines_around_it_and_looks_like_one_below_the_cursor(tmp_path):
    """With the focus in the list, where the cursor of the reader is drawn as a line that is not current."""
    ids = [k % 7 for k in range(3000)]
    ids[1777] = 99
    (tmp_path / "a.jsonl").write_text(json.dumps({"input_ids": ids}) + "\n")

    async def steps(app, press):
        await press("slash", *"token", "colon", *"99", "enter")
        reader = tab_of(app).reader
        y = next(y for y, line in enumerate(reader.lines) if line.first <= 1777 < line.last)
        assert 3 <= y < reader.size.height - 3
        at = [run.token for run in reader.lines[y].runs].index(1777)
        style = list(reader.render_line(y))[at].style
        assert not reader.has_focus
        assert style == reader.get_component_rich_style("reader--id", "reader--cursor-blurred", "reader--last-hit")

    browse([tmp_path / "a.jsonl"], steps)


def test_one_prompt_leads_to_rows_tokens_bytes_and_what_y_copies():
    async def steps(app, press):
        for words, where in (("12", (12, 0)), ("-1", (41, 0)), ("11:45", (11, 45)), ("documents:3:2", (3, 2))):
            await press("g", *["colon" if char == ":" else "minus" if char == "-" else char for char in words], "enter")
            assert tab_of(app).where == where
        start = int(tokfmt.open(PACK).reader.offsets(11, 12)[0])
        await press("g", "t", "colon", *str(start + 7), "enter")
        assert tab_of(app).where == (11, 7)
        byte = tokfmt.open(PACK).reader.locate(start + 9).offset
        await press("backspace", "g", "at", *str(byte), "enter")
        assert tab_of(app).where == (11, 9)
        await press("backspace", "backspace")
        assert tab_of(app).where == (11, 45)

    browse([PACK], steps)


def test_selected_rows_are_exported_in_the_order_of_the_screen(tmp_path):
    """Space selects, Shift extends; without a selection, the first rows of the list are exported."""
    reader = tokfmt.open(PACK).reader
    lengths = np.diff(reader.offsets(0, reader.info.sequences))

    async def steps(app, press):
        rows = tab_of(app).list
        await press("vertical_line")  # by length, the longest first
        longest = rows.order.rows[:5].tolist()
        assert longest[0] == int(np.argmax(lengths))
        await press("home", "space", "down", "shift+down", "shift+down", "shift+up")
        assert sorted(rows.selected) == sorted([longest[0], longest[2], longest[3]])
        assert "3 selected" in rows.border_subtitle
        await press("e")
        assert app.screen.query_one(Input).value == "selected"
        await press("enter", "enter")
        lines = (tmp_path / "D_2byte_gpt2-documents.jsonl").read_text().splitlines()
        assert [len(json.loads(one)["input_ids"]) for one in lines] == lengths[longest][[0, 2, 3]].tolist()
        await press("escape")
        assert not rows.selected
        await press("e")
        for text in ("first 2", "first.jsonl"):
            app.screen.query_one(Input).value = text
            await press("enter")
        lines = (tmp_path / "first.jsonl").read_text().splitlines()
        assert [len(json.loads(one)["input_ids"]) for one in lines] == lengths[longest[:2]].tolist()

    browse([PACK], steps)


@FUZZ_ONLY
def test_ends_and_half_pages_of_the_list_and_of_a_row():
    async def steps(app, press):
        tab = tab_of(app)
        await press("G")
        assert tab.where == (41, 0)
        await press("g", "g")
        assert tab.where == (0, 0)
        await press("g", "G")
        assert tab.where == (41, 0)
        await press("g", "g", "ctrl+d")
        half = tab.list.height // 2
        assert tab.where == (half, 0)
        await press("ctrl+u")
        assert tab.where == (0, 0)
        await press("ctrl+f")
        page = tab.where[0]
        assert page == tab.list.height - 1
        await press("ctrl+b")
        assert tab.where == (0, 0)
        await press("g", "1", "1", "enter", "tab", "G")
        assert tab.where == (11, 1115)
        await press("g", "g", "ctrl+d")
        below = tab.where[1]
        assert below > 0
        await press("ctrl+d", "ctrl+u")
        assert tab.where == (11, below)
        await press("ctrl+u", "ctrl+f")
        assert tab.where[1] > below

    browse([PACK], steps)


@FUZZ_ONLY
def test_lines_are_scrolled_and_their_ends_are_reached():
    async def steps(app, press):
        tab = tab_of(app)
        await press("ctrl+e", "ctrl+e")
        assert (tab.list.top, tab.where) == (2, (0, 0))
        await press("ctrl+y")
        assert tab.list.top == 1
        await press("g", "1", "1", "enter", "tab", "down", "dollar_sign")
        reader = tab.reader
        assert tab.where[1] == reader.lines[1].last - 1
        await press("0")
        assert tab.where[1] == reader.lines[1].first
        first = reader.lines[0].first
        await press("ctrl+e")
        assert reader.lines[0].first > first
        await press("ctrl+y")
        assert reader.lines[0].first == first

    browse([PACK], steps, size=(100, 20))


@FUZZ_ONLY
def test_ends_of_other_lists():
    async def steps(app, press):
        await press("3", "home")
        rows = app.tab.parts
        count = rows.count
        await press("G")
        assert rows.cursor == count - 1
        await press("g", "g")
        assert rows.cursor == 0
        await press("ctrl+d")
        assert rows.cursor > 0
        await press("ctrl+u")
        assert rows.cursor == 0

    browse([FIXTURES / "modalities" / "E_D_2byte_gpt2.pbin"], steps, size=(80, 16))


@FUZZ_ONLY
def test_a_part_opens_and_closes_with_l_and_h():
    async def steps(app, press):
        await press("3", "g", "g", "h")
        parts = app.tab.parts
        assert not parts.outline.is_open(0)
        await press("l")
        assert parts.outline.is_open(0)

    browse([PACK], steps)


@FUZZ_ONLY
def test_back_to_another_dataset_and_view():
    async def steps(app, press):
        await press("g", "4", "enter", "g", "7", "enter", "d", "down", "enter")
        assert app.current == 1
        await press("v")
        assert app.session.shown == "samples"
        await press("g", "2", "enter", "v")
        assert app.session.shown == "documents"
        documents = tab_of(app).where
        await press("g", "0", "enter")
        places = []
        for _ in range(6):
            await press("backspace")
            places.append((app.current, app.session.shown, tab_of(app).where))
        assert places == [
            (1, "documents", documents), (1, "samples", (2, 0)), (1, "samples", (0, 0)), (1, "documents", (0, 0)),
            (0, "documents", (7, 0)), (0, "documents", (4, 0)),
        ]  # fmt: skip
        await press("alt+right", "alt+right")
        assert (app.current, app.session.shown) == (1, "documents")

    browse([PACK, BLOCKS], steps)


@FUZZ_ONLY
def test_arrows_bring_recent_places():
    async def steps(app, press):
        for number in ("5", "9"):
            await press("g", number, "enter")
        await press("g", "up", "up", "enter")
        assert tab_of(app).where == (5, 0)

    browse([PACK], steps)


# the mouse


def cell_of(reader, token):
    """Column and line of the first cell of a token on the screen, in the widget."""
    y = next(y for y, one in enumerate(reader.lines) if one.first <= token < one.last)
    return reader.lines[y].column_of(token)[0], y


@FUZZ_ONLY
def test_a_drag_beyond_the_last_line_scrolls():
    async def steps(app, press):
        tab, pilot = tab_of(app), press.pilot
        await press("g", "1", "1", "enter")
        reader = tab.reader
        assert await pilot.mouse_down(reader, offset=cell_of(reader, 3))
        top = reader.lines[0].first
        for _ in range(4):
            await pilot.hover(offset=(reader.region.x + 5, reader.region.bottom + 1))
            await press()
        assert reader.lines[0].first > top
        assert len(reader.marked) > 100
        await pilot.mouse_up(offset=(reader.region.x + 5, reader.region.bottom + 1))

    browse([PACK], steps, size=(100, 20))


def test_a_click_beside_a_dialog_leaves_it():
    async def steps(app, press):
        await press("d")
        dialog = app.screen
        assert len(app.screen_stack) == 2
        box = dialog.query_one(".box")
        await press.pilot.click(offset=(box.region.x + 3, box.region.y + 1))
        await press()
        assert app.screen is dialog
        await press.pilot.click(offset=(1, 1))
        await press()
        assert len(app.screen_stack) == 1

    browse([PACK, BLOCKS], steps)


def test_a_click_on_the_data_leaves_a_prompt():
    async def steps(app, press):
        await press("g", "7")
        await press.pilot.click(tab_of(app).list, offset=(5, 5))
        await press("j")
        assert not app.screen.query(Input)
        assert tab_of(app).where == (4, 0)

    browse([PACK], steps)


def test_help_is_beside_the_data_and_follows_the_focus():
    async def steps(app, press):
        def words():
            console = Console(width=200)
            with console.capture() as captured:
                console.print(app.screen.query_one("#help Static", Static).content)
            return captured.get()

        await press("question_mark")
        assert "Focus the reader" in words()
        await press("enter", "right")
        assert tab_of(app).where == (0, 1)
        assert "Last token of the line" in words()
        await press("escape")
        assert not app.screen.query("#help")
        await press("question_mark", "question_mark")
        assert not app.screen.query("#help")

    browse([PACK], steps)


@FUZZ_ONLY
def test_the_palette_lists_each_thing_once_and_nothing_that_does_nothing():
    async def steps(app, press):
        for key in "1234":
            await press(key)
            titles = commands(app)
            assert len(set(titles)) == len(titles)
            assert {"Quit", "All keys", "Theme"} <= set(titles)
            assert not {"Compare", "Keys", "Screenshot", "Remove the filter", "Next token", "Down"} & set(titles)

    browse([PACK], steps)


HIT = "11"
"""A token that PACK has 92 times."""


def said(app):
    return [str(notification.message) for notification in notes(app)]


async def answer(app, press, key, words):
    await press(key)
    app.screen.query_one(Input).value = words
    await press("enter")


@FUZZ_ONLY
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


@FUZZ_ONLY
@pytest.mark.parametrize("key", ["2", "3"])
def test_a_search_and_a_filter_begin_in_every_tab(key):
    async def steps(app, press):
        name = {"2": "statistics", "3": "file"}[key]
        await press(key)
        assert "/ Find" in line(app.query_one("#keys"), 0)
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


@FUZZ_ONLY
def test_ctrl_c_says_how_to_quit():
    async def steps(app, press):
        await press("ctrl+c")
        assert said(app) == ["q quits."]

    browse([PACK], steps)


@FUZZ_ONLY
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


@FUZZ_ONLY
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


@FUZZ_ONLY
def test_a_double_click_opens_a_row():
    async def steps(app, press):
        tab, pilot = tab_of(app), press.pilot
        await pilot.click(tab.list, offset=(10, 4 + tab.list.gutter.top))
        await press()
        assert tab.list.has_focus
        await pilot.click(tab.list, offset=(10, 4 + tab.list.gutter.top), times=2)
        await press()
        assert type(app.focused).__name__ == "Reader"

    browse([FIXTURES / "modalities" / "E_D_2byte_gpt2.pbin"], steps)


@FUZZ_ONLY
def test_a_filter_that_finds_nothing_shows_nothing():
    async def steps(app, press):
        tab = tab_of(app)
        await press("g", "9", "enter", "tab", "right", "right")
        await answer(app, press, "f", "len>100000")
        assert "nothing to list" in line(tab.list, 1)
        assert reader_text(app) == str(tab.query_one("#detail").render()) == ""
        assert "nothing is listed" in tab.query_one("#reading").border_title
        await press("c")
        assert said(app)[-1] == "Nothing is listed. F removes the filter."
        await press("F")
        assert tab.where == (9, 2)
        assert reader_text(app)
        await answer(app, press, "f", "len>100000")
        await answer(app, press, "f", "len>50")
        assert reader_text(app)
        assert tab.filtered.results.has(tab.where[0])

    browse([PACK], steps)
