"""Formats whose goldens state their documents, or rows, in full: each is read as upstream wrote it."""

import hashlib
import json
from typing import Any

import numpy as np
import pytest
from paths import FIXTURES

import tokfmt

HOMES = ("litgpt-packed", "internevo", "webdataset", "tfrecord", "arrayrecord", "array")
CASES = {
    (home, case["name"]): case
    for home in HOMES
    for case in json.loads((FIXTURES / home / "expected.json").read_text())["cases"]
    if "defect" not in case and ("documents" in case or "rows" in case)
}
REFUSED = {("array", "fortran_ODD"): r"stores columns, not rows"}
BARE = ("raw_i4", "group4_zstd", "brotli", "snappy", "empty", "empty_record")
READING: dict[tuple[str, str], dict[str, Any]] = {
    ("array", "build_nanogpt"): {"eos": 50256},
    ("litgpt-packed", "redpajama_sample"): {"eos": 1, "options": {"side": "before"}},
    ("litgpt-packed", "tinyllama"): {"eos": 2},
    ("litgpt-packed", "lit_llama"): {"eos": 1, "options": {"side": "before", "fill": "drop"}},
    ("litgpt-packed", "llama3_int32"): {"eos": 128001},
    ("array", "kempnerforge"): {"eos": 2},
    ("tfrecord", "raw_i4"): {"options": {"bare": "int32"}},
    ("tfrecord", "ids_as_bytes"): {"options": {"field": "tokens", "bare": "uint16"}},
    **{("arrayrecord", name): {"options": {"bare": "int32"}} for name in BARE},
    ("arrayrecord", "example_inputs"): {"options": {"field": "inputs"}},  # its targets have an ID more
    ("array", "tatm"): {"eos": 1, "options": {"side": "before"}},
}
"""What the files do not state: the separator, and how else they have to be read."""
UNFINISHED = {("litgpt-packed", "tinyllama")}
"""Those whose last document goes on in a chunk that upstream dropped."""


def digest(ids):
    return hashlib.sha256(np.asarray(ids, "<u4").tobytes()).hexdigest()


def test_the_goldens_are_there():
    for (home, _), case in CASES.items():
        for file in case["files"]:
            assert hashlib.sha256((FIXTURES / home / file["path"]).read_bytes()).hexdigest() == file["sha256"]


@pytest.mark.parametrize("key", [key for key in CASES if key not in REFUSED], ids="-".join)
def test_documents(key):
    case, how = CASES[key], {"eos": "none", **READING.get(key, {})}
    entry = FIXTURES / key[0] / case["entry"]
    with tokfmt.open(
        [entry / name for name in case["order"]] if key[1] == "build_nanogpt" else entry, **how
    ) as dataset:
        held, separator, side = dataset[:].tolist(), dataset.info.eos_id, how.get("options", {}).get("side")
    if separator is not None:
        before = side == "before" or key[1] == "build_nanogpt"
        held = [[separator, *one] if before else [*one, separator] for one in held]
        held[-1] = held[-1][:-1] if key in UNFINISHED else held[-1]
    expected = case.get("documents", case.get("rows"))
    if any(token < 0 for one in expected for token in one):  # a sign says that an ID does not count in the loss
        assert held == [[abs(token) for token in one] for one in expected]
        return
    if "segments" in case:  # rows hold documents, and padding at their ends
        cuts = [np.cumsum(lengths) for lengths in case["segments"]]
        divided = [np.split(row, ends)[:-1] for row, ends in zip(map(np.array, expected), cuts, strict=True)]
        assert held == [one.tolist() for row in divided for one in row]
        return
    assert held == expected or (held == [[]] and not expected)
    assert [len(one) for one in held if one] == [length for length in case["lengths"] if length]
    assert digest([token for one in held for token in one]) == case["tokens_sha256_le_u32"]


@pytest.mark.parametrize("key", list(REFUSED), ids="-".join)
def test_what_is_refused(key):
    with pytest.raises(tokfmt.TokfmtError, match=REFUSED[key]):
        tokfmt.open(FIXTURES / key[0] / CASES[key]["entry"])
