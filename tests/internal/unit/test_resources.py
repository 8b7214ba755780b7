"""Processors and memory that a process may use: control groups of both versions, whole, nested, in containers, damaged."""

import os

import pytest

from tokfmt.core import resources

GB = 1 << 30


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """A machine of 128 processors and 512 GB; a function writes /proc/self/cgroup."""
    monkeypatch.setattr(resources, "_OWN", tmp_path / "own")
    monkeypatch.setattr(resources, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(128)))
    monkeypatch.setattr(os, "sysconf", lambda name: {"SC_PHYS_PAGES": 512 * GB >> 12, "SC_PAGE_SIZE": 1 << 12}[name])

    return (tmp_path / "own").write_text


def test_without_groups(groups):
    assert (resources.cpus(), resources.memory()) == (128, 512 * GB)


def test_a_job_of_slurm(groups):
    """Version 2, nested: what is allowed stands some groups above the process's own."""
    groups("0::/slurm/job_7/step_0/task_0\n")
    base = resources._GROUPS / "slurm" / "job_7"
    (base / "step_0" / "task_0").mkdir(parents=True)
    (base / "memory.max").write_text(f"{16 * GB}\n")
    (base / "step_0" / "task_0" / "memory.max").write_text("max\n")
    (base / "step_0" / "cpu.max").write_text("max 100000\n")
    (base / "cpu.max").write_text("350000 100000\n")
    assert (resources.cpus(), resources.memory()) == (4, 16 * GB)


@pytest.mark.parametrize("own", ["0::/\n", "0::/../../kubepods/pod1\n", "0::/not/to/be/seen\n"])
def test_a_container(groups, own):
    """Version 2: its group is the root, whatever it is called outside."""
    groups(own)
    resources._GROUPS.mkdir()
    (resources._GROUPS / "memory.max").write_text(f"{4 * GB}\n")
    (resources._GROUPS / "cpu.max").write_text("50000 100000\n")
    assert (resources.cpus(), resources.memory()) == (1, 4 * GB)


@pytest.mark.parametrize("seen", [True, False])
def test_version_1(groups, seen):
    groups("9:name=systemd:/\n4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n0::/\n")
    inside = "docker/abc" if seen else ""
    for controller, name, text in (
        ("memory", "memory.limit_in_bytes", str(8 * GB)),
        ("cpu,cpuacct", "cpu.cfs_quota_us", "250000"),
    ):
        place = resources._GROUPS / controller / inside
        place.mkdir(parents=True)
        (place / name).write_text(text)
    assert (resources.cpus(), resources.memory()) == (3, 8 * GB)


def test_no_limit_in_version_1(groups):
    groups("4:memory:/\n2:cpu:/\n")
    for controller, name, text in (
        ("memory", "memory.limit_in_bytes", "9223372036854771712"),
        ("cpu", "cpu.cfs_quota_us", "-1"),
    ):
        (resources._GROUPS / controller).mkdir(parents=True)
        (resources._GROUPS / controller / name).write_text(text)
    assert (resources.cpus(), resources.memory()) == (128, 512 * GB)


@pytest.mark.parametrize("own", ["", "nonsense\n", "\n", "0:\n", ":::\n", "4:memory\n"])
@pytest.mark.parametrize("text", ["", "max", "0 0", "x y", "-5", "9" * 40])
def test_nonsense(groups, own, text):
    groups(own)
    resources._GROUPS.mkdir()
    (resources._GROUPS / "memory.max").write_text(text)
    (resources._GROUPS / "cpu.max").write_text(text)
    assert 1 <= resources.cpus() <= 128
    assert 0 <= resources.memory() <= 512 * GB


def test_affinity(groups, monkeypatch):
    """taskset, and what schedulers of clusters do."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5})
    assert resources.cpus() == 2
