"""fixtures/bad: each bad file gives its one message, its findings, and little memory; each control beside it is read."""

import json
import re
import tracemalloc

import pytest
from check_cases import look
from paths import FIXTURES

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
FOUND = {f: json.loads((BAD / f / "findings.json").read_bytes()) for f in FORMATS}


def read_all(format_, name, case):
    source = open_source(
        [name],
        format=format_,
        eos=case.get("eos"),
        options=case.get("options", {}),
        allow_loss=case.get("allow_loss", ()),
    )
    reader = source.reader
    if isinstance(reader, RecordReader):
        if reader.info.kind == "text":
            return [text for block in reader.blocks(1 << 20) for batch in reader.texts(block) for text in batch.texts]
        reader = tokenized(reader, None)
    found = sequences(reader)
    reader.close()
    return found


CONTRAST = re.compile(r"expected .*?, found [^.;]*")
COUNTED = re.compile(r"negative (?:id|ID)|entries do not begin a line|holds no tokens|holds samples of 0 fields")
"""What a check words otherwise, as it sees all of a file: how many there are, and the first."""
LOSSES = {"other_fields.jsonl"}
"""What is wrong with them is a loss in a conversion, which is accepted by its name, and nothing that a check finds."""


@pytest.mark.parametrize(("format_", "name"), EXPECTED, ids=lambda v: v)
def test_bad_file(format_, name, monkeypatch):
    """Opened, looked at, and looked at in depth."""
    monkeypatch.chdir(BAD / format_)
    case, found = EXPECTED[format_, name], FOUND[format_][name]
    opened(format_, name, case)
    how = {
        "format": format_,
        "options": [f"{k}={v}" for k, v in case.get("options", {}).items()],
        "eos": case.get("eos"),
    }
    shallow, deep = (found, found) if isinstance(found, list) else (found["shallow"], found["deep"])
    assert sorted(look(name, **how).counts) == shallow
    verdict = look(name, **how, deep=True)
    assert sorted(verdict.counts) == deep
    if "error" in case and name not in LOSSES:
        assert {"error", "warning"} & verdict.severities.keys()
        assert (verdict.exit_code == 3) == (case["error"] == "UnsafeError")
    if contrast := CONTRAST.search(case.get("message", "")):  # a check tells no less than the reader that refused it
        said = [finding.message for finding in verdict.findings]
        assert any(contrast[0] in message or COUNTED.search(message) for message in said), said


def opened(format_, name, case):
    """It is refused in the words that are expected, or read."""
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
