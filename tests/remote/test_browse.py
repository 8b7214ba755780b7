"""The browser on a bucket: the screens of local files, and a screen that goes on while the server does not answer."""

import shutil
import time

import numpy as np
import pytest
from amount import FUZZ_ONLY
from browsing import browse, browse_folder, catalog_rows, reader_text, tab_of
from click.testing import CliRunner
from paths import FIXTURES
from remote.conftest import forget

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import TokfmtError

NAMES = ["modalities/D_2byte_gpt2.pbin", "stage1/blocks", "flat-tokens/multi_chunk.zarr", "hdf5/padded_eos", "jsonl/corpus.jsonl"]  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    for variable in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / "home"))


@pytest.fixture
def dataset(request, fresh, bucket):
    """A dataset in the bucket and in the fixtures."""
    name = request.param
    shutil.copytree(FIXTURES / name.partition("/")[0], bucket / name.partition("/")[0])
    return f"s3://bkt/{name}", FIXTURES / name


def screens(path, keys):
    """What the reader shows after each key."""
    found = []

    async def steps(app, press):
        found.append(reader_text(app))
        for key in keys:
            await press(key)
            found.append(reader_text(app))

    browse([path], steps)
    return found


@FUZZ_ONLY
@pytest.mark.parametrize("dataset", NAMES, indirect=True)
def test_the_screens_are_those_of_local_files(dataset):
    keys = ("down", "end", "2", "3", "1", "home")
    assert screens(dataset[0], keys) == screens(dataset[1], keys)


@FUZZ_ONLY
def test_a_bucket_of_datasets_is_a_catalog(fresh, bucket):
    for name in ("modalities", "stage1"):
        shutil.copytree(FIXTURES / name, bucket / "data" / name)

    def listed(folder):
        found = []

        async def steps(app, press):
            found.extend(catalog_rows(app))
            await press(*["down"] * 3, "enter")
            found.append(str(app.session.path).rpartition("/")[2])
            await press("d")
            assert catalog_rows(app)[3] == found[3]

        browse_folder(folder, steps, size=(120, 16))
        return found

    assert listed("s3://bkt/data") == listed(bucket / "data")


def test_an_address_that_is_not_there(fresh, bucket):
    done = CliRunner().invoke(cli, ["browse", "s3://bkt/gone.pbin"])
    assert isinstance(done.exception, TokfmtError)
    assert str(done.exception) == "s3://bkt/gone.pbin: no such file"


@pytest.mark.parametrize("dataset", NAMES[:1], indirect=True)
def test_the_first_line_counts_what_was_fetched(dataset, fresh):
    async def steps(app, press):
        await press("down")
        app.say()
        assert f"{len(fresh.seen)} requests" in str(app.query_one("#loading").content)

    browse(dataset[:1], steps)


def test_a_catalog_asks_for_the_objects_of_its_screen_and_of_a_page(fresh, bucket):
    """What is further down is asked for when the list is scrolled to it."""
    (bucket / "data").mkdir()
    for k in range(60):
        shutil.copy(FIXTURES / "modalities" / "D_2byte_gpt2.pbin", bucket / "data" / f"{k:02}.pbin")

    def asked():
        return {request.key for request in fresh.bodies() if request.key.endswith(".pbin")}

    async def steps(app, press):
        shown = app.screen.query_one("CatalogList")
        assert catalog_rows(app)[0][0] == "00.pbin"
        assert len(asked()) == shown.count == 2 * shown.height < 30
        assert len({request.key for request in fresh.bodies() if request.start}) <= shown.height
        await press("end")
        assert len(asked()) == shown.count == 3 * shown.height

    browse_folder("s3://bkt/data", steps, size=(120, 16))


def test_keys_are_handled_while_a_store_does_not_answer(fresh, bucket, tmp_path, monkeypatch):
    """The cursor moves, the tab changes, Esc leaves the read alone, and the browser ends: none waits for the read."""
    ids = np.tile(np.arange(1, 1001, dtype="<u2"), 4000)
    ids[999::1000] = 0
    ids.tofile(tmp_path / "train.bin")
    tokfmt.convert(tmp_path / "train.bin", bucket / "long.pbin", format="nanogpt", eos=0)
    key = "bkt/long.pbin"

    async def steps(app, press):
        forget()
        before = len(fresh.bodies(key))
        fresh.faults[key] = ["stalled body"] * 50
        for name in ("end", "up", "up"):
            await press.pilot.press(name)
        until = time.monotonic() + 30
        while len(fresh.bodies(key)) == before and time.monotonic() < until:
            await press.pilot.pause(0.01)
        assert len(fresh.bodies(key)) > before
        await press.pilot.press("home")
        await press.pilot.press("escape")
        fresh.faults[key] = []
        await press("end")
        assert tab_of(app).reader.row == 3999
        assert reader_text(app).strip(), "another thread reads, while the first still waits"

    browse(["s3://bkt/long.pbin"], steps)
    assert not fresh.let_go.is_set(), "the browser ended while a read waited"
