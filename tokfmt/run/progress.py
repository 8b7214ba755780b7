"""Progress of a command: the command line draws it, the library discards it."""


class Progress:
    """Receiver of progress, which discards it. Phases follow each other; `advance` counts units of the latest phase."""

    def phase(self, name: str, total: int, unit: str) -> None:
        """Begin a phase: its name ("writing"), its total, and its unit ("tokens", "bytes")."""

    def advance(self, amount: int) -> None:
        """Report `amount` more units, possibly 0. An error that this raises ends the work."""

    def note(self, text: str) -> None:
        """Report a note: an inferred fact, or a defect that changes no token."""
