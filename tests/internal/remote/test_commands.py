"""Commands on datasets in a bucket: what they print and write is what they print and write of local files."""

import json
import re
import shutil
from functools import partial

import numpy as np
import pytest
from click.testing import CliRunner
from paths import FIXTURES, ROOT
from remote.conftest import forget

import tokfmt
from tokfmt.cli import main
from tokfmt.cli.main import cli
from tokfmt.core.format import Hints
from tokfmt.errors import SourceChangedError, StoreWarning
from tokfmt.files.listing import Listing
from tokfmt.files.place import Url, close_stores
from tokfmt.formats import llmc
from tokfmt.stores import account
from tokfmt.stores.ranges import BLOCKS

PACK = "modalities/D_2byte_gpt2.pbin"
DATASETS = [
    PACK, "megatron/gpt2_text_document", "stage1/blocks", "nanogpt/openwebtext", "olmo/part-0-00000.npy", "parquet/int32.parquet",
    "parquet/save_to_disk", "litdata/numpy_uint16", "mds/ndarray_uint32_zstd", "datatrove/00000_unshuffled.ds", "levanter/cache_uint32", "llmc/edu_fineweb_train_000001.bin",
    "flat-tokens/chunk_aligned.zarr",
]  # fmt: skip


@pytest.fixture(autouse=True)
def fresh(server):
    """Nothing is kept of another server."""
    close_stores()
    yield
    close_stores()


@pytest.fixture(params=DATASETS)
def dataset(request, bucket):
    """A dataset in the bucket and the same one in the fixtures: its name below either."""
    name = request.param
    shutil.copytree(FIXTURES / name.partition("/")[0], bucket / name.partition("/")[0])
    return name


@pytest.fixture(scope="module")
def hundred_thousand(tmp_path_factory):
    """A directory with the same 100,000 documents in several formats, and one of them."""
    home = tmp_path_factory.mktemp("many")
    ids = np.random.default_rng(0).integers(0, 50000, (100_000, 12), np.int32)
    ids[:, -1] = 50256
    ids.tofile(home / "block.bin")
    for name, how in SHOWN.items():
        tokfmt.convert(home / "block.bin", home / name, format="stage1", eos=50256, to_format=how)
    return home


SHOWN = {
    "many.pbin": "modalities",
    "many_text_document.bin": "megatron",
    "many.ds": "datatrove",
    "many.parquet": "parquet",
    "many.zarr": "flat-tokens",
}
SHOW = ["--ids", "--json", "--quiet"]


def shown(name, number):
    done = CliRunner().invoke(cli, ["show", str(name), str(number), *SHOW])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["shown"]


COSTS = re.findall(
    r"^\| `(many[\w.]+)`.*? \| (\d+) \| ([\d.]+) MB \| (\d+) \|$", (ROOT / "docs/remote.md").read_text(), re.MULTILINE
)


@pytest.mark.parametrize(("name", "requests", "megabytes", "again"), COSTS, ids=[row[0] for row in COSTS])
def test_what_show_costs(server, bucket, hundred_thousand, name, requests, megabytes, again):
    """The table of docs/remote.md: it takes no more, and nearly as much."""
    shutil.copytree(hundred_thousand, bucket, dirs_exist_ok=True)
    shown(f"s3://bkt/{name}", 54321)
    read, asked = account.so_far().read, [(one.method, one.key, one.start) for one in server.seen]
    assert int(requests) - 2 <= len(asked) <= int(requests), asked
    assert 0.5 * float(megabytes) - 0.1 <= read / 1e6 <= float(megabytes) + 0.05, read
    forget()
    del server.seen[:]
    shown(f"s3://bkt/{name}", 54321)
    assert len(server.seen) <= int(again), [(one.method, one.key, one.start) for one in server.seen]


def test_an_object_that_changes(bucket, monkeypatch):
    monkeypatch.setenv("TOKFMT_CACHE_SIZE", "0")
    shutil.copytree(FIXTURES / "modalities", bucket / "modalities")
    dataset = tokfmt.open(f"s3://bkt/{PACK}")
    content = bytearray((bucket / PACK).read_bytes())
    content[20] ^= 1
    (bucket / PACK).write_bytes(content)
    BLOCKS.clear()
    with pytest.raises(SourceChangedError, match=f"^s3://bkt/{PACK}: changed while it was being read"):
        dataset[0]


def test_a_wait_for_a_store_is_reported(server, bucket, monkeypatch, capsys):
    shutil.copytree(FIXTURES / "modalities", bucket / "modalities")
    monkeypatch.setattr(account, "SLOW", 0.05)
    monkeypatch.setattr(account, "_WARNED", [-account._AGAIN])
    server.delay = 0.15
    with pytest.warns(StoreWarning, match="^bkt answers slowly: waiting 0 s$") as told:
        assert tokfmt.stats(f"s3://bkt/{PACK}").datasets[0].sequences == 42
    assert len(told) == 1, "several waits within seconds are reported once"
    show = partial(main._show_warning, told[0].message, StoreWarning, "", 0)
    show(quiet=True)
    assert not capsys.readouterr().err
    show()
    assert capsys.readouterr().err == "note: bkt answers slowly: waiting 0 s\n"


@pytest.fixture
def forty_shards(tmp_path):
    """Forty files of llm.c with 50,000 tokens each, in a folder."""
    ids = np.random.default_rng(0).integers(0, 50000, (200, 10_000), np.int32)
    ids[:, -1] = 50256
    ids.tofile(tmp_path / "block.bin")
    how = {
        "format": "stage1",
        "eos": 50256,
        "to_format": "llmc",
        "to_options": {"shard_size": 50_000},
        "manifest": False,
    }
    tokfmt.convert(tmp_path / "block.bin", tmp_path / "shards", **how)
    return tmp_path / "shards"


def test_files_of_a_folder_are_opened_side_by_side(server, bucket, forty_shards):
    shutil.copytree(forty_shards, bucket / "shards")
    server.delay = 0.05
    with Listing() as listing:
        file_layout = llmc.FORMAT.examine([Url.parse("s3://bkt/shards").asking(listing)], llmc.ReadOptions(), Hints())
    assert len(file_layout.extents) == 40
    assert len(server.bodies()) <= 42 and server.rounds <= 10, (server.rounds, len(server.bodies()))
