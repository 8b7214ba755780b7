"""Threads that load what a screen needs. They are daemons: quitting never waits for a read.

A `Desk` does one thing at a time and keeps only the last thing asked for: what somebody has scrolled past is not read.
A `Job` is one long piece of work with progress, which can be called off.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tokfmt.core.errors import TokfmtError

Work = Callable[[], None]


class CancelledError(TokfmtError):
    """Nobody wants the result any more."""


class Desk:
    """One thread that does what was asked for last.

    Args:
        failed: Told, on that thread, of an error that no reader should raise.
    """

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._failed = failed
        self._wish: Work | None = None
        self._busy = self._closed = False
        self._changed = threading.Condition()
        threading.Thread(target=self._run, name="tokfmt-desk", daemon=True).start()

    def ask(self, work: Work) -> None:
        """Do this next, instead of anything asked for before and not begun."""
        with self._changed:
            self._wish = work
            self._changed.notify()

    def close(self) -> None:
        """End the thread, when it has done what it does."""
        self._closed = True
        self.ask(lambda: None)

    @property
    def idle(self) -> bool:
        """Nothing is done and nothing is asked for."""
        return self._wish is None and not self._busy

    def _run(self) -> None:
        while not self._closed:
            with self._changed:
                while self._wish is None:
                    self._changed.wait()
                work, self._wish, self._busy = self._wish, None, True
            try:
                work()
            except Exception as error:  # noqa: BLE001 - a plug-in's bug must not end the browser
                self._failed(error)
            finally:
                self._busy = False


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
