"""Several splits, several datasets, and those that cannot be read."""

import json
import shutil

import numpy as np
import pytest
from amount import FUZZ_ONLY
from browsing import (
    PACK,
    STORE,
    SourceRequest,
    Spot,
    browse,
    first_ids,
    open_session,
    opened,
    reader_text,
    split_of,
    tab_of,
)
from paths import FIXTURES, TOKENIZER
from textual.widgets import Input, OptionList, Static

from tokfmt.errors import TokfmtError


@FUZZ_ONLY
def test_find_and_filter_follow_the_split():
    token = int(split_of(STORE, "validation").tokens(0, 1)[0])
    hits = {
        name: int((reader.tokens(0, reader.info.tokens) == token).sum())
        for name in ("train", "validation")
        for reader in [split_of(STORE, name)]
    }
    assert hits["validation"]

    async def steps(app, press):
        tab = tab_of(app)
        await press("slash", *str(token), "enter")
        assert tab.search.results.hits == hits["train"]
        await press("f", *"len>=20", "enter", "V")
        for name in ("validation", "train"):
            reader = split_of(STORE, name)
            long = np.flatnonzero(np.diff(reader.offsets(0, reader.info.sequences)) >= 20).tolist()
            assert tab.search.results.hits == hits[name]
            assert [tab.list.row_of(i) for i in range(tab.list.count)] == long
            await press("V")

    browse([STORE], steps)


@FUZZ_ONLY
def test_the_other_tabs_follow_the_split(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reader = split_of(STORE, "validation")

    async def steps(app, press):
        await press("2", "V")
        assert app.session.split == "validation"
        assert app.tab.found.sequences == reader.info.sequences
        assert app.tab.found.tokens == reader.info.tokens
        await press("3")
        verdict = app.session.verdict
        await press("V", "V")
        assert app.session.verdict is verdict  # of the whole store
        await press("1", "x")
        assert "validation" in app.tab.hex.path.parts
        await press("1", "e", "enter")
        assert app.screen.query_one(Input).value == "multi_chunk-validation-documents.jsonl"
        await press("enter")

    browse([STORE], steps)
    written = json.loads((tmp_path / "multi_chunk-validation-documents.jsonl").read_text().splitlines()[0])
    assert list(map(str, written["input_ids"]))[:3] == first_ids(reader, 0)


@FUZZ_ONLY
def test_another_split_keeps_the_tokenizer():
    async def steps(app, press):
        words = app.session.vocabulary
        await press("V")
        assert app.session.vocabulary is words is not None
        assert not reader_text(app).split()[0].isdigit()

    browse([STORE], steps, tokenizer=str(TOKENIZER))


@FUZZ_ONLY
def test_nothing_of_one_split_is_left_on_the_screen_of_another_that_is_empty():
    async def steps(app, press):
        tab = tab_of(app)
        await press("V")
        assert app.session.split == "validation"
        assert reader_text(app)
        await press("tab", "right", "V")
        assert app.session.split == "train"
        assert "nothing to list" in tab.list.render_line(1).text
        assert reader_text(app) == str(tab.query_one("#detail").render()) == ""
        await press("g", "escape", "r", "n", "c", "b", "end", "V")
        assert tab.where[0] == 0
        assert reader_text(app)

    browse([FIXTURES / "flat-tokens" / "train_empty.zarr"], steps)


BAD = FIXTURES / "bad"


def shows(app, split, row):
    """The row of a split is what is on the screen, in the reader and in the list."""
    reader, tab = split_of(app.session.path, split), tab_of(app)
    ids = first_ids(reader, row)
    listed = tab.list.render_line(row + 1 - tab.list.top).text
    return (
        (app.session.split, tab.where, tab.list.count) == (split, (row, 0), reader.info.sequences)
        and reader_text(app).split()[: len(ids)] == ids
        and " ".join(ids[:2]) in listed
    )


@FUZZ_ONLY
def test_one_of_several_splits_is_asked_for(tmp_path):
    store = tmp_path / "three.zarr"
    shutil.copytree(STORE, store)
    shutil.copytree(store / "validation", store / "test")

    async def steps(app, press):
        assert app.session.splits == ("test", "train", "validation")
        await press("V")
        assert type(app.screen).__name__ == "OneOf"
        assert app.screen.query_one(OptionList).highlighted == 1
        await press("up", "enter")
        assert shows(app, "test", 0)
        await press("V", "escape")
        assert app.session.split == "test"

    browse([store], steps)


@FUZZ_ONLY
def test_the_split_that_was_named_is_shown_and_checked_alone():
    session = open_session(SourceRequest((str(STORE),), options={"split": "validation"}))

    async def steps(app, press):
        assert shows(app, "validation", 0)
        await press("V")
        assert shows(app, "train", 0)
        assert app.session.request.options == {}
        assert app.session.asked is session.request

    browse([], steps, session=session)


@FUZZ_ONLY
@pytest.mark.parametrize("format_name", ["flat-tokens", "hdf5", "jsonl", "modalities", "stage1"])
def test_whatever_cannot_be_read_is_a_place_of_its_own(format_name):
    bad = [path for path in sorted((BAD / format_name).iterdir()) if refuses(path)]
    some = bad[:: max(1, len(bad) // 7)]

    async def steps(app, press):
        for number in range(1, len(some) + 1):
            app.go(Spot(number=number, tab=""))
            await press()
            told = " ".join(str(app.query_one("#refusal").render()).split())
            assert " ".join(str(app.session.refused).split())[:60] in told
            assert app.query_one("#refusal").has_focus
            if number % 3 == 1:
                await press("g", "slash", "v", "e", "r")
                assert len(app.screen_stack) == 1
                await tabs_of_what_cannot_be_read(app, press)
        app.go(Spot(number=0))
        await press("down")
        assert tab_of(app).where == (1, 0)

    assert len(some) > 3
    browse([PACK, *some], steps)


def refuses(path):
    if path.suffix in (".py", ".json", ".idx"):
        return False
    try:
        opened(str(path))
    except TokfmtError:
        return True
    return False


async def tabs_of_what_cannot_be_read(app, press):
    await press("3")
    assert app.tab.parts.outline.count
    assert app.session.verdict.findings
    await press("2")
    assert "✗" in str(app.query_one("#counting", Static).render())
    assert app.query_one("#lengths").is_mounted
    await press("1")
