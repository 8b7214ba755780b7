"""Word errors and notes for Python: keywords instead of options of the command line."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import index
from typing import ParamSpec, Protocol, SupportsIndex, TypeVar, cast, runtime_checkable

from tokfmt.core.errors import OptionError, TokfmtError, missing_package
from tokfmt.core.messages import python_words, reword

P = ParamSpec("P")
R = TypeVar("R")
_FLAGS = {
    "overwrite", "resume", "verify", "dry-run", "deep", "samples", "ignore-order", "ignore-manifest", "recursive",
    "checksums", "allow-partial",
}  # fmt: skip
_LEAST = {"jobs": 1, "sample": 1, "vocab_size": 1, "seq_len": 1, "limit": 0}
READING = {"from": "format", "from-opt": "options"}
CONVERTING = {"from": "from_format", "from-opt": "from_options", "to": "to_format", "to-opt": "to_options"}
_VALUE = r"'[^']*'|\"[^\"]*\"|[A-Z][A-Z_|]*|-?\d+|[a-z][\w-]*(?:=(?:[\w.-]+(?:,[a-z][\w-]*=[\w.-]+)*)?)?"
_WORD = rf"(?<![\w-])--([a-z][a-z-]*)(?:[ =]((?:{_VALUE})(?![\w-]))|:)?"
_COMMAND = r"(tokfmt [a-z]+ (?:[^.;)]|\.(?=[\w/]))*)"  # a dot inside a path does not end it
_DROPS = r"--drop [a-z][a-z-]*(?: --drop [a-z][a-z-]*)*"


def in_python(message: str, renamed: Mapping[str, str]) -> str:
    """A message with Python's keywords instead of options of the command line.

    Args:
        message: Such as "already exists. --overwrite replaces it".
        renamed: Keywords that are not named as their options are.
    """
    parts = re.split(_COMMAND, message)
    for k, part in enumerate(parts):
        if k % 2 == 0:  # between commands that are quoted as such
            said = re.sub(_DROPS, lambda found: _drop(found[0].split()[1::2]), part)
            parts[k] = re.sub(_WORD, lambda found: _keyword(found[0], found[1], found[2], renamed), said)
    return "".join(parts)


def _drop(words: Sequence[str]) -> str:
    return f'drop="{words[0]}"' if len(words) == 1 else "drop=[" + ", ".join(f'"{word}"' for word in words) + "]"


def _keyword(whole: str, option: str, value: str | None, renamed: Mapping[str, str]) -> str:
    name = renamed.get(option, option.replace("-", "_"))
    rest = "" if value is None else whole[len(option) + 2 :]
    if option in _FLAGS:
        return f"{name}=True{rest}"
    if option == "no-manifest":
        return f"manifest=False{rest}"
    from tokfmt.registry import names

    if value is not None and value[0] in "'\"":
        return f"{name}={value}"
    key, sign, setting = (value or "").partition("=")
    if sign and name.endswith("options"):
        return f'{name}={{"{key}": "{setting}"}}' if setting else f'{name}={{"{key}": ...}}'
    if sign:
        return f'{name}="{value}"'
    if whole.endswith(":"):
        return f"{name}:"
    if value == "none" or (option in ("from", "to") and value in names()):
        return f'{name}="{value}"'
    if value is not None and (value.lstrip("-").isdigit() or value.isupper()):
        return f"{name}={value}"
    return f"{name}={rest}"  # what follows are words of the sentence


def spoken(renamed: Mapping[str, str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Errors and notes of a function in Python's words."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in _LEAST.keys() & kwargs.keys():
                number, least = kwargs[name], _LEAST[name]
                if number is None:
                    continue
                if isinstance(number, bool) or not isinstance(number, SupportsIndex) or index(number) < least:
                    raise OptionError(f"{name}={number!r}: expected a whole number, at least {least}", name=name)
                if index(number) > sys.maxsize:
                    raise OptionError(f"{name}={number!r}: expected a whole number, at most {sys.maxsize}", name=name)
            try:
                return cast("R", _reworded(function(*args, **kwargs), renamed))
            except TokfmtError as error:
                error.reword(python_words(renamed))
                error.args = (in_python(str(error), renamed), *error.args[1:])
                raise
            except ModuleNotFoundError as error:
                raise missing_package(error, f"tokfmt.{function.__name__}") from error

        return call

    return decorated


@runtime_checkable
class Noted(Protocol):
    """A result whose notes can be replaced, such as a Dataset."""

    inferred: tuple[str, ...]
    notes: tuple[str, ...]


def _reworded(result: object, renamed: Mapping[str, str]) -> object:
    """Return the result of a function with its notes in Python's words."""
    from tokfmt.ops.convert.request import Conversion

    def worded(notes: Iterable[str]) -> list[str]:
        return [in_python(reword(note, python_words(renamed)), renamed) for note in notes]

    if isinstance(result, Noted):
        result.inferred, result.notes = tuple(worded(result.inferred)), tuple(worded(result.notes))
    elif isinstance(result, Conversion):
        return replace(result, notes=worded(result.notes))
    return result
