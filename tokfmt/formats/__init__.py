"""The formats of tokfmt: one module or package each, with byte table, options, reader, writer, check and `FORMAT`.

The package can be called: `tokfmt.formats()` is `tokfmt.registry.formats()`.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self) -> Any:
        """Return the installed formats, a list of objects with `name`, `title`, `extensions` and options."""
        # The import is dynamic because formats are a layer below the registry.
        return import_module("tokfmt.registry").formats()


sys.modules[__name__].__class__ = _Callable
