"""Processes that a test starts, and those that it has left behind."""

import contextlib
import os
import signal
import time
from functools import cache
from pathlib import Path

from paths import ROOT

from tokfmt.run.execute import make_executor

MARK = "TOKFMT_TESTS"
"""A variable of the environment: the process of pytest from which a process descends."""
LASTING = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
"""Python keeps them until the process that used a pool ends."""
PATIENCE = 10
"""Seconds for what is about to end."""


@contextlib.contextmanager
def running(process, *, group=False):
    """Kill a process at the end of the block if it still runs, wait for it, and close its streams.

    Args:
        process: A `Popen`.
        group: It leads a group, all of which is killed.
    """
    try:
        yield process
    finally:
        if group:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait(60)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError, ValueError):
                    stream.close()


kept = set()
"""Numbers of the processes that last as long as pytest: workers, and those that fork what survival tests break."""


@cache
def workers():
    """Two worker processes as `--executor processes` starts them; they last as long as pytest."""
    with contextlib.chdir(ROOT):  # the directory of the test that comes first is removed
        pool = make_executor("processes", 2).__enter__()
        pool.submit(os.getpid).result()  # the second, as the first has a task
    kept.update(pool._processes)  # type: ignore[attr-defined]
    assert len(pool._processes) == 2  # type: ignore[attr-defined]
    return pool


def left_behind(spared):
    """Command and number of each process that descends from this one, once they have had time to end.

    Args:
        spared: Numbers of processes that last as long as pytest.
    """
    end = time.monotonic() + PATIENCE
    while (found := _descendants(spared)) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def _descendants(spared):
    mark = f"{MARK}={os.getpid()}\0".encode()
    found = {}
    for place in Path("/proc").iterdir():
        if not place.name.isdigit() or int(place.name) in {os.getpid(), *spared}:
            continue
        with contextlib.suppress(OSError):
            state, parent = (place / "stat").read_text().rpartition(")")[2].split()[:2]
            environment = (place / "environ").read_bytes()
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            if mark in environment and state not in "ZX" and not any(name in command for name in LASTING):
                test = environment.partition(b"PYTEST_CURRENT_TEST=")[2].partition(b"\0")[0].decode()
                found[int(place.name)] = f"{command} (child of {parent}, started in {test})"
    return found
