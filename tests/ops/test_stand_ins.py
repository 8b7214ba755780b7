"""Files in the place of the data: placeholders of Git LFS, pages of HTML and XML, and empty files."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import tokfmt
from tokfmt.errors import StandInError, TokfmtError

PLACEHOLDER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345678\n"
PAGES = [
    b"<!DOCTYPE html>\n<html><title>503</title></html>\n",
    b"\xef\xbb\xbf\n <HTML><body>login</body></HTML>",
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code></Error>\n',
]
NAMES = [
    "train.bin", "x.parquet", "x.arrow", "x.h5", "x.jsonl", "x.jsonl.gz", "x.jsonl.zst", "x.pbin", "part-0-00000.npy",
    "x.ds", "x_document.bin", "x.zarr.zip", "stage1_block_0000.bin", "fineweb_train_000001.bin", "index.json", "plain",
]  # fmt: skip
RAW = ["nanogpt", "stage1", "olmo", "datatrove", "llmc", "modalities", "megatron", "hdf5", "parquet", "arrow", "jsonl"]


@pytest.mark.parametrize("name", [*NAMES, "x.md"])
def test_placeholder_of_git_lfs(name, tmp_path):
    (tmp_path / name).write_bytes(PLACEHOLDER)
    with pytest.raises(StandInError, match=r"Git LFS.*12,345,678 bytes.*git lfs pull") as raised:
        tokfmt.info(tmp_path / name)
    assert raised.value.path == str(tmp_path / name)
    (report,) = tokfmt.check(tmp_path / name)
    assert report.counts == {"TF900": 1} and report.exit_code == 3


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("page", PAGES, ids=["html", "mark", "xml"])
def test_page_of_a_server(name, page, tmp_path):
    (tmp_path / name).write_bytes(page)
    with pytest.raises(TokfmtError, match="page of HTML or XML"):
        tokfmt.info(tmp_path / name)


@pytest.mark.parametrize("format_", RAW)
@pytest.mark.parametrize("content", [PLACEHOLDER, PAGES[0]], ids=["placeholder", "page"])
def test_given_format(format_, content, tmp_path):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(StandInError):
        tokfmt.stats(tmp_path / "x", format=format_, eos=0)


@pytest.mark.parametrize("format_", ["nanogpt", "stage1", "olmo", "modalities", "internevo", "litgpt-packed"])
@pytest.mark.parametrize("length", [50, 51, 52, 4096, 4100])
def test_a_page_has_no_other_finding(format_, length, tmp_path):
    """What its size says of a block of samples or of whole tokens is not of interest."""
    (tmp_path / "x").write_bytes(PAGES[0] + b" " * (length - len(PAGES[0])))
    (report,) = tokfmt.check(tmp_path / "x", format=format_, deep=True)
    assert list(report.counts.values()) == [1]
    assert "page of HTML" in report.findings[0].message


def test_a_page_among_blocks_is_reported_beside_what_the_others_have(tmp_path):
    (folder := tmp_path / "in").mkdir()
    for number in range(3):
        np.arange(1, 2049, dtype="<i4").tofile(folder / f"stage1_block_{number:04d}.bin")
    (folder / "stage1_block_0001.bin").write_bytes(PAGES[0])
    with open(folder / "stage1_block_0002.bin", "ab") as file:
        file.write(b"abc")
    (report,) = tokfmt.check(folder, format="stage1")
    assert {(finding.code, finding.path.rpartition("/")[2]) for finding in report.findings} >= {
        ("TF202", "stage1_block_0001.bin"), ("TF206", "stage1_block_0002.bin"),
    }  # fmt: skip
    assert sum(finding.path.endswith("0001.bin") for finding in report.findings) == 1


def test_page_as_a_document(tmp_path):
    """A page is data for who says so: a document of text."""
    (tmp_path / "page.md").write_bytes(PAGES[0])
    (tmp_path / "page.html").write_bytes(PAGES[0])
    assert tokfmt.info(tmp_path / "page.md").format == "text"
    tokfmt.convert(tmp_path / "page.html", tmp_path / "x.jsonl", format="text", verify=True)
    assert "503" in (tmp_path / "x.jsonl").read_text()


def test_long_page(tmp_path):
    (tmp_path / "train.bin").write_bytes(PAGES[0] + b"<p>" * 50_000)
    with pytest.raises(StandInError):
        tokfmt.stats(tmp_path / "train.bin", eos=0)


def test_placeholder_among_shards(tmp_path):
    """Of a folder of raw tokens, one file is not here. No option reads the others as if it did not exist."""
    (folder := tmp_path / "in").mkdir()
    for number in range(3):
        np.arange(100, dtype="<u2").tofile(folder / f"part-0-{number:05d}.npy")
    (folder / "part-0-00001.npy").write_bytes(PLACEHOLDER)
    how = {"format": "olmo", "options": {"width": 2}, "eos": 5}
    for partial in (False, True):
        with pytest.raises(StandInError) as raised:
            tokfmt.convert(folder, tmp_path / "x.pbin", allow_partial=partial, **how)
        assert raised.value.path.endswith("part-0-00001.npy")


def test_placeholder_of_a_tokenizer(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "tokenizer.json").write_bytes(PLACEHOLDER)
    with pytest.raises(TokfmtError, match="Git LFS"):
        tokfmt.convert(tmp_path / "x.jsonl", tmp_path / "x.pbin", tokenizer=str(tmp_path / "tokenizer.json"))


@pytest.mark.parametrize("name", ["x.h5", "x.parquet", "x.arrow", "x.npy", "x.bin", "plain", "x.zarr.zip"])
def test_empty_file(name, tmp_path):
    (tmp_path / name).touch()
    with pytest.raises(TokfmtError, match=r"empty file.*failed copy.*Copy it again") as raised:
        tokfmt.info(tmp_path / name)
    assert "from" not in str(raised.value)


@pytest.mark.parametrize("format_", ["hdf5", "parquet", "arrow", "llmc", "olmo", "datatrove", "flat-tokens", "recipe"])
def test_empty_file_of_a_given_format(format_, tmp_path):
    (tmp_path / "x").touch()
    with pytest.raises(TokfmtError, match=r"empty file.*failed copy"):
        tokfmt.info(tmp_path / "x", format=format_)


def test_empty_shard(tmp_path):
    pa.parquet.write_table(pa.table({"input_ids": [[1, 2]]}), tmp_path / "train-00000-of-00002.parquet")
    (tmp_path / "train-00001-of-00002.parquet").touch()
    with pytest.raises(TokfmtError, match=r"train-00001-of-00002.parquet: .*found nothing. Copy"):
        tokfmt.stats(tmp_path)


@pytest.mark.parametrize("name", ["train.bin", "stage1_block_0000.bin"])
def test_empty_file_without_a_header(name, tmp_path):
    """It may be a dataset without a token, so it is read. That it is one is only certain if its manifest says so."""
    (tmp_path / name).touch()
    (report,) = tokfmt.check(tmp_path / name)
    assert report.counts == {"TF919": 1}
    (tmp_path / "none.jsonl").touch()
    (tmp_path / "out").mkdir()
    tokfmt.convert(tmp_path / "none.jsonl", tmp_path / "out" / name, eos=0)
    (report,) = tokfmt.check(tmp_path / "out" / name)
    assert report.counts == {"TF941": 1}
