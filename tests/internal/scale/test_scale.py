"""What is far larger than memory, or far more than usual: within the memory rule, and in linear work."""

import pickle
import struct

import numpy as np
import pytest
from peak import peak_of

from tokfmt.ops.source.manifest import read_manifest

pytestmark = pytest.mark.slow

EOS = 50256


# ten thousand sources


def small_pack(number):
    ids = [number % 50_000, number // 50_000, EOS]
    return struct.pack("<QI", 6, 2) + np.array(ids, "<u2").tobytes() + pickle.dumps([(0, 6)], protocol=4)


def test_ten_thousand_packs(tmp_path):
    for number in range(10_000):
        (tmp_path / f"part-{number}.pbin").write_bytes(small_pack(number))
    peak, _ = peak_of(["convert", "part-*.pbin", "out.pbin", "-q", "--eos", EOS], tmp_path, files=400)
    assert peak < 200 << 20, f"{peak >> 20} MB"
    ids = np.frombuffer((tmp_path / "out.pbin").read_bytes()[12 : 12 + 60_000], "<u2").reshape(-1, 3)
    assert ids[:, 0].tolist() == list(range(10_000))  # in natural order
    said = read_manifest(tmp_path / "out.pbin").content
    assert len(said["sources"]) == 10_000
    assert said["eos_id"] == EOS
