"""Keys pressed faster than a disk answers: every jump and every move arrives, in the order they were asked for."""

import json
import os
import sys
import threading
import time

import forkserver
import numpy as np
import pytest
from browsing import PACK, STORE, Fake, browse, session_of, tab_of
from paths import TOKENIZER
from textual.widgets import Input, Static

from tokfmt.browser.data.opening import opened_now
from tokfmt.browser.data.state import recall, remember, state_file
from tokfmt.browser.widgets.frame import FindBar, Summary
from tokfmt.browser.widgets.row_view import Loader
from tokfmt.commands.search.query import Search, parse_query
from tokfmt.commands.search.search import find_many
from tokfmt.errors import OptionError


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


class Uneven(Fake):
    """Reads take their time, the earlier ones more of it."""

    def __init__(self):
        super().__init__()
        self.info = self.info.__class__(self.info.layout, np.dtype(np.uint32), 2000, 200_000)
        self.slow, self.reads = False, 0
        self.main = threading.get_ident()

    def tokens(self, start, stop):
        assert threading.get_ident() != self.main, "read on the thread of the screen"
        if self.slow:
            self.reads += 1
            time.sleep(max(0.0, 0.1 - self.reads * 0.02))
        return (np.arange(start, stop) % 50_000).astype(np.uint32)


@pytest.mark.usefixtures("_any_format")
def test_the_next_hit_pressed_fast_is_as_many_hits_further():
    reader = Uneven()

    async def steps(app, press):
        tab, pilot = tab_of(app), press.pilot
        await press("slash", "7", "7", "enter")
        assert tab.where == (0, 77)
        reader.slow = True
        for _ in range(9):
            app.simulate_key("n")
            await pilot.pause(0.01)
        app.simulate_key("N")
        await press()
        assert tab.search.results.hits == 4  # tokens are numbered to 50,000, and there are 200,000
        assert tab.query_one(FindBar).number == 0  # eight further, around twice
        assert tab.where == (0, 77)
        await press("down", "n", "n")
        assert tab.query_one(FindBar).number == 2
        assert tab.where == (1000, 77)

    browse([], steps, session=session_of(reader))


@pytest.mark.usefixtures("_any_format")
def test_no_key_is_lost_while_the_next_hit_is_looked_for():
    """One that waits for a disk: the keys pressed meanwhile are steps from where it leads."""
    gate = threading.Event()

    async def steps(app, press):
        tab = tab_of(app)
        await press("slash", "7", "7", "enter")
        following = tab.search.following
        tab.search.following = lambda *words: following(*words) if gate.wait(60) else None
        for _ in range(3):
            app.simulate_key("n")
            await press.pilot.pause(0.01)
        gate.set()
        await press()
        assert tab.query_one(FindBar).number == 3

    browse([], steps, session=session_of(Uneven()))


@pytest.fixture
def _any_format(monkeypatch):
    monkeypatch.setattr("tokfmt.browser.app.summary", lambda *_: (Summary("fake"), ""))


def test_opening_never_holds_up_the_screen(monkeypatch):
    gate, opened_by = threading.Event(), []

    def slowly(request):
        opened_by.append(threading.get_ident())
        assert gate.wait(60)
        return opened_now(request)

    async def steps(app, press):
        tab, pilot = tab_of(app), press.pilot
        assert not opened_by
        monkeypatch.setattr("tokfmt.browser.data.session.opened_now", slowly)
        await pilot.press("d", "down", "enter", "down")
        assert app.current == 0
        assert tab.list.cursor == 1
        assert "opening" in str(app.query_one("#loading", Static).render())
        await pilot.press("escape")
        gate.set()
        await press()
        assert app.current == 0  # it was called off
        await press("d", "down", "enter")
        assert app.current == 1
        gate.clear()
        await pilot.press("V", "down")  # another split
        assert (app.session.split, tab.list.cursor) == ("train", 1)
        gate.set()
        await press()
        assert app.session.split == "validation"
        assert threading.get_ident() not in opened_by
        assert len(opened_by) == 3

    browse([PACK, STORE], steps)


def bookmark_all(state, numbers):
    words = (
        "import sys; from tokfmt.plugin import LocalPlace; from tokfmt.browser.data.state import Bookmark, Bookmarks;"
        "ours = Bookmarks(LocalPlace('x'));"
        "[ours.toggle(Bookmark('documents', int(n), 0)) for n in sys.argv[1:]]"
    )
    env = {**os.environ, "XDG_STATE_HOME": str(state)}
    return forkserver.Popen([sys.executable, "-c", words, *map(str, numbers)], env=env, cwd=state)


def test_a_directory_that_others_may_write_to_is_neither_read_nor_written(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    remember(PACK, tokenizer="a")
    assert recall(PACK) == {"tokenizer": "a"}
    state_file().parent.chmod(0o777)
    before = state_file().read_bytes()
    assert recall(PACK) == {}
    remember(PACK, tokenizer="b")
    assert state_file().read_bytes() == before
    assert sorted(os.listdir(state_file().parent)) == ["browse.json", "browse.json.lock"]


class Long(Fake):
    """Three documents of 100,000 tokens, each of a read that waits for the gate."""

    def __init__(self):
        super().__init__()
        self.info = self.info.__class__(self.info.layout, np.dtype(np.uint32), 3, 300_000)
        self.gate = threading.Event()
        self.gate.set()

    def offsets(self, first, last):
        return np.arange(first, last + 1, dtype=np.int64) * 100_000

    def tokens(self, start, stop):
        assert self.gate.wait(60)
        return super().tokens(start, stop)


@pytest.mark.usefixtures("_any_format")
def test_moves_that_wait_for_a_disk_are_all_made():
    reader = Long()

    async def steps(app, press):
        tab, pilot = tab_of(app), press.pilot
        await press("tab")
        reader.gate.clear()
        for key in ("end", "left", "left", "left", "up"):
            await pilot.press(key)
        reader.gate.set()
        await press()
        line = next(line for line in tab.reader.lines if line.first <= tab.reader.cursor < line.last)
        await press("end", "left", "left", "left", "up")
        again = next(line for line in tab.reader.lines if line.first <= tab.reader.cursor < line.last)
        assert line == again
        reader.gate.clear()
        for key in ("home", "right", "right"):
            await pilot.press(key)
        reader.gate.set()
        await press()
        assert tab.where == (0, 2)
        reader.gate.clear()
        for key in ("right_square_bracket", "right", "right", "right"):  # in a row that is still being opened
            await pilot.press(key)
        reader.gate.set()
        await press()
        assert tab.where == (1, 3)

    browse([], steps, session=session_of(reader))


def test_a_desk_for_every_wish_does_them_in_order():
    class Owner:
        def call_later(self, then, *results):
            then(*results)

    done, told, end = [], [], threading.Event()
    loader = Loader(Owner(), every=True)
    for number in range(100):
        loader.ask(lambda number=number: done.append(number) or number, told.append)
    loader.ask(lambda: None, lambda _: end.set())
    assert end.wait(60)
    assert done == told == list(range(100))
    loader.close()


async def look_for(app, pilot, words):
    await pilot.press("slash")
    app.screen.query_one(Input).value = words
    await pilot.press("enter")
    await pilot.pause()


EVIL, TEXT = "(a|aa)+$", "a" * 5000 + "b"


@pytest.mark.parametrize("tokenizer", [None, str(TOKENIZER)], ids=["characters", "tokens"])
def test_a_regular_expression_without_end_freezes_nothing_and_is_called_off(tokenizer, tmp_path, monkeypatch):
    path = tmp_path / "evil.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in ("fine", TEXT, "also fine")))

    async def called_off(app, pilot):
        """Whether keys are heard while it looks."""
        tab = tab_of(app)
        await pilot.press("home")
        await look_for(app, pilot, EVIL)
        search = tab.search
        await pilot.press("down")
        heard = search.running and tab.list.cursor == 1
        await pilot.press("escape")
        assert not search.running
        return heard and search.cancelled

    async def steps(app, press):
        tab, pilot = tab_of(app), press.pilot
        for patience in (0.5, 2, 8):  # it is given up before a busy machine has brought the keys
            monkeypatch.setattr("tokfmt.browser.data.search.PATIENCE", patience)
            if await called_off(app, pilot):
                break
        else:
            raise AssertionError("no key was heard while it looked")
        monkeypatch.setattr("tokfmt.browser.data.search.PATIENCE", 0.1)
        await look_for(app, pilot, EVIL)
        await press()
        assert "no end after" in tab.search.failure
        await look_for(app, pilot, "fine")
        await press()
        assert tab.search.results.hits == 2

    browse([path], steps, tokenizer=tokenizer)


def test_a_pattern_is_given_up_wherever_it_is_looked_for():
    from tokfmt.core.memory import MemoryReader
    from tokfmt.core.ragged import Ragged
    from tokfmt.text.tokenizer import load_tokenizer

    handle = load_tokenizer(str(TOKENIZER))
    rows = handle.encoder().encode([TEXT])
    found = find_many(
        MemoryReader(rows if isinstance(rows, Ragged) else rows.ragged), parse_query(f"text:{EVIL}"),
        Search(patience=0.1), decoder=handle.decoder(lenient=True),
    )  # fmt: skip
    with pytest.raises(OptionError, match="no end after"):
        list(found)
