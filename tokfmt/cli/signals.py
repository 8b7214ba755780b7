"""What a signal does to a running command.

The first raises `Interrupted` where the main thread is, so that whatever is under way cleans up. The second gives the
signals back to the system: the third ends the process, cleaned up or not. From when a command has come to its end, a
signal only hastens the leaving.

Python runs handlers in the main thread, which may be inside a library for long. A thread of its own therefore sees
each signal as it comes: it says on a terminal that the first was heard when cleaning up takes time, and ends the
process at the third by itself.
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

_MOMENT, _SOON = 0.01, 0.2  # seconds
_PATIENCE = 1.0  # seconds until somebody who waits is told that the signal was heard
_LAST = 3
_DEEP = 100  # errors behind an error; a chain may be a ring
_answered = 0  # handlers that have run
_raised = 0  # the signal of the last `Interrupted`
_listened: list[signal.Signals] = []


class Interrupted(BaseException):
    """A signal asked the process to end; cleaning up goes first."""

    def __init__(self, number: int) -> None:
        self.number = number


def behind(error: BaseException) -> Interrupted | None:
    """The signal during whose cleaning up an error came about, if there was one."""
    seen: list[BaseException | None] = [error]
    while (last := seen[-1]) is not None and not isinstance(last, Interrupted) and len(seen) < _DEEP:
        seen.append(last.__cause__ or last.__context__)
    return last if isinstance(last, Interrupted) else None


def listen() -> None:
    """Let signals end this process by `Interrupted` from now on; one that `nohup` keeps away stays away."""
    sys.unraisablehook = _not_lost
    _listened[:] = [n for n in ENDING if n != signal.SIGHUP or signal.getsignal(n) is not signal.SIG_IGN]
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with undelivered():  # they are the main thread's
        threading.Thread(target=_watch, args=(reader,), daemon=True).start()
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    _answer_with(_interrupt)


def check_dropped() -> None:
    """Raise `Interrupted` once more if a library in C has dropped it, as some do with any error of an import.

    For a place that is reached only if no signal has ended the command.
    """
    if _raised:
        raise Interrupted(_raised)


def leave(code: int) -> None:
    """The command has come to its end, and everything that matters is on disk: a signal ends the process at once."""
    _answer_with(lambda *_: os._exit(code))


def _answer_with(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    for number in _listened:
        signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _answered, _raised  # noqa: PLW0603 - between this thread and the one that watches
    if postponed(number):
        return
    _answered += 1
    _raised = number
    _answer_with(_again)
    threading.excepthook = lambda _: None  # what falls over while everything is taken down says nothing new
    raise Interrupted(number)


def _again(number: int, frame: FrameType | None) -> None:
    global _answered  # noqa: PLW0603
    _answered += 1
    _answer_with(signal.SIG_DFL)


def _not_lost(caught: sys.UnraisableHookArgs) -> None:
    """Python drops what is raised in a finalizer or a callback of its own: a signal is sent again a moment later."""
    stop = caught.exc_value
    if not isinstance(stop, Interrupted):
        sys.__unraisablehook__(caught)
        return
    _answer_with(_interrupt)
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(stop.number))
    signal.setitimer(signal.ITIMER_REAL, _MOMENT)


def _watch(reader: int) -> None:
    """See each signal come; `reader` is the end of a pipe into which Python writes their numbers."""
    unanswered, said = 0, False
    while True:
        before = _answered
        numbers = set(os.read(reader, 4096)) & set(_listened)
        if not numbers:
            continue
        time.sleep(_SOON)
        unanswered = unanswered + 1 if _answered == before else 0
        if unanswered == _LAST:  # the main thread is deep in some library
            os._exit(128 + max(numbers))
        if not said and not select.select([reader], [], [], _PATIENCE)[0] and sys.stderr.isatty():
            os.write(2, b"\ninterrupting: what was begun is cleaned up. Twice more ends it at once\n")
            said = True
