"""The parts of samples: their documents, sources and padding, and the way to where they come from."""

import json
import shutil
from typing import Any

import pytest
from amount import FUZZ_ONLY
from browsing import BLOCKS, PACK, browse, line, tab_of
from paths import FIXTURES, TOKENIZER

import tokfmt

MIX = FIXTURES / "recipe" / "mix.toml"


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
        app.go_to_bytes(home / "link", 0)
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
