"""Limits on the length of a module and of a function.

Lines are counted as `wc -l` counts them. A function extends from its first statement to its last: a public function has
one line per parameter before that, and one in its docstring, which is no reason to give it fewer parameters.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

from amount import FUZZ_ONLY

import tokfmt

HOME = Path(tokfmt.__file__).parent


class Measure(NamedTuple):
    """A length in lines and its limit."""

    name: str
    limit: int


MODULE = Measure("longest module", 1250)
FUNCTION = Measure("longest function", 80)


def modules() -> dict[str, str]:
    """The text of each module, by its path in the package."""
    return {str(path.relative_to(HOME)): path.read_text("utf-8") for path in sorted(HOME.rglob("*.py"))}


def functions(text: str) -> list[tuple[int, str]]:
    """Lines and name of each function of a module, methods and inner ones too."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            documented = ast.get_docstring(node, clean=False) is not None
            body = node.body[documented:]
            found.append(((body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0, node.name))
    return found


def sizes() -> list[tuple[Measure, int, str]]:
    """Return each measure, its largest value, and the module where that is."""
    texts = modules()
    lines = {path: text.count("\n") for path, text in texts.items()}
    longest = max(lines, key=lines.__getitem__)
    length, name, path = max((*one, path) for path, text in texts.items() for one in functions(text))
    return [
        (MODULE, lines[longest], longest),
        (FUNCTION, length, f"{name} in {path}"),
    ]


@FUZZ_ONLY
def test_modules_and_functions_stay_short():
    found = sizes()
    for measure, value, where in found:
        print(f"{measure.name:17} {value:7,}  limit {measure.limit:7,}  {where}")
    too_long = [f"{measure.name}: {value:,} {where}" for measure, value, where in found if value > measure.limit]
    assert not too_long


def test_what_is_measured(tmp_path):
    text = '@cache\n@other\ndef outer():\n    """Two\n    lines."""\n    def inner():\n        return 1\n    return inner\n'
    assert sorted(functions(text)) == [(1, "inner"), (3, "outer")]
    assert len(modules()) > 100
    assert max(map(len, modules()["core/reader.py"].splitlines())) <= 120
