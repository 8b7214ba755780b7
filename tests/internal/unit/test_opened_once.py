"""Files of sources that stay open for other parts of a command."""

import os
from unittest import mock

import pytest

from tokfmt.core import once
from tokfmt.core.files import File
from tokfmt.core.once import OpenedOnce


def content(path):
    file = File(path)
    try:
        return file.read(0, file.size)
    finally:
        file.close()


def descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def source(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"first")
    (tmp_path / "a.idx").write_bytes(b"index")
    return tmp_path / "a.bin"


def test_a_source_and_what_stands_beside_it_are_opened_once(source):
    before = descriptors()
    with OpenedOnce([source]) as opened, mock.patch.object(once.os, "open", side_effect=os.open) as opens:
        for _ in range(3):
            assert content(source) == b"first"
            assert content(source.with_suffix(".idx")) == b"index"
        opened.collects = False
        assert content(source) == b"first"
        assert sorted(call.args[0].name for call in opens.call_args_list) == ["a.bin", "a.idx"]
    assert descriptors() == before
