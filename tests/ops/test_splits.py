"""Names that state splits divide a directory of every format; the oracle is the documents that were written by hand."""

import gzip
import json
import os
import tarfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from by_hand import megatron, saved
from commands import run

import tokfmt
from tokfmt.errors import FormatError, LossyConversionError

TRAIN, HELD_OUT = [[5, 6, 7, 0], [8, 0], [9, 9, 0]], [[11, 12, 0], [13, 0]]


def joined(documents, dtype="<u2"):
    return np.concatenate([np.array(one, dtype) for one in documents]).tobytes()


def pair(home, name, documents):
    megatron(home / f"wiki_{name}_document.bin", documents)


def jsonl(home, name, documents):
    saved(home / f"{name}.jsonl", "".join(json.dumps({"input_ids": one}) + "\n" for one in documents).encode())


def parquet(home, name, documents):
    pq.write_table(pa.table({"input_ids": documents}), home / f"{name}.parquet")


def datatrove(home, name, documents):
    saved(home / f"{name}.ds", joined(documents))
    saved(home / f"{name}.ds.index", np.cumsum([len(one) for one in documents]).astype("<u8").tobytes())
    saved(home / f"{name}.ds.metadata", f"gpt2|2\n{sum(map(len, documents))}\n1K".encode())


def internevo(home, name, documents):
    lines = [json.dumps({"tokens": one}).encode() + b"\n" for one in documents]
    saved(home / name / "en" / "a.bin", b"".join(lines))
    at = np.cumsum([0, *map(len, lines[:-1])])
    with (home / name / "en" / "a.bin.meta").open("wb") as file:
        np.save(file, np.stack([at, [len(one) for one in documents]], 1))


def olmo(home, name, documents):
    saved(home / f"{name}.npy", joined(documents))
    ends = np.cumsum([len(one) for one in documents]).tolist()
    rows = "".join(f"{a},{b}\n" for a, b in zip([0, *ends], ends, strict=False))
    saved(home / f"{name}.csv.gz", gzip.compress(rows.encode()))


def webdataset(home, name, documents):
    with tarfile.open(home / f"{name}-000000.tar", "w") as archive:
        for number, one in enumerate(documents):
            member = tarfile.TarInfo(f"{number:05d}.json")
            content = json.dumps(one).encode()
            member.size = len(content)
            archive.addfile(member, BytesIO(content))


WRITERS = (pair, jsonl, parquet, datatrove, internevo, olmo, webdataset)


@pytest.fixture(params=WRITERS, ids=lambda write: write.__name__)
def divided(request, tmp_path):
    """A folder with the files of train and valid, in one of the formats."""
    home = tmp_path / "data"
    home.mkdir()
    for name, documents in (("train", TRAIN), ("valid", HELD_OUT)):
        request.param(home, name, documents)
    return home


def held(path, split=None):
    with tokfmt.open(path, eos="none", options={"split": split} if split else {}) as dataset:
        assert split or any("not " in note and "--split" in note for note in dataset.notes)
        return dataset[:].tolist(), dataset.info.split, dataset.info.other_splits


def test_one_split_is_read_and_the_others_are_named(divided):
    assert held(divided) == (TRAIN, "train", ("valid",))
    assert held(divided, "valid") == (HELD_OUT, "valid", ("train",))
    with pytest.raises(FormatError, match="holds no split test: found train, valid"):
        tokfmt.open(divided, options={"split": "test"})


@pytest.mark.parametrize("to", ["o.jsonl", "o.arrow", "o.parquet"])
def test_a_conversion_leaves_out_no_split_unasked(to, divided, tmp_path):
    with pytest.raises(LossyConversionError, match=r"other splits \(valid.*--split"):
        tokfmt.convert(divided, tmp_path / to, eos="none")
    done = tokfmt.convert(divided, tmp_path / to, eos="none", split="valid", verify=True)
    assert done.sequences == len(HELD_OUT)
    assert tokfmt.convert(divided, tmp_path / to, eos="none", allow_loss="splits", overwrite=True).sequences == 3


def test_a_recipe_reads_two_splits_of_one_folder(divided, tmp_path):
    recipe = tmp_path / "mix.toml"
    sources = [
        f'[[source]]\nname = "{name}"\npath = "data"\nsplit = "{name}"\neos = 0\n' for name in ("train", "valid")
    ]
    recipe.write_text("tokfmt = 1\n" + "".join(sources))
    assert tokfmt.convert(recipe, tmp_path / "o.jsonl").sequences == len(TRAIN) + len(HELD_OUT)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["wiki.chunk.00.jsonl", "wiki.val.jsonl"], {"train": 1, "val": 1}),
        (["dev-00.jsonl", "test-00.jsonl"], {"dev": 1, "test": 1}),
        (["split=train/a.jsonl", "split=validation/a.jsonl"], {"train": 1, "validation": 1}),
        (["latest.jsonl", "contest.jsonl"], None),
        (["train.jsonl", "train2.jsonl"], None),
        (["train.jsonl", "test.jsonl", "more.jsonl"], {"train": 1, "test": 1, "others": 1}),
    ],
)
def test_what_names_state(names, expected, tmp_path):
    home = tmp_path / "data"
    for name in names:
        jsonl(home / os.path.dirname(name), os.path.basename(name).removesuffix(".jsonl"), [[1]])
    recursive = "/" in names[0]
    if expected is None:
        assert tokfmt.convert(home, tmp_path / "o.jsonl", recursive=recursive).sequences == len(names)
        return
    with pytest.raises(tokfmt.TokfmtError, match="split"):
        tokfmt.convert(home, tmp_path / "o.jsonl", recursive=recursive)
    for name, count in expected.items():
        done = tokfmt.convert(home, tmp_path / f"{name}.jsonl", split=name, recursive=recursive)
        assert done.sequences == count


def test_what_energon_lists_divides_and_excludes(tmp_path):
    for number in range(4):
        webdataset(tmp_path, f"shard_{number}", [[number, 0]])
    listed = "exclude:\n- shard_2-000000.tar\nsplit_parts:\n  train:\n  - shard_{0..2}-000000.tar\n  val:\n"
    saved(tmp_path / ".nv-meta" / "split.yaml", (listed + "  - shard_3-000000.tar\n  test: []\n").encode())
    assert held(tmp_path) == ([[0, 0], [1, 0]], "train", ("excluded", "val"))
    assert held(tmp_path, "val")[0] == [[3, 0]]


def test_titles_of_texts_are_no_splits(tmp_path):
    for name in ("test-plan.md", "dev-guide.md", "index.md"):
        saved(tmp_path / name, name.encode())
    assert tokfmt.info(tmp_path).sequences == 3


def test_a_check_reads_all_splits(divided):
    said = run("check", "--deep", divided, "--eos", "none", is_merged=True)
    assert said.returncode == 0
    assert "no findings" in said.stdout
    assert "the splits train, valid are checked together" in said.stdout or "train is read, not valid" in said.stdout


def test_a_check_looks_at_the_end_of_each_stream(tmp_path):
    """train.bin and val.bin of nanoGPT."""
    (tmp_path / "train.bin").write_bytes(joined([[1, 2, 50256]] * 50))
    (tmp_path / "val.bin").write_bytes(joined([[3, 4, 50256]] * 50 + [[5]]))
    (report,) = tokfmt.check(tmp_path, deep=True)
    assert [(one.code, Path(one.path).name, one.offset) for one in report.findings if one.severity != "info"] == [
        ("TF645", "val.bin", 302)
    ]


def test_splits_that_are_named_together_are_said(divided, tmp_path):
    endings = (".bin", ".jsonl", ".parquet", ".ds", ".npy", ".tar")
    names = [one for one in divided.rglob("*") if one.suffix in endings]
    said = run("convert", *names, tmp_path / "o.jsonl", "--eos", "none", is_merged=True, check=0)
    assert "several splits are read together" in said.stdout
    assert "5 sequences" in said.stdout


def test_python_opens_a_split_by_its_name(tmp_path):
    for name, ids in (("train", [1, 2]), ("valid", [3])):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"input_ids": ids}) + "\n")
    for name, ids in (("train", [1, 2]), ("valid", [3])):
        with tokfmt.open(tmp_path, split=name) as dataset:
            assert [one.tolist() for one in dataset] == [ids]
