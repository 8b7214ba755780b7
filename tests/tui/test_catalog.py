"""The catalog of a folder of datasets: found, read and checked as far as the screen shows it."""

import asyncio
import json
import shutil

import pytest
from amount import FUZZ_ONLY
from browsing import browse_folder, catalog_rows, has_ended, line
from click.testing import CliRunner
from paths import FIXTURES, TOKENIZER

import tokfmt
from tokfmt.cli.main import cli

PACKS = FIXTURES / "modalities"


@pytest.fixture
def folder(tmp_path):
    """A folder with datasets of three formats, one of them damaged, and files that are no datasets."""
    home = tmp_path / "data"
    for name in ("deep", "text"):
        (home / "b" / name).mkdir(parents=True)
    shutil.copy(PACKS / "D_2byte_gpt2.pbin", home / "a.pbin")
    shutil.copy(FIXTURES / "text" / "corpus.jsonl", home / "b" / "text" / "corpus.jsonl")
    shutil.copytree(FIXTURES / "flat-tokens" / "multi_chunk.zarr", home / "b" / "deep" / "store.zarr")
    (home / "z.pbin").write_bytes((PACKS / "D_2byte_gpt2.pbin").read_bytes()[:2000])
    (home / "notes.py").write_text("print()\n")
    (home / "README.md").write_text("about\n")
    return home


def test_a_folder_is_listed_with_counts_size_and_health(folder):
    async def steps(app, press):
        found = catalog_rows(app)
        assert [row[0] for row in found] == ["a.pbin", "b/deep/store.zarr", "b/text", "z.pbin"]
        assert [row[1] for row in found[:3]] == ["modalities", "flat-tokens", "jsonl"]
        assert found[0][2:4] == ["42", "3,998"] or found[0][2] == "42"
        assert found[0][-1] == "✓"
        assert found[2][2:4] == ["184", "-"]  # text has no tokens
        assert "✗" in found[3][-1]
        assert "1 other file" in str(app.screen.query_one("#catalog-title").render())
        await press("end")
        assert "z.pbin" in str(app.screen.query_one("#catalog-failure").render())

    browse_folder(folder, steps)


def test_what_differs_from_the_others_stands_out(tmp_path):
    """The first IDs and the dtype, with the total in the title; see `tokfmt info --recursive`."""
    source = tmp_path / "x.jsonl"
    source.write_text("".join(f'{{"input_ids": [{k + 1}, 9]}}\n' for k in range(9)))
    (tmp_path / "parts").mkdir()
    for number in range(4):
        lead = None if number == 2 else 99
        tokfmt.convert(source, tmp_path / "parts" / f"{number}.pbin", to_eos=100, to_bos=lead)

    async def steps(app, press):
        rows = catalog_rows(app)
        assert [row[0] for row in rows if "99 100%" in " ".join(row)] == ["0.pbin", "1.pbin", "3.pbin"]
        assert {(name, column) for name, column in app.screen.query_one("CatalogList").catalog.odd} == {
            (str(tmp_path / "parts" / "2.pbin"), "first ID")
        }
        assert "72 tokens" in str(app.screen.query_one("#catalog-title").render())

    browse_folder(tmp_path / "parts", steps, size=(160, 20))


def test_files_beside_those_of_a_dataset_are_listed_too(folder):
    """A directory that has a pair of Megatron is a dataset, and the packs in it are others; a tokenizer is none."""
    shutil.copytree(TOKENIZER, folder / "tokenizers" / "made")
    for name in ("vocab.json", "merges.txt"):
        (folder / "tokenizers" / "made" / name).write_text('{"a": 0}\n')
    for suffix in (".bin", ".idx"):
        shutil.copy(FIXTURES / "megatron" / f"gpt2_text_document{suffix}", folder / f"gpt2_text_document{suffix}")

    async def steps(app, press):
        found = catalog_rows(app)
        assert [row[0] for row in found] == ["gpt2_text_document.*", "a.pbin", "b/deep/store.zarr", "b/text", "z.pbin"]
        assert [row[1] for row in found[:2]] == ["megatron", "modalities"]

    browse_folder(folder, steps)


@pytest.mark.parametrize("below", [False, True], ids=["files alone", "a folder below"])
def test_a_folder_that_is_a_dataset_itself_opens_from_its_list(tmp_path, below):
    """A file of Parquet makes a folder a dataset; the packs beside it are others, and all of them can be opened."""
    home = tmp_path / "mixed"
    home.mkdir()
    shutil.copy(FIXTURES / "parquet" / "int32.parquet", home / "labels.parquet")
    shutil.copy(PACKS / "D_2byte_gpt2.pbin", home / "x.pbin")
    if below:
        shutil.copytree(FIXTURES / "stage1" / "blocks", home / "blocks")
    listed = CliRunner().invoke(cli, ["browse", str(home), "--screenshot", str(tmp_path / "x.svg")])
    assert listed.exit_code == 0, listed.output
    assert "x.pbin" in (tmp_path / "x.svg").read_text()

    async def steps(app, press):
        names = [row[0] for row in catalog_rows(app)]
        assert {"labels.parquet", "x.pbin"} <= {*names}
        await press("home", *["down"] * names.index("labels.parquet"), "enter")
        assert app.session.refused is None
        assert (app.session.format_name, app.session.port.count) == ("parquet", 30)

    browse_folder(home, steps)


@FUZZ_ONLY
def test_a_dataset_has_the_whole_screen_after_one_that_cannot_be_read(folder):
    """Also the first one, which follows the folder itself."""
    (folder / "z.pbin").write_bytes(b"\xff" * 2000)

    async def steps(app, press):
        for key, readable in (("g", True), ("G", False), ("g", True)):
            await press(key, "l")
            assert (app.session.refused is None) == readable
            shown, hidden = app.sequences.list, app.sequences.query_one("#refusal")
            shown, hidden = (shown, hidden) if readable else (hidden, shown)
            assert shown.has_focus
            assert shown.outer_size.height == app.size.height - 3
            assert not hidden.size.height or not hidden.display or not hidden.parent.display
            await press("d")

    browse_folder(folder, steps)


@FUZZ_ONLY
def test_only_a_few_datasets_stay_open(tmp_path):
    home = tmp_path / "many"
    home.mkdir()
    for k in range(8):
        shutil.copy(PACKS / "D_2byte_gpt2.pbin", home / f"{k}.pbin")

    async def steps(app, press):
        for k in range(8):
            await press("home", *["down"] * k, "enter")
            assert app.session.path == home / f"{k}.pbin"
            await press("d")
        assert len(app.sessions) <= 1 + 3
        await press("home", "enter")
        assert app.session.path == home / "0.pbin"

    browse_folder(home, steps)


@FUZZ_ONLY
def test_names_are_filtered_and_the_list_is_exported(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def steps(app, press):
        await press("slash", *"STORE", "enter")
        assert [row[0] for row in catalog_rows(app)] == ["b/deep/store.zarr"]
        assert "▼ store: 1" in str(app.screen.query_one("#catalog-title").render())
        await press("e", "enter")
        exported = json.loads((tmp_path / "data-datasets.jsonl").read_text())
        assert exported["path"] == str(folder / "b" / "deep" / "store.zarr")
        assert exported["sequences"] == int(catalog_rows(app)[0][2].replace(",", ""))
        await press("enter")
        assert app.session.path == folder / "b" / "deep" / "store.zarr"
        await press("d", "slash", *["backspace"] * 5, "enter")
        assert len(catalog_rows(app)) == 4

    browse_folder(folder, steps)


def test_a_picture_of_a_folder_and_an_empty_one(folder, tmp_path):
    done = CliRunner().invoke(cli, ["browse", str(folder), "--screenshot", str(tmp_path / "x.svg")])
    assert done.exit_code == 0, done.output
    assert "store.zarr" in (tmp_path / "x.svg").read_text().replace("&#160;", " ")
    (tmp_path / "none").mkdir()
    done = CliRunner().invoke(cli, ["browse", str(tmp_path / "none"), "--screenshot", str(tmp_path / "y.svg")])
    assert "holds no dataset" in str(done.exception)


@FUZZ_ONLY
def test_enter_opens_a_dataset_and_d_returns(folder):
    async def steps(app, press):
        assert type(app.screen).__name__ == "Datasets"
        await press("escape")
        assert type(app.screen).__name__ == "Datasets"  # nothing is open below it
        await press("down", "enter")
        assert type(app.screen).__name__ != "Datasets"
        assert app.session.path == folder / "b" / "deep" / "store.zarr"
        await press("d")
        assert app.screen.query_one("CatalogList").cursor == 1
        await press("escape")
        assert app.session.path == folder / "b" / "deep" / "store.zarr"
        await press("g", "1", "enter", "backspace")
        assert type(app.screen).__name__ != "Datasets"  # back to the place before the jump
        await press("backspace")
        assert type(app.screen).__name__ == "Datasets"
        await press("end", "enter")
        assert app.session.opened.damage  # a cut pack, whose tokens are shown
        await press("3")
        assert app.entry.name == "file"  # its bytes are shown

    browse_folder(folder, steps)


@FUZZ_ONLY
@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_columns_fit(folder, width):
    async def steps(app, press):
        shown = app.screen.query_one("CatalogList")
        for y in range(shown.size.height):
            assert len(line(shown, y)) <= shown.size.width
        assert catalog_rows(app)[0][0].startswith("a.pbin")
        assert "✓" in line(shown, 1)

    browse_folder(folder, steps, size=(width, 20))


def test_q_goes_up_from_a_dataset_to_the_folder_and_ends_there(folder):
    async def steps(app, press):
        await press("enter", "q")
        assert type(app.screen).__name__ == "Datasets"
        app.simulate_key("q")  # `press` would wait for the screen of an app that has ended
        async with asyncio.timeout(30):
            while not has_ended(app):
                await press.pilot.pause(0.01)

    browse_folder(folder, steps)
