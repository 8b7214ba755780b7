"""From the numbers of the overview and of problems to the sequences behind them."""

import json

import numpy as np
import pytest
from amount import FUZZ_ONLY, first
from browsing import DOCUMENTS, PACK, browse, line, listed, notes, reader_text, tab_of, to, to_finding
from opened import open_source
from paths import CORPUS, FIXTURES
from textual.widgets import Input

# the way there and back


@pytest.mark.parametrize("name", first(1, ["tokens", "groups", "lengths"]))
def test_one_key_leads_back_from_a_list(repeated, name):
    async def steps(app, press):
        await press("down", "down", "down", "down")
        await to(app, press, name)
        await press("down", "enter")
        filtered = listed(app)
        assert len(filtered) < len(DOCUMENTS)
        assert tab_of(app).where[0] in filtered
        await press("backspace")
        assert app.entry.name == "statistics"
        assert tab_of(app).filtered is None
        await press("alt+right")
        assert listed(app) == filtered
        await press("backspace", "1")
        assert listed(app) == [*range(len(DOCUMENTS))]
        assert tab_of(app).where == (4, 0)

    browse([repeated], steps)


def test_one_key_leads_back_from_a_place_in_another_view():
    async def steps(app, press):
        await press("v")
        assert app.session.shown == "samples"
        await press("g", "1", "enter")
        samples = tab_of(app).where
        await press("g", *"documents", "colon", "2", "enter")
        assert (app.session.shown, tab_of(app).where[0]) == ("documents", 2)
        await press("backspace")
        assert (app.session.shown, tab_of(app).where) == ("samples", samples)

    browse([FIXTURES / "hdf5" / "padded_eos"], steps)


# exports


@FUZZ_ONLY
@pytest.mark.parametrize("name", ["tokens", "groups", "lengths", "facts"])
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
            await press("home")
            assert wanted[0] == {"sequence": 0, "count": 3, "length": 3, "sequences": [0, 2, 6]}
            await press("shift+down", "e", "enter")
            assert len((tmp_path / "x-groups-2.jsonl").read_text().splitlines()) == 2
        await press("e", *(["backspace"] * 60), *path.name, "enter")
        assert "exists already" in str(app.screen.query_one("#meaning").render())

    browse([repeated], steps)


@FUZZ_ONLY
def test_what_a_group_lists_is_exported_as_sequences(repeated, tmp_path):
    async def steps(app, press):
        await to(app, press, "groups")
        await press("enter", "e", "enter")
        app.screen.query_one(Input).value = str(tmp_path / "out.jsonl")
        await press("enter")
        exported = [json.loads(text) for text in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert [next(iter(one.values())) for one in exported] == [[7, 8, 9]] * 3

    browse([repeated], steps)


# findings


@FUZZ_ONLY
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
        await press("3")
        await press("a")  # the check of all tokens begins when that of headers has ended
        alike = [one for one in app.session.verdict.findings if one.code == "TF510"]
        await to_finding(app, press, alike[-1])
        assert listed(app) == [1, 3]
        assert tab_of(app).where == (3, 0)
        await press("3")
        await to_finding(app, press, next(one for one in app.session.verdict.findings if one.code == "TF509"))
        assert tab_of(app).filtered.words == "len==0"
        assert listed(app) == [4]

    browse([path], steps)


def test_a_finding_with_a_query_lists_what_it_finds():
    async def steps(app, press):
        await press("3")
        await press("a")  # the check of all tokens begins when that of headers has ended
        finding = next(one for one in app.session.verdict.findings if one.query)
        await to_finding(app, press, finding)
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
        assert codes == [finding.code for finding in app.session.verdict.findings]

    browse([bad], steps)


def numbers(holds):
    return [i for i, document in enumerate(DOCUMENTS) if holds(document)]


@FUZZ_ONLY
def test_a_finding_about_no_sequence_says_so():
    async def steps(app, press):
        await press("3")
        await to_finding(app, press, next(one for one in app.session.verdict.findings if one.offset is None))
        assert app.entry.name == "file"
        assert "about no single sequence" in str(list(notes(app))[-1].message)

    browse([FIXTURES / "bad" / "jsonl" / "control_invalid_lines.jsonl"], steps)


@FUZZ_ONLY
def test_enter_in_the_reader_lists_the_sequences_with_the_token():
    reader = open_source([PACK]).reader
    ids, bounds = reader.tokens(0, reader.info.tokens), reader.offsets(0, reader.info.sequences)

    def rows_with(token):
        return np.unique(np.searchsorted(bounds, np.flatnonzero(ids == token), side="right") - 1).tolist()

    async def steps(app, press):
        tab = tab_of(app)
        assert " Read " in line(app.query_one("#keys"), 0)
        count = reader.info.sequences
        unit = next(k for k in range(50) if 1 < len(rows_with(ids[bounds[1] + k])) < count)
        token = int(ids[bounds[1] + unit])
        await press("down", "enter", *["right"] * unit)
        assert " List rows " in line(app.query_one("#keys"), 0)
        await press("enter")
        assert listed(app) == rows_with(token)
        assert tab.where == (1, unit)  # the cursor stays
        assert tab.search.results.hits == np.count_nonzero(ids == token)
        assert tab.list.has_focus
        await press("backspace")
        assert listed(app) == list(range(count))
        assert tab.where == (1, unit)
        await press("enter", "space", "right", "enter")  # the marked tokens, in a row
        pair = ids[bounds[1] + unit : bounds[1] + unit + 2]
        starts = np.flatnonzero((ids[:-1] == pair[0]) & (ids[1:] == pair[1]))
        assert listed(app) == np.unique(np.searchsorted(bounds, starts, side="right") - 1).tolist()

    browse([PACK], steps, size=(160, 36))


@FUZZ_ONLY
def test_a_click_on_the_facts_lists_the_sequences_with_the_token(repeated):
    async def steps(app, press):
        facts = tab_of(app).query_one("#detail")
        text = [line(facts, y) for y in range(facts.size.height)]
        y = next(y for y, words in enumerate(text) if "ID 7" in words)
        await press.pilot.click(facts, offset=(text[y].index("ID 7") + 3 + facts.gutter.left, y + facts.gutter.top))
        await press()
        assert listed(app) == numbers(lambda document: 7 in document)

    browse([repeated], steps)


@FUZZ_ONLY
def test_characters_have_no_list_of_their_ids():
    async def steps(app, press):
        await press("enter", "enter")
        assert "List rows" not in line(app.query_one("#keys"), 0)
        assert tab_of(app).filtered is None
        assert "have no IDs" in str(list(notes(app))[-1].message)

    browse([CORPUS], steps)
