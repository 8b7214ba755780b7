"""Files that a list, an index, a log or a recipe names belong to its dataset; the oracle is what was written by hand."""

import json
import struct
import tarfile
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from by_hand import megatron, saved
from commands import run

import tokfmt
from tokfmt.errors import CorruptError, FormatError, LossyConversionError, TruncatedError, UnsupportedError

DOCUMENTS = {"a": [[5, 6, 0], [7, 0]], "b": [[8, 9, 1, 0]]}


@pytest.fixture
def parts(tmp_path):
    """A folder of two datasets of Megatron-LM, which others name."""
    home = tmp_path / "data"
    for name, documents in DOCUMENTS.items():
        (home / name).mkdir(parents=True)
        megatron(home / name / "wiki_x_document.bin", documents)
    return home


def blend(home):
    listed = ["a/wiki_x_document", "b/wiki_x_document"]
    saved(home / "blend.json", json.dumps({"train": listed, "valid": listed[:1], "test": None}).encode())


def recipe(home):
    sources = [f'[[source]]\npath = "{name}/wiki_x_document.bin"\neos = 0\n' for name in DOCUMENTS]
    saved(home / "mix.toml", ("tokfmt = 1\n" + "".join(sources)).encode())


def recipe_of_patterns(home):
    saved(home / "mix.toml", b'tokfmt = 1\n[[source]]\npath = "*/wiki_x_document.bin"\neos = 0\n')


@pytest.mark.parametrize("named", [blend, recipe, recipe_of_patterns], ids=lambda write: write.__name__)
def test_what_a_list_names_is_read_once(named, parts, tmp_path):
    named(parts)
    done = tokfmt.convert(parts, tmp_path / "o.jsonl", recursive=True, allow_loss="splits")
    assert (done.sequences, done.tokens) == (3, 9 if named is blend else 6)  # the list states no separator
    said = json.loads(run("stats", str(parts), "--recursive", "--json").stdout)
    assert [one["sequences"] for one in said["datasets"]] == [3]


def test_a_dataset_beside_a_list_is_still_read(parts, tmp_path):
    saved(parts / "mix.toml", b'tokfmt = 1\n[[source]]\npath = "a/wiki_x_document.bin"\neos = 0\n')
    assert tokfmt.convert(parts, tmp_path / "o.jsonl", recursive=True).sequences == 3


def test_shards_in_folders_belong_to_the_manifest(tmp_path):
    home, lines = tmp_path / "data", []
    for number in range(2):
        (home / f"s{number}").mkdir(parents=True)
        content = json.dumps([number, 1]).encode()
        with tarfile.open(home / f"s{number}" / "0.tar", "w") as archive:
            member = tarfile.TarInfo("0.json")
            member.size = len(content)
            archive.addfile(member, BytesIO(content))
        lines.append(json.dumps({"shard": f"s{number}/0", "num_sequences": 1}) + "\n")
    saved(home / "manifest.jsonl", "".join(lines).encode())
    for recursive in (False, True):
        done = tokfmt.convert(home, tmp_path / "o.jsonl", recursive=recursive, overwrite=True)
        assert (done.sequences, done.tokens) == (2, 4)


def delta(home):
    saved(home / "_delta_log" / f"{0:020}.json", b'{"commitInfo":{}}\n')
    return home, "Delta Lake"


def delta_of_partitions(home):
    saved(home / "_delta_log" / f"{0:020}.json", b'{"commitInfo":{}}\n')
    return home / "day=1" / "split=train", "Delta Lake"


def iceberg(home):
    saved(home / "metadata" / "v1.metadata.json", b"{}")
    return home / "data", "Iceberg"


@pytest.mark.parametrize("table", [delta, delta_of_partitions, iceberg], ids=lambda write: write.__name__)
def test_files_of_a_table_are_not_read_without_its_log(table, tmp_path):
    home = tmp_path / "table"
    at, kind = table(home)
    at.mkdir(parents=True, exist_ok=True)
    name = "part-00000-114a6809-f980-49ee-9a0b-8e5c6b20fcfd-c000.snappy.parquet"
    pq.write_table(pa.table({"input_ids": [[1, 2]]}), at / name)
    for path, recursive in (
        (home, False),
        (home, True),
        (at, False),
        (at / name, False),
        (str(at / "*.parquet"), False),
    ):
        with pytest.raises(UnsupportedError, match=f"table of {kind}"):
            tokfmt.convert(path, tmp_path / "o.jsonl", recursive=recursive, allow_loss="other-files")


def test_summaries_of_parquet_files_are_no_other_files(tmp_path):
    home = tmp_path / "data"
    home.mkdir()
    for name in ("part-0.parquet", "_metadata", "_common_metadata"):
        pq.write_table(pa.table({"input_ids": [[1, 2]]}), home / name)
    assert tokfmt.convert(home, tmp_path / "o.jsonl").sequences == 1


@pytest.mark.parametrize("dtype", ["<u2", "<u4", "<u8"])
@pytest.mark.parametrize("name", ["document_offsets", "lengths"])
def test_offsets_beside_bare_tokens_bound_documents(name, dtype, tmp_path):
    lengths = [2, 0, 3]
    saved(tmp_path / "tokens.bin", np.arange(1, 6, dtype=dtype).tobytes())
    np.save(tmp_path / f"{name}.npy", lengths if name == "lengths" else np.cumsum([0, *lengths]))
    with tokfmt.open(tmp_path, eos="none") as dataset:
        assert dataset[:].tolist() == [[1, 2], [], [3, 4, 5]]
    saved(tmp_path / "tokens.bin", np.arange(1, 8, dtype=dtype).tobytes())
    with pytest.raises(FormatError, match="tokens up to the last end|ends inside one"):
        tokfmt.open(tmp_path, eos="none")


def automodel(path, ids, count):
    header = np.zeros(256, "<i4")
    header[:4] = 278895051, 1, count, 2
    saved(path / "dataset.bin", header.tobytes() + np.array(ids, "<u2").tobytes())
    saved(path / "dataset.bos.idx", b"")
    saved(path / "args.json", b"{}")


def test_the_folder_of_automodel_is_a_dataset(tmp_path):
    automodel(tmp_path / "data", [1, 5, 6, 1, 7], 5)
    assert tokfmt.convert(tmp_path / "data", tmp_path / "o.jsonl").sequences == 2


def test_a_writer_that_was_stopped_leaves_documents_that_can_be_saved(tmp_path):
    automodel(tmp_path / "data", [1, 5, 6, 1, 7], 0)
    for path in (tmp_path / "data", tmp_path / "data" / "dataset.bin"):
        for loss in ((), "tail"):
            with pytest.raises(CorruptError, match="--allow-partial"):
                tokfmt.convert(path, tmp_path / "o.jsonl", allow_loss=loss)
        with tokfmt.open(path, allow_partial=True) as dataset:
            assert dataset[:].tolist() == [[5, 6]]


def test_lines_of_internlm_without_a_meta_are_read(tmp_path):
    home = tmp_path / "data"
    saved(home / "train" / "cn" / "a.bin", b'{"tokens": [1, -5, 6]}\n{"tokens": [7, -8]}\n')
    for path in (home, home / "train" / "cn" / "a.bin"):
        with tokfmt.open(path, eos="none") as dataset:
            assert dataset.format == "internevo"
            assert dataset[:].tolist() == [[1, 5, 6], [7, 8]]
            assert any("a.bin.meta is missing" in note for note in dataset.notes)
    done = tokfmt.convert(home, tmp_path / "o.parquet", eos="none", verify=True)
    assert pq.read_table(tmp_path / "o.parquet").column("labels").to_pylist() == [[1, -100, 6], [7, -100]]
    assert done.sequences == 2
    saved(home / "train" / "cn" / "a.bin", b'{"tokens": [1, -5, 6]}\n{"tokens": [7, ')
    with pytest.raises(TruncatedError, match="ends inside a line"):
        tokfmt.convert(home, tmp_path / "o.jsonl")


def neox(path, ids):
    """Write a pair of GPT-NeoX of int32."""
    lengths = np.array([len(one) for one in ids], "<i4")
    begins = np.cumsum([0, *(4 * lengths[:-1])]).astype("<i8")
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, len(ids), len(ids) + 1)
    numbers = np.arange(len(ids) + 1, dtype="<i8")
    saved(path.with_suffix(".idx"), head + lengths.tobytes() + begins.tobytes() + numbers.tobytes())
    saved(path, np.concatenate(ids).astype("<i4").tobytes())


def test_labels_of_gpt_neox_are_the_loss_mask_of_their_tokens(tmp_path):
    home, ids = tmp_path / "data", [[5, 6, 0], [7, 8, 9, 0]]
    labels = [[-100, 6, 0], [-100, -100, 9, 0]]
    neox(home / "x_text_document.bin", ids)
    neox(home / "x_label_document.bin", labels)
    for path in (home, home / "x_text_document.bin", home / "x_text_document"):
        tokfmt.convert(path, tmp_path / "o.parquet", eos="none", verify=True, overwrite=True)
        stored = pq.read_table(tmp_path / "o.parquet")
        assert stored["input_ids"].to_pylist() == ids
        assert stored["labels"].to_pylist() == labels
        with pytest.raises(LossyConversionError, match="labels of x_label_document.bin"):
            tokfmt.convert(path, tmp_path / "o.pbin", eos=0)
    with pytest.raises(UnsupportedError, match=r"holds labels.*Name x_text_document.bin"):
        tokfmt.open(home / "x_label_document.bin")
    neox(home / "x_label_document.bin", labels[:1])
    with pytest.raises(CorruptError, match="x_label_document.bin: has other sequences"):
        tokfmt.open(home)
