"""Reading beside the screen: a loader of what is shown, and widgets that have one.

The thread of a `Loader` is a daemon, unlike Textual's workers, so that quitting never waits for a read. It does one
request at a time and keeps only the last request, so that rows scrolled past are not read. With `every`, it does all
requests in order.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from textual.message import Message
from textual.scrollbar import ScrollDown, ScrollUp
from textual.widget import Widget

from tokfmt.browser.data.workers import said
from tokfmt.errors import TokfmtError

Then = Callable[[Any], object]


class Loader:
    """A thread for a widget, started by the first request, that does the last request.

    Args:
        owner: The widget, in whose thread results are handled.
        every: Do all requests, in order.

    Attributes:
        generation: Number of calls of `forget`.
    """

    def __init__(self, owner: Widget, *, every: bool = False) -> None:
        self._owner, self._every = owner, every
        self._requests: deque[tuple[int, Callable[[], Any], Then]] = deque()
        self.generation = 0
        self._busy = self._closed = self._begun = False
        self._turn = 0
        self._changed = threading.Condition()

    def ask(self, work: Callable[[], Any], then: Then) -> None:
        """Do `work` next in the thread of the loader, then call `then` with its result in that of the owner.

        An error of the work is a notification.
        """
        with self._changed:
            if not self._every:
                self._requests.clear()
            self._requests.append((self.generation, work, then))
            begin, self._begun = not self._begun, True
            self._changed.notify()
        if begin:
            threading.Thread(target=self._run, args=(self._turn,), name="tokfmt-loader", daemon=True).start()

    def forget(self) -> None:
        """Drop all requests and the result of the current one."""
        with self._changed:
            self.generation += 1
            self._requests.clear()

    def leave(self) -> bool:
        """Drop all requests, and leave the current one to its thread: a store may not answer for long.

        Returns:
            True if there was one.
        """
        with self._changed:
            left = not self.idle
            self.generation += 1
            self._requests.clear()
            self._turn += 1
            self._busy = self._begun = False
            self._changed.notify_all()
        return left

    def close(self) -> None:
        """End the thread after its current request."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    @property
    def idle(self) -> bool:
        """Return whether no request is running or waiting."""
        return not self._requests and not self._busy

    def _run(self, turn: int) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._requests or self._closed or self._turn != turn)
                if self._closed or self._turn != turn:
                    return
                self._busy = True
                generation, work, then = self._requests.popleft()
            try:
                result: Any = work()
            except Exception as error:  # noqa: BLE001 - a plug-in's bug must not end the browser
                result, then = error, self._failed
            self._owner.call_later(self._deliver, generation, then, result)
            with self._changed:
                self._busy = self._busy and self._turn != turn

    def _deliver(self, generation: int, then: Then, result: object) -> None:
        if generation == self.generation:
            then(result)

    def _failed(self, error: Exception) -> None:
        known = isinstance(error, TokfmtError)
        self._owner.notify(said(error), severity="warning" if known else "error", markup=False)


class WithLoader(Widget):
    """A widget with a loader, for widgets that read."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.loader = Loader(self)

    def on_unmount(self) -> None:
        self.loader.close()

    def action_pages(self, pages: int) -> None:
        """Move by a number of screens."""

    def on_scroll_down(self, message: ScrollDown) -> None:
        """Go one screen down after a click below the thumb of the scrollbar."""
        message.prevent_default().stop()
        self.action_pages(1)

    def on_scroll_up(self, message: ScrollUp) -> None:
        message.prevent_default().stop()
        self.action_pages(-1)


class Leaping(Message):
    """A key goes to an end of a list or a row.

    Attributes:
        token: The token that the cursor leaves; None in a list.
    """

    def __init__(self, token: int | None = None) -> None:
        super().__init__()
        self.token = token
