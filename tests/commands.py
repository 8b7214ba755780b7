"""The command line in this process, which spares it the start: exit code, stdout and stderr as a shell sees them."""

import contextlib
import io
import signal
from typing import NamedTuple

from tokfmt.cli import main

_HANDLED = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Done(NamedTuple):
    """What a command left."""

    returncode: int
    stdout: str
    stderr: str


def run(*words, check=None, cwd=".", is_merged=False):
    """Run `tokfmt WORDS` in a directory; `check` is the exit code that it must have. Merged, all goes to stdout."""
    out = io.StringIO()
    err = out if is_merged else io.StringIO()
    handlers = {number: signal.getsignal(number) for number in _HANDLED}
    try:
        with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main._run([str(word) for word in words])  # what turns errors into lines and exit codes
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert check in (None, code), err.getvalue()
    return Done(code, out.getvalue(), err.getvalue())
