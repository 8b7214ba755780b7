"""What is far larger than memory, or far more than usual: within the memory rule, and in linear work."""

import gc
import struct
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from paths import FIXTURES
from peak import peak_of

import tokfmt
from tokfmt.formats.pickled_index import write_entries

pytestmark = pytest.mark.slow
ENTRIES = 3_000_000


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("scale")


# an index of millions of entries; of 100 M: `python -m benchmarks scale-index`


@pytest.fixture(scope="module")
def pack(home):
    """Three million documents of four tokens."""
    path, size = home / "index.pbin", 8
    batches = (
        (np.arange(a, min(ENTRIES, a + 65536)) * size, np.full(min(65536, ENTRIES - a), size))
        for a in range(0, ENTRIES, 65536)
    )
    with open(path, "wb") as file:
        file.write(struct.pack("<QI", ENTRIES * size, 2))
        file.seek(12 + ENTRIES * size)
        file.writelines(write_entries(ENTRIES, batches))
    return path


def test_an_index_is_no_python_objects(pack):
    tokfmt.open(FIXTURES / "modalities" / "D_2byte_gpt2.pbin")  # what is imported is no index
    gc.collect()
    before = len(gc.get_objects())
    tracemalloc.start()
    try:
        dataset = tokfmt.open(pack, eos="none")
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(dataset) == ENTRIES
    assert dataset[ENTRIES - 1].tolist() == [0] * 4
    assert held < 8 * ENTRIES + (8 << 20)
    if sys.version_info < (3, 13):  # from there on tracemalloc counts an array that is shrunk in place twice
        assert peak < 16 * ENTRIES + (16 << 20)
    assert len(gc.get_objects()) - before < 20_000


def test_an_index_is_opened_in_little_memory(pack):
    """The same bound for what is resident, whatever the version of Python."""
    tokfmt.open(FIXTURES / "modalities" / "D_2byte_gpt2.pbin")  # what is imported is no index
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins anew
    before = resident("VmRSS")
    dataset = tokfmt.open(pack, eos="none")
    assert resident("VmHWM") - before < 16 * ENTRIES + (16 << 20)
    assert len(dataset) == ENTRIES


def resident(name):
    return int(Path("/proc/self/status").read_text().partition(f"{name}:")[2].split()[0]) << 10


def test_an_index_is_merged_in_little_memory(pack, home):
    """Eight bytes a sequence of each source are held, and nothing for the destination."""
    peak, _ = peak_of(["convert", pack, pack, "merged.pbin", "--eos", "0", "--no-manifest", "-q"], home)
    assert peak < 2 * 8 * ENTRIES + (160 << 20), f"{peak >> 20} MB"
    assert len(tokfmt.open(home / "merged.pbin", eos="none")) == 2 * ENTRIES
    (home / "merged.pbin").unlink()
