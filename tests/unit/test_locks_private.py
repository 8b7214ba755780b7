"""What another process holds or has changed: locks that say whose they are, parcels that are what was packed, scratch."""

import os
import stat

import pytest

from tokfmt.core.errors import ConversionError
from tokfmt.core.locks import (
    check_private,
    holder,
    lock_dead,
    make_private,
    own_file,
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


def test_only_what_holds_its_lock_is_removed(tmp_path):
    """Another directory may have got the name since; the lock goes last, so that a killed removal is known as one."""
    home, other = tmp_path / "home", tmp_path / "other"
    for path in (home, other):
        (path / "build").mkdir(parents=True)
        take_lock(path / "lock")
    lock = take_lock(home / "lock", existing=True)
    assert lock == -1, "it is held"
    (home / "lock").unlink()
    lock = take_lock(home / "lock")
    home.rename(tmp_path / "moved")
    other.rename(home)
    remove_private(home, lock)
    assert sorted(os.listdir(home)) == ["build", "lock"]
    remove_private(tmp_path / "moved", lock)
    release(lock)
    assert os.listdir(tmp_path) == ["home"]
    remove_private(home, -1)
    assert home.is_dir()


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


def test_only_files_of_the_caller_are_opened(tmp_path):
    (tmp_path / "mine").write_text("mine")
    with own_file(tmp_path / "mine") as fd:
        assert os.read(fd, 9) == b"mine"
    (tmp_path / "link").symlink_to("mine")
    os.mkfifo(tmp_path / "fifo")
    for name in ("link", "fifo", "none"):
        with pytest.raises(OSError), own_file(tmp_path / name):  # noqa: PT011 - each has another reason
            pass
    if not os.geteuid():
        os.chown(tmp_path / "mine", 65533, 65533)
        with pytest.raises(FileNotFoundError), own_file(tmp_path / "mine"):
            pass
