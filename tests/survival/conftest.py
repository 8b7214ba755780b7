import json
import os
import random
import subprocess
import sys
from pathlib import Path

import processes
import pytest
from paths import ROOT
from survival.stage import Rehearsal, corpus

import tokfmt


@pytest.fixture(scope="session")
def stage(tmp_path_factory):
    rehearsal = Rehearsal(tmp_path_factory.mktemp("logs"))
    processes.kept.add(rehearsal.process.pid)
    yield rehearsal
    rehearsal.close()
    processes.kept.remove(rehearsal.process.pid)


@pytest.fixture(scope="session")
def drive():
    """What `killed.py` sees."""
    words = [sys.executable, str(Path(__file__).with_name("killed.py"))]
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def ask(what, case, home, **how):
        process.stdin.write(json.dumps({"do": what, "case": case, "home": str(home), "how": how}) + "\n")
        process.stdin.flush()
        seen = json.loads(process.stdout.readline())
        assert "failed" not in seen, seen["failed"]
        return seen

    with processes.running(process):
        processes.kept.add(process.pid)
        yield ask
        process.stdin.close()
        process.wait(timeout=60)
        processes.kept.remove(process.pid)


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    return corpus(tmp_path_factory.mktemp("text"), 30)


def made_pack(home, name, documents, seed):
    """A pack of so many documents, of 400 to 900 ids each; separator 0."""
    rng = random.Random(seed)
    lines = [
        json.dumps({"input_ids": [rng.randrange(1, 5000) for _ in range(rng.randrange(400, 900))]})
        for _ in range(documents)
    ]
    (home / "ids.jsonl").write_text("\n".join(lines) + "\n")
    tokfmt.convert(home / "ids.jsonl", home / name, eos=0, manifest=False, executor="serial")
    return home / name


@pytest.fixture(scope="session")
def pack(tmp_path_factory):
    return made_pack(tmp_path_factory.mktemp("pack"), "in.pbin", 8, 1)


@pytest.fixture(scope="session")
def other_pack(tmp_path_factory):
    """Another dataset, which is at the destination before."""
    return made_pack(tmp_path_factory.mktemp("other"), "other.pbin", 9, 2)
