"""The parts of samples: their documents, sources and padding, and the way to where they come from."""

import json
from typing import Any

import numpy as np
import pytest
from browsing import PACK, browse, line, tab_of
from click.testing import CliRunner
from opened import open_source
from paths import FIXTURES

import tokfmt
from tokfmt.browser.data.layout import TokenStyle
from tokfmt.browser.data.parts import parts_of
from tokfmt.browser.data.rows import Viewport
from tokfmt.cli.main import cli
from tokfmt.commands.show.parts import sections

MIX = FIXTURES / "recipe" / "mix.toml"
MEGATRON = FIXTURES / "megatron" / "gpt2_text_document.bin"


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def recipe(tmp_path, *sources, **keys):
    """A recipe of samples of 64, stored in a file."""
    lines = ["tokfmt = 1", "seq_len = 64", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
    for name, path in sources:
        lines += ["[[source]]", f'name = "{name}"', f'path = "{path}"']
    file = tmp_path / "made.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


WAYS = [
    {},
    {"labels": "disjoint"},
    {"labels": "starts", "to_bos": 7},
    {"pack": "document"},
    {"pack": "bestfit"},
    {"pack": "bestfit", "labels": "starts"},
    {"shuffle": "documents", "seed": 3},
]


@pytest.mark.parametrize("keys", WAYS, ids=lambda keys: "-".join(map(str, keys.values())) or "stream")
def test_the_parts_of_a_sample_hold_the_tokens_of_its_documents(tmp_path, keys):
    file = recipe(tmp_path, ("pack", PACK), ("megatron", MEGATRON), **keys)
    reader = open_source([file]).reader
    documents = {"pack": tokfmt.open(PACK), "megatron": tokfmt.open(MEGATRON)}
    port, padded = Viewport(reader), 0
    shift = keys.get("labels") == "starts"
    for row in range(reader.count):
        parts = parts_of(port, TokenStyle(), row)
        ids = reader.tokens(row * 64, row * 64 + 64)
        bounds = [edge for part in parts.parts for edge in (part.start, part.stop)]
        assert bounds == sorted(bounds)
        assert bounds[0] == 0
        assert bounds[-1] == parts.filled == reader.filled(row)
        for part in parts.parts:
            document = documents[part.source][part.document]
            for unit in range(part.start + shift, part.stop):
                at = part.first + unit - part.start
                if at < len(document):  # else it is the separator
                    assert ids[unit] == document[at], (row, part, unit)
        padded += 64 - parts.filled
    assert padded == sum(64 - reader.filled(row) for row in range(reader.count))


@pytest.mark.parametrize("way", ["O", "double click"])
def test_a_sample_leads_to_its_document_and_its_bytes(way):
    view: Any = tokfmt.open(MIX)
    row = next(k for k in range(len(view)) if view.where(k).source == "pack" and len(view.spans(k)) > 1)
    span = view.spans(row)[1]
    column = view.spans(row)[0].stop - view.spans(row)[0].start

    async def steps(app, press):
        tab = tab_of(app)
        await press("g", *str(row), "enter", "right_curly_bracket")
        if way == "O":
            await press("tab", "right", "O")
            moved = 1
        else:
            cells = next(cells for cells, part in tab.strip._labels(tab.strip.parts) if part == 1)
            app.CLICK_CHAIN_TIME_THRESHOLD = 60
            await press.pilot.click(tab.strip, offset=(cells.start, 1), times=2)
            await press()
            moved = 0
        assert app.session.path.resolve() == PACK.resolve()
        assert app.session.shown == "documents"
        assert tab.where == (span.sequence, span.start + moved)
        document = tokfmt.open(PACK)[span.sequence]
        assert document[span.start] == view[row]["input_ids"][column]
        await press("x")
        assert app.entry.name == "index"
        place = app.tab.hex.marked.start
        stored = int.from_bytes(PACK.read_bytes()[place : place + 2], "little")
        assert stored == document[span.start + moved]
        await press("d", "up", "enter", "1")
        assert app.session.path == MIX
        assert tab.where[0] == row

    browse([MIX], steps, size=(140, 40))


def test_padding_comes_from_no_document(tmp_path):
    file = recipe(tmp_path, ("pack", PACK), pack="document")
    reader = open_source([file]).reader
    row = next(k for k in range(reader.count) if reader.filled(k) < 64)

    async def steps(app, press):
        tab = tab_of(app)
        await press("g", *str(row), "enter", "tab", "end")
        assert f"{64 - reader.filled(row)} pad" in line(tab.strip, 0)
        assert "·" * 3 in line(tab.strip, 0)
        await press("O")
        assert "padding comes from no document" in str(list(app._notifications)[-1].message)
        assert app.session.path == file

    browse([file], steps, size=(140, 40))


def test_a_sample_leads_to_a_source_with_fewer_rows():
    async def steps(app, press):
        await press("G")
        late = tab_of(app).where[0]
        await press("O")
        assert app.session.view.name == "documents"
        assert app.session.port.count <= late
        await press("backspace")
        assert tab_of(app).where == (late, 0)
        assert [str(one.message) for one in app._notifications] == []

    browse([MIX], steps)


def test_a_document_leads_to_its_record(tmp_path):
    out = tmp_path / "out.pbin"
    done = CliRunner().invoke(
        cli, ["convert", str(FIXTURES / "recipe" / "prepare.toml"), str(out), "--ledger"], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    about, rows = json.loads(out.with_name("out.pbin.ledger.json").read_bytes()), np.load(f"{out}.ledger")
    row = rows[5]
    source = about["sources"][int(row["source"])]

    async def steps(app, press):
        await press("g", *"5", "enter", "O")
        assert app.session.path.resolve() == (tmp_path / source["paths"][0]).resolve()
        assert app.session.shown == "records"
        assert tab_of(app).where == (int(row["record"]), 0)
        await press("O")
        assert "x shows its bytes" in str(list(app._notifications)[-1].message)

    browse([out], steps, size=(140, 40))
    out.with_name("out.pbin.ledger.json").unlink()

    async def without(app, press):
        await press("O")
        assert "no ledger" in str(list(app._notifications)[-1].message)

    browse([out], without)


def test_the_index_of_a_recipe_has_its_keys():
    text = MIX.read_bytes()
    found = sections(MIX)
    assert [part.title for part in found.sections] == ["recipe", "source 0 (pack)", "source 1 (megatron)"]
    fields = [field for part in found.sections for field in part.fields(0, part.count)]
    assert [field.name for field in fields] == [
        *("tokfmt", "seq_len", "shuffle", "seed"),
        *("name", "path", "weight", "epochs"),
        *("name", "path", "weight"),
    ]
    for field in fields:
        written = text[field.offset : field.offset + field.length].decode()
        name, _, value = written.partition("=")
        assert (name.strip(), value.strip()) == (field.name, field.value)


def test_keys_of_a_recipe_are_found_as_written(tmp_path):
    path = tmp_path / "odd.toml"
    path.write_text(
        '# weight = 3\ntokfmt = 1\nseq_len = 64 # of tokens\n\n[[source]]\npath = [\n  "a.pbin",\n  # shuffle = "no"\n'
        '  "b.pbin",\n]\n# the end\n[source.options]\nwidth = 4\n[filter.short]\nmin_words = 2\n'
    )
    parts = sections(path, format="recipe").sections
    found = {part.title: [(one.name, one.value) for one in part.fields(0, part.count)] for part in parts}
    assert found == {
        "recipe": [("tokfmt", "1"), ("seq_len", "64 # of tokens")],
        "source 0": [("path", '[\\n  "a.pbin",\\n  # shuffle = "no"\\n  "b.pbin",\\n]')],
        "source.options": [("width", "4")],
        "filter.short": [("min_words", "2")],
    }
