"""Handle signals of a running command in two stages.

1. The first signal raises `Interrupted` in the main thread, so that the command cleans up.
2. A second one ends the process at once, half a second later or more: a shell and `uv run` pass on each Ctrl-C again.

Python runs handlers in the main thread, which may spend a long time inside a library. A second thread therefore reads
the signals from a pipe. It ends the process, and prints on a terminal that the first signal was received if cleaning up
takes time. After the end of a command, a signal ends the process at once.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from tokfmt.run.isolation import ENDING, postponed, undelivered

WATCH = "tokfmt-watch"  # name of the thread that reads the signals
_MOMENT = 0.01  # seconds
_AGAIN = 0.5  # seconds after which another signal is a second one
_PATIENCE = 1.0  # seconds of cleaning up before a terminal shows that the signal was received
_listened: list[signal.Signals] = []
_raised: list[Interrupted] = []


class Interrupted(BaseException):
    """A signal that ends the process after it cleaned up."""

    def __init__(self, number: int) -> None:
        self.number = number


def listen() -> None:
    """Raise `Interrupted` for signals from now on. A SIGHUP that `nohup` ignores stays ignored."""
    sys.unraisablehook = _not_lost
    _listened[:] = [n for n in ENDING if n != signal.SIGHUP or signal.getsignal(n) is not signal.SIG_IGN]
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with undelivered():  # so that the kernel delivers signals to the main thread
        threading.Thread(target=_watch, args=(reader,), name=WATCH, daemon=True).start()
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    _answer_with(_interrupt)


def check() -> None:
    """Raise `Interrupted` again if a signal was received.

    An error while a signal ends the command is a consequence of it. Some C libraries drop any error of an import.
    """
    if _raised:
        raise _raised[-1]


def leave(code: int) -> None:
    """Let any signal end the process at once with this exit code; everything that matters is on disk."""
    _answer_with(lambda *_: os._exit(code))
    _raised.clear()  # its traceback holds what the end of the interpreter would find half gone


def _answer_with(handler: Callable[[int, FrameType | None], object]) -> None:
    for number in _listened:
        signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    if postponed(number):
        return
    _answer_with(lambda *_: None)  # the thread reads the next one
    threading.excepthook = lambda _: None  # errors of threads while the process ends add nothing
    _raised.append(Interrupted(number))
    raise _raised[-1]


def _not_lost(caught: sys.UnraisableHookArgs) -> None:
    """Raise `Interrupted` again 0.01 seconds later if Python dropped it in a finalizer or a callback."""
    stop = caught.exc_value
    if not isinstance(stop, Interrupted):
        sys.__unraisablehook__(caught)
        return
    signal.signal(signal.SIGALRM, lambda *_: _interrupt(stop.number, None))
    signal.setitimer(signal.ITIMER_REAL, _MOMENT)


def _watch(reader: int) -> None:
    """Read the numbers of the signals, which Python writes into a pipe."""
    first, is_printed = 0.0, False
    while True:
        if first and not is_printed and not select.select([reader], [], [], _PATIENCE)[0]:
            is_printed = True
            if sys.stderr.isatty():
                os.write(2, b"\ninterrupting: cleaning up. Another signal ends it at once\n")
        numbers = set(os.read(reader, 4096)) & set(_listened)
        if numbers and first and time.monotonic() > first + _AGAIN:
            os._exit(128 + max(numbers))
        if numbers and not first:
            first = time.monotonic()
