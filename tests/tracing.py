"""Which of tokfmt's functions run for one thing, and in which files: what a reader has to follow.

Counted with `sys.setprofile`, in this thread and in all that start meanwhile. What is counted is done for the second time
in a process, so that nothing is imported. Detection asks every format that is installed, a file each and more with each
plug-in: what runs only there is counted apart.

Each count has a goal of the design and the most it may be today, so that it cannot creep back; one that has come farther
takes the most along.
"""

from __future__ import annotations

import dis
import functools
import gc
import inspect
import os
import sys
import threading
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import tokfmt

HOME = f"{Path(tokfmt.__file__).parent}{os.sep}"
_PLAIN = (str, bytes, int, float, bool, type(None), Path, Enum, type)
_SHORT = 16  # items of a collection up to which they are compared
_ASKS = "registry.py", "candidates"  # where detection begins and ends


@functools.cache
def _first(code: CodeType) -> int:
    """Return the offset of the instruction at which a generator begins; `setprofile` reports each resumption."""
    return next(one.offset for one in dis.get_instructions(code) if one.opname == "RESUME")


@dataclass
class Ran:
    """Files of tokfmt, relative to the package, that ran code, and those that did so to detect a format.

    `functions` are the named ones that ran, but to detect a format. `calls` counts the calls of all named functions, by
    function and arguments, and `opened` the opened files, by their absolute path.
    """

    files: set[str] = field(default_factory=set)
    functions: set[tuple[str, str]] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    calls: Counter[Hashable] = field(default_factory=Counter)
    opened: Counter[str] = field(default_factory=Counter)
    alive: dict[int, object] = field(default_factory=dict)

    @property
    def repeated(self) -> int:
        """How many calls repeat an earlier one: the same function, with equal arguments."""
        return self.calls.total() - len(self.calls)

    def called(self, name: str, code: CodeType, values: Mapping[str, Any]) -> None:
        """Count a call; the arguments are the first local variables."""
        count = code.co_argcount + code.co_kwonlyargcount
        arguments = tuple(self._compared(values[word]) for word in code.co_varnames[:count] if word in values)
        self.calls[name, code.co_qualname, arguments] += 1

    def _compared(self, value: object) -> Hashable:
        """Return what a value is compared by: plain ones by themselves, others by identity."""
        if isinstance(value, _PLAIN):
            return type(value), value
        if isinstance(value, (tuple, list, set, frozenset)) and len(value) <= _SHORT:
            return type(value), tuple(map(self._compared, value))
        if isinstance(value, dict) and len(value) <= _SHORT:
            return type(value), tuple((self._compared(key), self._compared(item)) for key, item in value.items())
        self.alive[id(value)] = value  # Another object must not get its identity.
        return id(value)

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
        """What runs in here, and which files are opened."""
        gc.collect()  # what earlier tests left behind is closed now, not while this is counted
        gc.disable()
        self._now = _opening.ran = Ran()
        try:
            yield self._now
        finally:
            self._now = _opening.ran = None
            gc.enable()

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
            if code.co_name.startswith("<"):
                return
            if event == "call" and not (code.co_flags & inspect.CO_GENERATOR and frame.f_lasti > _first(code)):
                self._now.called(name, code, frame.f_locals)
            if not detecting:
                self._now.functions.add((name, code.co_qualname))


class _Opening:
    """The count of opened files. An audit hook cannot be removed, so there is one."""

    def __init__(self) -> None:
        self.ran: Ran | None = None
        sys.addaudithook(self.note)

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and self.ran is not None and isinstance(arguments[0], (str, os.PathLike)):
            self.ran.opened[os.path.abspath(arguments[0])] += 1


_opening = _Opening()


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
