"""flat-tokens as others write it: seqax' own stores, zarr-python's v2 and v3, zips; splits, threads, limits."""

import contextlib
import json
import pickle
import shutil
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numcodecs
import numpy as np
import pytest
import zarr
from paths import FIXTURES

from tokfmt.core.ragged import Ragged
from tokfmt.errors import CorruptError, OptionError, SourceChangedError, TokfmtError, UnsafeError
from tokfmt.files.place import LocalPlace
from tokfmt.formats.flat_tokens import FORMAT
from tokfmt.formats.flat_tokens.options import ReadOptions
from tokfmt.plugin import Confidence, Hints, Probe
from tokfmt.testing import read, sequences, write

GOLDEN = FIXTURES / "flat-tokens"
EXPECTED = {k: v for k, v in json.loads((GOLDEN / "expected.json").read_bytes()).items() if k.endswith(".zarr")}
CASES = [(name, split) for name, case in EXPECTED.items() for split in case.get("splits", [None])]
DATA = [[7, 8], [], [9], [1] * 37, [], [2147483647, 0, 0], [50256] * 90, []]


def wanted(name, split):
    return EXPECTED[name]["splits"][split] if split else EXPECTED[name]["sequences"]


def encoded(lists):
    ragged = Ragged.of(lists)
    tokens = ragged.tokens.astype("u4") << 1
    starts = ragged.offsets.astype("u8")
    tokens[np.unique(starts[starts < len(tokens)])] |= 1
    return tokens, starts


def by_zarr(path, lists=DATA, zarr_format=3, store=None, tokens_in=None, starts_in=None, **both):
    """A bare array written by zarr-python."""
    if starts_in is None:
        starts_in = {}
    if tokens_in is None:
        tokens_in = {}
    tokens, starts = encoded(lists)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        group = zarr.create_group(store or path, zarr_format=zarr_format, attributes={"max_token_id": 2**31 - 1})
        for name, values, options in (("encoded_tokens", tokens, tokens_in), ("seq_starts", starts, starts_in)):
            group.create_array(name, **({"data": values, "chunks": (16,)} | both | options))
    return path


@pytest.mark.parametrize(("name", "split"), CASES)
def test_goldens(name, split):
    reader = read(FORMAT, GOLDEN / name, options={"split": split} if split else {})
    assert sequences(reader) == wanted(name, split)
    others = {s for s in EXPECTED[name].get("splits", ()) if s != split}
    assert set(reader.info.other_splits) == others
    stated = EXPECTED[name]["max_token_id"]
    assert reader.info.extras["max_token_id"] == (stated[split] if split else stated)
    assert not reader.info.notes


def test_the_default_split_is_train_or_the_only_one(tmp_path):
    assert sequences(read(FORMAT, GOLDEN / "doc_example.zarr")) == wanted("doc_example.zarr", "train")
    shutil.copytree(GOLDEN / "doc_example.zarr", tmp_path / "x.zarr")
    shutil.rmtree(tmp_path / "x.zarr/train")
    assert sequences(read(FORMAT, tmp_path / "x.zarr")) == wanted("doc_example.zarr", "validation")


def test_several_splits_and_none_called_train(tmp_path):
    shutil.copytree(GOLDEN / "doc_example.zarr", tmp_path / "x.zarr")
    (tmp_path / "x.zarr/train").rename(tmp_path / "x.zarr/test")
    with pytest.raises(OptionError, match=r"several splits \(test, validation\)"):
        read(FORMAT, tmp_path / "x.zarr")
    assert sequences(read(FORMAT, tmp_path / "x.zarr", options={"split": "test"})) == [[1, 2], [3, 4, 5], [6, 7, 8]]


@pytest.mark.parametrize("split", ["../train", "nothing", "/", ".zgroup", "train/encoded_tokens"])
def test_a_split_that_is_not_there(split):
    with pytest.raises(OptionError, match=r"train, validation"):
        read(FORMAT, GOLDEN / "doc_example.zarr", options={"split": split})


def test_a_bare_array_has_no_split():
    with pytest.raises(OptionError, match="without splits"):
        read(FORMAT, GOLDEN / "doc_example_bare.zarr", options={"split": "train"})


V2 = {
    "blosc": numcodecs.Blosc("lz4", 5, 2),
    "blosc zstd": numcodecs.Blosc("zstd", 3, 1),
    "blosc unshuffled": numcodecs.Blosc("blosclz", 9, 0),
    "blosc zlib": numcodecs.Blosc("zlib", 1, 1, 256),
    "zstd": numcodecs.Zstd(3),
    "zstd checksum": numcodecs.Zstd(3, checksum=True),
    "lz4": numcodecs.LZ4(),
    "gzip": numcodecs.GZip(1),
    "zlib": numcodecs.Zlib(1),
    "none": None,
}


@pytest.mark.parametrize("codec", V2)
@pytest.mark.parametrize("dtype", ["<", ">"])
def test_zarr_v2_of_zarr_python(tmp_path, codec, dtype):
    tokens, starts = encoded(DATA)
    group = zarr.create_group(tmp_path / "x.zarr", zarr_format=2, attributes={"max_token_id": 2**31 - 1})
    for name, values in (("encoded_tokens", tokens.astype(f"{dtype}u4")), ("seq_starts", starts.astype(f"{dtype}u8"))):
        group.create_array(name, data=values, chunks=(16,), compressors=V2[codec], config={"write_empty_chunks": True})
    reader = read(FORMAT, tmp_path / "x.zarr")
    assert sequences(reader) == DATA
    assert ("big-endian" in "".join(reader.info.notes)) is (dtype == ">")


def test_zarr_v2_with_slashes_between_numbers_and_delta(tmp_path):
    filters = {"filters": [numcodecs.Delta("<i8")]}
    by_zarr(tmp_path / "x.zarr", zarr_format=2, starts_in=filters, chunk_key_encoding={"name": "v2", "separator": "/"})
    assert json.loads((tmp_path / "x.zarr/seq_starts/.zarray").read_bytes())["filters"]
    assert sequences(read(FORMAT, tmp_path / "x.zarr")) == DATA


V3 = {
    "default": {},
    "blosc": {"compressors": zarr.codecs.BloscCodec(cname="zstd", shuffle="shuffle")},
    "gzip": {"compressors": zarr.codecs.GzipCodec()},
    "crc32c": {"compressors": [zarr.codecs.ZstdCodec(), zarr.codecs.Crc32cCodec()]},
    "crc32c alone": {"compressors": zarr.codecs.Crc32cCodec()},
    "none": {"compressors": None},
    "big-endian": {"serializer": zarr.codecs.BytesCodec(endian="big")},
    "points": {"chunk_key_encoding": {"name": "default", "separator": "."}},
    "v2 keys": {"chunk_key_encoding": {"name": "v2"}},
    "shards": {"shards": (64,)},
    "one shard": {"shards": (256,)},
}


@pytest.mark.parametrize("how", V3)
def test_zarr_v3_of_zarr_python(tmp_path, how):
    by_zarr(tmp_path / "x.zarr", **V3[how])
    reader = read(FORMAT, tmp_path / "x.zarr")
    assert sequences(reader) == DATA
    reader.close()
    assert [reader.tokens(p, p + 1).tolist() for p in range(reader.info.tokens)] == [[t] for s in DATA for t in s]


def test_zarr_v3_delta_and_index_at_the_start(tmp_path):
    from zarr.codecs import numcodecs as wrapped

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        delta = wrapped.Delta(dtype="<i8")
    shards = {"shards": {"shape": (64,), "index_location": "start"}, "compressors": zarr.codecs.ZstdCodec()}
    by_zarr(tmp_path / "x.zarr", tokens_in=shards, starts_in={"filters": [delta]})
    assert "numcodecs.delta" in (tmp_path / "x.zarr/seq_starts/zarr.json").read_text()
    assert '"start"' in (tmp_path / "x.zarr/encoded_tokens/zarr.json").read_text()
    assert sequences(read(FORMAT, tmp_path / "x.zarr")) == DATA


def test_chunks_that_zarr_3_leaves_out(tmp_path):
    """Without write_empty_chunks a chunk of zeros is no file; an integer fill value says what it held."""
    data = [[], [], [], [], [5, *[0] * 30, 6]]
    by_zarr(tmp_path / "x.zarr", data, chunks=(4,), zarr_format=2)
    assert len(list((tmp_path / "x.zarr/encoded_tokens").iterdir())) < 9
    assert not (tmp_path / "x.zarr/seq_starts/0").exists()
    assert sequences(read(FORMAT, tmp_path / "x.zarr", options={"holes": "fill"})) == data


SHARDS = {"chunks": (4,), "shards": (16,)}


@pytest.mark.parametrize("options", [{"zarr_format": 2, "chunks": (4,)}, {"chunks": (4,)}, SHARDS], ids=str)
@pytest.mark.parametrize("zipped", [False, True])
def test_a_lost_chunk_is_an_error_of_every_reader_unless_holes_are_accepted(tmp_path, options, zipped):
    """Any one chunk file of either array: nothing else tells a lost one from one that was left out."""
    path = by_zarr(tmp_path / "x.zarr", [[1] * 20, [2] * 30, [3, 4]], **options)
    chunks = [p for p in path.rglob("*") if p.is_file() and p.name.isdigit()]
    assert len(chunks) > (4 if "shards" in options else 12)
    for lost in chunks:
        content = lost.read_bytes()
        lost.unlink()
        place = shutil.make_archive(str(tmp_path / "x"), "zip", path) if zipped else path
        key = lost.relative_to(path).as_posix()
        with pytest.raises(CorruptError, match=rf"{key}: is missing: 1 of \d+ chunks .*holes=fill"):
            read(FORMAT, place)
        assert glimpse([place]) is None or "starts" in key
        assert "TF408" in {f.code for f in FORMAT.audit(LocalPlace(place), ReadOptions()) if f.severity == "error"}
        if "encoded" in key:
            reader = read(FORMAT, place, options={"holes": "fill"})
            assert "chunks of encoded_tokens are not there and read as 0" in " ".join(reader.info.notes)
            with contextlib.suppress(CorruptError):  # a sequence that should begin in the hole
                assert 0 in sum(sequences(reader), [])
        lost.write_bytes(content)


def glimpse(paths):
    return FORMAT.glimpse([LocalPlace(path) for path in paths], ReadOptions(), Hints())


def test_a_chunk_lost_in_a_shard(tmp_path):
    """zarr leaves out chunks of zeros inside a shard as well, and an overwritten index looks the same."""
    path = by_zarr(tmp_path / "x.zarr", [[5, *[0] * 10, 6]], **SHARDS)
    with pytest.raises(CorruptError, match="chunk 1 is not in its shard.*holes=fill"):
        sequences(read(FORMAT, path))
    assert "TF408" in {f.code for f in FORMAT.audit(path, ReadOptions()) if f.severity == "error"}
    assert sequences(read(FORMAT, path, options={"holes": "fill"})) == [[5, *[0] * 10, 6]]


def test_old_consolidated_metadata_is_not_believed(tmp_path):
    path = write(FORMAT, tmp_path / "x.zarr", Ragged.of(DATA), options={"split": "none"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(path, zarr_format=2)
    stale = json.loads((path / ".zmetadata").read_bytes())
    stale["metadata"]["encoded_tokens/.zarray"]["shape"] = [3]
    (path / ".zmetadata").write_text(json.dumps(stale))
    assert sequences(read(FORMAT, path)) == DATA


def test_pickled_and_shared_by_threads(tmp_path):
    rng = np.random.default_rng(3)
    ids = rng.integers(0, 50257, 300_000).astype(np.uint32)
    offsets = np.unique(np.concatenate(([0, len(ids)], rng.integers(0, len(ids), 900)))).astype(np.int64)
    path = write(FORMAT, tmp_path / "x.zarr", Ragged(ids, offsets), options={"chunk": 40_000})
    reader = pickle.loads(pickle.dumps(read(FORMAT, path)))
    places = [tuple(sorted(p)) for p in rng.integers(0, len(ids), (300, 2)).tolist()]
    with ThreadPoolExecutor(4) as pool:
        for (a, b), found in zip(places, pool.map(lambda p: reader.tokens(*p), places), strict=True):
            assert np.array_equal(found, ids[a:b])


def test_small_parts_of_large_chunks(tmp_path):
    """Blocks are decoded alone: of chunks that blosc compressed with threads too, whose blocks lie in any order."""
    rng = np.random.default_rng(4)
    ids = np.minimum(rng.zipf(1.3, 900_000), 50256).astype(np.uint32)
    ids[:500_000] = rng.integers(0, 2**31, 500_000)  # blocks that do not compress beside those that do
    path = write(FORMAT, tmp_path / "x.zarr", Ragged(ids, np.asarray([0, len(ids)])), options={"chunk": 900_000})
    tokens, _ = encoded([ids])
    numcodecs.blosc.use_threads, before = True, numcodecs.blosc.use_threads
    threads = numcodecs.blosc.set_nthreads(4)
    try:
        threaded = numcodecs.blosc.compress(tokens, b"lz4", 5, 2, 1 << 16)
    finally:
        numcodecs.blosc.use_threads = before
        numcodecs.blosc.set_nthreads(threads)
    for chunk in (None, threaded):
        if chunk:
            (path / "train/encoded_tokens/0").write_bytes(chunk)
        reader = read(FORMAT, path)
        places = [*rng.integers(0, len(ids) - 3000, 60).tolist(), 0, len(ids) - 3000, 899_999]
        for a in places:
            b = min(len(ids), a + 3000)
            assert np.array_equal(reader.tokens(a, b), ids[a:b])


def test_a_bound_that_is_wrong_can_be_ignored(tmp_path):
    path = write(FORMAT, tmp_path / "x.zarr", Ragged.of([[1, 9]]), options={"split": "none"})
    for content, match in (('{"max_token_id": 8}', "above max_token_id at token 1"), ("{}", "no usable max_token_id")):
        (path / ".zattrs").write_text(content)
        with pytest.raises(CorruptError, match=match):
            sequences(read(FORMAT, path))
        assert sequences(read(FORMAT, path, options={"bound": "ignore"})) == [[1, 9]]


def test_metadata_of_more_than_a_mebibyte(tmp_path):
    path = write(FORMAT, tmp_path / "x.zarr", Ragged.of([[1, 9]]), options={"split": "none"})
    file = path / "encoded_tokens/.zarray"
    file.write_bytes(file.read_bytes() + b" " * (1 << 20))
    with pytest.raises(UnsafeError, match="at most 1 MiB"):
        read(FORMAT, path)


@pytest.mark.parametrize("fill", [0, None])
@pytest.mark.parametrize("name", ["encoded_tokens", "seq_starts"])
def test_a_store_that_declares_2_to_the_54(tmp_path, fill, name):
    path = write(FORMAT, tmp_path / "x.zarr", Ragged.of([[1, 9]]), options={"split": "none"})
    meta = json.loads((path / name / ".zarray").read_bytes())
    (path / name / ".zarray").write_text(
        json.dumps(meta | {"shape": [1 << 54], "chunks": [1 << 20], "fill_value": fill})
    )
    with pytest.raises(TokfmtError, match="chunks"):
        read(FORMAT, path)


def test_a_chunk_that_goes_away(tmp_path):
    path = write(FORMAT, tmp_path / "x.zarr", Ragged.of([[1, 9]]))
    reader = read(FORMAT, path)
    (path / "train/encoded_tokens/0").unlink()
    with pytest.raises(SourceChangedError, match="disappeared"):
        reader.tokens(0, 2)


@pytest.mark.parametrize("split", ["", "train"])
def test_the_name_of_the_example_is_told_beside_seq_starts(split, tmp_path):
    write(FORMAT, tmp_path / "x.zarr", Ragged.of([[1, 2], [3]]), options={"split": split or "none"})
    (tmp_path / "x.zarr" / split / "encoded_tokens").rename(tmp_path / "x.zarr" / split / "tokens")
    with pytest.raises(CorruptError, match="holds an array tokens, the name in the documentation's example"):
        read(FORMAT, tmp_path / "x.zarr")


NEVER = ["pickle", "msgpack2", "json2", "blosc2"]


@pytest.mark.parametrize("name", [*NEVER, "vlen-utf8", *(f"numcodecs.{name}" for name in NEVER)])
def test_codecs_that_are_never_decoded(tmp_path, name):
    path = by_zarr(tmp_path / "x.zarr") / "encoded_tokens/zarr.json"
    stated = json.loads(path.read_bytes())
    path.write_text(json.dumps({**stated, "codecs": [{"name": "bytes"}, {"name": name, "configuration": {}}]}))
    with pytest.raises(UnsafeError, match="has a codec that tokfmt does not read"):
        read(FORMAT, tmp_path / "x.zarr")


def probe(path):
    """What a format is given to look at."""
    if path.is_dir():
        return Probe(path, True, entries=tuple(sorted(one.name for one in path.iterdir())))
    content = path.read_bytes()
    return Probe(path, False, len(content), content[: 1 << 16], content[-(1 << 16) :])


@pytest.mark.parametrize("name", EXPECTED)
def test_sniff(name):
    assert FORMAT.sniff(probe(GOLDEN / name)) is Confidence.CERTAIN


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
    assert FORMAT.sniff(probe(path)) is Confidence.CERTAIN
    reader = read(FORMAT, path)
    assert sequences(reader) == DATA
    assert sequences(pickle.loads(pickle.dumps(reader))) == DATA


def test_a_group_without_its_file_is_noted(tmp_path):
    path = write(FORMAT, tmp_path / "x.zarr", Ragged.of([[1, 9]]))
    (path / ".zgroup").unlink()
    reader = read(FORMAT, path)
    assert FORMAT.sniff(probe(path)) is Confidence.CERTAIN
    assert sequences(reader) == [[1, 9]]
    assert reader.info.notes == ("x.zarr: .zgroup is missing; zarr does not open the group",)


def test_what_is_not_flat_tokens_is_not_claimed(tmp_path):
    zarr.create_group(tmp_path / "other", zarr_format=2).create_array("a", shape=(3,), dtype="f4")
    assert FORMAT.sniff(probe(tmp_path / "other")) is None
    (tmp_path / "other").rename(tmp_path / "other.zarr")
    assert FORMAT.sniff(probe(tmp_path / "other.zarr")) is Confidence.NAME
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert FORMAT.sniff(probe(tmp_path / "other.zip")) is None
    bad = FIXTURES / "bad/flat-tokens/meta_name_of_example"
    assert FORMAT.sniff(probe(bad)) is Confidence.CERTAIN
