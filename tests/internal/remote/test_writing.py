"""Conversions to a bucket: the bytes of a local conversion, complete or absent, whatever fails at whatever step."""

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import forkserver
import numpy as np
import pytest
from paths import FIXTURES, ROOT

import tokfmt
from tokfmt.errors import ConversionError, OptionError, OutageError
from tokfmt.files.claims import SCHEMA, Claim, read_claim
from tokfmt.files.place import Url, close_stores, writable_store
from tokfmt.stores import requests

PACK = FIXTURES / "modalities/D_2byte_gpt2.pbin"
EOS = 50256
FORMATS = {
    "out.pbin": {},
    "out.zarr": {"to_options": {"chunk": 256}},
    "v3.zarr": {"to_options": {"zarr_format": 3, "chunk": 512}},
    "out_document.bin": {"to_format": "megatron"},
    "shards": {"to_format": "megatron", "to_options": {"shard_size": 500}},
    "out.parquet": {},
    "parts": {"to_format": "parquet", "to_options": {"shard_size": 600}},
    "saved": {"to_format": "arrow"},
    "mds": {"to_format": "mds", "to_options": {"shard_size": 600}},
    "litdata": {"to_format": "litdata", "to_options": {"shard_size": 600}},
    "out.ds": {},
    "olmo": {"to_format": "olmo", "to_options": {"shard_size": 600}},
    "llmc": {"to_format": "llmc", "to_options": {"shard_size": 600}},
    "train.bin": {"to_format": "nanogpt"},
    "stage1": {"to_format": "stage1"},
    "samples.h5": {"seq_len": 128},
    "ids.jsonl": {},
    "ids.jsonl.gz": {},
}


@pytest.fixture(autouse=True)
def fresh(server, tmp_path, monkeypatch):
    """Nothing is kept of another server, and spools are of the test."""
    (tmp_path / "spool").mkdir()
    monkeypatch.setenv("TOKFMT_SPOOL", str(tmp_path / "spool"))
    close_stores()
    yield
    close_stores()


@pytest.fixture
def spool(tmp_path):
    return tmp_path / "spool"


def tree(place):
    """The bytes of all files at or below a path, by their names."""
    files = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    return {path.relative_to(place.parent).as_posix(): path.read_bytes() for path in files}


def everything(bucket):
    return {path.relative_to(bucket).as_posix(): path.read_bytes() for path in bucket.rglob("*") if path.is_file()}


def manifest_of(path):
    return json.loads(path.with_name(f"{path.name}.tokfmt.json").read_bytes())


@pytest.mark.parametrize("name", FORMATS)
def test_a_bucket_gets_the_bytes_of_a_local_conversion(server, bucket, tmp_path, spool, name):
    how = {"eos": EOS, "allow_loss": ["empty-sequences", "embedded-separators"], **FORMATS[name]}
    done = tokfmt.convert(PACK, f"s3://bkt/a/{name}", **how)
    local = tokfmt.convert(PACK, tmp_path / name, **how)
    assert (done.destination, done.sequences) == (f"s3://bkt/a/{name}", local.sequences)
    written, wanted = everything(bucket), {}
    for path in tmp_path.glob(f"{name.removesuffix('.bin')}*"):
        wanted |= tree(path)
    texts = [text.pop(f"{at}{name}.tokfmt.json") for text, at in ((written, "a/"), (wanted, ""))]
    assert {key.removeprefix("a/"): content for key, content in written.items()} == wanted
    stored, there = map(json.loads, texts)
    listed = stored["output"].pop("objects")
    assert [one["key"] for one in listed] == sorted(written)
    store = writable_store(Url.parse("s3://bkt/x"))
    assert all(one["etag"] == store.identity(one["key"]).tag for one in listed)
    assert sum(one["bytes"] for one in listed) == stored["output"]["bytes"]
    for about in (stored, there):
        about.pop("splits"), about.pop("sources")
    assert stored == there
    assert not any(spool.iterdir()) and not server.parts


def order(server):
    """The keys that were written. The first one with a condition is asked for twice, to see that the server knows it."""
    keys = [one.key.removeprefix("bkt/") for one in server.seen if one.method in ("PUT", "COMPLETE")]
    return [key for key, _ in itertools.groupby(keys)]


def test_a_claim_that_is_replaced_between_two_looks(server):
    """It is read once more, and not reported as a source that changed."""
    url = Url.parse("s3://bkt/out.pbin")
    store = writable_store(url)
    first, second = (Claim(store, url, "ours", "pbin") for _ in range(2))
    first.take(overwrite=False, note=pytest.fail)
    server.faults["bkt/out.pbin.tokfmt-writing"] = ["changed"] * 2
    second.take(overwrite=False, note=pytest.fail)
    assert second.taken and read_claim(store, url).run == "ours"
    assert not server.faults["bkt/out.pbin.tokfmt-writing"]


def numbered(numbers):
    """The claim of one of several processes."""
    return json.dumps({"schema": SCHEMA, "run": "ours", "pid": next(numbers)}).encode()


def test_many_tasks_of_one_run_claim_at_the_same_time(server, monkeypatch):
    """The first one writes the claim, and the others read it, however many there are."""
    url = Url.parse("s3://bkt/out.pbin")
    store = writable_store(url)
    server.delay = 0.02
    monkeypatch.setattr(Claim, "_content", partial(numbered, itertools.count(1000)))
    tasks = [Claim(store, url, "ours", "pbin") for _ in range(40)]
    with ThreadPoolExecutor(len(tasks)) as threads:
        list(threads.map(lambda one: one.take(overwrite=False, note=pytest.fail), tasks))
    assert all(one.taken for one in tasks)
    assert all(one.headers.get("if-none-match") == "*" for one in server.seen if one.method == "PUT")
    assert read_claim(store, url).run == "ours"


MDS = {"to_format": "mds", "eos": EOS, "to_options": {"shard_size": 600}}


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """The same dataset, converted locally."""
    place = tmp_path_factory.mktemp("local") / "m"
    tokfmt.convert(PACK, place, **MDS)
    return tree(place)


def run(*words, **environment):
    words = [sys.executable, "-m", "tokfmt", *map(str, words)]
    env = {**os.environ, **environment}
    return forkserver.Popen(words, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


WORDS = ["convert", PACK, "s3://bkt/m", "--to", "mds", "--eos", EOS, "--to-opt", "shard_size=600"]


def test_a_full_spool(bucket, tmp_path, monkeypatch):
    from tokfmt.commands import guards as space

    monkeypatch.setattr(space, "free_bytes", lambda _: 100)
    with pytest.raises(
        OutageError, match=r"^s3://bkt/m.pbin: needs at least .* in the spool .* has 100 bytes free"
    ) as caught:
        tokfmt.convert(PACK, "s3://bkt/m.pbin")
    assert "--spool DIR" in str(caught.value) and not everything(bucket)
    with pytest.raises(OutageError, match="cannot be written: the directory it should go to does not exist"):
        tokfmt.convert(PACK, "s3://bkt/m", spool=tmp_path / "none", **MDS)


def test_ctrl_c_while_a_server_stalls(server, bucket, spool, monkeypatch):
    monkeypatch.setattr(requests, "_PATIENCE", 5)
    server.forever["PUT bkt/m/shard.00000.mds"] = "stalled"
    process = run(*WORDS)
    while not any(one.key.endswith("shard.00000.mds") for one in server.seen):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in error
    assert time.monotonic() - began < 20
    assert not [name for name in everything(bucket) if name.endswith("json")] and not any(spool.iterdir())


STREAMED = {
    "out.zarr": {"chunk": 4096},
    "parts": {"shard_size": 20_000},
    "saved": {"shard_size": 20_000},
    "mds": {"shard_size": 20_000},
    "litdata": {"shard_size": 20_000, "compression": "zstd"},
    "olmo": {"shard_size": 20_000},
    "shards": {"shard_size": 20_000},
    "llmc": {"shard_size": 20_000},
}
NAMES = {"parts": "parquet", "saved": "arrow", "shards": "megatron", "out.zarr": "flat-tokens"}


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """400,000 tokens in 4,000 documents."""
    lines = np.random.default_rng(0).integers(0, 50_000, (4000, 100))
    source = tmp_path_factory.mktemp("large") / "large.jsonl"
    source.write_text("".join(json.dumps({"input_ids": line.tolist()}) + "\n" for line in lines))
    tokfmt.convert(source, source.with_name("large.pbin"), eos=EOS)
    return source.with_name("large.pbin")


def taken(place):
    """Bytes on the disk below a directory."""
    found = 0
    for base, _, names in os.walk(place):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                found += os.lstat(os.path.join(base, name)).st_blocks * 512
    return found


def small_regions(monkeypatch):
    from tokfmt.commands.convert import write

    monkeypatch.setattr(write, "region_size", lambda request, axis: 10_000)
    monkeypatch.setattr("tokfmt.formats.arrow.writer.GROUP", 10_000)


@pytest.mark.parametrize("name", STREAMED)
def test_files_are_uploaded_as_they_are_complete(server, bucket, tmp_path, spool, large, monkeypatch, name):
    """The spool holds a few of them, whatever the size of the result."""
    how = {"to_format": NAMES.get(name, name), "eos": EOS, "to_options": STREAMED[name], "executor": "serial"}
    small_regions(monkeypatch)
    tokfmt.convert(large, tmp_path / name, **how)
    wanted, peak = tree(tmp_path / name), [0]
    server.before = lambda method, key: peak.append(max(peak[-1], taken(spool)))
    tokfmt.convert(large, f"s3://bkt/{name}", **how)
    assert tree(bucket / name) == wanted
    assert manifest_of(bucket / name)["output"]["xxh3_128"] == manifest_of(tmp_path / name)["output"]["xxh3_128"]
    size = sum(map(len, wanted.values()))
    assert peak[-1] < size / 3, (peak[-1], size)


@pytest.mark.parametrize("name", ["mds", "parts", "out.zarr"])
def test_a_run_that_uploads_early_is_continued(server, bucket, tmp_path, spool, large, monkeypatch, name):
    how = {"to_format": NAMES.get(name, name), "eos": EOS, "to_options": STREAMED[name], "executor": "serial"}
    small_regions(monkeypatch)
    tokfmt.convert(large, tmp_path / name, **how)
    wanted = tree(tmp_path / name)
    for resume in (False, True):
        for stop in (3, 8, 15):
            left = [stop]

            def before(method, key, left=left):
                left[0] -= method == "PUT"
                if method == "PUT" and not left[0]:
                    server.forever[f"{method} {key}"] = "400"

            server.before = before
            with pytest.raises(OutageError):
                tokfmt.convert(large, f"s3://bkt/{name}", resume=resume, **how)
            server.forever.clear()
            server.before = lambda *_: None
            assert resume or not everything(bucket)
    del server.seen[:]
    there = set(everything(bucket))
    tokfmt.convert(large, f"s3://bkt/{name}", resume=True, **how)
    assert tree(bucket / name) == wanted and not any(spool.iterdir())
    assert not {key for key in order(server) if key in there} - {f"{name}.tokfmt-writing"}, "nothing is uploaded twice"


def test_an_early_object_that_changes_is_not_published(server, bucket, large, monkeypatch):
    small_regions(monkeypatch)
    monkeypatch.setattr("tokfmt.files.store_publisher._UNSYNCED", 0)
    how = {"to_format": "mds", "eos": EOS, "to_options": STREAMED["mds"], "resume": True}
    server.forever["PUT bkt/mds/index.json"] = "400"
    with pytest.raises(OutageError):
        tokfmt.convert(large, "s3://bkt/mds", **how)
    server.forever.clear()
    (bucket / "mds/shard.00003.mds").write_bytes(b"foreign")
    with pytest.raises(ConversionError, match="uploaded has changed or is gone"):
        tokfmt.convert(large, "s3://bkt/mds", **how)
    with pytest.raises(ConversionError, match="--verify cannot read them back"):
        tokfmt.convert(large, "s3://bkt/mds", verify=True, **how)
    assert not (bucket / "mds/index.json").exists()


@pytest.mark.parametrize("name", ["mds", "parts", "out.zarr", "olmo"])
def test_tasks_share_only_the_bucket(server, bucket, tmp_path, large, monkeypatch, name):
    """Each runs as on a machine of its own: another spool and another directory, and the source in the bucket."""
    small_regions(monkeypatch)
    monkeypatch.delenv("TOKFMT_SPOOL")
    shutil.copy(large, bucket / "large.pbin")
    how = {"to_format": NAMES.get(name, name), "eos": EOS, "to_options": STREAMED[name], "executor": "serial"}
    tokfmt.convert(large, tmp_path / name, **how)
    from tokfmt.commands.convert.convert import finish

    def on(machine):
        place = tmp_path / f"machine{machine}"
        place.mkdir(exist_ok=True)
        monkeypatch.chdir(place)
        monkeypatch.setattr("tempfile.tempdir", str(place))

    for task in (2, 0):
        on(task)
        tokfmt.convert("s3://bkt/large.pbin", f"s3://bkt/{name}", task=(task, 3), **how)
    on(3)
    with pytest.raises(ConversionError, match=f"s3://bkt/{name}: task 1 of 3 is missing"):
        finish(f"s3://bkt/{name}")
    on(1)
    with pytest.raises(ConversionError, match="another tokfmt is writing it|already exists"):
        tokfmt.convert("s3://bkt/large.pbin", f"s3://bkt/{name}", **how)
    with pytest.raises(ConversionError, match="tasks of another request have begun to write it"):
        tokfmt.convert("s3://bkt/large.pbin", f"s3://bkt/{name}", task=(1, 4), **how)
    shutil.rmtree(tmp_path / "machine1")
    on(1)
    tokfmt.convert("s3://bkt/large.pbin", f"s3://bkt/{name}", task=(1, 3), **how)
    on(4)
    del server.seen[:]
    finish(f"s3://bkt/{name}")
    assert tree(bucket / name) == tree(tmp_path / name)
    assert manifest_of(bucket / name)["output"]["xxh3_128"] == manifest_of(tmp_path / name)["output"]["xxh3_128"]
    assert sorted(key.partition("/")[0] for key in everything(bucket) if not key.startswith(f"{name}/")) == [
        *sorted(["large.pbin", f"{name}.tokfmt.json"])
    ]
    assert len(order(server)) < len(tree(bucket / name)), "the data objects are those of the tasks"


def test_tasks_that_need_a_common_directory(server, bucket, large, monkeypatch):
    monkeypatch.delenv("TOKFMT_SPOOL")
    dask = {"executor": "dask:tcp://127.0.0.1:1"}
    with pytest.raises(
        OptionError, match="needs a directory that all tasks see, because its workers write to the spool"
    ):
        tokfmt.convert(PACK, "s3://bkt/m", verify=True, **dask, **MDS)
    with tokfmt.open(PACK) as opened, pytest.raises(OptionError, match="because its workers write to the spool"):
        opened.save("s3://bkt/m", **dask, **{key: value for key, value in MDS.items() if key != "eos"})
    with pytest.raises(ConversionError, match="no scheduler answers"):
        tokfmt.convert(PACK, "s3://bkt/m", **dask, **MDS)
    with pytest.raises(
        OptionError, match="--executor dask:ADDRESS needs a directory .* each writes a part of one file"
    ):
        tokfmt.convert(large, "s3://bkt/out.pbin", **dask, eos=EOS)
