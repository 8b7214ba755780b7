"""Blend lists of Megatron-LM: what their words mean, as upstream reads them, and thousands of prefixes as one dataset."""

import json
from pathlib import Path

import pytest
from paths import FIXTURES

import tokfmt
from tokfmt import registry
from tokfmt.core.errors import UnknownFormatError

HOME = FIXTURES / "megatron" / "blend"


@pytest.mark.parametrize("words", ["this_document is a text", "1 apple 2 pears", "see a_document and b_document"])
def test_prose_about_documents_is_no_list(tmp_path, words):
    (tmp_path / "x.txt").write_text(words)
    assert registry.detect(tmp_path / "x.txt").name == "text"


@pytest.mark.parametrize("indent", [None, 1])
def test_a_file_of_sequences_is_named(tmp_path, indent):
    path = tmp_path / "sequences.json"
    path.write_text(json.dumps(json.loads((HOME / "sequences.json").read_text()), indent=indent))
    with pytest.raises(UnknownFormatError, match=r"is a list of the numbers of sequences .*Name the blend list"):
        tokfmt.open(path)
    path.write_text('{"input_ids": [2, 3]}')
    assert registry.detect(path).name == "jsonl"


def test_prose_with_a_slash_is_no_list(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("A . file and / or a ./ folder")
    assert registry.detect(Path("notes.txt")).name == "text"
