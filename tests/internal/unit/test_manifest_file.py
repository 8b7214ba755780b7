"""Manifests that say nothing: not regular files, or files that become others while they are opened, or false numbers."""

import json
import os
import sys

import pytest
from paths import CORPUS, TOKENIZER

import tokfmt
from tokfmt import check, convert
from tokfmt.ops.source import manifest
from tokfmt.ops.source.manifest import read_manifest

_swapped = set()


def _before_open(event, arguments):
    if event == "open" and _swapped and (path := str(arguments[0])) in _swapped:
        _swapped.remove(path)
        os.unlink(path)
        os.mkfifo(path)


@pytest.fixture
def swap_when_opened():
    """A function that has a FIFO in the place of a file as soon as somebody opens it."""

    sys.addaudithook(_before_open)
    yield lambda path: _swapped.add(str(path))
    _swapped.clear()


def test_a_manifest_that_becomes_a_fifo(tmp_path, swap_when_opened):
    path = tmp_path / "x.pbin.tokfmt.json"
    path.write_text('{"schema": "tokfmt.manifest/1"}')
    assert not read_manifest(tmp_path / "x.pbin").broken
    swap_when_opened(path)
    assert read_manifest(tmp_path / "x.pbin").broken
    assert path.is_fifo()


def test_a_tokenizer_that_becomes_a_fifo(tmp_path, swap_when_opened):
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    assert manifest._tokenizer_digest(tmp_path)
    swap_when_opened(path)
    assert manifest._tokenizer_digest(tmp_path) is None
    assert manifest._tokenizer_digest(path) is None
    path.unlink()
    assert manifest._tokenizer_digest(path) is None


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.touch()])
def test_invalid_manifest_is_broken(tmp_path, make):
    make(tmp_path / "x.pbin.tokfmt.json")
    assert read_manifest(tmp_path / "x.pbin").broken


def test_a_manifest_that_is_too_large_is_broken(tmp_path):
    path = tmp_path / "x.pbin.tokfmt.json"
    path.write_text('{"schema": "tokfmt.manifest/1"}')
    os.truncate(path, (1 << 24) + 1)
    assert read_manifest(tmp_path / "x.pbin").broken


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
def test_a_manifest_with_a_number_that_cannot_be_is_broken(tmp_path, value, why):
    path = tmp_path / "x.pbin"
    convert(CORPUS, path, tokenizer=TOKENIZER, jobs=1)
    beside = tmp_path / "x.pbin.tokfmt.json"
    beside.write_text(json.dumps(json.loads(beside.read_text()) | value))
    assert read_manifest(path).broken.startswith(why)
    (verdict,) = check([path], deep=True)
    assert [(found.code, why in found.message) for found in verdict.findings] == [("TF910", True)]
    notes = " ".join(tokfmt.open(path).notes)
    assert f"the manifest {beside.name} cannot be read and is not used: {why}" in notes
