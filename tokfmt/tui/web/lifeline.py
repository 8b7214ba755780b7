"""Ends a process when the one that started it is gone, however it went.

The server keeps the writing end of a pipe open and never writes; the child waits for its end.
"""

from __future__ import annotations

import os
import signal
import threading

NAME = "TOKFMT_LIFELINE"
"""Environment variable with the number of the reading end."""


def is_child() -> bool:
    """Whether this process draws for a server."""
    return NAME in os.environ


def hold() -> None:
    """End with the server."""
    end = int(os.environ.pop(NAME))
    threading.Thread(target=_watch, args=(end,), name="tokfmt-lifeline", daemon=True).start()


def _watch(end: int) -> None:
    try:
        os.read(end, 1)
    except OSError:
        return  # no pipe: nobody to end with
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
