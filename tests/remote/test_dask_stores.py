"""Conversions on a cluster whose workers share only a bucket: the bytes of a local run, complete or absent."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import forkserver
import numpy as np
import pytest
from amount import FUZZ_ONLY
from paths import ROOT
from processes import running
from stores import close_stores

import tokfmt
from tokfmt.testing import tree

pytestmark = [
    FUZZ_ONLY,
    pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="the extra dask is not installed"),
]
MDS = {"to_format": "mds", "to_options": {"shard_size": 20_000}, "eos": 50256}
REFUSED = "cannot be written: 400 InternalError. Run again later"
SCHEDULER = """
import json, os, signal, sys
import distributed

if __name__ == "__main__":
    with distributed.LocalCluster(n_workers=0, dashboard_address=None, local_directory=".") as cluster:
        address, pids = cluster.scheduler_address, []
        worker = f"'{sys.executable}' -m distributed.cli.dask_worker {address} --no-dashboard --no-nanny --nthreads 1"
        for place in sys.argv[2:]:
            own = f"{sys.argv[1]} && cd '{place}' && TMPDIR='{place}' exec {worker}"
            own = own.replace("PLACE", place)
            words = ["unshare", "-m", "sh", "-c", own] if "mount" in own else ["sh", "-c", own]
            pids.append(os.spawnvp(os.P_NOWAIT, words[0], words))
        with distributed.Client(address) as client:
            client.wait_for_workers(len(pids), timeout=60)
        print(json.dumps([address, pids]), flush=True)
        sys.stdin.read()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
"""
"""A scheduler, and workers with directories of their own, which no other process sees where mounting is allowed."""
CONVERT = """
from dataclasses import replace
from tokfmt.__main__ import main
from tokfmt.commands.convert import convert

convert_files = convert.convert_files
convert.convert_files = lambda request, *rest, **more: convert_files(replace(request, region=10_000), *rest, **more)
main()
"""
"""The command line, with regions of 10,000 tokens."""


@pytest.fixture
def cluster(server, tmp_path_factory, monkeypatch):
    """Its address and the numbers of its workers."""
    monkeypatch.delenv("TOKFMT_SPOOL", raising=False)
    home = tmp_path_factory.mktemp("cluster")
    (home / "cluster.py").write_text(SCHEDULER)
    places = [home / "first", home / "second"]
    for place in places:
        place.mkdir()
    mounts = not os.geteuid() and not subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode
    words = [sys.executable, "cluster.py", "mount -t tmpfs none 'PLACE'" if mounts else "true", *map(str, places)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        words, cwd=home, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    close_stores()
    with running(process):
        yield json.loads(process.stdout.readline())
        process.stdin.close()
        process.wait(60)
    close_stores()


@pytest.fixture
def source(bucket, tmp_path):
    """400,000 tokens in 4,000 documents."""
    lines = np.random.default_rng(0).integers(0, 50_000, (4000, 100))
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"input_ids": line.tolist()}) + "\n" for line in lines))
    tokfmt.convert(tmp_path / "in.jsonl", tmp_path / "in.pbin", eos=50256)
    tokfmt.convert(tmp_path / "in.pbin", tmp_path / "m", **MDS)
    shutil.copy(tmp_path / "in.pbin", bucket / "in.pbin")
    return "s3://bkt/in.pbin"


def start(tmp_path, address, *words):
    words = [sys.executable, "-c", CONVERT, "convert", *words, "--executor", f"dask:{address}"]
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return forkserver.Popen(words, also=("distributed",), cwd=tmp_path, **how)


def run(*given):
    with start(*given) as process:
        out, error = process.communicate(timeout=120)
    return process.returncode, out, error


def names(bucket):
    return {path.relative_to(bucket).as_posix() for path in bucket.rglob("*") if path.is_file()}


def when(server, number, call):
    """Call once so many objects of the data are being written."""
    left = [number]

    def before(method, key):
        if method == "PUT" and key.endswith(".mds"):
            left[0] -= 1
            if not left[0]:
                call()

    server.before = before


def is_alive(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"


def test_workers_share_only_the_bucket(server, bucket, tmp_path, source, cluster):
    """A run is interrupted and leaves nothing, one fails and is continued, and in one a worker dies."""
    address, (victim, _) = cluster
    words = (source, "s3://bkt/m", "--to", "mds", "--eos", "50256", "--to-opt", "shard_size=20000")
    with start(tmp_path, address, *words) as process:
        when(server, 5, lambda: process.send_signal(signal.SIGINT))
        _, error = process.communicate(timeout=120)
    assert process.returncode == 130 and "Traceback" not in error, error
    assert names(bucket) == {"in.pbin"}, error

    server.before = lambda *_: None
    server.forever["PUT bkt/m/shard.00014.mds"] = "400"
    code, _, error = run(tmp_path, address, *words, "--resume")
    (line,) = error.splitlines()
    assert code == 4 and line.startswith(f"tokfmt: error: s3://bkt/m/shard.00014.mds: {REFUSED}"), error
    assert "The complete tasks are kept in the store: run again with --resume" in line
    there = {name for name in names(bucket) if name.startswith("m/")}
    assert list(bucket.glob("m.tokfmt-tasks/journal-*"))
    code, _, error = run(tmp_path, address, *words)
    assert code == 4 and "another tokfmt is writing it" in error, error
    server.forever.clear()
    del server.seen[:]
    code, _, error = run(tmp_path, address, *words, "--resume")
    assert code == 0, error
    again = {one.key.removeprefix("bkt/") for one in server.seen if one.method == "PUT"}
    assert there - again and again - there, "objects of complete tasks are not uploaded again, the others are"
    assert tree(bucket / "m") == tree(tmp_path / "m")
    assert names(bucket) == {"in.pbin", "m.tokfmt.json", *(f"m/{path.name}" for path in (tmp_path / "m").iterdir())}

    when(server, 5, lambda: os.kill(victim, signal.SIGKILL))
    code, _, error = run(tmp_path, address, *[word.replace("bkt/m", "bkt/again/m") for word in words])
    assert code == 0 and not is_alive(victim), error
    assert tree(bucket / "again/m") == tree(tmp_path / "m")
    assert not [name for name in names(bucket) if "tokfmt-" in name]
