"""flat-tokens as others write it: seqax' own stores, zarr-python's v2 and v3, zips; splits, threads, limits."""

import json
import pickle
import warnings
import zipfile

import numpy as np
import pytest
import zarr
from paths import FIXTURES

from tokfmt.core.format import Confidence, look
from tokfmt.core.ragged import Ragged
from tokfmt.formats.flat_tokens import FORMAT
from tokfmt.testing import read, sequences, write

GOLDEN = FIXTURES / "flat-tokens"
EXPECTED = {k: v for k, v in json.loads((GOLDEN / "expected.json").read_bytes()).items() if k.endswith(".zarr")}
DATA = [[7, 8], [], [9], [1] * 37, [], [2147483647, 0, 0], [50256] * 90, []]


def encoded(lists):
    ragged = Ragged.of(lists)
    tokens = ragged.tokens.astype("u4") << 1
    starts = ragged.offsets.astype("u8")
    tokens[np.unique(starts[starts < len(tokens)])] |= 1
    return tokens, starts


@pytest.mark.parametrize("name", EXPECTED)
def test_sniff(name):
    assert FORMAT.sniff(look(GOLDEN / name)) is Confidence.CERTAIN


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_zip_of_zarr_python(tmp_path, zarr_format):
    """Its metadata is written twice, so that members repeat: the last one counts."""
    path = tmp_path / "x.zip"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store = zarr.storage.ZipStore(path, mode="w")
        group = zarr.create_group(store, zarr_format=zarr_format, attributes={"max_token_id": 0})
        group.attrs["max_token_id"] = 2**31 - 1
        tokens, starts = encoded(DATA)
        group.create_array("encoded_tokens", data=tokens, chunks=(16,))
        group.create_array("seq_starts", data=starts, chunks=(16,))
        store.close()
    names = zipfile.ZipFile(path).namelist()
    assert len(names) > len(set(names))
    assert FORMAT.sniff(look(path)) is Confidence.CERTAIN
    reader = read(FORMAT, path)
    assert sequences(reader) == DATA
    assert sequences(pickle.loads(pickle.dumps(reader))) == DATA


def test_a_group_without_its_file_is_noted(tmp_path):
    path = write(FORMAT, tmp_path / "x.zarr", Ragged.of([[1, 9]]))
    (path / ".zgroup").unlink()
    reader = read(FORMAT, path)
    assert FORMAT.sniff(look(path)) is Confidence.CERTAIN
    assert sequences(reader) == [[1, 9]]
    assert reader.info.notes == ("x.zarr: .zgroup is missing; zarr does not open the group",)


def test_what_is_not_flat_tokens_is_not_claimed(tmp_path):
    zarr.create_group(tmp_path / "other", zarr_format=2).create_array("a", shape=(3,), dtype="f4")
    assert FORMAT.sniff(look(tmp_path / "other")) is None
    (tmp_path / "other").rename(tmp_path / "other.zarr")
    assert FORMAT.sniff(look(tmp_path / "other.zarr")) is Confidence.NAME
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert FORMAT.sniff(look(tmp_path / "other.zip")) is None
    bad = FIXTURES / "bad/flat-tokens/meta_name_of_example"
    assert FORMAT.sniff(look(bad)) is Confidence.STRUCTURE
