"""Files, options, publication, errors, transport: the core's promises one by one."""

import ctypes
import fcntl
import os

import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.core.atomic_output import Staging
from tokfmt.core.errors import (
    ConversionError,
    DestinationExistsError,
    OutageError,
)

# publication


def test_whole_or_absent(tmp_path):
    with pytest.raises(ZeroDivisionError), Staging(tmp_path / "out") as staging:
        staging.path.write_bytes(b"half")
        1 / 0  # noqa: B018
    assert os.listdir(tmp_path) == []


def test_publishes_once_and_never_over(tmp_path):
    with Staging(tmp_path / "out") as staging:
        staging.path.write_bytes(b"new")
        staging.publish()
    assert os.listdir(tmp_path) == ["out"]
    with pytest.raises(DestinationExistsError, match="--overwrite replaces it"), Staging(tmp_path / "out"):
        pass


def test_a_race_for_one_destination_has_one_winner(tmp_path):
    with Staging(tmp_path / "out") as first, Staging(tmp_path / "out") as second:
        first.path.write_bytes(b"1")
        second.path.write_bytes(b"2")
        first.publish()
        with pytest.raises(DestinationExistsError):
            second.publish()
    assert (tmp_path / "out").read_bytes() == b"1"
    assert os.listdir(tmp_path) == ["out"]


def test_dead_leftovers_go_and_living_ones_stay(tmp_path):
    dead, living = tmp_path / ".out.tokfmt-00000000", tmp_path / ".out.tokfmt-11111111"
    for home in (dead, living, tmp_path / ".other.tokfmt-00000000"):
        (home / "scratch").mkdir(parents=True)
        (home / "lock").touch()
    lock = os.open(living / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with Staging(tmp_path / "out"):
        assert sorted(p.name for p in tmp_path.iterdir() if p in (dead, living)) == [living.name]
    os.close(lock)
    assert (tmp_path / ".other.tokfmt-00000000").exists()


class FailingDisk(ctypes.CDLL):
    """A C library whose `syncfs` fails; the reason is that of another call that fails."""

    def __init__(self, *given, **how):
        super().__init__(*given, **how)
        self.syncfs = lambda _: self.fsync(-1)


def test_why_a_disk_cannot_be_flushed_is_reported(tmp_path, monkeypatch):
    """A conversion that can be resumed flushes what it records as done."""
    monkeypatch.setattr(ctypes, "CDLL", FailingDisk)
    source = FIXTURES / "modalities/D_2byte_gpt2.pbin"
    with pytest.raises(OutageError, match="x.pbin: cannot be written: bad file descriptor"):
        tokfmt.convert(source, tmp_path / "x.pbin", resume=True)
    assert not (tmp_path / "x.pbin").exists()


def test_no_directory_to_write_to(tmp_path):
    with (
        pytest.raises(ConversionError, match="the directory it should go to does not exist"),
        Staging(tmp_path / "no" / "out"),
    ):
        pass
