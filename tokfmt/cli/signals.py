"""Handle signals of a running command.

1. The first signal raises `Interrupted` in the main thread, so that the command cleans up.
2. The second restores the default action of the signals.
3. The third ends the process, cleaned up or not.

After the end of a command, a signal ends the process at once.

Python runs handlers in the main thread, which may spend a long time inside a library. A second thread therefore watches
the signals: if cleaning up takes time, it prints on a terminal that the first signal was received, and it ends the
process at the third.
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

WATCH = "tokfmt-watch"  # name of the thread that watches the signals
_MOMENT, _SOON = 0.01, 0.2  # seconds
_PATIENCE = 1.0  # seconds of cleaning up before a terminal shows that the signal was received
_LAST = 3
_DEEP = 100  # limit on the chain of causes of an error, which may be a ring
_answered = 0  # number of handlers that ran
_raised = 0  # number of the signal of the last `Interrupted`
_listened: list[signal.Signals] = []


class Interrupted(BaseException):
    """A signal that ends the process after it cleaned up."""

    def __init__(self, number: int) -> None:
        self.number = number


def behind(error: BaseException) -> Interrupted | None:
    """Return the signal in the chain of causes of an error; None without one."""
    seen: list[BaseException | None] = [error]
    while (last := seen[-1]) is not None and not isinstance(last, Interrupted) and len(seen) < _DEEP:
        seen.append(last.__cause__ or last.__context__)
    return last if isinstance(last, Interrupted) else None


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


def check_dropped() -> None:
    """Raise `Interrupted` again if a C library dropped it, as some do with any error of an import.

    Call it where a command arrives only if no signal ended it.
    """
    if _raised:
        raise Interrupted(_raised)


def leave(code: int) -> None:
    """Let any signal end the process at once with this exit code; everything that matters is on disk."""
    _answer_with(lambda *_: os._exit(code))


def _answer_with(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    for number in _listened:
        signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _answered, _raised  # noqa: PLW0603 - shared with the thread that watches
    if postponed(number):
        return
    _answered += 1
    _raised = number
    _answer_with(_again)
    threading.excepthook = lambda _: None  # errors of threads while the process ends add nothing
    raise Interrupted(number)


def _again(number: int, frame: FrameType | None) -> None:
    global _answered  # noqa: PLW0603
    _answered += 1
    _answer_with(signal.SIG_DFL)


def _not_lost(caught: sys.UnraisableHookArgs) -> None:
    """Send a signal again 0.01 seconds later if Python dropped its `Interrupted` in a finalizer or a callback."""
    stop = caught.exc_value
    if not isinstance(stop, Interrupted):
        sys.__unraisablehook__(caught)
        return
    _answer_with(_interrupt)
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(stop.number))
    signal.setitimer(signal.ITIMER_REAL, _MOMENT)


def _watch(reader: int) -> None:
    """Watch the signals, whose numbers Python writes into the pipe of `reader`."""
    unanswered, is_printed = 0, False
    while True:
        before = _answered
        numbers = set(os.read(reader, 4096)) & set(_listened)
        if not numbers:
            continue
        time.sleep(_SOON)
        unanswered = unanswered + 1 if _answered == before else 0
        if unanswered == _LAST:  # the main thread is inside a library
            os._exit(128 + max(numbers))
        if not is_printed and not select.select([reader], [], [], _PATIENCE)[0] and sys.stderr.isatty():
            os.write(2, b"\ninterrupting: cleaning up. Two more signals end it at once\n")
            is_printed = True
