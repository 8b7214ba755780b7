"""The same plan on a Dask cluster: the same bytes as serial, also when a worker is killed on its way."""

import contextlib
import http.client
import json
import os
import sys
import urllib.request
from pathlib import Path

import pytest
from amount import FUZZ_ONLY
from strangers import STRANGER, needs_dask, run

from tokfmt.errors import MissingDependencyError, OptionError
from tokfmt.run.execute import make_executor

pytestmark = pytest.mark.slow


@needs_dask
def test_addresses():
    with pytest.raises(OptionError, match="'hello' is not an address. Use tcp://HOST:PORT"):
        make_executor("dask:hello", 2).__enter__()


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingDependencyError, match=r"needs the package distributed: pip install distributed"):
        make_executor("dask", 2).__enter__()


def listening(pids):
    """Ports of this machine that these processes listen on."""
    inodes = set()
    for pid in pids:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # closed since
                link = os.readlink(f"/proc/{pid}/fd/{fd}")
                inodes |= {int(link[8:-1])} if link.startswith("socket:[") else set()
    ports = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and int(words[9]) in inodes:
                address, _, port = words[1].partition(":")
                assert address in ("0100007F", "0" * 24 + "01000000"), f"{words[1]} is open to other machines"
                ports.append(int(port, 16))
    return ports


@FUZZ_ONLY
@needs_dask
def test_a_cluster_leaves_the_allocator_of_its_process_alone():
    """Dask has its workers keep no freed memory and one thread, by setting variables of ours, for good."""
    before = set(os.environ)
    with make_executor("dask", 1):
        pass
    assert {name for name in os.environ if name.startswith("MALLOC_") or name.endswith("_NUM_THREADS")} <= before


@FUZZ_ONLY
@needs_dask
def test_local_cluster_refuses_other_clients():
    """A client needs the key in the memory of the process, and the HTTP server has no page."""
    pytest.importorskip("cryptography")
    with make_executor("dask", 1) as executor:
        assert executor.submit(abs, -1).result() == 1
        worker = executor.submit(os.getpid).result()
        ports = listening([os.getpid(), worker])
        assert len(ports) >= 3, "scheduler, nanny, worker"
        done = run("-c", STRANGER, json.dumps([f":{port}" for port in ports]))
        assert done.stdout == "[]\n", done.stdout + done.stderr
        for port in ports:
            for page in ("status", "health", "info/main/workers.html", "metrics", "json/identity.json"):
                assert found_by_http(port, page) is None


def found_by_http(port, page):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5) as answer:
            return answer.read()
    except (OSError, http.client.HTTPException):  # 404, or no HTTP at all
        return None


def test_encryption_needs_a_package(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(MissingDependencyError, match=r"needs the package cryptography: pip install cryptography"):
        make_executor("dask", 2).__enter__()


@needs_dask
def test_a_planted_scratch_space(tmp_path, monkeypatch):
    """What another user made below $TMPDIR, under the name that Dask uses: no link in it is followed, no file is made."""
    planted, victim = tmp_path / "tmp" / "dask-scratch-space", tmp_path / "victim"
    planted.mkdir(parents=True)
    planted.chmod(0o777)
    victim.write_text("three years")
    (planted / "purge.lock").symlink_to(victim)
    (planted / "global.lock").symlink_to(tmp_path / "made")
    monkeypatch.setattr("tempfile.tempdir", str(planted.parent))
    with make_executor("dask", 1) as executor:
        assert executor.submit(abs, -1).result() == 1
        assert not [path for path in sys.path if path.startswith(str(planted))]
    assert victim.read_text() == "three years"
    assert not (tmp_path / "made").exists()
    assert sorted(os.listdir(planted)) == ["global.lock", "purge.lock"]
    assert os.listdir(planted.parent) == ["dask-scratch-space"]
