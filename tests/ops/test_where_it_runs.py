"""`--executor auto`: processes for much text or many HDF5 samples, else threads; and how many threads a tokenizer's own pool has."""

import subprocess
import sys

import pytest
from amount import FUZZ_ONLY, every
from paths import FIXTURES

pytestmark = pytest.mark.slow

TEXT, PACK = FIXTURES / "text" / "corpus.jsonl", FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


_SCRIPT = """
import os, sys
with open("begun", "a") as file:
    file.write(__name__ + " ")
import tokfmt
from tokfmt.ops.convert import convert as conversion
conversion._WORTH = 1000
how = {"seq_len": 32, "allow_loss": ["empty-sequences", "embedded-separators"], "jobs": 2, "manifest": False}
before = globals().get("__file__"), __spec__
done = tokfmt.convert(sys.argv[1], "auto.h5", executor="auto", **how)
assert (globals().get("__file__"), __spec__) == before
tokfmt.convert(sys.argv[1], "serial.h5", executor="serial", **how)
assert open("auto.h5", "rb").read() == open("serial.h5", "rb").read()
print(done.plan["executor"])
"""


@FUZZ_ONLY
@pytest.mark.parametrize(
    "begin",
    [["script.py"], every(["-m", "package.module"]), every(["-m", "package"]), every(["-"]), ["-c", _SCRIPT]],
    ids=["script", "module", "package", "stdin", "notebook"],
)
def test_a_script_without_a_guard_is_not_run_by_workers(tmp_path, begin):
    """However it was begun; `-c` and standard input are what a notebook is like, with no file."""
    (tmp_path / "package").mkdir()
    for place in ("script.py", "package/__init__.py", "package/module.py", "package/__main__.py"):
        (tmp_path / place).write_text("" if place.endswith("__init__.py") else _SCRIPT)
    words = [sys.executable, *begin, str(PACK.absolute())]
    done = subprocess.run(words, input=_SCRIPT, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (done.stdout.split(), (tmp_path / "begun").read_text().split()) == (["processes"], ["__main__"])


_DEFINED = """
import operator
from pathlib import Path
from tokfmt.run.execute import make_executor, may_spawn, run_tasks

class Shared:
    def __add__(self, number):
        return number + 1

if __name__ == "__main__":
    with make_executor("processes", 2) as executor:
        print(*sorted(run_tasks(operator.add, Shared(), [1, 2, 3], executor, 2, Path())))
    print(may_spawn([1]), may_spawn([Shared()]), may_spawn([lambda: 1]))
"""


@FUZZ_ONLY
def test_objects_of_a_script_reach_requested_processes(tmp_path):
    """`auto` chooses no processes here, because the script may have no guard."""
    (tmp_path / "script.py").write_text(_DEFINED)
    words = [sys.executable, "script.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["2 3 4", "True False False"]
