"""levanter is only read: caches that zarr writes, of any rows, are read back; the oracle is zarr."""

import json
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
import registered
import zarr
from caches import cache
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tokfmt
from tokfmt.errors import UnsupportedError
from tokfmt.files.file import everything_in
from tokfmt.formats.levanter import FORMAT
from tokfmt.plugin import Confidence, Hints
from tokfmt.testing import datasets, read, sequences


def test_items_behind_the_last_row_do_not_count(tmp_path):
    folder = cache(tmp_path, [[[1, 2], [3]]])
    zarr.open_array(str(folder / "part-00000/input_ids/data"))[3:9] = 7
    assert sequences(read(FORMAT, folder, eos_id="none")) == [[1, 2], [3]]


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


quick = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


@quick
@given(st.lists(datasets(2**31 - 1, max_sequences=4, max_length=9), max_size=3), st.sampled_from(["int32", "uint32"]))
def test_rows_of_every_shard_in_order(shards, dtype):
    with tempfile.TemporaryDirectory() as home:
        folder = cache(
            Path(home), [shard.tolist() for shard in shards], dtype, cname="lz4" if dtype == "int32" else "zstd"
        )
        reader = read(FORMAT, folder, eos_id="none", options={"holes": "fill"})
        expected = [row for shard in shards for row in shard.tolist()]
        assert sequences(reader) == expected
        total = reader.info.tokens
        assert total == sum(map(len, expected))
        for a, b, c in ((0, total // 2, total), (total // 3, total // 2, total)):
            whole = np.concatenate([reader.tokens(a, b), reader.tokens(b, c)])
            assert np.array_equal(whole, reader.tokens(a, c))
        for start, stop in ((-1, 0), (0, total + 1), (1, 0)):
            with pytest.raises(IndexError):
                reader.tokens(start, stop)
        reader.close()
        assert set(FORMAT.files(folder)) == set(everything_in(folder))


def test_a_reader_travels_and_knows_chunks(tmp_path):
    rng = np.random.default_rng(3)
    rows = [rng.integers(0, 50_000, int(n)).tolist() for n in rng.integers(0, 40_000, 30)]
    folder = cache(tmp_path, [rows[:10], [], rows[10:]])
    stored = FORMAT.open([folder], FORMAT.read_options(), Hints(no_eos=True))
    again = pickle.loads(pickle.dumps(stored))
    assert np.array_equal(again.tokens(0, stored.info.tokens), [t for row in rows for t in row])
    for position in (0, 300_000, stored.info.tokens - 1):
        place = stored.locate(position)
        assert place.width is None and place.offset < place.path.stat().st_size
        assert 0 <= position - stored.find(place.path, place.offset) < 1 << 18
    assert registered.sniffed(FORMAT, folder) is Confidence.CERTAIN
    (folder / "thesis.tex").write_text("not of the cache")
    assert set(everything_in(folder)) - set(FORMAT.files(folder)) == {folder / "thesis.tex"}
