"""Threads that load what a screen needs. Daemons, unlike Textual's own: quitting never waits for a read.

A `Loader` does one thing at a time and keeps only the last thing asked for: what somebody has scrolled past is not
read. One for `every` wish does them all, in order. A `WithLoader` widget has one. A `Job` is one long piece of work,
with progress, which can be called off.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from textual.widget import Widget

from tokfmt.core.errors import TokfmtError

Then = Callable[[Any], object]


class CancelledError(TokfmtError):
    """Nobody wants the result any more."""


class Loader:
    """One thread for a widget, begun by the first wish, that does what was asked for last.

    Args:
        owner: Results are told on its thread. every: It does everything that was asked for, in order.

    Attributes:
        generation: Counts how often everything was forgotten.
    """

    def __init__(self, owner: Widget, *, every: bool = False) -> None:
        self._owner, self._every = owner, every
        self._wishes: deque[tuple[int, Callable[[], Any], Then]] = deque()
        self.generation = 0
        self._busy = self._closed = self._begun = False
        self._changed = threading.Condition()

    def ask(self, work: Callable[[], Any], then: Then) -> None:
        """Do `work` next, on the loader's thread, then `then` with its result on the owner's."""
        with self._changed:
            if not self._every:
                self._wishes.clear()
            self._wishes.append((self.generation, work, then))
            begin, self._begun = not self._begun, True
            self._changed.notify()
        if begin:
            threading.Thread(target=self._run, name="tokfmt-loader", daemon=True).start()

    def forget(self) -> None:
        """What was asked for is no longer wanted; nothing more is told of it."""
        with self._changed:
            self.generation += 1
            self._wishes.clear()

    def close(self) -> None:
        """End the thread, when it has done what it does."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    @property
    def idle(self) -> bool:
        """Nothing is done and nothing is asked for."""
        return not self._wishes and not self._busy

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wishes or self._closed)
                if self._closed:
                    return
                self._busy = True
                generation, work, then = self._wishes.popleft()
            try:
                result: Any = work()
            except Exception as error:  # noqa: BLE001 - a plug-in's bug must not end the browser
                result, then = error, self._failed
            self._owner.call_later(self._tell, generation, then, result)
            self._busy = False

    def _tell(self, generation: int, then: Then, result: object) -> None:
        if generation == self.generation:
            then(result)

    def _failed(self, error: Exception) -> None:
        self._owner.notify(f"unexpected {type(error).__name__}: {error}", severity="error", markup=False)


class WithLoader(Widget):
    """Mixed into widgets that read: each has a loader."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.loader = Loader(self)

    def on_unmount(self) -> None:
        self.loader.close()


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
