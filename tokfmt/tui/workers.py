"""Long work in a thread: a `Job` is one piece of it, with progress, which can be called off.

A daemon, unlike Textual's own: quitting never waits for a read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tokfmt.core.errors import TokfmtError


class CancelledError(TokfmtError):
    """Nobody wants the result any more."""


class Job:
    """A long piece of work in a thread of its own, and how far it is. A `Progress` of ops.

    Args:
        work: Given this job as its progress; its result is told to `done`.
        done: Told the result, or the error, on that thread; not after `cancel`.
        told: Told, at most ten times a second, that there is progress.
    """

    def __init__(
        self, work: Callable[[Job], object], done: Callable[[object], object], told: Callable[[], object] = lambda: None
    ) -> None:
        self._work, self._finish, self._told = work, done, told
        self.name, self.total, self.unit, self.done = "", 0, "", 0
        self.running, self._cancelled, self._last = True, False, 0.0
        self.began = time.monotonic()
        threading.Thread(target=self._run, name="tokfmt-job", daemon=True).start()

    @property
    def share(self) -> float | None:
        """How much is done, 0 to 1; None when nobody knows."""
        return min(1.0, self.done / self.total) if self.total else None

    def cancel(self) -> None:
        """Stop at the next step; nothing more is told."""
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
            self._told()

    def note(self, text: str) -> None:
        """What is noted arrives with the result."""

    def _run(self) -> None:
        try:
            result: object = self._work(self)
        except Exception as error:  # noqa: BLE001 - told, whatever it is
            result = error
        self.running = False
        if not self._cancelled:
            self._finish(result)
