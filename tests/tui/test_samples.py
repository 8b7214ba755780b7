"""Samples in the browser: padding, borders of documents, where things lie in files, and statistics."""

import numpy as np
import pytest
from amount import FUZZ_ONLY
from browsing import EVERY, Kind, browse, notes, tab_of
from opened import open_source
from paths import CORPUS, FIXTURES, TOKENIZER

import tokfmt

HDF5 = FIXTURES / "hdf5"


PADDED = [FIXTURES / "stage1" / "blocks", HDF5 / "new_padded_pad0", HDF5 / "padded_eos", HDF5 / "new_vsl"]


LINES = CORPUS.read_bytes().splitlines(keepends=True)


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


@FUZZ_ONLY
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


@FUZZ_ONLY
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
        assert "there are 46 samples: 0 to 45" in str(list(notes(app))[-1].message)
        assert tab.where == (9, 0)

    browse([mix], steps, size=(160, 50))


@FUZZ_ONLY
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
        assert "holds no token" in str(list(notes(app))[-1].message)
        assert tab.where == expected
        await ask_byte(app, press, "no number")
        assert "no number" in str(list(notes(app))[-1].message)

    browse([path], steps)


async def ask_byte(app, press, answer):
    await press("g")
    app.screen.query_one("Input").value = f"@{answer}"
    await press("enter")


@FUZZ_ONLY
@pytest.mark.parametrize("tokenizer", [None, str(TOKENIZER)])
def test_a_byte_leads_to_its_record_and_back(tokenizer):
    starts = np.cumsum([0, *map(len, LINES)]).tolist()

    async def steps(app, press):
        tab = tab_of(app)
        await ask_byte(app, press, str(starts[7] + 5))
        assert tab.where == (7, 0)
        assert f"byte {starts[7]:,} of {CORPUS.name}" in detail(app)
        await ask_byte(app, press, str(starts[-1]))
        assert "holds no record" in str(list(notes(app))[-1].message)
        assert tab.where == (7, 0)
        await press("g", "t", "colon", "5", "enter")
        assert "no token positions" in str(list(notes(app))[-1].message)
        await press("x")
        assert app.entry.name == "file"
        assert (app.tab.hex.at, app.tab.hex.marked.start) == (starts[7], starts[7])

    browse([CORPUS], steps, tokenizer=tokenizer)
