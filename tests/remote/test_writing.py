"""Conversions to a bucket: the bytes of a local conversion, complete or absent, whatever fails at whatever step."""

import itertools
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import forkserver
import numpy as np
import pytest
from amount import FUZZ_ONLY, only, pairs
from click.testing import CliRunner
from paths import CORPUS, FIXTURES, ROOT, TOKENIZER
from remote.conftest import everything, tree, when, within
from stores import close_stores
from xxhash import xxh3_128_hexdigest

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import ConversionError, DestinationExistsError, OptionError, OutageError, TokfmtError

PACK = FIXTURES / "modalities/D_2byte_gpt2.pbin"
EOS = 50256
pytestmark = pytest.mark.usefixtures("spool")


def manifest_of(path):
    return json.loads(path.with_name(f"{path.name}.tokfmt.json").read_bytes())


def order(server):
    """The keys that were written. The first one with a condition is asked for twice, to see that the server knows it."""
    keys = [one.key.removeprefix("bkt/") for one in server.seen if one.method in ("PUT", "COMPLETE")]
    return [key for key, _ in itertools.groupby(keys)]


def test_entries_follow_the_data_and_the_manifest_is_last(server, bucket):
    tokfmt.convert(PACK, "s3://bkt/out_document", to_format="megatron", eos=EOS)
    tokfmt.convert(PACK, "s3://bkt/mds", to_format="mds", eos=EOS, to_options={"shard_size": 600})
    first, second = order(server)[:4], order(server)[4:]
    assert first == [f"out_document.{name}" for name in ("bin.tokfmt-writing", "bin", "idx", "bin.tokfmt.json")]
    assert second[0] == "mds.tokfmt-writing" and second[-2:] == ["mds/index.json", "mds.tokfmt.json"]
    puts = [one for one in server.seen if one.method == "PUT" and not one.key.endswith(".mds")]
    assert all(one.headers["if-none-match"] == "*" for one in puts), "no other writer is overwritten"


def test_a_local_file_of_that_name_is_no_bucket(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:/bkt").mkdir(parents=True)
    with pytest.raises(OptionError, match="a Path cannot hold an address"):
        tokfmt.convert(PACK, tmp_path.__class__("s3://bkt/out.pbin"))
    tokfmt.convert(PACK, "s3://bkt/out.pbin")
    assert not any((tmp_path / "s3:/bkt").iterdir())


@pytest.mark.parametrize(
    ("address", "error", "words"),
    [
        ("https://host/out.pbin?sig=planted", OptionError, "https://host/out.pbin: the scheme https is not written"),
        ("hf://datasets/a/out.pbin", OptionError, "run hf upload"),
        ("s3://bkt", OptionError, "s3://bkt: is a whole bucket"),
        ("s3://nobody/out.pbin", TokfmtError, "bucket nobody does not exist"),
        ("s3://bkt/a//out.pbin", OptionError, "an empty part in a key"),
    ],
)
def test_destinations_that_are_refused(server, bucket, address, error, words):
    with pytest.raises(error) as caught:
        tokfmt.convert(PACK, address, to_format="modalities")
    assert words in str(caught.value) and "planted" not in f"{caught.value!r}"
    assert not everything(bucket)


def test_a_destination_that_exists_is_refused_before_any_work(server, bucket, spool):
    (bucket / "out.pbin").write_bytes(b"here")
    (bucket / "two.zarr").mkdir()
    (bucket / "two.zarr/x").write_bytes(b"here")
    (bucket / "pair_document.idx").write_bytes(b"here")
    for name, at in (("out.pbin", "out.pbin"), ("two.zarr", "two.zarr"), ("pair_document.bin", "pair_document.idx")):
        with pytest.raises(DestinationExistsError, match=f"^s3://bkt/{at}: already exists. --overwrite") as caught:
            tokfmt.convert(PACK, f"s3://bkt/{name}", eos=EOS)
        assert caught.value.exit_code == 4
    with pytest.raises(ConversionError, match="holds x, which belongs to no dataset there"):
        tokfmt.convert(PACK, "s3://bkt/two.zarr", eos=EOS, overwrite=True)
    assert not [one for one in server.seen if one.method in ("PUT", "DELETE")] and not any(spool.iterdir())


def test_a_source_is_not_overwritten(bucket):
    shutil.copy(PACK, bucket / "x.pbin")
    shutil.copytree(FIXTURES / "mds/ndarray_uint32_zstd", bucket / "mds")
    with pytest.raises(ConversionError, match="^s3://bkt/x.pbin: is also a source"):
        tokfmt.convert("s3://bkt/x.pbin", "s3://bkt/x.pbin", overwrite=True)
    with pytest.raises(ConversionError, match="^s3://bkt/mds/x.pbin: is below s3://bkt/mds, which is a source"):
        tokfmt.convert("s3://bkt/mds", "s3://bkt/mds/x.pbin", overwrite=True)


def test_overwrite_replaces_only_the_old_dataset(server, bucket, tmp_path):
    how = {"eos": EOS, "overwrite": True}
    tokfmt.convert(PACK, "s3://bkt/out.zarr", to_options={"chunk": 100}, **how)
    before = set(everything(bucket))
    (bucket / "out.zarr.notes").write_bytes(b"mine")
    del server.seen[:]
    tokfmt.convert(PACK, "s3://bkt/out.zarr", to_options={"chunk": 1000}, **how)
    tokfmt.convert(PACK, tmp_path / "out.zarr", eos=EOS, to_options={"chunk": 1000})
    assert tree(bucket / "out.zarr") == tree(tmp_path / "out.zarr")
    assert (bucket / "out.zarr.notes").read_bytes() == b"mine" and len(before) > len(everything(bucket))
    kinds = ["D" if one.method == "DELETE" else "P" for one in server.seen if one.method in ("DELETE", "PUT")]
    first = next(k for k, one in enumerate(server.seen) if one.method == "DELETE")
    assert server.seen[first].key == "bkt/out.zarr.tokfmt.json", "no reader sees parts of both"
    assert "".join(kinds).startswith("PDDDDDD"), "the claim, then what makes the old dataset readable"


def test_overwrite_by_another_format(bucket, tmp_path):
    tokfmt.convert(PACK, "s3://bkt/out", to_format="mds", eos=EOS)
    tokfmt.convert(PACK, "s3://bkt/out", to_format="litdata", eos=EOS, overwrite=True)
    tokfmt.convert(PACK, tmp_path / "out", to_format="litdata", eos=EOS)
    assert tree(bucket / "out") == tree(tmp_path / "out")


@pytest.mark.parametrize(
    ("at", "foreign"),
    [
        ("out_document.bin", "out_document.bin"),
        ("out_document.idx", "out_document.idx"),
        ("out_document.bin.tokfmt.json", "out_document.bin.tokfmt.json"),
    ],
)
def test_a_foreign_writer_at_each_step(server, bucket, at, foreign):
    when(server, "PUT", at, lambda: (bucket / foreign).write_bytes(b"foreign"))
    with pytest.raises(ConversionError, match="already exists|another writer") as caught:
        tokfmt.convert(PACK, "s3://bkt/out_document", to_format="megatron", eos=EOS)
    assert caught.value.exit_code == 4
    assert everything(bucket) == {foreign: b"foreign"}


def test_a_foreign_writer_of_what_was_uploaded(server, bucket):
    def foreign():
        (bucket / "mds/shard.00000.mds").write_bytes(b"foreign")

    when(server, "PUT", "mds/shard.00001.mds", lambda: None)
    seen = []

    def before(method, key):
        seen.append(key)
        if key.endswith("shard.00003.mds"):
            foreign()

    server.before = before
    with pytest.raises(ConversionError, match="shard.00000.mds: "):
        tokfmt.convert(PACK, "s3://bkt/mds", to_format="mds", eos=EOS, to_options={"shard_size": 300})
    assert everything(bucket) == {"mds/shard.00000.mds": b"foreign"} and "bkt/mds/index.json" not in seen


STEPS = ["PUT m.tokfmt-writing", "PUT m/shard.00000.mds", "PUT m/shard.00002.mds", "PUT m/index.json",
         "PUT m.tokfmt.json", "DELETE m.tokfmt-writing"]  # fmt: skip
MDS = {"to_format": "mds", "eos": EOS, "to_options": {"shard_size": 600}}


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """The same dataset, converted locally."""
    place = tmp_path_factory.mktemp("local") / "m"
    tokfmt.convert(PACK, place, **MDS)
    return tree(place)


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


SOME = ("out.zarr", "out_document.bin", "mds", "saved", "ids.jsonl.gz")
"""Formats whose entries differ: metadata, an index beside the data, an index within, an arrow table, and none."""


@pytest.mark.parametrize("name", only(SOME, FORMATS))
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
    assert {one["key"]: one["bytes"] for one in listed} == {key: len(written[key]) for key in sorted(written)}
    assert all(xxh3_128_hexdigest(written[one["key"]]) in one["etag"] for one in listed)
    assert sum(one["bytes"] for one in listed) == stored["output"]["bytes"]
    for about in (stored, there):
        about.pop("splits"), about.pop("sources")
    assert stored == there
    assert not any(spool.iterdir()) and not server.parts


def is_absent_or_complete(bucket, local, *, complete):
    """Whether no reader opens the dataset, or all of it is there."""
    if not complete:
        with pytest.raises(TokfmtError):
            tokfmt.open("s3://bkt/m")
    else:
        assert tree(bucket / "m") == local


@pytest.mark.parametrize(("resume", "step"), pairs([False, True], STEPS))
def test_a_fault_at_each_step(server, bucket, local, spool, step, resume):
    method, _, name = step.partition(" ")
    server.forever[f"{method} bkt/{name}"] = "400"
    notes = []
    try:
        tokfmt.convert(PACK, "s3://bkt/m", resume=resume, progress=Listening(notes), **MDS)
    except OutageError as error:
        assert str(error).startswith(f"s3://bkt/{name}: cannot be written: 400") and method == "PUT"
        is_absent_or_complete(bucket, local, complete=resume and name.endswith(".json") and "index" not in name)
        if not resume:
            assert not everything(bucket) and not any(spool.iterdir())
    else:
        assert method == "DELETE" and "not cleaned up" in notes[-1], "the dataset is complete, and its claim remains"
        is_absent_or_complete(bucket, local, complete=True)
    server.forever.clear()
    if method == "DELETE":
        return
    tokfmt.convert(PACK, "s3://bkt/m", resume=resume, **MDS)
    assert tree(bucket / "m") == local and not any(spool.iterdir())
    assert not list(bucket.glob("*.tokfmt-writing"))


@pytest.mark.parametrize("fault", ["no tag", "wrong tag"])
@pytest.mark.parametrize("name", ["m/shard.00000.mds", "m/shard.00002.mds"])
def test_an_object_whose_write_is_answered_wrongly_is_removed(server, bucket, local, spool, name, fault):
    """It is there, and visible: the store has done what it does not say."""
    server.forever[f"PUT bkt/{name}"] = fault
    with pytest.raises(OutageError if fault == "no tag" else ConversionError) as caught:
        tokfmt.convert(PACK, "s3://bkt/m", **MDS)
    assert f"s3://bkt/{name}" in str(caught.value)
    assert not everything(bucket) and not any(spool.iterdir())
    server.forever.clear()
    tokfmt.convert(PACK, "s3://bkt/m", **MDS)
    assert tree(bucket / "m") == local


def test_a_single_object_whose_write_is_answered_with_a_wrong_tag_is_removed(server, bucket):
    server.forever["PUT bkt/m.pbin"] = "wrong tag"
    with pytest.raises(ConversionError, match="s3://bkt/m.pbin"):
        tokfmt.convert(PACK, "s3://bkt/m.pbin")
    assert not everything(bucket) and not list(bucket.glob("*.tokfmt-writing"))
    server.forever.clear()
    tokfmt.convert(PACK, "s3://bkt/m.pbin")
    assert (bucket / "m.pbin").is_file()


@pytest.mark.parametrize("stays", ["m/shard.00000.mds", "m.tokfmt-writing"])
def test_what_cannot_be_removed_is_named_and_replaced(server, bucket, local, stays):
    server.forever |= {"PUT bkt/m/index.json": "400", f"DELETE bkt/{stays}": "403"}
    with pytest.raises(OutageError) as caught:
        tokfmt.convert(PACK, "s3://bkt/m", **MDS)
    assert stays in everything(bucket)
    (told,) = [note for note in caught.value.__notes__ if "s3://bkt/m" in note]
    assert "--overwrite" in told and "m" in told
    assert not any("othing was left" in note for note in caught.value.__notes__)
    server.forever.clear()
    tokfmt.convert(PACK, "s3://bkt/m", overwrite=True, **MDS)
    assert tree(bucket / "m") == local and not list(bucket.glob("*.tokfmt-writing"))


class Listening:
    """A progress that keeps notes."""

    def __init__(self, notes):
        self.notes = notes

    def phase(self, *_):
        pass

    def advance(self, *_):
        pass

    def note(self, text):
        self.notes.append(text)


def test_resume_uploads_only_what_is_missing(server, bucket, local):
    server.forever["PUT bkt/m/shard.00002.mds"] = "400"
    with pytest.raises(OutageError) as caught:
        tokfmt.convert(PACK, "s3://bkt/m", resume=True, **MDS)
    assert any("s3://bkt/m is absent; " in note and "objects are uploaded" in note for note in caught.value.__notes__)
    server.forever.clear()
    there = set(everything(bucket))
    (bucket / "m/shard.00000.mds").write_bytes(b"changed")
    del server.seen[:]
    tokfmt.convert(PACK, "s3://bkt/m", resume=True, **MDS)
    again = set(order(server)) - {"m.tokfmt-writing"}
    assert again & there <= {"m/shard.00000.mds"}, "what changed meanwhile is uploaded again, and nothing else"
    assert tree(bucket / "m") == local
    del server.seen[:]
    done = tokfmt.convert(PACK, "s3://bkt/m", resume=True, **MDS)
    assert not order(server) and "complete already" in done.notes[-1]


@contextmanager
def full_disk(size):
    """No file of this process grows beyond a size, as on a disk that is full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_another_spool_is_named_only_where_the_disk_of_the_spool_fails(server, spool):
    with pytest.raises(OutageError) as caught, full_disk(1000):
        tokfmt.convert(PACK, "s3://bkt/m.pbin")
    assert any(str(spool) in note and "--spool" in note for note in caught.value.__notes__)
    server.forever["PUT bkt/m.pbin"] = "400"
    with pytest.raises(OutageError) as caught:
        tokfmt.convert(PACK, "s3://bkt/m.pbin")
    assert not any(str(spool) in note for note in caught.value.__notes__)


def run(*words, **environment):
    words = [sys.executable, "-m", "tokfmt", *map(str, words)]
    env = {**os.environ, **environment}
    return forkserver.Popen(words, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


WORDS = ["convert", PACK, "s3://bkt/m", "--to", "mds", "--eos", EOS, "--to-opt", "shard_size=600"]


@pytest.mark.parametrize(("number", "step"), pairs([signal.SIGKILL, signal.SIGINT], STEPS))
def test_a_signal_at_each_step(server, bucket, local, spool, step, number):
    method, _, name = step.partition(" ")
    process = []
    when(server, method, name, lambda: (time.sleep(0.02), process[0].send_signal(number)))
    server.delay = 0.02
    process.append(run(*WORDS, "--resume"))
    _, error = process[0].communicate(timeout=60)
    if number == signal.SIGINT:
        assert process[0].returncode in (130, 0) and "Traceback" not in error, error
    complete = (bucket / "m.tokfmt.json").exists()
    is_absent_or_complete(bucket, local, complete=complete or (bucket / "m/index.json").exists())
    if number == signal.SIGINT:
        assert not server.parts
    server.before, server.delay = (lambda *_: None), 0.0
    tokfmt.convert(PACK, "s3://bkt/m", resume=True, **MDS)
    assert tree(bucket / "m") == local and manifest_of(bucket / "m")["output"]["objects"]


@pytest.fixture(scope="module")
def larger_than_one_request(tmp_path_factory):
    """A pack that is uploaded in five parts."""
    place = tmp_path_factory.mktemp("larger")
    ids = np.random.default_rng(0).integers(0, 50000, (35_000, 1000), np.uint16)
    ids[:, -1] = EOS
    ids.tofile(place / "train.bin")
    tokfmt.convert(place / "train.bin", place / "m.pbin", format="nanogpt", eos=EOS)
    return place / "m.pbin"


@FUZZ_ONLY
@pytest.mark.parametrize("step", ["BEGIN", "PART3", "COMPLETE"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_signal_within_an_upload_in_parts(server, bucket, spool, larger_than_one_request, step, number):
    process = []
    when(server, step, "m.pbin", lambda: process[0].send_signal(number))
    words = ["convert", larger_than_one_request, "s3://bkt/m.pbin", "--resume"]
    process.append(run(*words))
    _, error = process[0].communicate(timeout=60)
    assert process[0].returncode in ((130, 0) if number == signal.SIGINT else (-signal.SIGKILL,)), error
    expected = tree(larger_than_one_request)
    assert not (bucket / "m.pbin").exists() or tree(bucket / "m.pbin") == expected
    if number == signal.SIGINT:
        assert not server.parts, "an upload that is interrupted is aborted"
    server.before = lambda *_: None
    again = run(*words)
    assert again.communicate(timeout=60)[1].count("error") == again.returncode == 0
    assert tree(bucket / "m.pbin") == expected and not any(spool.iterdir())
    assert not list(bucket.glob("*.tokfmt-writing"))


@pytest.mark.parametrize("step", ["PUT m.tokfmt-writing", "PUT m/shard.00000.mds", "DELETE m.tokfmt-writing"])
def test_an_outage_of_many_tries_while_it_writes(server, bucket, local, monkeypatch, step):
    monkeypatch.setenv("TOKFMT_RETRY_TIMEOUT", "6")
    close_stores()
    method, name = step.split()
    server.faults[f"{method} bkt/{name}"] = ["503"] * 11
    tokfmt.convert(PACK, "s3://bkt/m", **MDS)
    assert tree(bucket / "m") == local and not list(bucket.glob("*.tokfmt-writing"))
    assert not server.faults[f"{method} bkt/{name}"]


@FUZZ_ONLY
@pytest.mark.parametrize(
    ("step", "faults"), [("PART3", ["503"] * 12), ("COMPLETE", ["reset"])], ids=["parts", "the last answer is lost"]
)
def test_faults_of_an_upload_in_parts(server, bucket, monkeypatch, larger_than_one_request, step, faults):
    """If the answer that completes it is lost, the server knows the upload no more when it is asked again."""
    monkeypatch.setenv("TOKFMT_RETRY_TIMEOUT", "20")
    close_stores()
    server.faults[f"{step} bkt/m.pbin"] = list(faults)
    tokfmt.convert(larger_than_one_request, "s3://bkt/m.pbin")
    assert tree(bucket / "m.pbin") == tree(larger_than_one_request) and not server.parts
    assert not server.faults[f"{step} bkt/m.pbin"] and not list(bucket.glob("*.tokfmt-writing"))


def test_an_interrupted_upload_in_parts_leaves_nothing(server, bucket, spool, larger_than_one_request):
    process = []
    when(server, "PART3", "m.pbin", lambda: process[0].send_signal(signal.SIGINT))
    process.append(run("convert", larger_than_one_request, "s3://bkt/m.pbin"))
    _, error = process[0].communicate(timeout=60)
    assert process[0].returncode == 130 and "nothing was left behind" in error, error
    assert not everything(bucket) and not server.parts and not any(spool.iterdir())


def test_a_full_spool(bucket, monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=100, f_frsize=1, f_blocks=1 << 40))
    words = r"^s3://bkt/m.pbin: needs at least .* in the spool .* has 100 bytes free"
    with pytest.raises(OutageError, match=words) as caught:
        tokfmt.convert(PACK, "s3://bkt/m.pbin")
    assert "--spool DIR" in str(caught.value) and not everything(bucket)


def test_a_spool_that_does_not_exist(tmp_path):
    with pytest.raises(OutageError, match="cannot be written: the directory it should go to does not exist"):
        tokfmt.convert(PACK, "s3://bkt/m", spool=tmp_path / "none", **MDS)


@FUZZ_ONLY
def test_ctrl_c_while_a_server_stalls(server, bucket, spool):
    server.forever["PUT bkt/m/shard.00000.mds"] = "stalled"
    process = run(*WORDS)
    while not any(one.key.endswith("shard.00000.mds") for one in server.seen):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, error = within(20, lambda: process.communicate(timeout=30))
    assert process.returncode == 130 and "Traceback" not in error
    assert not [name for name in everything(bucket) if name.endswith("json")] and not any(spool.iterdir())


@FUZZ_ONLY
@pytest.mark.parametrize("name", ["mds", "olmo", "llmc"])
def test_files_are_uploaded_as_they_are_complete(server, bucket, tmp_path, spool, name):
    """The spool holds a few of them, whatever the size of the result."""
    ids = np.tile(np.arange(1, 1001, dtype="<u2"), 80_000)  # five regions, of which one is written at a time
    ids[999::1000] = 0
    ids.tofile(tmp_path / "train.bin")
    how = {
        "format": "nanogpt",
        "eos": 0,
        "to_format": name,
        "to_options": {"shard_size": 1 << 22},
        "executor": "serial",
    }
    peak = [0]
    server.before = lambda method, key: peak.append(max(peak[-1], taken(spool)))
    tokfmt.convert(tmp_path / "train.bin", f"s3://bkt/{name}", **how)
    server.before = lambda *_: None
    tokfmt.convert(tmp_path / "train.bin", tmp_path / name, **how)
    wanted = tree(tmp_path / name)
    assert tree(bucket / name) == wanted
    assert manifest_of(bucket / name)["output"]["xxh3_128"] == manifest_of(tmp_path / name)["output"]["xxh3_128"]
    size = sum(map(len, wanted.values()))
    assert 0 < peak[-1] < size / 3, (peak[-1], size)


def taken(place):
    """Bytes on the disk below a directory."""
    found = 0
    for base, _, names in os.walk(place):
        for name in names:
            with suppress(FileNotFoundError):
                found += os.lstat(os.path.join(base, name)).st_blocks * 512
    return found


def test_workers_that_need_a_common_directory(tmp_path, monkeypatch):
    monkeypatch.delenv("TOKFMT_SPOOL")
    dask = {"executor": "dask:tcp://127.0.0.1:1"}
    words = "needs a directory that all tasks see, because its workers write to the spool"
    with pytest.raises(OptionError, match=words):
        tokfmt.convert(PACK, "s3://bkt/m", verify=True, **dask, **MDS)
    with tokfmt.open(PACK) as opened, pytest.raises(OptionError, match="because its workers write to the spool"):
        opened.save("s3://bkt/m", **dask, **{key: value for key, value in MDS.items() if key != "eos"})
    words = "--executor dask:ADDRESS needs a directory .* each writes a part of one file"
    with pytest.raises(OptionError, match=words):
        tokfmt.convert(PACK, "s3://bkt/out.pbin", **dask, eos=EOS)


def test_two_writers_at_once(server, bucket, local):
    server.delay = 0.01
    both = [run(*WORDS) for _ in range(2)]
    ended = [process.communicate(timeout=60)[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 4], ended
    refused = next(text for text, process in zip(ended, both, strict=True) if process.returncode)
    assert "another tokfmt is writing it (process" in refused or "already exists" in refused
    assert tree(bucket / "m") == local and not list(bucket.glob("*.tokfmt-writing"))


def test_a_server_without_conditions(server, bucket, local):
    server.conditions.clear()
    notes = []
    tokfmt.convert(PACK, "s3://bkt/m", progress=Listening(notes), **MDS)
    assert tree(bucket / "m") == local and any("knows no conditional writes" in note for note in notes)
    with pytest.raises(DestinationExistsError):
        tokfmt.convert(PACK, "s3://bkt/m", **MDS)


def test_a_server_that_ignores_conditions(server, bucket, local):
    """It answers as if it knew them. tokfmt tries, reports it, and makes no claim that would hold nobody off."""
    close_stores()
    server.ignores = True
    notes = []
    tokfmt.convert(PACK, "s3://bkt/m", progress=Listening(notes), **MDS)
    assert tree(bucket / "m") == local and sum("knows no conditional writes" in note for note in notes) == 1
    assert not list(bucket.glob("*.tokfmt-writing"))
    with pytest.raises(DestinationExistsError):
        tokfmt.convert(PACK, "s3://bkt/m", **MDS)


def test_credentials_that_only_read(server, bucket):
    """Nothing was written, so nothing is said to be left."""
    server.forever["PUT bkt/m.tokfmt-writing"] = server.forever["DELETE bkt/m.tokfmt-writing"] = "403"
    notes = []
    with pytest.raises(OutageError, match="access denied"):
        tokfmt.convert(PACK, "s3://bkt/m", progress=Listening(notes), **MDS)
    assert not notes and not everything(bucket)


def test_splits_appear_together(server, bucket, tmp_path):
    how = {"eos": EOS, "split": "train=0.7,validation=0.3", "to_format": "megatron", "seed": 1}
    tokfmt.convert(PACK, tmp_path / "out_document", **how)
    server.forever["PUT bkt/out_document.validation.idx"] = "400"
    with pytest.raises(OutageError):
        tokfmt.convert(PACK, "s3://bkt/out_document", **how)
    assert not everything(bucket)
    server.forever.clear()
    del server.seen[:]
    tokfmt.convert(PACK, "s3://bkt/out_document", **how)
    for name in ("train", "validation"):
        for suffix in (".bin", ".idx"):
            wanted = next(tmp_path.glob(f"out_document*{name}*{suffix}"))
            assert (bucket / wanted.name).read_bytes() == wanted.read_bytes()
    written = [name for name in order(server) if not name.endswith("writing")]
    kinds = [name.rpartition(".")[2] for name in written]
    assert kinds == sorted(kinds, key=["bin", "idx", "json"].index), "all data, then all entries, then manifests"
    names = ["out_document.train.bin", "out_document.validation.bin"]
    (bucket / f"{names[1]}.tokfmt.json").unlink()
    close_stores()
    reports = [tokfmt.check(f"s3://bkt/{name}")[0] for name in names]
    assert [report.counts for report in reports] == [{}, {"TF910": 1}]


def test_text_is_tokenized_into_a_bucket(bucket, tmp_path):
    how = {"tokenizer": str(TOKENIZER), "verify": True}
    tokfmt.convert(CORPUS, "s3://bkt/out.pbin", **how)
    tokfmt.convert(CORPUS, tmp_path / "out.pbin", **how)
    assert (bucket / "out.pbin").read_bytes() == (tmp_path / "out.pbin").read_bytes()
    assert manifest_of(bucket / "out.pbin")["output"]["objects"][0]["key"] == "out.pbin"
    assert np.array_equal(tokfmt.open("s3://bkt/out.pbin")[3], tokfmt.open(tmp_path / "out.pbin")[3])


def test_ledger_and_save(bucket, tmp_path):
    recipe = tmp_path / "mix.toml"
    recipe.write_text(f'tokfmt = 1\n[[source]]\npath = "{PACK}"\neos = {EOS}\n')
    tokfmt.convert(recipe, "s3://bkt/out.zarr", ledger=True)
    tokfmt.convert(recipe, tmp_path / "out.zarr", ledger=True)
    assert (bucket / "out.zarr.ledger").read_bytes() == (tmp_path / "out.zarr.ledger").read_bytes()
    about = json.loads((bucket / "out.zarr.ledger.json").read_bytes())
    assert about["sources"][0]["paths"] == [str(PACK)], "a path relative to a bucket leads nowhere"
    tokfmt.open(PACK).select(range(5)).save("s3://bkt/five.pbin", to_eos=EOS)
    assert len(tokfmt.open("s3://bkt/five.pbin")) == 5


def test_no_secret_is_written(server, bucket, monkeypatch, spool):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "PLANTEDKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted-secret")
    server.refused = True
    with pytest.raises(TokfmtError) as caught:
        tokfmt.convert(PACK, "s3://bkt/m", **MDS)
    assert (
        "access denied" in str(caught.value)
        and "lanted" not in f"{caught.value!r} {getattr(caught.value, '__notes__', '')!r}"
    )
    server.refused = False
    server.forever["PUT bkt/m/index.json"] = "400"
    with pytest.raises(OutageError):
        tokfmt.convert(PACK, "s3://bkt/m", resume=True, **MDS)
    kept = b"".join(path.read_bytes() for path in spool.rglob("*") if path.is_file())
    assert kept and b"lanted" not in kept and b"PLANTED" not in kept
    server.forever.clear()
    tokfmt.convert(PACK, "s3://bkt/m", resume=True, **MDS)
    assert not any(b"lanted" in content or b"PLANTED" in content for content in everything(bucket).values())


def test_the_plan_of_a_dry_run(server, bucket, spool):
    done = CliRunner().invoke(cli, [*map(str, WORDS), "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "upload       at least 4.1 kB in 9 requests" in done.output
    assert f"spool        {spool}" in done.output
    assert not [one for one in server.seen if one.method in ("PUT", "DELETE")] and not any(spool.iterdir())


def test_small_outputs(server, bucket, tmp_path):
    (tmp_path / "text.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    merged = FIXTURES / "modalities/E_D_2byte_gpt2.pbin"
    commands = {
        "page.html": ["stats", PACK, "--html"],
        "text.idx": ["index", tmp_path / "text.jsonl", "-o"],
        "fixed.pbin": ["check", merged, "--eos", EOS, "--fix"],
    }
    for name, words in commands.items():
        for address in (f"s3://bkt/{name}", tmp_path / name):
            done = CliRunner().invoke(cli, [*map(str, words), str(address)])
            assert done.exit_code in (0, 1), (name, done.output, done.exception)
        assert (bucket / name).read_bytes() == (tmp_path / name).read_bytes() or name == "page.html"
    done = CliRunner().invoke(cli, ["index", str(tmp_path / "text.jsonl"), "-o", "s3://bkt/text.idx"])
    assert str(done.exception).startswith("s3://bkt/text.idx: already exists")
    (bucket / "page.html").write_bytes(b"mine")
    done = CliRunner().invoke(cli, ["stats", str(PACK), "--html", "s3://bkt/page.html"])
    assert "it is not a page of tokfmt stats" in str(done.exception)


@pytest.mark.parametrize("machine", only(["another"], ["the same", "another"]))
def test_a_task_that_was_killed_is_run_again(server, bucket, local, spool, tmp_path, machine):
    process = []
    when(server, "PUT", "m/shard.00001.mds", lambda: process[0].send_signal(signal.SIGKILL))
    process.append(run(*WORDS, "--task", "1/2"))
    process[0].communicate(timeout=60)
    assert process[0].returncode == -signal.SIGKILL
    with pytest.raises(TokfmtError):
        tokfmt.open("s3://bkt/m")
    (tmp_path / "other").mkdir()
    again = {} if machine == "the same" else {"TOKFMT_SPOOL": str(tmp_path / "other")}
    for words in ((*WORDS, "--task", "1/2"), (*WORDS, "--task", "0/2"), ("convert", "--finish", "s3://bkt/m")):
        process = run(*words, **again)
        assert process.communicate(timeout=60) and process.returncode == 0
    assert tree(bucket / "m") == local and everything(bucket).keys() == {*local, "m.tokfmt.json"}


@FUZZ_ONLY
def test_tasks_in_mount_namespaces(server, bucket, local):
    """Processes whose spools and working directories no other process can reach."""
    inside = 'mount -t tmpfs none /mnt && cd /mnt && exec "$@"'
    if subprocess.run(["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True).returncode:
        pytest.skip("mount namespaces need root")
    shutil.copy(PACK, bucket / "in.pbin")
    places = {"TMPDIR": "/mnt", "PYTHONPATH": str(ROOT)}
    env = {**{name: value for name, value in os.environ.items() if name != "TOKFMT_SPOOL"}, **places}
    words = ["s3://bkt/in.pbin", *map(str, WORDS[2:])]
    for more in ([*words, "--task", "1/2"], [*words, "--task", "0/2"], ["--finish", "s3://bkt/m"]):
        command = ["unshare", "-m", "sh", "-c", inside, "sh", sys.executable, "-m", "tokfmt", "convert", *more]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
    assert tree(bucket / "m") == local and not [key for key in everything(bucket) if "tokfmt-" in key]
