"""From the numbers of the overview to the sequences behind them."""

import json
from collections import Counter

import numpy as np
import pytest
from amount import FUZZ_ONLY
from browsing import DOCUMENTS, PACK, browse, line, listed, tab_of, to
from paths import CORPUS, TOKENIZER

import tokfmt
from tokfmt.browser.widgets.table import TokenTable


def shown(widget):
    return [line(widget, y) for y in range(widget.size.height)]


def numbers(holds):
    return [i for i, document in enumerate(DOCUMENTS) if holds(document)]


# groups of equal sequences


def test_groups_lead_to_their_members(repeated):
    async def steps(app, press):
        await to(app, press, "groups")
        groups = app.tab.query_one("#groups")
        assert "3 groups" in groups.border_title
        assert [text.split()[1] for text in shown(groups)[:3]] == ["#0", "#4", "#1"]  # by number, then length
        assert "7 8 9" in shown(groups)[0]
        await press("enter")
        assert listed(app) == [0, 2, 6]
        await press("2")
        assert groups.has_focus
        await press("end", "shift+up")
        assert groups.border_subtitle == "2 selected"
        await press("enter")
        assert listed(app) == numbers(lambda document: document in ([5], [1, 2, 3, 4]))

    browse([repeated], steps)


@FUZZ_ONLY
@pytest.mark.parametrize("tokenizer", [None, str(TOKENIZER)])
def test_equal_texts(tokenizer, tmp_path):
    lines = [json.loads(text) for text in CORPUS.read_text().splitlines()[:30]]
    lines[20] = lines[3]
    path = tmp_path / "y.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))

    async def steps(app, press):
        await to(app, press, "groups")
        groups = app.tab.query_one("#groups")
        place = next(k for k in range(groups.count) if groups.lines.record(k)["sequences"] == [3, 20])
        assert lines[3]["text"][:10] in shown(groups)[place]
        groups.choose(place)
        await press("enter")
        assert listed(app) == [3, 20]

    browse([path], steps, tokenizer=tokenizer)


# tokens


@FUZZ_ONLY
def test_a_token_leads_to_all_its_occurrences():
    reader = tokfmt.open(PACK).reader
    ids = reader.tokens(0, reader.info.tokens)
    count = Counter(ids.tolist())

    async def steps(app, press):
        await to(app, press, "tokens")
        most = app.tab.query_one(TokenTable)
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
        await press("end", "2", "enter")  # from any place, the first is shown
        assert tab.where == (rows[0], first - bounds[rows[0]])
        await press("n")
        assert tab.where[1] == int(np.flatnonzero(ids == token)[1]) - bounds[tab.where[0]]

    browse([PACK], steps)


@FUZZ_ONLY
def test_several_tokens_and_the_ends_of_sequences(repeated):
    async def steps(app, press):
        await to(app, press, "tokens")
        table = app.tab.query_one(TokenTable)
        await press("right", "shift+down", "shift+down", "shift+up")
        assert table.turned == "rare"
        assert table.chosen == [0, 1]
        tokens = [table.lines.record(k)["id"] for k in table.chosen]
        await press("enter")
        assert listed(app) == numbers(lambda document: not {*tokens}.isdisjoint(document))
        for name, end in (("first", 0), ("last", -1)):
            await to(app, press, "tokens")
            await press("right")
            assert table.turned == name
            token = table.lines.record(0)["id"]
            assert table.lines.record(0)["count"] == len(
                numbers(lambda document, end=end: document[end:][:1] == [token])
            )
            await press("home", "enter")
            assert listed(app) == numbers(lambda document: document and document[end] == token)

    browse([repeated], steps)


@FUZZ_ONLY
def test_a_double_click_follows(repeated):
    async def steps(app, press):
        await to(app, press, "groups")
        groups = app.tab.query_one("#groups")
        place = (groups.gutter.left + 6, groups.gutter.top + 1)
        await press.pilot.click(groups, offset=place, times=2)
        await press()
        assert listed(app) == [4, 8]

    browse([repeated], steps)
