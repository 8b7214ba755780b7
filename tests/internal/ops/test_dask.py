"""The same plan on a Dask cluster: the same bytes as serial, also when a worker is killed on its way."""

import importlib.util
import json
import os
import sys

import forkserver
import numpy as np
import pytest
from amount import every
from paths import CORPUS, TOKENIZER

from tokfmt.core.errors import OptionError
from tokfmt.ops.source.request import SourceRequest
from tokfmt.ops.stats import StatsRequest
from tokfmt.ops.stats.stats import stats
from tokfmt.run.execute import make_executor

pytestmark = pytest.mark.slow

needs_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None,
    reason="the package distributed is not installed (extra dask)",
)
CONVERT = """
import json, os, signal, sys
from pathlib import Path
from tokfmt.ops.convert.convert import convert_files
from tokfmt.ops.convert.request import Request
from tokfmt.run.progress import Progress
from tokfmt.ops.source.request import SourceRequest
from tokfmt.run.plan import Journal

given = json.loads(sys.argv[1])
victim, done, add = given.pop("victim", 0), [], Journal.add

def killing(self, *line):
    add(self, *line)
    done.append(line)
    if victim and len(done) == 5:
        os.kill(victim, signal.SIGKILL)

Journal.add = killing
source = SourceRequest(tuple(given.pop("sources")), "stage1")
convert_files(Request(source, Path(given.pop("destination")), region=1 << 13, manifest=False, **given), Progress())
print(len(done))
"""
"""A conversion that kills a worker when the fifth region is journaled; prints how many were."""


@pytest.fixture
def source(tmp_path):
    ids = np.random.default_rng(1).integers(0, 50_000, 8192 * 40).astype("<i4")
    ids[::701] = 50256
    ids.tofile(tmp_path / "in.bin")
    return tmp_path / "in.bin"


def run(*words, **how):
    """Python, with Dask imported already."""
    words = [sys.executable, *map(str, words)]
    return forkserver.run(words, also=("distributed",), capture_output=True, text=True, timeout=200, **how)


def convert(home, **given):
    done = run("-c", CONVERT, json.dumps(given), cwd=home)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_statistics_are_counted_on_one_machine(source):
    """Their scratch is a directory of this machine: a cluster's workers would not find it."""
    request = StatsRequest(SourceRequest((source,)), executor="dask:tcp://10.0.0.5:8786")
    with pytest.raises(OptionError, match="statistics are counted on one machine"):
        stats(request)


@needs_dask
@pytest.mark.parametrize("way", ["executor", every("convert")])
def test_a_planted_scratch_space(tmp_path, monkeypatch, way):
    """What another user made below $TMPDIR, under the name that Dask uses: no link in it is followed, no file is made."""
    planted, victim = tmp_path / "tmp" / "dask-scratch-space", tmp_path / "victim"
    planted.mkdir(parents=True)
    planted.chmod(0o777)
    victim.write_text("three years")
    (planted / "purge.lock").symlink_to(victim)
    (planted / "global.lock").symlink_to(tmp_path / "made")
    if way == "convert":
        words = ["convert", CORPUS, "o.pbin", "--tokenizer", TOKENIZER, "--executor", "dask", "-j", "1", "-q"]
        done = run("-m", "tokfmt", *words, cwd=tmp_path, env={**os.environ, "TMPDIR": str(planted.parent)})
        assert (done.returncode, done.stderr) == (0, "")
    else:
        monkeypatch.setattr("tempfile.tempdir", str(planted.parent))
        with make_executor("dask", 1) as executor:
            assert executor.submit(abs, -1).result() == 1
            assert not [path for path in sys.path if path.startswith(str(planted))]
    assert victim.read_text() == "three years"
    assert not (tmp_path / "made").exists()
    assert sorted(os.listdir(planted)) == ["global.lock", "purge.lock"]
    assert os.listdir(planted.parent) == ["dask-scratch-space"]
