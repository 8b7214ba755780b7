"""Runs in a bucket: order files and tokens by address give what local ones do, with few requests."""

import json
import shutil

import commands
import pytest
from paths import FIXTURES
from remote.conftest import forget

RUNS = FIXTURES / "runs"
TOML = """tokfmt = 1
[run]
root = "."
batch_size = 8
"""
SETS = {
    "megatron_core": 'cache = "cache_blend"\n',
    "gpt_neox": 'framework = "gpt-neox"\ntrain_data_paths = ["data/harbour", "data/meadow", "data/lantern"]\n'
    "train_data_weights = [0.35, 0.4, 0.25]\n",
    "nanotron_nanoset": 'framework = "nanoset"\ndataset_folders = ["data/harbour", "data/meadow"]\nseed = 1\n'
    "sequence_length = 32\n",
    "mosaic_streaming": 'framework = "mosaic-streaming"\nstreams = ["mds/harbour", "mds/meadow"]\nshuffle = true\n',
    "litdata": 'framework = "litdata"\ninput_dir = "data/harbour"\nshuffle = true\nnum_workers = 2\n',
    "olmo1": 'framework = "olmo"\npaths = ["data/harbour.npy", "data/meadow.npy"]\ndtype = "uint16"\nsequence_length = 64\n'
    "drop_last = true\nseed = 7\neos_token_id = 0\n",
    "olmo_core": 'framework = "olmo-core"\ncache = "work_packed_truncate"\ndtype = "uint16"\neos_token_id = 0\n'
    'paths = ["data/harbour.npy", "data/meadow.npy", "data/lantern.npy"]\n',
}
QUESTIONS = [
    ("show", "--step", 3, "--json"), ("show", "--seen", "harbour#3", "--json"), ("stats", "--select", "20:60", "--json"),
    ("check", "--deep", "--json"),
]  # fmt: skip


def answers(run, home):
    """What the commands print of a run, without the place in which it is."""
    printed = []
    for command, *words in QUESTIONS:
        done = commands.run(command, run, *words, check=0)
        document = json.loads(done.stdout.replace(str(home), "HOME"))
        document.pop("transfer", None)
        printed.append(document)
    return printed


@pytest.mark.parametrize("name", SETS)
def test_a_run_in_a_bucket_is_the_same_run(name, fresh, bucket, tmp_path):
    for home in (bucket / "set", tmp_path / "set"):
        shutil.copytree(RUNS / name, home)
        (home / "run.toml").write_text(TOML + SETS[name])
    assert answers("s3://bkt/set/run.toml", "s3://bkt/set") == answers(tmp_path / "set" / "run.toml", tmp_path / "set")
    for run in ("s3://bkt/set/run.toml", tmp_path / "set" / "run.toml"):
        commands.run("convert", run, tmp_path / "rows.jsonl", "--select", "5:30", "--overwrite", check=0)
        (tmp_path / "rows.jsonl").rename(tmp_path / f"{len(str(run))}.jsonl")
    first, second = tmp_path.glob("*.jsonl")
    assert first.read_text() == second.read_text() and first.read_text().count("\n") == 25


@pytest.mark.parametrize(("command", "of_tokens"), [(("show", "--step", "3"), 3), (("show", "--seen", "harbour#3"), 3)])
def test_a_step_and_a_document_take_a_request_for_each_file(command, of_tokens, fresh, bucket):
    """Order files, indexes and tokens of this size take one read each, and descriptions of other splits none."""
    shutil.copytree(RUNS / "megatron_core", bucket / "set")
    forget()
    fresh.seen.clear()
    cache = "s3://bkt/set/cache_blend"
    commands.run(*command[:1], cache, *command[1:], "--batch-size", 8, "--from-opt", "root=s3://bkt/set", check=0)
    read = [one.key for one in fresh.seen if one.method == "GET"]
    assert len(read) == len(set(read)) <= 21
    assert not any("valid" in key for key in read)
    assert sum(key.endswith(".bin") for key in read) <= of_tokens
    assert sum(one.method == "LIST" for one in fresh.seen) <= 3


def test_what_a_run_in_a_bucket_names_is_in_its_store(fresh, bucket):
    shutil.copytree(RUNS / "megatron_core", bucket / "set")
    for outside in (str(RUNS / "megatron_core"), "../../..", "s3://other/set"):
        (bucket / "set" / "run.toml").write_text(f'tokfmt = 1\n[run]\ncache = "cache_blend"\nroot = "{outside}"\n')
        done = commands.run("info", "s3://bkt/set/run.toml", check=3)
        assert "outside of s3://bkt" in done.stderr
