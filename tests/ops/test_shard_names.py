"""Names such as `train-00001-of-00003.parquet`: two sets in one folder, holes, and the same in patterns, in every format."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.errors import CorruptError, FormatError


def parquet(path, ids):
    pa.parquet.write_table(pa.table({"input_ids": [ids]}), path)


def arrow(path, ids):
    table = pa.table({"input_ids": [ids]})
    with pa.ipc.new_stream(path, table.schema) as out:
        out.write_table(table)


def lines(path, ids):
    path.write_text(json.dumps({"input_ids": ids}) + "\n")


def bare(path, ids):
    np.array([*ids, 0], "<u2").tofile(path)


FORMATS = {
    "parquet": (parquet, ".parquet", {}),
    "arrow": (arrow, ".arrow", {}),
    "jsonl": (lines, ".jsonl", {}),
    "olmo": (bare, ".npy", {"format": "olmo", "options": {"width": 2}}),
}


@pytest.fixture(params=FORMATS)
def kind(request):
    """A function that writes files by their numbers, and the arguments that read them."""
    write, suffix, how = FORMATS[request.param]

    def made(folder, *counts, name="train-{:05d}-of-{:05d}"):
        folder.mkdir(exist_ok=True)
        for number, count in counts:
            write(folder / f"{name.format(number, count)}{suffix}", [100 + number, 7])
        return folder

    return made, suffix, {"eos": 0, **how}


TWO = [(0, 2), (1, 2), (0, 3), (1, 3), (2, 3)]


def test_two_sets(tmp_path, kind):
    made, suffix, how = kind
    folder = made(tmp_path / "in", *TWO)
    for verb in (tokfmt.info, tokfmt.stats):
        with pytest.raises(CorruptError) as raised:
            verb(folder, **{key: value for key, value in how.items() if verb is tokfmt.stats or key != "eos"})
        words = str(raised.value)
        assert f"2 files of train-*-of-00002{suffix}" in words and f"3 files of train-*-of-00003{suffix}" in words
    (report,) = tokfmt.check(folder, **how)
    assert report.errors == 1 and "2 sets of train" in report.findings[0].message


@pytest.mark.parametrize("there", [[0, 2], [0], [1, 2]], ids=str)
def test_hole(tmp_path, kind, there):
    """The files are named by their names, since the second one has the number 1."""
    made, suffix, how = kind
    folder = made(tmp_path / "in", *((number, 3) for number in there))
    with pytest.raises(CorruptError, match="lacks ") as raised:
        tokfmt.stats(folder, **how)
    for number in {0, 1, 2} - set(there):
        assert f"train-{number:05d}-of-00003{suffix}" in str(raised.value)
    (report,) = tokfmt.check(folder, **how)
    assert report.errors == 1


def test_hole_that_is_accepted(tmp_path, kind):
    """The files that are there are saved, and what is missing is reported. A second set is not saved."""
    made, suffix, how = kind
    folder = made(tmp_path / "in", (0, 3), (2, 3))
    done = tokfmt.convert(folder, tmp_path / "x.pbin", allow_partial=True, **how)
    # A document may run on from one file of raw tokens to the next, so the last file may begin with the rest of one.
    assert done.sequences == (1 if suffix == ".npy" else 2)
    assert any(f"lacks train-00001-of-00003{suffix}" in note for note in done.notes)
    with pytest.raises(CorruptError, match="2 sets of train"):
        tokfmt.convert(made(tmp_path / "in", *TWO), tmp_path / "y.pbin", allow_partial=True, **how)


def test_pattern(tmp_path, kind):
    """Who names the files gets them, and a note."""
    made, suffix, how = kind
    folder = made(tmp_path / "in", *TWO)
    for pattern, files, words in [
        (f"*{suffix}", 5, "2 sets of train"),
        (f"*-0000[02]-of-00003{suffix}", 2, f"lacks train-00001-of-00003{suffix}"),
        (f"*-of-00003{suffix}", 3, ""),
        (f"*-00001-of-00003{suffix}", 1, ""),
    ]:
        done = tokfmt.convert(folder / pattern, tmp_path / "x.pbin", overwrite=True, **how)
        assert done.sequences == files
        noted = [note for note in done.notes if "as far as its files are read" in note]
        assert (words in noted[0] and len(noted) == 1) if words else not noted


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("train-{:05d}-of-{:05d}", [(0, 3), (1, 3), (2, 3)]),
        ("train-{:05d}-of-{:05d}", [(1, 3), (2, 3), (3, 3)]),
        ("train-{:05d}-of-{:05d}", [(0, 2), (1, 2), (2, 2)]),
        ("c4-train.{:05d}-of-{:05d}", [(0, 2), (1, 2)]),
        ("{:05d}_of_{:05d}", [(0, 2), (1, 2)]),
        ("part-{:05d}-{}", [(0, 7), (4, 7)]),
    ],
    ids=["from 0", "from 1", "the last number", "c4", "underscores", "no count"],
)
def test_complete_sets(tmp_path, kind, name, counts):
    made, _, how = kind
    folder = made(tmp_path / "in", *counts, name=name)
    with tokfmt.open(folder, **how) as dataset:
        assert len(dataset) == len(counts)
    (report,) = tokfmt.check(folder, **how)
    assert not report.errors


def blocks(path, ids):
    """Rows of one length, which are blocks of a stream: documents run on from row to row, and from file to file."""
    rows = pa.FixedSizeListArray.from_arrays(pa.array(ids, pa.int32()), 4)
    pa.parquet.write_table(pa.table({"input_ids": rows}), path)


def block_stream(path, ids):
    rows = pa.FixedSizeListArray.from_arrays(pa.array(ids, pa.int32()), 4)
    table = pa.table({"input_ids": rows})
    with pa.ipc.new_stream(path, table.schema) as out:
        out.write_table(table)


def raw(path, ids):
    np.array(ids, "<u2").tofile(path)


STREAMS = {
    "olmo": (raw, ".npy", {"format": "olmo", "options": {"width": 2}}),
    "parquet": (blocks, ".parquet", {}),
    "arrow": (block_stream, ".arrow", {}),
}
PARTS = [[1, 2, 0, 3, 4, 5, 0, 6], [7, 0, 8, 9, 8, 9, 0, 8], [9, 9, 0, 1, 0, 2, 2, 0]]


@pytest.mark.parametrize("damage", ["missing", "cut"])
@pytest.mark.parametrize("name", ["train-{:05d}-of-00003", "part_{:03d}"])
@pytest.mark.parametrize("stream", STREAMS)
def test_no_document_is_joined_over_a_file_that_is_missing_or_cut(stream, name, damage, tmp_path):
    write, suffix, how = STREAMS[stream]
    folder = tmp_path / "in"
    folder.mkdir()
    paths = [folder / f"{name.format(number)}{suffix}" for number in range(3)]
    for path, ids in zip(paths, PARTS, strict=True):
        write(path, ids)
    whole = tokfmt.convert(folder, tmp_path / "whole.jsonl", eos=0, **how)
    documents = [json.loads(line)["input_ids"] for line in (tmp_path / "whole.jsonl").read_text().splitlines()]
    assert whole.sequences == sum(ids.count(0) for ids in PARTS)
    if damage == "missing":
        paths[1].unlink()
    else:
        paths[1].write_bytes(paths[1].read_bytes()[:-3])
    done = tokfmt.convert(folder, tmp_path / "x.jsonl", eos=0, allow_partial=True, **how)
    saved = [json.loads(line)["input_ids"] for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert saved == documents[: len(saved)]
    assert len(saved) >= PARTS[0].count(0)
    assert any("may begin inside a sequence" in note for note in done.notes)


def test_blocks_after_a_first_file_that_cannot_be_read_are_refused(tmp_path):
    for number, ids in enumerate(PARTS):
        blocks(tmp_path / f"part_{number}.parquet", ids)
    (tmp_path / "part_0.parquet").write_bytes(b"PAR1 of which the end is missing")
    with pytest.raises(FormatError) as caught:
        tokfmt.open(tmp_path, eos=0, allow_partial=True)
    assert str(tmp_path / "part_0.parquet") in str(caught.value)


@pytest.fixture
def splits(tmp_path):
    """A folder of Parquet files with a complete split and one that lacks a file."""
    for name, number, count in (("train", 0, 2), ("train", 1, 2), ("test", 0, 2)):
        parquet(tmp_path / f"{name}-{number:05d}-of-{count:05d}.parquet", [number])
    return tmp_path


def test_a_hole_in_another_split_is_no_hole_in_this_one(splits):
    with tokfmt.open(splits) as dataset:
        assert len(dataset) == 2
    assert tokfmt.info(splits, split="train").files == 3
    with pytest.raises(CorruptError, match=r"lacks test-00001-of-00002\.parquet"):
        tokfmt.info(splits, split="test")
    (report,) = tokfmt.check(splits)
    assert [one.code for one in report.findings] == ["TF918"]


SPLITLESS = {
    "parquet": (parquet, "x.parquet"), "parquet of a split": (parquet, "train-00000-of-00001.parquet"),
    "arrow": (arrow, "x.arrow"),
}  # fmt: skip


@pytest.mark.parametrize("named", ["file", "folder"])
@pytest.mark.parametrize("kind_of_file", SPLITLESS)
def test_a_split_that_files_do_not_state_is_refused(kind_of_file, named, tmp_path):
    write, name = SPLITLESS[kind_of_file]
    write(tmp_path / name, [1, 2])
    path = tmp_path / name if named == "file" else tmp_path
    with pytest.raises(FormatError, match="holds no split validation"):
        tokfmt.info(path, split="validation")
    assert tokfmt.info(path).sequences == 1
    if "split" in kind_of_file:
        assert tokfmt.info(path, split="train").sequences == 1


def test_a_prefix_of_megatron_has_no_splits():
    path = FIXTURES / "megatron" / "gpt2_text_document.bin"
    with pytest.raises(FormatError, match="holds no split valid"):
        tokfmt.info(path, split="valid")


def test_splits_are_sets_of_their_own(tmp_path):
    for name, count in (("train", 2), ("test", 1)):
        for number in range(count):
            parquet(tmp_path / f"{name}-{number:05d}-of-{count:05d}.parquet", [number])
    assert tokfmt.info(tmp_path).sequences == 2


def test_names_with_a_hash(tmp_path):
    """Older names of the Hub: two uploads with as many files have the same numbers."""
    for number, word in ((0, "aa11"), (1, "bb22")):
        parquet(tmp_path / f"train-{number:05d}-of-00002-{word}.parquet", [number])
    assert tokfmt.info(tmp_path).sequences == 2
    parquet(tmp_path / "train-00001-of-00002-cc33.parquet", [1])
    with pytest.raises(CorruptError, match="two files of one number: .*bb22.*cc33"):
        tokfmt.info(tmp_path)
    (tmp_path / "train-00001-of-00002-cc33.parquet").unlink()
    (tmp_path / "train-00001-of-00002-bb22.parquet").unlink()
    with pytest.raises(CorruptError, match=r"lacks train-00001-of-00002-\*.parquet"):
        tokfmt.info(tmp_path)


def test_a_count_that_no_folder_has(tmp_path):
    parquet(tmp_path / "train-00000-of-99999999999.parquet", [1])
    with pytest.raises(CorruptError, match="and 99,999,999,995 more"):
        tokfmt.stats(tmp_path, format="parquet", eos=0)


@pytest.mark.parametrize("name", ["part-{}.jsonl", "part-{}.parquet", "part-{}.npy", "part-{}_text_document.bin"])
def test_a_number_that_is_left_out_is_noted_by_every_command(name, tmp_path):
    (tmp_path / "in").mkdir()
    for number in (0, 1, 3):
        tokfmt.convert(
            FIXTURES / "modalities" / "D_2byte_gpt2.pbin", tmp_path / "in" / name.format(number), eos=50256, select=":9"
        )
    lacks = f"lacks {name.format(2)}: the others are numbered from 0 to 3"
    for path in (tmp_path / "in", tmp_path / "in" / "part-*[0-9tlyn]"):
        done = tokfmt.convert(path, tmp_path / "joined.jsonl", eos=50256, dry_run=True)
        assert [note for note in done.notes if lacks in note]
    assert lacks in tokfmt.info(tmp_path / "in", eos=50256).notes
    assert lacks in tokfmt.stats(tmp_path / "in", eos=50256).datasets[0].notes
    assert "TF917" in {finding.code for finding in tokfmt.check(tmp_path / "in")[0].findings}
