"""Long work beside the screen, which ends with what began it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any

from textual.message_pump import MessagePump

from tokfmt.browser.data.workers import Job


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
