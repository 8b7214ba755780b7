"""What another process holds or has changed: locks that say whose they are, parcels that are what was packed, scratch."""

import errno
import os
import stat
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.core.errors import ConversionError, UnsafeError
from tokfmt.core.locks import (
    Scratch,
    holder,
    release,
    take_lock,
)
from tokfmt.core.publisher import Publisher
from tokfmt.ops.convert.convert import finish
from tokfmt.run import plan
from tokfmt.run.execute import SharedPayload, receive
from tokfmt.run.plan import Journal

ME = f"process {os.getpid()} on {os.uname().nodename}"


def test_waiting_for_a_lock_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "_PATIENCE", 0.1)
    lock = take_lock(tmp_path / "setup")
    with (
        Journal(tmp_path) as opened,
        pytest.raises(ConversionError, match=f"{ME} has held the lock setup for 0.1 seconds"),
    ):
        opened.once("x", lambda: 1)
    os.close(lock)
    with Journal(tmp_path) as opened:
        assert opened.once("x", lambda: 1) == 1


@pytest.fixture(params=[errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def without_locks(request, monkeypatch):
    """Lustre mounted without flock, some FUSE, NFS whose server has no locks."""

    def flock(fd, how):
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr("fcntl.flock", flock)


@pytest.mark.usefixtures("without_locks")
def test_who_has_signed_a_lock_holds_it_where_there_are_none(tmp_path):
    path = tmp_path / "lock"
    lock = take_lock(path)
    assert take_lock(path) == -1
    assert holder(path) == f"{ME}; this file system has no locks: if that process has ended, remove {path}"
    release(lock)
    ended = subprocess.Popen(["true"])
    ended.wait()
    for name, free in (
        (f"process {ended.pid} on {os.uname().nodename}\n", True),
        (f"process {os.getpid()} on another-machine\n", False),
        (f"process 1 on {os.uname().nodename}\n", False),
        (f"process {'9' * 99} on {os.uname().nodename}\n", False),
        ("", True),
        ("torn", True),
    ):
        path.write_text(name)
        lock = take_lock(path)
        assert (lock >= 0) == free, name
        if free:
            release(lock)
    one, other = take_lock(tmp_path / "shared", shared=True), take_lock(tmp_path / "shared", shared=True)
    assert min(one, other) >= 0
    release(one)
    release(other)


@pytest.mark.usefixtures("without_locks")
def test_conversions_where_there_are_no_locks(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # not where other runs look for leftovers
    source = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
    tokfmt.convert(source, tmp_path / "a.zarr", resume=True)
    tokfmt.convert(source, tmp_path / "a.zarr", overwrite=True, shuffle=1)
    with Publisher(tmp_path / "e.zarr"), Scratch() as scratch:
        tokfmt.convert(source, tmp_path / "b.zarr")
        assert scratch.is_dir()
    for task in ((0, 2), (1, 2)):
        tokfmt.convert(source, tmp_path / "c.zarr", task=task)
    finish(tmp_path / "c.zarr")
    assert {name for name in os.listdir(tmp_path) if not name.endswith(".json")} == {"a.zarr", "b.zarr", "c.zarr"}
    with Publisher(tmp_path / "d.zarr", kept="resume"), pytest.raises(ConversionError, match=f"locked by {ME}"):
        tokfmt.convert(source, tmp_path / "d.zarr", resume=True)


def test_a_parcel_is_what_was_packed(tmp_path):
    """Whoever changes it, or puts another in its place: nothing of that is unpickled."""
    parcel = SharedPayload.pack({"offsets": np.arange(1 << 15)}, tmp_path)
    assert receive(parcel)["offsets"][-1] == (1 << 15) - 1
    (path,) = tmp_path.iterdir()
    assert path == parcel.parts
    raw = path.read_bytes()
    at = raw.index(b"offsets")
    path.write_bytes(raw[:at] + b"OFFSETS" + raw[at + 7 :])
    with pytest.raises(UnsafeError, match="is not what was written there"):
        receive(SharedPayload("another key", path, parcel.digest, {}))
    path.rename(tmp_path / "moved")
    path.symlink_to("moved")
    with pytest.raises(OSError, match="symbolic links"):
        receive(SharedPayload("a third", path, parcel.digest, {}))


def test_scratch_is_removed(tmp_path, monkeypatch):
    """It is removed when it is closed or collected, and by the next one if its process was killed."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Scratch() as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        held = Scratch()
        assert len(list(tmp_path.iterdir())) == 2, "a living one stays"
    del held
    assert not list(tmp_path.iterdir())
    pid = os.fork()
    if not pid:
        made = Scratch()
        os.kill(os.getpid(), 9)
        del made
    os.waitpid(pid, 0)
    assert len(list(tmp_path.iterdir())) == 1
    with Scratch() as path:
        assert list(tmp_path.iterdir()) == [path]


def test_scratch_that_another_process_takes_for_a_leftover(tmp_path, monkeypatch):
    """The process that removes leftovers may meet a directory that is made at the moment: another one is made."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    real, removed = tempfile.mkdtemp, []

    def seized(*words, **options):
        found = real(*words, **options)
        if not removed:
            removed.append(found)
            Path(found).rmdir()
        return found

    monkeypatch.setattr(tempfile, "mkdtemp", seized)
    with Scratch() as path:
        assert removed and path.is_dir() and (path / "lock").is_file()
    assert not list(tmp_path.iterdir())
