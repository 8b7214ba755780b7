"""stdout that is full, closed or speaks ASCII only: for every command one line, the right code, and never a bug in tokfmt."""

import json
import os
import subprocess
import sys
from functools import cache

import forkserver
import pytest
from amount import FUZZ_ONLY, only
from paths import CORPUS, FIXTURES, TOKENIZER

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
MERGED = FIXTURES / "modalities" / "E_D_2byte_gpt2.pbin"
PRINTING = {
    "help": ["--help"],
    "version": ["--version"],
    "help of a command": ["convert", "--help"],
    "convert --dry-run": ["convert", PACK, "o.zarr", "--dry-run"],
    "stats": ["stats", PACK],
    "check": ["check", MERGED],
    "check --explain": ["check", "--explain", "all"],
    "diff": ["diff", PACK, MERGED],
    "show": ["show", PACK],
    "show text": ["show", CORPUS, ":"],
    "show --raw": ["show", PACK, "--raw"],
    "show --samples": ["show", FIXTURES / "hdf5" / "padded_eos", "0:2", "--samples"],
    "info": ["info", PACK],
    "schema": ["schema", "stats"],
    "formats": ["formats"],
    "formats NAME": ["formats", "hdf5"],
    "completion": ["completion", "bash"],
    "plugin": ["plugin", "new", "--help"],
    "browse": ["browse", PACK],
}
AS_JSON = {
    "convert --json": ["convert", CORPUS, "o.pbin", "--tokenizer", TOKENIZER, "--json", "--overwrite"],
    "stats --json": ["stats", PACK, "--tokenizer", TOKENIZER, "--json"],
    "stats --output-format json": ["stats", PACK, "--output-format", "json"],
    "check --json": ["check", MERGED, "--json"],
    "check --output-format=json": ["check", MERGED, "--output-format=json"],
    "diff --json": ["diff", PACK, MERGED, "--json"],
    "show --json": ["show", CORPUS, ":", "--tokenizer", TOKENIZER, "--json"],
    "show --raw --json": ["show", PACK, "--raw", "--json"],
    "show --samples --json": ["show", FIXTURES / "hdf5" / "padded_eos", "0:2", "--samples", "--json"],
    "index --json": ["index", CORPUS, "-o", "o.idx", "--json", "--overwrite"],
    "info --json": ["info", PACK, "--json"],
    "schema --json": ["schema", "--json"],
    "formats --json": ["formats", "--json"],
    "an error": ["stats", "nowhere", "--json"],
    "an error of usage": ["stats", PACK, "--output-format", "json", "--from", "nope"],
}
ALL = PRINTING | AS_JSON
FEW = ("stats", "show text", "browse", "convert --json", "check --json", "an error")
"""All commands print by one function: `make fuzz` tries the others."""
FULL = "tokfmt: error: standard output: No space left on device. What was printed is not complete"


def run(words, cwd, stdout, **environment):
    words = [sys.executable, "-m", "tokfmt", *map(str, words)]
    how = {"stdout": stdout, "stderr": subprocess.PIPE, "env": {**os.environ, **environment}}
    done = forkserver.run(words, cwd=cwd, **how)
    said = done.stderr.decode()
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert "bug in tokfmt" not in said
    return done.returncode, said, done.stdout


@cache
def reference(name, home):
    return run(ALL[name], home, subprocess.PIPE, PYTHONIOENCODING="utf-8")


def errors(said):
    return [line for line in said.splitlines() if line.startswith("tokfmt: error")]


@pytest.mark.parametrize("name", only(FEW, ALL))
def test_full(name, tmp_path):
    with open("/dev/full", "wb") as full:
        code, said, _ = run(ALL[name], tmp_path, full)
    if name.startswith("an error"):  # what went wrong first is said
        assert (code, len(errors(said))) == (2 if "usage" in name else 3, 1), said
        return
    assert code == 4, said
    assert errors(said)[-1] == FULL
    assert [line for line in errors(said)[:-1] if not line.endswith(": 1 error")] == []


@pytest.mark.parametrize("name", only(FEW, ALL))
def test_closed(name, tmp_path):
    """As `| head`: quietly, and as other tools of a pipeline do."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        code, said, _ = run(ALL[name], tmp_path, closed)
    if name.startswith("an error"):
        assert (code, len(errors(said))) == (2 if "usage" in name else 3, 1), said
        return
    verdict = ALL[name][0] in ("check", "stats", "diff")  # which nobody can know without the rest
    assert code == (141 if verdict else 0), said
    assert [line for line in errors(said) if not line.endswith(": 1 error")] == []


C_LOCALE = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": ""}


@pytest.mark.parametrize(
    ("name", "locale"),
    [
        pytest.param(name, locale, marks=() if name in FEW else FUZZ_ONLY)
        for name in ALL
        for locale in ({"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}, C_LOCALE)
        if locale != C_LOCALE or name in {*FEW, "stats --json"}
    ],
    ids=lambda value: value if isinstance(value, str) else value["PYTHONIOENCODING"] or "C",
)
def test_other_encodings(name, locale, tmp_path, tmp_path_factory):
    """The same; a character that an encoding lacks is spelled out, and JSON is what it was."""
    expected, _, out = reference(name, tmp_path_factory.getbasetemp())
    code, said, other = run(ALL[name], tmp_path, subprocess.PIPE, **locale)
    assert code == expected, said
    encoding = "latin-1" if locale["PYTHONIOENCODING"] == "latin-1" else "utf-8"
    assert other.decode(encoding)
    if name in AS_JSON:
        assert without_times(json.loads(other.decode(encoding))) == without_times(json.loads(out))


def without_times(document):
    return {key: value for key, value in document.items() if "time" not in key and key != "seconds"}


CLOSED = "tokfmt: error: standard output: is closed. What was printed is not complete"
QUIET = {"convert": ["convert", PACK, "silent.zarr"]}


@pytest.mark.parametrize(
    "name",
    only(
        ["stats", "convert --json", "convert"],
        ["show", "stats", "check", "stats --json", "convert --json", "convert -", "convert"],
    ),
)
def test_no_stdout_at_all(tmp_path, name):
    """What cannot be printed is lost, as on a full device; a command that prints nothing does its work."""
    words = {**ALL, **QUIET, "convert -": ["convert", PACK, "-", "--eos", "50256"]}[name]
    words = [sys.executable, "-m", "tokfmt", *map(str, words)]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *words], cwd=tmp_path, timeout=120, stderr=subprocess.PIPE, text=True
    )
    assert "Traceback" not in done.stderr
    if name in QUIET:
        assert (done.returncode, (tmp_path / "silent.zarr").is_dir()) == (0, True), done.stderr
        return
    assert done.returncode == 4, done.stderr
    assert errors(done.stderr)[-1] == CLOSED
    if name == "convert --json":
        assert (tmp_path / "o.pbin").read_bytes()[:1] != b"{"


def test_no_stream_at_all(tmp_path):
    words = [sys.executable, "-m", "tokfmt", *map(str, ALL["convert --json"])]
    done = subprocess.run(["sh", "-c", 'exec "$@" >&- 2>&-', "sh", *words], cwd=tmp_path, timeout=120)
    assert done.returncode == 4
    assert (tmp_path / "o.pbin").read_bytes()[:1] != b"{"


def test_exit_of_a_library_is_an_error(tmp_path):
    script = (
        "import sys\nfrom tokfmt import registry\n"
        "registry.list_formats = registry.names = registry.get = lambda *_: sys.exit(0)\n"
        "from tokfmt.cli.main import run\nrun(['formats'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 70
    assert done.stderr == "tokfmt: error: unexpected SystemExit: 0. This is a bug in tokfmt; --debug shows where\n"
