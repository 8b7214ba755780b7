"""What another process holds or has changed: locks that say whose they are, parcels that are what was packed, scratch."""

import errno
import os
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

from tokfmt.errors import ConversionError
from tokfmt.files.locks import (
    Scratch,
    check_private,
    holder,
    lock_dead,
    make_private,
    release,
    remove_private,
    take_lock,
)

ME = f"process {os.getpid()} on {os.uname().nodename}"


def test_lock_has_its_holder(tmp_path):
    lock = take_lock(tmp_path / "lock")
    assert take_lock(tmp_path / "lock") == -1
    assert holder(tmp_path / "lock") == ME
    assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) & 0o077 == 0
    os.close(lock)
    assert holder(tmp_path / "none") == "another process"


def test_private_directories(tmp_path):
    make_private(tmp_path / "a")
    with pytest.raises(FileExistsError):
        make_private(tmp_path / "a")
    (tmp_path / "a").chmod(0o755)
    make_private(tmp_path / "a", taken_over=True)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    for name, says in (("file", "is not a directory"), ("link", "is a link"), ("open", "others may write to it")):
        with pytest.raises(ConversionError, match=says):
            check_private(tmp_path / name)


def test_removal_follows_no_link(tmp_path):
    """The lock goes last, so that a killed removal is known as one; without a lock, only an empty directory goes."""
    precious, home = tmp_path / "precious", tmp_path / "home"
    (precious / "thesis").mkdir(parents=True)
    (precious / "thesis" / "thesis.tex").write_text("three years")
    (home / "build").mkdir(parents=True)
    for path, target in (
        (home / "scratch", "thesis"),
        (home / "build" / "0", "thesis"),
        (home / "1", "thesis/thesis.tex"),
    ):
        path.symlink_to(precious / target)
    lock = take_lock(home / "lock")
    assert take_lock(home / "lock", existing=True) == -1, "it is held"
    (tmp_path / "name").symlink_to(home)
    remove_private(tmp_path / "name", lock)
    remove_private(home, -1)
    assert sorted(os.listdir(home)) == ["1", "build", "lock", "scratch"]
    remove_private(home, lock)
    release(lock)
    assert not home.exists()
    assert (precious / "thesis" / "thesis.tex").read_text() == "three years"
    (home / "lock").parent.mkdir()
    (home / "lock").touch()
    remove_private(home, -1)
    assert not home.exists()


def test_leftovers_are_known_by_their_lock(tmp_path):
    for name, lock in (("none", None), ("ours", ""), ("signed", f"{ME}\n"), ("theirs", "backup\n")):
        (tmp_path / name / "build").mkdir(parents=True)
        if lock is not None:
            (tmp_path / name / "lock").write_text(lock)
    (tmp_path / "empty").mkdir()
    with pytest.raises(OSError, match="not empty"):
        lock_dead(tmp_path / "none")
    assert lock_dead(tmp_path / "theirs") == lock_dead(tmp_path / "empty") == -1
    assert not (tmp_path / "empty").exists()
    for name in ("ours", "signed"):
        lock = lock_dead(tmp_path / name)
        remove_private(tmp_path / name, lock)
        release(lock)
    assert sorted(os.listdir(tmp_path)) == ["none", "theirs"]


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


def test_shared_locks(tmp_path):
    first, second = take_lock(tmp_path / "lock", shared=True), take_lock(tmp_path / "lock", shared=True)
    assert min(first, second) >= 0
    assert take_lock(tmp_path / "lock") == -1
    os.close(first)
    os.close(second)
    alone = take_lock(tmp_path / "lock")
    assert alone >= 0
    os.close(alone)
    assert take_lock(tmp_path / "gone" / "lock") == -1
