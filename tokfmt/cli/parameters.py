"""Options that several commands share, and the types of their values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tokfmt.ops.source.request import SourceRequest

F = TypeVar("F", bound=Callable[..., Any])


def examples(*lines: str) -> str:
    """An epilog of lines to paste, which click does not wrap."""
    return "\b\n" + "\n".join(("Examples:" if len(lines) > 1 else "Example:", *(f"  {line}" for line in lines)))


class Grouped(click.Option):
    """An option with a heading of the help that it stands under."""

    def __init__(self, *names: Any, group: str = "", **how: Any) -> None:
        super().__init__(*names, **how)
        self.group = group


class Command(click.Command):
    """A command whose help lists its own options first, then those of each group."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each group."""
        groups: dict[str, list[tuple[str, str]]] = {"": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                name = "Output" if "--help" in param.opts else getattr(param, "group", "")
                groups.setdefault(name, []).append(record)
        for name, records in groups.items():
            if not records:
                continue
            with formatter.section(f"{name} options" if name else "Options"):
                formatter.write_dl(records)


class Count(click.ParamType[Any]):
    """A whole number as people write it: 4096, 1_000_000, 1e6, 10M, 4Ki.

    Args:
        least, most: What it may be, None: anything.
    """

    name = "number"

    def __init__(self, least: int | None = None, most: int | None = sys.maxsize) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from tokfmt.core.errors import OptionError
        from tokfmt.core.options import parse_count

        if isinstance(value, int):
            return value
        try:
            number = parse_count(value)
        except OptionError as error:
            self.fail(str(error), param, ctx)
        if self.most is not None and (number > self.most or (self.most < sys.maxsize and number < (self.least or 0))):
            self.fail(f"expected {self.least or 0:,} to {self.most:,}, found {number:,}.", param, ctx)
        if self.least is not None and number < self.least:
            self.fail(f"expected at least {self.least:,}, found {number:,}.", param, ctx)
        return number


class Eos(Count):
    """A token id, or `none`."""

    name = "id|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "none":
            return value
        return super().convert(value, param, ctx)


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


class Known(click.ParamType[str]):
    """A word out of a set that is looked up to complete it only: whoever takes the word says what it is not.

    Args:
        name: What is shown in the help.
        words: Of the context, which has what was typed before.
    """

    def __init__(self, name: str, words: Callable[[click.Context], Iterable[str]]) -> None:
        self.name, self._words = name, words

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Those that begin with what was typed."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in self._words(ctx) if word.startswith(incomplete)]


def _formats(ctx: click.Context) -> Iterable[str]:
    from tokfmt import registry

    return registry.names()


def _loss_words(ctx: click.Context) -> Iterable[str]:
    from tokfmt.ops.source.request import loss_words

    return loss_words()


def _codes(ctx: click.Context) -> Iterable[str]:
    from tokfmt.ops.check.codes import all_codes

    return ["all", *all_codes()]


def _themes(ctx: click.Context) -> Iterable[str]:
    from textual.theme import BUILTIN_THEMES

    return sorted(BUILTIN_THEMES)


def _options_of(parameter: str, kind: str) -> Callable[[click.Context], Iterable[str]]:
    """Options of the format that a parameter names, or of all."""

    def words(ctx: click.Context) -> Iterable[str]:
        from tokfmt import registry
        from tokfmt.core.options import described

        chosen = ctx.params.get(parameter)
        found = [registry.get(chosen)] if chosen in registry.names() else registry.formats()
        return dict.fromkeys(f"{one['name']}=" for format_ in found for one in described(getattr(format_, kind)))

    return words


FORMAT = Known("format", _formats)
DROP = Known("name", _loss_words)
CODE = Known("code", _codes)
THEME = Known("name", _themes)
READ_OPTION = Known("key=value", _options_of("format", "read_options"))
WRITE_OPTION = Known("key=value", _options_of("to_format", "write_options"))
PLACE = click.Path(readable=False)  # what cannot be read is an error of reading (exit code 3), none of usage
"""A file or a directory, which shells complete; whether it is there is the command's business."""


running = partial(click.option, cls=Grouped, group="Running")
source = partial(click.option, cls=Grouped, group="Reading")
output = partial(click.option, cls=Grouped, group="Output")


def workers(text: str = "") -> Callable[[F], F]:
    """--jobs, -j."""
    said = f"Number of workers{text} (default: one per available core)."
    return running("-j", "--jobs", type=Count(1, 1024), metavar="N", help=said)


def tokenizer(text: str) -> Callable[[F], F]:
    """--tokenizer; `text`: what it does."""
    return click.option("--tokenizer", type=PLACE, metavar="NAME|DIR|FILE", help=text)


def output_format(text: str) -> Callable[[F], F]:
    """--output-format; `text`: what the three are."""
    kinds = Words(["text", "json", "github"])
    return click.option("--output-format", type=kinds, default="text", help=f"{text} (default: text).")


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
        output("--debug", is_flag=True, help="Show the traceback of an error."),
        output("-q", "--quiet", is_flag=True, help="Print no progress and no notes."),
        output("--json", "as_json", is_flag=True, help="Print one JSON document on stdout, also for an error."),
    ):
        function = option(function)
    return function


def requested(paths: Iterable[Any], given: Mapping[str, Any], **other: Any) -> SourceRequest:
    """What the options of `reading` say of some paths.

    Args:
        given: The options' values by name; others may be among them.
        other: What is said otherwise.
    """
    from tokfmt.ops.source.request import SourceRequest

    names = ("eos", "text_field", "split", "allow_loss", "recursive", "ignore_manifest")
    said = {"format": given["format"], "options": given["options"], **{name: given[name] for name in names}}
    return SourceRequest.of(tuple(paths), **{**said, **other})


def reading(function: F) -> F:
    """How to read a source: which format and options, what of it, and what may be given up or left unheeded."""
    for option in (
        source("--ignore-manifest", is_flag=True, help="Ignore a manifest that contradicts its dataset."),
        source("--recursive", is_flag=True, help="Read the directories below a directory too."),
        source(
            "--allow-loss",
            multiple=True,
            type=DROP,
            metavar="NAME",
            help="Loss to accept, as the error names it; repeatable.",
        ),
        source(
            "--text-field",
            metavar="PATH",
            help="Field of the text in a record, as a dotted path (default: text).",
        ),
        source(
            "--split",
            metavar="NAME",
            help="Split to read; with convert, NAME=SHARE,... are splits to write.",
        ),
        source("--eos", type=Eos(0), help="Separator ID, or none (default: from source or tokenizer, or inferred)."),
        source(
            "--from-opt",
            "options",
            multiple=True,
            type=READ_OPTION,
            metavar="KEY=VALUE",
            help="Option of the source format; tokfmt formats NAME lists them.",
        ),
        source(
            "--from",
            "format",
            type=FORMAT,
            metavar="FORMAT",
            help="Source format (default: detected from content).",
        ),
    ):
        function = option(function)
    return function
