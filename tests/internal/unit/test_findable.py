"""Tables that say where a thing is, in the docstring of the module in which one looks first: each place is right."""

import dataclasses
import re

import pytest
from paths import ROOT

from tokfmt.core import loss_mask
from tokfmt.ops.check import codes
from tokfmt.recipes.language import FilterRules
from tokfmt.text import filters

HOME = ROOT / "tokfmt"


@pytest.mark.parametrize("module", [loss_mask, codes])
def test_a_place_that_is_named_is_there(module):
    found = re.findall(r"([\w/]+\.py)(?: `(\w+)`)?", module.__doc__)
    assert len(found) >= 5
    for path, name in found:
        text = (HOME / path).read_text()
        assert not name or f"def {name}(" in text, (path, name)


def test_every_code_is_where_the_table_says():
    """Each code of tokfmt has a row, which names its format and a module that has the code or its number."""
    rows = re.findall(r"(TF[\dx]+) +([\w, -]+?)  +(\S+)", codes.__doc__)
    assert {one.owner for one in codes.all_codes().values()} <= {
        name for _, owners, _ in rows for name in (*owners.split(", "), "any format")
    }
    for code, meaning in codes.all_codes().items():
        fitting = [row for row in rows if re.match(row[0].replace("x", r"\d"), code)]
        assert fitting, code
        _, owners, path = max(fitting, key=lambda row: -row[0].count("x"))
        assert meaning.owner in (*owners.split(", "), "any format"), code
        if path.endswith(".py") and not path.startswith("formats/arrow"):
            assert code in (HOME / path).read_text(), (code, path)


def test_each_rule_of_filters_has_a_method_for_short_and_for_long_texts():
    for rule in dataclasses.fields(FilterRules):
        assert callable(getattr(filters._Characters, rule.name)) and callable(getattr(filters._Long, rule.name))
