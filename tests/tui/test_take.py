"""Find, filter, bookmarks and what is taken away, driven without a terminal."""

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from amount import FUZZ_ONLY
from browsing import BLOCKS, EVERY, PACK, Fake, Spot, browse, notes, reader_text, session_of, tab_of
from hypothesis import strategies as st
from opened import open_source
from paths import CORPUS, TOKENIZER
from textual.widgets import Input, Label

TEXTS = [json.loads(line)["text"] for line in CORPUS.read_text().splitlines()]


# what is kept

places = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5), st.integers(0, 3)), max_size=20)


@FUZZ_ONLY
@pytest.mark.parametrize("tokenizer", [None, str(TOKENIZER)])
def test_text_is_found_in_records(tokenizer):
    rows = [i for i, text in enumerate(TEXTS) if "the " in text]
    hits = sum(text.count("the ") for text in TEXTS)

    async def steps(app, press):
        tab = tab_of(app)
        await press("g", *str(rows[3] + 1), "enter", "slash", "apostrophe", *"the", "space", "apostrophe", "enter")
        following = next(i for i in rows if i > rows[3])
        assert tab.where[0] == following
        assert (tab.search.results.hits, tab.search.results.sequences) == (hits, len(rows))
        places = []
        for _ in range(TEXTS[following].count("the ")):
            places.append(tab.where)
            assert any(tab.where[1] in hit for hit in tab.reader.hits)
            await press("n")
        assert len(set(places)) == len(places)
        assert tab.where[0] == next(i for i in rows if i > following)
        if tokenizer is None:
            at = TEXTS[following].index("the ")
            assert places[0] == (following, at)

    browse([CORPUS], steps, tokenizer=tokenizer)


def test_ids_are_found_in_text_that_is_tokenised_as_it_is_searched():
    async def steps(app, press):
        tab = tab_of(app)
        port, units = tab.session.port, {}
        port.load_spans(0, port.count)
        for row in range(port.count):
            units[row] = port.peek(row, 0, 1 << 20).units.tolist()
        token = units[3][2]
        await press("slash")
        app.screen.query_one(Input).value = f"token:{token}"
        await press("enter")
        assert tab.search.results.hits == sum(row.count(token) for row in units.values())
        assert units[tab.where[0]][tab.where[1]] == token
        found = tab.search.first((3, 2))
        assert (found.row, found.start) == (3, 2)

    browse([CORPUS], steps, tokenizer=str(TOKENIZER))


@FUZZ_ONLY
def test_a_filter_by_text_marks_its_hits_and_follows_the_view():
    async def steps(app, press):
        tab = tab_of(app)
        await press("f", *"464", "enter")
        assert tab.filtered is tab.search
        rows = tab.filtered.results.rows().tolist()
        assert tab.list.count == len(rows)
        await press("slash", *"262", "enter")
        assert tab.filtered is not tab.search
        for _ in range(3):
            await press("n")
            assert tab.where[0] in rows
        await press("v")
        assert tab.session.shown == "samples"
        assert tab.filtered.scope.reader is tab.session.view.reader
        assert tab.list.count == tab.filtered.results.sequences

    browse([BLOCKS], steps)


@FUZZ_ONLY
def test_keys_typed_while_rows_load_are_not_lost():
    async def steps(app, press):
        await press.pilot.press("g", "1", "1", "enter", "down", "g", "1", "3", "enter", "tab", "right")
        for _ in range(3000):
            await press.pilot.pause(0.02)
            if tab_of(app).where == (13, 1):
                break
        assert tab_of(app).where == (13, 1)
        assert app.entry.name == "sequences"
        assert reader_text(app)

    browse([PACK], steps)


def bar(app):
    return str(app.query_one("#findbar").render())


def said(app):
    return [str(notification.message) for notification in notes(app)]


@FUZZ_ONLY
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


@FUZZ_ONLY
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


@FUZZ_ONLY
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


@FUZZ_ONLY
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


@FUZZ_ONLY
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
        assert app.entry.name == "file"
        app.go(Spot(words="10<=len<20"))
        await press()
        assert app.entry.name == "sequences"
        assert [tab.list.row_of(i) for i in range(tab.list.count)] == short
        await press("e")
        assert app.screen.query_one(Input).value == "listed"
        await press("enter", "enter")
        assert not app.screen.query(Input)

    browse([PACK], steps)
    written = [json.loads(line)["input_ids"] for line in Path("D_2byte_gpt2-documents.jsonl").read_text().splitlines()]
    offsets = reader.offsets(0, reader.info.sequences).tolist()
    assert written == [reader.tokens(offsets[i], offsets[i + 1]).tolist() for i in short]


@FUZZ_ONLY
def test_copies():
    reader = open_source([PACK]).reader
    start, stop = reader.offsets(0, 1).tolist()
    ids = [str(token) for token in reader.tokens(start, stop).tolist()]

    async def steps(app, press):
        await press("c")
        assert app.clipboard == " ".join(ids)
        assert f"{len(ids)} tokens of document 0 as IDs" in said(app)[-1]
        await press("tab", "right", "space", "right", "right", "c")
        assert app.clipboard == " ".join(ids[1:4])
        await press("escape", "c")
        assert app.clipboard == " ".join(ids)

    browse([PACK], steps)

    async def text(app, press):
        await press("g", "3", "enter", "c")
        assert app.clipboard == TEXTS[3]

    browse([CORPUS], text)
    browse([CORPUS], text, tokenizer=str(TOKENIZER))
