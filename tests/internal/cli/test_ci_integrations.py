"""The GitHub Action's scripts and the pre-commit hooks, run as their hosts run them: on good and on bad files."""

import json
import re
import shlex
import shutil
import sys
import tomllib
from pathlib import Path

import forkserver
import pytest
import yaml

import tokfmt
from tokfmt.registry import names

ROOT = Path(__file__).parents[3]
GOOD, BAD = "fixtures/modalities/D_2byte_gpt2.pbin", "fixtures/modalities/E_D_2byte_gpt2.pbin"
HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
RUN_HOOK = [sys.executable, "-c", "from tokfmt.__main__ import hook; hook()"]


UNHOOKED = {"text", "recipe"}  # any text, and any TOML
DESTINATIONS = {
    "modalities": "x.pbin", "flat-tokens": "x.zarr", "jsonl": "x.jsonl", "datatrove": "x.ds", "arrow": "x.arrow",
    "parquet": "x.parquet", "megatron": "x_text_document", "nanogpt": "train.bin", "hdf5": "x.h5",
}  # fmt: skip
DESCRIBING = ("index.json", "state.json", "dataset_info.json", ".csv.gz", ".tokfmt.json")  # never changes alone


def written_as(format_, folder):
    """A small dataset of a format, under the name that it usually has."""
    if format_ == "levanter":  # is read only
        shutil.copytree(ROOT / "fixtures/levanter/cache_int32", folder / "cache")
        return
    allow_loss = ["empty-sequences", "embedded-separators"]
    tokfmt.convert(ROOT / GOOD, folder / DESTINATIONS.get(format_, "d"), to_format=format_, allow_loss=allow_loss)


@pytest.mark.parametrize("format_", [name for name in names() if name not in UNHOOKED])
def test_hooks_are_run_for_files_of_every_format(format_, tmp_path):
    """Each file of a dataset starts the hooks, and they look at the dataset once, from whichever file."""
    written_as(format_, tmp_path)
    files = [path.relative_to(tmp_path) for path in sorted(tmp_path.rglob("*")) if path.is_file()]
    data = [str(file) for file in files if not file.name.endswith(DESCRIBING)]
    inner = {str(path) for path in map(Path, data) if format_ == "levanter" and path.name != "shard_ledger.json"}
    for hook in HOOKS.values():
        matching = [path for path in data if re.search(hook["files"], path)]
        assert set(matching) == set(data) - inner
        words = [*RUN_HOOK, *shlex.split(hook["entry"])[1:], *matching, "--json"]
        done = forkserver.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert len(document.get("datasets", [document])) == 1


def test_constraints_are_those_of_the_lock_file():
    """What the Action installs is what is tested; `make constraints.txt` writes it again."""
    locked = {
        (one["name"], one["version"])
        for one in tomllib.loads((ROOT / "uv.lock").read_text())["package"]
        if "version" in one
    }
    lines = [line.partition(";")[0].strip().split("==") for line in (ROOT / "constraints.txt").read_text().splitlines()]
    held = {(name.partition("[")[0], version) for name, version in lines}
    assert held <= locked
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    direct = [
        *project["dependencies"],
        *(word for extra in project["optional-dependencies"].values() for word in extra),
    ]
    names = {re.match(r"[\w.-]+", word)[0].lower() for word in direct}
    assert names <= {name for name, _ in held}
