"""End the browser on a signal or a lost terminal, whatever it is doing.

asyncio loses an exception that a signal handler raises, so these handlers raise nothing. A thread reads signals from
the descriptor that Python's C handler writes to, even during a long call of the main thread, and notices a lost
terminal by its descriptor. The thread asks the app to end, and ends the process GRACE seconds later or at a second
signal.
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

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
GRACE = 3.0
"""Seconds in which the app and the interpreter have to end."""

_AGAIN = 0.5  # seconds after which another signal counts; a shell sends SIGHUP to its jobs once more
_RESET = "\x1b[?2004l\x1b[?7h\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l\r"


class Signals:
    """A context in which signals end an app, which `ask` asks to end if it is ready. Enter it in the main thread."""

    def __init__(self, ask: Callable[[], bool]) -> None:
        self.number = 0  # of the first signal; 0 for none; a lost terminal counts as SIGHUP
        self._ask, self._asked, self._since = ask, False, 0.0
        typed = sys.stdin is not None and sys.stdin.isatty()
        self._terminal = sys.stdin.fileno() if typed or is_page() else -1
        self._shown = [place for place in (0, 1, 2) if os.isatty(place)]
        self._modes = termios.tcgetattr(self._terminal) if typed else None

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
        """Return the number of the signal that ended the app, 0 for none. Output to a lost terminal is discarded."""
        poll = select.poll()
        if self._terminal >= 0:
            poll.register(self._terminal, 0)
            if poll.poll(0):
                self.number = self.number or signal.SIGHUP
                nowhere = os.open(os.devnull, os.O_RDWR)
                for place in self._shown:  # `isatty` is false for a terminal that hung up
                    os.dup2(nowhere, place)
        return self.number

    def _watch(self) -> None:
        """Watch until the process ends, so that the deadline covers the end of the interpreter too."""
        poll = select.poll()
        poll.register(self._heard, select.POLLIN)
        if self._terminal >= 0:
            poll.register(self._terminal, 0)  # poll reports a hangup without any event
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
        """Restore the terminal, for at most half a second, and end the process at once."""
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
            os.write(2, f"tokfmt: error: interrupted by {name} while busy; the process was ended\n".encode())
        except (OSError, termios.error):
            return  # the terminal is gone


def _nothing(number: int, frame: object) -> None:
    """Do nothing: the thread reads the number of the signal from a descriptor."""


def is_page() -> bool:
    """Return whether the screen is a page of `textual serve`, which holds the other end of stdin."""
    return "TEXTUAL_DRIVER" in os.environ
