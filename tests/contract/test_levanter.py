"""levanter is only read: caches that zarr writes, of any rows, are read back; the oracle is zarr."""

import json

import pytest
import zarr
from caches import cache

import tokfmt
from tokfmt.core.errors import OptionError, UnsupportedError
from tokfmt.formats.levanter import FORMAT
from tokfmt.plugin import Target
from tokfmt.testing import read, sequences


def test_items_behind_the_last_row_do_not_count(tmp_path):
    folder = cache(tmp_path, [[[1, 2], [3]]])
    zarr.open_array(str(folder / "part-00000/input_ids/data"))[3:9] = 7
    assert sequences(read(FORMAT, folder, eos_id="none")) == [[1, 2], [3]]


def test_it_is_not_written(tmp_path):
    with pytest.raises(OptionError, match="cannot write Levanter.s caches"):
        FORMAT.writer(tmp_path / "x", FORMAT.write_options(), Target())


def test_leaf_below_another(tmp_path):
    """Levanter names the leaf of a list in a record by its number. The option takes such a name, and the error lists it."""
    folder = cache(tmp_path, [[[1, 2], [3]]])
    part = folder / "part-00000"
    (part / "input_ids").rename(part / "leaf")
    (part / "input_ids").mkdir()
    (part / "leaf").rename(part / "input_ids" / "0")
    with pytest.raises(UnsupportedError, match="found input_ids/0. .*leaf.*input_ids/0"):
        tokfmt.info(folder)
    with tokfmt.open(folder, options={"leaf": "input_ids/0"}, eos="none") as dataset:
        assert [ids.tolist() for ids in dataset] == [[1, 2], [3]]


def test_shard_index_in_the_other_byte_order(tmp_path):
    """What was expected and what was found differ in words."""
    folder = cache(tmp_path, [[[1, 2], [3]]])
    path = folder / "part-00000/input_ids/data/zarr.json"
    described = json.loads(path.read_text())
    described["codecs"][0]["configuration"]["index_codecs"][0]["configuration"]["endian"] = "big"
    path.write_text(json.dumps(described))
    with pytest.raises(UnsupportedError) as raised:
        tokfmt.stats(folder, eos="none")
    assert ("little-endian" in raised.value.expected, "big-endian" in raised.value.found) == (True, True)
