"""Everything that a key does, done with a mouse: lists of dialogs, ranges, the wheel beside the panes, words that lead on."""

import json
from pathlib import Path

from amount import FUZZ_ONLY
from browsing import BLOCKS, PACK, browse, browse_folder, clicks, commands, line, notes, tab_of
from paths import CORPUS, TOKENIZER
from textual.widgets import Input, OptionList

import tokfmt


@FUZZ_ONLY
def test_a_double_click_on_one_screen_still_opens():
    async def steps(app, press):
        tab = tab_of(app)
        await clicks(app, press, tab.list.content_region.x + 4, tab.list.content_region.y + 4, times=2)
        assert tab.where[0] == 3
        assert tab.reader.has_focus

    browse([PACK], steps)


async def click_key(app, press, words):
    """Click on a key of the last line."""
    if app.screen.query("KeyBar"):
        bar = app.screen.query_one("#keys")
        at = line(bar, 0).index(words)
        await clicks(app, press, bar.content_region.x + at, bar.region.y)
        return
    key = next(key for key in app.screen.query("FooterKey") if key.description == words)
    await clicks(app, press, key.region.x, key.region.y)


def place_of_line(rows, number):
    """The first cell of a line of a list in a dialog."""
    x, top, _, height = rows.content_region
    return x, next(y for y in range(top, top + height) if rows.screen.get_style_at(x, y).meta["option"] == number)


def test_an_export_writes_what_is_shown_and_replaces_no_file(tmp_path, monkeypatch):
    """Text where the reader shows text, and IDs where it shows IDs."""
    monkeypatch.chdir(tmp_path)
    tokfmt.convert(CORPUS, tmp_path / "x.pbin", tokenizer=str(TOKENIZER), executor="serial")
    written = tmp_path / "x-documents.jsonl"

    async def steps(app, press):
        await press("e", "enter", "enter")
        assert [list(json.loads(text)) for text in written.read_text().splitlines()] == [["text"]] * 184
        said = notes(app)[-1].message
        assert "184 documents" in said
        assert f"{written.stat().st_size:,} bytes" in said
        await press("m", "e")
        app.screen.query_one(Input).value = "first "
        assert "number" not in str(app.screen.query_one("#meaning").render()), "the number is being typed"
        app.screen.query_one(Input).value = "3:5"
        await press("enter")
        app.screen.query_one(Input).value = written.name
        await press("enter")
        assert "exists already" in str(app.screen.query_one("#meaning").render())
        app.screen.query_one(Input).value = "y.pbin"
        await press("enter")
        assert "convert" in str(app.screen.query_one("#meaning").render()), "the name is that of another format"
        app.screen.query_one(Input).value = "ids.jsonl"
        await press("enter")

    browse([tmp_path / "x.pbin"], steps, tokenizer=str(TOKENIZER))
    assert [list(json.loads(text)) for text in Path("ids.jsonl").read_text().splitlines()] == [["input_ids"]] * 2


@FUZZ_ONLY
def test_the_second_press_of_a_double_click_does_not_reach_another_screen():
    async def steps(app, press):
        tab = tab_of(app)
        bar = app.query_one("#keys")
        x = bar.content_region.x + line(bar, 0).index("g Go to")
        await clicks(app, press, x, bar.region.y, times=2)
        assert app.screen.query(Input)  # which is at the same place
        await press("escape", "d")
        rows = app.screen.query_one(OptionList)
        x, y = place_of_line(rows, 1)
        assert tab.list.region.contains(x, y)
        await clicks(app, press, x, y, times=2)
        assert len(app.screen_stack) == 1
        assert app.current == 1
        assert (tab.where[0], tab.list.has_focus) == (0, True)

    browse([PACK, BLOCKS], steps, size=(60, 24))


@FUZZ_ONLY
def test_all_keys_of_a_catalog_are_a_click_away_where_few_keys_fit(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.pbin").write_bytes(PACK.read_bytes())

    async def steps(app, press):
        await click_key(app, press, "? All keys")
        assert app.screen.query("#help")

    browse_folder(tmp_path / "data", steps, size=(36, 24))


@FUZZ_ONLY
def test_the_palette_of_a_catalog_has_its_keys(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.pbin").write_bytes(PACK.read_bytes())

    async def steps(app, press):
        names = commands(app)
        assert "Filter" in names
        assert "Find" not in names
        await press("ctrl+p", *"filter", "enter")
        assert type(app.screen).__name__ == "Datasets"
        assert app.screen.query_one(Input).has_focus

    browse_folder(tmp_path / "data", steps)
