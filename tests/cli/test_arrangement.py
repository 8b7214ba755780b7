"""--shuffle, --split NAME=SHARE,... and --seed on the command line; interrupted, nothing is left."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import commands
import forkserver
import numpy as np
import pytest
from amount import every
from paths import CORPUS, FIXTURES, TOKENIZER
from processes import running

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
SPLIT = ["--split", "train=0.8,validation=0.2"]


def tokfmt(*words, cwd=".", check=0):
    done = commands.run(*words, cwd=cwd, check=check)
    assert "Traceback" not in done.stderr
    return done


def ids(path, cwd, *words):
    shown = json.loads(tokfmt("show", path, ":", "--json", *words, cwd=cwd).stdout)["shown"]
    return [s["ids"] for s in shown]


def test_several_destinations(tmp_path):
    done = tokfmt("convert", PACK, "o.pbin", *SPLIT, "--shuffle", "7", "--verify", cwd=tmp_path)
    lines = [line for line in done.stderr.splitlines() if "inferred" not in line]
    assert lines[0] == "note: sequences were dealt to splits by seed 0; override with --seed N"
    assert re.fullmatch(
        r"2 splits of o\.pbin \(modalities\): 42 sequences, .*, verified: 42 sequences and [\d,]+ tokens read back and compared, \d+\.\d s",
        lines[1],
    )
    assert re.fullmatch(r"split train: o\.train\.pbin \d+ sequences, [\d,]+ tokens", lines[2])
    assert re.fullmatch(r"split validation: o\.validation\.pbin \d+ sequences, [\d,]+ tokens", lines[3])
    names = ["o.train.pbin", "o.validation.pbin"]
    assert sorted(os.listdir(tmp_path)) == sorted([*names, *(f"{name}.tokfmt.json" for name in names)])
    found = [s for name in names for s in ids(name, tmp_path)]
    assert sorted(found) == sorted(ids(PACK, tmp_path))
    manifests = [json.loads((tmp_path / f"{name}.tokfmt.json").read_bytes()) for name in names]
    for name, manifest in zip(("train", "validation"), manifests, strict=True):
        assert (manifest["shuffle"], manifest["split"]["seed"]) == (7, 0)
        assert list(manifest["splits"]) == [name]
    assert manifests[0]["output"] != manifests[1]["output"]
    assert sum(manifest["sequences"] for manifest in manifests) == 42


def test_one_store(tmp_path):
    tokfmt("convert", PACK, "o.zarr", *SPLIT, "--seed", "3", "-q", cwd=tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["o.zarr", "o.zarr.tokfmt.json"]
    found = [s for split in ("train", "validation") for s in ids("o.zarr", tmp_path, "--split", split)]
    assert sorted(found) == sorted(ids(PACK, tmp_path))
    import zarr

    group = zarr.open_group(tmp_path / "o.zarr", mode="r", use_consolidated=False)
    assert set(group.group_keys()) == {"train", "validation"}
    tokens = sum(group[split]["encoded_tokens"].shape[0] for split in group.group_keys())
    assert tokens == sum(map(len, found))


def test_json_and_dry_run(tmp_path):
    said = json.loads(tokfmt("convert", PACK, "o.jsonl", *SPLIT, "--json", cwd=tmp_path).stdout)
    assert set(said["splits"]) == {"train", "validation"}
    assert said["splits"]["train"]["destination"] == "o.train.jsonl"
    assert said["shuffle"] is None
    done = tokfmt("convert", PACK, "p.jsonl", *SPLIT, "--dry-run", cwd=tmp_path)
    assert f"split train: p.train.jsonl {said['splits']['train']['sequences']} sequences" in done.stdout
    done = tokfmt("convert", CORPUS, "p.h5", *SPLIT, "--tokenizer", TOKENIZER, "--dry-run", cwd=tmp_path)
    assert "split validation: p.validation.h5\n" in done.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--split", "train=0.9,validation=0.2"], "the shares sum to 1.1, not to 1"),
        (["--split", "train=0.9,validation=0.1", "--seed", "-1"], "--seed: expected a whole number from 0 to "),
        (["--seed", "1"], "--seed: nothing is dealt out to splits"),
        (["--shuffle", "now"], "'now' is not a whole number"),
    ],
)
def test_what_is_refused(tmp_path, words, says):
    done = tokfmt("convert", PACK, "o.pbin", *words, cwd=tmp_path, check=2)
    assert says in done.stderr.splitlines()[-1]
    assert done.stderr.splitlines()[-1].startswith("tokfmt: error: ")
    assert os.listdir(tmp_path) == []


@pytest.fixture
def blocks(tmp_path):
    found = np.random.default_rng(1).integers(0, 50_000, 8192 * 1500).astype("<i4")
    found[::701] = 50256
    found.tofile(tmp_path / "in.bin")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "number"),
    [
        ("offsets", signal.SIGKILL),
        *(every((stage, signal.SIGINT)) for stage in ("spill-*", "offsets")),
        every(("spill-*", signal.SIGKILL)),
    ],
)
def test_interrupted(blocks, number, stage):
    words = ["convert", "in.bin", "o.pbin", "--from", "stage1", "-q", *SPLIT, "--shuffle", "1"]
    command = [sys.executable, "-m", "tokfmt", *words]
    with running(forkserver.Popen(command, cwd=blocks, stderr=subprocess.PIPE, text=True)) as process:
        for _ in range(4000):
            if list(blocks.glob(f".o.*.pbin.tokfmt-*/scratch/done-shuffle-*/{stage}")):
                break
            assert process.poll() is None, "the conversion ended before it could be interrupted"
            time.sleep(0.005)
        process.send_signal(number)
        _, said = process.communicate(timeout=120)
    assert process.returncode == (-9 if number == signal.SIGKILL else 130), said
    assert [name for name in os.listdir(blocks) if not name.startswith(".")] == ["in.bin"]
    tokfmt(*words, cwd=blocks)
    assert [p.name for p in blocks.iterdir() if p.name.startswith(".")] == [], "the dead leftovers were not removed"
    assert len(list(blocks.glob("o.*.pbin"))) == 2


def test_a_full_disk_is_one_line(blocks):
    """RLIMIT_FSIZE stands in for the disk."""
    limited = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)); from tokfmt.cli.main import run; run(sys.argv[1:])"
    )
    for out in ("o.pbin", "o.zarr", "o.jsonl"):
        words = [
            sys.executable,
            "-c",
            limited,
            "convert",
            "in.bin",
            out,
            "--from",
            "stage1",
            "-q",
            "--shuffle",
            "1",
            *SPLIT,
        ]
        done = forkserver.run(words, cwd=blocks, capture_output=True, text=True)
        assert done.returncode == 4, (out, done.stderr)
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert "the file would be larger than allowed here" in done.stderr
        assert os.listdir(blocks) == ["in.bin"], out
