"""What no format reads is named by its magic or by its numbers, with the next step, and never as one of the formats."""

import gzip
import io
import json
import pickle
import re
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import registered
from paths import FIXTURES
from registered import detect, sign_of

import tokfmt
from tokfmt.errors import TokfmtError, UnknownFormatError


@pytest.mark.parametrize("name", registered.names())
def test_any_path_read_as_any_format_gives_data_or_an_error(tmp_path, name):
    """A file instead of a folder, a folder instead of a file, or a missing path."""
    for path in ("text.jsonl", "empty", "folder/x.bin"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(b"" if path == "empty" else b'{"text": "one"}\n' * 9)
    (tmp_path / "nothing").mkdir()
    for path in ("text.jsonl", "empty", "folder", "nothing", "nowhere"):
        for verb in (tokfmt.stats, tokfmt.check):
            try:
                verb(tmp_path / path, format=name)
            except TokfmtError as error:
                assert path in str(error)


RNG = np.random.default_rng(8)
IDS = np.minimum(RNG.zipf(1.2, 40_000), 50_256)
WEIGHTS = RNG.normal(0, 0.02, 40_000)
BFLOAT16 = (WEIGHTS.astype("<f4").view("<u4") >> 16).astype("<u2")


@pytest.mark.parametrize("name", ["x.bin", "x"])
@pytest.mark.parametrize("dtype", ["<u2", ">u2", "<i8", ">i4"])
def test_a_stream_without_a_header_only_looks_like_one(tmp_path, name, dtype):
    (tmp_path / name).write_bytes(IDS.astype(dtype).tobytes())
    with pytest.raises(TokfmtError, match=f"{name}: looks like a bare stream of .*token IDs"):
        tokfmt.info(tmp_path / name)


@pytest.mark.parametrize("name", ["x.bin", "x", "train.bin"])
@pytest.mark.parametrize(
    "content",
    [*(WEIGHTS.astype(dtype) for dtype in ("<f4", ">f4", "<f8", "<f2")), BFLOAT16],
    ids=["f4", "big-endian", "f8", "f2", "bfloat16"],
)
def test_floating_point_numbers(tmp_path, name, content):
    (tmp_path / name).write_bytes(content.tobytes())
    with pytest.raises(TokfmtError, match="looks like floating-point numbers"):
        tokfmt.info(tmp_path / name)


@pytest.mark.parametrize(
    ("magic", "words"),
    [(b"\x89PNG\r\n\x1a\n", r"PNG"), (b"\x7fELF\2\1\1\0", "ELF"), (b"\xff\xd8\xff\xe0", "JPEG"), (b"%PDF-1.7", "PDF")],
)
@pytest.mark.parametrize("name", ["x", "train.bin"])
def test_magic_numbers_of_other_files(tmp_path, magic, words, name):
    (tmp_path / name).write_bytes(magic + RNG.bytes(80_000))
    with pytest.raises(TokfmtError, match=f"is an? .*{words}.*not token IDs"):
        tokfmt.info(tmp_path / name)


@pytest.mark.parametrize("dtype", ["<u2", ">u2"])
def test_unknown_magic_number(tmp_path, dtype):
    """The numbers behind it look like token IDs. Both are said: the magic number, and how a bare stream is read."""
    (tmp_path / "x").write_bytes(b"ZAP1" + bytes(4) + IDS.astype(dtype).tobytes())
    with pytest.raises(TokfmtError, match="looks like a file of another format.*ZAP1.*If it is a bare stream"):
        tokfmt.info(tmp_path / "x")


RNG = np.random.default_rng(3)
COUNT = 40 * 8192
IDS = np.minimum(RNG.zipf(1.2, COUNT), 50_255)
IDS[::600] = 50_256


def archive(kind, **members):
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w") as file:
            for name, content in members.items():
                file.writestr(name, content)
    else:
        with tarfile.open(fileobj=out, mode="w") as file:
            for name, content in members.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                file.addfile(info, io.BytesIO(content))
    return out.getvalue()


HEADER = json.dumps({"ids": {"dtype": "I32", "shape": [4], "data_offsets": [0, 16]}}).encode()
MIND = json.dumps({"page_size": 64, "shard_addresses": ["x.mindrecord"], "version": "3.0"}).encode()
LLMC_FORK = np.array([20250211, 1, COUNT, *[0] * 253], "<i4").tobytes() + IDS.astype("<u2").tobytes()
FILES = {
    "an encrypted Parquet file": b"PARE" + bytes(range(200)) + b"PARE",
    "an index of Megatron-LM": b"MMIDIDX\0\0" + bytes(40),
    "a PyTorch file": archive("zip", **{"archive/data.pkl": b"\x80\2."}),
    "a zip archive": archive("zip", **{"a.txt": b"a"}),
    "a pickle": pickle.dumps({"stoi": {"a": 1}}, 4),
    "a MindRecord file": len(MIND).to_bytes(8, "little") + MIND + bytes(64),
    "a dataset of Fast-LLM": b"fast_llm_prepared_dataset" + bytes(8) + IDS.astype("<i4").tobytes(),
    "a file with a header like that of llm.c, whose magic number is 20250211": LLMC_FORK,
    "safetensors": len(HEADER).to_bytes(8, "little") + HEADER + bytes(16),
    "a tar archive": archive("tar", **{"a.json": b"{}"}),
    "gzip data of a tar archive": gzip.compress(archive("tar", **{"a.json": b"{}"})),
    "bzip2 data": b"BZh91AY&SY" + bytes(20),
    "xz data": b"\xfd7zXZ\0" + bytes(30),
    "a Vortex file": b"VTXF" + bytes(60) + b"VTXF",
    "a TFRecord file": bytes.fromhex("000000000000000029039807d8ea82a2") * 3,
    "an Avro file": b"Obj\1\4\x14avro.codec" + bytes(30),
    "an ORC file": b"ORC\n\3\0\0" + bytes(30),
    "a Feather file of version 1": b"FEA1" + bytes(60) + b"FEA1",
    "a model (GGUF)": b"GGUF\3\0\0\0" + bytes(40),
    "a DuckDB database": bytes(8) + b"DUCK" + bytes(40),
    "a 7-Zip archive": b"7z\xbc\xaf\x27\x1c" + bytes(40),
    "lz4 data": b"\x04\x22\x4d\x18" + bytes(40),
    "one JSON array": b'[\n {"text": "a"},\n {"text": "b"}\n]\n',
    "a catalog of Levanter caches": b'{\n "version": 1,\n "splits": {"train": {"a": {"cache_dir": "a", "ledger": {}}}}\n}',
    "a TOML or INI file": b'[project]\nname = "x"\n',
    "JSON over several lines": b'{\n  "text": "a"\n}\n',
    "a configuration of Modalities' pack_encoded_data": (
        b"settings:\n  src_path: x.jsonl\n  jq_pattern: .text\n  eod_token: <|endoftext|>\ntokenizer:\n  config: {}\n"
    ),
    "a table (CSV)": b"id,text\n1,a\n2,b\n",
    "a list of numbers as text": b"1,50,2,50256,7,8,9,3,10,11\n" * 3,
    "plain text": "Some words,\nand more of them: ä\n".encode(),
    "a bare stream of uint16": IDS.astype("<u2").tobytes(),
    "a bare stream of big-endian uint16": IDS.astype(">u2").tobytes(),
    "a bare stream of int64": IDS.astype("<i8").tobytes(),
    "a bare stream of big-endian int64": IDS.astype(">i8").tobytes(),
    "a bare stream of big-endian int32": IDS.astype(">i4").tobytes(),
    "a bare stream of int32": np.where(IDS == 50_256, 2, IDS).astype("<i4").tobytes(),
    "nothing but zeros": bytes(327_680),
    "numbers that count up": np.arange(COUNT, dtype="<i4").tobytes(),
    "a few distinct numbers": RNG.integers(0, 2, COUNT).astype("<i4").tobytes(),
    "numbers without frequent ones": RNG.integers(0, 50_257, COUNT).astype("<i4").tobytes(),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("file", ["x.bin", "x"])
def test_files(tmp_path, name, file):
    path = tmp_path / file
    path.write_bytes(FILES[name])
    with pytest.raises(UnknownFormatError) as caught:
        detect(path)
    assert str(caught.value).startswith((f"{path}: is {name}", f"{path}: looks like {name}"))
    assert "\n" not in str(caught.value) and caught.value.remedy
    assert ("which tokfmt does not read" in str(caught.value)) is not ("does not state its format" in str(caught.value))


@pytest.mark.parametrize("dtype", ["<u2", ">u2", "<i8", ">i8", "<i4", ">i4"])
def test_the_options_that_a_refusal_names_read_the_ids(tmp_path, dtype):
    (tmp_path / "x.bin").write_bytes(np.where(IDS == 50_256, 2, IDS).astype(dtype).tobytes())
    with pytest.raises(UnknownFormatError) as caught:
        detect(tmp_path / "x.bin")
    options = re.findall(r"--from-opt (\S+)", caught.value.remedy)
    with tokfmt.open(tmp_path / "x.bin", format="array", options=options, eos=2) as dataset:
        assert np.concatenate(list(dataset)).tolist() == IDS[(IDS != 50_256) & (IDS != 2)].tolist()


@pytest.mark.parametrize("name", ["cache_catalog.json", "catalog"])
def test_catalog_in_one_line_is_not_json_lines(tmp_path, name):
    catalog = {"version": 1, "splits": {"train": {"a": {"cache_dir": "a", "ledger": {}}}}}
    (tmp_path / name).write_text(json.dumps(catalog))
    with pytest.raises(UnknownFormatError, match="is a catalog of Levanter caches"):
        detect(tmp_path / name)
    (tmp_path / name).write_text('{"text": "a"}\n')
    assert detect(tmp_path / name).name == "jsonl"


def test_a_block_of_tokens_is_one(tmp_path):
    """With separators at the density of documents, and ids used as a tokenizer's are."""
    (tmp_path / "x.bin").write_bytes(IDS.astype("<i4").tobytes())
    assert detect(tmp_path / "x.bin").name == "stage1"


def test_evidence_for_uint32_is_reported(tmp_path):
    """The IDs are too few, or too varied, to be certain."""
    path = tmp_path / "x.bin"
    path.write_bytes(np.random.default_rng(0).integers(0, 90_000, 400).astype("<u4").tobytes())
    with pytest.raises(UnknownFormatError, match=r"If it holds uint32 token IDs, --from array --from-opt bare=uint32"):
        detect(path)


def test_evidence_for_uint16_is_reported(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(IDS.astype("<u2").tobytes())
    with pytest.raises(
        UnknownFormatError,
        match=r"largest of .* is 50,256, and one in 600 is 50256.*--from array --from-opt bare=uint16",
    ):
        detect(path)
    assert tokfmt.info(path, format="nanogpt").eos_id == 50256
    path.write_bytes(np.arange(5, 500, dtype="<u2").tobytes())  # too little to show anything
    says = r"a .bin without a known header.*largest of 495 looked at is 499, and none is 50256.*--from array --from-opt bare=uint16"
    with pytest.raises(UnknownFormatError, match=says):
        detect(path)


@pytest.mark.parametrize("count", [1, 40_000, 65_749, 262_144])
def test_no_token_of_a_raw_stream_is_counted_twice(tmp_path, count):
    """Files of up to eight pieces are looked at wholly."""
    path = tmp_path / "tokens.bin"
    np.random.default_rng(count).integers(0, 60_000, count).astype("<u2").tofile(path)
    with pytest.raises(UnknownFormatError, match=rf"largest of {count:,} looked at"):
        detect(path)


def test_a_header_of_another_magic_number_is_not_read_as_tokens(tmp_path):
    """Under any name; and the command that the refusal names reads what follows the header."""
    for name in ("x.bin", "train.bin", "val.bin"):
        (tmp_path / name).write_bytes(LLMC_FORK)
        with pytest.raises(UnknownFormatError, match="header like that of llm.c") as caught:
            detect(tmp_path / name)
    options = re.findall(r"--from-opt (\S+)", caught.value.remedy)
    with tokfmt.open(tmp_path / name, format="array", options=options, eos=50_256) as dataset:
        assert np.concatenate(list(dataset)).tolist() == IDS[IDS != 50_256].tolist()


def test_shard_without_its_index_is_not_a_stream_of_ids(tmp_path):
    for name, file in (("litdata/numpy_uint16", "chunk-0-0.bin"), ("mds/ndarray_dynamic_uint16", "shard.00000.mds")):
        shutil.copy(FIXTURES / name / file, tmp_path / "x.bin")
        with pytest.raises(UnknownFormatError, match="is a chunk of LitData or a shard of MDS without the index.json"):
            detect(tmp_path / "x.bin")
        if name.startswith("mds"):  # Its shards state their columns.
            continue
        folder = shutil.copytree(FIXTURES / name, tmp_path / name, ignore=shutil.ignore_patterns("index.json"))
        with pytest.raises(UnknownFormatError, match="folder of chunks of LitData or shards of MDS without index.json"):
            detect(folder)
        (folder / "index.json").write_text("{")
        with pytest.raises(UnknownFormatError, match="whose index.json lists none, .*Copy index.json again"):
            detect(folder)


def test_bytes_of_no_width_are_no_ids(tmp_path):
    """A program, or bytes that are used unevenly at even and odd places alike, are not called uint16 ids."""
    some = np.minimum(RNG.zipf(1.3, 2 * COUNT), 255).astype(np.uint8).tobytes()
    for content in (Path(sys.executable).resolve().read_bytes(), some, some[1:]):
        for name in ("x", "x.bin"):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(UnknownFormatError, match="--from array|--from NAME|a program") as caught:
                detect(tmp_path / name)
            assert "a bare stream" not in str(caught.value)


@pytest.mark.parametrize("name", FILES)
def test_magic_counts_for_more_than_a_name(tmp_path, name):
    """A name that a format claims by its suffix alone; text under it is that format's to judge."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(FILES[name])
    sign = sign_of(path)
    if sign.certain:
        with pytest.raises(
            UnknownFormatError, match="does not state" if sign.readable else "which tokfmt does not read"
        ):
            detect(path)
    else:
        assert detect(path).name == "jsonl"


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ({"dataset_info.json": b"{}"}, "a cache of Hugging Face"),
        ({"a.bin": b"", "b.bin": b""}, "a directory of .bin files"),
        ({"meta.json": b"{}", "train-00000.bin": b"", "train-offsets.npy": b""}, "a tokbin source"),
        ({"_versions/1.manifest": b"", "data/a.lance": b""}, "a Lance dataset"),
        ({"data.mdb": b"", "lock.mdb": b""}, "an LMDB database"),
        ({".zarray": b'{"dtype": "<f4"}', "0": b""}, "a zarr array whose metadata do not state integers"),
        ({"x_0.fast_llm_dataset": b"", "fast_llm_config.yaml": b""}, "a dataset of Fast-LLM"),
        ({"x.mindrecord": b"", "x.mindrecord.db": b""}, "a directory of MindRecord files"),
        ({"data-00000.hdf5": b"\x89HDF"}, "a directory of HDF5 files, and none is named"),
    ],
)
def test_directories(tmp_path, names, says):
    for name, content in names.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UnknownFormatError, match=f"is {says}"):
        detect(tmp_path)


def test_intermediate_results_of_hugging_face_are_named(tmp_path):
    for name in ("dataset_info.json", "cache-1.arrow"):
        (tmp_path / name).touch()
    with pytest.raises(TokfmtError, match=r"intermediate results .*found cache-1.arrow\. Name one of them"):
        tokfmt.info(tmp_path)


def test_directory_of_datasets_is_reported(tmp_path):
    (tmp_path / "assets").mkdir()
    for split in ("train", "validation"):
        shutil.copytree(FIXTURES / "levanter/marin_sharded", tmp_path / split)
    with pytest.raises(UnknownFormatError, match="Name one of the datasets in it, such as train; with --recursive"):
        detect(tmp_path)


def test_files_are_named_whose_content_alone_shows_a_format(tmp_path):
    """Shards of Tensor2Tensor have no suffix."""
    shutil.copy(FIXTURES / "tfrecord/input_ids.tfrecord", tmp_path / "lm-train-00000-of-00001")
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7")
    with pytest.raises(UnknownFormatError, match="Name one of the datasets in it, such as lm-train-00000-of-00001"):
        detect(tmp_path)


def test_a_megatron_bin_beside_its_index(tmp_path):
    (tmp_path / "x.bin").write_bytes(IDS.astype("<i4").tobytes())
    (tmp_path / "x.idx").write_bytes(b"MMIDIDX\0\0" + bytes(99))
    for path in (tmp_path / "x.bin", tmp_path / "x.idx", tmp_path):
        assert detect(path).name == "megatron"


def test_a_megatron_bin_beside_an_index_that_is_damaged(tmp_path):
    (tmp_path / "x.bin").write_bytes(IDS.astype("<u2").tobytes())
    (tmp_path / "x.idx").write_bytes(b"XXXDIDX\0\0" + bytes(99))
    with pytest.raises(
        UnknownFormatError, match=r"the .idx beside it is an index of Megatron-LM, it is damaged.*check --from"
    ):
        detect(tmp_path / "x.bin")


@pytest.mark.parametrize(
    "file",
    [
        "litdata/numpy_uint32_zstd/chunk-0-0.zstd.bin",
        "flat-tokens/train_only.zarr/.zgroup",
        "mds/ndarray_int32/index.json",
        "litdata/numpy_uint32_zstd/index.json",
    ],
)
def test_a_file_of_a_dataset_names_it(file):
    """Read by itself as what it looks like, a shard would give other tokens."""
    with pytest.raises(
        UnknownFormatError, match=r"is a file of the [a-z-]+ dataset .*, not a dataset by itself. Name that directory"
    ):
        detect(FIXTURES / file)
