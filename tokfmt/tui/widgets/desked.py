"""A widget with a desk: work is done on a thread, its result comes back as a message; stale ones are dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.message import Message
from textual.widget import Widget

from tokfmt.tui.jobs import Desk


class Fetched(Message):
    """What a widget asked its desk for is there.

    Attributes:
        generation: Of the wish; an older one than the widget's own is stale.
        then: What to do with it, on the thread of the screen.
    """

    def __init__(self, generation: int, then: Callable[[], object]) -> None:
        super().__init__()
        self.generation, self.then = generation, then


class Desked(Widget):
    """Mixed into widgets that read. Count `generation` up when what was asked for is no longer wanted."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.generation = 0
        self.desk = Desk(self._failed)

    def ask(self, work: Callable[[], Any], then: Callable[[Any], object]) -> None:
        """Do `work` on the desk, then `then` with its result here, unless the generation has changed.

        The last wish replaces one that has not been begun.
        """
        generation = self.generation

        def run() -> None:
            result = work()
            self.post_message(Fetched(generation, lambda: then(result)))

        self.desk.ask(run)

    def on_fetched(self, message: Fetched) -> None:
        message.stop()
        if message.generation == self.generation:
            message.then()

    def _failed(self, error: Exception) -> None:
        text = f"unexpected {type(error).__name__}: {error}"
        generation = self.generation
        self.post_message(Fetched(generation, lambda: self.notify(text, severity="error", markup=False)))

    def on_unmount(self) -> None:
        self.desk.close()
