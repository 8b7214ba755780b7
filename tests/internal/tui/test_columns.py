"""Columns of the list by what the format has, and the list in the order of one."""

import json
from typing import Any

import numpy as np
import pytest
from browsing import PACK, browse, line, session_of, tab_of
from opened import open_source
from paths import CORPUS, FIXTURES

import tokfmt
from tokfmt.browser.data import columns
from tokfmt.browser.data.columns import columns_of, masked, order_of
from tokfmt.browser.data.rows import fetched_span
from tokfmt.browser.data.session import open_session
from tokfmt.browser.data.state import recall
from tokfmt.browser.dialogs import ColumnList
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.source.request import SourceRequest

LINES = FIXTURES / "text" / "with_fields.jsonl"
RECORDS = [json.loads(one) for one in LINES.read_text().splitlines()]


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


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


def test_fields_of_records_are_columns_and_orders():
    names = [name for name in RECORDS[0] if name != "text"]
    assert names

    async def steps(app, press):
        tab = tab_of(app)
        await press("vertical_line")
        assert isinstance(app.screen, ColumnList)
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


def test_columns_of_a_table_are_columns():
    path = FIXTURES / "parquet" / "text" / "fineweb_like.parquet"
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    session = open_session(SourceRequest((path,)))
    found = {column.name: column for column in columns_of(session)}
    names = [name for name in table.column_names if name != session.view.reader.info.field]
    assert set(found) <= set(names)
    for name, column in found.items():
        values = table[name].to_pylist()
        assert list(column.read(0, len(values))) == [columns._value(value) for value in values]
        assert [value for some in column.all(len(values)) for value in some] == list(column.read(0, len(values)))


@pytest.mark.parametrize("path", ["hdf5/summarization", "recipe/mix.toml"])
def test_the_share_masked(path):
    reader = open_source([FIXTURES / path]).reader
    session = open_session(SourceRequest((FIXTURES / path,)))
    while session.view.name != "samples":
        session.switch()
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


def test_the_source_is_a_column():
    view: Any = tokfmt.open(FIXTURES / "recipe" / "mix.toml")
    session = open_session(SourceRequest((FIXTURES / "recipe" / "mix.toml",)))
    (column,) = [one for one in columns_of(session) if one.name == "source"]
    assert list(column.read(0, len(view))) == [view.where(k).source for k in range(len(view))]


class Quiet:
    def phase(self, *_): ...
    def advance(self, amount): ...


@pytest.mark.parametrize("down", [True, False])
def test_a_large_order_keeps_its_beginning(down, monkeypatch):
    monkeypatch.setattr(columns, "MOST", 50)
    monkeypatch.setattr(columns, "_AT_ONCE", 64)
    rng = np.random.default_rng(1)
    lengths = rng.integers(0, 40, 1000)
    reader = MemoryReader(Ragged.of([np.zeros(n, np.uint16) for n in lengths]))
    session = session_of(reader)
    found = order_of(session, None, None, Quiet(), falling=down)
    assert found.total == 1000
    assert found.rows.tolist() == sorted(range(1000), key=lambda k: -lengths[k] if down else lengths[k])[:50]
    some = np.arange(0, 1000, 7)
    found = order_of(session, None, some, Quiet(), falling=down)
    assert found.rows.tolist() == sorted(some.tolist(), key=lambda k: -lengths[k] if down else lengths[k])[:50]
    assert found.total == len(some)


def test_escape_ends_an_order(monkeypatch):
    import threading

    go = threading.Event()

    def slow(*_, **__):
        go.wait(10)
        raise AssertionError

    async def steps(app, press):
        tab = tab_of(app)
        monkeypatch.setattr("tokfmt.browser.data.columns.order_of", slow)
        tab.order.choose("length")
        assert "sorting" in str(tab.list.border_title)
        assert not tab.idle
        await press.pilot.press("escape")
        assert tab.idle
        assert "sorting" not in str(tab.list.border_title)
        assert tab.list.row_of(1) == 1
        go.set()

    browse([PACK], steps)
