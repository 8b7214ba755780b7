"""`tokfmt check` as people and CI see it."""

import json
import re
import shutil

import click
import commands
import numpy as np
import pytest
from click.testing import CliRunner
from paths import FIXTURES, ROOT, TOKENIZER
from schemas import validate

from tokfmt import convert
from tokfmt.cli.check import command
from tokfmt.sample import write_sample

MERGED = str(FIXTURES / "modalities/E_D_2byte_gpt2.pbin")
GOOD = str(FIXTURES / "modalities/D_join_of_one.pbin")
FAULTY = str(FIXTURES / "jsonl/faulty.jsonl")
UNSAFE = str(FIXTURES / "bad/modalities/opcode_global.pbin")


def run(*words):
    """Exit code, stdout, stderr; in this process."""
    result = CliRunner().invoke(command, list(words), standalone_mode=False)
    assert result.exception is None, result.exception
    return result.return_value, result.stdout, result.stderr


def tokfmt(*words):
    return tuple(commands.run("check", *words, cwd=ROOT))


def test_exit_codes():
    assert tokfmt(GOOD)[0] == 0
    code, out, err = tokfmt(MERGED)
    assert (code, err) == (1, f"note: --fix OUT writes a correct copy\ntokfmt: error: {MERGED}: 1 error\n")
    assert out.startswith(f"error   TF107 {MERGED}: index entry 5 at byte 1,362: expected offset 204, found 192 (")
    assert tokfmt("--from", "modalties", GOOD)[0] == 2
    code, out, err = tokfmt("--explain", "TF17")
    assert (code, out, err.count("Did you mean TF")) == (2, "", 1)
    code, out, err = tokfmt("absent.pbin")
    assert (code, out, err) == (
        3,
        "error   TF900 absent.pbin: no such file. tokfmt check --explain TF900 explains it\n",
        "tokfmt: error: absent.pbin: 1 error\n",
    )


def test_fix_that_is_refused(tmp_path):
    code, _, err = tokfmt("--fix", str(tmp_path / "x.pbin"), "fixtures/bad/modalities/index_gap.pbin")
    assert code == 4
    assert "not repaired: the right content is not certain where it has TF108" in err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "note"),
    [
        ((MERGED,), "note: --fix OUT writes a correct copy"),
        ((str(FIXTURES / "bad" / "modalities" / "cut_in_an_entry.pbin"),), "note: --fix OUT writes the sequences that "
         "are certain to be complete"),
        ((str(FIXTURES / "bad" / "modalities" / "cut_in_the_data.pbin"),), ""),
        ((MERGED, FAULTY), ""),  # --fix takes one
        ((MERGED, "--quiet"), ""),
        ((MERGED, "--json"), ""),
        ((UNSAFE,), ""),
        ((GOOD,), ""),
        (("absent.pbin",), ""),
    ],
)  # fmt: skip
def test_what_fix_would_write(words, note):
    """A repair is offered where --fix would write one."""
    assert [line for line in run(*words)[2].splitlines() if "--fix" in line] == ([note] if note else [])


def test_lines():
    code, out, err = run(FAULTY, MERGED, GOOD, "--deep")
    assert code == 1
    lines = out.splitlines()
    assert len(lines) == 4
    pattern = r"(error  |warning|info   ) TF\d{3} \S+( at byte [\d,]+)?: .+\. \S.*"
    assert all(re.fullmatch(pattern, line) for line in lines), lines
    assert lines[0].startswith(f"error   TF501 {FAULTY} at byte 89: line 2 is not valid JSON")
    assert err.splitlines() == [
        f"tokfmt: error: {FAULTY}: 2 errors",
        f"tokfmt: error: {MERGED}: 1 error, 1 info",
        f"{GOOD}: modalities, 5 sequences, 102 tokens: no findings (no manifest)",
    ]


def test_quiet_prints_only_errors():
    assert run("--quiet", GOOD) == (0, "", "")
    assert run("--quiet", MERGED)[2] == f"tokfmt: error: {MERGED}: 1 error\n"


def test_unsafe():
    code, out, _ = run(UNSAFE, MERGED)
    assert code == 3
    assert "TF104" in out
    assert "TF107" in out


def test_json(tmp_path):
    for words in (
        [MERGED, GOOD, UNSAFE, "absent", "--deep"],
        [FAULTY, "--limit", "1"],
        [MERGED, "--fix", str(tmp_path / "x.pbin")],
        [GOOD, "--fix", str(tmp_path / "y.pbin")],
    ):
        code, out, _ = run("--json", *words)
        found = json.loads(out)
        validate(found)
        assert code == (0 if "--fix" in words else max(one["exit_code"] for one in found["datasets"]))
    found = json.loads(run("--json", FAULTY, "--limit", "1")[1])["datasets"][0]
    assert (found["codes"], len(found["findings"]), found["findings"][0]["offset"]) == ({"TF501": 2}, 1, 89)


def test_notes_of_reading(tmp_path):
    """What convert, show and stats note of a dataset without an error, check notes as well."""
    shards = tmp_path / "shards"
    shutil.copytree(FIXTURES / "llmc/shards", shards)
    shutil.copy(shards / "fineweb_train_000002.bin", shards / "x_train_000002.bin")
    for more in ([], ["--deep"]):
        code, out, err = run(str(shards), *more)
        assert (code, out, err.count("note: ")) == (0, "", 1)
        assert "is read after" in err
        assert "x_train_000002.bin" in err
        notes = json.loads(run(str(shards), "--json", *more)[1])["datasets"][0]["notes"]
        assert [f"note: {note}" for note in notes] == err.splitlines()[:1]
    assert "note: " not in run(str(shards), "--quiet")[2]
    two = run(str(shards), GOOD)[2]
    assert two.count(f"note: {shards}: ") == 1
    ends = str(FIXTURES / "datatrove/00000_unshuffled.ds")
    assert "note: separator 50256 inferred" in run(ends)[2]
    assert "inferred" not in run(ends, "--eos", "50256")[2]


def test_a_note_that_repeats_a_finding_is_left_out(tmp_path):
    np.concatenate([np.arange(300), [50256], np.arange(50)]).astype("<u2").tofile(tmp_path / "train.bin")
    code, out, err = run(str(tmp_path / "train.bin"))
    assert (code, out.count("ends without 50256"), err.count("ends without 50256")) == (0, 1, 0)
    assert err.count("note: 2-byte IDs") == 1


def test_against_a_corpus_as_its_messages_advise(tmp_path):
    """Fields beside the text do not matter; what a finding says to add can be added."""
    texts = ["one", "two", "three"]
    corpus, pack = tmp_path / "c.jsonl", tmp_path / "x.pbin"
    corpus.write_text("".join(json.dumps({"text": text, "id": text}) + "\n" for text in texts))
    words = ["--tokenizer", str(TOKENIZER), "--against", str(corpus)]
    convert([corpus], pack, tokenizer=str(TOKENIZER), allow_loss=["fields"])
    assert run(str(pack), *words)[0] == 0
    code, _, err = run(str(pack), "--deep", *words)
    assert code == 0
    assert "no findings" in err
    corpus.write_text(corpus.read_text().replace("\n", "\n[]\n", 1))
    code, out, _ = run(str(pack), *words)
    (advice,) = set(re.findall(r"--allow-loss [a-z-]+", out))
    assert (code, run(str(pack), *words, *advice.split())[0]) == (1, 0)
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in ("two", "three", "one")))
    code, out, _ = run(str(pack), *words)
    assert (code, out.count("TF935"), "--ignore-order" in out) == (1, 1, True)
    assert run(str(pack), *words, "--ignore-order")[0] == 0
    with pytest.raises(click.UsageError, match="--against CORPUS"):
        CliRunner().invoke(command, [str(pack), "--ignore-order"], standalone_mode=False, catch_exceptions=False)


def test_github(tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    code, out, _ = run(MERGED)
    assert code == 1
    line, annotation = out.splitlines()
    assert line.startswith("error   TF107 ")
    assert annotation.startswith(f"::error file={MERGED},title=TF107::index entry 5 at byte 1,362: ")
    assert "::error" not in run("--json", MERGED)[1]
    odd = tmp_path / "a,b:c%.jsonl"
    odd.write_bytes(b"{\n" * 3)
    out = run("--limit", "2", str(odd))[1]
    assert out.splitlines()[3].startswith(
        f"::error file={tmp_path}/a%2Cb%3Ac%25.jsonl,title=TF501::line 1 is not valid JSON"
    )
    assert out.splitlines()[-1].endswith("title=TF501::1 more of this code")
    assert "\n::" in out


def test_a_flood(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b"{\n" * 500)
    _, out, err = run(str(tmp_path / "x.jsonl"))
    assert len(out.splitlines()) == 101
    assert out.splitlines()[-1].endswith("400 more of this code")
    assert err.endswith("500 errors\n")


def test_names_cannot_write_to_the_terminal(tmp_path):
    path = tmp_path / "x\x1b[31m\n.jsonl"
    path.write_bytes(b"{\n")
    _, out, err = run(str(path))
    assert "\x1b" not in out + err
    assert len(out.splitlines()) == 1


def test_fix(tmp_path):
    code, _, err = run("--fix", str(tmp_path / "x.pbin"), MERGED)
    assert code == 0
    assert "repaired TF107: the index was written again from the lengths of the documents" in err
    assert run("--deep", str(tmp_path / "x.pbin"))[0] == 0
    code, _, err = run("--fix", str(tmp_path / "y.pbin"), GOOD)
    assert (code, "nothing needs a repair; nothing was written" in err) == (0, True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "PATH"),
        (["--fix", "out", GOOD, MERGED], "one dataset at a time"),
        (["--against", FAULTY, GOOD], "--tokenizer"),
    ],
)
def test_usage(words, why):
    code, _, err = tokfmt(*words)
    if words:
        assert code == 2
        assert why in err
    else:
        assert "PATH" in err + _


def test_examples_of_the_help_run(tmp_path, monkeypatch):
    """In the directory that `tokfmt demo` writes."""
    write_sample(tmp_path / "sample")
    monkeypatch.chdir(tmp_path / "sample")
    out = run("--help")[1]
    listed = out.split("Examples:")[1].split("Options:")[0].splitlines()
    examples = [line.strip().split()[2:] for line in listed if line.strip()]
    assert len(examples) == 4
    for words in examples:
        assert run(*words)[0] in (0, 1)


@pytest.mark.parametrize("code", ["TF107", "tf934"])
def test_explain(code):
    every = {one["code"]: one for one in json.loads(run("--explain", "all", "--json")[1])["codes"]}
    exit_code, out, _ = run("--explain", code)
    assert exit_code == 0
    meaning = every[code.upper()]
    assert out.startswith(f"{code.upper()} ({meaning['owner']}): {meaning['title']}\n\n")
    assert " ".join(out.split("\n\n")[1].split()) == meaning["text"]
    assert max(map(len, out.splitlines())) <= 100


def test_explain_all():
    _, out, _ = run("--explain", "all")
    found = json.loads(run("--explain", "all", "--json")[1])
    assert found["schema"] == "tokfmt.codes/1"
    assert [line[:5] for line in out.splitlines()] == [one["code"] for one in found["codes"]]


def test_a_manifest_that_is_gone_is_not_passed_over(tmp_path):
    convert(GOOD, tmp_path / "x.pbin", eos="none")
    manifest = tmp_path / "x.pbin.tokfmt.json"
    _, out, _ = run(str(tmp_path / "x.pbin"), "--json", "--deep")
    assert json.loads(out)["datasets"][0]["manifest"] == str(manifest)
    assert "no manifest" not in run(str(tmp_path / "x.pbin"))[2]
    manifest.unlink()
    assert json.loads(run(str(tmp_path / "x.pbin"), "--json", "--deep")[1])["datasets"][0]["manifest"] is None
    assert "(no manifest; --deep" in run(str(tmp_path / "x.pbin"))[2]
