"""Formats of other packages, as if they were installed: for this process only."""

import functools
import itertools
import sys
from importlib.metadata import EntryPoint
from types import SimpleNamespace

from tokfmt import registry

_numbers = itertools.count()


def plugged(monkeypatch, format_):
    """Make a format known by its name; its module gets a name of its own, as loaded formats are remembered."""
    module = f"plugged_{next(_numbers)}"
    monkeypatch.setitem(sys.modules, module, SimpleNamespace(FORMAT=format_))
    points = {**registry._points(), format_.name: EntryPoint(format_.name, f"{module}:FORMAT", registry.GROUP)}
    monkeypatch.setattr(registry, "_points", lambda: points)
    monkeypatch.setattr(registry, "get", functools.cache(registry.get.__wrapped__))
    monkeypatch.setattr(registry, "_usable", functools.cache(registry._usable.__wrapped__))
    return format_
