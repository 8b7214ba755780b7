"""README and docs show what the commands print: their sessions are run, a page in a directory of its own.

It has what `tokfmt demo` writes, and nothing of a checkout: who reads the site has a wheel.
"""

import inspect
import re
import sys

from paths import ROOT

from tokfmt import registry
from tokfmt.cli.main import COMMANDS


def test_the_bytes_of_a_format_are_described_without_names_of_the_source():
    """`tokfmt formats NAME` and the site print the description; its reader has a wheel only."""
    for one in registry.list_formats():
        told = inspect.getdoc(sys.modules[type(one).__module__])
        assert not re.findall(r"see `\w|`(?:core|ops|container|tokfmt)\.\w|`_\w|\bInfo\.", told), one.name


def test_the_readme_is_short_and_counts_the_formats():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 200
    formats = [
        one for one in registry.list_formats() if type(one).__module__.startswith("tokfmt.") and one.name != "recipe"
    ]
    written = [one for one in formats if not one.read_only]
    for page in (text, (ROOT / "docs" / "index.md").read_text()):
        assert f"reads {len(formats)} formats and writes {len(written)} of them" in page
    assert {f"`tokfmt {name}" for name in COMMANDS} <= {f"`tokfmt {name}" for name in re.findall(r"tokfmt (\w+)", text)}
