"""The browser on a bucket: the screens of local files, and a screen that goes on while the server does not answer."""

import shutil

import pytest
from amount import FUZZ_ONLY
from browsing import browse, browse_folder, catalog_rows, reader_text
from click.testing import CliRunner
from paths import FIXTURES

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
