"""The browser driven without a terminal, over every format."""

import json

import numpy as np
import pytest
from browsing import BLOCKS, HDF5, PACK, STORE, Fake, browse, reader_text, session_of, tab_of
from opened import open_source
from paths import CORPUS, TOKENIZER
from textual.widgets import Input

from tokfmt.browser.data.layout import Mode
from tokfmt.browser.data.session import located, open_session
from tokfmt.browser.data.state import recall
from tokfmt.browser.widgets.frame import KeyBar, Summary, TopBar
from tokfmt.source.request import SourceRequest


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def list_line(app, row):
    return tab_of(app).list.render_line(row + 1 - tab_of(app).list.top).text


def test_text_is_decoded_when_the_tokenizer_is_there():
    first = json.loads(CORPUS.read_text().splitlines()[3])["text"]

    async def steps(app, press):
        await press("down", "down", "down")
        assert reader_text(app).replace("\n", "").startswith(first[:20])
        assert first[:20] in list_line(app, 3)
        assert tab_of(app).session.port.unit == "token"
        await press("m")
        assert tab_of(app).reader.mode is Mode.IDS
        numbers = [int(word) for word in reader_text(app).split()]
        await press("m")
        assert tab_of(app).reader.mode is Mode.BOTH
        assert set(map(str, numbers[:3])) <= set(reader_text(app).split())

    browse([CORPUS], steps, tokenizer=str(TOKENIZER))


def test_jumps():
    reader = open_source([PACK]).reader
    position = 1000
    row = int(np.searchsorted(reader.offsets(0, reader.info.sequences), position, side="right")) - 1

    async def steps(app, press):
        tab = tab_of(app)
        await press("g", "t", "colon", *"1000", "enter")
        assert tab.where == (row, position - int(reader.offsets(row, row)[0]))
        assert tab.list.row == row
        await press("g", *"-1", "enter")
        assert tab.where == (reader.info.sequences - 1, 0)
        await press("g", *"1e9", "enter")
        assert tab.where == (reader.info.sequences - 1, 0)
        for key, words, at in (
            ("g", "50%", (21, 0)), ("g", "0%", (0, 0)), ("g", "99.9%", (41, 0)), ("g", "100%", (41, 0)),
            ("g", "t:25%", located(tab.port, reader.info.tokens // 4)),
        ):  # fmt: skip
            await press(key)
            app.screen.query_one(Input).value = words
            await press("enter")
            assert tab.where == at, words
        for words, says in (
            ("101%", "there are 42 documents: 0 to 41"),
            ("x%", "'x%' is not a share"),
            ("nan%", "0% to 100%"),
        ):
            await press("g")
            app.screen.query_one(Input).value = words
            await press("enter")
            assert says in list(app._notifications)[-1].message
        await press("g")
        assert app.screen.query_one(Input).has_focus
        await press("escape")
        await press("r")
        assert 0 <= tab.where[0] < reader.info.sequences

    browse([PACK], steps)


@pytest.fixture
def _any_format(monkeypatch):
    monkeypatch.setattr("tokfmt.browser.app.summary", lambda *_: (Summary("fake"), ""))


async def narrow(app, press):
    text = app.query_one(KeyBar).render_line(0).text
    assert len(text) == app.query_one(KeyBar).size.width
    assert "? Help q Quit " in text
    assert text.endswith("^p palette")


@pytest.mark.usefixtures("_any_format")
def test_a_trillion_documents():
    async def steps(app, press):
        tab = tab_of(app)
        await press("end")
        assert tab.where == (10**12 - 1, 0)
        assert "999,999,999,999" in list_line(app, 10**12 - 1)
        await press("tab", "end")
        assert tab.where == (10**12 - 1, 99)
        await press("g", *"5e11", "enter")
        assert tab.where == (5 * 10**11, 0)
        await press("pageup", "shift+tab", "pageup", "up")
        tab.list.scroll_to(y=25 * 10**10, animate=False)
        await press()
        assert abs(tab.list.top - 25 * 10**10) < 100

    browse([], steps, session=session_of(Fake()))


@pytest.mark.usefixtures("_any_format")
def test_damage_is_shown_in_its_place():
    async def steps(app, press):
        tab = tab_of(app)
        assert "✗ a.bin" in list_line(app, 0)
        assert "the chunk is damaged" in reader_text(app)
        await press("g", *"200", "enter")
        assert reader_text(app).split()[0] == "20000"
        assert tab.where == (200, 0)

    browse([], steps, session=session_of(Fake(broken=(3,))))


def test_a_tokenizer_is_remembered_for_the_dataset():
    async def nothing(app, press):
        assert app.session.vocabulary is not None

    browse([PACK], nothing, tokenizer=str(TOKENIZER))
    assert recall(PACK)["tokenizer"] == str(TOKENIZER)
    browse([PACK], nothing)


def test_a_tokenizer_that_cannot_be_loaded_is_a_notification(tmp_path):
    bad = tmp_path / "tokenizer.json"
    bad.write_text("{}")

    async def steps(app, press):
        assert any("is not a tokenizer.json" in str(one.message) for one in app._notifications)
        assert reader_text(app).split()[0] == "464"
        await press("down")
        assert app.is_running

    browse([PACK], steps, tokenizer=str(bad))


def test_large_ones_open_in_stages(monkeypatch):
    """What is shown first and in full is the same as what is small enough to be opened at once."""
    monkeypatch.setattr("tokfmt.browser.data.opening.SMALL", 0)

    for path, first in ((PACK, "rows"), (STORE, "rows"), (BLOCKS, "samples"), (HDF5, "samples"), (CORPUS, "records")):
        session = open_session(SourceRequest((str(path),)))
        assert session.shown == first
        assert session.opened.pending
        whole = open_source([path]).reader

        async def steps(app, press, session=session, whole=whole):
            assert not session.opened.pending
            assert session.shown in ("documents", "records")
            count = whole.count() if isinstance(session.view.port.count, int) and session.of_text else None
            assert session.view.port.count == (count or whole.info.sequences)
            await press("end")
            assert reader_text(app)

        browse([], steps, session=session)


def test_the_first_line_is_told_before_and_after_its_labels_are_there():
    """What a store answers may arrive while the browser starts or ends."""

    async def steps(app, press):
        bar = app.query_one(TopBar)
        await bar.remove_children()
        app.say()
        bar.say_filter("len>5")

    browse([PACK], steps)
