"""Samples in the browser: padding, borders of documents, where things lie in files, and statistics."""

import json

import numpy as np
import pytest
from browsing import EVERY, browse, tab_of
from click.testing import CliRunner
from opened import open_source
from paths import CORPUS, FIXTURES, TOKENIZER

import tokfmt
from tokfmt.browser.data.layout import Kind, Mode
from tokfmt.cli.main import cli
from tokfmt.commands.show.show import samples
from tokfmt.commands.stats import StatsReport
from tokfmt.source.request import SourceRequest

HDF5 = FIXTURES / "hdf5"
PADDED = [FIXTURES / "stage1" / "blocks", HDF5 / "new_padded_pad0", HDF5 / "padded_eos", HDF5 / "new_vsl"]
LINES = CORPUS.read_bytes().splitlines(keepends=True)


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def sample(path, row):
    return next(samples(SourceRequest((path,)), str(row)).shown)


async def to_sample(app, press, row):
    if app.session.shown != "samples":
        await press("v")
    assert app.session.shown == "samples"
    await press("g", *str(row), "enter")


def detail(app):
    return str(tab_of(app).query_one("#detail").render())


def painted_tokens(reader):
    """The style of each token on the screen."""
    found = {}
    for line in reader.lines:
        if line.runs and line.runs[0].kind is not Kind.RULE:
            for run, segment in zip(line.runs, reader.painted(reader.scroll, line), strict=True):
                found.setdefault(run.token, segment.style)
    return found


def test_what_is_not_padded_is_not_dimmed():
    async def steps(app, press):
        await to_sample(app, press, 0)
        await press("tab", "end")
        assert "padding" not in detail(app)
        reader = tab_of(app).reader
        dim = reader.get_component_rich_style("reader--padding")
        assert dim not in painted_tokens(reader).values()

    browse([PADDED[0]], steps)


def rules(reader):
    """The tokens before which a rule is drawn, on the screen."""
    return [line.first for line in reader.lines if line.runs and line.runs[0].kind is Kind.RULE]


@pytest.mark.parametrize(
    ("path", "row"),
    [(HDF5 / "new_vsl", 13), (HDF5 / "vsl_old", 3), (PADDED[0], 1)],
    ids=lambda one: getattr(one, "name", one),
)
def test_borders_of_documents_are_drawn_in_a_sample(path, row):
    begins = [token for token in np.flatnonzero(sample(path, row).begins).tolist() if token]

    async def steps(app, press):
        await to_sample(app, press, row)
        reader = tab_of(app).reader
        for mode in (Mode.TEXT, Mode.IDS, Mode.BOTH):
            reader.mode = mode
            await press()
            last = reader.lines[-1].last
            assert rules(reader) == [token for token in begins if token < last]

    browse([path], steps, size=(160, 51))
    if path.parent == HDF5:  # the tokenizer's separator is not that of the blocks
        browse([path], steps, size=(160, 51), tokenizer=str(TOKENIZER))


def test_a_recipe_is_browsed_in_the_order_of_training():
    mix = FIXTURES / "recipe" / "mix.toml"
    view = tokfmt.open(mix)
    begins = {
        k: np.flatnonzero(view.with_fields(["position_ids"])[k]["position_ids"] == 0)[1:].tolist() for k in (9, 12)
    }

    async def steps(app, press):
        reader, tab = tab_of(app).reader, tab_of(app)
        assert app.session.shown == "samples"
        for step, batch, row in ((3, 4, 12), (3, 3, 9)):
            await press("g", *str(step), "asterisk", *str(batch), "enter")
            assert tab.where == (row, 0)
            assert rules(reader) == begins[row] != []
        assert f"label {view[9]['labels'][0]}" in detail(app)
        await press("g", *"12", "asterisk", "4", "enter")
        assert "there are 46 samples: 0 to 45" in str(list(app._notifications)[-1].message)
        assert tab.where == (9, 0)

    browse([mix], steps, size=(160, 50))


# where things lie


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
def test_a_byte_leads_to_its_token(path):
    reader = open_source([path]).reader
    place = reader.locate(reader.info.tokens // 2)
    position = reader.find(place.path, place.offset)
    row = int(np.searchsorted(reader.offsets(0, reader.info.sequences), position, side="right")) - 1
    expected = row, position - int(reader.offsets(row, row)[0])

    async def steps(app, press):
        tab = tab_of(app)
        begin = reader.locate(0).path.parent
        name = "" if place.path == reader.locate(0).path else f"{place.path.relative_to(begin)}:"
        await ask_byte(app, press, f"{name}{place.offset}")
        assert tab.where == expected
        assert tab.list.row == expected[0]
        await ask_byte(app, press, "123456789012")
        assert "holds no token" in str(list(app._notifications)[-1].message)
        assert tab.where == expected
        await ask_byte(app, press, "no number")
        assert "no number" in str(list(app._notifications)[-1].message)

    browse([path], steps)


async def ask_byte(app, press, answer):
    await press("g")
    app.screen.query_one("Input").value = f"@{answer}"
    await press("enter")


@pytest.mark.parametrize("tokenizer", [None, str(TOKENIZER)])
def test_a_byte_leads_to_its_record_and_back(tokenizer):
    starts = np.cumsum([0, *map(len, LINES)]).tolist()

    async def steps(app, press):
        tab = tab_of(app)
        await ask_byte(app, press, str(starts[7] + 5))
        assert tab.where == (7, 0)
        assert f"byte {starts[7]:,} of {CORPUS.name}" in detail(app)
        await ask_byte(app, press, str(starts[-1]))
        assert "holds no record" in str(list(app._notifications)[-1].message)
        assert tab.where == (7, 0)
        await press("g", "t", "colon", "5", "enter")
        assert "no token positions" in str(list(app._notifications)[-1].message)
        await press("x")
        assert app.entry.name == "index"
        assert (app.tab.hex.at, app.tab.hex.marked.start) == (starts[7], starts[7])

    browse([CORPUS], steps, tokenizer=tokenizer)


# statistics

PACKED = FIXTURES / "parquet" / "packed" / "train.idx.parquet"


def counted(path, *how):
    """The document of `tokfmt stats --json`."""
    done = CliRunner().invoke(cli, ["stats", str(path), "--json", *how], catch_exceptions=False)
    assert done.exit_code == 0
    return json.loads(done.stdout)


def of_browser(app):
    return json.loads(json.dumps(StatsReport([app.session.statistics]).as_json()))


OF_ROWS = [*PADDED, HDF5 / "padded_pad0", HDF5 / "summarization", PACKED]


def test_a_pass_over_documents_ends_where_samples_are_shown(monkeypatch):
    """Its figures never stand under the name of the other view."""
    monkeypatch.setattr("tokfmt.browser.tabs.statistics.AT_ONCE", 0)

    async def steps(app, press):
        await press("2")
        tab = app.tab
        tab.action_all()
        app.next_view()
        assert tab.job is None
        await press()
        assert app.session.statistics is None
        assert tab.found.sequences == app.session.port.count
        await press("c")
        assert app.session.statistics.layout == "samples"
        app.next_view()
        await press()
        assert app.session.statistics is None

    browse([HDF5 / "padded_eos"], steps)
