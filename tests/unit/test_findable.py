"""Tables that say where a thing is, in the docstring of the module in which one looks first: each place is right."""

import ast
import json
import re

import commands
import pytest
from paths import ROOT

HOME = ROOT / "tokfmt"
CODES = "commands/check/codes.py"


def table(path):
    """The docstring of a module."""
    return ast.get_docstring(ast.parse((HOME / path).read_bytes()), clean=False)


@pytest.mark.parametrize("module", ["core/loss_mask.py", CODES])
def test_a_place_that_is_named_is_there(module):
    places = re.findall(r"([\w/]+\.py)(?: `(\w+)`)?", table(module))
    assert len(places) >= 5
    for path, name in places:
        text = (HOME / path).read_text()
        assert not name or re.search(rf"(def|class) {name}\(", text), (path, name)


def test_every_code_is_where_the_table_says():
    """Each code of tokfmt has a row, which names its format and a module beside which the code is explained."""
    codes = json.loads(commands.run("check", "--explain", "all", "--json").stdout)["codes"]
    rows = re.findall(r"(TF[\dx]+) +([\w, -]+?)  +(\S+)", table(CODES))
    assert {code["owner"] for code in codes} <= {
        name for _, owners, _ in rows for name in (*owners.split(", "), "any format")
    }
    for code in codes:
        assert len(code["title"]) < len(code["text"]) and not code["title"].endswith("."), code
        number = code["code"]
        fitting = [row for row in rows if re.match(row[0].replace("x", r"\d"), number)]
        assert fitting, number
        _, owners, path = max(fitting, key=lambda row: -row[0].count("x"))
        assert code["owner"] in (*owners.split(", "), "any format"), number
        if path.endswith(".py"):
            assert number in (HOME / path).with_suffix(".toml").read_text(), (number, path)
