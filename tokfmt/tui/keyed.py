"""Keys typed (or pasted) faster than screens open: none is lost, and each goes where a slow typist's would."""

from __future__ import annotations

from collections import deque
from time import monotonic

from textual import events
from textual.app import App
from textual.dom import DOMNode
from textual.message_pump import MessagePump

_ROUNDS = 2  # a key comes back to the app and does something there; what that is told to a widget comes back again
_PATIENCE = 0.25  # seconds; a widget that is removed never answers


class Keyed(App[None]):
    """An app that sends a key to what has the focus when the one before has taken effect: `g11⏎` at once is a jump."""

    def __init__(self) -> None:
        super().__init__()
        self._keys: deque[events.Key] = deque()
        self._sent, self._since = 0, 0.0  # number of the key under way, 0 for none; since when
        self._numbered = 0

    async def on_event(self, event: events.Event) -> None:
        if not isinstance(event, events.Key) or event.is_forwarded:
            await super().on_event(event)
            return
        self._keys.append(event)
        if self._sent and monotonic() - self._since < _PATIENCE:
            self.set_timer(_PATIENCE, self._give_up)
        else:
            await self._send()

    async def _send(self) -> None:
        """Send the next key on its way."""
        self._sent = 0
        if self._keys:
            self._numbered += 1
            self._sent, self._since = self._numbered, monotonic()
            target = self.focused or self.screen
            await super().on_event(self._keys.popleft())
            self._follow(target, self._sent, _ROUNDS)

    def _follow(self, node: MessagePump, number: int, rounds: int) -> None:
        """Go the way of a key, from queue to queue behind it, up to the app."""
        above = node.parent if isinstance(node, DOMNode) else None
        if node is not self and above is not None:
            node.call_later(self._follow, above, number, rounds)
        elif rounds > 1:
            self.call_later(self._follow, self.focused or self.screen, number, rounds - 1)
        else:
            self.call_later(self._arrived, number)

    async def _arrived(self, number: int) -> None:
        if number == self._sent:
            await self._send()

    async def _give_up(self) -> None:
        if self._sent and monotonic() - self._since >= _PATIENCE:
            await self._send()
