"""Conversions to a bucket: the bytes of a local conversion, complete or absent, whatever fails at whatever step."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import forkserver
import pytest
from paths import FIXTURES, ROOT
from remote.conftest import everything, tree, when

import tokfmt
from tokfmt.errors import ConversionError
from tokfmt.files.claims import SCHEMA, Claim, read_claim
from tokfmt.plugin import Url

PACK = FIXTURES / "modalities/D_2byte_gpt2.pbin"
EOS = 50256
pytestmark = pytest.mark.usefixtures("spool")


def claim(bucket, name, **stated):
    facts = {"schema": SCHEMA, "run": "other", "host": "node7", "pid": 4711, "since": "2026-11-25 12:03 UTC"}
    (bucket / f"{name}.tokfmt-writing").write_text(json.dumps({**facts, **stated}))


def test_a_claim_of_another_run(bucket):
    claim(bucket, "out.pbin")
    words = r"^s3://bkt/out.pbin: another tokfmt is writing it \(process 4711 on node7, since 2026-11-25 12:03 UTC\)"
    for how in ({}, {"resume": True}):
        with pytest.raises(ConversionError, match=words) as caught:
            tokfmt.convert(PACK, "s3://bkt/out.pbin", **how)
        assert caught.value.exit_code == 4
    tokfmt.convert(PACK, "s3://bkt/out.pbin", overwrite=True)
    assert sorted(everything(bucket)) == ["out.pbin", "out.pbin.tokfmt.json"]
    (bucket / "out.pbin.tokfmt-writing").write_text("not ours")
    with pytest.raises(ConversionError, match="has the name of a claim, and is not one"):
        tokfmt.convert(PACK, "s3://bkt/out.pbin", overwrite=True)


def test_a_killed_run_is_started_over(bucket, tmp_path):
    """Its data lie there without what makes them readable; the claim says of which format they are."""
    tokfmt.convert(PACK, "s3://bkt/out.zarr", eos=EOS, to_options={"chunk": 100})
    for path in (bucket / "out.zarr").rglob(".z*"):
        path.unlink()
    (bucket / "out.zarr.tokfmt.json").unlink()
    claim(bucket, "out.zarr", format="flat-tokens")
    tokfmt.convert(PACK, "s3://bkt/out.zarr", eos=EOS, to_options={"chunk": 1000}, overwrite=True)
    tokfmt.convert(PACK, tmp_path / "out.zarr", eos=EOS, to_options={"chunk": 1000})
    assert tree(bucket / "out.zarr") == tree(tmp_path / "out.zarr")


def test_a_run_that_lost_its_claim_publishes_nothing(server, bucket):
    when(server, "PUT", "mds/shard.00000.mds", lambda: claim(bucket, "mds"))
    with pytest.raises(ConversionError, match=r"the claim of this run is now of process 4711 on node7"):
        tokfmt.convert(PACK, "s3://bkt/mds", to_format="mds", eos=EOS)
    assert list(everything(bucket)) == ["mds.tokfmt-writing"], "the claim of the other, and nothing of ours"


def test_a_claim_that_is_replaced_between_two_looks(server, store):
    """It is read once more, and not reported as a source that changed."""
    url = Url.parse("s3://bkt/out.pbin")
    first, second = (Claim(store, url, "ours", "pbin") for _ in range(2))
    first.take(overwrite=False, note=pytest.fail)
    server.faults["bkt/out.pbin.tokfmt-writing"] = ["changed"] * 2
    second.take(overwrite=False, note=pytest.fail)
    assert second.taken and read_claim(store, url).run == "ours"
    assert not server.faults["bkt/out.pbin.tokfmt-writing"]


def test_many_tasks_of_one_run_claim_at_the_same_time(server, store):
    """The first one writes the claim, and the others read it, however many there are."""
    url = Url.parse("s3://bkt/out.pbin")
    server.delay = 0.02
    tasks = [Claim(store, url, "ours", "pbin") for _ in range(40)]
    with ThreadPoolExecutor(len(tasks)) as threads:
        list(threads.map(lambda one: one.take(overwrite=False, note=pytest.fail), tasks))
    assert all(one.taken for one in tasks)
    assert all(one.headers.get("if-none-match") == "*" for one in server.seen if one.method == "PUT")
    assert read_claim(store, url).run == "ours"


def run(*words, **environment):
    words = [sys.executable, "-m", "tokfmt", *map(str, words)]
    env = {**os.environ, **environment}
    return forkserver.Popen(words, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
