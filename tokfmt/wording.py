"""Reword the errors and notes of the public functions for Python: keywords instead of options."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import is_dataclass, replace
from typing import ParamSpec, Protocol, TypeVar, cast, runtime_checkable

from tokfmt.core.errors import TokfmtError, missing_package
from tokfmt.core.messages import python_words, reword
from tokfmt.core.named import allowing
from tokfmt.core.options import fit

P = ParamSpec("P")
R = TypeVar("R")
_MINIMUM = {"jobs": 1, "sample": 1, "vocab_size": 1, "seq_len": 1, "limit": 0}


def spoken(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function: check its numeric keywords, and reword its errors and notes for Python.

    Keywords `storage_options` and `allow_source` are those of all functions that open datasets, and are used here.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in _MINIMUM.keys() & kwargs.keys():
            kwargs[name] = fit(name, kwargs[name], int | None, {"minimum": _MINIMUM[name], "maximum": sys.maxsize})
        try:
            if kwargs.get("storage_options") is not None:
                from tokfmt.remote.options import StoreOptions, configure

                configure(StoreOptions.of(cast("Mapping[str, object]", kwargs["storage_options"])))
            with allowing(cast("str | Iterable[str]", kwargs.get("allow_source", ()))):
                return cast("R", _reworded(function(*args, **kwargs)))
        except TokfmtError as error:
            error.reword(python_words)
            raise
        except ModuleNotFoundError as error:
            raise missing_package(error, f"tokfmt.{function.__name__}") from error

    return call


@runtime_checkable
class Noted(Protocol):
    """A result whose notes can be replaced, such as a Dataset."""

    inferred: tuple[str, ...]
    notes: tuple[str, ...]


def _reworded(result: object) -> object:
    """Return the result of a function with its notes reworded for Python."""

    def worded(notes: Iterable[str]) -> list[str]:
        return [reword(note, python_words) for note in notes]

    notes = getattr(result, "notes", None)
    if isinstance(result, Noted):
        result.inferred, result.notes = tuple(worded(result.inferred)), tuple(worded(result.notes))
    elif is_dataclass(result) and not isinstance(result, type) and isinstance(notes, list | tuple):
        return replace(result, notes=type(notes)(worded(notes)))
    return result
