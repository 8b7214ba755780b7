"""levanter is only read: caches that zarr writes, of any rows, are read back; the oracle is zarr."""

import pytest
import zarr
from caches import cache

from tokfmt.core.errors import OptionError
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
