"""The example of `formats/README.md` under the laws of every format, and installed as users install it."""

import ast
import re
from pathlib import Path

import tokfmt_tape

from tokfmt import plugin
from tokfmt.formats import flat

HOME = Path(tokfmt_tape.__file__).parent


def test_the_code_of_the_page_is_that_of_the_examples():
    """Each statement of a block on the page is one of a module, or of a class in it."""
    blocks = re.findall(r"```python\n(.*?)```", (Path(flat.__file__).parent / "README.md").read_text(), re.DOTALL)
    trees = [ast.parse((HOME / name).read_text()) for name in ("tokfmt_tape.py", "tokfmt_strata.py")]
    held = {ast.dump(node) for tree in trees for node in ast.walk(tree)}
    compared = 0
    for block in blocks:
        for node in ast.parse(block).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name != "TestMine":
                assert ast.dump(node) in held, node.name
                compared += 1
    assert compared == 4


def imports_of(text):
    """The modules of tokfmt that a program imports."""
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    modules = [getattr(node, "module", None) or node.names[0].name for node in found]
    return {module for module in modules if module.partition(".")[0] == "tokfmt"}


def test_plug_ins_need_one_module():
    """The examples and the page import `tokfmt.plugin` and `tokfmt.testing` alone, and names that it lists."""
    page = (Path(flat.__file__).parent / "README.md").read_text()
    programs = [path.read_text() for path in HOME.glob("*.py")] + re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(programs) == 7
    for program in programs:
        assert imports_of(program) <= {"tokfmt.plugin", "tokfmt.testing"}
        for node in ast.walk(ast.parse(program)):
            if isinstance(node, ast.ImportFrom) and node.module == "tokfmt.plugin":
                assert {name.name for name in node.names} <= set(plugin.__all__)
    for named in re.findall(r"`(tokfmt\.[\w.]+)`", page):
        assert named.split(".")[1] in ("plugin", "testing", "formats", "open"), named


def test_the_example_is_short_and_is_the_one_of_the_page():
    text = (HOME / "tokfmt_tape.py").read_text()
    assert len(text.splitlines()) < 70
    assert f"```python\n{text}```" in (Path(flat.__file__).parent / "README.md").read_text()
