"""Files beside a dataset that are not regular files, or become others while they are opened: nothing waits for them."""

import os
import sys

import pytest

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
def test_what_is_no_manifest_is_broken(tmp_path, make):
    make(tmp_path / "x.pbin.tokfmt.json")
    assert read_manifest(tmp_path / "x.pbin").broken


def test_a_manifest_that_is_too_large_is_broken(tmp_path):
    path = tmp_path / "x.pbin.tokfmt.json"
    path.write_text('{"schema": "tokfmt.manifest/1"}')
    os.truncate(path, (1 << 24) + 1)
    assert read_manifest(tmp_path / "x.pbin").broken
