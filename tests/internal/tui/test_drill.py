"""From the numbers of Statistics and Findings to the sequences behind them."""

import json

import numpy as np
import pytest
from browsing import PACK, browse, line, tab_of
from opened import open_source
from paths import CORPUS, FIXTURES

import tokfmt
from tokfmt.browser.session import open_session
from tokfmt.browser.widgets.charts import Bars, Curve
from tokfmt.browser.widgets.facts import Facts
from tokfmt.browser.widgets.frame import KeyBar
from tokfmt.browser.widgets.rankings import GroupRanking, Ranking
from tokfmt.browser.widgets.reader import TokenDetails
from tokfmt.source.request import SourceRequest

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
    await press("4")
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


def test_documents_that_are_not_known_yet_are_found_first(repeated, monkeypatch):
    monkeypatch.setattr("tokfmt.browser.session.SMALL", 0)
    monkeypatch.setattr("tokfmt.browser.session.Loading.start", lambda *_: None)  # as for more tokens than AT_ONCE

    async def steps(app, press):
        assert app.session.view.name == "rows"
        await to(app, press, "groups")
        groups = app.tab.query_one(GroupRanking)
        await press("right")
        assert groups.open is None
        assert "not known yet" in str(list(app._notifications)[-1].message)
        await press("enter")
        assert app.session.view.name == "documents"
        assert listed(app) == [0, 2, 6]

    browse([repeated], steps, session=open_session(SourceRequest((str(repeated),))))


def test_equal_sequences_are_not_looked_for_among_too_many(repeated, monkeypatch):
    monkeypatch.setattr("tokfmt.browser.tabs.statistics.MOST_COMPARED", len(DOCUMENTS) - 1)

    async def steps(app, press):
        await press("4")
        assert not app.tab.query_one(GroupRanking).display
        fact = next(fact for fact in app.tab.query_one(Facts).facts if fact.name == "duplicates")
        assert fact.value == "not counted above 9"
        assert app.session.lists.groups is None
        assert app.tab.query_one("#most").display

    browse([repeated], steps)


def test_too_many_lines_are_not_listed_together(monkeypatch):
    monkeypatch.setattr("tokfmt.browser.widgets.rankings.MOST_CHOSEN", 2)

    async def steps(app, press):
        await to(app, press, "most")
        await press("shift+down", "shift+down", "enter")
        assert app.entry.name == "statistics"
        assert "At most 2 lines" in str(list(app._notifications)[-1].message)
        await press("down")
        assert app.tab.query_one("#most", Ranking).range_from is None

    browse([PACK], steps)


def test_a_click_on_the_curve_leads_to_the_tokens_of_that_rank():
    async def steps(app, press):
        await press("4")
        curve, most = app.tab.query_one(Curve), app.tab.query_one("#most", Ranking)
        for column, rank in ((6, 1), (curve.size.width - 1, most.count)):
            assert await press.pilot.click(curve, offset=(curve.gutter.left + column, 3))
            await press()
            assert most.has_focus
            assert most.cursor == rank - 1
            await press("4")
            app.tab.query_one("#figures").scroll_home(animate=False)
            await press()

    browse([PACK], steps)


# bars and facts


def test_a_range_of_bars(repeated):
    async def steps(app, press):
        await press("4", "home", "right", "shift+right", "shift+right")
        bars = app.tab.query_one(Bars)
        edges, counts = bars.lengths.histogram.edges, bars.lengths.histogram.counts
        assert f"{edges[1]:,} ≤ length < {edges[4]:,}: {sum(counts[1:4]):,} sequences" in shown(bars)[-1]
        await press("enter")
        assert listed(app) == numbers(lambda document: edges[1] <= len(document) < edges[4])

    browse([repeated], steps)


def test_facts_lead_on(repeated):
    async def steps(app, press):
        await to(app, press, "facts")
        facts = app.tab.query_one(Facts)
        by_name = {fact.name: fact for fact in facts.facts}
        for name, holds in (
            ("sequences", lambda document: True),
            ("longest", lambda document: len(document) == 4),
            ("empty", lambda document: not document),
            ("largest ID", lambda document: 9 in document),
        ):
            await to(app, press, "facts")
            facts.cursor = facts.facts.index(by_name[name])
            await press("enter")
            assert listed(app) == numbers(holds), name
        await to(app, press, "facts")
        facts.cursor = facts.facts.index(by_name["duplicates"])
        await press("enter")
        assert app.tab.query_one(GroupRanking).has_focus
        await to(app, press, "facts")
        await press("home")
        for key in ("right", "down", "left", "up", "end"):
            await press(key)
            assert facts.facts[facts.cursor].action

    browse([repeated], steps)


def test_the_padding_of_samples_leads_to_them():
    async def steps(app, press):
        if app.session.shown != "samples":
            await press("v")
        await to(app, press, "facts")
        facts = app.tab.query_one(Facts)
        fact = next(fact for fact in facts.facts if fact.name == "masked")
        facts.cursor = facts.facts.index(fact)
        await press("enter")
        reader = app.session.view.reader
        masks = reader.masks(0, reader.info.tokens).reshape(reader.info.sequences, -1)
        assert listed(app) == np.flatnonzero((masks == 0).any(1)).tolist()
        assert tab_of(app).filtered.words == "masked>0"

    browse([FIXTURES / "hdf5" / "padded_eos"], steps)


# layout


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
def test_rankings_fill_the_screen(size):
    async def steps(app, press):
        await press("4")
        rankings = [one for one in app.tab.query(Ranking) if one.display]
        assert len(rankings) >= 4
        assert all(one.outer_size.height >= 12 for one in rankings)
        if size[1] == 60:
            assert max(one.region.bottom for one in rankings) >= size[1] - 3  # nothing is empty below them
        app.tab.query_one("#most").focus()
        await press("z")
        assert app.tab.query_one("#most").outer_size.height >= size[1] - 3
        await press("escape")
        assert app.tab.query_one(Bars).size.height

    browse([PACK], steps, size=size)


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
