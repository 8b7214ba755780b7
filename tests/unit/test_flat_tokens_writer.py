"""flat-tokens as written: chunk for chunk what seqax writes, once it is decoded, and readable by zarr-python without its index of metadata."""

import json
import warnings

import numcodecs
import numpy as np
import pytest
import zarr
from paths import FIXTURES

from tokfmt.core.format import Receipt, Target
from tokfmt.core.memory import MemoryReader
from tokfmt.core.ragged import Ragged
from tokfmt.errors import OptionError, TokenRangeError
from tokfmt.formats.flat_tokens import FORMAT
from tokfmt.formats.flat_tokens.options import WriteOptions
from tokfmt.testing import read, sequences, write

GOLDEN = FIXTURES / "flat-tokens"
EXPECTED = {k: v for k, v in json.loads((GOLDEN / "expected.json").read_bytes()).items() if k.endswith(".zarr")}
CASES = [(name, split) for name, case in EXPECTED.items() for split in case.get("splits", [None])]


def files(path):
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(("name", "split"), CASES)
def test_chunk_files_are_those_of_seqax(tmp_path, name, split):
    case = EXPECTED[name]
    data = Ragged.of(case["splits"][split] if split else case["sequences"])
    options = {
        "split": split or "none",
        "chunk": case["tokens_chunk_size"],
        "starts_chunk": case["seq_starts_chunk_size"],
    }
    ours = files(write(FORMAT, tmp_path / "x.zarr", data, options=options) / (split or "."))
    theirs = files(GOLDEN / name / (split or "."))
    assert ours.keys() == theirs.keys()
    for key, content in theirs.items():
        if key.endswith(".zarray"):
            theirs_meta, ours_meta = json.loads(content), json.loads(ours[key])
            if key.startswith("encoded_tokens"):
                assert (theirs_meta.pop("fill_value"), ours_meta.pop("fill_value")) == (None, 0)
            assert ours_meta == {"dimension_separator": "."} | theirs_meta
        elif key.startswith(".z"):
            assert json.loads(ours[key]) == json.loads(content)
        else:
            codec = numcodecs.get_codec(json.loads(theirs[f"{key.split('/')[0]}/.zarray"])["compressor"])
            assert codec.decode(ours[key]) == codec.decode(content), key


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_nothing_at_all(tmp_path, zarr_format):
    """Upstream's empty array has no chunk files: the value 0 of seq_starts comes from the fill value."""
    path = write(FORMAT, tmp_path / "x.zarr", Ragged.of([]), options={"zarr_format": zarr_format})
    assert not [name for name in files(path) if name[-1].isdigit()]
    group = zarr.open_group(path, mode="r", zarr_format=zarr_format, use_consolidated=False)["train"]
    assert (group["encoded_tokens"].shape, group["seq_starts"][:].tolist()) == ((0,), [0])
    assert group.attrs["max_token_id"] == 0


@pytest.mark.parametrize("codec", ["blosc", "zstd", "gzip", "none"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_python_reads_every_kind(tmp_path, codec, zarr_format):
    lists = [[], [5, 6, 7], [], [2**31 - 1] * 20, [], []]
    options = {"codec": codec, "zarr_format": zarr_format, "chunk": 8, "starts_chunk": 3, "split": "validation"}
    path = write(FORMAT, tmp_path / "x.zarr", Ragged.of(lists), options=options)
    group = zarr.open_group(path, mode="r", zarr_format=zarr_format, use_consolidated=False)["validation"]
    tokens, starts = group["encoded_tokens"][:], group["seq_starts"][:]
    assert starts.tolist() == [0, 0, 3, 3, 23, 23, 23]
    assert tokens.tolist() == [11, 12, 14, 2**32 - 1] + [2**32 - 2] * 19
    assert group.attrs["max_token_id"] == 2**31 - 1
    assert sequences(read(FORMAT, path)) == lists


def test_chunks_of_zeros_are_written(tmp_path):
    """zarr 2 reads a chunk that is not there, and has no fill value, as whatever memory held."""
    path = write(FORMAT, tmp_path / "x.zarr", Ragged.of([[1] + [0] * 30]), options={"chunk": 4, "starts_chunk": 1})
    assert len(list((path / "train/encoded_tokens").glob("[0-9]*"))) == 8
    assert len(list((path / "train/seq_starts").glob("[0-9]*"))) == 2
    metas = [json.loads(p.read_bytes()) for p in path.rglob(".zarray")]
    assert [type(meta["fill_value"]) for meta in metas] == [int, int]
    assert not list(path.rglob(".zmetadata"))


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8"])
@pytest.mark.parametrize("chunk", [3, 1 << 20, (1 << 20) + 1])
def test_narrow_ids_do_not_wrap(tmp_path, dtype, chunk):
    top = min(np.iinfo(dtype).max, 2**31 - 1)
    data = Ragged.of([[top, top, 0], [top]], np.dtype(dtype))
    path = write(FORMAT, tmp_path / "x.zarr", data, options={"chunk": chunk})
    assert sequences(read(FORMAT, path)) == data.tolist()
    assert json.loads((path / "train/.zattrs").read_bytes()) == {"max_token_id": top}


def test_the_position_of_an_id_that_is_too_large(tmp_path):
    data = Ragged.of([[1, 2], [3, 2**31 + 5]], np.dtype("u8"))
    with pytest.raises(TokenRangeError, match=r"ID 2,147,483,653 at position 3 .* no room for the start bit"):
        write(FORMAT, tmp_path / "x.zarr", data, options={"chunk": 2})


def test_chunks_larger_than_a_window(tmp_path):
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 50257, 5_000_000).astype(np.uint32)
    offsets = np.sort(np.concatenate(([0, 0, len(ids)], rng.integers(0, len(ids), 9000)))).astype(np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = write(FORMAT, tmp_path / "one.zarr", Ragged(ids, offsets), options={"chunk": 1_500_000})
        many = write(FORMAT, tmp_path / "many.zarr", Ragged(ids, offsets), options={"chunk": 1_500_000}, size=1)
    assert files(one) == files(many)
    group = zarr.open_group(one, mode="r", zarr_format=2, use_consolidated=False)["train"]
    stored = group["encoded_tokens"][:]
    assert np.array_equal(stored >> 1, ids)
    assert np.array_equal(np.flatnonzero(stored & 1), np.unique(offsets[:-1][offsets[:-1] < len(ids)]))
    assert np.array_equal(group["seq_starts"][:].astype(np.int64), offsets)


def test_metadata_comes_last(tmp_path):
    """Before commit nothing can be read as a store."""
    source = MemoryReader(Ragged.of([[1, 2], [3]]))
    writer = FORMAT.writer(tmp_path / "x.zarr", WriteOptions(chunk=2), Target())
    writer.create(source)
    receipts = [writer.write(region, source) for region in writer.regions(source, 2)]
    assert receipts == [Receipt(0, 2, receipts[0].written), Receipt(1, 3, receipts[1].written)]
    assert not [name for name in files(tmp_path / "x.zarr") if "/.z" in name]
    writer.commit(source, receipts)
    assert sequences(read(FORMAT, tmp_path / "x.zarr")) == [[1, 2], [3]]


def test_metadata_is_stable(tmp_path):
    path = write(FORMAT, tmp_path / "x.zarr", Ragged.of([[1, 2]]))
    assert (path / ".zgroup").read_bytes() == b'{\n    "zarr_format": 2\n}'
    assert (path / "train/.zattrs").read_bytes() == b'{\n    "max_token_id": 2\n}'


@pytest.mark.parametrize(
    "options",
    [{"chunk": 0}, {"chunk": (1 << 25) + 1}, {"starts_chunk": 0}, {"starts_chunk": (1 << 24) + 1}, {"split": "../x"},
     {"split": "a/b"}, {"split": ".z"}, {"codec": "pickle"}, {"zarr_format": "4"}],
)  # fmt: skip
def test_options_that_cannot_be(tmp_path, options):
    with pytest.raises(OptionError):
        write(FORMAT, tmp_path / "x", Ragged.of([[1]]), options={k: str(v) for k, v in options.items()})
