"""Columns of the list by what the format has, and the list in the order of lengths."""

import json
from typing import Any

import numpy as np
import pytest
from amount import FUZZ_ONLY, first
from browsing import PACK, SourceRequest, browse, fetched_span, line, open_session, tab_of
from paths import CORPUS, FIXTURES, TOKENIZER

import tokfmt
from tokfmt.browser.data.columns import columns_of


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
        await press("vertical_line")
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
        await press("vertical_line")
        assert [tab.list.row_of(k) for k in range(tab.list.count)] == falling(lengths)

    browse([CORPUS], steps, tokenizer=tokenizer)


@pytest.mark.parametrize("tokenizer", first(1, [None, str(TOKENIZER)]))
def test_a_damaged_line_takes_nothing_but_itself(tokenizer, tmp_path):
    """The order, searches and statistics have every other line; the line itself is listed with its error."""
    texts = [f"word{row} and {'so on, ' * (row % 13)}" for row in range(40)]
    lines = [json.dumps({"text": text, "rank": (row * 7) % 40}) for row, text in enumerate(texts)]
    bad = {1: "no JSON", 2: lines[2][:-9], 17: '{"rank": 3}', 39: lines[39][:-9]}
    path = tmp_path / "half.jsonl"
    path.write_text("\n".join(bad.get(row, one) for row, one in enumerate(lines)))
    good = [row for row in range(40) if row not in bad]

    async def steps(app, press):
        tab = tab_of(app)
        assert "unexpected" not in app.export_screenshot()
        await press("vertical_line")
        assert {tab.list.row_of(k) for k in range(36)} == set(good)
        await press("vertical_line")
        assert {tab.list.row_of(k) for k in range(36)} == set(good)
        await press("vertical_line", "f", *"word", "enter")
        assert [tab.list.row_of(k) for k in range(tab.list.count)] == good
        assert tab.filtered.failure.startswith("4 records")
        await press("F", "2")
        facts = {fact.name: fact.value for fact in app.tab.query_one("#facts").lines.facts}
        assert facts[app.session.view.name] == "36"
        assert facts["left out"].startswith("4 records")
        assert app.tab.query_one("#groups").lines is None

    browse([path], steps, tokenizer=tokenizer)


@FUZZ_ONLY
@pytest.mark.parametrize(("path", "field"), [(PACK, "input_ids"), (CORPUS, "text")])
def test_an_export_has_the_order_of_the_list(path, field, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def steps(app, press):
        tab = tab_of(app)
        await press("vertical_line", "f", *"len", "greater_than_sign", *"50", "enter", "e", "enter", "enter")
        rows = [tab.list.row_of(k) for k in range(tab.list.count)]
        assert rows != sorted(rows)
        (written,) = tmp_path.glob("*.jsonl")
        values = [json.loads(one)[field] for one in written.read_text().splitlines()]
        assert [len(one) for one in values] == [fetched_span(app.session.port, row).length for row in rows]
        assert values == sorted(values, key=len, reverse=True)

    browse([path], steps)


@FUZZ_ONLY
def test_the_source_is_a_column():
    view: Any = tokfmt.open(FIXTURES / "recipe" / "mix.toml")
    session = open_session(SourceRequest((FIXTURES / "recipe" / "mix.toml",)))
    (column,) = [one for one in columns_of(session) if one.name == "source"]
    assert list(column.read(0, len(view))) == [view.where(k).source for k in range(len(view))]


def test_rows_are_ordered_and_filtered_by_bytes_of_text_per_token(tmp_path):
    """The least first, since a text with few bytes per token is seldom what it seems."""
    texts = [("word " * n + "\u0001\u0002" * (n * n % 37)).strip() for n in range(1, 40)]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    tokfmt.convert(tmp_path / "x.jsonl", tmp_path / "x.pbin", tokenizer=str(TOKENIZER))
    shares = [len(text.encode()) / len(ids) for text, ids in zip(texts, tokfmt.open(tmp_path / "x.pbin"), strict=True)]
    middle = f"{sorted(shares)[20]:.3f}"
    rising = sorted(range(len(shares)), key=lambda row: shares[row])

    async def steps(app, press):
        tab = tab_of(app)
        await press("vertical_line", "vertical_line", "vertical_line")
        assert [tab.list.row_of(k) for k in range(tab.list.count)] == rising
        assert "b/t\u25b2" in line(tab.list, 0)
        await press("vertical_line")
        assert tab.list.row_of(0) == rising[-1]
        await press("vertical_line", "f", *f"b/t<{middle}", "enter")
        assert [tab.list.row_of(k) for k in range(tab.list.count)] == [
            k for k in range(39) if shares[k] < float(middle)
        ]
        assert 0 < tab.list.count < 39

    browse([tmp_path / "x.pbin"], steps, tokenizer=str(TOKENIZER))
