"""From the numbers of Statistics and Findings to the sequences behind them."""

import json

import numpy as np
import pytest
from browsing import PACK, browse, line, tab_of
from opened import open_source
from paths import CORPUS, FIXTURES

import tokfmt
from tokfmt.browser.widgets.frame import KeyBar
from tokfmt.browser.widgets.reader import TokenDetails

DOCUMENTS = [[7, 8, 9], [5], [7, 8, 9], [], [1, 2, 3, 4], [5], [7, 8, 9], [4, 4], [1, 2, 3, 4], [9, 8, 7]]


@pytest.fixture(autouse=True)
def _own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def repeated(tmp_path):
    """A store of documents of which three occur several times."""
    text = tmp_path / "x.jsonl"
    text.write_text("".join(json.dumps({"input_ids": ids}) + "\n" for ids in DOCUMENTS))
    tokfmt.convert(text, tmp_path / "x.pbin", to_eos="none", eos="none", executor="serial")
    return tmp_path / "x.pbin"


def shown(widget):
    return [line(widget, y) for y in range(widget.size.height)]


def listed(app):
    """The rows that the tab of sequences lists."""
    assert app.entry.name == "sequences"
    rows = tab_of(app).list
    return [rows.row_of(k) for k in range(rows.count)]


def numbers(holds):
    return [i for i, document in enumerate(DOCUMENTS) if holds(document)]


async def to(app, press, name):
    """Go to the statistics, and to a list of it."""
    await press("2")
    app.tab.query_one(f"#{name}").focus()
    await press()


def test_the_search_for_members_ends_with_its_group(repeated):
    async def steps(app, press):
        await to(app, press, "groups")
        await press("right")
        first = app.tab._finding
        await press("end", "right")
        assert first is not app.tab._finding
        job = app.tab._finding
        await press("left")
        assert app.tab._finding is None
        assert not job.running

    browse([repeated], steps)


# bars and facts


# layout


def test_a_finding_about_no_sequence_says_so():
    async def steps(app, press):
        await press("3", "end")
        app.tab.list.move_cursor(row=len(app.tab.list.findings) - 1)
        assert app.tab.list.finding.offset is None
        await press("l")
        assert app.entry.name == "findings"
        assert "about no single sequence" in str(list(app._notifications)[-1].message)

    browse([FIXTURES / "bad" / "jsonl" / "control_invalid_lines.jsonl"], steps)


# the token under the cursor of the reader


def test_enter_in_the_reader_lists_the_sequences_with_the_token():
    reader = open_source([PACK]).reader
    ids, bounds = reader.tokens(0, reader.info.tokens), reader.offsets(0, reader.info.sequences)

    def rows_with(token):
        return np.unique(np.searchsorted(bounds, np.flatnonzero(ids == token), side="right") - 1).tolist()

    async def steps(app, press):
        tab = tab_of(app)
        assert " Read " in line(app.query_one(KeyBar), 0)
        count = reader.info.sequences
        unit = next(k for k in range(50) if 1 < len(rows_with(ids[bounds[1] + k])) < count)
        token = int(ids[bounds[1] + unit])
        await press("down", "enter", *["right"] * unit)
        assert " List all " in line(app.query_one(KeyBar), 0)
        assert "⏎ list all" in str(tab.query_one("#detail").render())
        await press("enter")
        assert listed(app) == rows_with(token)
        assert tab.where == (1, unit)  # the cursor stays
        assert tab.search.results.hits == np.count_nonzero(ids == token)
        assert tab.list.has_focus
        await press("backspace")
        assert listed(app) == list(range(count))
        assert tab.where == (1, unit)
        await press("enter", "s", "right", "enter")  # the marked tokens, in a row
        pair = ids[bounds[1] + unit : bounds[1] + unit + 2]
        starts = np.flatnonzero((ids[:-1] == pair[0]) & (ids[1:] == pair[1]))
        assert listed(app) == np.unique(np.searchsorted(bounds, starts, side="right") - 1).tolist()

    browse([PACK], steps, size=(160, 36))


def test_a_click_on_the_facts_lists_the_sequences_with_the_token(repeated):
    async def steps(app, press):
        facts = tab_of(app).query_one(TokenDetails)
        text = [line(facts, y) for y in range(facts.size.height)]
        y = next(y for y, words in enumerate(text) if "list all" in words)
        await press.pilot.click(facts, offset=(text[y].index("list all") + 2 + facts.gutter.left, y + facts.gutter.top))
        await press()
        assert listed(app) == numbers(lambda document: 7 in document)

    browse([repeated], steps)


def test_characters_have_no_list_of_their_ids():
    async def steps(app, press):
        assert "list all" not in str(tab_of(app).query_one("#detail").render())
        await press("enter", "enter")
        assert "List all" not in line(app.query_one(KeyBar), 0)
        assert tab_of(app).filtered is None
        assert "have no IDs" in str(list(app._notifications)[-1].message)

    browse([CORPUS], steps)
