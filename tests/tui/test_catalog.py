"""The catalog of a folder of datasets: found, read and checked as far as the screen shows it."""

import json
import shutil
import threading

import pytest
from browsing import browse_folder, catalog_rows, line
from click.testing import CliRunner
from paths import FIXTURES
from textual.widgets import Input

import tokfmt.tui.catalog as catalogs
from tokfmt import registry
from tokfmt.cli.main import cli
from tokfmt.ops.source.discover import Skipped, datasets_below, holds_others
from tokfmt.ops.source.request import SourceRequest
from tokfmt.tui.catalog import Catalog
from tokfmt.tui.datasets import CatalogList, Datasets
from tokfmt.tui.dialogs import Question
from tokfmt.tui.session import shown_session

PACKS = FIXTURES / "modalities"


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


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


def test_a_dataset_that_opens_below_a_question_does_not_take_its_place(folder, monkeypatch):
    gate = threading.Event()

    def slow(*words):
        gate.wait(60)
        return shown_session(*words)

    monkeypatch.setattr("tokfmt.tui.app.shown_session", slow)

    async def steps(app, press):
        for key in ("enter", "slash", "z"):
            await press.pilot.press(key)
        assert isinstance(app.screen, Question)
        gate.set()
        await press()
        assert app.session.path.name == "a.pbin"
        assert app.screen.query_one(Input).value == "z"
        await press("escape")
        assert len(app.screen_stack) == 1
        await press("d", "escape", "d", "d", "escape")
        assert len(app.screen_stack) == 1

    browse_folder(folder, steps)


def test_files_beside_those_of_a_dataset_are_listed_too(folder):
    """A directory that has a pair of Megatron is a dataset, and the packs in it are others."""
    for suffix in (".bin", ".idx"):
        shutil.copy(FIXTURES / "megatron" / f"gpt2_text_document{suffix}", folder / f"gpt2_text_document{suffix}")

    async def steps(app, press):
        found = catalog_rows(app)
        assert [row[0] for row in found] == [".", "a.pbin", "b/deep/store.zarr", "b/text", "z.pbin"]
        assert [row[1] for row in found[:2]] == ["megatron", "modalities"]

    browse_folder(folder, steps)


def test_enter_opens_a_dataset_and_d_returns(folder):
    async def steps(app, press):
        assert isinstance(app.screen, Datasets)
        await press("escape")
        assert isinstance(app.screen, Datasets)  # nothing is open below it
        await press("down", "enter")
        assert not isinstance(app.screen, Datasets)
        assert app.session.path == folder / "b" / "deep" / "store.zarr"
        await press("d")
        assert app.screen.query_one(CatalogList).cursor == 1
        await press("escape")
        assert app.session.path == folder / "b" / "deep" / "store.zarr"
        await press("g", "1", "enter", "backspace")
        assert not isinstance(app.screen, Datasets)  # back to the place before the jump
        await press("backspace")
        assert isinstance(app.screen, Datasets)
        await press("end", "enter")
        assert app.session.refused is not None
        await press("2")
        assert app.entry.name == "index"  # its bytes are shown

    browse_folder(folder, steps)


def test_a_dataset_has_the_whole_screen_after_one_that_cannot_be_read(folder):
    """Also the first one, which follows the folder itself."""

    async def steps(app, press):
        for key, readable in (("g", True), ("G", False), ("g", True)):
            await press(key, "l")
            assert (app.session.refused is None) == readable
            shown, hidden = app.sequences.list, app.sequences.query_one("#refusal")
            shown, hidden = (shown, hidden) if readable else (hidden, shown)
            assert shown.has_focus
            assert shown.outer_size.height == app.size.height - 2
            assert not hidden.size.height or not hidden.display or not hidden.parent.display
            await press("d")

    browse_folder(folder, steps)


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


def test_a_large_folder_is_read_as_far_as_the_screen_shows(tmp_path, monkeypatch):
    home = tmp_path / "large"
    home.mkdir()
    for k in range(600):
        shutil.copy(PACKS / "D_2byte_gpt2.pbin", home / f"{k:03}.pbin")
    looked, checked = [], []
    look, check = Catalog.look, Catalog.check
    monkeypatch.setattr(Catalog, "look", lambda self, one: (looked.append(one.name), look(self, one)))
    monkeypatch.setattr(Catalog, "check", lambda self, one: (checked.append(one.name), check(self, one)))

    async def steps(app, press):
        shown = app.screen.query_one(CatalogList)
        catalog = shown.catalog
        assert not catalog.whole
        assert "+ datasets" in str(app.screen.query_one("#catalog-title").render())
        assert len(catalog.found) <= 2 * 36 + 100
        assert len(looked) <= 36
        assert len(checked) <= 36
        await press(*["end"] * 12)
        assert catalog.whole
        assert shown.count == 600
        assert len(looked) < 400  # what was scrolled past is not read
        assert catalog_rows(app)[-1][2] == "42"

    browse_folder(home, steps)


def test_the_keys_work_while_a_dataset_is_read(folder, monkeypatch):
    gate, look = threading.Event(), Catalog.look
    monkeypatch.setattr(Catalog, "look", lambda self, one: (gate.wait(20), look(self, one)))

    async def steps(app, press):
        shown = app.screen.query_one(CatalogList)
        while shown.count < 3:
            await press.pilot.pause()
        await press.pilot.press("down", "down")
        await press.pilot.pause()
        assert shown.cursor == 2
        gate.set()
        await press()
        assert catalog_rows(app)[2][2] == "184"

    browse_folder(folder, steps, wait=False)


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


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_columns_fit(folder, width):
    async def steps(app, press):
        shown = app.screen.query_one(CatalogList)
        for y in range(shown.size.height):
            assert len(line(shown, y)) <= shown.size.width
        assert catalog_rows(app)[0][0].startswith("a.pbin")
        assert "✓" in line(shown, 1)

    browse_folder(folder, steps, size=(width, 20))


def test_datasets_are_found_one_after_the_other(folder):
    below = datasets_below(folder, None)
    assert next(below)[0] == folder / "a.pbin"
    found = list(below)
    assert [one.path.name for one in found if isinstance(one, Skipped)] == ["notes.py"]
    assert catalogs.Catalog(SourceRequest((str(folder),)), folder).found == []


def test_the_files_of_one_dataset_are_listed_once(tmp_path):
    for suffix in ("", ".index", ".metadata"):
        shutil.copy(FIXTURES / "datatrove" / f"00000_unshuffled.ds{suffix}", tmp_path / f"w.ds{suffix}")
    for suffix in ("bin", "idx"):  # with these, the folder is no dataset of one format
        shutil.copy(next((FIXTURES / "megatron").rglob(f"books_002*.{suffix}")), tmp_path / f"m.{suffix}")
    assert [one[0].name for one in datasets_below(tmp_path, None)] == ["m.bin", "w.ds"]


def test_a_dataset_with_others_below_it_is_a_catalog(tmp_path):
    shutil.copy(FIXTURES / "text" / "corpus.jsonl", tmp_path)
    place, jsonl = tmp_path, registry.get("jsonl")
    assert not holds_others(place, jsonl)
    (tmp_path / "logs").mkdir()
    (tmp_path / "more").mkdir()
    shutil.copy(FIXTURES / "text" / "corpus.jsonl", tmp_path / "more")
    assert not holds_others(place, jsonl)  # more of the same
    shutil.copytree(FIXTURES / "hdf5" / "padded_eos", tmp_path / "samples")
    assert holds_others(place, jsonl)
    assert [one[0] for one in datasets_below(place, None)] == [place, place / "more", place / "samples"]


def test_a_picture_of_a_folder_and_an_empty_one(folder, tmp_path):
    done = CliRunner().invoke(cli, ["browse", str(folder), "--screenshot", str(tmp_path / "x.svg")])
    assert done.exit_code == 0, done.output
    assert "store.zarr" in (tmp_path / "x.svg").read_text().replace("&#160;", " ")
    (tmp_path / "none").mkdir()
    done = CliRunner().invoke(cli, ["browse", str(tmp_path / "none"), "--screenshot", str(tmp_path / "y.svg")])
    assert "holds no dataset" in str(done.exception)


# the order


def names(app):
    return [row[0] for row in catalog_rows(app)]


async def head(app, press, name):
    """Click the heading of a column."""
    shown = app.screen.query_one(CatalogList)
    text = line(shown, 0)
    await press.pilot.click(shown, offset=(text.index(name) + 1 + shown.styles.padding.left, 0))
    await press()


def test_columns_sort_by_what_is_known(folder):
    async def steps(app, press):
        found = ["a.pbin", "b/deep/store.zarr", "b/text", "z.pbin"]
        assert names(app) == found
        counts = {one.name: one.sequences for one in app.screen._catalog.listed}
        await head(app, press, "sequences")
        known = sorted((name for name in found if counts[name] is not None), key=counts.get, reverse=True)
        assert names(app) == known + [name for name in found if counts[name] is None]
        assert "sequences▼" in line(app.screen.query_one(CatalogList), 0)
        await head(app, press, "sequences")
        assert names(app) == known[::-1] + [name for name in found if counts[name] is None]
        await head(app, press, "health")
        assert names(app)[0] == "z.pbin"  # the damaged one
        await head(app, press, "tokens")
        assert "tokens ▼, 2 known" in app.screen.title_words or "known" in app.screen.title_words
        assert names(app)[-1] in ("b/text", "z.pbin")  # text has no tokens
        await press("vertical_line", "enter")
        assert names(app) == found
        await press("vertical_line", "enter")
        assert names(app) == found[::-1]
        await press("enter")
        assert app.session.path == folder / "z.pbin"

    browse_folder(folder, steps)


def test_an_order_reads_nothing_until_it_is_asked(tmp_path, monkeypatch):
    home = tmp_path / "many"
    home.mkdir()
    kinds = sorted(PACKS.glob("D_*.pbin"))[:3]
    for k in range(150):
        shutil.copy(kinds[k % len(kinds)], home / f"{k:03}.pbin")
    looked = []
    look = Catalog.look
    monkeypatch.setattr(Catalog, "look", lambda self, one: (looked.append(one.name), look(self, one)))

    async def steps(app, press):
        shown, catalog = app.screen.query_one(CatalogList), app.screen._catalog
        seen = [catalog.listed[k].name for k in shown.seen]
        assert set(looked) == set(seen)
        await head(app, press, "size")
        assert set(looked) == set(seen)
        counts = [one.size for one in catalog.listed[: len(seen)]]
        assert counts == sorted(counts, reverse=True)
        assert len(set(counts)) > 1
        assert set(names(app)) == set(seen)
        message = str(list(app._notifications)[-1].message)
        assert f"{len(catalog.listed) - len(seen)} datasets not read yet" in message
        order = [one.name for one in catalog.listed]
        await press("pagedown", "pagedown")
        assert len(looked) > len(seen)
        assert [one.name for one in catalog.listed][: len(order)] == order  # nothing moves while it is read
        await press("r")
        assert len(set(looked)) == 150
        counts = [one.size for one in catalog.listed]
        assert counts == sorted(counts, reverse=True)
        assert catalog.known == 150
        assert not shown.reads_all

    browse_folder(home, steps, size=(120, 20))


def test_reading_all_is_stopped(tmp_path, monkeypatch):
    home = tmp_path / "many"
    home.mkdir()
    for k in range(60):
        shutil.copy(PACKS / "D_2byte_gpt2.pbin", home / f"{k:03}.pbin")
    gate, looked = threading.Event(), []
    look = Catalog.look

    def slowly(self, one):
        looked.append(one.name)
        if len(looked) > 40:
            gate.wait(30)
        look(self, one)

    monkeypatch.setattr(Catalog, "look", slowly)

    async def steps(app, press):
        shown = app.screen.query_one(CatalogList)
        await press.pilot.press("r")
        for _ in range(3000):
            if len(looked) > 40:
                break
            await press.pilot.pause(0.01)
        assert "r stops" in app.screen.title_words
        await press.pilot.press("r")
        gate.set()
        await press()
        assert len(looked) == 41
        assert not shown.reads_all

    browse_folder(home, steps, size=(120, 20))
