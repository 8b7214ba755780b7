"""Work beside the screen: long work, which ends with what began it, and reading what is shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Any

from textual.message_pump import MessagePump
from textual.widget import Widget

from tokfmt.browser.data.workers import Job, said
from tokfmt.errors import TokfmtError

Then = Callable[[Any], object]


class Work:
    """Long work in threads that are daemons: one at a time for each key, of which the last request wins.

    Args:
        owner: The widget or app in whose thread results are handled. It calls `cancel` when it is removed.
    """

    def __init__(self, owner: MessagePump) -> None:
        self._owner, self._jobs = owner, dict[Hashable, Job]()

    def begin(
        self,
        key: Hashable,
        work: Callable[[Job], object],
        then: Callable[[Any], object],
        progressed: Callable[[], object] = lambda: None,
    ) -> None:
        """Start work in place of an earlier one with the same key.

        Args:
            key: The key.
            work: The work, called with its job in a thread.
            then: Called with its result or error, unless it was cancelled or replaced.
            progressed: Called when there is progress.
        """
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

    def __contains__(self, key: Hashable) -> bool:
        return key in self._jobs


class Loader:
    """Reading for a widget: one request at a time. Only the last one waits for it, so that rows scrolled past are not
    read; with `every`, all do, in order.

    Args:
        owner: The widget, in whose thread results are handled.
        every: Do all requests.
    """

    def __init__(self, owner: Widget, *, every: bool = False) -> None:
        self._owner, self._every = owner, every
        self._requests = deque[tuple[Callable[[], Any], Then]]()
        self._job: Job | None = None
        self._then: Then | None = None  # what to do with the result of the job; None drops it

    def ask(self, work: Callable[[], Any], then: Then) -> None:
        """Do `work` next in a thread, then call `then` with its result. An error of the work is a notification."""
        if not self._every:
            self._requests.clear()
        self._requests.append((work, then))
        self._begin()

    def _begin(self) -> None:
        if self._job is not None or not self._requests:
            return
        work, self._then = self._requests.popleft()

        def ended(outcome: object) -> None:
            if self._job is job:
                self._job, then = None, self._then
                if then is not None and isinstance(outcome, Exception):
                    known = isinstance(outcome, TokfmtError)
                    owner.notify(said(outcome), severity="warning" if known else "error", markup=False)
                elif then is not None:
                    then(outcome)
                self._begin()

        owner = self._owner
        job = self._job = Job(lambda _: work(), lambda outcome: owner.call_later(ended, outcome))

    def forget(self) -> None:
        """Drop all requests and the result of the current one."""
        self._requests.clear()
        self._then = None

    def leave(self) -> bool:
        """Drop all requests, and leave the current one to its thread: a store may not answer for long.

        Returns:
            True if there was one.
        """
        left = not self.idle
        self.forget()
        self._job = None
        return left

    @property
    def idle(self) -> bool:
        """Return whether no request is running or waiting."""
        return not self._requests and self._job is None
