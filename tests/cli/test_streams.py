"""stdout that is full or closed, in any locale: one line, the right code, and never a bug in tokfmt."""

import json
import os
import subprocess
import sys

import forkserver
import pytest
from amount import FUZZ_ONLY, every
from paths import CORPUS, FIXTURES, TOKENIZER

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
MERGED = FIXTURES / "modalities" / "E_D_2byte_gpt2.pbin"
COMMANDS = {
    "show": ["show", CORPUS, ":"],
    "stats --json": ["stats", PACK, "--tokenizer", TOKENIZER, "--json"],
    "convert --json": ["convert", CORPUS, "o.pbin", "--tokenizer", TOKENIZER, "--json", "--overwrite"],
}
"""All commands print by the same streams."""
ERRORS = {
    "an error": (["stats", "nowhere", "--json"], 3),
    "an error of usage": (["stats", PACK, "--json", "--from", "nope"], 2),
}
FULL = "tokfmt: error: standard output: No space left on device. What was printed is not complete"


def run(words, cwd, stdout, **environment):
    words = [sys.executable, "-m", "tokfmt", *map(str, words)]
    how = {"stdout": stdout, "stderr": subprocess.PIPE, "env": {**os.environ, **environment}}
    done = forkserver.run(words, cwd=cwd, **how)
    said = done.stderr.decode()
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert "This is a bug" not in said
    return done.returncode, said, done.stdout


def errors(said):
    return [line for line in said.splitlines() if line.startswith("tokfmt: error")]


@pytest.mark.parametrize("name", COMMANDS)
def test_full(name, tmp_path):
    with open("/dev/full", "wb") as full:
        code, said, _ = run(COMMANDS[name], tmp_path, full)
    assert (code, errors(said)) == (4, [FULL]), said


def test_verdict_and_full(tmp_path):
    """A command with findings says so, and that what it printed of them is not complete."""
    with open("/dev/full", "wb") as full:
        code, said, _ = run(["check", MERGED], tmp_path, full)
    assert (code, errors(said)[-1]) == (4, FULL), said
    assert [line for line in errors(said)[:-1] if not line.endswith(": 1 error")] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_closed(name, tmp_path):
    """As `| head`: quietly, and as other tools of a pipeline do."""
    with closed_pipe() as closed:
        code, said, _ = run(COMMANDS[name], tmp_path, closed)
    verdict = COMMANDS[name][0] in ("check", "stats", "diff", "overlap")  # which nobody can know without the rest
    assert (code, errors(said)) == (141 if verdict else 0, []), said


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("stdout", ["full", "closed"])
def test_what_went_wrong_first_is_said(name, stdout, tmp_path):
    words, expected = ERRORS[name]
    with open("/dev/full", "wb") if stdout == "full" else closed_pipe() as out:
        code, said, _ = run(words, tmp_path, out)
    assert (code, len(errors(said))) == (expected, 1), said


def closed_pipe():
    """A pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "wb")


@pytest.mark.parametrize(
    "locale",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": ""},
    ],
    ids=lambda locale: locale["PYTHONIOENCODING"] or "C",
)
def test_text_is_utf_8_in_every_locale(locale, tmp_path):
    (tmp_path / "c.jsonl").write_text('{"text": "a\u00b7\\n\u4e16"}\n', encoding="utf-8")
    code, said, printed = run(["show", "c.jsonl", "--text"], tmp_path, subprocess.PIPE, **locale)
    assert (code, printed.decode()) == (0, "a\u00b7\n\u4e16\n"), said
    if "LC_ALL" in locale:  # which takes an interpreter of its own
        return
    code, said, printed = run(["stats", "c.jsonl", "--json"], tmp_path, subprocess.PIPE, **locale)
    assert (code, json.loads(printed.decode("ascii"))["path"]) == (0, "c.jsonl"), said


CLOSED = "tokfmt: error: standard output: is closed. What was printed is not complete"


@pytest.mark.parametrize(
    ("name", "closing"),
    [("convert --json", "<&- >&-"), every(("convert --json", ">&-")), every(("stats --json", ">&-"))],
)
def test_no_stdout_at_all(tmp_path, name, closing):
    """What cannot be printed is lost, as on a full device; none of it is written into a file."""
    done = without(closing, COMMANDS[name], tmp_path)
    assert (done.returncode, errors(done.stderr)[-1]) == (4, CLOSED), done.stderr
    if name == "convert --json":
        assert (tmp_path / "o.pbin").read_bytes()[:1] != b"{"


def test_a_command_that_prints_nothing_needs_no_stdout(tmp_path):
    done = without(">&-", ["convert", PACK, "silent.zarr"], tmp_path)
    assert (done.returncode, (tmp_path / "silent.zarr").is_dir()) == (0, True), done.stderr


def without(closing, words, cwd):
    """Run a command with closed descriptors."""
    words = [sys.executable, "-m", "tokfmt", *map(str, words)]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closing}', "sh", *words], cwd=cwd, timeout=120, stderr=subprocess.PIPE, text=True
    )
    assert "Traceback" not in done.stderr
    return done


@FUZZ_ONLY
def test_no_stream_at_all(tmp_path):
    words = [sys.executable, "-m", "tokfmt", *map(str, COMMANDS["convert --json"])]
    done = subprocess.run(["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *words], cwd=tmp_path, timeout=120)
    assert done.returncode == 4
    assert (tmp_path / "o.pbin").read_bytes()[:1] != b"{"


def test_exit_of_a_library_is_an_error(tmp_path):
    script = (
        "import sys\nfrom tokfmt import registry\n"
        "registry.list_formats = registry.names = registry.get = lambda *_: sys.exit(0)\n"
        "from tokfmt.cli.main import run\nrun(['formats'])"
    )
    done = forkserver.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 70
    assert "unexpected SystemExit: 0" in done.stderr and "--debug" in done.stderr
