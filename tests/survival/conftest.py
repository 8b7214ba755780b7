import json
import random

import pytest
from survival.stage import Rehearsal, corpus

import tokfmt


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    rehearsal = Rehearsal(tmp_path_factory.mktemp("logs"))
    yield rehearsal
    rehearsal.close()


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
