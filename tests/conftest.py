"""Settings of all tests, and the bad files that scripts in the tree make."""

import contextlib
import fcntl
import gc
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile

import forkserver
import processes
import pytest
from amount import EVERY, NIGHTLY
from hypothesis import HealthCheck, settings
from paths import FIXTURES

from tokfmt.files.place import LocalPlace
from tokfmt.run import execute

# how long an example takes says how busy the machine is
settings.register_profile(
    "tokfmt", deadline=None, max_examples=100 if NIGHTLY else 20, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tokfmt")


SLOW = {"cli", "fuzz", "joints", "pages", "release", "remote", "scale", "survival", "tui"}
"""Folders of tests that start applications, processes or servers: `make test-fast` leaves them out."""
MEMORY, ROOM = "/dev/shm", 6 << 30
"""Several times what lies there at once."""


def pytest_configure():
    os.environ[processes.MARK] = str(os.getpid())
    pass_no_signals_on()
    use_no_surroundings()
    use_memory()
    ask_no_other_machine()


def pass_no_signals_on():
    """Start processes with the signals of a terminal, also under `nohup` and behind a shell's `&`.

    A process inherits which signals are ignored and blocked, and tokfmt goes on ignoring them. What has a handler is
    inherited as the default, and pytest itself still survives what it was to ignore.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def use_no_surroundings():
    """Leave alone the clipboard, the buffers of tmux and the annotations of whoever or whatever runs the tests."""
    for name in ("DISPLAY", "GITHUB_ACTIONS", "TMUX", "WAYLAND_DISPLAY"):
        os.environ.pop(name, None)


def ask_no_other_machine():
    """Let an address of S3 that a test does not serve itself lead to a port of this machine that nothing listens at."""
    os.environ |= {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_EC2_METADATA_DISABLED": "true",
        "TOKFMT_RETRY_TIMEOUT": "1",
    }


def use_memory():
    """Temporary files lie in memory where there is room: a small conversion waits for a disk longer than it works."""
    if "TMPDIR" in os.environ or not os.path.isdir(MEMORY):
        return
    there = os.statvfs(MEMORY)
    with open("/proc/meminfo") as file:
        (available,) = (int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable"))
    if min(there.f_bavail * there.f_frsize, available) >= ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = MEMORY


def pytest_sessionstart():
    """Make the bad files of each format whose script has changed since; those of HDF5 differ by library and are kept."""
    for script in sorted((FIXTURES / "bad").glob("*/make.py")):
        if script.parent.name == "hdf5":
            continue
        if is_made(script):  # nothing is written then, as where the checkout is somebody else's
            continue
        with open(script.parent.with_name(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not is_made(script):
                subprocess.run([sys.executable, script], check=True)
                made_by(script).write_text(digest_of(script))


def made_by(script):
    """The file that says which version of a script has made its bad files."""
    return script.parent.with_name(f".{script.parent.name}")


def digest_of(script):
    return hashlib.sha256(script.read_bytes()).hexdigest()


def is_made(script):
    names = json.loads(script.with_name("expected.json").read_bytes())
    made = made_by(script)
    there = made.exists() and all(os.path.lexists(script.with_name(name)) for name in names)
    return there and made.read_text() == digest_of(script)


def pytest_collection_modifyitems(config, items):
    """Mark what `make test-fast` leaves out, and leave to `make fuzz` what only it runs."""
    for item in items:
        if SLOW & set(item.path.parts):
            item.add_marker(pytest.mark.slow)
    left = [] if EVERY else [item for item in items if item.get_closest_marker("fuzz_only")]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not item.get_closest_marker("fuzz_only")]


def pytest_collection_finish():
    """Collect garbage less often, and not among modules and tests, which stay.

    Textual keeps strips of apps that have ended: going through them took a third of the time of the browser's tests.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


@pytest.fixture
def tmp_path(tmp_path):
    """The directory of a test as a place, because methods of formats take places."""
    return LocalPlace(tmp_path)


@pytest.fixture(scope="session", autouse=True)
def _state(tmp_path_factory):
    """What the browser remembers of whoever runs the tests is neither seen nor changed by them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


def pytest_unconfigure():
    if processes.workers.cache_info().currsize:
        processes.workers().shutdown()


@pytest.fixture
def kept_workers(monkeypatch):
    """Conversions with two worker processes share two that are started once, instead of starting their own."""
    start = execute._processes
    shared = contextlib.nullcontext(processes.workers())
    monkeypatch.setattr(execute, "_processes", lambda jobs: shared if jobs == 2 else start(jobs))


@pytest.fixture(scope="module", autouse=True)
def _processes():
    """No process outlives the tests that started it, to disturb those of another module."""
    yield
    left = processes.left_behind({server.pid for server in forkserver.servers} | processes.kept)
    for number in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    assert not left, "\n".join(left.values())
