"""Find, filter, bookmarks and what is taken away, driven without a terminal."""

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from amount import examples
from browsing import EVERY, PACK, Fake, browse, session_of, tab_of
from hypothesis import given, settings
from hypothesis import strategies as st
from opened import open_source
from paths import CORPUS, TOKENIZER
from textual.widgets import Input, Label

from tokfmt.browser.data.copies import other_meaning
from tokfmt.browser.data.search import SearchResults, meaning, parse_search, search_scope
from tokfmt.browser.data.session import open_session
from tokfmt.browser.data.state import recall, remember, state_file
from tokfmt.browser.export import Export
from tokfmt.browser.tabs.statistics import StatisticsTab
from tokfmt.browser.widgets.frame import FindBar, Summary
from tokfmt.commands.search.query import Hits, LengthQuery, TextQuery, TokenQuery
from tokfmt.errors import OptionError
from tokfmt.source.request import SourceRequest

TEXTS = [json.loads(line)["text"] for line in CORPUS.read_text().splitlines()]


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def bar(app):
    return str(app.query_one(FindBar).render())


def said(app):
    return [str(notification.message) for notification in app._notifications]


# what is kept

places = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5), st.integers(0, 3)), max_size=20)


def columns(hits):
    table = np.array(hits, np.int64).reshape(-1, 3)
    return Hits(table[:, 0], table[:, 1], table[:, 2])


@settings(max_examples=examples(150), deadline=None)
@given(places, st.integers(0, 6), st.integers(1, 30), st.integers(0, 6), st.integers(0, 6), st.sampled_from([1, -1]))
def test_hits_are_kept_in_order_and_bounded(found, begin, most, row, at, step):
    hits = sorted({(r, s, s + width) for r, s, width in found})
    hits = [hit for i, hit in enumerate(hits) if not i or hits[i - 1][:2] != hit[:2]]
    hits = [hit for i, hit in enumerate(hits) if not i or hits[i - 1][0] != hit[0] or hits[i - 1][2] <= hit[2]]
    ahead, behind = [h for h in hits if h[0] >= begin], [h for h in hits if h[0] < begin]
    results = SearchResults(most, most)
    for hit in ahead:
        results.add(columns([hit]))
    results.go_round()
    results.add(columns(behind))
    assert results.hits == len(hits)
    assert results.sequences == len({hit[0] for hit in hits})
    known = sorted([*ahead, *behind][:most])
    assert results.held == len(known)
    assert results.capped == (len(known) < len(hits))
    if len({hit[0] for hit in hits}) <= most:
        assert results.rows().tolist() == sorted({hit[0] for hit in hits})
        assert results.has(row) == any(hit[0] == row for hit in hits)
    beyond = [h for h in known if h[:2] > (row, at)] if step > 0 else [h for h in known if h[:2] < (row, at)][::-1]
    around = known if step > 0 else known[::-1]
    following = results.following(row, at, step)
    if not known:
        assert following is None
    else:
        wanted_hit = (beyond or around)[0]
        assert (following.row, following.start, following.stop) == wanted_hit
        assert following.wrapped == (not beyond)
        assert known[following.number] == wanted_hit
    touching = {(h[1], h[2]) for h in known if h[0] == row and h[2] > at and h[1] < at + 2}
    assert {(hit.start, hit.stop) for hit in results.within(row, at, at + 2)} == touching


class Decoder:
    def pieces(self, tokens):
        return [b"x" for _ in tokens]


def test_parsing_of_searches():
    ids, text = (
        search_scope(open_session(SourceRequest((str(PACK),)))),
        search_scope(open_session(SourceRequest((str(CORPUS),)))),
    )
    assert parse_search("464", ids) == parse_search("token:464", ids) == TokenQuery((464,))
    assert parse_search("464, 3290", ids) == TokenQuery((464, 3290))
    assert parse_search("len>50", ids) == LengthQuery(51, None)
    assert parse_search("10<=len<20", text) == LengthQuery(10, 19)
    both = ids._replace(decoder=Decoder())
    assert parse_search("2024", both).literal == "2024"
    assert parse_search("token:2024", both) == TokenQuery((2024,))
    assert meaning("2024", both) == "this text; token:2024 searches for the ID"
    assert meaning("464, 3290", both) == "this text; token:464,3290 searches for these IDs"
    assert meaning("2024", ids) == "the token 2024"
    for plain in ("the end", "464", "a: b", "length"):
        assert isinstance(parse_search(plain, text), TextQuery)
    for words, scope in (
        ("the end", ids),
        ("text:x", ids),
        ("token:5", text),
        ("", ids),
        ("text:(", text),
        ("5<len<3", ids),
    ):
        with pytest.raises(OptionError):
            parse_search(words, scope)


# find


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
def test_ids_are_found_in_every_format(path):
    reader = open_source([path]).reader
    offsets = reader.offsets(0, reader.info.sequences)
    tokens = reader.tokens(0, reader.info.tokens)
    middle = reader.info.sequences // 2
    token = int(tokens[offsets[middle]])
    at = np.flatnonzero(tokens == token)
    rows = np.searchsorted(offsets, at, side="right") - 1
    expected = list(zip(rows.tolist(), (at - offsets[rows]).tolist(), strict=True))
    first = next(i for i, place in enumerate(expected) if place >= (middle, 0))

    async def steps(app, press):
        tab = tab_of(app)
        await press("g", *str(middle), "enter", "slash", *str(token), "enter")
        assert tab.where == expected[first]
        assert tab.search.results.hits == len(expected)
        assert f"{len(expected):,}" in bar(app)
        unit = expected[first][1]
        assert range(unit, unit + 1) in tab.reader.hits
        assert "●" in tab.list.render_line(tab.list.cursor - tab.list.top + 1).text
        for key, step in (("n", 1), ("n", 2), ("N", 1), ("N", 0), ("N", -1)):
            await press(key)
            assert tab.where == expected[(first + step) % len(expected)]
        await press("escape")
        assert tab.search is None
        assert tab.reader.hits == []

    browse([path], steps)


def test_what_is_typed_is_judged_at_once():
    async def steps(app, press):
        def message():
            return str(app.screen.query_one("#meaning", Label).render())

        await press("slash", *"hello")
        assert "--tokenizer" in message()
        await press("enter")
        assert app.screen.query_one(Input).value == "hello"
        await press(*["backspace"] * 5, *"5,6")
        assert "2 tokens in a row" in message()
        await press("escape")
        assert tab_of(app).search is None
        await press("n")
        assert "Search with / first" in said(app)[-1]

    browse([PACK], steps)


class Slow(Fake):
    """Waits in the middle of a search until it is let go on."""

    def __init__(self, broken=()):
        super().__init__(broken)
        self.gate = threading.Event()

    def tokens(self, start, stop):
        if stop - start > 1 << 16:
            if start:
                assert self.gate.wait(60)
            return (np.arange(start, stop) % 50_000).astype(np.uint32)
        return super().tokens(start, stop)


@pytest.mark.usefixtures("_any_format")
def test_a_search_that_takes_long_blocks_nothing_and_can_be_stopped():
    reader = Slow()

    async def steps(app, press):
        tab, pilot = tab_of(app), press.pilot

        async def until(holds):
            for _ in range(6000):
                await pilot.pause(0.01)
                if holds():
                    return
            raise AssertionError

        for key in ("slash", "7", "7", "enter"):
            await pilot.press(key)
        await until(lambda: tab.where == (0, 77) and "hit 1 of" in bar(app))
        assert tab.search.running
        await pilot.press("down", "down")
        await until(lambda: tab.where == (2, 0))
        await pilot.press("n")
        await until(lambda: tab.where == (500, 77))
        await pilot.press("escape")
        reader.gate.set()
        await until(lambda: "stopped" in bar(app))
        assert tab.idle
        assert tab.search.results.hits >= 20

    browse([], steps, session=session_of(reader))


@pytest.fixture
def _any_format(monkeypatch):
    monkeypatch.setattr("tokfmt.browser.app.summary", lambda *_: (Summary("fake"), ""))


@pytest.mark.usefixtures("_any_format")
def test_a_search_that_meets_damage_says_so_and_keeps_its_hits():
    class Broken(Fake):
        def __init__(self):
            super().__init__(broken=(1 << 15,))

        def tokens(self, start, stop):
            return super().tokens(start, min(stop, start + 100)) if stop - start <= 1 << 16 else self.many(start, stop)

        def many(self, start, stop):
            if start:
                super().tokens(self.broken[0] * 100, self.broken[0] * 100 + 1)
            return (np.arange(start, stop) % 50_000).astype(np.uint32)

    async def steps(app, press):
        await press("slash", "5", "enter")
        assert "the chunk is damaged" in bar(app)
        assert tab_of(app).where == (0, 5)

    browse([], steps, session=session_of(Broken()))


# filter


def test_the_list_is_filtered():
    reader = open_source([PACK]).reader
    lengths = np.diff(reader.offsets(0, reader.info.sequences))
    long, short = np.flatnonzero(lengths > 50).tolist(), np.flatnonzero((lengths >= 10) & (lengths < 20)).tolist()

    async def steps(app, press):
        tab = tab_of(app)
        await press("f", *"len>50", "enter")
        label = app.query_one("#filtered")
        assert [tab.list.row_of(i) for i in range(tab.list.count)] == long
        assert tab.where == (long[0], 0)
        await press("n")
        assert tab.where == (long[1], 0)
        assert "len>50" in str(label.render())
        assert f"{len(long)} of {len(lengths)}" in tab.list.border_title
        await press("F")
        assert tab.list.count == len(lengths)
        assert not label.display
        await press("3")
        assert isinstance(app.tab, StatisticsTab) or app.entry.name != "sequences"
        app.filter("10<=len<20")
        await press()
        assert app.entry.name == "sequences"
        assert [tab.list.row_of(i) for i in range(tab.list.count)] == short
        await press("e")
        assert isinstance(app.screen, Export)
        await press("enter")
        assert not isinstance(app.screen, Export)

    browse([PACK], steps)
    written = [json.loads(line)["input_ids"] for line in Path("D_2byte_gpt2-documents.jsonl").read_text().splitlines()]
    offsets = reader.offsets(0, reader.info.sequences).tolist()
    assert written == [reader.tokens(offsets[i], offsets[i + 1]).tolist() for i in short]


# bookmarks


def test_what_is_remembered_stays_small_enough_to_be_read_again(tmp_path):
    for i in range(6):
        remember(tmp_path / str(i), words="x" * 1_000_000)
    assert state_file().stat().st_size <= 1 << 22
    assert recall(tmp_path / "5")["words"]


# take away


def test_copies():
    reader = open_source([PACK]).reader
    start, stop = reader.offsets(0, 1).tolist()
    ids = [str(token) for token in reader.tokens(start, stop).tolist()]

    async def steps(app, press):
        await press("c")
        assert app._clipboard == " ".join(ids)
        assert f"{len(ids)} tokens of document 0 as IDs" in said(app)[-1]
        await press("tab", "right", "s", "right", "right", "c")
        assert app._clipboard == " ".join(ids[1:4])
        await press("escape", "c")
        assert app._clipboard == " ".join(ids)

    browse([PACK], steps)

    async def text(app, press):
        await press("g", "3", "enter", "c")
        assert app._clipboard == TEXTS[3]

    browse([CORPUS], text)
    browse([CORPUS], text, tokenizer=str(TOKENIZER))


def test_a_copy_of_too_much_is_refused(monkeypatch):
    monkeypatch.setattr("tokfmt.browser.export.MOST", 10)

    async def steps(app, press):
        await press("c")
        assert app._clipboard == ""
        assert "too many for a clipboard" in said(app)[-1]

    browse([PACK], steps)


def test_export_asks_before_it_replaces_and_never_touches_the_source(tmp_path):
    lines = CORPUS.read_bytes().split(b"\n")
    source = tmp_path / "c.jsonl"
    source.write_bytes(CORPUS.read_bytes())
    (tmp_path / "old.jsonl").write_text("old")

    async def steps(app, press):
        def saying():
            return str(app.screen.query_one("#saying", Label).render())

        await press("e")
        what, path = app.screen.query(Input)
        what.value, path.value = "500", "x.jsonl"
        await press("enter")
        assert "is not one of the 184" in saying()
        what.value = "2:5"
        for name, means in (("x.pbin", "modalities"), ("x.zarr", "flat-tokens"), ("x.jsonl.gz", "compressed lines")):
            path.value = name
            await press("enter")
            assert f"the name implies {means}. Write X.jsonl" in " ".join(saying().split())
        assert [other_meaning(name) for name in ("plain", "x.txt", "x.jsonl")] == ["", "", ""]
        path.value = "c.jsonl"
        await press("enter", "enter")
        assert "is also a source" in saying()
        path.value = "old.jsonl"
        await press("enter")
        assert "enter again replaces it" in saying()
        assert (tmp_path / "old.jsonl").read_text() == "old"
        await press("enter")
        assert not isinstance(app.screen, Export)
        await press("e")
        app.screen.query(Input).last().value = "nowhere/x.jsonl"
        await press("enter")
        assert "does not exist" in saying()
        await press("escape")

    browse([source], steps)
    assert (tmp_path / "old.jsonl").read_bytes() == b"".join(line + b"\n" for line in lines[2:5])
    assert source.read_bytes() == CORPUS.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "state") == ["c.jsonl", "old.jsonl"]
