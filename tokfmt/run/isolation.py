"""Processes and threads that are started from here: what they import from, and which signals reach them.

`python -c` and `python -m` put the current directory before the standard library: with a file
`multiprocessing/__init__.py` beside the data, starting a worker process would run it. PYTHONSAFEPATH (Python 3.11)
leaves the directory out. It is set only while something is started, so that a library changes nothing for its user.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
"""Signals that ask a process to end."""

_NAME = "PYTHONSAFEPATH"
_lock = threading.Lock()
_starting = threading.RLock()
_holders = 0
_before: str | None = None
_sections = 0  # in which nothing may interrupt the main thread
_postponed: list[int] = []


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """While this holds, in any thread, child processes leave the current directory out of what they import from."""
    global _holders, _before  # noqa: PLW0603 - the environment belongs to the process, and so does who changed it
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
def without_main() -> Iterator[None]:
    """While this holds, processes that `multiprocessing` spawns do not run the main module once more.

    They would begin somebody's script again, which without `if __name__ == "__main__":` converts again. A main module
    without `__spec__` and `__file__`, as of a notebook, is left out (CPython, `spawn.get_preparation_data`).
    """
    with _starting:
        names = vars(sys.modules["__main__"])
        hidden: dict[str, object] = {name: names[name] for name in ("__spec__", "__file__") if name in names}
        names.update(dict.fromkeys(hidden))
        try:
            yield
        finally:
            names.update(hidden)


@contextlib.contextmanager
def undelivered() -> Iterator[None]:
    """While this holds, signals that end the process wait; threads and processes started meanwhile never get them.

    The parent decides about Ctrl-C: a worker that raised KeyboardInterrupt would print a traceback, and one that is
    half started would be lost to whoever counts them. A signal that some library's thread gets all the same is answered
    by Python in the main thread: see `postponed`.
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
            signal.raise_signal(number)


def postponed(number: int) -> bool:
    """For a handler: whether something is just being started, and the signal comes again when it has been."""
    if _sections:
        _postponed.append(number)
    return bool(_sections)
