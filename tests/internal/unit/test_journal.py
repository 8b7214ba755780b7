"""The journal of a conversion: lines are whole or not believed."""

import os

import pytest

from tokfmt.core.atomic_output import Staging
from tokfmt.core.errors import ConversionError, DestinationExistsError
from tokfmt.core.locks import take_lock
from tokfmt.run.plan import Journal


def test_the_data_is_synced_before_the_line(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("tokfmt.run.plan.sync_file_system", lambda path: seen.append("data"))
    monkeypatch.setattr(os, "fsync", lambda fd: seen.append("line"))
    with Journal(tmp_path) as journal:
        journal.add("region", 0, [])
        assert seen == ["data", "line"]


def test_kept_siblings_are_taken_over(tmp_path):
    out = tmp_path / "out"
    with Staging(out, kept="resume") as staging:
        staging.path.write_bytes(b"half")
    with Staging(out, kept="resume") as staging:
        assert staging.path.read_bytes() == b"half"
        with pytest.raises(ConversionError, match="another tokfmt is writing it now"), Staging(out, kept="resume"):
            pass
        assert staging.path.read_bytes() == b"half"
        with Staging(out) as plain:
            assert plain.removed == ()
    with Staging(out, kept="tasks"):
        assert (tmp_path / ".out.tokfmt-resume").exists()
    with Staging(out) as plain:
        assert sorted(plain.removed) == [".out.tokfmt-resume", ".out.tokfmt-tasks"]
    assert os.listdir(tmp_path) == []


def test_killed_between_publishing_and_the_end(tmp_path):
    out = tmp_path / "out"
    with Staging(out, kept="resume") as staging:
        staging.path.write_bytes(b"all")
        staging.publish()
        staging.keep = True  # as SIGKILL would have it
    with Staging(out, kept="resume") as staging:
        assert staging.published
        assert staging.path == out
        staging.publish()
        staging.keep = False
    assert os.listdir(tmp_path) == ["out"]
    assert out.read_bytes() == b"all"
    with pytest.raises(DestinationExistsError), Staging(out, kept="resume"):
        pass


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
