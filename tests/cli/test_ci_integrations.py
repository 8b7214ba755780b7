"""The GitHub Action's scripts and the pre-commit hooks, run as their hosts run them: on good and on bad files."""

import dataclasses
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import forkserver
import pytest
import yaml
from amount import EVERY, FUZZ_ONLY

import tokfmt

ROOT = Path(__file__).parents[2]
GOOD, BAD = "fixtures/modalities/D_2byte_gpt2.pbin", "fixtures/modalities/E_D_2byte_gpt2.pbin"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
RUN_HOOK = [sys.executable, "-c", "from tokfmt.__main__ import hook; hook()"]


SEARCHED = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # a machine may have no pip of its own


def run_step(name, inputs, tmp_path, cwd=ROOT):
    """One step of the composite action: its script under bash -eo pipefail, its environment from the inputs."""
    step = next(step for step in ACTION["runs"]["steps"] if step.get("name") == name)
    known = {key: given.get("default", "") for key, given in ACTION["inputs"].items()} | inputs
    environment = {
        key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: known[m[1]], value) for key, value in step["env"].items()
    }
    assert "${{" not in step["run"], "inputs must not be pasted into scripts"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        env={**os.environ, **environment, "PATH": SEARCHED, "GITHUB_ACTIONS": "true"},
        cwd=cwd,
        capture_output=True,
        text=True,
    )


def test_patterns_are_expanded_and_bad_files_annotated(tmp_path):
    done = run_step("Check", {"paths": f"fixtures/modalities/D_2byte_gpt2.pb?n\n{BAD}", "deep": "true"}, tmp_path)
    assert done.returncode == 1
    assert re.search(rf"::error file={re.escape(BAD)}.*TF107", done.stdout), done.stdout
    assert f"::error file={GOOD}" not in done.stdout and f"{GOOD}: modalities, 42 sequences" in done.stderr
    nothing = run_step("Check", {"paths": f"{GOOD} fixtures/**/*.nothing"}, tmp_path)
    assert nothing.returncode == 3, "a pattern that matches nothing is left out"
    assert "fixtures/**/*.nothing" in nothing.stderr

    of_a_store = run_step("Check", {"paths": f"{GOOD} nowhere://bucket/*.pbin"}, tmp_path)
    assert of_a_store.returncode != 0, "a pattern of a store is left out"
    assert "nowhere://bucket" in of_a_store.stdout + of_a_store.stderr


def test_a_path_is_not_code(tmp_path):
    done = run_step("Check", {"paths": "$(touch${IFS}owned) `touch owned`"}, tmp_path)
    assert done.returncode != 0
    assert not (ROOT / "owned").exists()


@FUZZ_ONLY
def test_expectations_that_hold_and_that_fail(tmp_path):
    met = run_step("Statistics", {"paths": GOOD, "expect": "sequences > 0\n\nmax_id < 50257\n"}, tmp_path)
    assert met.returncode == 0, met.stdout + met.stderr
    unmet = run_step("Statistics", {"paths": GOOD, "expect": "sequences > 0\ntokens >= 1e9"}, tmp_path)
    assert unmet.returncode == 1
    assert "::error" in unmet.stdout
    assert "tokens >= 1e9, found 2,004" in unmet.stdout


@FUZZ_ONLY
def test_a_baseline_is_held(tmp_path):
    baseline = tmp_path / "baseline.json"
    written = forkserver.run(
        [sys.executable, "-m", "tokfmt", "stats", GOOD, "--json"], cwd=ROOT, capture_output=True, check=True
    )
    baseline.write_bytes(written.stdout)
    assert (
        run_step("Statistics", {"paths": GOOD, "baseline": str(baseline), "tolerance": "1%"}, tmp_path).returncode == 0
    )
    other = "fixtures/modalities/A_2byte_gpt2.pbin"
    if (ROOT / other).exists():
        assert run_step("Statistics", {"paths": other, "baseline": str(baseline)}, tmp_path).returncode in (0, 1)


@pytest.mark.parametrize("hook", HOOKS)
def test_hooks_run_what_they_name(hook, tmp_path):
    """pre-commit runs `entry args files`; files are those whose path matches `files`."""
    entry = HOOKS[hook]
    data = [GOOD, "a/stage1_block_00001.bin", "x_text_document.bin", "edu_train_000001.bin", "a/x.ds"]
    others = ["README.md", "model.bin", "a/x.dsl", "a/train.binary", "package.json", "notes.txt", "tokfmt.toml"]
    assert [path for path in (*data, *others) if re.search(entry["files"], path)] == data
    words = shlex.split(entry["entry"])
    assert words[0] == "tokfmt-hook"
    words[:1] = RUN_HOOK
    copy = tmp_path / "data.pbin"
    shutil.copy(ROOT / GOOD, copy)
    args = ["--expect", "tokens > 0"] if hook == "tokfmt-stats" else []
    done = forkserver.run([*words, *args, str(copy)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if hook == "tokfmt-check":
        shutil.copy(ROOT / BAD, copy)
        assert forkserver.run([*words, str(copy)], capture_output=True).returncode == 1


@pytest.mark.parametrize("hook", HOOKS)
def test_file_name_with_a_dash_is_not_an_option(hook, tmp_path):
    """pre-commit passes every path that git can hold."""
    victim = tmp_path / "train.pbin"
    shutil.copy(ROOT / GOOD, victim)
    option = "--html=" if hook == "tokfmt-stats" else "--fix="
    hostile = Path(f"{option}{victim}")
    (tmp_path / hostile.parent).mkdir(parents=True)
    shutil.copy(ROOT / BAD, tmp_path / hostile)
    words = [*RUN_HOOK, *shlex.split(HOOKS[hook]["entry"])[1:], str(hostile)]
    done = forkserver.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == (1 if hook == "tokfmt-check" else 0), done.stderr
    assert victim.read_bytes() == (ROOT / GOOD).read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [option, "train.pbin"]


def test_the_action_runs_no_code_of_the_checkout(tmp_path):
    """Every step that runs Python is kept from the checkout, and one with a pip.py and a tokfmt.py shows it."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name in ("pip.py", "tokfmt.py", "sitecustomize.py", "numpy.py", "click.py"):
        (checkout / name).write_text("open('seen', 'w')")
    shutil.copy(ROOT / GOOD, checkout / "data.pbin")
    done = run_step("Check", {"paths": "data.pbin"}, tmp_path, cwd=checkout)
    assert done.returncode == 0, done.stderr
    assert not (checkout / "seen").exists()
    install = next(step for step in ACTION["runs"]["steps"] if step.get("name") == "Install tokfmt")
    assert install["working-directory"] == "${{ runner.temp }}"
    script = install["run"].replace(" install ", " --version #")
    done = subprocess.run(
        ["bash", "-c", script], cwd=checkout, capture_output=True, text=True, env={**os.environ, "PATH": SEARCHED}
    )
    # environments that uv makes have no pip: then this is what Python looked for, and found nowhere
    assert "No module named pip" in done.stderr if find_spec("pip") is None else done.returncode == 0, done.stderr
    assert not (checkout / "seen").exists()
    used = [step["uses"] for step in ACTION["runs"]["steps"] if "uses" in step]
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", one) for one in used), "a tag can be moved, a commit cannot"


def test_hooks_and_action_install_what_parquet_needs(tmp_path):
    """By the limits of the extra `arrow`; other extras are an input of the Action."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert all(hook["additional_dependencies"] == extras["arrow"] for hook in HOOKS.values())
    step = next(step for step in ACTION["runs"]["steps"] if step.get("name") == "Install tokfmt")
    script = step["run"].replace("python -I -m pip", "echo")
    for given, expected in (("arrow", "ACTION[arrow]"), ("arrow,remote", "ACTION[arrow,remote]"), ("", "ACTION")):
        environment = {"TOKFMT_ACTION": "ACTION", "TOKFMT_EXTRAS": given}
        done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True)
        assert done.stdout.split()[-1] == expected
    assert ACTION["inputs"]["extras"]["default"] == "arrow"


UNHOOKED = {"text", "recipe", "run"}  # any text, and any TOML
RUN = {"array", "flat-tokens", "levanter", "llmc", "megatron"}
"""Formats of one file, of folders, and of several files, whose hooks `make test` runs; `make fuzz` runs all."""


DESTINATIONS = {
    "modalities": "x.pbin", "flat-tokens": "x.zarr", "jsonl": "x.jsonl", "datatrove": "x.ds", "arrow": "x.arrow",
    "parquet": "x.parquet", "megatron": "x_text_document", "nanogpt": "train.bin", "hdf5": "x.h5",
}  # fmt: skip


NAMED = {"array", "arrayrecord", "llmc", "olmo", "tfrecord"}  # each file has the name of a dataset

DESCRIBING = ("index.json", "state.json", "dataset_info.json", ".csv.gz", ".tokfmt.json")  # never changes alone


READ_ONLY = {"levanter": "cache_int32", "internevo": "pretrain/train/en", "litgpt-packed": "llama3_int32"}


def written_as(format_, folder):
    """A small dataset of a format, under the name that it usually has; one of a folder has several files."""
    if format_ in READ_ONLY:
        shutil.copytree(ROOT / "fixtures" / format_ / READ_ONLY[format_], folder / "d")
        return
    allow_loss = ["empty-sequences", "embedded-separators"]
    name = DESTINATIONS.get(format_, "d")
    described = next(one for one in tokfmt.list_formats() if one.name == format_)
    names = [one.name for one in dataclasses.fields(described.write_options)]
    options = {"shard_size": 512} if name == "d" and "shard_size" in names else {}
    tokfmt.convert(ROOT / GOOD, folder / name, to_format=format_, allow_loss=allow_loss, to_options=options)


@pytest.mark.parametrize(
    "format_", [name for name in [one.name for one in tokfmt.list_formats()] if name not in UNHOOKED]
)
def test_hooks_are_run_for_files_of_every_format(format_, tmp_path):
    """Each file of a dataset starts the hooks, and they look at the dataset once, from whichever file."""
    written_as(format_, tmp_path)
    files = [path.relative_to(tmp_path) for path in sorted(tmp_path.rglob("*")) if path.is_file()]
    data = [str(file) for file in files if not file.name.endswith(DESCRIBING)]
    index = {"levanter": "shard_ledger.json", "internevo": ".bin.meta"}.get(format_, "")
    inner = {path for path in data if not path.endswith(index)}
    for hook in HOOKS.values():
        matching = [path for path in data if re.search(hook["files"], path)]
        assert set(matching) == set(data) - inner
        if format_ not in RUN and not EVERY:
            continue
        words = [*RUN_HOOK, *shlex.split(hook["entry"])[1:], *matching, "--json"]
        done = forkserver.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        count = len(data) if format_ in NAMED else 1
        assert len(document.get("datasets", [document])) == count


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
