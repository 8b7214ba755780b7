"""Processors and memory that a process may use: control groups of both versions, whole, nested, in containers, damaged."""

import os

import pytest
from machines import GB, Machine

from tokfmt.base import resources


def test_this_machine():
    assert 1 <= resources.cpus() <= os.cpu_count()
    assert resources.memory() > 1 << 28


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path, monkeypatch)


def test_without_groups(machine):
    assert (resources.cpus(), resources.memory()) == (128, 512 * GB)


def test_a_job_of_slurm(machine):
    """Version 2, nested: what is allowed stands some groups above the process's own."""
    machine.own.write_text("0::/slurm/job_7/step_0/task_0\n")
    machine.write({
        "slurm/job_7/memory.max": f"{16 * GB}\n",
        "slurm/job_7/step_0/task_0/memory.max": "max\n",
        "slurm/job_7/step_0/cpu.max": "max 100000\n",
        "slurm/job_7/cpu.max": "350000 100000\n",
    })  # fmt: skip
    assert (resources.cpus(), resources.memory()) == (4, 16 * GB)


@pytest.mark.parametrize("own", ["0::/\n", "0::/../../kubepods/pod1\n", "0::/not/to/be/seen\n"])
def test_a_container(machine, own):
    """Version 2: its group is the root, whatever it is called outside."""
    machine.own.write_text(own)
    machine.write({"memory.max": f"{4 * GB}\n", "cpu.max": "50000 100000\n"})
    assert (resources.cpus(), resources.memory()) == (1, 4 * GB)


@pytest.mark.parametrize("inside", ["docker/abc", ""])
def test_version_1(machine, inside):
    machine.own.write_text("9:name=systemd:/\n4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n0::/\n")
    machine.write({
        f"memory/{inside}/memory.limit_in_bytes": str(8 * GB),
        f"cpu,cpuacct/{inside}/cpu.cfs_quota_us": "250000",
    })  # fmt: skip
    assert (resources.cpus(), resources.memory()) == (3, 8 * GB)


def test_no_limit_in_version_1(machine):
    machine.own.write_text("4:memory:/\n2:cpu:/\n")
    machine.write({"memory/memory.limit_in_bytes": "9223372036854771712", "cpu/cpu.cfs_quota_us": "-1"})
    assert (resources.cpus(), resources.memory()) == (128, 512 * GB)


@pytest.mark.parametrize("own", ["", "nonsense\n", "\n", "0:\n", ":::\n", "4:memory\n"])
@pytest.mark.parametrize("text", ["", "max", "0 0", "x y", "-5", "9" * 40])
def test_nonsense(machine, own, text):
    machine.own.write_text(own)
    machine.write({"memory.max": text, "cpu.max": text})
    assert 1 <= resources.cpus() <= 128
    assert 0 <= resources.memory() <= 512 * GB


@pytest.mark.usefixtures("machine")
def test_affinity(monkeypatch):
    """taskset, and what schedulers of clusters do."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5})
    assert resources.cpus() == 2
