"""The same plan on a Dask cluster: the same bytes as serial, also when a worker is killed on its way."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from amount import FUZZ_ONLY, every
from made_corpora import make
from paths import CORPUS, TOKENIZER
from processes import running
from strangers import STRANGER, needs_dask, run

import tokfmt
from tokfmt.testing import tree

pytestmark = pytest.mark.slow

CLUSTER = """
import json, logging, os, sys
import distributed

if __name__ == "__main__":
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0, silence_logs=logging.CRITICAL,
        local_directory=sys.argv[1],
    ) as cluster:
        pids = [worker.pid for worker in cluster.workers.values()]
        print(json.dumps([cluster.scheduler_address, pids]), flush=True)
        sys.stdin.read()
"""
CONVERT = """
import json, os, signal, sys
from tokfmt.commands.convert.convert import convert_files
from tokfmt.commands.convert.request import Request
from tokfmt.run.progress import Progress
from tokfmt.source.request import SourceRequest
from tokfmt.files.journal import Journal
from tokfmt.plugin import LocalPlace

given = json.loads(sys.argv[1])
victim, done, add = given.pop("victim", 0), [], Journal.add

def killing(self, *line):
    add(self, *line)
    done.append(line)
    if victim and len(done) == 5:
        os.kill(victim, signal.SIGKILL)

Journal.add = killing
source = SourceRequest(tuple(map(LocalPlace, given.pop("sources"))), "stage1")
convert_files(Request(source, LocalPlace(given.pop("destination")), region=1 << 13, manifest=False, **given), Progress())
print(len(done))
"""
"""A conversion that kills a worker when the fifth region is journaled; prints how many were."""


@contextlib.contextmanager
def started(home, script=CLUSTER, argument="."):
    """Address and worker process ids of a cluster that stands in a directory of its own."""
    (home / "cluster.py").write_text(script)
    words = [sys.executable, "cluster.py", argument]
    process = subprocess.Popen(
        words, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with running(process):
        yield json.loads(process.stdout.readline())
        process.stdin.close()
        process.wait(60)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with started(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def doomed_cluster(tmp_path_factory):
    """For a test that kills one of its workers."""
    with started(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def source(tmp_path):
    ids = np.random.default_rng(1).integers(0, 50_000, 8192 * 40).astype("<i4")
    ids[700::701] = 50256
    ids.tofile(tmp_path / "in.bin")
    return tmp_path / "in.bin"


def convert(home, **given):
    done = run("-c", CONVERT, json.dumps(given), cwd=home)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@FUZZ_ONLY
@needs_dask
@pytest.mark.parametrize(
    ("name", "options"), [every(("o.h5", {})), ("o.zarr", {"chunk": 1 << 13}), every(("o.jsonl", {}))]
)
def test_a_worker_is_killed_in_the_middle(tmp_path, source, doomed_cluster, name, options):
    address, (victim, _) = doomed_cluster
    for home, how in (("one", {"executor": "serial"}), ("other", {"executor": f"dask:{address}", "victim": victim})):
        (tmp_path / home).mkdir()
        given = {"sources": [str(source)], "destination": name, "to_options": options, "resume": True}
        assert convert(tmp_path / home, **given, **how) > 20
        assert os.listdir(tmp_path / home) == [name]
    with pytest.raises(ProcessLookupError):
        os.kill(victim, 0)
    assert tree(tmp_path / "other" / name) == tree(tmp_path / "one" / name)


@FUZZ_ONLY
@needs_dask
def test_a_scheduler_that_is_lost_is_reported_as_such(tmp_path, source):
    with started(tmp_path) as (address, pids):
        scheduler = pids[0]
        while "cluster.py" not in Path(f"/proc/{scheduler}/cmdline").read_text():
            scheduler = int(Path(f"/proc/{scheduler}/stat").read_text().split()[3])
        given = {"sources": [str(source)], "destination": "o.h5", "executor": f"dask:{address}", "victim": scheduler,
                 "resume": True}  # fmt: skip
        done = run("-c", CONVERT, json.dumps(given), cwd=tmp_path)
    assert done.returncode
    assert f"OutageError: --executor dask: the scheduler at {address} does not answer any more" in done.stderr
    assert "run again with --resume to continue" in done.stderr
    assert "out of memory" not in done.stderr
    assert not [line for line in done.stderr.splitlines() if " - ERROR - " in line]
    assert not (tmp_path / "o.h5").exists()


HIDDEN = """
import json, os, signal, sys
import distributed

if __name__ == "__main__":
    with distributed.LocalCluster(n_workers=0, dashboard_address=None, memory_limit=0, local_directory=".") as cluster:
        hidden, address = sys.argv[1], cluster.scheduler_address
        worker = f"mount -t tmpfs none '{hidden}' && exec '{sys.executable}' -m distributed.cli.dask_worker {address}"
        more = "--no-dashboard --no-nanny --nthreads 1 --local-directory ."
        pid = os.spawnlp(os.P_NOWAIT, "unshare", "unshare", "-m", "--kill-child", "sh", "-c", f"{worker} {more}")
        with distributed.Client(address) as client:
            client.wait_for_workers(1, timeout=60)
        print(json.dumps([address, []]), flush=True)
        sys.stdin.read()
        os.kill(pid, signal.SIGKILL)  # a scheduler that shuts down by itself is waited for half a minute
        os.waitpid(pid, 0)
"""
"""A cluster of a worker that sees an empty directory where others see another."""


@FUZZ_ONLY
@needs_dask
@pytest.mark.parametrize("hidden", ["sources", "destinations"])
def test_a_worker_that_does_not_see_a_path_is_named(tmp_path, source, hidden):
    if os.geteuid() or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("a worker that sees other directories needs the right to mount")
    for name in ("sources", "destinations"):
        (tmp_path / name).mkdir()
    source = source.rename(tmp_path / "sources" / source.name)
    destination = tmp_path / "destinations" / "o.zarr"
    with started(tmp_path, HIDDEN, str(tmp_path / hidden)) as (address, _):
        words = ["convert", source, destination, "--from", "stage1", "--eos", "50256", "--executor", f"dask:{address}"]
        done = run("-m", "tokfmt", *words, cwd=tmp_path)
    assert done.returncode == 4, done.stderr
    path = source if hidden == "sources" else destination.parent
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("tokfmt: error: ")]
    assert line.startswith(f"tokfmt: error: {path}: the worker tcp://")
    what = "sees no such file" if hidden == "sources" else "sees another directory there, or none"
    assert f"{what}. Every worker needs the sources and the destination under the same paths" in line
    assert "Traceback" not in done.stderr


@needs_dask
def test_text_on_a_cluster_of_its_own(tmp_path):
    """Without an address the cluster comes and goes; text is tokenised there too. Nothing stays behind."""
    words = ["convert", CORPUS, "o.pbin", "--tokenizer", TOKENIZER, "--executor", "dask", "-j", "2", "-q"]
    done = run("-m", "tokfmt", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    tokfmt.convert(CORPUS, tmp_path / "serial.pbin", tokenizer=str(TOKENIZER), executor="serial", jobs=1)
    assert (tmp_path / "o.pbin").read_bytes() == (tmp_path / "serial.pbin").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir() if "serial" not in p.name) == ["o.pbin", "o.pbin.tokfmt.json"]


@FUZZ_ONLY
@needs_dask
def test_a_recipe_of_text(tmp_path, cluster):
    """Prepared on a cluster in one run, or by shards of which one and the last step use it: the bytes of one machine."""
    make(tmp_path)
    sources = "".join(
        f'[[source]]\npath = "{name}"\nfilter = "garbage"\n{quota}\n'
        for name, quota in (("web.jsonl", "tokens = 9_000"), ("books.jsonl.gz", "tokens = 900"), ("wiki.jsonl", ""))
    )
    head = f'tokfmt = 1\ntokenizer = "{TOKENIZER}"\ndedup = "exact"\nshuffle = "documents"\n'
    (tmp_path / "mix.toml").write_text(head + sources)
    runs = [["mix.toml", "one.pbin", "--executor", "serial"]]
    runs += [["mix.toml", "two.pbin", "--executor", f"dask:{cluster[0]}"]]
    runs += [["mix.toml", "three.pbin", "--task", "0/2", "--executor", f"dask:{cluster[0]}"]]
    runs += [["mix.toml", "three.pbin", "--task", "1/2", "-j", "1"]]
    runs += [["--finish", "three.pbin", "--executor", f"dask:{cluster[0]}"]]
    for words in runs:
        done = run("-m", "tokfmt", "convert", *words, "-q", cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    one, two, three = ((tmp_path / f"{name}.pbin").read_bytes() for name in ("one", "two", "three"))
    assert one == two == three
    assert not list(tmp_path.glob(".*.pbin*"))


@FUZZ_ONLY
@needs_dask
def test_errors_come_back_as_they_are(tmp_path, cluster):
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text": 1}\n')
    words = ["convert", "bad.jsonl", "o.pbin", "--tokenizer", TOKENIZER, "--executor", f"dask:{cluster[0]}", "-q"]
    done = run("-m", "tokfmt", *words, cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "bad.jsonl: line 2" in done.stderr
    assert not list(tmp_path.glob(".o.pbin*"))


@needs_dask
@FUZZ_ONLY
def test_open_cluster_accepts_other_clients(cluster):
    """A control of the test above."""
    done = run("-c", STRANGER, json.dumps([cluster[0]]))
    assert json.loads(done.stdout) == [f"tcp {cluster[0].rpartition(':')[2]}"], done.stderr
