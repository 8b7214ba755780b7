"""Columns of the list by what the format has, and the list in the order of one."""

import json
from typing import Any

import numpy as np
import pytest
from amount import FUZZ_ONLY, first
from browsing import PACK, SourceRequest, browse, fetched_span, line, open_session, recall, tab_of
from opened import open_source
from paths import CORPUS, FIXTURES, TOKENIZER

import tokfmt
from tokfmt.browser.data import columns
from tokfmt.browser.data.columns import columns_of, masked


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def lengths_of(path):
    reader = tokfmt.open(path).reader
    return np.diff(reader.offsets(0, reader.info.sequences))


def falling(keys):
    """Row numbers, the largest key first; rows of one key stay in order."""
    return sorted(range(len(keys)), key=lambda row: -keys[row])


@FUZZ_ONLY
def test_a_click_on_a_heading_sorts():
    expected = falling(lengths_of(PACK).tolist())

    async def steps(app, press):
        tab = tab_of(app)
        at = line(tab.list, 0).index("length")
        await press.pilot.click(tab.list, offset=(at + 2, 1))
        await press()
        rows = [tab.list.row_of(k) for k in range(tab.list.count)]
        assert rows == expected
        assert tab.where == (expected[0], 0)
        assert "length▼" in line(tab.list, 0)
        assert "by length ▼" in str(tab.list.border_title)
        await press("down", "down")
        assert tab.where == (expected[2], 0)
        await press.pilot.click(tab.list, offset=(at + 2, 1))
        await press()
        rows = [tab.list.row_of(k) for k in range(tab.list.count)]
        assert rows == sorted(range(len(expected)), key=lambda row: lengths_of(PACK)[row])
        await press("g", *"17", "enter")
        assert (tab.where, tab.list.row) == ((17, 0), 17)
        await press.pilot.click(tab.list, offset=(2, 1))
        await press()
        assert [tab.list.row_of(k) for k in range(3)] == [0, 1, 2]
        assert tab.list.row == 17

    browse([PACK], steps)


@FUZZ_ONLY
def test_the_order_is_that_of_the_listed_rows():
    lengths = lengths_of(PACK).tolist()

    async def steps(app, press):
        tab = tab_of(app)
        await press("vertical_line", "down", "enter")
        await press("f", *"len", "greater_than_sign", *"1000", "enter")
        few = [row for row in falling(lengths) if lengths[row] >= 1000 and lengths[row] > 1000]
        assert [tab.list.row_of(k) for k in range(tab.list.count)] == few
        await press("F")
        assert [tab.list.row_of(k) for k in range(tab.list.count)] == falling(lengths)

    browse([PACK], steps)


@pytest.mark.parametrize("tokenizer", [None, str(TOKENIZER)])
def test_records_have_an_order_of_lengths(tokenizer):
    texts = [json.loads(one)["text"] for one in CORPUS.read_text().splitlines()]
    lengths = [len(ids) for ids in tokfmt.open(CORPUS, tokenizer=tokenizer)] if tokenizer else list(map(len, texts))

    async def steps(app, press):
        tab = tab_of(app)
        await press("vertical_line", "down", "enter")
        assert [tab.list.row_of(k) for k in range(tab.list.count)] == falling(lengths)

    browse([CORPUS], steps, tokenizer=tokenizer)


@pytest.mark.parametrize("tokenizer", first(1, [None, str(TOKENIZER)]))
def test_a_damaged_line_takes_nothing_but_itself(tokenizer, tmp_path):
    """Columns, orders, searches and statistics have every other line; the line itself is listed with its error."""
    texts = [f"word{row} and {'so on, ' * (row % 13)}" for row in range(40)]
    lines = [json.dumps({"text": text, "rank": (row * 7) % 40}) for row, text in enumerate(texts)]
    bad = {1: "no JSON", 2: lines[2][:-9], 17: '{"rank": 3}', 39: lines[39][:-9]}
    path = tmp_path / "half.jsonl"
    path.write_text("\n".join(bad.get(row, one) for row, one in enumerate(lines)))
    good = [row for row in range(40) if row not in bad]

    async def steps(app, press):
        tab = tab_of(app)
        assert "unexpected" not in app.export_screenshot()
        assert [one.name for one in tab.list.others] == []
        await press("vertical_line", "end", "space", "enter")
        assert [one.name for one in tab.list.others] == ["rank"]
        rows = [tab.list.row_of(k) for k in range(tab.list.count)]
        ranks = [row * 7 % 40 for row in range(40)]
        assert rows == [*sorted(good, key=lambda row: -ranks[row]), *bad]
        assert f" {ranks[good[5]]} " in line(tab.list, 1 + rows.index(good[5]) - tab.list.top)
        await press("vertical_line", "down", "enter")
        assert {tab.list.row_of(k) for k in range(36)} == set(good)
        await press("vertical_line", "enter", "f", *"word", "enter")
        assert [tab.list.row_of(k) for k in range(tab.list.count)] == good
        assert tab.filtered.failure.startswith("4 records")
        await press("F", "2")
        facts = {fact.name: fact.value for fact in app.tab.query_one("#facts").lines.facts}
        assert facts[app.session.view.name] == "36"
        assert facts["left out"].startswith("4 records")
        assert app.tab.query_one("#groups").groups is None

    browse([path], steps, tokenizer=tokenizer)


LINES = FIXTURES / "text" / "with_fields.jsonl"


RECORDS = [json.loads(one) for one in LINES.read_text().splitlines()]


@FUZZ_ONLY
@pytest.mark.parametrize(("path", "field"), [(PACK, "input_ids"), (CORPUS, "text")])
def test_an_export_has_the_order_of_the_list(path, field, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def steps(app, press):
        tab = tab_of(app)
        await press("vertical_line", "down", "enter", "f", *"len", "greater_than_sign", *"50", "enter", "e", "enter")
        rows = [tab.list.row_of(k) for k in range(tab.list.count)]
        assert rows != sorted(rows)
        (written,) = tmp_path.glob("*.jsonl")
        values = [json.loads(one)[field] for one in written.read_text().splitlines()]
        assert [len(one) for one in values] == [fetched_span(app.session.port, row).length for row in rows]
        assert values == sorted(values, key=len, reverse=True)

    browse([path], steps)


@FUZZ_ONLY
def test_fields_of_records_are_columns_and_orders():
    names = [name for name in RECORDS[0] if name != "text"]
    assert names

    async def steps(app, press):
        tab = tab_of(app)
        await press("vertical_line")
        assert type(app.screen).__name__ == "ColumnList"
        await press("down", "down", "space", "enter")
        name = names[0]
        values = [record.get(name) for record in RECORDS]
        assert name in line(tab.list, 0)
        order = [tab.list.row_of(k) for k in range(tab.list.count)]
        if all(isinstance(value, str) for value in values):
            assert [values[row] for row in order] == sorted(values)
        else:
            assert [values[row] for row in order] == sorted(values, reverse=True)
        for k in range(3):
            assert columns.shown(values[order[k]])[:8] in line(tab.list, k + 1)
        assert recall(LINES)["columns"] == [name]

    browse([LINES], steps, size=(160, 40))

    async def again(app, press):
        assert names[0] in line(tab_of(app).list, 0)

    browse([LINES], again, size=(160, 40))


@FUZZ_ONLY
@pytest.mark.parametrize("path", ["hdf5/summarization", "recipe/mix.toml"])
def test_the_share_masked(path):
    reader = open_source([FIXTURES / path]).reader
    session = open_session(SourceRequest((FIXTURES / path,)))
    session.see("samples")
    samples = session.view.reader
    column = next(one for one in columns_of(session) if one.name == "masked")
    count = samples.info.sequences
    bounds = samples.offsets(0, count).tolist()
    shares = masked(samples, 0, count)
    for row, (a, b) in enumerate(zip(bounds, bounds[1:], strict=False)):
        counts = [bool(m) and label != -100 for m, label in zip(samples.masks(a, b), samples.labels(a, b), strict=True)]
        assert shares[row] == pytest.approx(1 - sum(counts) / len(counts))
    column.load([0, 1])
    assert column.peek(1) == f"{shares[1]:.0%}"
    assert column.peek(2) is None
    reader.close()


@FUZZ_ONLY
def test_the_source_is_a_column():
    view: Any = tokfmt.open(FIXTURES / "recipe" / "mix.toml")
    session = open_session(SourceRequest((FIXTURES / "recipe" / "mix.toml",)))
    (column,) = [one for one in columns_of(session) if one.name == "source"]
    assert list(column.read(0, len(view))) == [view.where(k).source for k in range(len(view))]
