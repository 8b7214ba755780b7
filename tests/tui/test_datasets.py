"""Several splits, several datasets, and those that cannot be read."""

import json

import numpy as np
import pytest
from amount import FUZZ_ONLY
from browsing import STORE, browse, reader_text, tab_of
from paths import FIXTURES, TOKENIZER
from textual.widgets import Input

import tokfmt


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def split_of(path, split):
    return tokfmt.open(path, options=[f"split={split}"]).reader


def first_ids(reader, row, count=3):
    start, stop = reader.offsets(row, row + 1).tolist()
    return [str(token) for token in reader.tokens(start, min(stop, start + count)).tolist()]


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
        await press("1", "e")
        assert app.screen.query(Input).last().value == "multi_chunk-validation-documents.jsonl"
        await press("enter")

    browse([STORE], steps)
    written = json.loads((tmp_path / "multi_chunk-validation-documents.jsonl").read_text())
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
