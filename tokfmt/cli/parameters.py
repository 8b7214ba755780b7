"""Options that several commands share, and the types of their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def examples(*lines: str) -> str:
    """An epilog of lines to paste, which click does not wrap."""
    return "\b\n" + "\n".join(("Examples:" if len(lines) > 1 else "Example:", *(f"  {line}" for line in lines)))


class Count(click.ParamType[Any]):
    """A whole number as people write it: 4096, 1_000_000, 1e6, 10M, 4Ki."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from tokfmt.core.errors import OptionError
        from tokfmt.core.options import parse_count

        if isinstance(value, int):
            return value
        try:
            return parse_count(value)
        except OptionError as error:
            self.fail(str(error), param, ctx)


class Eos(Count):
    """A token id, or `none`."""

    name = "id|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "none":
            return value
        number = super().convert(value, param, ctx)
        if number < 0:
            self.fail(f"a token id is not negative: {value}", param, ctx)
        return number


class Words(click.Choice[str]):
    """A choice with a did-you-mean."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        from difflib import get_close_matches

        message = super().get_invalid_choice_message(value, ctx)
        near = get_close_matches(str(value), [str(choice) for choice in self.choices], 1)
        return f"{message} Did you mean {near[0]}?" if near else message


class ExecutorName(Words):
    """A choice of executors; that of a cluster may carry an address."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value if str(value).startswith("dask:") else super().convert(value, param, ctx)


class Part(click.ParamType[Any]):
    """`I/N`: number I, from 0, of N."""

    name = "I/N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        index, _, count = str(value).partition("/")
        if not (index.isascii() and index.isdigit() and count.isascii() and count.isdigit()):
            self.fail(f"{value!r} is not of the form I/N, such as 0/8 for the first of eight", param, ctx)
        return int(index), int(count)


def common(function: F) -> F:
    """--json, --quiet and --debug."""
    for option in (
        click.option("--debug", is_flag=True, help="Show the traceback of an error."),
        click.option("-q", "--quiet", is_flag=True, help="No progress, no notes."),
        click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout."),
    ):
        function = option(function)
    return function


def reading(function: F) -> F:
    """How to read a source: --from, --from-opt, --eos, --split, --text-field."""
    for option in (
        click.option("--text-field", metavar="PATH", help="Dotted path of the text in JSON records (default: text)."),
        click.option(
            "--split",
            metavar="NAME",
            help="Split to read or write, where a format has splits; convert: NAME=SHARE,... deals out to several.",
        ),
        click.option("--eos", type=Eos(), help="Id of the separator, or none. Default: found out, and said."),
        click.option(
            "--from-opt", "from_options", multiple=True, metavar="KEY=VALUE", help="A source format's option."
        ),
        click.option("--from", "from_format", metavar="FORMAT", help="Format of the sources. Default: by content."),
    ):
        function = option(function)
    return function
