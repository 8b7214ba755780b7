"""What is far larger than memory, or far more than usual: within the memory rule, and in linear work."""

import json
import pickle
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from amount import FUZZ_ONLY, first
from peak import peak_of
from reads import asked_of

import tokfmt

pytestmark = pytest.mark.slow

EOS = 50256
BLOCK = 62_500 * 8192


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("scale")


# a terabyte


@pytest.fixture(scope="module")
def terabyte(home):
    """489 full blocks, sparse, the last 100 tokens of which are 1 to 100."""
    blocks = home / "terabyte"
    blocks.mkdir()
    for number in range(489):
        with open(blocks / f"stage1_block_{number:04d}.bin", "wb") as file:
            file.truncate(BLOCK * 4)
    with open(blocks / "stage1_block_0488.bin", "r+b") as file:
        file.seek(BLOCK * 4 - 400)
        file.write(np.arange(1, 101, dtype="<i4").tobytes())
    return blocks


def test_the_last_rows_of_a_terabyte(terabyte):
    peak, printed = peak_of(["show", terabyte, "-2:", "--from-opt", "view=samples", "--ids", "-q"], terabyte)
    rows = printed.splitlines()
    assert rows[0] == " ".join(["0"] * 8192)
    assert rows[1] == " ".join(["0"] * 8092 + [str(i) for i in range(1, 101)])
    assert peak < 150 << 20, f"{peak >> 20} MB"


def test_a_terabyte_is_planned(terabyte, home):
    how = ["--from-opt", "view=samples", "--dry-run", "--json"]
    peak, printed = peak_of(["convert", terabyte, home / "out.zarr", *how], home)
    plan = json.loads(printed)
    assert (plan["sequences"], plan["tokens"]) == (489 * 62_500, 489 * BLOCK)
    assert peak < 150 << 20, f"{peak >> 20} MB"


def test_a_slice_of_a_terabyte(terabyte, home):
    """Neither are its tokens scanned, nor is it read for a checksum of what it was taken from."""
    out = home / "slice.pbin"
    tokfmt.convert(terabyte, out, options={"view": "samples"}, select="-1:")
    assert tokfmt.open(out)[0][-100:].tolist() == list(range(1, 101))
    said = json.loads((home / "slice.pbin.tokfmt.json").read_bytes())
    assert said["sources"][0]["bytes"] == 489 * BLOCK * 4
    assert said["sources"][0]["xxh3_128"] is None
    assert said["output"]["xxh3_128"]


# one sequence; of 3 billion tokens: `python -m benchmarks scale-sequence`


@pytest.fixture(scope="module")
def long_one(home):
    """A pack of one sequence of 50 M tokens: 200 MB, would it be held."""
    path, count = home / "long.pbin", 50_000_000
    with open(path, "wb") as file:
        file.write(struct.pack("<QI", count * 4, 4))
        file.seek(12 + count * 4 - 4)
        file.write(struct.pack("<I", EOS) + pickle.dumps([(0, count * 4)], protocol=4))
    return path


def test_a_long_sequence_is_shown_as_far_as_it_is_read(long_one):
    """`show | head`: what nobody takes is not read, and what was printed before was not held."""
    words = [sys.executable, "-m", "tokfmt", "show", str(long_one), "--ids", "-q"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as shown:
        taken = "".join(shown.stdout.read(1 << 20) for _ in range(4))
        status = Path(f"/proc/{shown.pid}/status").read_text()
        shown.stdout.close()
        assert shown.stderr.read() == ""
    assert shown.returncode == 0
    assert set(taken.split()) == {"0"}
    peak = int(status.partition("VmHWM:")[2].split()[0]) << 10
    assert peak < 200 << 20, f"{peak >> 20} MB"


@pytest.mark.parametrize(
    "target", first(1, [["l.zarr"], ["s", "--to", "stage1"], ["l.pbin"]]), ids=lambda words: words[0]
)
def test_a_long_sequence_is_converted(long_one, home, target):
    peak, _ = peak_of(["convert", long_one, *target, "-q", "--eos", EOS], home)
    assert peak < 160 << 20, f"{peak >> 20} MB"


# ten thousand sources


def small_pack(number):
    ids = [number % 50_000, number // 50_000, EOS]
    return struct.pack("<QI", 6, 2) + np.array(ids, "<u2").tobytes() + pickle.dumps([(0, 6)], protocol=4)


@FUZZ_ONLY
def test_ten_thousand_packs(tmp_path):
    for number in range(10_000):
        (tmp_path / f"part-{number}.pbin").write_bytes(small_pack(number))
    peak, _ = peak_of(["convert", "part-*.pbin", "out.pbin", "-q", "--eos", EOS], tmp_path, files=400)
    assert peak < 200 << 20, f"{peak >> 20} MB"
    ids = np.frombuffer((tmp_path / "out.pbin").read_bytes()[12 : 12 + 60_000], "<u2").reshape(-1, 3)
    assert ids[:, 0].tolist() == list(range(10_000))  # in natural order
    manifest = json.loads((tmp_path / "out.pbin.tokfmt.json").read_text())
    assert len(manifest["sources"]) == 10_000
    assert manifest["eos_id"] == EOS


@FUZZ_ONLY
def test_ten_thousand_blocks(tmp_path):
    for number in range(10_000):
        (tmp_path / f"stage1_block_{number:04d}.bin").write_bytes(np.array([number, EOS], "<i4").tobytes())
    peak, _ = peak_of(["convert", ".", tmp_path.parent / "out.jsonl", "--from", "stage1", "-q"], tmp_path, files=400)
    lines = (tmp_path.parent / "out.jsonl").read_text().splitlines()
    assert lines == [json.dumps({"input_ids": [number]}) for number in range(10_000)]
    assert peak < 200 << 20, f"{peak >> 20} MB"


@FUZZ_ONLY
def test_ten_thousand_texts(tmp_path):
    for number in range(10_000):
        (tmp_path / f"{number}.jsonl").write_text(f'{{"text": "number {number}"}}\n')
    peak, _ = peak_of(["convert", "*.jsonl", "all.jsonl", "-q", "--no-manifest"], tmp_path, files=400)
    lines = (tmp_path / "all.jsonl").read_text().splitlines()
    assert lines == [f'{{"text": "number {number}"}}' for number in range(10_000)]
    assert peak < 200 << 20, f"{peak >> 20} MB"


@FUZZ_ONLY
def test_work_is_linear_in_sources(tmp_path):
    """Questions to the file system, of 200 sources more each time."""
    counts = []
    for sources in (200, 400, 600):
        paths = [tmp_path / f"{number}.pbin" for number in range(sources)]
        for number, path in enumerate(paths):
            path.write_bytes(small_pack(number))
        with asked_of(tmp_path) as asked:
            tokfmt.convert(paths, tmp_path / f"out-{sources}.pbin", executor="serial", eos=EOS)
        counts.append(asked.questions)
    first, second = np.diff(counts).tolist()
    assert second < 1.1 * first, counts
