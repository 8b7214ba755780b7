"""Signals, and terminals that go away, end the browser at any moment."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import pytest
from amount import FUZZ_ONLY, only
from paths import FIXTURES, ROOT
from processes import running

pytestmark = pytest.mark.slow

PACK = FIXTURES / "modalities" / "D_2byte_gpt2.pbin"
PATIENCE = 60  # seconds: a busy machine is slow; what hangs is never done
KEYS = b"jjj\t\x1b[C\x1b[C/the\r..,,2345234V?q1nnpp" * 40


class Terminal:
    """A browser in a pseudo-terminal of its own session, whose output is read all the time."""

    def __init__(self, state, *words, program=("-m", "tokfmt", "browse"), blocked=()):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, *program, *map(str, words)],
            stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, start_new_session=True,
            preexec_fn=lambda: (fcntl.ioctl(0, termios.TIOCSCTTY, 0), signal.pthread_sigmask(signal.SIG_BLOCK, blocked)),
            env={**os.environ, "XDG_STATE_HOME": str(state), "TERM": "xterm-256color"},
        )  # fmt: skip
        os.close(slave)
        self.seen, self._closed = b"", False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        while not self._closed:
            if select.select([self.master], [], [], 0.05)[0]:
                try:
                    self.seen += os.read(self.master, 1 << 16)
                except OSError:
                    return

    def await_text(self, text):
        until = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < until, self.seen[-2000:]
            time.sleep(0.01)

    def await_listening(self):
        """Python itself takes a SIGINT in its first milliseconds for an error of its own."""
        until = time.monotonic() + PATIENCE
        while True:
            lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
            caught = next(line for line in lines if line.startswith("SigCgt"))
            if int(caught.split()[1], 16) >> signal.SIGTERM - 1 & 1:
                return
            assert time.monotonic() < until
            time.sleep(0.01)

    def type(self, keys):
        threading.Thread(target=self._type, args=(keys,), daemon=True).start()

    def _type(self, keys):
        try:
            os.write(self.master, keys)
        except OSError:
            return  # the test has closed it

    def close(self):
        if not self._closed:
            self._closed = True
            self._thread.join()
            os.close(self.master)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        with running(self.process, group=True):
            self.close()

    def code(self):
        return self.process.wait(PATIENCE)


MOMENTS = 6
"""Of each signal; the law holds for any number of them."""
ENDING = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
SHOTS = [*((number, moment) for moment in range(MOMENTS) for number in ENDING), (signal.SIGQUIT, 5)]


def ends(terminal, number):
    """Ended by a signal: by tokfmt in good order, or by the signal itself before there was anything of tokfmt."""
    code = terminal.code()
    assert code in (128 + number, -number), (code, terminal.seen[-2000:])


@FUZZ_ONLY
@pytest.mark.parametrize(("number", "moment"), only([SHOTS[k] for k in (0, 4, 8, 9, 13, 18)], SHOTS))
def test_a_signal_ends_it_at_any_moment(number, moment, tmp_path):
    with Terminal(tmp_path, PACK) as terminal:
        terminal.await_listening()
        if moment % 2:  # it is busy
            terminal.await_text(b"\x1b[?1049h")
            terminal.type(KEYS)
        time.sleep(moment / MOMENTS * 2)
        terminal.process.send_signal(number)
        ends(terminal, number)


@FUZZ_ONLY
@pytest.mark.parametrize("delay", only([0.4], [0.0, 0.4, 1.0]))
def test_a_terminal_that_goes_away_ends_it(delay, tmp_path):
    with Terminal(tmp_path, PACK) as terminal:
        terminal.await_text(b"\x1b[?1049h")
        terminal.type(KEYS)
        time.sleep(delay)
        terminal.close()
        ends(terminal, signal.SIGHUP)


@FUZZ_ONLY
def test_a_terminal_that_goes_away_ends_it_though_no_signal_comes(tmp_path):
    with Terminal(tmp_path, PACK, blocked=[signal.SIGHUP]) as terminal:
        terminal.await_text(b"464")
        terminal.close()
        assert terminal.code() == 128 + signal.SIGHUP


@FUZZ_ONLY
def test_what_does_not_end_when_asked_is_ended(tmp_path):
    """A main thread that never comes back, as one in a read from a disk that is gone: twice, and once with patience."""
    held = (
        "import sys, time, tokfmt.browser.app as app; app.Browser.on_key = lambda *_: time.sleep(10_000);"
        "sys.argv = ['tokfmt', 'browse', sys.argv[1]]; from tokfmt.cli.main import run; run()"
    )
    for again in (True, False):
        with Terminal(tmp_path, PACK, program=["-c", held]) as terminal:
            terminal.await_text(b"464")
            os.write(terminal.master, b"Z")
            time.sleep(1)
            terminal.process.terminate()
            if again:
                time.sleep(1)
                terminal.process.terminate()
            assert terminal.code() == 128 + signal.SIGTERM
            terminal.await_text(b"\x1b[?1049l")


@FUZZ_ONLY
def test_a_signal_that_a_library_drops_ends_it(tmp_path):
    """Code in C that looks whether there is something may drop whatever is raised meanwhile."""
    dropping = (
        "import contextlib, signal, sys; from tokfmt.cli import browse, main; app = browse._app\n"
        "def dropped(*words, **how):\n"
        "    with contextlib.suppress(BaseException): signal.raise_signal(signal.SIGINT)\n"
        "    return app(*words, **how)\n"
        "browse._app = dropped; main.run(['browse', sys.argv[1]])"
    )
    with Terminal(tmp_path, PACK, program=["-c", dropping]) as terminal:
        assert terminal.code() == 128 + signal.SIGINT
