"""Messages that name options, worded for the command line, for Python and for recipes.

A message is written once, where its fact is known, and names each option by a value:

    Message(Option("drop", "tail"), " leaves the last bytes out")

    on the command line     --drop tail leaves the last bytes out
    of `tokfmt.open`        drop="tail" leaves the last bytes out

As a `str`, a message has the words of the command line. An interface with other words asks for them with `reworded`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

FLAGS = frozenset({
    "overwrite", "resume", "verify", "dry-run", "deep", "samples", "ignore-order", "ignore-manifest", "recursive",
    "checksums", "allow-partial", "ledger", "finish",
})  # fmt: skip
"""Options that take no value on the command line."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option that a message names.

    Attributes:
        name: As on the command line, without its hyphens: "from-opt".
        value: What the user gives, "none" or "width=4", with spaces between several; a placeholder in capitals, "ID";
            "" for the option alone.
        is_subject: The message is about the option, as "--seed: nothing is dealt out".
    """

    name: str
    value: str = ""
    is_subject: bool = False

    def __str__(self) -> str:
        """The option in the words of the command line; an option with several values is repeated."""
        return " ".join(f"--{self.name} {value}" for value in self.value.split()) or f"--{self.name}"


def reading(name: str, value: object = "") -> Option:
    """Return an option of the format that is read: `--from-opt width=4`."""
    return Option("from-opt", f"{name}={value}")


def writing(name: str, value: object = "") -> Option:
    """Return an option of the format that is written: `--to-opt width=4`."""
    return Option("to-opt", f"{name}={value}")


def allowing(*losses: str) -> Option:
    """Return the option that accepts losses by their names: `--drop fields --drop tail`."""
    return Option("drop", " ".join(losses))


Words = Callable[[Option], "str | Option"]
"""How an interface words an option; an option that it leaves as it is belongs to the interface around it."""


class Message(str):
    """Text that names options.

    Attributes:
        parts: The text, cut at its options.
    """

    __slots__ = ("parts",)
    parts: tuple[str | Option, ...]

    def __new__(cls, *parts: object) -> Self:
        """Join texts, options and messages; anything else is worded by `str`."""
        flat: list[str | Option] = []
        for part in parts:
            if isinstance(part, Message):
                flat += part.parts
            elif isinstance(part, Option):
                flat.append(part)
            else:
                flat.append(str(part))
        self = super().__new__(cls, "".join(map(str, flat)))
        self.parts = tuple(flat)
        return self

    def __add__(self, other: str) -> Message:
        return Message(self, other)

    def __radd__(self, other: str) -> Message:
        return Message(other, self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Message, self.parts

    def reworded(self, words: Words) -> Message:
        """Return the message with its options in the words of another interface."""
        return Message(*(words(part) if isinstance(part, Option) else part for part in self.parts))

    def with_texts(self, change: Callable[[str], str]) -> Message:
        """Return the message with its texts changed, and its options as they are."""
        return Message(*(part if isinstance(part, Option) else change(part) for part in self.parts))

    @staticmethod
    def joined(between: str, texts: Iterable[str]) -> Message:
        """Join texts and messages, as `str.join` does."""
        parts: list[str] = []
        for text in texts:
            parts += [between, text] if parts else [text]
        return Message(*parts)


def reword(text: str, words: Words) -> str:
    """Return a text in the words of another interface; text that names no options stays as it is."""
    return text.reworded(words) if isinstance(text, Message) else text


def python_words(renamed: Mapping[str, str]) -> Words:
    """Return how a function of Python words options: as keywords and their values.

    Args:
        renamed: Keywords that are not named as their options are, such as {"from": "format"}.
    """

    def words(option: Option) -> str:
        name = renamed.get(option.name, option.name.replace("-", "_"))
        if option.name in FLAGS:
            return f"{name}=True"
        if option.name == "no-manifest":
            return "manifest=False"
        if not option.value:
            return name if option.is_subject else f"{name}="
        key, is_setting, setting = option.value.partition("=")
        if is_setting and option.name in ("from-opt", "to-opt"):
            return f'{name}={{"{key}": {_literal(setting) if setting else "..."}}}'
        if " " in option.value:
            return f"{name}=[{', '.join(map(_literal, option.value.split()))}]"
        return f"{name}={_literal(option.value)}"

    return words


def _literal(value: str) -> str:
    """A value as Python code; placeholders in capitals stay as they are."""
    if value.lstrip("-").isdigit() or value.isupper() or value[:1] in "'\"":
        return value
    return f'"{value}"'


def recipe_words(option: Option) -> str | Option:
    """Word an option of a source as the key of a recipe; the options of the command around it stay."""
    setting, is_setting, value = option.value.partition("=")
    if option.name == "eos":
        return f"eos = {_toml(option.value or 'ID')} in the recipe"
    if option.name == "text-field":
        return f"text = {_toml(option.value or 'NAME')} in the recipe"
    if option.name == "from" and option.value:
        return f"from = {_toml(option.value)}"
    if option.name == "from-opt" and is_setting:
        return f"options = {{ {setting} = {_toml(value)} }} in the recipe"
    return option


def _toml(value: str) -> str:
    """A value of a recipe: names are quoted, numbers and the placeholders ID and N are not."""
    return value if value.lstrip("-").isdigit() or value in ("ID", "N") else f'"{value}"'
