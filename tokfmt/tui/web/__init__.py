"""`tokfmt browse --web`: the browser in a page, through textual-serve.

server     who may read; pages and websockets, each websocket with a process of its own
page.*     what is sent; with the terminal and the font of textual-serve nothing else is fetched

Here: what the process that draws one page does, so that it ends when the server is gone, however that went. The server
keeps the writing end of a pipe open and never writes; the process waits for its end.
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


def plain_signals() -> None:
    """Signals do what they do by default, until Textual's driver for pages listens to them."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def _watch(end: int) -> None:
    try:
        os.read(end, 1)
    except OSError:
        return  # no pipe: nobody to end with
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
