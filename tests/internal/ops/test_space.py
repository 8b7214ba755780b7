"""Room on the file system of a destination: what plainly does not fit is refused before a byte is written."""

import os
from types import SimpleNamespace

import pytest
from paths import FIXTURES

import tokfmt
from tokfmt import convert

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"  # 2,004 tokens


@pytest.fixture
def room(monkeypatch):
    """Pretend that a file system has so many bytes left."""

    def pretend(free):
        found = SimpleNamespace(f_bavail=free, f_frsize=1, f_blocks=1 << 40)
        monkeypatch.setattr(os, "statvfs", lambda path: found)

    return pretend


def test_space_of_kept_work_is_not_counted_twice(tmp_path, room, monkeypatch):
    from tokfmt.formats.flat import FlatWriter

    commit = FlatWriter.commit
    monkeypatch.setattr(FlatWriter, "commit", lambda *words: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(tokfmt.core.errors.TokfmtError):
        convert(PACK, tmp_path / "out.ds", resume=True)
    monkeypatch.setattr(FlatWriter, "commit", commit)
    room(200)  # of 4,008 bytes, which are there
    assert convert(PACK, tmp_path / "out.ds", resume=True).tokens == 2004
