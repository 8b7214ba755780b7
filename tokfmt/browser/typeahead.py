"""Keys that are typed ahead, as over a slow connection: each reaches the screen that the key before it opened or left.

Textual gives a key to the widget that has the focus when the key arrives. Of `gg` or `/word` in one packet, the second
key would therefore go to the list, below the question that the first key opens, and be lost. A message that follows a
key on its way through the widgets tells when they are done with it; until then, later keys wait.
"""

from __future__ import annotations

from collections import deque

from textual.app import App
from textual.events import Event, Key, Paste
from textual.message import Message
from textual.message_pump import MessagePump
from textual.widgets import Input

_MOVES = frozenset({"down", "up", "left", "right", "pagedown", "pageup", "h", "j", "k", "l"})
"""Keys that open and leave nothing on a screen without a line to type in, and that are held down."""

_ROUNDS = 2
"""Ways that a message follows: that of the key, and that of the answer of a question."""

_PATIENCE = 1.0  # seconds, for a widget that was removed with the message


class Passed(Message):
    """Follows a key from the widget with the focus to the app."""

    def __init__(self, target: MessagePump) -> None:
        super().__init__()
        self.target = target


class TypeAhead(App[None]):
    """An app that gives each key to the screen that the keys before it lead to."""

    _follower: Passed | None = None  # of the key that is on its way
    _left = 0  # rounds of the follower

    def __init__(self) -> None:
        super().__init__()
        self._held = deque[Event]()

    async def on_event(self, event: Event) -> None:
        """Handle an event; a key waits for the one before it."""
        typed = isinstance(event, (Key, Paste)) and not event.is_forwarded
        if not typed:
            await super().on_event(event)
        elif self._follower is not None:
            self._held.append(event)
        else:
            await self._give(event)

    async def _give(self, event: Event) -> None:
        """Give a key to the widget with the focus, and send a message after it."""
        target = self.focused or self.screen
        into_line = isinstance(target, Input)
        leads_on = isinstance(event, Key) and (into_line or event.key not in _MOVES)
        await super().on_event(event)
        if leads_on:
            self._left = _ROUNDS
            self._follow(target)

    def _follow(self, target: MessagePump) -> None:
        self._left -= 1
        self._follower = follower = Passed(target)
        if target.post_message(follower):
            self.set_timer(_PATIENCE, lambda: self.post_message(follower) if self._follower is follower else None)
        else:
            self.post_message(follower)

    async def on_passed(self, message: Passed) -> None:
        """Send the message once more, or give out the keys that wait."""
        if message is not self._follower:
            return
        if self._left:
            self._follow(message.target)
            return
        self._follower = None
        while self._held and self._follower is None:
            await self._give(self._held.popleft())

    def action_help_quit(self) -> None:
        """Say how to quit, as Ctrl+C does not: it may be pressed to copy."""
        self.notify("q quits.")

    @property
    def is_typing(self) -> bool:
        """Return whether keys are on their way."""
        return self._follower is not None or bool(self._held)
