"""The directory that a command runs in is somebody else's: nothing is imported from it, in no process."""

import itertools
import os
import signal
import subprocess
import sys

import pytest
from amount import FUZZ_ONLY, first, only
from paths import CORPUS, FIXTURES, TOKENIZER

from tokfmt.run.isolation import postponed, undelivered

pytestmark = pytest.mark.slow

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
HOSTILE = (
    "multiprocessing/__init__.py", "concurrent/__init__.py", "tokfmt/__init__.py", "numpy.py", "click.py", "sitecustomize.py",
    "usercustomize.py", "json.py", "pickle.py", "distributed.py", "asyncio/__init__.py", "h5py.py", "rich.py", "zarr.py",
    "transformers.py", "tokenizers.py", "fastokens.py", "msgspec.py", "textual.py", "_posixsubprocess.py", "xxhash.py",
)  # fmt: skip
SEEN = "seen"
CODE = f"""
import os
with open({SEEN!r}, "a") as file:
    file.write(f"{{os.getpid()}} {{__file__}}\\n")
raise ImportError("this is no module of yours")
"""
EXECUTORS = ["serial", "threads", "processes", "dask"]


@pytest.fixture
def hostile(tmp_path):
    """A directory with a module for everything that anybody may import, and a plug-in."""
    for name in HOSTILE:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(CODE)
    plugin = tmp_path / "evil-1.dist-info"
    plugin.mkdir()
    (plugin / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
    (plugin / "entry_points.txt").write_text("[tokfmt.formats]\nevil = numpy:FORMAT\n")
    return tmp_path


def needed(executor):
    if executor == "dask":
        pytest.importorskip("distributed")
        pytest.importorskip("cryptography")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A script as installers write it: the first place that it imports from is its own directory."""
    script = tmp_path_factory.mktemp("bin") / "tokfmt"
    script.write_text("from tokfmt.__main__ import main\nif __name__ == '__main__':\n    main()\n")
    return script


def environment():
    return {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}


def run(words, cwd, script):
    words = [sys.executable, str(script), *map(str, words)]
    done = subprocess.run(words, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=120)
    assert not (cwd / SEEN).exists(), (cwd / SEEN).read_text()
    assert done.returncode in (0, 1), done.stderr
    assert "no module of yours" not in done.stderr
    return done


@FUZZ_ONLY
@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "executor"),
    only(
        [*(("convert", executor) for executor in EXECUTORS), ("stats", "processes")],
        itertools.product(("convert", "stats"), EXECUTORS),
    ),
)
def test_workers(hostile, installed, executor, command):
    needed(executor)
    words = {"convert": ["convert", CORPUS, "o.pbin", "--overwrite"], "stats": ["stats", CORPUS]}[command]
    run([*words, "--tokenizer", TOKENIZER, "--executor", executor, "--jobs", "2"], hostile, installed)


WORDS = {
    "show": ["show", CORPUS, "0:3", "--tokenizer", TOKENIZER],
    "formats": ["formats"],
    "diff": ["diff", PACK, PACK],
    "screenshot": ["browse", PACK, "--screenshot", "o.svg"],
    "check": ["check", "--deep", PACK],
    "index": ["index", CORPUS, "-o", "c.idx"],
    "completion": ["completion", "bash"],
    "version": ["--version"],
    "browse": ["browse", PACK],
}
"""Those of `make test` import tokenizers, plug-ins, processes and the browser."""


@pytest.mark.parametrize("name", first(2, WORDS))
def test_commands(hostile, installed, name):
    run(WORDS[name], hostile, installed)


LIBRARY = """
import os, sys
sys.path[:] = [place for place in sys.path if place not in ("", os.getcwd())]  # as in a script that lies elsewhere
from tokfmt.run.execute import make_executor
if __name__ == "__main__":
    before = dict(os.environ)
    with make_executor(sys.argv[1], 2) as executor:
        assert [executor.submit(abs, -k).result() for k in range(4)] == [0, 1, 2, 3]
    assert dict(os.environ) == before or sys.argv[1] == "dask", "dask keeps its own variables"
    assert "PYTHONSAFEPATH" not in os.environ
"""


@FUZZ_ONLY
@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
def test_executors_of_the_library(hostile, tmp_path_factory, executor):
    """Somebody's script, not the command line, makes the pool; its environment is as it was afterwards."""
    needed(executor)
    script = tmp_path_factory.mktemp("script") / "script.py"
    script.write_text(LIBRARY)
    words = [sys.executable, str(script), executor]
    done = subprocess.run(words, cwd=hostile, env=environment(), capture_output=True, text=True, timeout=120)
    assert not (hostile / SEEN).exists(), (hostile / SEEN).read_text()
    assert done.returncode == 0, done.stderr


def test_a_hostile_directory_is_one(hostile):
    """A control: without all this the code does run."""
    subprocess.run([sys.executable, "-c", "import multiprocessing"], cwd=hostile, capture_output=True)
    assert (hostile / SEEN).exists()


def test_signal_waits_for_a_process_that_is_starting():
    """Any thread can receive the signal; Python handles it in the main thread."""
    answered = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: postponed(number) or answered.append(number))
    try:
        with undelivered():
            signal.raise_signal(signal.SIGUSR1)
            assert answered == []
        assert answered == [signal.SIGUSR1]
        signal.raise_signal(signal.SIGUSR1)
        assert answered == [signal.SIGUSR1] * 2
    finally:
        signal.signal(signal.SIGUSR1, before)
