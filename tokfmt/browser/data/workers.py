"""Run long work in a thread, with progress, until it is done or cancelled.

The thread is a daemon, unlike Textual's workers, so that quitting never waits for a read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tokfmt.errors import TokfmtError
from tokfmt.run.progress import Progress


class CancelledError(TokfmtError):
    """The job was cancelled."""


def said(error: BaseException) -> str:
    """Return the message of an error; one that tokfmt did not raise is a bug."""
    return str(error) if isinstance(error, TokfmtError) else f"unexpected {type(error).__name__}: {error}"


class Job(Progress):
    """Work in its own thread, with its progress, which ends the work once it is cancelled.

    That thread calls `done` with the result or the error, except after `cancel`, and `progressed` ten times a second.
    """

    def __init__(
        self,
        work: Callable[[Job], object],
        done: Callable[[object], object],
        progressed: Callable[[], object] = lambda: None,
    ) -> None:
        self._work, self._finish, self._progressed = work, done, progressed
        self.name, self.total, self.unit, self.done = "", 0, "", 0
        self.running, self._cancelled, self._last = True, False, 0.0
        threading.Thread(target=self._run, name="tokfmt-job", daemon=True).start()

    @property
    def share(self) -> float | None:
        """Return the share that is done, 0 to 1; None if the total is unknown."""
        return min(1.0, self.done / self.total) if self.total else None

    def cancel(self) -> None:
        """Stop the work at its next step; neither `done` nor `progressed` is called any more."""
        self._cancelled = True

    def phase(self, name: str, total: int, unit: str) -> None:
        self.name, self.total, self.unit, self.done = name, total, unit, 0
        self.advance(0)

    def advance(self, amount: int) -> None:
        if self._cancelled:
            raise CancelledError("cancelled")
        self.done += amount
        now = time.monotonic()
        if now - self._last >= 0.1:
            self._last = now
            self._progressed()

    def note(self, text: str) -> None:
        """Ignore notes, because the result holds them too."""

    def _run(self) -> None:
        try:
            result: object = self._work(self)
        except Exception as error:  # noqa: BLE001 - `done` gets any error
            result = error
        self.running = False
        if not self._cancelled:
            self._finish(result)
