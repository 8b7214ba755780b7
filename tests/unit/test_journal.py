"""The journal of a conversion: lines are whole or not believed."""

import ctypes
import errno
import fcntl
import itertools
import os
import time
from types import SimpleNamespace

import numpy as np
import pytest

from tokfmt.errors import ConversionError
from tokfmt.files.journal import WHOLE, Journal, NullJournal, Task, read_journal


def filled(home, count=3):
    with Journal(home) as journal:
        for number in range(count):
            journal.add("region", number, [number, "é\n", None])
    return home / WHOLE.journal


def test_what_was_added_is_there_again(tmp_path):
    filled(tmp_path)
    with Journal(tmp_path) as journal:
        assert journal.done("region") == {n: [n, "é\n", None] for n in range(3)}
        assert journal.done("shard of x") == {}
        assert not journal.empty


def test_cut_anywhere_the_whole_lines_count(tmp_path):
    path = filled(tmp_path)
    content = path.read_bytes()
    for size in range(len(content) + 1):
        path.write_bytes(content[:size])
        whole = content[:size].count(b"\n")
        with Journal(tmp_path) as journal:
            assert len(journal.done("region")) == whole
            journal.add("region", 9, [])
        assert [number for _, number, _ in read_journal(path)[0]] == [*range(whole), 9]


def test_flipped_anywhere_what_follows_is_not_believed(tmp_path):
    path = filled(tmp_path)
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        found = read_journal(path)[0]
        line = content[:at].count(b"\n")
        if len(found) == 3:  # the blank behind the checksum says nothing
            assert content[at : at + 1] == b" "
        else:
            assert [n for _, n, _ in found] == list(range(line))


def test_a_full_disk_tears_nothing(tmp_path, monkeypatch):
    path = filled(tmp_path)
    before = path.read_bytes()

    def half(fd, data, offset):
        os.lseek(fd, offset, 0)
        os.write(fd, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"), Journal(tmp_path) as journal:
        monkeypatch.setattr(os, "pwrite", half)
        journal.add("region", 7, [])
    assert path.read_bytes() == before


def test_facts_that_json_changes_are_a_bug(tmp_path):
    with Journal(tmp_path) as journal:
        for facts in ((1, 2), {1: 2}):
            with pytest.raises(TypeError, match="does not survive JSON"):
                journal.add("region", 0, facts)
        with pytest.raises(TypeError):
            journal.add("region", 0, [np.int64(1)])


def test_once(tmp_path):
    calls = []
    for _ in range(2):
        with Journal(tmp_path) as journal:
            assert journal.once("scan", lambda: calls.append(1) or [5, 0, -1]) == [5, 0, -1]
    assert calls == [1]
    assert NullJournal().once("scan", lambda: 7) == 7


def test_a_destination_half_made_is_made_afresh(tmp_path):
    build = tmp_path / "build"
    build.mkdir()
    with pytest.raises(ZeroDivisionError), Journal(tmp_path) as journal:
        journal.begin(lambda: (build / "half").touch() or 1 / 0)
    with Journal(tmp_path) as journal:
        journal.begin((build / "made").touch)
        journal.begin((build / "twice").touch)
    assert os.listdir(build) == ["made"]


def test_making_a_destination_afresh_never_takes_its_directory_away(tmp_path):
    """A task that begins at this moment makes the directory if it is absent: neither may meet the other half-way."""
    build = tmp_path / "build"
    (build / "half" / "deep").mkdir(parents=True)
    (build / "link").symlink_to(build)
    before = os.stat(build)
    seen = []
    with Journal(tmp_path) as journal:
        journal.begin(lambda: seen.append((os.stat(build).st_ino, os.listdir(build))))
    assert seen == [(before.st_ino, [])]


def test_one_process_a_shard(tmp_path):
    with Journal(tmp_path, Task(1, 3)), Journal(tmp_path, Task(0, 3)):
        with pytest.raises(ConversionError, match="task 1 of 3 is running already"):
            Journal(tmp_path, Task(1, 3))


@pytest.mark.parametrize(("count", "n"), [(0, 3), (2, 5), (10, 3), (7, 7), (100, 1)])
def test_shares_cover(count, n):
    items = list(range(count))
    shares = [list(Task(k, n).of(items)) for k in range(n)]
    assert sum(shares, []) == items
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_the_data_is_synced_before_the_line(tmp_path, monkeypatch):
    """Where the C library has no `syncfs`, by `sync`."""
    synced = []
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace())
    monkeypatch.setattr(os, "sync", lambda: synced.append("data"))
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append("line"))
    with Journal(tmp_path) as journal:
        journal.add("region", 0, [])
        assert synced == ["data", "line"]


def test_waiting_for_a_lock_ends(tmp_path, monkeypatch):
    """After ten minutes, of which a clock that hurries makes nothing."""
    me = f"process {os.getpid()} on {os.uname().nodename}"
    (tmp_path / "setup").write_text(f"{me}\n")
    lock = os.open(tmp_path / "setup", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with monkeypatch.context() as clock, Journal(tmp_path) as journal:
        ticks = itertools.count(time.monotonic(), 100)
        clock.setattr(time, "monotonic", lambda: next(ticks))
        with pytest.raises(ConversionError, match=f"{me} has held the lock setup for 600 seconds"):
            journal.once("x", lambda: 1)
    os.close(lock)
    with Journal(tmp_path) as journal:
        assert journal.once("x", lambda: 1) == 1
