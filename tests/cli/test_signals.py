"""A signal ends every command at any moment: within bounded time, with 128 + n, one line at most, and nothing left."""

import contextlib
import os
import pty
import random
import signal
import subprocess
import sys
import time
from functools import cache

import forkserver
import pytest
from amount import FUZZ_ONLY, NIGHTLY, only
from paths import CORPUS, FIXTURES, TOKENIZER
from processes import running

pytestmark = pytest.mark.slow

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
BOUND = 60  # seconds; a hang is for ever, a busy machine is slow
COMMANDS = {
    "convert": ["convert", CORPUS, "out.pbin", "--tokenizer", TOKENIZER],
    "convert in processes": ["convert", CORPUS, "out.pbin", "--tokenizer", TOKENIZER, "--executor", "processes", "-j2"],
    "stats": ["stats", PACK],
    "check": ["check", "--deep", PACK],
    "diff": ["diff", PACK, CORPUS, "--tokenizer", TOKENIZER],
    "overlap": ["overlap", CORPUS, "--with", CORPUS],
    "info": ["info", CORPUS, "--tokenizer", TOKENIZER],
    "show": ["show", CORPUS, ":", "--tokenizer", TOKENIZER],
    "index": ["index", CORPUS, "-o", "out.idx"],
    "formats": ["formats"],
    "completion": ["completion", "bash"],
}
OUTPUTS = {key: [] for key in COMMANDS} | {"index": ["out.idx"]}
OUTPUTS |= {key: ["out.pbin", "out.pbin.tokfmt.json"] for key in ("convert", "convert in processes")}
INTERPRETERS = list(COMMANDS) if NIGHTLY else ["formats"]
"""Commands of an interpreter that is started for them: a signal may come while it imports. The others are forked."""
NOTES = dict.fromkeys(COMMANDS, "note: ") | {"diff": ("note: ", "A: ", "B: "), "show": ("note: ", str(CORPUS))}
NOTES["check"] = ("note: ", f"{PACK}: modalities, ")
"""How lines on what a command does, or has done before the signal came, begin."""


def start(name, cwd):
    words = [sys.executable, "-m", "tokfmt", *map(str, COMMANDS[name])]
    popen = subprocess.Popen if name in INTERPRETERS else forkserver.Popen
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return popen(words, cwd=cwd, **streams, text=True, start_new_session=True)


@cache
def undisturbed(name, home):
    """Seconds that a command takes on this machine, now, and its exit code."""
    began = time.monotonic()
    with running(start(name, home), group=True) as process:
        process.communicate(timeout=BOUND)
    return time.monotonic() - began, process.returncode


def ended_by(process, number, whole_group):
    """As a terminal does it, or `kill`."""
    with contextlib.suppress(ProcessLookupError):
        (os.killpg if whole_group else os.kill)(process.pid, number)
    _, said = process.communicate(timeout=BOUND)
    return process.returncode, said


def assert_ended(name, number, code, said, home, whole):
    lines = [line for line in said.splitlines() if line.startswith("tokfmt: error") or not line.startswith(NOTES[name])]
    if lines[1:]:  # the line on what was converted is out, and the signal came before the end of the process
        lines = [
            line for line in lines if not line.startswith(tuple(f"{output} (" for output in OUTPUTS.get(name, ())))
        ]
    left = sorted(path.name for path in home.iterdir())
    if number == signal.SIGINT and said.endswith("\nKeyboardInterrupt\n"):  # Python's own: tokfmt did not listen yet
        assert left == []
        return
    assert "Traceback" not in said, said
    if code == 128 + number:
        assert len(lines) == 1, said
        is_whole = " is complete" in lines[0]
        ends = f"{OUTPUTS[name][0]} is complete" if is_whole else "nothing was left behind"
        assert lines == [f"tokfmt: error: interrupted by {number.name}; {ends}"]
        assert left == (OUTPUTS[name] if is_whole else [])
        return
    # before tokfmt listened, or after it had done its work
    assert code in (whole, -number), (code, said)
    assert left in ([], OUTPUTS[name]), left
    assert len(lines) <= 1, said


MOMENTS = 24 if NIGHTLY else 3
"""Of each command, one for each signal in turn."""
FEW = {"convert": 3, "convert in processes": 1, "formats": 2, "show": 3}
"""Commands of `make test` with their moments; all end by one handler."""


@pytest.mark.parametrize("name", only(FEW, COMMANDS))
def test_at_any_moment(name, tmp_path_factory):
    """Moments are spread over a run of the command as long as it takes here."""
    seconds, whole = undisturbed(name, tmp_path_factory.mktemp("whole"))
    draw = random.Random(f"{name}{time.time_ns()}" if NIGHTLY else name)
    for k in range(MOMENTS if NIGHTLY else FEW[name]):
        home = tmp_path_factory.mktemp("home")
        number = ENDING[k % 3]
        with running(start(name, home), group=True) as process:
            time.sleep((k + draw.random()) / MOMENTS * seconds)
            code, said = ended_by(process, number, whole_group=number != signal.SIGTERM)
        assert_ended(name, number, code, said, home, whole)


LATE = """
import signal
from tokfmt.cli import signals
from tokfmt.cli.main import run

signals.leave = lambda _: signal.raise_signal({number})
run(["convert", {source!r}, "out.pbin"])
"""


def signaled_late(number, cwd, *before):
    """A conversion that gets a signal between its end and the end of the process."""
    code = LATE.format(number=int(number), source=str(FIXTURES / "modalities" / "D_2byte_gpt2.pbin"))
    words = [*before, sys.executable, "-c", code]
    run = subprocess.run if before else forkserver.run
    return run(words, capture_output=True, text=True, cwd=cwd, timeout=BOUND, check=False)


def test_signal_after_publication_reports_the_complete_destination(tmp_path):
    done = signaled_late(signal.SIGTERM, tmp_path)
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stderr.splitlines()[-1] == "tokfmt: error: interrupted by SIGTERM; out.pbin is complete"
    assert (tmp_path / "out.pbin").exists()


STUCK = """
import os, sys, time
from hashlib import pbkdf2_hmac
from tokfmt.formats.jsonl import index

def stuck(*_, **__):
    if sys.argv[1] == "library":  # which lets other threads run, but no handler of a signal
        os.write(1, b"now\\n")  # a progress bar takes what is printed
        pbkdf2_hmac("sha256", b"x", b"y", 1 << 30)
    try:
        os.write(1, b"now\\n")  # a progress bar takes what is printed
        time.sleep(1000)
    finally:
        time.sleep(1000)

index.write_index = stuck
from tokfmt.cli.main import run
run(["index", "x.jsonl"])
"""


@FUZZ_ONLY
@pytest.mark.parametrize("where", ["library", "cleaning"])
@pytest.mark.parametrize("number", only([signal.SIGINT], ENDING))
def test_second_signal_ends_a_process_that_does_not_respond(where, number, tmp_path):
    """The process is inside a library in C or Rust, or its cleanup hangs."""
    words = [sys.executable, "-c", STUCK, where]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with running(subprocess.Popen(words, **streams, text=True, cwd=tmp_path)) as process:
        assert process.stdout.readline() == "now\n"
        for _ in range(2):
            assert process.poll() is None
            time.sleep(1.5)
            process.send_signal(number)
        _, said = process.communicate(timeout=BOUND)
    assert process.returncode == 128 + number
    assert said == ""


@FUZZ_ONLY
def test_a_terminal_hears_that_it_was_heard(tmp_path):
    """Cleaning up takes longer than a moment: whoever pressed Ctrl-C is told."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-c", STUCK, "cleaning"]
    with running(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=theirs, text=True, cwd=tmp_path)) as process:
        os.close(theirs)
        process.stdout.readline()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        seen = b""
        while b"interrupting" not in seen:  # a progress bar is there first
            seen += os.read(ours, 1000)
    os.close(ours)


def test_nohup_stays(tmp_path):
    """SIGHUP that was ignored when tokfmt was started is ignored."""
    done = signaled_late(signal.SIGHUP, tmp_path, "nohup")
    assert done.returncode == 0 and "interrupted" not in done.stderr
    assert (tmp_path / "out.pbin").exists()


FALLS = """
import os, signal, sys, time
from tokfmt.formats.jsonl import index

def falls(*_, **__):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1000)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)  # `uv run` passes it on again
        time.sleep(0.1)
        os.close(-1)

index.write_index = falls
from tokfmt.cli.main import run
run(["index", "x.jsonl"])
"""


def test_error_while_a_signal_is_handled_is_not_reported(tmp_path):
    """The exit code is that of the signal, whatever the cleanup raises, and the same signal at once is not a second one."""
    done = forkserver.run([sys.executable, "-c", FALLS], capture_output=True, text=True, cwd=tmp_path, timeout=BOUND)
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stderr == "tokfmt: error: interrupted by SIGTERM; nothing was left behind\n"
