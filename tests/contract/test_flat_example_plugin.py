"""The page `formats/README.md` shows the module that `tokfmt plugin new` writes, and names for plug-ins alone."""

import ast
import re
import sys
from pathlib import Path

import forkserver
import pytest
import tokfmt_strata

import tokfmt
from tokfmt import plugin

HOME = Path(tokfmt.__file__).parent
PAGE = (HOME / "formats" / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def mine(tmp_path):
    """The text of the module that the command writes."""
    command = [sys.executable, "-m", "tokfmt", "plugin", "new", "mine", "p"]
    forkserver.run(command, cwd=tmp_path, capture_output=True, check=True)
    return (tmp_path / "p" / "tokfmt_mine.py").read_text()


def test_the_code_of_the_page_is_that_of_the_examples(mine):
    """Each statement of a block on the page is one of a module, or of a class in it."""
    trees = [ast.parse(mine), ast.parse(Path(tokfmt_strata.__file__).read_text())]
    held = {ast.dump(node) for tree in trees for node in ast.walk(tree)}
    compared = 0
    for block in BLOCKS:
        for node in ast.parse(block).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name != "TestMine":
                assert ast.dump(node) in held, node.name
                compared += 1
    assert compared == 4


def imports_of(text):
    """The modules of tokfmt that a program imports."""
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    modules = [
        f"{node.module}.{node.names[0].name}" if getattr(node, "module", None) == "tokfmt" else getattr(node, "module", "")
        for node in found
    ]  # fmt: skip
    return {module for module in modules if module.partition(".")[0] == "tokfmt"}


def test_plug_ins_need_one_module():
    """The examples and the page import `tokfmt.plugin` and `tokfmt.testing` alone, and names that it lists."""
    examples = [*(HOME / "plugin_examples").glob("*/*.py"), Path(tokfmt_strata.__file__)]
    programs = [path.read_text() for path in examples] + BLOCKS
    assert len(programs) == 9
    for program in programs:
        assert imports_of(program) <= {"tokfmt.plugin", "tokfmt.testing"}
        for node in ast.walk(ast.parse(program)):
            if isinstance(node, ast.ImportFrom) and node.module == "tokfmt.plugin":
                assert {name.name for name in node.names} <= set(plugin.__all__)
    for named in re.findall(r"`(tokfmt\.[\w.]+)`", PAGE):
        assert named.split(".")[1] in ("plugin", "testing", "formats", "open"), named


def test_the_example_is_short_and_is_the_one_of_the_page(mine):
    assert len(mine.splitlines()) < 70
    assert f"```python\n{mine}```" in PAGE
