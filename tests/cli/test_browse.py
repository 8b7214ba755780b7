"""`tokfmt browse` from outside: previews, errors, pictures, a real terminal."""

import contextlib
import gzip
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import forkserver
import pytest
from amount import FUZZ_ONLY, every, first
from browsers import program
from paths import FIXTURES, ROOT
from processes import running

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"


def run(*args, env=None, **kwargs):
    words = [sys.executable, "-m", "tokfmt", "browse", *map(str, args)]
    return forkserver.run(words, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **(env or {})}, **kwargs)


def test_without_a_terminal_it_prints_a_preview():
    result = run(PACK)
    assert result.returncode == 0
    assert result.stdout.startswith("#0  17 tokens\n464 2068")
    assert "stdout is not a terminal" in result.stderr


def test_a_dumb_terminal_gets_a_preview():
    """One that moves no cursor (Emacs' shell) would show the escapes of a screen as text."""
    master, slave = pty.openpty()
    try:
        words = [sys.executable, "-m", "tokfmt", "browse", str(PACK)]
        streams = {"stdin": slave, "stdout": slave, "stderr": subprocess.PIPE}
        result = forkserver.run(words, **streams, env={**os.environ, "TERM": "dumb"}, cwd=ROOT, timeout=60, check=True)
        assert b"TERM=dumb" in result.stderr
        assert os.read(master, 1 << 16).startswith(b"#0  17 tokens\r\n464 2068")  # no colours either
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize("closed", ["<&-", every("2>&-")])
def test_streams_that_are_closed_are_no_terminal(closed):
    master, slave = pty.openpty()
    words = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "tokfmt", "browse", str(PACK)]
    environment = {**os.environ, "TERM": "xterm"}
    with running(
        subprocess.Popen(words, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=ROOT)
    ) as process:
        os.close(slave)
        shown = b""
        with contextlib.suppress(OSError):
            while (piece := os.read(master, 1 << 16)) and b"\x1b[?1049h" not in shown:
                shown += piece
        process.terminate()
        process.wait(60)
    os.close(master)
    assert b"464 2068" in shown
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("stderr", "environment", "says"),
    [
        (subprocess.PIPE, {}, "note: stderr is not a terminal"),
        (None, {"PYTHONIOENCODING": "latin1"}, "╭"),
        every((None, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, "╭")),
    ],
)
def test_screen_on_stderr_is_visible_or_not_drawn(stderr, environment, says):
    master, slave = pty.openpty()
    streams = {"stdin": slave, "stdout": slave, "stderr": stderr or slave}
    words = [sys.executable, "-m", "tokfmt", "browse", str(PACK)]
    environment = {**os.environ, "TERM": "xterm", **environment}
    with running(forkserver.Popen(words, **streams, env=environment, cwd=ROOT)) as process:
        os.close(slave)
        shown = process.stderr.read() if stderr else b""
        with contextlib.suppress(OSError):  # when its other side is closed
            while piece := os.read(master, 1 << 16):
                shown += piece
                if b"begins with" in shown:
                    process.terminate()
        process.wait(60)
    os.close(master)
    assert says in shown.decode()
    assert b"\\u" not in shown
    if says.startswith("note: "):
        assert process.returncode == 0
        assert b"464 2068" in shown


def test_it_is_suspended_and_drawn_again(tmp_path):
    """Ctrl+Z, `fg`: the process stops, and the whole screen is there when it goes on."""
    master, slave = pty.openpty()
    words = [sys.executable, "-m", "tokfmt", "browse", str(PACK)]
    environment = {**os.environ, "TERM": "xterm", "XDG_STATE_HOME": str(tmp_path)}
    streams = {"stdin": slave, "stdout": slave, "stderr": slave}

    def until(text):
        shown = b""
        while text not in shown:
            assert select.select([master], [], [], 60)[0], shown[-500:]
            shown += os.read(master, 1 << 16)

    with running(forkserver.Popen(words, **streams, env=environment, cwd=ROOT)) as process:
        try:
            until(b"begins with")
            os.write(master, b"\x1a")
            until(b"\x1b[?1049l")
            state = Path(f"/proc/{process.pid}/stat")
            end = time.monotonic() + 60
            while state.read_text().rpartition(")")[2].split()[0] != "T":
                assert time.monotonic() < end
                time.sleep(0.02)
            process.send_signal(signal.SIGCONT)
            until(b"begins with")
            os.write(master, b"q")
            until(b"\x1b[?1049l")
            assert process.wait(60) == 0
        finally:
            os.close(slave)
            os.close(master)


def test_it_is_a_page_of_textual_serve_and_ends_with_it(tmp_path):
    driver = {"TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver", "XDG_STATE_HOME": str(tmp_path)}
    words = [sys.executable, "-m", "tokfmt", "browse", str(PACK)]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with running(subprocess.Popen(words, **streams, env={**os.environ, **driver}, cwd=ROOT)) as process:
        shown = b""
        while b"begins with" not in shown:
            shown += os.read(process.stdout.fileno(), 1 << 16)
        process.stdin.close()
        assert process.wait(60) == 128 + signal.SIGHUP


def test_a_preview_of_what_cannot_be_read_lists_its_parts(tmp_path):
    """Only if the file is the reason: a wrong option and a missing file are only errors."""
    cut = tmp_path / "cut.pbin"
    cut.write_bytes(PACK.read_bytes()[:1500])
    for words, code, parts in (
        ((cut,), 3, True),
        ((PACK, "--at", "9999"), 2, False),
        ((cut, "--at", "9999"), 3, True),
        ((tmp_path / "absent.pbin",), 3, False),
    ):
        result = run(*words)
        assert result.returncode == code, result.stderr
        assert result.stderr.splitlines()[-1].startswith("tokfmt: error: ")
        assert ("offset  length  bytes" in result.stdout) == parts
        assert bool(result.stdout) == parts


def test_a_preview_of_datasets_below_each_other(tmp_path):
    """The advice for the directory, followed, shows it."""
    for home in (tmp_path, tmp_path / "below"):
        home.mkdir(exist_ok=True)
        (home / "x.jsonl").write_text('{"text": "a"}\n')
    refused = run(tmp_path)
    assert refused.returncode == 3
    assert "--recursive reads the directories below as well" in refused.stderr.splitlines()[-1]
    result = run(tmp_path, "--recursive")
    assert result.returncode == 0, result.stderr
    assert f"for {tmp_path}, the first of 2 datasets" in result.stderr
    assert result.stdout.startswith("#0  1 character")


def test_missing_path_is_an_error_before_the_app_starts(tmp_path):
    out = tmp_path / "x.svg"
    result = run(tmp_path / "absent.pbin", "--screenshot", out)
    assert result.returncode == 3, result.stderr
    assert result.stderr.startswith("tokfmt: error: ")
    assert result.stderr.count("\n") == 1
    assert not out.exists()


def broken(place):
    """A dataset of each kind of which a part is missing."""
    hdf5, store, text = (place / name for name in ("cut.h5", "brk.zarr", "trunc.jsonl.gz"))
    hdf5.write_bytes(next((FIXTURES / "hdf5" / "padded_eos").glob("*.h5")).read_bytes()[:3000])
    shutil.copytree(FIXTURES / "flat-tokens" / "multi_chunk.zarr", store)
    for split in ("train", "validation"):
        (store / split / "encoded_tokens" / ".zarray").write_text("{")
    text.write_bytes(gzip.compress((FIXTURES / "text" / "corpus.jsonl").read_bytes())[:500])
    return [hdf5, store, text]


@FUZZ_ONLY
@pytest.mark.slow
def test_unreadable_dataset_opens_alone_and_first_of_several(tmp_path):
    out = tmp_path / "x.svg"
    for number, path in enumerate(broken(tmp_path)):
        others = [PACK] * (number % 2)
        result = run(path, *others, "--screenshot", out, "--keys", "2", "--size", "160x24")
        assert result.returncode == 3, result.stderr  # nothing that could be read was opened
        assert "cannot be read" in out.read_text().replace("&#160;", " ")
        out.unlink()
        piped = run(path)
        assert piped.returncode == 3
        assert piped.stderr.splitlines()[-1].startswith("tokfmt: error: ")
        assert "offset  length  bytes" in piped.stdout


def test_a_picture_of_a_state(tmp_path):
    out = tmp_path / "x.svg"
    result = run(PACK, "--screenshot", out, "--keys", "down down", "--size", "80x24", "--theme", "textual-light")
    assert result.returncode == 0, result.stderr
    drawn = out.read_text().replace("&#160;", " ")
    assert "document 2 · 1 token" in drawn
    assert "15496" in drawn


def test_screenshot_refuses_invalid_requests(tmp_path):
    for words, said in (
        (["--screenshot", tmp_path / "x.png"], "pictures are SVG. Name the file OUT.svg"),
        (["--screenshot", tmp_path / "x.svg", "--keys", "down nosuchkey"], "there is no key 'nosuchkey'"),
    ):
        result = run(PACK, *words)
        assert result.returncode == 2
        assert said in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_picture_fetches_nothing(tmp_path):
    out = tmp_path / "x.svg"
    assert run(PACK, "--screenshot", out).returncode == 0
    drawn = out.read_text()
    assert "url(http" not in drawn
    assert "@font-face" not in drawn
    assert "</style>" in drawn


def test_a_picture_is_whole_or_not_there(tmp_path):
    out = tmp_path / "x.svg"
    out.write_text("<svg>older</svg>")
    limited = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    limited += "resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)); from tokfmt.cli.main import run\n"
    limited += f"run(['browse', {str(PACK)!r}, '--screenshot', {str(out)!r}])"
    result = forkserver.run([sys.executable, "-c", limited], capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 4
    assert result.stderr.count("\n") == 1
    assert "cannot be written" in result.stderr
    assert out.read_text() == "<svg>older</svg>"
    assert [one.name for one in tmp_path.iterdir()] == ["x.svg"]
    result = run(PACK, "--screenshot", out)
    assert result.returncode == 0, result.stderr
    assert out.read_text().rstrip().endswith("</svg>")
    assert [one.name for one in tmp_path.iterdir()] == ["x.svg"]
    result = run(PACK, "--screenshot", tmp_path / "nowhere" / "x.svg")
    assert result.returncode == 4
    assert result.stderr.count("\n") == 1


def test_missing_tokenizer_path_is_an_error_before_the_app_starts(tmp_path):
    out = tmp_path / "x.svg"
    for name in (tmp_path / "none", "tokenizer.json", "./fixtures/tokenizr"):
        result = run(PACK, "--tokenizer", name, "--screenshot", out)
        assert result.returncode == 2
        assert result.stderr.startswith(
            f"tokfmt: error: tokenizer {name}: no such file or directory, and not a name that the hub allows"
        )
    assert "tokenizer?" in result.stderr  # what was meant
    assert not out.exists()


def test_unknown_theme_is_refused():
    result = run(PACK, "--theme", "nonsense", "--screenshot", "x.svg")
    assert result.returncode == 2
    assert "nord" in result.stderr


@FUZZ_ONLY
def test_in_a_terminal(tmp_path):
    tmux = [program("tmux"), "-S", str(tmp_path / "socket"), "-f", "/dev/null"]
    state = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "xterm-256color"}
    command = f"{sys.executable} -m tokfmt browse {PACK}; echo left with $?; sleep 60"

    def tell(*words):
        return subprocess.run([*tmux, *words], capture_output=True, text=True, env=state, check=True, cwd=ROOT).stdout

    def await_text(text):
        for _ in range(1200):
            seen = tell("capture-pane", "-p")
            if text in seen:
                return seen
            time.sleep(0.05)
        raise AssertionError(f"{text!r} did not appear in:\n{seen}")

    tell("new-session", "-d", "-x", "100", "-y", "30", command)
    try:
        await_text("464 2068")
        tell("send-keys", "Down", "Down", "Down")
        await_text("document 3")
        tell("send-keys", "g")
        await_text("Go to document 0 to 41")
        tell("send-keys", "11", "Enter")
        await_text("1,116 tokens")
        tell("send-keys", "?")
        await_text("Find and list")
        tell("send-keys", "Escape")
        await_text("document 11")
        tell("send-keys", "q")
        await_text("left with 0")
    finally:
        tell("kill-server")


HEAVY = ("transformers", "tokenizers", "fastokens", "torch", "zarr", "numcodecs", "h5py", "msgspec", "xxhash")


STARTED = """
import asyncio, os, sys
from tokfmt.cli import browse

async def main(app):
    async with app.run_test() as pilot:
        while not app.sequences.reader.lines:  # what finds columns and findings comes after them
            await pilot.pause()
        print(*sys.modules, file=sys.__stdout__, flush=True)  # where Textual passes it on to, and nothing flushes

browse._draw = lambda app, *others: asyncio.run(main(app))
from tokfmt.cli.main import run
run(["browse", sys.argv[1], "--screenshot", os.devnull])
"""


@pytest.mark.parametrize("path", first(1, [PACK, FIXTURES / "stage1" / "blocks"]))
def test_imports_before_the_first_screen(path):
    result = subprocess.run([sys.executable, "-c", STARTED, path], capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    imported = set(result.stdout.split())
    assert "tokfmt.browser.widgets.reader" in imported
    heavy = {*HEAVY} - {"xxhash"}  # of the check, which begins after the first screen, in a thread
    assert imported.isdisjoint(heavy), imported & heavy
