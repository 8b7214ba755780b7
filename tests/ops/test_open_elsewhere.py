"""HDF5 files that a process has open for writing, or had when it was killed, are not damaged."""

import os
import subprocess
import sys

import h5py
import numpy as np
import pytest

import tokfmt
from tokfmt.errors import UnsupportedError

IDS = np.array([5, 6, 0, 7, 8, 9, 0], "<u2")
WRITER = """
import h5py, os, sys
file = h5py.File(sys.argv[1], "w", libver=sys.argv[2])
file.create_dataset("data", data=[5, 6, 0, 7, 8, 9, 0], dtype="<u2")
file.flush()
print("written", flush=True)
if sys.argv[3] == "wait":
    sys.stdin.read()
os._exit(0)
"""


def corpus(path, libver=None):
    with h5py.File(path, "w", libver=libver) as file:
        file["data"] = IDS
    return path


def documents(path):
    with tokfmt.open(path, eos=0) as dataset:
        return [ids.tolist() for ids in dataset]


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("locking", [None, True, False])
def test_this_process_reads_it(tmp_path, libver, locking):
    """The library asks every opening of one process for the same choice of locks."""
    path = corpus(tmp_path / "x.h5", libver)
    with h5py.File(path, "r", locking=locking):
        assert documents(path) == [[5, 6], [7, 8, 9]]
    assert documents(path) == [[5, 6], [7, 8, 9]]


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("mode", ["r+", "a"])
@pytest.mark.parametrize("locking", [None, False])
def test_this_process_writes_it(tmp_path, libver, mode, locking):
    """What the library holds in memory is not in the file yet, so the file is not read, and not called damaged."""
    path = corpus(tmp_path / "x.h5", libver)
    with h5py.File(path, mode, locking=locking) as file:
        file["data"][0] = 4
        with pytest.raises(UnsupportedError, match="open for writing|still has it open") as raised:
            documents(path)
        assert "Copy" not in str(raised.value)
    assert documents(path) == [[4, 6], [7, 8, 9]]


def test_killed_writer(tmp_path):
    path = tmp_path / "x.h5"
    subprocess.run([sys.executable, "-c", WRITER, path, "latest", "die"], check=True, capture_output=True)
    with pytest.raises(UnsupportedError, match=r"killed.*h5clear -s"):
        documents(path)
    (report,) = tokfmt.check(path)
    assert report.errors == 1 and "h5clear" in report.findings[0].remedy


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="the system lists no locks")
def test_process_that_writes_it(tmp_path):
    path = tmp_path / "x.h5"
    command = [sys.executable, "-c", WRITER, path, "latest", "wait"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"written\n"
        with pytest.raises(UnsupportedError, match=f"open for writing in process {writer.pid}"):
            documents(path)
        writer.communicate()


@pytest.mark.parametrize("stated", [True, False])
def test_number_of_samples_of_a_cut_file(tmp_path, stated):
    """The attribute is there, so a file that was cut does not lack it."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        rows = np.ones((50, 3, 16), "<i4")
        if stated:
            file.attrs["n_examples"] = 50
        file["data"] = rows
    os.truncate(path, path.stat().st_size - 3 * 16 * 4 * 5)
    done = tokfmt.convert(
        path, tmp_path / "x.jsonl", allow_partial=True, options={"view": "samples"}, allow_loss="loss-mask"
    )
    assert 40 <= done.sequences < 50
    assert any("n_examples is missing" in note for note in done.notes) is not stated
