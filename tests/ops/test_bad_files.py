"""fixtures/bad: each bad file gives its one message, its findings, and little memory; each control beside it is read."""

import json
import re

import pytest
from click.testing import CliRunner
from paths import FIXTURES, TOKENIZER

import tokfmt
from tokfmt.cli.main import cli
from tokfmt.testing import little_memory

BAD = FIXTURES / "bad"
FORMATS = sorted(p.parent.name for p in BAD.glob("*/expected.json"))
EXPECTED = {
    (f, name): case for f in FORMATS for name, case in json.loads((BAD / f / "expected.json").read_bytes()).items()
}
FOUND = {f: json.loads((BAD / f / "findings.json").read_bytes()) for f in FORMATS}
LOSSES = {"other_fields.jsonl"}
"""What is wrong with them is a loss in a conversion, which is accepted by its name, and nothing that a check finds."""
ACCEPTED = {"content_ignored.h5": ["loss-mask"]}
"""What a conversion says before it comes to the damage."""
_SAVES = r"\. --allow-partial (saves the complete sequences|--eos ID saves the complete documents)$"
CONTRAST = re.compile(r"expected .*?, found [^.;]*")
COUNTED = re.compile(r"negative (?:id|ID)|entries do not begin a line|holds no tokens|holds samples of 0 fields")
"""What a check words otherwise, as it sees all of a file: how many there are, and the first."""


@pytest.mark.parametrize(("format_", "name"), [one for one in EXPECTED if one[1] not in LOSSES], ids=lambda v: v)
def test_bad_file(format_, name, tmp_path, monkeypatch):
    """A conversion refuses it in the words that are expected, or reads all of it.

    The causes of the error end: a worker of Dask follows them to the last one, and one that is its own cause fills the
    memory.
    """
    monkeypatch.chdir(BAD / format_)
    text = format_ == "jsonl"  # lines of text may be copied as they are
    case, out = EXPECTED[format_, name], tmp_path / ("out.pbin" if text else "out.jsonl")
    words = ["convert", name, str(out), "--from", format_, "--executor", "serial", "-q"]
    for key, value in case.get("options", {}).items():
        words += ["--from-opt", f"{key}={value}"]
    if case.get("eos") is not None:
        words += ["--eos", str(case["eos"])]
    for word in (*case.get("allow_loss", ()), *ACCEPTED.get(name, ()), *(("fields", "tokenizers") if text else ())):
        words += ["--allow-loss", word]
    if text:
        words += ["--tokenizer", str(TOKENIZER)]
    done = CliRunner().invoke(cli, words)
    if "error" in case:
        assert type(done.exception).__name__ == case["error"]
        assert re.sub(_SAVES, "", str(done.exception)) == case["message"]
        assert not out.exists()
        error, seen = done.exception, []
        while error is not None:
            assert error not in seen
            seen.append(error)
            error = error.__cause__
        return
    assert done.exit_code == 0, done.output
    stored = tokfmt.info(out)
    assert stored.sequences == case["sequences"]
    assert "tokens" not in case or stored.tokens == case["tokens"]


@pytest.mark.parametrize(("format_", "name"), EXPECTED, ids=lambda v: v)
def test_findings(format_, name, monkeypatch):
    """A check that looks at headers, and one that decodes everything, find what they must, and no more.

    The second reads as a conversion does, in little memory.
    """
    monkeypatch.chdir(BAD / format_)
    case, found = EXPECTED[format_, name], FOUND[format_][name]
    how = {"format": format_, "options": case.get("options", {}), "eos": case.get("eos")}
    shallow, deep = (found, found) if isinstance(found, list) else (found["shallow"], found["deep"])
    (verdict,) = tokfmt.check(name, **how)
    assert sorted(verdict.counts) == shallow
    with little_memory(32 << 20, name):
        (verdict,) = tokfmt.check(name, **how, deep=True)
    assert sorted(verdict.counts) == deep
    if "error" in case and name not in LOSSES:
        assert {"error", "warning"} & verdict.severities.keys()
        assert (verdict.exit_code == 3) == (case["error"] == "UnsafeError")
    if contrast := CONTRAST.search(case.get("message", "")):  # a check tells no less than the reader that refused it
        said = [finding.message for finding in verdict.findings]
        assert any(contrast[0] in message or COUNTED.search(message) for message in said), said


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
        beside = {
            n
            for n in names
            if n.endswith((".idx", ".tokfmt.json", ".bin.json", ".bin.meta")) or n.startswith("outside")
        }
        assert names - beside <= {name for f, name in EXPECTED if f == format_}
