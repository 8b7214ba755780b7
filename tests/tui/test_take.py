"""Find, filter, bookmarks and what is taken away, driven without a terminal."""

import json

import pytest
from amount import FUZZ_ONLY
from browsing import BLOCKS, PACK, browse, reader_text, tab_of
from hypothesis import strategies as st
from paths import CORPUS, TOKENIZER
from textual.widgets import Input

TEXTS = [json.loads(line)["text"] for line in CORPUS.read_text().splitlines()]


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


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
