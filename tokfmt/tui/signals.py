"""What ends the browser, whatever it is doing: signals, a terminal that is gone, a server that is gone.

An exception that a signal handler raises is lost while asyncio runs, so here handlers raise nothing. A thread hears of
a signal through the descriptor that Python's handler in C writes to, also while the main thread is in a long call; of
a terminal that is gone, by the descriptor of the terminal. It asks the app to end, and ends the process if that is not
enough: after GRACE seconds, or at a second signal.

A process that draws a page for `--web` ends with the server, however that went: the server keeps the writing end of a
pipe open and never writes; the process waits for its end.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import termios
import threading
import time
from collections.abc import Callable
from types import TracebackType

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
GRACE = 3.0
"""Seconds that an app has to end, and the interpreter after it."""

_AGAIN = 0.5  # seconds after which another signal is impatience, and no echo: a shell hands SIGHUP on to its jobs
_RESET = "\x1b[?2004l\x1b[?7h\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l\r"


class Signals:
    """While this is entered, on the main thread, signals end an app.

    Args:
        ask: Asks the app to end, from any thread; False while it is too early for that.

    Attributes:
        number: Of the first signal that came; 0 for none. A terminal that is gone is SIGHUP.
    """

    def __init__(self, ask: Callable[[], bool]) -> None:
        self.number = 0
        self._ask, self._asked, self._since = ask, False, 0.0
        self._terminal = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else -1
        self._shown = [place for place in (0, 1, 2) if os.isatty(place)]
        self._modes = termios.tcgetattr(self._terminal) if self._terminal >= 0 else None

    def __enter__(self) -> Signals:
        self._heard, self._tell = socket.socketpair()
        self._tell.setblocking(False)
        self._wakeup = signal.set_wakeup_fd(self._tell.fileno(), warn_on_full_buffer=False)
        self._before = [(number, signal.signal(number, _nothing)) for number in ENDING]
        threading.Thread(target=self._watch, name="tokfmt-signals", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before:
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)

    def outcome(self) -> int:
        """The number of the signal that has ended the app, 0 for none. On a terminal that is gone nothing is said."""
        poll = select.poll()
        if self._terminal >= 0:
            poll.register(self._terminal, 0)
            if poll.poll(0):
                self.number = self.number or signal.SIGHUP
                nowhere = os.open(os.devnull, os.O_RDWR)
                for place in self._shown:  # one that has hung up is none any more, says isatty
                    os.dup2(nowhere, place)
        return self.number

    def _watch(self) -> None:
        """Until the process ends. What is left of the deadline is for the interpreter's own leaving."""
        poll = select.poll()
        poll.register(self._heard, select.POLLIN)
        if self._terminal >= 0:
            poll.register(self._terminal, 0)  # its end is told all the same
        while True:
            for place, _ in poll.poll(100 if self.number else None):
                if place == self._terminal:
                    poll.unregister(place)
                    self._hear(signal.SIGHUP)
                    continue
                for number in self._heard.recv(64):
                    if number in ENDING:
                        self._hear(number)
            if self.number and not self._asked:
                self._asked = self._ask()
            if self.number and time.monotonic() > self._since + GRACE:
                self._kill()

    def _hear(self, number: int) -> None:
        if not self.number:
            self.number, self._since = number, time.monotonic()
        elif time.monotonic() > self._since + _AGAIN:
            self._kill()

    def _kill(self) -> None:
        """End the process here and now, the terminal as it was; one that takes nothing any more is not waited for."""
        thread = threading.Thread(target=self._restore, daemon=True)
        thread.start()
        thread.join(0.5)
        os._exit(128 + self.number)

    def _restore(self) -> None:
        name = signal.Signals(self.number).name
        try:
            if self._modes is not None:
                os.write(self._terminal, _RESET.encode())
                termios.tcsetattr(self._terminal, termios.TCSANOW, self._modes)
            os.write(2, f"tokfmt: error: interrupted by {name} while it was busy; it was ended all the same\n".encode())
        except (OSError, termios.error):
            return  # nobody is there to see it


def _nothing(number: int, frame: object) -> None:
    """A signal is heard of by its number."""


# in a page

LIFELINE = "TOKFMT_LIFELINE"
"""Environment variable with the number of the pipe's reading end."""


def draws_for_server() -> bool:
    """Whether this process does."""
    return LIFELINE in os.environ


def end_with_server() -> None:
    """End when the server does, with everything that was started."""
    end = int(os.environ.pop(LIFELINE))
    threading.Thread(target=_outlive, args=(end,), name="tokfmt-lifeline", daemon=True).start()


def plain_signals() -> None:
    """Signals do what they do by default, until Textual's driver for pages listens to them."""
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)


def _outlive(end: int) -> None:
    try:
        os.read(end, 1)
    except OSError:
        return  # no pipe: nobody to end with
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
