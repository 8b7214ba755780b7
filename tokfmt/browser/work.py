"""Work beside the screen: long work, which ends with what began it, and reading what is shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Literal

from textual.message_pump import MessagePump
from textual.widget import Widget

from tokfmt.browser.data.workers import Job, said
from tokfmt.errors import TokfmtError

Then = Callable[[Any], object]


class Work:
    """Long work in daemon threads for an owner, which cancels it when it is removed; the last request of a key wins."""

    def __init__(self, owner: MessagePump) -> None:
        self._owner, self._jobs = owner, dict[Hashable, Job]()

    def begin(
        self,
        key: Hashable,
        work: Callable[[Job], object],
        then: Callable[[Any], object],
        progressed: Callable[[], object] = lambda: None,
    ) -> None:
        """Start work in place of an earlier one with the same key; cancelled or replaced, it has no result."""
        self.cancel(key)
        owner = self._owner

        def ended(outcome: object) -> None:
            if self._jobs.get(key) is job:
                del self._jobs[key]
                then(outcome)

        job = self._jobs[key] = Job(
            work, lambda outcome: owner.call_later(ended, outcome), lambda: owner.call_later(progressed)
        )

    def cancel(self, *keys: Hashable) -> bool:
        """Cancel the work with some keys, or all of it; return whether there was any."""
        jobs = [self._jobs.pop(key) for key in keys or tuple(self._jobs) if key in self._jobs]
        for job in jobs:
            job.cancel()
        return bool(jobs)

    def get(self, key: Hashable) -> Job | None:
        """Return the work with a key that is running."""
        return self._jobs.get(key)

    def __iter__(self) -> Iterator[Any]:
        """Return the keys."""
        return iter(tuple(self._jobs))

    def __len__(self) -> int:
        return len(self._jobs)


class Loader:
    """Reading for a widget: one request at a time. Only the last one waits for it, so that rows scrolled past are not
    read; with `every`, all do, in order.
    """

    def __init__(self, owner: Widget, *, every: bool = False) -> None:
        self._owner, self._every, self._work = owner, every, Work(owner)
        self._requests = deque[tuple[Callable[[], Any], Then]]()
        self._then: Then | None = None  # what to do with the result of the work; None drops it

    def ask(self, work: Callable[[], Any], then: Then) -> None:
        """Do `work` next in a thread, then call `then` with its result. An error of the work is a notification."""
        if not self._every:
            self._requests.clear()
        self._requests.append((work, then))
        self._begin()

    def _begin(self) -> None:
        if self._requests and not self._work:
            work, self._then = self._requests.popleft()
            self._work.begin("", lambda _: work(), self._ended)

    def _ended(self, outcome: object) -> None:
        then = self._then
        if then is not None and isinstance(outcome, Exception):
            severity: Literal["warning", "error"] = "warning" if isinstance(outcome, TokfmtError) else "error"
            self._owner.notify(said(outcome), severity=severity, markup=False)
        elif then is not None:
            then(outcome)
        self._begin()

    def forget(self) -> None:
        """Drop all requests and the result of the current one."""
        self._requests.clear()
        self._then = None

    def leave(self) -> bool:
        """Drop all requests, and leave the current one to its thread, as stores may not answer; return if there was."""
        self.forget()
        return self._work.cancel()

    @property
    def idle(self) -> bool:
        """Return whether no request is running or waiting."""
        return not self._requests and not self._work
