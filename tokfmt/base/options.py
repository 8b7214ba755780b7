"""Read what a user gives by the types of the fields of frozen dataclasses: options, keywords, keys of recipes.

The type of an option of a format is `int`, `str`, `bool`, `Literal[...]`, or one of these with `| None`. `option()`
puts its help and its bounds into `field(metadata=...)`. There are no `**kwargs`, and an unknown option is an error.

`fit` is the only judge of values: the command line, Python and recipes refuse the same values in the same words.
"""

from __future__ import annotations

import difflib
import functools
import os
import re
import sys
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from importlib import import_module
from numbers import Real
from operator import index
from typing import Any, Literal, SupportsIndex, TypeVar, cast

from tokfmt.errors import OptionError, missing_package
from tokfmt.wording import grouped, one_of, printable, shortened

T = TypeVar("T")
_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_SUFFIXES |= {"b": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_TOO_LARGE = 10**21  # above 2^64, so that a seed or an ID that is too large has a message of its own
_ROOM = 40  # characters of a value in a message
_MOST = 1 << 1000  # a float holds any number below it
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "Fraction": "a number",
    "str": "text",
    "bool": "true or false",
    "tuple": "a list of text",
}
_TYPES = (type, types.GenericAlias)


class LazyAttribute:
    """An attribute of a format that is imported on first access: a function, a class or a table.

    Detection asks every format, and only one is read, so the reader, the writer and the check of a format are in
    separate modules. If a package is missing, the error lists all missing packages of the format's `packages`. A table
    of codes or repairs becomes a function that returns it.
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


def option(default: T, text: str = "", *, minimum: int | None = None, maximum: int | None = None) -> T:
    """Return a dataclass field for an option.

    Args:
        default: The default value.
        text: One line of help for `tokfmt formats NAME`.
        minimum: The smallest number that is accepted; None: no limit.
        maximum: The largest number that is accepted; None: no limit.
    """
    return field(default=default, metadata={"help": text, "minimum": minimum, "maximum": maximum})


def parse_count(text: str, *, of_bytes: bool = False) -> int:
    """Parse a whole number: `1_000_000`, `1,000,000`, `1e6`, `10M`, `4Ki`, `2B` (2e9). If it is `of_bytes`, `B` at the
    end is their unit, as in `10MB`.
    """
    plain = text.strip().replace("_", "")
    if re.match(r"-?[1-9]\d{0,2}(,\d{3})+(?![\d,])", plain):  # `0,1` is a list, not the number 1.
        plain = plain.replace(",", "")
    if of_bytes:
        plain = plain.removesuffix("B")
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?(?:[eE]\+?\d+)?)\s*([kmgt]i?|b)?", plain, re.IGNORECASE)
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
    """Build an options dataclass, whose fields all have defaults, from `key=value` words or a mapping."""
    known, hints = {f.name: f for f in fields(cast("Any", kind))}, hints_of(cast("Any", kind))
    given: dict[str, object] = {}
    for name, value in given_options(pairs).items():
        key = name.replace("-", "_")
        if key not in known:
            listed = ", ".join(known) or "none"
            raise OptionError(
                f"{owner} has no option {name!r} (expected {listed})", name=name, nearest=nearest(key, known)
            )
        hint, what = hints[key], f"{owner} option {key}"
        try:
            typed = None if value is None else _typed(str(value), kinds_of(hint))
        except OptionError as error:
            raise OptionError(f"{what}: {error}", name=key) from error
        given[key] = fit(what, typed, hint, known[key].metadata, name=key)
    return kind(**given)


def watched(options: T, names: Iterable[str]) -> tuple[T, set[str]]:
    """Return equal options, and the names of those that are not the default; what is read of them goes from the set."""
    kind: Any = type(options)
    usual, held = kind(), {one.name: getattr(options, one.name) for one in fields(kind)}
    unread = {name for name in names if held[name] != getattr(usual, name)}
    if not unread:
        return options, unread

    def read(self: object, name: str) -> object:
        unread.discard(name)
        return object.__getattribute__(self, name)

    as_before = {"__reduce__": lambda _: (kind, tuple(held.values())), "__slots__": ()}
    return type(kind.__name__, (kind,), {**as_before, "__getattribute__": read})(**held), unread


def _typed(text: str, kinds: Sequence[Any]) -> object:
    """Return the value that a word of the command line stands for, for a field of some kinds."""
    if type(None) in kinds and text.lower() in ("none", "auto"):
        return None
    if bool in kinds:
        return _TRUTH.get(text.lower(), text)
    return parse_count(text) if int in kinds else text


def fit(what: str, value: object, hint: Any, bounds: Mapping[str, Any] | None = None, *, name: str = "") -> Any:
    """Return a value in the type of a field. Every option, keyword and key of a recipe passes here. A whole number may
    be a float or a number of numpy, and a list of text may be one text. `hint` is `int`, `float`, `Fraction`, `str`,
    `bool`, `tuple[str, ...]`, `Literal[...]`, or a union of some of these and None. `bounds` are the `minimum` and the
    `maximum` of a number, as `option` has them. `name` is that of the option (default: `what`).
    """
    low, high = (bounds or {}).get("minimum"), (bounds or {}).get("maximum")
    kinds = kinds_of(hint)
    for kind in kinds:
        if (fitting := _in_kind(value, kind, low, high)) is not None:
            return fitting
    if value is None and type(None) in kinds:
        return None
    words = [str(kind) for kind in kinds if isinstance(kind, str | int)]
    names = [_NAMES[kind.__name__] for kind in kinds if isinstance(kind, _TYPES) and kind is not type(None)]
    limits = _limits(low, None if high == sys.maxsize and not (isinstance(value, int) and value > high) else high)
    expected = one_of([*(f"{one}{limits}" if "number" in one else one for one in names), *words])
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        found = grouped(index(value))
    else:
        found = printable(shortened(repr(value), _ROOM))
    near = nearest(value, words) if isinstance(value, str) else None
    raise OptionError(what, name=name or what, nearest=near, expected=expected, found=found)


def _in_kind(value: Any, kind: Any, low: float | None, high: float | None) -> Any:
    """Return a value as a word of a `Literal`, or in a type; None if it is not of that kind, or out of bounds."""
    if isinstance(kind, str | int):
        return kind if str(value) == str(kind) else None
    if kind in (str, bool):
        return value if isinstance(value, kind) else None
    if kind == tuple[str, ...]:
        listed = [value] if isinstance(value, str | os.PathLike) else value
        is_text = isinstance(listed, Sequence) and all(isinstance(one, str | os.PathLike) for one in listed)
        return tuple(map(str, listed)) if is_text else None
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if kind is type(None) or not is_number or not abs(value) < _MOST or (kind is int and value != int(value)):
        return None
    found = int(value) if kind is int else kind(str(value))
    return found if (low is None or low <= found) and (high is None or found <= high) else None


def _limits(low: float | None, high: float | None) -> str:
    if low is None:
        return "" if high is None else f" of at most {high:,}"
    return f" of at least {low:,}" if high is None else f" from {low:,} to {high:,}"


@functools.cache
def hints_of(kind: type) -> dict[str, Any]:
    """Return the type of each field of a dataclass."""
    return typing.get_type_hints(kind)


def kinds_of(hint: Any) -> tuple[Any, ...]:
    """Return the types of a union, and the words of a `Literal`."""
    if typing.get_origin(hint) is Literal:
        return typing.get_args(hint)
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return tuple(kind for one in typing.get_args(hint) for kind in kinds_of(one))
    return (hint,)


def given_options(pairs: Iterable[str] | Mapping[str, object]) -> Mapping[str, object]:
    """Return options by name, from `key=value` words (one word may be a plain str), or from a mapping, unchanged."""
    if isinstance(pairs, Mapping):
        return pairs
    found: dict[str, object] = {}
    for word in (pairs,) if isinstance(pairs, str) else pairs:
        name, sign, value = word.partition("=")
        if not sign:
            raise OptionError(f"{word!r} is not of the form key=value", name=word)
        found[name.strip()] = value.strip()
    return found


def choices(kind: type, name: str) -> tuple[str, ...]:
    """Return the words that an option accepts; () if the option does not exist, or accepts any text."""
    hint = hints_of(kind).get(name)
    return tuple(map(str, typing.get_args(hint))) if typing.get_origin(hint) is Literal else ()


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a format.

    Attributes:
        type: The values that it accepts.
        default: The default; empty without one.
    """

    name: str
    type: str
    default: str
    help: str


def described(kind: type) -> list[Option]:
    """Return the name, type, default and help of each option, for `tokfmt formats NAME`."""
    kinds = {name: [one for one in kinds_of(hint) if one is not type(None)] for name, hint in hints_of(kind).items()}
    return [
        Option(
            name=f.name,
            type="|".join(
                "list" if one == tuple[str, ...] else getattr(one, "__name__", str(one)) for one in kinds[f.name]
            ),
            default=""
            if f.default is MISSING or f.default == ()
            else ("auto" if f.default is None else str(f.default)),
            help=f.metadata.get("help", ""),
        )
        for f in fields(kind)
    ]
