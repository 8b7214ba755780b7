"""Options of formats: frozen dataclasses, parsed by the types of their fields.

The type of a field is `int`, `str`, `bool`, `Literal[...]`, or one of these with `| None`. `option()` puts its help and
its bounds into `field(metadata=...)`. There are no `**kwargs`, and an unknown option is an error.
"""

from __future__ import annotations

import difflib
import functools
import re
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, field, fields
from importlib import import_module
from typing import Any, Literal, TypeVar, cast

from tokfmt.core.errors import OptionError, missing_package
from tokfmt.core.text_format import shortened

T = TypeVar("T")
_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SUFFIXES |= {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_TOO_LARGE = 10**21  # above 2^64, so that a seed or an ID that is too large has a message of its own
_ROOM = 40  # characters of a typed number in a message


class LazyAttribute:
    """An attribute of a format that is imported on first access: a function, a class or a table.

    Detection asks every format, and only one is read, so the reader, the writer and the check of a format are in
    separate modules. If a package is missing, the error lists all missing packages of the format's `packages`.

    Args:
        module: Module of the attribute.
        name: Name of the attribute. A table of codes or repairs becomes a function that returns it.
    """

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:  # ABCMeta looks the attribute up to find out whether the class is abstract.
            return self
        try:
            found = getattr(import_module(self.module), self.name)
        except ModuleNotFoundError as error:
            needs = getattr(instance, "packages", ())
            raise missing_package(error, getattr(instance, "name", self.module), needs) from error
        return found if callable(found) else lambda: found


def option(default: T, text: str, *, minimum: int | None = None, maximum: int | None = None) -> T:
    """Return a dataclass field for an option.

    Args:
        default: The default value.
        text: One line of help for `tokfmt formats NAME`.
        minimum: The smallest number that is accepted; None: no limit.
        maximum: The largest number that is accepted; None: no limit.
    """
    return field(default=default, metadata={"help": text, "minimum": minimum, "maximum": maximum})


def parse_count(text: str) -> int:
    """Parse a whole number: `1_000_000`, `1,000,000`, `1e6`, `10M`, `4Ki`.

    Raises:
        OptionError: If it is not a whole number, or has more than 21 digits.
    """
    plain = text.strip().replace("_", "")
    if re.match(r"-?[1-9]\d{0,2}(,\d{3})+(?![\d,])", plain):  # `0,1` is a list, not the number 1.
        plain = plain.replace(",", "")
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?(?:[eE]\+?\d+)?)\s*([kmgt]i?)?b?", plain, re.IGNORECASE)
    if match:
        try:
            value = float(match[1]) if re.search(r"[.eE]", match[1]) else int(match[1])
            scaled = value * _SUFFIXES[(match[2] or "").lower()]
            whole = int(scaled)
        except (OverflowError, ValueError):  # beyond a float, or more digits than Python converts
            whole, scaled = _TOO_LARGE, _TOO_LARGE
        if abs(whole) >= _TOO_LARGE:
            raise OptionError(f"{_shown(text)} is too large (expected less than 1e21). Write a smaller number")
        if scaled == whole:
            return whole
    raise OptionError(
        f"{_shown(text)} is not a whole number (expected a number such as 4096, 1_000_000, 1e6, 10M or 4Ki)"
    )


def _shown(text: str) -> str:
    return shortened(repr(text), _ROOM)


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """Return the choice that is most similar to `name`; None if no choice is similar."""
    return next(iter(difflib.get_close_matches(name, list(choices), n=1)), None)


def parse_options(kind: type[T], pairs: Iterable[str] | Mapping[str, object], owner: str) -> T:
    """Build an options dataclass from `key=value` words, or from a mapping of values.

    Args:
        kind: A frozen dataclass whose fields all have defaults.
        pairs: Words such as `layout=A`, or {"layout": "A"}.
        owner: The format, for messages ("modalities").

    Raises:
        OptionError: If an option is unknown (the message has the nearest one), a value has the wrong type, or a number
            is out of bounds.
    """
    hints = _hints(cast("Any", kind))
    known = {f.name: f for f in fields(cast("Any", kind))}
    given: dict[str, object] = {}
    for name, value in given_options(pairs).items():
        key = name.replace("-", "_")
        if key not in known:
            listed = ", ".join(known) or "none"
            raise OptionError(
                f"{owner} has no option {name!r} (expected {listed})", name=name, nearest=nearest(key, known)
            )
        given[key] = None if value is None else _value(str(value), hints[key], f"{owner} option {key}")
        _check_bounds(given[key], known[key].metadata, f"{owner} option {key}", key)
    return kind(**given)


def _check_bounds(value: object, bounds: Mapping[str, Any], what: str, name: str) -> None:
    minimum, maximum = bounds.get("minimum"), bounds.get("maximum")
    if not isinstance(value, int) or isinstance(value, bool):
        return
    if (minimum is not None and value < minimum) or (maximum is not None and value > maximum):
        allowed = f"{'' if minimum is None else f'{minimum:,}'}..{'' if maximum is None else f'{maximum:,}'}"
        raise OptionError(f"{what}: {value:,} is outside {allowed}", name=name)


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def given_options(pairs: Iterable[str] | Mapping[str, object]) -> Mapping[str, object]:
    """Return options by name, from `key=value` words (one word may be a plain str), or from a mapping, unchanged.

    Raises:
        OptionError: If a word has another form.
    """
    if isinstance(pairs, Mapping):
        return pairs
    found: dict[str, object] = {}
    for word in (pairs,) if isinstance(pairs, str) else pairs:
        name, sign, value = word.partition("=")
        if not sign:
            raise OptionError(f"{word!r} is not of the form key=value", name=word)
        found[name.strip()] = value.strip()
    return found


def _value(text: str, hint: Any, what: str) -> object:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        if text.lower() in ("none", "auto", ""):
            return None
        hint = next(a for a in typing.get_args(hint) if a is not type(None))
    if typing.get_origin(hint) is Literal:
        return _choice(text, typing.get_args(hint), what)
    if hint is bool:
        return _choice(text.lower(), ("true", "false", "yes", "no", "1", "0"), what) in ("true", "yes", "1")
    return parse_count(text) if hint is int else text


def _choice(text: str, choices: tuple[object, ...], what: str) -> object:
    for choice in choices:
        if text == str(choice):
            return choice
    words = [str(c) for c in choices]
    raise OptionError(f"{what}: {text!r} is not one of {', '.join(words)}", name=text, nearest=nearest(text, words))


def choices(kind: type, name: str) -> tuple[str, ...]:
    """Return the words that an option accepts; () if the option does not exist, or accepts any text."""
    hint = _hints(kind).get(name)
    return tuple(map(str, typing.get_args(hint))) if typing.get_origin(hint) is Literal else ()


def described(kind: type) -> list[dict[str, str]]:
    """Return the name, type, default and help of each option, for `tokfmt formats NAME`."""
    hints = _hints(kind)
    return [
        {
            "name": f.name,
            "type": _type_words(hints[f.name]),
            "default": "" if f.default is MISSING else ("auto" if f.default is None else str(f.default)),
            "help": f.metadata.get("help", ""),
        }
        for f in fields(kind)
    ]


def _type_words(hint: Any) -> str:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return "|".join(_type_words(a) for a in typing.get_args(hint) if a is not type(None))
    if typing.get_origin(hint) is Literal:
        return "|".join(str(a) for a in typing.get_args(hint))
    return str(getattr(hint, "__name__", hint))
