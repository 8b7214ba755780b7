"""Flat formats read what the upstream tools wrote: documents by their digests, damage by its code."""

import bz2
import gzip
import hashlib
import json
import os
import re
import shutil
import struct

import numpy as np
import pyarrow as pa
import pytest
import registered
import zstandard
from paths import FIXTURES

import tokfmt
from tokfmt.core.findings import Audit
from tokfmt.errors import FormatError, LossyConversionError, TokfmtError, UnknownFormatError
from tokfmt.plugin import Confidence, Hints

CASES = {
    (home, case["name"]): case
    for home in ("llmc", "megatron", "nanogpt", "olmo", "datatrove", "litdata", "mds", "levanter")
    for case in json.loads((FIXTURES / home / "expected.json").read_text())["cases"]
}
REFUSED = {
    ("olmo", "label_mask"): "does not hold raw tokens: found a label mask",
    ("olmo", "real_numpy"): "does not hold raw tokens: found a numpy array",
    ("olmo", "sft_short_mask_BAD"): "mask of each token: expected 300, found 297",
    ("olmo", "sft_mask_values_BAD"): "expected 0 or 1, found 2",
    ("datatrove", "merged_total_metadata"): "no such file",
    ("levanter", "marin_missing_shard_BAD"): "part-00004-of-00005: is missing",
    ("levanter", "marin_bad_counts_BAD"): "rows of the finished shards: expected 31, found 30",
    ("mds", "pickle_UNSAFE"): "column tokens is pickled. Write the column as ndarray",
}
TOKENS = {
    key: case
    for key, case in CASES.items()
    if "NOT_a_token" not in key[1] and key[1] not in ("blend_100", "_empty_document") and key not in REFUSED
}

SCANNED = {("olmo", "nometa-00000"): {"width": 2}, ("datatrove", "00004_noindex.ds"): {}}
"""Those of formats with an index whose documents only the separator tells, and how they are read."""

TOLD: dict[tuple[str, str], dict[str, object]] = {
    ("mds", "bytes_int64"): {"dtype": "int64"},
    ("mds", "bytes_uint16"): {"dtype": "uint16"},
}
"""Those whose files do not tell all, and what must be said."""
AS_STORED = ("megatron", "olmo", "datatrove", "litdata", "mds", "levanter")


def digest(ids):
    return hashlib.sha256(np.asarray(ids, "<u4").tobytes()).hexdigest()


def test_the_goldens_are_there():
    assert len(CASES) == 87
    for (home, _), case in CASES.items():
        for file in case.get("files", ()):
            assert hashlib.sha256((FIXTURES / home / file["path"]).read_bytes()).hexdigest() == file["sha256"]


@pytest.mark.parametrize("key", list(TOKENS), ids="-".join)
def test_documents(key):
    home, case = key[0], CASES[key]
    eos = case.get("eos_id") or {"none": "none"}.get(case["boundaries"])
    path, options, allow_loss = FIXTURES / home / case["entry"], {}, ()
    if home == "megatron":
        path, allow_loss = path.with_name(f"{path.name}.idx"), ("modes",) if case.get("multimodal") else ()
    if home in AS_STORED:
        eos, options = 50256 if key in SCANNED else "none", SCANNED.get(key, TOLD.get(key, {}))
    if key[1] == "build_nanogpt":  # all splits, in the order of the numbers
        path = sorted(path.iterdir(), key=lambda file: file.stem[-6:])
    with tokfmt.open(path, eos=eos, options=options, allow_loss=allow_loss) as dataset:
        assert dataset.format == home
        separator, documents = dataset.info.eos_id, [dataset[k].tolist() for k in range(len(dataset))]
    if home in AS_STORED and key not in SCANNED:
        pass
    elif case["transform"].startswith("append"):
        documents = [[*document, separator] for document in documents]
    elif case["transform"].startswith("prepend"):
        documents = [[separator, *document] for document in documents]
    assert [len(document) for document in documents] == case["doc_lengths"]
    assert [digest(document)[:16] for document in documents] == case["doc_sha256_le_u32"]
    assert digest([token for document in documents for token in document]) == case["tokens_sha256_le_u32"]


@pytest.mark.parametrize("key", list(REFUSED), ids=lambda key: "-".join(key))
def test_damaged_goldens_are_refused(key):
    home, case = key[0], CASES[key]
    with pytest.raises(FormatError, match=REFUSED[key]):
        tokfmt.open(FIXTURES / home / case["entry"], format=home, options={"width": 4} if home == "olmo" else {})


@pytest.mark.parametrize(
    ("key", "what"),
    [(("olmo", "sft_label_mask"), "mask_sha256"), (("datatrove", "00002_noeos_loss.ds"), "loss_sha256")],
)
def test_masks(key, what, tmp_path):
    """A mask is read token for token, and is lost by name."""
    path, format_ = FIXTURES / key[0] / CASES[key]["entry"], registered.get(key[0])
    reader = format_.open([path], format_.read_options(), Hints(no_eos=True))
    total = reader.info.tokens
    mask = np.concatenate([reader.marks(0, 100), reader.marks(100, total)])
    assert hashlib.sha256(mask.tobytes()).hexdigest() == CASES[key][what]
    with pytest.raises(LossyConversionError, match="masks of"):
        tokfmt.convert(path, tmp_path / "x.pbin", eos=100257)
    tokfmt.convert(path, tmp_path / "x.pbin", eos=100257, allow_loss=["loss-mask"])


@pytest.mark.parametrize(
    ("home", "name", "code", "words", "allow_loss", "documents"),
    [
        (
            "olmo",
            "olmo_csv_out_of_bounds.npy",
            "TF702",
            r"tokens: expected 12,768 or more, as olmo_csv_out_of_bounds.csv.gz states, found 12,748",
            "",
            0,
        ),
        ("olmo", "olmo_csv_gap.npy", "TF703", r"row \d+ begins: expected", "gaps", 29),
        (
            "olmo",
            "olmo_zero_tail.npy",
            "TF704",
            r"zeros after the last row at byte 25,536: found 4,000 bytes",
            "tail",
            30,
        ),
        ("datatrove", "ds_index_odd.ds", "TF722", r"ends inside an entry at byte 232", "", 0),
        ("datatrove", "ds_index_not_monotone.ds", "TF722", r"decreases at entry", "", 0),
        ("datatrove", "ds_truncated.ds", "TF723", r"bytes of tokens: expected 25,536, found 25,486", "", 0),
        ("litdata", "litdata_chunk_missing", "TF742", r"chunk-0-1.bin: is missing", "", 0),
        ("litdata", "litdata_index_missing", "TF741", r"were never merged: expected index.json", "", 0),
        (
            "mds",
            "mds_shard_truncated",
            "TF763",
            r"shard.00001.mds: bytes of the shard: expected 15,537, found 15,460",
            "",
            0,
        ),
        ("mds", "mds_bitflip", "TF764", r"does not fit its sha1: expected", "", 0),
        ("mds", "mds_shard_missing", "TF762", r"shard.00001.mds: is missing", "", 0),
        ("mds", "mds_index_empty", "TF768", "", "", 30),
        (
            "mds",
            "mds_index_path_escape",
            "TF766",
            r"outside of the folder: found ../../ndarray_int32/shard.00001.mds",
            "",
            0,
        ),
        (
            "datatrove",
            "ds_tokensize_wrong.ds",
            "TF724",
            r"bytes of tokens: expected 51,072, as .*metadata states 4-byte tokens, found 25,536",
            "",
            0,
        ),
    ],
)
def test_damage_of_raw_tokens(home, name, code, words, allow_loss, documents):
    path, format_ = FIXTURES / "bad" / home / name, registered.get(home)
    assert [finding.code for finding in format_.audit(path, format_.read_options())] == [code]
    if words:
        with pytest.raises(FormatError, match=words), tokfmt.open(path) as dataset:
            list(dataset)
    if documents:
        with tokfmt.open(path, allow_loss=[allow_loss] if allow_loss else [], eos="none") as dataset:
            assert len(dataset) == documents
            assert allow_loss or dataset.info.notes


PACKERS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zstd": lambda raw: zstandard.compress(raw),
    "snappy": lambda raw: pa.compress(raw, "snappy", asbytes=True),
    "br": lambda raw: pa.compress(raw, "brotli", asbytes=True),
}


@pytest.mark.parametrize("codec", PACKERS)
def test_shards_of_every_compression(codec, tmp_path):
    """As upstream names them, in a folder below the index, as its merge leaves them."""
    own, folder = FIXTURES / "mds" / "ndarray_int32", tmp_path / "shards"
    (folder / "17").mkdir(parents=True)
    index = json.loads((own / "index.json").read_text())
    for shard in index["shards"]:
        raw = shard["raw_data"]
        content = PACKERS[codec]((own / raw["basename"]).read_bytes())
        raw["basename"] = f"17/{raw['basename']}"
        hashes = {"sha1": hashlib.sha1(content).hexdigest()}
        shard["zip_data"] = {"basename": f"{raw['basename']}.{codec}", "bytes": len(content), "hashes": hashes}
        shard["compression"] = f"{codec}:6"
        (folder / shard["zip_data"]["basename"]).write_bytes(content)
    (folder / "index.json").write_text(json.dumps(index))
    with tokfmt.open(folder) as packed, tokfmt.open(own) as plain:
        assert [one.tolist() for one in packed] == [one.tolist() for one in plain]
    format_ = registered.get("mds")
    assert list(format_.audit(folder, format_.read_options(), Audit(deep=True))) == []


def test_an_evaluation_file_is_refused_by_name():
    with pytest.raises(TokfmtError, match=r"evaluation file"):
        tokfmt.open(FIXTURES / "llmc" / "hellaswag_val.bin", format="llmc")


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("llmc_count_wrong.bin", "TF622", "bytes of tokens: expected"),
        ("llmc_version.bin", "TF621", "version 9"),
        ("llmc_bigendian.bin", "TF621", "20240520 with its bytes reversed"),
    ],
)
def test_damage_of_llmc(name, code, words):
    path, format_ = FIXTURES / "bad" / "llmc" / name, registered.get("llmc")
    found = list(format_.audit(path, format_.read_options()))
    assert [finding.code for finding in found] == [code]
    with pytest.raises(FormatError, match=words):
        tokfmt.open(path, format="llmc")


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("bin_truncated", ["TF604"]), ("bin_trailing", ["TF604"]), ("bin_odd", ["TF604"]), ("idx_truncated", ["TF602"]),
        ("idx_empty", ["TF601"]), ("ptr_overflow", ["TF603"]), ("ptr_inclusive", ["TF603"]), ("bad_magic", ["TF601"]),
        ("docidx_not_merged", ["TF605"]), ("len_without_eos", ["TF604"]), ("dtype_wrong", ["TF609"]),
    ],
)  # fmt: skip
def test_damage_of_megatron(name, codes):
    path, format_ = FIXTURES / "bad" / "megatron" / f"meg_{name}.idx", registered.get("megatron")
    assert [finding.code for finding in format_.audit(path, format_.read_options())] == codes
    if {"TF601", "TF602", "TF604", "TF609"} & set(codes):
        with pytest.raises(FormatError):
            tokfmt.open(path, format="megatron")
    else:  # the documents are whole, and it says how they were read
        with tokfmt.open(path, format="megatron", eos="none") as dataset:
            assert len(dataset) == 30
            assert dataset.info.notes


def test_the_first_tokens_of_a_shard_go_on_with_a_document():
    """Nothing is dropped of a shard that is read alone, and val is read only when it is asked for."""
    shards = FIXTURES / "llmc" / "shards"
    with tokfmt.open(shards) as whole, tokfmt.open(max(shards.iterdir())) as last:
        assert last.info.tokens < whole.info.tokens
        assert last[0].tolist() == whole[len(whole) - len(last)].tolist()[-len(last[0]) :]
    with tokfmt.open(FIXTURES / "llmc" / "build_nanogpt") as stream:
        assert stream.info.other_splits == ("val",)
        assert stream.info.tokens + len(stream) - 1 == 2 * 4096 + 480  # the first document began in val
    with tokfmt.open(FIXTURES / "llmc" / "build_nanogpt", options={"split": "val"}) as first:
        assert first.info.tokens + len(first) == 4096


def test_zeros_at_the_end_are_not_read_as_tokens(tmp_path):
    path = tmp_path / "train.bin"
    path.write_bytes((FIXTURES / "nanogpt" / "openwebtext" / "train.bin").read_bytes() + bytes(4000))
    with pytest.raises(FormatError, match=r"ends with 2,000 zeros"):
        tokfmt.open(path)
    (finding,) = registered.get("nanogpt").audit(path, registered.get("nanogpt").read_options())
    assert finding.code == "TF643"


@pytest.mark.parametrize(("count", "cut"), [(1000, True), (40_000, False)])
def test_zeros_are_left_out_all_or_none(count, cut, tmp_path):
    """Where more stand at the end than opening looks at, none comes back as a token."""
    path, whole = tmp_path / "train.bin", FIXTURES / "nanogpt" / "openwebtext" / "train.bin"
    path.write_bytes(whole.read_bytes() + bytes(2 * count))
    if not cut:
        with pytest.raises(FormatError, match="remove the zeros"):
            tokfmt.open(path, allow_loss=["tail"])
        return
    with tokfmt.open(whole) as expected, tokfmt.open(path, allow_loss=["tail"]) as found:
        assert found.info.tokens == expected.info.tokens


@pytest.mark.parametrize("ids", [[65535] * 300, range(65536), range(50000, 65536), [0] * 40, [256] * 300, [7], []])
def test_few_or_large_ids_are_not_taken_for_big_endian_ones(ids, tmp_path):
    path = tmp_path / "train.bin"
    np.array([*ids, 50256], "<u2").tofile(path)
    with tokfmt.open(path, format="nanogpt", eos="none") as found:
        assert found.info.tokens == len(ids) + 1


def test_bytes_in_the_other_order_are_read_as_they_stand_when_told(tmp_path):
    path = tmp_path / "train.bin"
    ids = np.fromfile(FIXTURES / "nanogpt" / "openwebtext" / "train.bin", ">u2")
    ids.astype("<u2").tofile(path)
    with tokfmt.open(path, format="nanogpt", options={"width": 2}, eos="none") as found:
        assert np.concatenate(list(found)).tolist() == ids.tolist()


@pytest.mark.parametrize("eos", [None, 50256, 11])
def test_unfinished_document_is_kept_with_a_note(eos, tmp_path):
    path = tmp_path / "train.bin"
    plain = [([5, 6], False)] if eos is None else []  # One that is given has to occur.
    for ids, cut in (([5, 11, 6, 50256, 7, 8], True), ([5, 11, 6, 50256, 7, eos or 50256], False), *plain):
        np.array(ids, "<u2").tofile(path)
        with tokfmt.open(path, format="nanogpt", eos=eos) as found:
            assert np.concatenate(list(found)).tolist() == [i for i in ids if i != (eos or 50256)]
        notes = tokfmt.info(path, format="nanogpt", eos=eos).notes
        said = [note for note in notes if "last document is not finished" in note]
        assert [f"separator {eos or 50256} " in note for note in said] == [True] * cut
        if eos is None:
            format_ = registered.get("nanogpt")
            codes = [(finding.code, finding.severity) for finding in format_.audit(path, format_.read_options())]
            assert codes == [("TF645", "warning")] * cut


def test_a_separator_in_front_of_documents_is_noted(tmp_path):
    """As llama2.c writes its shards. The options that the note names read them."""
    path, stories = tmp_path / "data00.bin", [[5, 6, 7], [8], [9, 10]]
    np.concatenate([[1, *story] for story in stories]).astype("<u2").tofile(path)
    (note,) = [note for note in tokfmt.info(path, format="nanogpt", eos=1).notes if "in front of documents" in note]
    options = re.findall(r"--from-opt (\S+)", note)
    with tokfmt.open(path, format="nanogpt", options=options, eos=1) as found:
        assert [one.tolist() for one in found] == stories
    (report,) = tokfmt.check(path, format="nanogpt", options=options, eos=1)
    assert not report.findings


@pytest.mark.parametrize("dtype", ["|u1", "<u2", "<u4", "<i4", "<i8"])
def test_arrays_of_each_width_are_shards(dtype, tmp_path):
    path = tmp_path / "x_train_000001.npy"
    np.save(path, np.array([50, 1, 2, 50, 3]).astype(dtype))
    with tokfmt.open(path, eos=50) as found:
        assert [one.tolist() for one in found] == [[1, 2], [3]]


def olmo(path, documents):
    """Rows for documents as they are."""
    bounds = np.cumsum([0, *map(len, documents)])
    np.concatenate(documents).astype("<u2").tofile(path)
    rows = "".join(f"{a},{b}\n" for a, b in zip(bounds, bounds[1:], strict=False))
    path.with_suffix(".csv.gz").write_bytes(gzip.compress(rows.encode()))
    return path


@pytest.mark.parametrize(
    ("documents", "eos", "says"),
    [
        ([[1, 2, 9], [9], [3, 9]], None, ""),
        ([[1, 2, 9], [9], [3, 4]], None, "a scan for 9,.*: expected 3, found 2, of which 0 are within a row"),
        ([[1, 9, 2], [5, 9], [3, 9]], None, "a scan for 9,.*: expected 3, found 3, of which 1 (is|are) within a row"),
        ([[1, 9, 2], [5, 9], [3, 9]], 9, "a scan for 9,.*: expected 3, found 3, of which 1 (is|are) within a row"),
        ([[1, 2, 9], [], [3, 9]], 9, "a scan for 9,.*: expected 3, found 2, of which 0 are within a row"),
        ([[1, 2], [3, 4], [5, 6]], None, "no ID ends most rows"),
    ],
)
def test_rows_are_compared_with_a_scan(documents, eos, says, tmp_path):
    """By the places of separators: as many of them as rows do not make them the same documents."""
    found = tokfmt.check(olmo(tmp_path / "x.npy", documents), deep=True, eos=eos)[0].findings
    findings = [finding for finding in found if finding.code == "TF705"]
    assert [finding.code for finding in findings] == ["TF705"] * bool(says)
    assert [finding.severity for finding in findings] == ["info" if "no ID" in says else "warning"] * bool(says)
    assert all(re.search(says, finding.message) for finding in findings)


def test_parts_of_a_run_that_was_stopped_are_named(tmp_path):
    for name in ("_tokens.partial.bin", "_labels.partial.bin", "_boundaries.partial.bin"):
        (tmp_path / name).write_bytes(bytes(range(200)) * 20)
        with pytest.raises(UnknownFormatError, match="is a part of a run of open-instruct that was stopped"):
            tokfmt.open(tmp_path / name)


def test_documents_that_run_backwards_are_named(tmp_path):
    path = tmp_path / "x_document.idx"
    lengths, pointers, indices = [2, 1], [0, 4], [0, 2, 1, 2]
    path.write_bytes(struct.pack("<9sQBQQ2i2q4q", b"MMIDIDX", 1, 8, 2, 4, *lengths, *pointers, *indices))
    path.with_suffix(".bin").write_bytes(bytes(6))
    with pytest.raises(FormatError, match=r"document index 2 at byte 74: expected 2 or more, found 1"):
        tokfmt.open(path)


def shard(path, magic, version, ids, dtype):
    path.write_bytes(struct.pack("<3i1012x", magic, version, len(ids)) + np.array(ids, dtype).tobytes())
    return path


def test_shards_of_two_variants_are_not_one_stream(tmp_path):
    shard(tmp_path / "x_train_000001.bin", 20240520, 1, [50256, 1, 2], "<u2")
    shard(tmp_path / "x_train_000002.bin", 20240801, 7, [128000, 3], "<u4")
    with pytest.raises(FormatError, match="more than one variant"):
        tokfmt.open(tmp_path)


def test_a_shard_that_begins_inside_a_document_says_so(tmp_path):
    for ids, told in (([5, 6, 50256, 7], True), ([50256, 7], False)):
        with tokfmt.open(shard(tmp_path / "x_train_000002.bin", 20240520, 1, ids, "<u2")) as dataset:
            assert any("may continue another shard" in note for note in dataset.info.notes) is told


@pytest.mark.parametrize(("numbers", "told"), [((1, 2, 3), False), ((1, 3), True), ((2, 3), False)])
def test_missing_shard_is_noted(tmp_path, numbers, told):
    for number in numbers:
        shard(tmp_path / f"x_train_{number:06d}.bin", 20240520, 1, [50256, number, 7], "<u2")
    with tokfmt.open(tmp_path) as dataset:
        assert any("000003.bin is read after x_train_000001.bin" in note for note in dataset.info.notes) is told


def test_a_big_endian_array_is_no_shard(tmp_path):
    path = tmp_path / "x_train_000001.npy"
    np.save(path, np.array([50256, 1, 2], ">u2"))
    with pytest.raises(FormatError, match=r"is not a one-dimensional array of token IDs.*>u2"):
        tokfmt.open(path, format="llmc")
    with tokfmt.open(path, eos=50256, options={"side": "before"}) as dataset:
        assert (dataset.format, dataset[:].tolist()) == ("array", [[1, 2]])


def test_a_folder_of_nanogpt_is_read_without_its_pickle(tmp_path):
    """`meta.pkl` is never opened: a FIFO would hang whoever did."""
    shutil.copy(FIXTURES / "nanogpt" / "shakespeare_char" / "train.bin", tmp_path)
    os.mkfifo(tmp_path / "meta.pkl")
    with tokfmt.open(tmp_path) as dataset:
        assert (dataset.format, dataset.info.tokens) == ("nanogpt", 4000)
        assert any("2-byte IDs, which the file does not state" in note for note in dataset.inferred)


def test_a_pair_goes_by_its_prefix_and_by_either_file(tmp_path):
    """Sources, destinations, manifests and guards know both files of a dataset, whichever was named."""
    pack = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
    tokfmt.convert(pack, tmp_path / "my_text", to_format="megatron", eos=50256)
    assert {path.name for path in tmp_path.iterdir()} == {"my_text.bin", "my_text.idx", "my_text.bin.tokfmt.json"}
    said = json.loads((tmp_path / "my_text.bin.tokfmt.json").read_text())["output"]
    assert (said["files"], said["bytes"]) == (
        2,
        sum((tmp_path / f"my_text.{end}").stat().st_size for end in ("bin", "idx")),
    )
    for name in ("my_text", "my_text.bin", "my_text.idx"):
        with tokfmt.open(tmp_path / name) as dataset:
            assert (len(dataset), dataset.info.eos_id) == (42, 50256)
        with pytest.raises(TokfmtError, match="already exists"):
            tokfmt.convert(pack, tmp_path / name, to_format="megatron", eos=50256)
        with pytest.raises(TokfmtError, match="source"):
            tokfmt.convert(tmp_path / name, tmp_path / "my_text.idx", to_format="jsonl", overwrite=True)
    with open(tmp_path / "my_text.idx", "ab") as index:
        index.write(b"x")
    with pytest.raises(FormatError, match="contradicts its manifest"):
        tokfmt.open(tmp_path / "my_text")
    tokfmt.convert(pack, tmp_path / "my_text", to_format="megatron", eos=50256, overwrite=True)
    with tokfmt.open(tmp_path / "my_text.idx") as dataset:
        assert len(dataset) == 42


def changed(folder, name, tmp_path, change):
    """A copy of a golden, its index changed."""
    copy = shutil.copytree(FIXTURES / folder / name, tmp_path / name)
    index = json.loads((copy / "index.json").read_text())
    change(index)
    (copy / "index.json").write_text(json.dumps(index))
    return copy


@pytest.mark.parametrize("name", ["pytree_mistake", "empty_first_item", "torch_uint16"])
@pytest.mark.parametrize(
    "forget", [lambda config: config.pop("item_loader"), lambda config: config.update(item_loader=None)]
)
def test_items_tell_whether_they_have_a_size_in_front(name, forget, tmp_path):
    """Older indexes of litdata name no item_loader."""
    with (
        tokfmt.open(changed("litdata", name, tmp_path, lambda index: forget(index["config"])), eos="none") as dataset,
        tokfmt.open(FIXTURES / "litdata" / name, eos="none") as whole,
    ):
        assert [one.tolist() for one in dataset] == [one.tolist() for one in whole]


@pytest.mark.parametrize(
    ("home", "name", "key"), [("litdata", "torch_uint16", "chunks"), ("mds", "ndarray_int32", "shards")]
)
def test_shards_that_an_index_leaves_out_or_names_twice_are_told(home, name, key, tmp_path):
    path = changed(home, name, tmp_path, lambda index: index[key].append(index[key].pop(0) and index[key][0]))
    with tokfmt.open(path, eos="none") as dataset:
        left_out, twice = dataset.info.notes
        assert re.fullmatch(rf"1 {key.removesuffix('s')} is not in index.json, and not read: \S*0\S*", left_out)
        assert twice == f"index.json lists a {key[:-1]} more than once: it is read as often"


@pytest.mark.parametrize(("name", "dtype"), [("bytes_int64", "int64"), ("bytes_uint16", "uint16")])
def test_what_bytes_seem_to_be(name, dtype):
    with pytest.raises(FormatError, match=rf"dtype={dtype}, probably"):
        tokfmt.open(FIXTURES / "mds" / name)


def test_bytes_that_are_not_whole_int64_seem_to_be_less(tmp_path):
    """Six bytes: 1, 2, 3."""
    shard = np.array([1, 12, 22, 6], "<u4").tobytes() + np.array([1, 2, 3], "<u2").tobytes()
    raw = {"basename": "shard.00000.mds", "bytes": len(shard), "hashes": {}}
    one = {
        "format": "mds",
        "version": 2,
        "column_names": ["tokens"],
        "column_encodings": ["bytes"],
        "column_sizes": [None],
    }
    (tmp_path / "shard.00000.mds").write_bytes(shard)
    (tmp_path / "index.json").write_text(json.dumps({"version": 2, "shards": [{**one, "samples": 1, "raw_data": raw}]}))
    with pytest.raises(FormatError, match="dtype=uint16, probably"):
        tokfmt.open(tmp_path)


@pytest.mark.parametrize("kind", ["csv", "xsv", "json"])
def test_shards_of_text_are_named(kind, tmp_path):
    (tmp_path / f"shard.00000.{kind}").write_text("a\n")
    (tmp_path / "index.json").write_text(json.dumps({"version": 2, "shards": [{"format": kind, "version": 2}]}))
    with pytest.raises(FormatError, match=rf"an unsupported shard: expected mds, version 2, found {kind}"):
        tokfmt.open(tmp_path)


def test_an_index_without_shards_is_an_empty_dataset(tmp_path):
    """What streaming's writer leaves that was given no sample."""
    (tmp_path / "index.json").write_text('{"version": 2, "shards": []}')
    with tokfmt.open(tmp_path) as dataset:
        assert (dataset.format, len(dataset)) == ("mds", 0)


UPSTREAM_FAILS = {"mixed-00000": ["TF705"], "pytree_mistake": ["TF745"], "empty_first_item": ["TF745"]}
"""What tokfmt reads, and upstream reads otherwise or not at all: warnings."""


@pytest.mark.parametrize(
    "key",
    [key for key in TOKENS if key[0] in ("olmo", "datatrove", "litdata", "mds", "levanter")],
    ids=lambda key: "-".join(key),
)
def test_goldens_have_no_findings(key):
    home, case = key[0], CASES[key]
    path, format_ = FIXTURES / home / case["entry"], registered.get(home)
    assert registered.sniffed(format_, path) == (
        Confidence.CERTAIN if key != ("olmo", "nometa-00000") else Confidence.NAME
    )
    options = format_.read_options(**SCANNED.get(key, TOLD.get(key, {})))
    codes = [finding.code for finding in format_.audit(path, options, Audit(deep=True))]
    assert codes == UPSTREAM_FAILS.get(key[1], [])
    for section in format_.sections(path, options):
        assert not any(field.wrong for field in section.fields(0, min(section.count, 99)))
