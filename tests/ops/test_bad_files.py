"""fixtures/bad: each bad file gives its one message and little memory; each control beside it is read."""

import json
import re
import tracemalloc

import pytest
from paths import FIXTURES

import tokfmt
from tokfmt.core import errors
from tokfmt.core.records import RecordReader
from tokfmt.ops.source.ingest import tokenized
from tokfmt.ops.source.open import open_source
from tokfmt.testing import sequences

BAD = FIXTURES / "bad"
FORMATS = sorted(p.parent.name for p in BAD.glob("*/expected.json"))
EXPECTED = {
    (f, name): case for f in FORMATS for name, case in json.loads((BAD / f / "expected.json").read_bytes()).items()
}


def read_all(format_, name, case):
    source = open_source(
        [name],
        format=format_,
        eos=case.get("eos"),
        options=case.get("options", {}),
        drop=case.get("drop", ()),
    )
    reader = source.reader
    if isinstance(reader, RecordReader):
        if reader.info.kind == "text":
            return [text for block in reader.blocks(1 << 20) for batch in reader.texts(block) for text in batch.texts]
        reader = tokenized(reader, None)
    found = sequences(reader)
    reader.close()
    return found


@pytest.mark.parametrize(("format_", "name"), EXPECTED, ids=lambda v: v)
def test_bad_file(format_, name, monkeypatch):
    monkeypatch.chdir(BAD / format_)
    case = EXPECTED[format_, name]
    tracemalloc.start()
    try:
        if "error" not in case:
            found = read_all(format_, name, case)
            assert len(found) == case["sequences"]
            assert "tokens" not in case or sum(map(len, found)) == case["tokens"]
            return
        with pytest.raises(errors.TokfmtError) as caught:
            read_all(format_, name, case)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (type(caught.value).__name__, str(caught.value)) == (case["error"], case["message"])
    assert peak < 32 << 20, f"{peak:,} bytes for a small bad file"


CONTRAST = re.compile(r"expected .*?, found [^.;]*")
CONTRASTS = {key: found[0] for key, case in EXPECTED.items() if (found := CONTRAST.search(case.get("message", "")))}
COUNTED = re.compile(r"negative id|entries begin no line|holds no tokens|holds samples of 0 fields")
"""What a check words otherwise, as it sees all of a file: how many there are, and the first."""


@pytest.mark.parametrize(("format_", "name"), CONTRASTS, ids=lambda v: v)
def test_a_check_says_what_the_reader_says(format_, name, monkeypatch):
    """What was expected and what was found: who is refused and asks for more must not be told less."""
    monkeypatch.chdir(BAD / format_)
    case = EXPECTED[format_, name]
    verdicts = tokfmt.check(
        name, format=format_, eos=case.get("eos"), options=case.get("options", {}), drop=case.get("drop", ()), deep=True
    )
    said = [finding.message for verdict in verdicts for finding in verdict.findings]
    assert any(CONTRASTS[format_, name] in message or COUNTED.search(message) for message in said), said


@pytest.mark.parametrize("format_", ["modalities", "stage1", "hdf5", "flat-tokens", "jsonl"])
def test_there_are_enough(format_):
    """At least five of each class, and controls."""
    cases = [case for (f, _), case in EXPECTED.items() if f == format_]
    classes = {}
    for case in cases:
        if "error" in case:
            classes[case["class"]] = classes.get(case["class"], 0) + 1
    assert classes, f"no bad files for {format_}"
    assert {name: count for name, count in classes.items() if count < 5} == {}
    assert sum("error" not in case for case in cases) >= 2


def test_every_file_is_expected():
    for format_ in FORMATS:
        names = {p.name for p in (BAD / format_).iterdir()} - {
            "expected.json",
            "findings.json",
            "make.py",
            "README.md",
            "__pycache__",
        }
        beside = {n for n in names if n.endswith((".idx", ".tokfmt.json")) or n.startswith("outside")}
        assert names - beside <= {name for f, name in EXPECTED if f == format_}
