"""From the numbers of Statistics and Findings to the sequences behind them."""

import json
from collections import Counter

import numpy as np
import pytest
from browsing import PACK, browse, line, reader_text, tab_of
from paths import CORPUS, FIXTURES, TOKENIZER

import tokfmt
from tokfmt.ops.source.open import open_source
from tokfmt.ops.source.request import SourceRequest
from tokfmt.tui.session import open_session
from tokfmt.tui.widgets.charts import Bars, Curve
from tokfmt.tui.widgets.facts import Facts
from tokfmt.tui.widgets.frame import KeyBar
from tokfmt.tui.widgets.rankings import GroupRanking, Ranking
from tokfmt.tui.widgets.reader import TokenDetails

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
    tokfmt.convert(text, tmp_path / "x.pbin", to_options=["eos=none"], eos="none", executor="serial")
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


# groups of equal sequences


def test_groups_open_to_their_members_and_lead_to_them(repeated):
    async def steps(app, press):
        await to(app, press, "groups")
        groups = app.tab.query_one(GroupRanking)
        assert "3 groups" in groups.border_title
        assert [text.split()[1] for text in shown(groups)[:3]] == ["#0", "#4", "#1"]  # by number, then length
        assert "7 8 9" in shown(groups)[0]
        await press("right")
        assert [text.strip() for text in shown(groups)[1:4]] == ["#0", "#2", "#6"]
        await press("down", "down", "enter")  # the second member
        assert listed(app) == [0, 2, 6]
        assert tab_of(app).where == (2, 0)
        await press("4")
        assert groups.has_focus
        await press("left")
        assert groups.count == 3
        await press("end", "enter")
        assert listed(app) == numbers(lambda document: document == [5])
        assert tab_of(app).where == (1, 0)  # the first that is listed

    browse([repeated], steps)


def test_a_group_opens_and_closes_with_l_and_h(repeated):
    async def steps(app, press):
        await to(app, press, "groups")
        groups = app.tab.query_one(GroupRanking)
        await press("l")
        assert groups.members.tolist() == [0, 2, 6]
        await press("G", "g", "g")
        assert groups.cursor == 0
        await press("h")
        assert not len(groups.members)

    browse([repeated], steps)


def test_several_groups_are_listed_together_and_another_dataset_closes_them(repeated):
    async def steps(app, press):
        await to(app, press, "groups")
        groups = app.tab.query_one(GroupRanking)
        await press("right", "end", "shift+up")
        assert groups.border_subtitle == "2 chosen"
        assert groups.count == 3 + 3
        await press("enter")
        assert listed(app) == numbers(lambda document: document in ([5], [1, 2, 3, 4]))
        await press("d", "end", "enter")
        assert app.query_one("#statistics GroupRanking").open is None

    browse([repeated, PACK], steps)


@pytest.mark.parametrize("tokenizer", [None, str(TOKENIZER)])
def test_equal_texts(tokenizer, tmp_path):
    lines = [json.loads(text) for text in CORPUS.read_text().splitlines()[:30]]
    lines[20] = lines[3]
    path = tmp_path / "y.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))

    async def steps(app, press):
        await to(app, press, "groups")
        groups = app.tab.query_one(GroupRanking)
        place = next(k for k in range(groups.count) if groups.ranked.row(k) == 3)
        assert lines[3]["text"][:10] in shown(groups)[place]
        groups.choose(place)
        await press("right")
        assert groups.members.tolist() == [3, 20]
        await press("enter")
        assert listed(app) == [3, 20]

    browse([path], steps, tokenizer=tokenizer)


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
    monkeypatch.setattr("tokfmt.tui.session.SMALL", 0)
    monkeypatch.setattr("tokfmt.tui.session.Loading.start", lambda *_: None)  # as for more tokens than AT_ONCE

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
    monkeypatch.setattr("tokfmt.tui.tabs.statistics.MOST_COMPARED", len(DOCUMENTS) - 1)

    async def steps(app, press):
        await press("4")
        assert not app.tab.query_one(GroupRanking).display
        fact = next(fact for fact in app.tab.query_one(Facts).facts if fact.name == "duplicates")
        assert fact.value == "not counted above 9"
        assert app.session.lists.groups is None
        assert app.tab.query_one("#most").display

    browse([repeated], steps)


# tokens


def test_a_token_leads_to_all_its_occurrences():
    reader = open_source([PACK]).reader
    ids = reader.tokens(0, reader.info.tokens)
    count = Counter(ids.tolist())

    async def steps(app, press):
        await to(app, press, "most")
        most = app.tab.query_one("#most", Ranking)
        assert most.count == len(count)
        token, times = count.most_common(1)[0]
        assert shown(most)[0].split()[:2] == [str(token), f"{times:,}"]
        await press("end")
        assert shown(most)[-1].split()[1] == "1"
        await press("home", "enter")
        bounds = reader.offsets(0, reader.info.sequences)
        rows = np.unique(np.searchsorted(bounds, np.flatnonzero(ids == token), side="right") - 1)
        assert listed(app) == rows.tolist()
        tab = tab_of(app)
        first = int(np.flatnonzero(ids == token)[0])
        assert tab.where == (rows[0], first - bounds[rows[0]])  # the cursor is on the first
        assert tab.search.results.hits == times
        await press("end", "4", "enter")  # from any place, the first is shown
        assert tab.where == (rows[0], first - bounds[rows[0]])
        await press("full_stop")
        assert tab.where[1] == int(np.flatnonzero(ids == token)[1]) - bounds[tab.where[0]]

    browse([PACK], steps)


def test_several_tokens_and_the_ends_of_sequences(repeated):
    async def steps(app, press):
        await to(app, press, "least")
        least = app.tab.query_one("#least", Ranking)
        await press("shift+down", "shift+down", "shift+up")
        assert least.chosen == range(2)
        tokens = [least.ranked.line(k).name for k in least.chosen]
        await press("enter")
        assert listed(app) == numbers(lambda document: not {*map(int, tokens)}.isdisjoint(document))
        for name, end in (("first", 0), ("last", -1)):
            await to(app, press, name)
            ends = app.tab.query_one(f"#{name}", Ranking)
            token = int(ends.ranked.line(0).name)
            assert ends.ranked.line(0).count == len(numbers(lambda document, end=end: document[end:][:1] == [token]))
            await press("home", "enter")
            assert listed(app) == numbers(lambda document: document and document[end] == token)

    browse([repeated], steps)


def test_too_many_lines_are_not_listed_together(monkeypatch):
    monkeypatch.setattr("tokfmt.tui.widgets.rankings.MOST_CHOSEN", 2)

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


def test_a_double_click_follows(repeated):
    async def steps(app, press):
        await to(app, press, "groups")
        groups = app.tab.query_one(GroupRanking)
        place = (groups.gutter.left + 6, groups.gutter.top + 1)
        await press.pilot.click(groups, offset=(groups.gutter.left, groups.gutter.top + 1))  # the mark opens a group
        await press()
        assert groups.members.tolist() == [4, 8]
        await press.pilot.click(groups, offset=place, times=2)
        await press()
        assert listed(app) == [4, 8]

    browse([repeated], steps)


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


# exports


@pytest.mark.parametrize("name", ["most", "groups", "bars", "facts"])
def test_every_list_is_exported(repeated, name, tmp_path):
    async def steps(app, press):
        await to(app, press, name)
        focused = app.focused
        wanted = [dict(one) for one in focused.records()]
        await press("e", "enter")
        path = tmp_path / f"x-{focused.id}.jsonl"
        assert [json.loads(text) for text in path.read_text().splitlines()] == wanted
        assert wanted
        if name == "groups":
            assert wanted[0] == {"sequence": 0, "count": 3, "length": 3}
            await press("shift+down", "e", "enter")
            assert len((tmp_path / "x-groups-2.jsonl").read_text().splitlines()) == 2
        await press("e", *(["backspace"] * 60), *path.name, "enter")
        assert "exists already" in str(app.screen.query_one("#meaning").render())

    browse([repeated], steps)


def test_what_a_group_lists_is_exported_as_sequences(repeated, tmp_path):
    async def steps(app, press):
        await to(app, press, "groups")
        await press("enter", "e")
        app.screen.query_one("#path").value = str(tmp_path / "out.jsonl")
        await press("enter")
        exported = [json.loads(text) for text in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert [next(iter(one.values())) for one in exported] == [[7, 8, 9]] * 3

    browse([repeated], steps)


# findings


def test_findings_of_one_code_are_listed(tmp_path):
    lines = [
        '{"text": "a"}',
        '{"text": "x", "text": "b"}',
        '{"text": "c"}',
        '{"text": "y", "text": "d"}',
        '{"text": ""}',
    ]
    path = tmp_path / "twice.jsonl"
    path.write_text("\n".join(lines) + "\n")

    async def steps(app, press):
        await press("3", "c")
        findings = app.tab.list.findings
        codes = [finding.code for finding in findings]
        app.tab.list.move_cursor(row=len(codes) - 1 - codes[::-1].index("TF510"))  # the second of them
        await press("l")
        assert listed(app) == [1, 3]
        assert tab_of(app).where == (3, 0)
        await press("3")
        app.tab.list.move_cursor(row=codes.index("TF509"))
        await press("l")
        assert tab_of(app).filtered.words == "len==0"
        assert listed(app) == [4]

    browse([path], steps)


def test_a_finding_about_no_sequence_says_so():
    async def steps(app, press):
        await press("3", "end")
        app.tab.list.move_cursor(row=len(app.tab.list.findings) - 1)
        assert app.tab.list.finding.offset is None
        await press("l")
        assert app.entry.name == "findings"
        assert "about no single sequence" in str(list(app._notifications)[-1].message)

    browse([FIXTURES / "bad" / "jsonl" / "control_invalid_lines.jsonl"], steps)


def test_a_finding_with_a_query_lists_what_it_finds():
    async def steps(app, press):
        await press("3", "c")
        finding = next(one for one in app.tab.list.findings if one.query)
        app.tab.list.move_cursor(row=app.tab.list.findings.index(finding))
        await press("l")
        assert tab_of(app).filtered.words == finding.query
        assert listed(app)
        assert reader_text(app)

    browse([PACK], steps)


def test_findings_are_exported(tmp_path):
    bad = FIXTURES / "bad" / "jsonl" / "control_invalid_lines.jsonl"

    async def steps(app, press):
        await press("3", "e", "enter")
        path = tmp_path / "control_invalid_lines-findings.jsonl"
        codes = [json.loads(text)["code"] for text in path.read_text().splitlines()]
        assert codes == [finding.code for finding in app.tab.list.findings]

    browse([bad], steps)


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
