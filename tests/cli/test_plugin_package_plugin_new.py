"""`tokfmt plugin new`: a package that works as it was written."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib

import forkserver
import pytest
from amount import FUZZ_ONLY

from tokfmt.errors import DestinationExistsError, OptionError
from tokfmt.plugin_package import new_package


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
@pytest.mark.slow
@pytest.mark.parametrize("records", [False, True])
def test_all_laws_hold_of_a_new_package(tmp_path, records):
    new_package("fresh", tmp_path / "p", records=records)
    done = pytest_of(tmp_path / "p", installed(tmp_path, tmp_path / "p"))
    assert done.returncode == 0 and "passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("records", [False, True])
def test_new_package_imports_only_the_plugin_module(tmp_path, records):
    for path in new_package("fresh", tmp_path / "p", records=records):
        if path.suffix == ".py":
            found = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
            assert {node.module for node in found} <= {
                "dataclasses",
                "tokfmt",
                "tokfmt.plugin",
                "tokfmt.testing",
                "tokfmt_fresh",
            }
            assert max(map(len, path.read_text().splitlines())) <= 120
        assert not re.search("@[A-Z_]+@", path.read_text())


def test_another_version_of_the_contract_is_refused(tmp_path):
    new_package("fresh", tmp_path / "p")
    module = tmp_path / "p" / "tokfmt_fresh.py"
    module.write_text(module.read_text().replace("VERSION != 2", "VERSION != 0"))
    done = subprocess.run([sys.executable, str(module)], capture_output=True, text=True)
    assert "tokfmt_fresh was written for version 2 of tokfmt.plugin" in done.stderr


@pytest.mark.parametrize("name", ["", "Mine", "-x", "x-", "a--b", "a_b", "../up", "x" * 41, "é", "jsonl"])
def test_names_that_no_format_can_have(tmp_path, name):
    with pytest.raises(OptionError, match="cannot be the name of a format|is installed already"):
        new_package(name, tmp_path / "p")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_holds_something_stays(tmp_path):
    home = tmp_path / "p"
    home.mkdir()
    new_package("fresh", home)
    before = {path: path.read_bytes() for path in home.iterdir()}
    with pytest.raises(DestinationExistsError, match="not an empty directory"):
        new_package("other", home)
    assert {path: path.read_bytes() for path in home.iterdir()} == before
    assert (
        "exists"
        in forkserver.run(
            [sys.executable, "-m", "tokfmt", "plugin", "new", "other", "p"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        ).stderr
    )
