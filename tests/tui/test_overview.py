"""The overview: its numbers are those of the dataset, and each leads to the sequences that it counts."""

from collections import Counter

import numpy as np
import pytest
from browsing import BLOCKS, DOCUMENTS, HDF5, PACK, STORE, browse, line, listed, tab_of, to
from paths import CORPUS, TOKENIZER
from textual.content import Content

import tokfmt


def numbers(holds):
    return [k for k, document in enumerate(DOCUMENTS) if holds(document)]


async def follow(app, press, name):
    """Press Enter on a fact."""
    await to(app, press, "facts")
    table = app.tab.query_one("#facts")
    table.choose([fact.name for fact in table.lines.facts].index(name))
    await press("enter")


@pytest.mark.parametrize("path", [PACK, BLOCKS, STORE], ids=lambda path: path.name)
def test_its_numbers_are_those_of_the_dataset(path):
    reader = tokfmt.open(path).reader
    lengths, ids = np.diff(reader.offsets(0, reader.info.sequences)), reader.tokens(0, reader.info.tokens)

    async def steps(app, press):
        await press("2")
        facts = {fact.name: fact.value for fact in app.tab.query_one("#facts").lines.facts}
        assert facts[app.session.view.name] == f"{len(lengths):,}"
        assert facts["tokens"] == f"{len(ids):,}"
        assert facts["longest"] == f"{lengths.max():,}"
        table = app.tab.query_one("#lengths")
        bins = [table.lines.record(k) for k in range(table.count)]
        assert sum(one[app.session.view.name] for one in bins) == len(lengths)
        for one in bins:
            assert one[app.session.view.name] == np.count_nonzero((lengths >= one["low"]) & (lengths < one["high"]))
        first, count = app.tab.query_one("#tokens").lines.record(0), Counter(ids.tolist()).most_common(1)[0][1]
        assert first["count"] == count
        assert f"p50 {int(np.percentile(lengths, 50, method='inverted_cdf')):,}" in str(table.border_title)

    browse([path], steps)


def test_selected_lengths_are_listed_together(repeated):
    async def steps(app, press):
        await to(app, press, "lengths")
        table = app.tab.query_one("#lengths")
        await press("home", "down", "shift+down", "shift+down")
        bins = [table.lines.record(k) for k in table.chosen]
        assert table.border_subtitle == "3 selected"
        await press("enter")
        assert listed(app) == numbers(lambda document: bins[0]["low"] <= len(document) < bins[-1]["high"])

    browse([repeated], steps)


def test_facts_lead_on(repeated):
    async def steps(app, press):
        for name, holds in (
            ("documents", lambda document: True),
            ("longest", lambda document: len(document) == 4),
            ("empty", lambda document: not document),
            ("largest ID", lambda document: 9 in document),
        ):
            await follow(app, press, name)
            assert listed(app) == numbers(holds), name
        await follow(app, press, "duplicates")
        assert app.focused.id == "groups"
        await follow(app, press, "different IDs")
        assert app.focused.turned == "frequent"
        await follow(app, press, "▲")  # a finding
        assert app.entry.name == "file"
        await press("backspace")
        assert app.entry.name == "statistics"

    browse([repeated], steps)


def test_what_deviates_is_marked(repeated):
    async def steps(app, press):
        await press("2")
        odd = {fact.name for fact in app.tab.query_one("#facts").lines.facts if fact.odd}
        assert odd - {"▲"} == {"empty", "duplicates"}

    browse([repeated], steps)


def test_ids_that_never_occur_are_listed_and_lead_nowhere(tmp_path):
    """A separator occurs, though no document holds it."""
    tokfmt.convert(CORPUS, tmp_path / "x.pbin", tokenizer=str(TOKENIZER))
    with tokfmt.open(tmp_path / "x.pbin") as dataset:
        inside = {int(token) for document in dataset for token in document}
        seen = inside | {dataset.reader.info.eos_id}
    assert seen != inside

    async def steps(app, press):
        await to(app, press, "tokens")
        table = app.tab.query_one("#tokens")
        table.turn_to("never")
        never = [table.lines.record(k)["id"] for k in range(table.count)]
        assert never == sorted(set(range(app.session.statistics.ids.vocab_size)) - seen)
        facts = {fact.name: fact.value for fact in app.tab.query_one("#facts").lines.facts}
        assert facts["never seen"] == f"{len(never):,}"
        await press("enter")
        assert app.entry.name == "statistics"

    browse([tmp_path / "x.pbin"], steps, tokenizer=str(TOKENIZER))


def test_every_token_is_counted_and_checked_with_one_key():
    async def steps(app, press):
        await press("2")
        assert not app.session.verdict.deep
        await press("a")
        assert app.session.verdict.deep
        assert app.session.verdict.tokens == app.session.view.reader.info.tokens

    browse([BLOCKS], steps)


def test_the_masked_positions_of_samples_lead_to_them():
    async def steps(app, press):
        if app.session.shown != "samples":
            await press("v")
        await follow(app, press, "masked")
        reader = app.session.view.reader
        masks = reader.masks(0, reader.info.tokens).reshape(reader.info.sequences, -1)
        assert listed(app) == np.flatnonzero((masks == 0).any(1)).tolist()
        assert tab_of(app).filtered.words == "masked>0"

    browse([HDF5], steps)


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
def test_its_lists_fill_the_screen_and_one_can_be_enlarged(size):
    async def steps(app, press):
        await to(app, press, "tokens")
        assert not app.tab.query_one("#groups").display  # no documents are equal
        tables = [app.tab.query_one(f"#{name}") for name in ("facts", "lengths", "tokens")]
        assert all(table.outer_size.height >= 7 for table in tables)
        assert max(table.region.bottom for table in tables) >= size[1] - 2
        titles = [str(table.border_title) for table in tables[1:3]]
        assert all(
            len(Content.from_markup(text).plain) <= table.size.width - 2
            for text, table in zip(titles, tables[1:3], strict=True)
        )
        assert "p95" in titles[0] and "last" in titles[1]
        shown = [line(tables[0], y).strip() for y in range(min(tables[0].size.height, 11))]
        assert not any(text.endswith("…") for text in shown), "no number of the first screen is cut"
        assert all(line(table, y).strip() for table in tables[:3] for y in range(min(3, table.count)))
        await press("z")
        assert app.tab.query_one("#tokens").outer_size.height >= size[1] - 4
        await press("escape")
        assert app.tab.query_one("#lengths").size.height

    browse([PACK], steps, size=size)


def test_a_drag_selects_lines_and_text_has_no_ids_without_a_tokenizer():
    async def steps(app, press):
        await press("2")
        table = app.tab.query_one("#lengths")
        left, top = table.gutter.left + 2, table.gutter.top
        await press.pilot.mouse_down(table, offset=(left, top))
        await press.pilot.hover(table, offset=(left, top + 2))
        await press.pilot.mouse_up(table, offset=(left, top + 2))
        await press()
        assert table.chosen == [0, 1, 2]
        assert not app.tab.query_one("#tokens").display

    browse([CORPUS], steps)
