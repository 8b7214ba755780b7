"""Tables that say where a thing is, in the docstring of the module in which one looks first: each place is right."""

import re

import plugin_names
from paths import ROOT

from tokfmt import plugin


def test_the_page_of_names_for_plug_ins_has_each_with_its_description():
    listed = [one for names in plugin_names.names().values() for one in names]
    assert sorted([*(name for name, _ in listed), "VERSION"]) == sorted(plugin.__all__)
    assert all(text.endswith(".") for _, text in listed), [name for name, text in listed if not text.endswith(".")]
    written = re.findall(r"^\| `(\w+)` \| \S", (ROOT / "docs" / "plugin-names.md").read_text(), re.MULTILINE)
    expected = re.findall(r"^\| `(\w+)` \| \S", plugin_names.page(), re.MULTILINE)
    assert written == expected, "run python tests/plugin_names.py > docs/plugin-names.md"
