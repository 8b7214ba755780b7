"""The parts of samples: their documents, sources and padding, and the way to where they come from."""

import json
import shutil
from typing import Any

import numpy as np
import pytest
from amount import FUZZ_ONLY
from browsing import BLOCKS, PACK, ByteSpot, Spot, TokenStyle, Viewport, browse, line, notes, tab_of
from click.testing import CliRunner
from opened import open_source
from paths import FIXTURES, TOKENIZER
from run_goldens import RUNS, recorded

import tokfmt
from tokfmt.browser.data.parts import parts_of
from tokfmt.cli.main import cli

MIX = FIXTURES / "recipe" / "mix.toml"


def recipe(tmp_path, *sources, **keys):
    """A recipe of samples of 64, stored in a file."""
    lines = ["tokfmt = 1", "seq_len = 64", *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]
    for name, path in sources:
        lines += ["[[source]]", f'name = "{name}"', f'path = "{path}"']
    file = tmp_path / "made.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


@FUZZ_ONLY
def test_a_sample_shows_its_sources(tmp_path):
    view: Any = tokfmt.open(MIX)
    row = next(k for k in range(len(view)) if len(view.spans(k)) > 2)
    spans, names = view.spans(row), [source.name for source in view.sources]

    async def steps(app, press):
        await press("g", *str(row), "enter")
        tab = tab_of(app)
        strip = tab.strip
        assert strip.display
        first = spans[0]
        assert f"{names[first.source]}#{first.sequence}" in line(strip, 1)
        assert f"128 · {len(spans)} docs · 0 pad" in line(strip, 0)
        assert names[first.source] in str(tab.query_one("#reading").border_title)
        head, drawn = line(tab.list, 0), line(tab.list, row + 1 - tab.list.top)
        assert "source" in head
        assert view.where(row).source in drawn
        await press("right_curly_bracket")
        second = spans[1]
        assert tab.where == (row, first.stop - first.start)
        told = f"from {names[second.source]}#{second.sequence}, token {second.start}"
        assert told in str(tab.query_one("#detail").render())
        for _ in spans:
            await press("right_curly_bracket")
        last = 128 - (spans[-1].stop - spans[-1].start)
        assert tab.where == (row, last)
        await press("left_curly_bracket")
        assert tab.where == (row, last - (spans[-2].stop - spans[-2].start))
        await press.pilot.click(strip, offset=(0, 1))
        await press()
        assert tab.where == (row, 0)

    browse([MIX], steps, size=(140, 40))


@FUZZ_ONLY
def test_a_sample_shows_the_bytes_of_its_source():
    view: Any = tokfmt.open(MIX)
    row = next(k for k in range(len(view)) if view.where(k).source == "pack")

    async def steps(app, press):
        await press("g", *str(row), "enter", "x")
        shown = app.tab.hex
        assert (shown.damage, shown.path.resolve()) == (None, PACK.resolve())
        token = int(view[row]["input_ids"][0])
        assert shown.marked == range(shown.at, shown.at + 2)
        assert PACK.read_bytes()[shown.at : shown.at + 2] == token.to_bytes(2, "little")
        assert str(app.tab.query_one("#field").render()) == ""
        await press("backspace", "x")
        assert shown.damage is None

    browse([MIX], steps)


def test_a_link_that_leaves_a_dataset_is_not_followed(tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    home = tmp_path / "blocks"
    shutil.copytree(BLOCKS, home)
    (home / "link").symlink_to(tmp_path / "secret")

    async def steps(app, press):
        app.go(Spot(tab="file", inside=ByteSpot(home / "link", 0)))
        await press()
        assert "leaves the dataset" in app.tab.hex.damage.why

    browse([home], steps)


@FUZZ_ONLY
def test_a_stored_sample_shows_its_documents_and_leads_to_them():
    path = FIXTURES / "hdf5" / "new_vsl"

    async def steps(app, press):
        tab = tab_of(app)
        await press("v", "g", *"13", "enter")
        assert app.session.shown == "samples"
        assert len(tab.strip.parts.parts) > 1
        await press("right_curly_bracket")
        unit = tab.strip.parts.parts[1].start
        assert tab.where == (13, unit)
        before = int(app.session.port.peek(13, unit, unit + 1).units[0])
        await press("O")
        assert app.session.shown == "documents"
        row, at = tab.where
        assert int(app.session.port.peek(row, at, at + 1).units[0]) == before
        assert at == 0
        assert not tab.strip.display

    browse([path], steps, size=(140, 40))


def test_text_of_a_recipe_is_decoded_in_its_sources(tmp_path):
    """The tokenizer of the recipe is that of the source that a sample leads to."""

    async def steps(app, press):
        tab = tab_of(app)
        assert app.session.vocabulary is not None
        await press("O")
        assert app.session.path.name == PACK.name
        assert app.session.vocabulary is not None
        assert tab.token_style.decoder is not None

    browse([recipe(tmp_path, ("pack", PACK))], steps, tokenizer=str(TOKENIZER))


MEGATRON = FIXTURES / "megatron" / "gpt2_text_document.bin"


WAYS = [
    {},
    {"labels": "disjoint"},
    {"labels": "starts", "to_bos": 7},
    {"pack": "document"},
    {"pack": "bestfit"},
    {"pack": "bestfit", "labels": "starts"},
    {"shuffle": "documents", "seed": 3},
]


@FUZZ_ONLY
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


def test_the_parts_of_a_sample_of_a_run_are_those_that_upstream_recorded():
    home = RUNS / "megatron_core"
    options = {"root": str(home), "batch_size": "8", "micro_batch_size": "2", "world_size": "2"}
    reader = open_source([home / "cache_blend"], format="run", options=options).reader
    record, port = recorded("megatron_core", "expected_blend_single.json"), Viewport(reader)
    for row in (0, 7, 121, 159):
        sample, truth, at = record["samples"][str(row)], [], 0
        for document, offset, length in sample["pieces"]:
            if length and at < 64:
                truth.append((at, min(64, at + length), sample["source"], document, offset))
            at += length
        parts = parts_of(port, TokenStyle(), row)
        assert [(one.start, one.stop, one.source, one.document, one.first) for one in parts.parts] == truth
        step = next(one for one in record["steps"] if any(row in micro for rank in one["ranks"] for micro in rank))
        rank = next(k for k, one in enumerate(step["ranks"]) if any(row in micro for micro in one))
        assert (parts.filled, parts.read_by) == (64, f"step {step['step']}, rank {rank}")


def test_a_token_of_a_run_leads_to_its_document(tmp_path):
    home = RUNS / "megatron_core"
    file = tmp_path / "run.toml"
    file.write_text(f'tokfmt = 1\n[run]\ncache = "{home / "cache_blend"}"\nroot = "{home}"\nbatch_size = 8\n')
    sample = recorded("megatron_core", "expected_blend_single.json")["samples"]["0"]
    document, offset, _ = sample["pieces"][0]

    async def steps(app, press):
        assert sample["source"] in line(tab_of(app).list, 1)
        await press("enter", "right", "right")
        assert "step 0, rank 0" in line(tab_of(app).strip, 0)
        await press("O")
        assert app.session.path.name == f"{sample['source']}.idx"
        assert tab_of(app).where == (document, offset + 2)

    browse([file], steps)


@FUZZ_ONLY
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
        assert "padding comes from no document" in str(list(notes(app))[-1].message)
        assert app.session.path == file

    browse([file], steps, size=(140, 40))


@FUZZ_ONLY
def test_a_sample_leads_to_a_source_with_fewer_rows():
    async def steps(app, press):
        await press("G")
        late = tab_of(app).where[0]
        await press("O")
        assert app.session.view.name == "documents"
        assert app.session.port.count <= late
        await press("backspace")
        assert tab_of(app).where == (late, 0)
        assert [str(one.message) for one in notes(app)] == []

    browse([MIX], steps)


@FUZZ_ONLY
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
        assert "x shows its bytes" in str(list(notes(app))[-1].message)

    browse([out], steps, size=(140, 40))
    out.with_name("out.pbin.ledger.json").unlink()

    async def without(app, press):
        await press("O")
        assert "no ledger" in str(list(notes(app))[-1].message)

    browse([out], without)
