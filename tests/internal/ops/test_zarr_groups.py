"""Groups, arrays and stores of zarr are opened, and a group is the destination of a conversion."""

import pytest
import zarr
from paths import FIXTURES
from zarr.storage import MemoryStore

import tokfmt
from tokfmt.core.errors import TokenRangeError

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


@pytest.fixture(params=[2, 3])
def group(request):
    return zarr.open_group(MemoryStore(), mode="w", zarr_format=request.param)


def test_what_fails_leaves_the_group_as_it_was(group, monkeypatch, tmp_path):
    (tmp_path / "x.jsonl").write_text('{"input_ids": [1, 4294967295]}\n')
    with pytest.raises(TokenRangeError):
        tokfmt.convert(tmp_path / "x.jsonl", group)
    assert list(group.keys()) == []
    tokfmt.convert(PACK, group, dry_run=True)
    assert list(group.keys()) == []

    def failing(self, key, value):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zarr.Array, "__setitem__", failing)
    with pytest.raises(OSError, match="No space"):
        tokfmt.convert(PACK, group)
    assert list(group.keys()) == []
