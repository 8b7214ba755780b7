"""Recipes of text on several machines: tasks that read, filter and tokenise, one run that draws and writes."""

import json

import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.core.errors import OptionError


def test_conversions_that_cannot_be_divided_refuse_tasks(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(OptionError, match="task: lines are copied as they are, which is done in one run"):
        tokfmt.convert(tmp_path / "a.jsonl", tmp_path / "b.jsonl", task=(0, 2))
    pack = json.dumps(str(FIXTURES / "modalities" / "D_2byte_gpt2.pbin"))
    (tmp_path / "ids.toml").write_text(f'tokfmt = 1\ndedup = "exact"\n[[source]]\npath = {pack}\n')
    with pytest.raises(OptionError, match="task: equal sequences of token IDs are left out, which is done in one run"):
        tokfmt.convert(tmp_path / "ids.toml", tmp_path / "b.pbin", task=(0, 2))
