"""The journal of a conversion: lines are whole or not believed."""

import os

from tokfmt.core.locks import take_lock
from tokfmt.run.plan import Journal


def test_the_data_is_synced_before_the_line(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("tokfmt.run.plan.sync_file_system", lambda path: seen.append("data"))
    monkeypatch.setattr(os, "fsync", lambda fd: seen.append("line"))
    with Journal(tmp_path) as journal:
        journal.add("region", 0, [])
        assert seen == ["data", "line"]


def test_shared_locks(tmp_path):
    one, other = take_lock(tmp_path / "lock", shared=True), take_lock(tmp_path / "lock", shared=True)
    assert min(one, other) >= 0
    assert take_lock(tmp_path / "lock") == -1
    os.close(one)
    os.close(other)
    alone = take_lock(tmp_path / "lock")
    assert alone >= 0
    os.close(alone)
    assert take_lock(tmp_path / "gone" / "lock") == -1
