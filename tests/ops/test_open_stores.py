"""Datasets in a registered store: they open like local ones, and the requests are counted."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from paths import FIXTURES
from stores import Memory, close_stores

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.errors import FormatError, OptionError, SourceChangedError, TokfmtError
from tokfmt.files.place import Url, register_store, store_of

EOS = 50256
PACK, PAIR, NANOGPT = "modalities/D_2byte_gpt2.pbin", "megatron/gpt2_text_document", "made/train.bin"
RAW, HDF5 = "olmo/part-0-00000.npy", "hdf5/doc_example"


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """The same datasets as local files."""
    home = tmp_path_factory.mktemp("local")
    for name in ("modalities", "megatron", "hdf5", "jsonl", "flat-tokens", "parquet", "llmc", "recipe"):
        (home / name).symlink_to(FIXTURES / name)
    (home / "made").mkdir()
    ids = np.arange(3000, dtype="<u2") % 900
    ids[::50] = EOS
    ids.tofile(home / NANOGPT)
    return home


@pytest.fixture
def bucket(monkeypatch, tmp_path, local):
    close_stores()
    monkeypatch.chdir(tmp_path)
    files = [file for one in local.iterdir() for file in one.resolve().rglob("*") if file.is_file()]
    homes = {one.resolve(): one.name for one in local.iterdir()}
    key = {file: f"{homes[home]}/{file.relative_to(home).as_posix()}" for file in files for home in homes
           if file.is_relative_to(home)}  # fmt: skip
    store = Memory({key[file]: file.read_bytes() for file in files})
    register_store("mem", lambda url: {"bucket": store}[url.authority])
    yield store
    close_stores()
    assert not list(tmp_path.glob("mem*"))


def requests(store):
    """How many requests of each kind there were since the last look."""
    found = Counter(kind for kind, *_ in store.asked)
    store.asked.clear()
    return found


def sequences(dataset):
    return [ids.tolist() for ids in dataset]


@pytest.mark.parametrize(
    ("name", "options", "most"),
    [
        (PACK, {}, {"status": 6, "read": 13}),
        (PAIR, {}, {"status": 12, "read": 12}),
        (f"{PAIR}.idx", {}, {"status": 12, "read": 12}),
        (NANOGPT, {"format": "nanogpt"}, {"status": 5, "read": 7}),  # one of them compares the width with the first IDs
        ("llmc/automodel/gpt2.bin", {}, {"status": 5, "read": 6}),
        ("flat-tokens/doc_example.zarr", {}, {"status": 8, "read": 7, "entries": 7}),
    ],
)
def test_a_dataset_opens_as_a_local_one_does(bucket, local, name, options, most):
    with tokfmt.open(f"mem://bucket/{name}", **options) as stored:
        asked = requests(bucket)
        assert all(asked[kind] <= most.get(kind, 0) for kind in asked), asked
        with tokfmt.open(local / name, **options) as dataset:
            assert stored.info == dataset.info
            assert sequences(stored) == sequences(dataset)
    assert requests(bucket)["read"]


@pytest.mark.parametrize("name", [PACK, PAIR, NANOGPT])
def test_a_dataset_is_converted_to_a_local_file(bucket, local, tmp_path, name):
    given = {"format": "nanogpt"} if name == NANOGPT else {}
    done = tokfmt.convert(f"mem://bucket/{name}", tmp_path / "out.ds", eos=EOS, verify=True, **given)
    assert requests(bucket)["read"]
    tokfmt.convert(local / name, tmp_path / "same.ds", eos=EOS, **given)
    assert (tmp_path / "out.ds").read_bytes() == (tmp_path / "same.ds").read_bytes()
    (source,) = json.loads((tmp_path / "out.ds.tokfmt.json").read_text())["sources"]
    assert source["path"].startswith(f"mem://bucket/{name}")
    assert source["bytes"] and source["xxh3_128"]
    assert done.sequences == len(tokfmt.open(tmp_path / "out.ds"))


def test_a_conversion_that_is_resumed_knows_its_source(bucket, tmp_path):
    words = [f"mem://bucket/{PACK}", tmp_path / "out.ds"]
    tokfmt.convert(*words, eos=EOS, resume=True)
    before = (tmp_path / "out.ds").read_bytes()
    with pytest.raises(TokfmtError, match="already exists"):
        tokfmt.convert(*words, eos=EOS, resume=True)
    tokfmt.convert(*words, eos=EOS, resume=True, overwrite=True)
    assert (tmp_path / "out.ds").read_bytes() == before


def run(*words):
    """The exit code of a command, and what it prints on both streams."""
    ended = CliRunner().invoke(cli, [str(word) for word in words])
    if isinstance(ended.exception, TokfmtError):
        return ended.exception.exit_code, ended.stdout, f"tokfmt: error: {ended.exception}\n"
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    return ended.exit_code, ended.stdout, ended.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("show", "{}" + PACK, "0:9", "--ids"),
        ("show", "{}" + PAIR, "5", "--ids"),
        ("show", "{}" + NANOGPT, "--from", "nanogpt", "--ids"),
        ("show", "{}" + PACK, "--raw"),
        ("show", "{}made/train.bin", "--raw", "--from", "nanogpt"),
        ("stats", "{}" + PACK, "--json"),
        ("stats", "{}" + PAIR, "--json"),
        ("stats", "{}" + NANOGPT, "--from", "nanogpt", "--json"),
        ("check", "{}" + PACK, "--deep"),
        ("check", "{}" + PAIR, "--deep"),
        ("diff", "{}" + PACK, "{}modalities/D_2byte_gpt2_crlf.pbin", "--limit", "2"),
    ],
    ids=lambda words: " ".join(words).replace("{}", ""),
)
def test_a_command_prints_what_it_prints_of_a_local_dataset(bucket, local, words):
    stored = run(*(word.replace("{}", "mem://bucket/") for word in words))
    assert requests(bucket)["read"]
    here = run(*(word.replace("{}", f"{local}/") for word in words))
    assert stored[0] == here[0]
    assert ("mem://bucket/" in stored[1] + stored[2]) == ("--raw" not in words)
    plain = ["".join(text.split()).replace("mem://bucket/", "") for text in stored[1:]]
    assert plain == ["".join(text.split()).replace(f"{local}/", "") for text in here[1:]], "lines end elsewhere"


def test_show_makes_few_requests(bucket):
    """The limits are those of local files: at most 12 reads of a pair (see test_reads.py)."""
    assert run("show", f"mem://bucket/{PAIR}", "5", "--ids")[0] == 0
    asked = requests(bucket)
    assert asked["read"] <= 12, asked
    assert asked["entries"] == 0


def test_patterns_are_expanded_by_listing(bucket):
    names = ("a/part-10.bin", "a/part-2.bin", "a/b/part-1.bin", "a/.hidden.bin", "c/x.txt")
    bucket.held = {name: bytes([5, 0, 6, 0]) for name in names}

    def found(pattern):
        done = tokfmt.convert(f"mem://bucket/{pattern}", "x.jsonl", format="nanogpt", eos="none", dry_run=True)
        return [str(one["path"]).removeprefix("mem://bucket/") for one in done.sources]

    assert found("a/part-*.bin") == ["a/part-2.bin", "a/part-10.bin"]
    assert found("a/part-?.bin") == ["a/part-2.bin"]
    assert found("**/*.bin") == ["a/b/part-1.bin", "a/part-2.bin", "a/part-10.bin"]
    assert found("*/x.txt") == ["c/x.txt"]
    assert found("a/*/part-1.bin") == ["a/b/part-1.bin"]
    with pytest.raises(FormatError, match=r"^mem://bucket/a/\*.idx: no file matches this pattern"):
        found("a/*.idx")


def test_several_datasets_of_a_store(bucket):
    code, printed, _ = run("stats", "mem://bucket/modalities/A_?byte_gpt2.pbin", "--json")
    assert code == 0
    told = json.loads(printed)
    assert [one["path"] for one in told["datasets"]] == [
        f"mem://bucket/modalities/A_{width}byte_gpt2.pbin" for width in (2, 4)
    ]


def test_a_recipe_names_addresses(bucket, local, tmp_path):
    text = 'tokfmt = 1\nseq_len = 64\nseed = 1\n[[source]]\npath = "{}"\n'
    for home, name in (("mem://bucket", "stored.toml"), (local, "here.toml")):
        (tmp_path / name).write_text(text.replace("{}", f"{home}/{PAIR}.bin"))
    stored, here = tokfmt.open(tmp_path / "stored.toml"), tokfmt.open(tmp_path / "here.toml")
    assert requests(bucket)["read"]
    assert [sample["input_ids"].tolist() for sample in stored] == [sample["input_ids"].tolist() for sample in here]


def test_an_object_that_changes_is_an_error(bucket):
    with tokfmt.open(f"mem://bucket/{NANOGPT}", format="nanogpt") as dataset:
        bucket.held[NANOGPT] = bytes(6000)
        with pytest.raises(SourceChangedError, match=f"^mem://bucket/{NANOGPT}: changed while it was being read"):
            sequences(dataset)


def test_missing_objects(bucket):
    for name in ("modalities/gone.pbin", "gone", "gone/x.pbin"):
        code, _, error = run("show", f"mem://bucket/{name}")
        assert (code, error) == (3, f"tokfmt: error: mem://bucket/{name}: no such file\n")


def test_destinations_are_refused(bucket, tmp_path):
    for words in (["convert", "x", "{}"], ["stats", "x", "--html", "{}"], ["index", "x", "-o", "{}"]):
        source = tmp_path / "x.jsonl"
        source.write_text('{"input_ids": [1]}\n')
        out = "mem://bucket/out.html" if "--html" in words else "mem://bucket/out.pbin"
        named = [str(source) if word == "x" else word.replace("{}", out) for word in words]
        code, _, error = run(*named)
        wanted = f"{out}: the scheme mem is not written (expected s3, gs or az). Write to a local path, and upload it"
        assert (code, error) == (2, f"tokfmt: error: {wanted}\n")
    assert requests(bucket)["read"] == 0


def test_findings_name_addresses(bucket):
    bucket.held["cut.pbin"] = bucket.held[PACK][:-10]
    (verdict,) = tokfmt.check("mem://bucket/cut.pbin")
    assert verdict.path == "mem://bucket/cut.pbin"
    assert {finding.path for finding in verdict.findings} == {"mem://bucket/cut.pbin"}


def test_a_store_that_is_not_registered(bucket):
    with pytest.raises(OptionError, match=r"^ftp://bucket/x.pbin: the scheme ftp is not read"):
        tokfmt.open("ftp://bucket/x.pbin")
    assert Path("ftp:").exists() is False


def test_a_store_that_is_being_opened_when_all_are_forgotten_is_forgotten():
    """A thread that opens a store for the options before does not hand it to those who ask afterwards."""
    old, new = Memory({}), Memory({})

    def opens_late(_):
        close_stores()
        register_store("late", lambda _: new)
        return old

    register_store("late", opens_late)
    assert store_of(Url("late", "bucket")) is old
    assert store_of(Url("late", "bucket")) is new
