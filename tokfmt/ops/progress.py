"""How far a command is: told to whoever wants to draw it. The CLI draws; the library is silent."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Phases come one after the other; `advance` counts units of the current one."""

    def phase(self, name: str, total: int, unit: str) -> None:
        """A new phase: what is done ("writing"), how much of it, in which unit ("tokens", "bytes")."""

    def advance(self, amount: int) -> None:
        """So much more is done."""

    def note(self, text: str) -> None:
        """Something a person should know: an inferred fact, a defect that changes no token."""


class Silent:
    """Nobody is watching."""

    def phase(self, name: str, total: int, unit: str) -> None:
        """Say nothing."""

    def advance(self, amount: int) -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Say nothing."""
