"""One package a format: byte table, options, reader, writer, checker, FORMAT.

Calling the package lists the formats: `tokfmt.formats()` is `tokfmt.registry.formats()`, under the name of its home.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self) -> Any:
        """Every format installed: a list of objects with `name`, `title`, `extensions`, and options; prints as such."""
        # by name: formats are below the registry, and may not import it
        return import_module("tokfmt.registry").formats()


sys.modules[__name__].__class__ = _Callable
