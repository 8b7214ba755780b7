"""The catalog of a folder of datasets: found, read and checked as far as the screen shows it."""

import shutil
import threading

import pytest
from browsing import browse_folder, catalog_rows, line
from paths import FIXTURES
from textual.widgets import Input

import tokfmt.browser.data.catalog as catalogs
from tokfmt import registry
from tokfmt.browser.data.catalog import Catalog
from tokfmt.browser.data.session import shown_session
from tokfmt.browser.datasets import CatalogList, Datasets
from tokfmt.browser.dialogs import Question
from tokfmt.source.discover import Skipped, datasets_below, holds_others
from tokfmt.source.request import SourceRequest

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


def test_a_dataset_that_opens_below_a_question_does_not_take_its_place(folder, monkeypatch):
    gate = threading.Event()

    def slow(*words):
        gate.wait(60)
        return shown_session(*words)

    monkeypatch.setattr("tokfmt.browser.app.shown_session", slow)

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
        assert app.session.opened.damage  # a cut pack, whose tokens are shown
        await press("4")
        assert app.entry.name == "index"  # its bytes are shown

    browse_folder(folder, steps)


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
