"""Every cell of the notebooks runs, in order, in an empty directory; `make notebooks-test` has what they import."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from amount import FUZZ_ONLY
from paths import ROOT

NEEDS = {"look": ("polars", "matplotlib", "pyarrow"), "train": ("torch",)}


def cells(name):
    notebook = json.loads((ROOT / "docs" / "notebooks" / f"{name}.ipynb").read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    return notebook["cells"]


@pytest.mark.parametrize("name", NEEDS)
def test_a_notebook_is_stored_without_outputs(name):
    for cell in cells(name):
        assert cell.get("outputs", []) == [] and cell.get("execution_count") is None
    assert {path.stem for path in (ROOT / "docs" / "notebooks").glob("*.ipynb")} == set(NEEDS)


@FUZZ_ONLY
@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDS)
def test_every_cell_of_a_notebook_runs(name, tmp_path):
    missing = [package for package in NEEDS[name] if importlib.util.find_spec(package) is None]
    if missing and not os.environ.get("NOTEBOOKS"):
        pytest.skip(f"{', '.join(missing)} is not installed: make notebooks-test installs it")
    code = ["".join(cell["source"]) for cell in cells(name) if cell["cell_type"] == "code"]
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(code)],
        cwd=tmp_path, env={**os.environ, "PATH": programs, "MPLBACKEND": "Agg"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "look.png").exists() == (name == "look")
