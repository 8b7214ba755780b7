"""levanter is only read: caches that zarr writes, of any rows, are read back; the oracle is zarr."""

import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from caches import cache
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tokfmt.core.format import Hints, look, unrelated_files
from tokfmt.formats.levanter import FORMAT
from tokfmt.testing import datasets, read, sequences

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
        assert unrelated_files(FORMAT, folder) == []


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
    assert FORMAT.sniff(look(folder)) == 4
    (folder / "thesis.tex").write_text("not of the cache")
    assert [path.name for path in unrelated_files(FORMAT, folder)] == ["thesis.tex"]
    assert not {path.name for path in FORMAT.files(folder)} & {"thesis.tex"}
