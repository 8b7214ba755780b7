"""A name of a file is whatever somebody liked: it never controls a terminal, nor the runner of a workflow."""

import re

from amount import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tokfmt.cli.console import defused


@given(st.text(st.sampled_from(":#[ \n\r\tax\x0b\u2028"), max_size=30))
@settings(max_examples=examples(300))
def test_defused(text):
    found = defused(text)
    assert "##[" not in found
    assert not any(line.strip().startswith("::") for line in re.split(r"[\r\n]", found))
    if "##[" not in text and "::" not in text:
        assert found == text
