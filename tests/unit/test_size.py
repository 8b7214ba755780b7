"""How much there is to read: modules and lines of tokfmt, the longest module, the longest function.

Counted as `wc -l` counts, functions from `def` to their last line, docstrings included. What has not come as far as its
goal may not go back: a change that takes lines away takes the number here along.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

import tokfmt

HOME = Path(tokfmt.__file__).parent


class Measure(NamedTuple):
    """What is counted, how much of it there may be today, and how much is the goal."""

    name: str
    most: int
    goal: int


MODULES = Measure("modules", 189, 190)
LINES = Measure("lines", 61_330, 36_500)
MODULE = Measure("longest module", 700, 700)
FUNCTION = Measure("longest function", 80, 80)


def modules() -> dict[str, str]:
    """The text of each module, by its path in the package."""
    return {str(path.relative_to(HOME)): path.read_text("utf-8") for path in sorted(HOME.rglob("*.py"))}


def functions(text: str) -> list[tuple[int, str]]:
    """Lines and name of each function of a module, methods and inner ones too."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.append(((node.end_lineno or node.lineno) - node.lineno + 1, node.name))
    return found


def sizes() -> list[tuple[Measure, int, str]]:
    """Each measure, its value, and where the largest is."""
    texts = modules()
    lines = {path: text.count("\n") for path, text in texts.items()}
    longest = max(lines, key=lines.__getitem__)
    length, name, path = max((*one, path) for path, text in texts.items() for one in functions(text))
    return [
        (MODULES, len(lines), f"median {sorted(lines.values())[len(lines) // 2]} lines"),
        (LINES, sum(lines.values()), ""),
        (MODULE, lines[longest], longest),
        (FUNCTION, length, f"{name} in {path}"),
    ]


def test_sizes_do_not_grow():
    found = sizes()
    for measure, value, where in found:
        print(f"{measure.name:17} {value:7,}  most {measure.most:7,}  goal {measure.goal:7,}  {where}")
    too_many = [f"{measure.name}: {value:,} {where}" for measure, value, where in found if value > measure.most]
    assert not too_many


def test_what_is_measured(tmp_path):
    text = '@cache\n@other\ndef outer():\n    """Two\n    lines."""\n    def inner():\n        return 1\n    return inner\n'
    assert sorted(functions(text)) == [(2, "inner"), (6, "outer")]
    assert len(modules()) > 100
    assert max(map(len, modules()["core/axis.py"].splitlines())) <= 120
