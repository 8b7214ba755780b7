"""Room on the file system of a destination: what plainly does not fit is refused before a byte is written."""

import os
from types import SimpleNamespace

import numpy as np
import pytest
from paths import FIXTURES

from tokfmt import convert
from tokfmt.commands.guards import free_bytes, sized, taken_bytes

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"  # 2,004 tokens
TEN_TB = 10 * 10**12


def sparse(folder):
    """Ten terabytes of zeros that take no space: datatrove's tokens, and an index of one document."""
    path = folder / "huge.ds"
    path.touch()
    os.truncate(path, TEN_TB)
    np.asarray([TEN_TB // 2], "<u8").tofile(folder / "huge.ds.index")
    return path


def test_a_file_system_that_reports_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=0, f_frsize=512, f_blocks=0))
    assert free_bytes(tmp_path) is None
    assert convert(PACK, tmp_path / "out.ds").tokens == 2004


def test_holes_take_no_space(tmp_path):
    sparse(tmp_path)
    assert taken_bytes(tmp_path) < 1 << 20


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (TEN_TB, "10.0 TB"), (10**18, "1,000.0 PB")],
)
def test_sizes_for_people(count, words):
    assert sized(count) == words
