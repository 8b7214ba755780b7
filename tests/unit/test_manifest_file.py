"""Manifests that say nothing: not regular files, or files that become others while they are opened, or false numbers."""

import json
import os
import shutil
import sys

import commands
import pytest
from paths import CORPUS, TOKENIZER

import tokfmt
from tokfmt import check, convert
from tokfmt.errors import CorruptError

SWAPPED = set()


def swap(event, arguments):
    if event == "open" and SWAPPED and (path := str(arguments[0])) in SWAPPED:
        SWAPPED.remove(path)
        os.unlink(path)
        os.mkfifo(path)


@pytest.fixture
def swap_when_opened():
    """A function that puts a FIFO in the place of a file as soon as somebody opens it."""
    sys.addaudithook(swap)
    yield lambda path: SWAPPED.add(str(path))
    SWAPPED.clear()


@pytest.fixture
def pack(tmp_path):
    convert(CORPUS, tmp_path / "x.pbin", tokenizer=TOKENIZER, jobs=1)
    return tmp_path / "x.pbin"


def refused(pack, why=""):
    """The manifest is not used, which the dataset notes, and `check` finds."""
    (note,) = (note for note in tokfmt.open(pack, eos=4095).notes if "cannot be read and is not used: " in note)
    assert note.partition("is not used: ")[2].startswith(why)
    (verdict,) = check([pack], deep=True)
    assert [(finding.code, why in finding.message) for finding in verdict.findings] == [("TF910", True)]


def test_a_manifest_that_becomes_a_fifo(pack, swap_when_opened):
    beside = pack.with_name("x.pbin.tokfmt.json")
    swap_when_opened(beside)
    assert any("cannot be read and is not used" in note for note in tokfmt.open(pack, eos=4095).notes)
    assert beside.is_fifo()
    refused(pack)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.touch()])
def test_invalid_manifest_is_not_used(pack, make):
    beside = pack.with_name("x.pbin.tokfmt.json")
    beside.unlink()
    make(beside)
    refused(pack)


def test_a_manifest_that_is_too_large_is_not_used(pack):
    os.truncate(pack.with_name("x.pbin.tokfmt.json"), (1 << 24) + 1)
    refused(pack)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"eos_id": 10**30}, "its eos_id is a number of 31 digits (expected a number from 0 to 4,294,967,295)"),
        ({"eos_id": -1}, "its eos_id is -1 (expected a number from 0 to 4,294,967,295)"),
        ({"eos_id": True}, "its eos_id is true (expected"),
        ({"tokens": "12"}, 'its tokens is "12" (expected a number from 0 to 9,223,372,036,854,775,807)'),
        ({"max_id": False}, "its max_id is false (expected a number from -1 to"),
        ({"sequences": 10**400}, "its sequences is a number of 401 digits"),
        ({"splits": {"a": {"sequences": 1.5}}}, "its sequences is 1.5"),
    ],
)
def test_a_manifest_with_a_number_that_cannot_be_is_not_used(pack, value, why):
    beside = pack.with_name("x.pbin.tokfmt.json")
    beside.write_text(json.dumps(json.loads(beside.read_text()) | value))
    refused(pack, why)


def test_a_tokenizer_that_becomes_a_fifo(tmp_path, swap_when_opened):
    """The tokenizer of a manifest, which commands look for by its digest."""
    home = tmp_path / "tokenizer"
    shutil.copytree(TOKENIZER, home)
    convert(CORPUS, tmp_path / "x.pbin", tokenizer=home, jobs=1)
    assert commands.run("show", tmp_path / "x.pbin", "0", "--text", check=0).stdout
    swap_when_opened(home / "tokenizer.json")
    refusal = commands.run("show", tmp_path / "x.pbin", "0", "--text")
    assert (home / "tokenizer.json").is_fifo()
    assert refusal.returncode and "tokenizer.json: is not a regular file: found FIFO" in refusal.stderr


@pytest.mark.parametrize("name", ["x.pbin", "x.jsonl", "x.zarr", "x_document.bin"])
def test_the_largest_id_is_compared(tmp_path, name):
    path = tmp_path / name
    convert(CORPUS, path, tokenizer=TOKENIZER, jobs=1)
    (beside,) = tmp_path.glob("*.tokfmt.json")
    content = json.loads(beside.read_text())
    assert check([path], deep=True)[0].findings == []
    beside.write_text(json.dumps({**content, "max_id": 4000}))
    (verdict,) = check([path], deep=True)
    assert [found.code for found in verdict.findings] == ["TF913"]
    assert "has the largest ID 4,0" in verdict.findings[0].message


def test_amounts_of_a_manifest_are_not_printed_at_length(tmp_path):
    path = tmp_path / "x.pbin"
    convert(CORPUS, path, tokenizer=TOKENIZER, jobs=1)
    beside = tmp_path / "x.pbin.tokfmt.json"
    content = json.loads(beside.read_text())
    content["output"]["bytes"] = 10**400
    beside.write_text(json.dumps(content))
    with pytest.raises(CorruptError, match="in bytes: expected a number of 401 digits, found"):
        tokfmt.open(path)
    (verdict,) = check([path])
    assert "the manifest states a number of 401 digits" in verdict.findings[0].message
