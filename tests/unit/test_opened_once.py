"""Files of sources that stay open for other parts of a command."""

import os

import pytest

from tokfmt.core.once import OpenedOnce
from tokfmt.plugin import File


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


def test_a_file_that_was_replaced_is_opened_again(source):
    with OpenedOnce([source]):
        assert content(source) == b"first"
        source.with_suffix(".new").write_bytes(b"second")
        source.with_suffix(".new").replace(source)
        assert content(source) == b"second"
        source.unlink()
        with pytest.raises(Exception, match="no such file"):
            content(source)


def test_what_is_opened_later_or_elsewhere_is_not_kept(source, tmp_path_factory):
    other = tmp_path_factory.mktemp("other") / "b.bin"
    other.write_bytes(b"other")
    with OpenedOnce([source]) as opened:
        before = descriptors()
        assert content(other) == b"other"
        opened.collects = False
        assert content(source) == b"first"
        assert descriptors() == before
