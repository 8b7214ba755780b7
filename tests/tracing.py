"""Which of tokfmt's functions run for one thing, and in which files: what a reader has to follow.

Counted with `sys.setprofile`, in this thread and in all that start meanwhile. What is counted is done for the second time
in a process, so that nothing is imported. Detection asks every format that is installed, a file each and more with each
plug-in: what runs only there is counted apart.

Each count has a goal of the design and the most it may be today, so that it cannot creep back; one that has come farther
takes the most along.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import tokfmt

HOME = f"{Path(tokfmt.__file__).parent}{os.sep}"
_ASKS = "registry.py", "candidates"  # where detection begins and ends


@dataclass
class Ran:
    """Files of tokfmt, relative to the package, that ran code, and those that did so to detect a format.

    `functions` are the named ones that ran, but to detect a format.
    """

    files: set[str] = field(default_factory=set)
    functions: set[tuple[str, str]] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)

    def of(self, folder: str) -> list[str]:
        return sorted(name for name in self.files if name.startswith(folder))

    def __str__(self) -> str:
        apart = sorted(self.asked - self.files)
        return f"{', '.join(sorted(self.files))}{'; to detect: ' if apart else ''}{', '.join(apart)}"


class Tracer:
    """Notes files while something is counted."""

    def __init__(self) -> None:
        self._now: Ran | None = None
        self._thread = threading.local()

    @contextmanager
    def counting(self) -> Iterator[Ran]:
        """What runs in here."""
        self._now = Ran()
        yield self._now
        self._now = None

    def note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(HOME) or code.co_name == "<module>":
            return
        name = code.co_filename.removeprefix(HOME)
        if (name, code.co_name) == _ASKS:
            self._thread.detecting = event == "call"
        if self._now is not None:
            detecting = getattr(self._thread, "detecting", False)
            (self._now.asked if detecting else self._now.files).add(name)
            if not detecting and not code.co_name.startswith("<"):
                self._now.functions.add((name, code.co_qualname))


@contextmanager
def traced() -> Iterator[Tracer]:
    """Watches this thread and those that start in here."""
    tracer = Tracer()
    threading.setprofile(tracer.note)
    sys.setprofile(tracer.note)
    try:
        yield tracer
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def row(name: str, ran: Ran, most: int, goal: int) -> str:
    """A line of the table."""
    return f"{name:9} {len(ran.files):3} files  most {most:3}  goal {goal:3}  {ran}"
