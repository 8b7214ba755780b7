"""`tokfmt plugin new`: a package that works as it was written."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib

import forkserver
from amount import FUZZ_ONLY
from paths import ROOT

QUICK = "sniffs or files_are_named"


def installed(home, package):
    """What an installer leaves of a package: its modules, and its entry points."""
    site = home / "site"
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    for module in package.glob("tokfmt_*.py"):
        shutil.copy(module, site)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    ((group, points),) = project["entry-points"].items()
    (info / "entry_points.txt").write_text(f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()))
    return {**os.environ, "PYTHONPATH": str(site)}


def tokfmt(*words, cwd, env=None, code=0):
    command = [sys.executable, "-m", "tokfmt", *map(str, words)]
    done = forkserver.run(command, env=env or dict(os.environ), capture_output=True, text=True, cwd=cwd)
    assert done.returncode == code, done.stderr
    return done.stdout


def pytest_of(package, env, *words):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", *words, str(package)]
    return subprocess.run(command, env=env, capture_output=True, text=True, cwd=package)


@FUZZ_ONLY
def test_a_new_package_of_records_is_a_format_whose_tests_pass(tmp_path):
    tokfmt("plugin", "new", "my-records", "--records", cwd=tmp_path)
    package = tmp_path / "tokfmt-my-records"
    env = installed(tmp_path, package)
    (tmp_path / "in.jsonl").write_text("".join(f'{{"input_ids": {list(range(n))}}}\n' for n in range(9)))
    words = ("--verify", "-q", "--to-opt", "shard_size=8")
    tokfmt("convert", "in.jsonl", "o.my-records", *words, cwd=tmp_path, env=env)
    assert len(list((tmp_path / "o.my-records").glob("0*.gz"))) > 1
    tokfmt("diff", "in.jsonl", "o.my-records", cwd=tmp_path, env=env)
    tokfmt("check", "o.my-records", "--deep", cwd=tmp_path, env=env)
    done = pytest_of(package, env, "-k", QUICK)
    assert done.returncode == 0 and "passed" in done.stdout, done.stdout + done.stderr


@FUZZ_ONLY
def test_a_new_package_is_a_format_whose_tests_pass(tmp_path):
    written = json.loads(tokfmt("plugin", "new", "my-ids", "--json", cwd=tmp_path))
    package = tmp_path / "tokfmt-my-ids"
    assert sorted(tmp_path / file for file in written["files"]) == sorted(package.iterdir())
    env = installed(tmp_path, package)
    (tmp_path / "in.jsonl").write_text("".join(f'{{"input_ids": {list(range(n))}}}\n' for n in range(9)))
    tokfmt("convert", "in.jsonl", "o.my-ids", "--eos", "50256", "--verify", "-q", cwd=tmp_path, env=env)
    tokfmt("diff", "in.jsonl", "o.my-ids", cwd=tmp_path, env=env)
    tokfmt("check", "o.my-ids", "--deep", cwd=tmp_path, env=env)
    assert "MYIDS" in tokfmt("formats", "my-ids", cwd=tmp_path, env=env)
    assert "was cut" in tokfmt("check", "--explain", "MYIDS2", cwd=tmp_path, env=env)
    done = pytest_of(package, env, "-k", QUICK)
    assert done.returncode == 0 and "passed" in done.stdout, done.stdout + done.stderr


def test_the_commands_of_the_page_and_of_the_package_run(tmp_path):
    page = (ROOT / "docs" / "ten-tasks.md").read_text()
    _, _, after = page.partition("tokfmt plugin new mine")
    tokfmt("demo", "sample", cwd=tmp_path)
    tokfmt("plugin", "new", "mine", cwd=tmp_path)
    env = installed(tmp_path, tmp_path / "tokfmt-mine")
    lines = re.findall(r"^tokfmt (.*)$", after, re.MULTILINE)
    assert [line.split()[0] for line in lines] == ["convert", "info"]
    for line in lines:
        told = tokfmt(*line.split(), cwd=tmp_path, env=env)
    assert "document.mine: mine, mine, a format of mine" in told
    own = re.findall(r"^tokfmt (convert .*)$", (tmp_path / "tokfmt-mine" / "README.md").read_text(), re.MULTILINE)
    for line in own:
        tokfmt(*line.split(), "--overwrite", cwd=tmp_path, env=env)
    assert own
