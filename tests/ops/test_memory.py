"""Peak memory does not grow with tokens: 2.2 GB of stage-1 blocks, sparse, under 300 MB."""

import os

import numpy as np
import pytest
from amount import FUZZ_ONLY, every
from peak import peak_of

pytestmark = pytest.mark.slow

LIMIT = 300 << 20
BLOCK, SHORT = 62_500 * 8192, 4_000 * 8192


@pytest.fixture(scope="module")
def blocks(tmp_path_factory):
    """A full block and a short one, 2,179,072,000 bytes, sparse: 544,768,000 tokens in five documents.

    More than 2^31 bytes, and so many tokens that one byte of each, held, is beyond the limit.
    """
    home = tmp_path_factory.mktemp("sparse")
    (home / "blocks").mkdir()
    assert (BLOCK + SHORT) * 4 > 1 << 31
    assert BLOCK + SHORT > LIMIT
    for number, tokens in enumerate((BLOCK, SHORT)):
        with open(home / "blocks" / f"stage1_block_{number:04d}.bin", "wb") as file:
            file.truncate(tokens * 4)
            for at in (1000, tokens - 7):
                file.seek(at * 4)
                file.write(np.array([50256], "<i4").tobytes())
    return home


HDF5 = ["out", "--to", "hdf5", "--seq-len", "8192"]


@FUZZ_ONLY
@pytest.mark.parametrize("words", [["out.zarr"], every(HDF5)], ids=["flat-tokens", "hdf5"])
def test_gigabytes(blocks, words):
    peak, _ = peak_of(["convert", "blocks", *words, "--no-manifest", "-q"], blocks)
    assert peak < LIMIT, f"{peak >> 20} MB"
    assert (blocks / words[0]).exists()


@FUZZ_ONLY
def test_a_part_of_it_in_hdf5(tmp_path):
    """HDF5 takes longest to write: four bytes of each token, held, are beyond the limit here."""
    tokens = 12_000 * 8192
    assert tokens * 4 > LIMIT
    with open(tmp_path / "in.bin", "wb") as file:
        file.truncate(tokens * 4)
        file.write(np.array([7, 1], "<i4").tobytes())
    peak, _ = peak_of(["convert", "in.bin", *HDF5, "--from", "stage1", "--eos", "1", "--no-manifest", "-q"], tmp_path)
    assert peak < LIMIT, f"{peak >> 20} MB"


def test_five_million_sequences(tmp_path):
    """Five million documents of three tokens: offsets take 8 bytes a sequence, nothing else grows."""
    ids = np.tile(np.array([7, 8, 9, 50256], "<i4"), 5_000_000)
    ids.tofile(tmp_path / "in.bin")
    os.truncate(tmp_path / "in.bin", len(ids) * 4 // 32768 * 32768)
    peak, _ = peak_of(["convert", "in.bin", "out.pbin", "--from", "stage1", "-q", "--no-manifest"], tmp_path)
    assert peak < LIMIT, f"{peak >> 20} MB"


@FUZZ_ONLY
@pytest.mark.parametrize(
    "words", [["--shuffle", "1"], every(["--shuffle", "1", "--executor", "processes"]), ["--split", "a=0.9,b=0.1"]],
    ids=["shuffle", "processes", "split"],
)  # fmt: skip
def test_ten_million_sequences_arranged(tmp_path, words):
    """A shuffle holds nothing a sequence; a split holds 8 bytes a sequence and 16 a run."""
    ids = np.tile(np.array([7, 8, 9, 50256], "<i4"), 10_000_000)
    ids.tofile(tmp_path / "in.bin")
    os.truncate(tmp_path / "in.bin", len(ids) * 4 // 32768 * 32768)
    peak, _ = peak_of(["convert", "in.bin", "out.pbin", "--from", "stage1", "-q", "--no-manifest", *words], tmp_path)
    assert peak < LIMIT, f"{peak >> 20} MB"


@FUZZ_ONLY
def test_gigabytes_shuffled(blocks):
    """Sequences of up to 512 million tokens."""
    peak, _ = peak_of(["convert", "blocks", "shuffled.zarr", "--no-manifest", "-q", "--shuffle", "1"], blocks)
    assert peak < LIMIT, f"{peak >> 20} MB"
