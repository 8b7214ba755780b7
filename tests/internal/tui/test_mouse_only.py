"""Everything that a key does, done with a mouse: lists of dialogs, ranges, the wheel beside the panes, words that lead on."""

import json

import pytest
from browsing import BLOCKS, PACK, browse, browse_folder, line, tab_of
from paths import CORPUS, FIXTURES, TOKENIZER
from textual.command import CommandPalette
from textual.events import MouseDown, MouseUp
from textual.widgets import Input, OptionList

import tokfmt
from tokfmt.browser.data.session import refused_session
from tokfmt.browser.dialogs import ColumnList, Question
from tokfmt.browser.export import Export
from tokfmt.browser.tokenizers import TokenizerList, TokenizerPair
from tokfmt.browser.widgets.frame import KeyBar
from tokfmt.errors import TokfmtError
from tokfmt.source.request import SourceRequest

LINES = FIXTURES / "text" / "with_fields.jsonl"
FIELD = next(name for name in json.loads(LINES.read_text().splitlines()[0]) if name != "text")


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


async def clicks(app, press, x, y, times=1):
    """Click in the way of a terminal: the app counts the clicks, which all happen within a moment."""
    kinds = [MouseDown, MouseUp] * times
    for event in [kind(None, x, y, 0, 0, 1, shift=False, meta=False, ctrl=False) for kind in kinds]:
        app.post_message(event)
        await press.pilot.pause()
    await press()


async def click_key(app, press, words):
    """Click on a key of the last line."""
    if app.screen.query(KeyBar):
        bar = app.screen.query_one(KeyBar)
        at = line(bar, 0).index(words)
        await clicks(app, press, bar.content_region.x + at, bar.region.y)
        return
    key = next(key for key in app.screen.query("FooterKey") if key.description == words)
    await clicks(app, press, key.region.x, key.region.y)


def place_of_line(rows, number):
    """The first cell of a line of a list in a dialog."""
    x, top, _, height = rows.content_region
    return x, next(y for y in range(top, top + height) if rows.screen.get_style_at(x, y).meta["option"] == number)


def listed(app):
    """The rows that the tab of sequences lists."""
    assert app.entry.name == "sequences"
    rows = tab_of(app).list
    return [rows.row_of(k) for k in range(rows.count)]


# lists in dialogs


def test_columns_are_shown_and_sorted_by():
    async def steps(app, press):
        tab = tab_of(app)
        await press("vertical_line")
        rows = app.screen.query_one(OptionList)
        x, y = place_of_line(rows, 2)
        await clicks(app, press, x, y)
        assert isinstance(app.screen, ColumnList)
        assert rows.get_option_at_index(2).prompt.plain.startswith("✓")
        await clicks(app, press, 1, 1)
        assert FIELD in line(tab.list, 0)
        assert " by " not in str(tab.list.border_title)
        await press("vertical_line")
        rows = app.screen.query_one(OptionList)
        x, y = place_of_line(rows, 2)
        await clicks(app, press, x + 3, y)
        assert (isinstance(app.screen, ColumnList), rows.highlighted) == (True, 2)
        await clicks(app, press, x + 4, y, times=2)
        assert f" by {FIELD} " in str(tab.list.border_title)

    browse([LINES], steps, size=(160, 40))


def test_two_tokenizers_are_compared_from_the_list(tmp_path):
    async def steps(app, press):
        await press("T")
        rows = app.screen.query_one(OptionList)
        assert rows.option_count == 2  # the one in use, and none
        await clicks(app, press, *place_of_line(rows, 0))
        assert isinstance(app.screen, TokenizerList)
        await click_key(app, press, "Beside the one in use")
        assert isinstance(app.screen, TokenizerPair)

    browse([CORPUS], steps, tokenizer=str(TOKENIZER))


def test_a_tokenizer_that_is_typed_needs_no_enter():
    async def steps(app, press):
        await press("T", *str(TOKENIZER))
        assert app.screen.query_one(Input).has_focus
        await click_key(app, press, "OK")
        assert not isinstance(app.screen, TokenizerList)
        assert app.session.choice.name == str(TOKENIZER)

    browse([CORPUS], steps)


def test_an_export_as_text_needs_no_enter(tmp_path):
    tokfmt.convert(CORPUS, tmp_path / "x.pbin", tokenizer=str(TOKENIZER), executor="serial")

    async def steps(app, press):
        await press("e")
        tick = app.screen.query_one("#text")
        await clicks(app, press, tick.region.x + 1, tick.region.y)
        assert (tick.value, tick.has_focus) == (True, True)
        await click_key(app, press, "OK")
        assert not isinstance(app.screen, Export)
        assert '"text"' in next(tmp_path.glob("*.jsonl")).read_text()

    browse([tmp_path / "x.pbin"], steps, tokenizer=str(TOKENIZER))


# double clicks


def test_the_second_press_of_a_double_click_does_not_reach_another_screen():
    async def steps(app, press):
        tab = tab_of(app)
        bar = app.query_one(KeyBar)
        x = bar.content_region.x + line(bar, 0).index("g Go to")
        await clicks(app, press, x, bar.region.y, times=2)
        assert isinstance(app.screen, Question)  # whose own line of keys is at the same place
        await press("escape", "d")
        rows = app.screen.query_one(OptionList)
        x, y = place_of_line(rows, 1)
        assert tab.list.region.contains(x, y)
        await clicks(app, press, x, y, times=2)
        assert len(app.screen_stack) == 1
        assert app.current == 1
        assert (tab.where[0], tab.list.has_focus) == (0, True)

    browse([PACK, BLOCKS], steps, size=(60, 24))


# drags


async def drag(press, widget, begin, *ways):
    assert await press.pilot.mouse_down(widget, offset=begin)
    for way in ways:
        await press.pilot.hover(widget, offset=way)
    await press.pilot.mouse_up(widget, offset=ways[-1])
    await press()


# words that lead on


async def click_words(app, press, widget, words):
    """Click on words that a widget shows."""
    text = [line(widget, y) for y in range(widget.size.height)]
    y = next(y for y, one in enumerate(text) if words in one)
    region = widget.content_region
    await clicks(app, press, region.x + text[y].index(words) + 1, region.y + y)


def test_the_first_line_shows_the_facts_and_stops(monkeypatch):
    async def steps(app, press):
        await clicks(app, press, 3, 0)
        assert app.entry.name == "statistics"
        await press("1")
        await press("R")
        app._followed.add(0)
        app.say()
        await press()
        loading = app.query_one("#loading")
        await click_words(app, press, loading, "R stops")
        assert not app._followed

    browse([PACK], steps)


def test_a_dataset_that_cannot_be_read_leads_to_its_findings():
    async def steps(app, press):
        await click_words(app, press, app.query_one("#refusal"), "Findings")
        assert app.entry.name == "findings"

    browse([PACK], steps, session=refused_session(SourceRequest((PACK,)), TokfmtError("it is cut")))


@pytest.mark.parametrize("columns", [36, 60])
def test_the_palette_is_a_click_away_where_few_keys_fit(columns):
    async def steps(app, press):
        for key in "1234":
            await press(key)
            bar = line(app.query_one(KeyBar), 0)
            assert bar.endswith("? Help q Quit".ljust(bar.index("^p") - bar.index("? Help")) + "^p palette")
        await press("1", "g", *"5", "enter")
        assert "⌫ Back" in line(app.query_one(KeyBar), 0)
        await click_key(app, press, "^p palette")
        assert isinstance(app.screen, CommandPalette)

    browse([PACK], steps, size=(columns, 24))


@pytest.mark.parametrize("columns", [36, 80])
def test_the_palette_of_a_catalog_and_of_two_tokenizers_is_a_click_away(tmp_path, columns):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.pbin").write_bytes(PACK.read_bytes())

    async def open_palette(app, press):
        await click_key(app, press, "^p palette")
        assert isinstance(app.screen, CommandPalette)

    async def pair(app, press):
        await press("T", *str(TOKENIZER), "ctrl+b")
        assert isinstance(app.screen, TokenizerPair)
        assert "esc Close" in line(app.screen.query_one(KeyBar), 0)
        await open_palette(app, press)

    browse_folder(tmp_path / "data", open_palette, size=(columns, 24))
    browse([CORPUS], pair, tokenizer=str(TOKENIZER), size=(columns, 24))


def test_the_palette_of_a_catalog_has_its_keys(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.pbin").write_bytes(PACK.read_bytes())

    async def steps(app, press):
        names = [command.title for command in app.get_system_commands(app.screen)]
        assert "Filter" in names
        assert "Find" not in names
        await press("ctrl+p", *"filter", "enter")
        assert isinstance(app.screen, Question)
        assert not isinstance(app.screen, CommandPalette)
        assert app.screen.query_one(Input).has_focus

    browse_folder(tmp_path / "data", steps)
