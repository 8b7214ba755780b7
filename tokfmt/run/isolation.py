"""Isolation of processes and threads that tokfmt starts: where they import from, and which signals reach them.

`python -c` and `python -m` put the current directory before the standard library. With a file
`multiprocessing/__init__.py` beside the data, a new worker process would run it. PYTHONSAFEPATH (Python 3.11) leaves
the current directory out. It is set only while a process starts, so that the environment of the user's process does not
change.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
"""Signals that ask a process to end."""

_NAME = "PYTHONSAFEPATH"
_lock = threading.Lock()
_holders = 0
_before: str | None = None
_sections = 0  # Number of nested sections in which no signal may interrupt the main thread.
_postponed: list[int] = []


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Make child processes that start inside, in any thread, import no file of the current directory."""
    global _holders, _before  # noqa: PLW0603 - The environment is global to the process.
    with _lock:
        if not _holders:
            _before = os.environ.get(_NAME)
            os.environ[_NAME] = "1"
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if not _holders and _before is None:
                os.environ.pop(_NAME, None)
            elif not _holders:
                os.environ[_NAME] = str(_before)


@contextlib.contextmanager
def undelivered() -> Iterator[None]:
    """Delay signals that end the process; threads and processes that start inside never get them.

    The parent handles Ctrl-C: a worker that raised KeyboardInterrupt would print a traceback, and a half-started worker
    would not be counted. If a thread of another library gets the signal, Python handles it in the main thread: see
    `postponed`.
    """
    global _sections  # noqa: PLW0603
    here = threading.current_thread() is threading.main_thread()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    _sections += here
    try:
        yield
    finally:
        _sections -= here
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if here and not _sections and _postponed:
            number = _postponed[0]
            _postponed.clear()
            if callable(answer := signal.getsignal(number)):
                answer(number, None)  # not a second signal


def postponed(number: int) -> bool:
    """Return True, for a signal handler, if a process or thread is starting: the handler is called again afterwards."""
    if _sections:
        _postponed.append(number)
    return bool(_sections)
