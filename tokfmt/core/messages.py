"""Messages that name options, worded for the command line, for Python and for recipes.

A message is written once, where its fact is known, and names each option by an `Option`:

    FormatError(path, "ends inside a token", remedy=f"{allowing('tail')} leaves the last bytes out")

    on the command line     --allow-loss tail leaves the last bytes out
    in `tokfmt.open`        allow_loss="tail" leaves the last bytes out

In an f-string, an `Option` is written between code points that no text holds. `Message` parses them. Errors, findings
and notes of datasets convert each of their texts to a `Message`. As a `str`, a `Message` has the words of the command
line; other interfaces call `reworded`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Self

FLAGS = frozenset({
    "overwrite", "resume", "verify", "dry-run", "deep", "samples", "ignore-order", "ignore-manifest", "recursive",
    "checksums", "allow-partial", "ledger",
})  # fmt: skip
"""Options that take no value on the command line."""
_BEGIN, _BETWEEN, _END = "\ufdd0", "\ufdd1", "\ufdd2"
_MARKED = re.compile(f"{_BEGIN}([a-z-]+)((?:{_BETWEEN}[^{_BETWEEN}{_END}]*)*){_END}")


class Option:
    """An option that a message names.

    Attributes:
        name: The name on the command line without hyphens: "from-opt".
        values: The values, such as "none" or "width=4", or a placeholder in capitals, such as "ID". Empty for the
            option alone; several for a repeated option.
    """

    __slots__ = ("name", "values")

    def __init__(self, name: str, *values: object) -> None:
        self.name, self.values = name, tuple(map(str, values))

    def __str__(self) -> str:
        """Return the option in the words of the command line."""
        return " ".join(f"--{self.name} {value}" for value in self.values) or f"--{self.name}"

    def __format__(self, spec: str) -> str:
        """Return the option between marks, for a text that becomes a `Message`."""
        return f"{_BEGIN}{self.name}{''.join(f'{_BETWEEN}{value}' for value in self.values)}{_END}"


def from_option(name: str, value: object = "") -> Option:
    """Return a read option of a format: `--from-opt width=4`."""
    return Option("from-opt", f"{name}={value}")


def to_option(name: str, value: object = "") -> Option:
    """Return a write option of a format: `--to-opt width=4`."""
    return Option("to-opt", f"{name}={value}")


def allowing(*losses: str) -> Option:
    """Return the option that accepts losses by their names: `--allow-loss fields --allow-loss tail`."""
    return Option("allow-loss", *losses)


Words = Callable[[Option], "str | Option"]
"""The words of an interface for an option. It returns an option unchanged if the interface around it words it."""


class Message(str):
    """Text that names options. As a `str`, it has the words of the command line.

    Attributes:
        parts: The text, cut at its options.
    """

    __slots__ = ("parts",)
    parts: tuple[str | Option, ...]

    def __new__(cls, text: str) -> Self:
        """Parse the options in a text."""
        if isinstance(text, cls):
            return text
        parts = list[str | Option]()
        end = 0
        for found in _MARKED.finditer(text):
            parts += [text[end : found.start()], Option(found[1], *found[2].split(_BETWEEN)[1:])]
            end = found.end()
        return cls._of([*parts, text[end:]])

    @classmethod
    def _of(cls, parts: Iterable[str | Option]) -> Self:
        kept = tuple(part for part in parts if part)
        self = super().__new__(cls, "".join(map(str, kept)))
        self.parts = kept
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Message, (self.marked,)

    @property
    def marked(self) -> str:
        """The text with its options between marks, for use in another message."""
        return "".join(f"{part}" for part in self.parts)

    def reworded(self, words: Words) -> Message:
        """Return the message with its options in the words of another interface."""
        parts = [words(part) if isinstance(part, Option) else part for part in self.parts]
        for k, (part, after) in enumerate(pairwise(self.parts)):
            if isinstance(part, Option) and not part.values and str(after).startswith(":"):
                parts[k] = str(parts[k]).removesuffix("=")  # "--seed: ..." is about the option, so no value follows.
            if part == " " and k > 0 and isinstance(self.parts[k - 1], Option) and isinstance(after, Option):
                parts[k] = ", "  # The options are used together.
        return Message._of(parts)

    def has_option(self, name: str) -> bool:
        """Return whether the message names an option."""
        return any(isinstance(part, Option) and part.name == name for part in self.parts)

    def without(self, name: str) -> Message:
        """Return the message without an option that follows another one directly."""
        parts = list(self.parts)
        for k in reversed(range(1, len(parts))):
            part = parts[k]
            if isinstance(part, Option) and part.name == name and parts[k - 1] == " ":
                del parts[k - 1 : k + 1]
        return Message._of(parts)

    def with_texts(self, change: Callable[[str], str]) -> Message:
        """Return the message with a function applied to its texts, and its options unchanged."""
        return Message._of(part if isinstance(part, Option) else change(part) for part in self.parts)


def marked(text: str) -> str:
    """Return a text with its options between marks, for use in another message."""
    return text.marked if isinstance(text, Message) else text


def reword(text: str, words: Words) -> str:
    """Return a text in the words of another interface. Text without options is unchanged."""
    return Message(text).reworded(words)


_KEYWORDS = {
    "from": "format",
    "from-opt": "options",
    "to": "to_format",
    "to-opt": "to_options",
    "store-opt": "storage_options",
}
"""Keywords that differ from the names of their options."""


def python_words(option: Option) -> str:
    """Return the words of a Python function for an option: a keyword and its value."""
    name = _KEYWORDS.get(option.name, option.name.replace("-", "_"))
    if option.name in FLAGS:
        return f"{name}=True"
    if option.name == "no-manifest":
        return "manifest=False"
    if len(option.values) != 1:
        return f"{name}=[{', '.join(map(_literal, option.values))}]" if option.values else f"{name}="
    key, is_setting, setting = option.values[0].partition("=")
    if (is_setting and option.name in ("from-opt", "to-opt")) or option.name == "store-opt":
        return f'{name}={{"{key}": {_literal(setting) if setting else "..."}}}'
    return f"{name}={_literal(option.values[0])}"


def _literal(value: str) -> str:
    """Return a value as Python code. Placeholders in capitals are not quoted."""
    if value.lstrip("-").isdigit() or value.isupper() or value[:1] in "'\"":
        return value
    return f'"{value}"'


def recipe_words(option: Option) -> str | Option:
    """Return an option of a source as a key of a recipe. Other options are returned unchanged."""
    value = option.values[0] if option.values else ""
    setting, is_setting, of_setting = value.partition("=")
    if option.name == "eos":
        return f"eos = {_toml(value or 'ID')} in the recipe"
    if option.name == "text-field":
        return f"text = {_toml(value or 'NAME')} in the recipe"
    if option.name == "from" and value:
        return f"format = {_toml(value)}"
    if option.name == "from-opt" and is_setting:
        return f"options = {{ {setting} = {_toml(of_setting)} }} in the recipe"
    return option


def _toml(value: str) -> str:
    """Return a value in TOML. Numbers and the placeholders ID and N are not quoted."""
    return value if value.lstrip("-").isdigit() or value in ("ID", "N") else f'"{value}"'
