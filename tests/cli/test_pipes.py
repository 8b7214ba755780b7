"""`-` and FIFOs: what goes in and out by pipes is what goes in and out by files."""

import json
import os
import subprocess
import sys
import threading

import forkserver
import pytest
from paths import CORPUS, FIXTURES, TOKENIZER

import tokfmt

PACK = FIXTURES / "modalities/D_2byte_gpt2.pbin"
TEXT = ["--tokenizer", str(TOKENIZER), "--allow-loss", "empty-sequences"]


@pytest.fixture
def run(tmp_path):
    """Runs the command in a directory, with its own $TMPDIR, which is empty afterwards."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def runs(*words, check=0, **more):
        done = forkserver.run(
            [sys.executable, "-m", "tokfmt", *map(str, words)], cwd=tmp_path, capture_output=True, timeout=60,
            env={**os.environ, "TMPDIR": str(scratch)}, **more,
        )  # fmt: skip
        assert done.returncode == check, done.stderr.decode()
        assert os.listdir(scratch) == []
        done.said = done.stderr.decode()
        return done

    return runs


@pytest.mark.parametrize("way", ["-", "/dev/stdin", "fifo"])
def test_text_from_a_pipe(run, tmp_path, way):
    tokfmt.convert(CORPUS, tmp_path / "file.pbin", tokenizer=str(TOKENIZER), allow_loss=["empty-sequences"])
    if way == "fifo":
        os.mkfifo(tmp_path / "fifo")
        writer = threading.Thread(target=lambda: (tmp_path / "fifo").write_bytes(CORPUS.read_bytes()))
        writer.start()
        done = run("convert", "fifo", "pipe.pbin", *TEXT, "--verify", stdin=subprocess.DEVNULL)
        writer.join()
    else:
        done = run("convert", way, "pipe.pbin", *TEXT, "--verify", input=CORPUS.read_bytes())
    assert f"note: {way} is copied to {tmp_path}/scratch/" in done.said
    assert (tmp_path / "pipe.pbin").read_bytes() == (tmp_path / "file.pbin").read_bytes()
    of_pipe, of_file = (json.loads((tmp_path / f"{name}.pbin.tokfmt.json").read_bytes()) for name in ("pipe", "file"))
    assert of_pipe["sources"] == [{**of_file["sources"][0], "path": way}]
    assert "tokfmt-scratch" not in json.dumps(of_pipe)


def test_standard_input_that_is_closed(tmp_path):
    words = [sys.executable, "-m", "tokfmt", "convert", "-", "o.jsonl"]
    done = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", *words], cwd=tmp_path, capture_output=True, timeout=60)
    assert done.stderr.endswith(b"error: -: standard input is closed. Pipe something into it, or name a file\n")
    assert done.returncode == 2


def test_a_path_that_begins_with_a_dash(run, tmp_path):
    (tmp_path / "-dash.jsonl").write_bytes(CORPUS.read_bytes())
    assert run("stats", "-dash.jsonl", check=2).said.endswith("Write ./-dash.jsonl for the file of that name\n")
    for words in (["./-dash.jsonl"], ["--", "-dash.jsonl"]):
        assert b"-dash.jsonl\n" in run("stats", *words).stdout


@pytest.mark.parametrize(("to", "name"), [("jsonl", "x.jsonl"), ("stage1", "x")])
def test_to_stdout(run, tmp_path, to, name):
    words = ["--to", to, "--eos", "50256", "--allow-loss", "empty-sequences", "--allow-loss", "embedded-separators"]
    run("convert", PACK, name, *words)
    done = run("convert", PACK, "-", *words, "--verify")
    files = sorted((tmp_path / name).iterdir()) if to == "stage1" else [tmp_path / name]
    assert done.stdout == b"".join(file.read_bytes() for file in files)
    assert f"- ({to}): " in done.said
    assert sorted(os.listdir(tmp_path)) == ["scratch", name, f"{name}.tokfmt.json"]


def test_through_two_pipes(run, tmp_path):
    """jsonl is what stdout gets by default, and what stdin brings."""
    lines = run("convert", PACK, "-", "-q").stdout
    assert run("convert", "-", "-", "-q", input=lines).stdout == lines
    assert run("convert", "-", "x.jsonl", "-q", input=b"").said == ""
    assert run("convert", PACK, "-", "--dry-run").stdout.endswith(b"dry run: nothing was written\n")


def test_reader_of_stdout_may_close_it(tmp_path):
    words = [sys.executable, "-m", "tokfmt", "convert", PACK, "-", "-q"]
    with forkserver.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [(["convert", PACK, "-", "--to", "hdf5"], 2, "-: hdf5 cannot be written to a pipe (expected jsonl or stage1)"),
     (["convert", PACK, "-", "--to", "modalities"], 2, "-: modalities cannot be written to a pipe"),
     (["convert", PACK, "-", "--json"], 2, "would both write to stdout"),
     (["convert", PACK, "-", "--resume"], 2, "-: --resume needs a place to write to"),
     (["convert", PACK, "-", "--task", "0/2"], 2, "-: --task needs a place to write to"),
     (["convert", "-", "x.pbin", "--resume"], 2, "-: a pipe cannot be read again"),
     (["convert", "-", "-", "x.pbin"], 2, "-: standard input can be read once only"),
     (["convert", "-", "x.pbin", *TEXT], 3, "-: line 1 "),
     (["index", CORPUS, "-o", "-"], 4, "-: is standard output, which cannot hold this output"),
     (["stats", PACK, "--html", "-"], 4, "-: is standard output, which cannot hold this output"),
     (["check", FIXTURES / "modalities/E_D_2byte_gpt2.pbin", "--fix", "-"], 4, "-: is standard output"),
     (["convert", PACK, "/dev/stdout", "--to", "jsonl", "--overwrite"], 4, "Standard output is -"),
     (["stats", "-"], 3, "Only tokfmt convert reads pipes"),
     (["stats", "/dev/stdin"], 3, "Only tokfmt convert reads pipes")],
)  # fmt: skip
def test_refusals(run, tmp_path, words, code, says):
    done = run(*words, check=code, input=b'{"text": 5}\n')
    assert says in done.said, done.said
    assert "tokfmt-scratch" not in done.said.splitlines()[-1]
    assert os.listdir(tmp_path) == ["scratch"]


def test_a_pack_in_a_pipe(run):
    done = run("convert", "-", "x.jsonl", input=PACK.read_bytes(), check=2)
    assert "-: is modalities, and only jsonl is read from a pipe" in done.said
