"""Manifests that say nothing: not regular files, or files that become others while they are opened, or false numbers."""

import json

import pytest
from paths import CORPUS, TOKENIZER

import tokfmt
from tokfmt import check, convert
from tokfmt.core.errors import CorruptError


@pytest.mark.parametrize("name", ["x.pbin", "x.jsonl", "x.zarr", "x_document.bin"])
def test_the_largest_id_is_compared(tmp_path, name):
    path = tmp_path / name
    convert(CORPUS, path, tokenizer=TOKENIZER, jobs=1)
    (beside,) = tmp_path.glob("*.tokfmt.json")
    content = json.loads(beside.read_text())
    assert check([path], deep=True)[0].findings == []
    beside.write_text(json.dumps({**content, "max_id": 4000}))
    (verdict,) = check([path], deep=True)
    assert [found.code for found in verdict.findings] == ["TF913"]
    assert "has the largest ID 4,0" in verdict.findings[0].message


def test_amounts_of_a_manifest_are_not_printed_at_length(tmp_path):
    path = tmp_path / "x.pbin"
    convert(CORPUS, path, tokenizer=TOKENIZER, jobs=1)
    beside = tmp_path / "x.pbin.tokfmt.json"
    content = json.loads(beside.read_text())
    content["output"]["bytes"] = 10**400
    beside.write_text(json.dumps(content))
    with pytest.raises(CorruptError, match="in bytes: expected a number of 401 digits, found"):
        tokfmt.open(path)
    (verdict,) = check([path])
    assert "the manifest states a number of 401 digits" in verdict.findings[0].message
