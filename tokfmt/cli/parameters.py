"""Options that several commands share, the types of their values, and the layout of the help."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tokfmt.cli.usage import surplus
from tokfmt.core.losses import LOSSES

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tokfmt.source.request import SourceRequest

F = TypeVar("F", bound=Callable[..., Any])


def examples(*lines: str) -> str:
    """Return an epilog of example lines, which click does not wrap. They run in the directory of `tokfmt demo`."""
    return "\b\n" + "\n".join(("Examples:" if len(lines) > 1 else "Example:", *(f"  {line}" for line in lines)))


class Grouped(click.Option):
    """An option with the heading of the help that lists it."""

    def __init__(self, *names: Any, group: str = "", **how: Any) -> None:
        super().__init__(*names, **how)
        self.group = group


class Command(click.Command):
    """A command whose help begins with its examples, and lists its own options and those that it names as `often` used.

    `--help-all` prints all of its text, which `\\f` divides, and all options, by group.
    """

    allow_extra_args = True  # so that `parse_args` can word the error; click's has no remedy

    def __init__(self, *words: Any, often: Sequence[str] = (), **how: Any) -> None:
        super().__init__(*words, **how)
        self.often = frozenset(often)
        self.params.append(_every_option())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and refuse those that the command does not take."""
        try:
            rest = super().parse_args(ctx, args)
        except click.BadOptionUsage as error:
            error.ctx = error.ctx or ctx  # which click leaves out
            raise
        if rest and not ctx.resilient_parsing:
            raise click.UsageError(surplus(ctx, rest), ctx)
        return rest

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usage, the text, the examples and the options."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        self.format_epilog(ctx, formatter)
        self.format_options(ctx, formatter)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the text, without --help-all up to its `\\f`."""
        text, _, rest = inspect.cleandoc(self.help or "").partition("\f")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text + rest if ctx.meta.get(_ALL) else text.rstrip())

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options that are often used, or a section for each group."""
        groups: dict[str, list[tuple[str, str]]] = {"": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None or not isinstance(param, click.Option):
                continue
            name = "Output" if "--help" in param.opts else getattr(param, "group", "")
            if ctx.meta.get(_ALL) or not name or not self.often.isdisjoint(param.opts):
                groups.setdefault(name if ctx.meta.get(_ALL) else "", []).append(record)
        for name, records in groups.items():
            if records:
                with formatter.section(f"{name} options" if name else "Options"):
                    formatter.write_dl(records)


_ALL = "tokfmt.all_options"


def _every_option() -> click.Option:
    """Return the option --help-all."""

    def printed(context: click.Context, parameter: click.Parameter, value: bool) -> None:
        if value and not context.resilient_parsing:
            context.meta[_ALL] = True
            click.echo(context.get_help(), color=context.color)
            context.exit()

    words = "Show all options."
    return click.Option(["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=printed, help=words)


class Count(click.ParamType[Any]):
    """A whole number: 4096, 1_000_000, 1e6, 10M or 4Ki."""

    name = "number"

    def __init__(
        self, minimum: int | None = None, maximum: int | None = sys.maxsize, *, of_bytes: bool = False
    ) -> None:
        """Hold the bounds. If it is `of_bytes`, `B` at the end is their unit, as in `2TB`."""
        self.minimum, self.maximum, self.of_bytes = minimum, maximum, of_bytes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from tokfmt.base.options import fit, parse_count
        from tokfmt.errors import OptionError

        if isinstance(value, int):
            return value
        bounds = {"minimum": self.minimum, "maximum": self.maximum}
        try:
            return int(fit("", parse_count(value, of_bytes=self.of_bytes), int, bounds))
        except OptionError as error:
            contrast = f"is out of range (expected {error.expected}, found {error.found}). Choose a number in it"
            self.fail(contrast if error.expected else str(error), param, ctx)


class Eos(Count):
    """A token ID, or a word."""

    name = "id|none"
    words: tuple[str, ...] = ("none",)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value in self.words:
            return value
        if not any(char.isdigit() for char in str(value)):
            from tokfmt.wording import one_of

            found = f"expected {one_of(['a token ID', *self.words])}, found {value!r}"
            self.fail(f"is not a separator ({found}). Write an ID such as 50256, or {one_of(self.words)}", param, ctx)
        return super().convert(value, param, ctx)


class WrittenEos(Eos):
    """The separator of a destination."""

    name, words = "id|none|as-stored", ("none", "as-stored")


class Words(click.Choice[str]):
    """A choice whose error suggests the nearest word."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        from difflib import get_close_matches

        from tokfmt.wording import one_of

        words = [str(choice) for choice in self.choices]
        near = get_close_matches(str(value), words, 1)
        remedy = f"Did you mean {near[0]}?" if near else "Choose one of them"
        return f"unknown value {str(value)!r} (expected {one_of(words)}). {remedy}"


class ExecutorName(Words):
    """A choice of executors; `dask` may carry the address of a cluster."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value if str(value).startswith("dask:") else super().convert(value, param, ctx)


class Known(click.ParamType[str]):
    """A word that shells complete from a set of the context; the command itself refuses unknown words."""

    def __init__(self, name: str, words: Callable[[click.Context], Iterable[str]]) -> None:
        self.name, self._words = name, words

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the words that begin with the typed letters."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in self._words(ctx) if word.startswith(incomplete)]


def allow_loss(text: str, group: str = "") -> Callable[[F], F]:
    """Return the option --allow-loss."""
    return click.option("--allow-loss", cls=Grouped, group=group, multiple=True, type=LOSS, metavar="NAME", help=text)


def _formats(ctx: click.Context) -> Iterable[str]:
    from tokfmt import registry

    return registry.names()


def _loss_words(ctx: click.Context) -> Iterable[str]:
    from tokfmt.source.request import loss_words

    return loss_words()


def _codes(ctx: click.Context) -> Iterable[str]:
    from tokfmt.commands.check.codes import all_codes

    return ["all", *all_codes(), *LOSSES]


def _schemas(ctx: click.Context) -> Iterable[str]:
    from tokfmt.cli.schemas import names

    return names()


def _themes(ctx: click.Context) -> Iterable[str]:
    from textual.theme import BUILTIN_THEMES

    return sorted(BUILTIN_THEMES)


def _options_of(parameter: str, kind: str) -> Callable[[click.Context], Iterable[str]]:
    """Return a function that lists the options of the format in a parameter, or of every format."""

    def words(ctx: click.Context) -> Iterable[str]:
        from tokfmt import registry
        from tokfmt.base.options import described

        chosen = ctx.params.get(parameter)
        found = [registry.get(chosen)] if chosen in registry.names() else registry.list_formats()
        return dict.fromkeys(f"{one.name}=" for format_ in found for one in described(getattr(format_, kind)))

    return words


FORMAT = Known("format", _formats)
LOSS = Known("name", _loss_words)
CODE = Known("code", _codes)
THEME = Known("name", _themes)
SCHEMA = Known("name", _schemas)
READ_OPTION = Known("key=value", _options_of("format", "read_options"))
WRITE_OPTION = Known("key=value", _options_of("to_format", "write_options"))
PLACE = click.Path(readable=False)  # an unreadable path is an error of reading (exit code 3), not of usage
"""A file or a directory, which shells complete. The command checks that it exists."""


rare = partial(click.option, cls=Grouped, group="More")
running = partial(click.option, cls=Grouped, group="Running")
source = partial(click.option, cls=Grouped, group="Reading")
output = partial(click.option, cls=Grouped, group="Output")


def workers(text: str = "") -> Callable[[F], F]:
    """Return the option --jobs; `text` adds a clause to its help."""
    words = f"Number of workers{text} (default: one per core)."
    return running("-j", "--jobs", type=Count(1, 1024), metavar="N", help=words)


def tokenizer(text: str) -> Callable[[F], F]:
    """Return the option --tokenizer with its help."""
    return click.option("--tokenizer", type=PLACE, metavar="NAME", help=text)


class TaskNumber(click.ParamType[Any]):
    """`I/N`: task I, counted from 0, of N."""

    name = "I/N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        index, _, count = str(value).partition("/")
        if not (index.isascii() and index.isdigit() and count.isascii() and count.isdigit()):
            self.fail(f"{value!r} is not of the form I/N. Write 0/8 for the first of eight tasks", param, ctx)
        return int(index), int(count)


def _print_requests(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        from tokfmt.cli.console import tell_transferred

        context.call_on_close(tell_transferred)


def _configure_stores(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> None:
    """Use the options of stores in this process and its workers; those of the environment hold otherwise."""
    if value:
        from tokfmt.stores.options import StoreOptions, configure

        configure(StoreOptions.of(value))


def common(function: F) -> F:
    """Add the options --json, --quiet, --verbose and --debug to a command."""
    for option in (
        output(
            "-v",
            "--verbose",
            is_flag=True,
            expose_value=False,
            callback=_print_requests,
            help="Print the requests and bytes of stores on stderr.",
        ),
        output("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error."),
        output("-q", "--quiet", is_flag=True, help="Print no progress and no notes."),
        output("--json", "as_json", is_flag=True, help="Print one JSON document, also for an error."),
    ):
        function = option(function)
    return function


_READING = ("format", "options", "eos", "bos", "text_field", "split", "allow_loss", "recursive", "ignore_manifest")


def requested(paths: Iterable[Any], given: Mapping[str, Any], **other: Any) -> SourceRequest:
    """Return a request for some paths, as the options of `reading` describe them; `other` replaces its fields."""
    from tokfmt.source.request import SourceRequest

    return SourceRequest.of(tuple(paths), **{**{name: given[name] for name in _READING}, **other})


def beside_reading(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a command but for those of `reading`."""
    return {name: value for name, value in given.items() if name not in _READING}


def stores(function: F) -> F:
    """Add the options of stores to a command that reads."""
    return source(
        "--store-opt",
        multiple=True,
        metavar="NAME=VALUE",
        expose_value=False,
        callback=_configure_stores,
        help="Option of stores: endpoint, region, profile, anonymous, requester_pays or allow_http; repeatable.",
    )(function)


def reading(function: F) -> F:
    """Add the options that describe how to read a source to a command."""
    function = stores(function)
    for option in (
        source("--ignore-manifest", is_flag=True, help="Ignore a manifest that contradicts its dataset."),
        source("--recursive", is_flag=True, help="Read subdirectories too."),
        allow_loss(
            "Loss to accept, by the name in its error; repeatable. tokfmt check --explain all lists them.",
            group="Reading",
        ),
        source(
            "--text-field",
            metavar="PATH",
            help="Field of the text, such as text or meta.text.",
        ),
        source(
            "--split",
            metavar="NAME",
            help="Split to read; convert writes a=0.9,b=0.1 or a=rest,b=50.",
        ),
        source(
            "--bos",
            type=Eos(0),
            metavar="ID",
            help="Lead of the source, no content where a sequence begins: an ID, or none.",
        ),
        source(
            "--eos",
            type=Eos(0),
            metavar="ID",
            help="Separator of the source: an ID, or none.",
        ),
        source(
            "--from-opt",
            "options",
            multiple=True,
            type=READ_OPTION,
            metavar="KEY=VALUE",
            help="Option of the source format: tokfmt formats NAME.",
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
