"""Word usage errors: what is wrong, what the command expects, and one remedy.

click words its errors in several ways and without a remedy. This module renders each of its exceptions in one sentence.
An error that a command raises with its own text is printed as it is.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

_SEARCH = "tokfmt show PATH 'text:some words' searches"
_EXPORT = "tokfmt convert PATH OUT.jsonl --select 'text:some words' --tokenizer NAME writes what a search finds"
COMMANDS_MEANT = {
    **dict.fromkeys(("search", "find", "grep", "query"), _SEARCH),
    **dict.fromkeys(("export", "extract", "filter", "select"), _EXPORT),
    **dict.fromkeys(("merge", "concat", "join"), "tokfmt convert A B C DST merges datasets"),
    **dict.fromkeys(("tokenize", "encode"), "tokfmt convert CORPUS DST --tokenizer NAME encodes text"),
    "retokenize": "tokfmt convert SRC DST --from-tokenizer OLD --tokenizer NEW encodes token IDs again",
    **dict.fromkeys(("decontaminate", "contamination"), "tokfmt overlap PATH --with EVAL finds contamination"),
}
"""What does the work of commands that do not exist."""

_OPTIONS_MEANT = {
    **dict.fromkeys((("show", f"--{word}") for word in ("select", "search", "query", "filter", "grep")), _SEARCH),
    **dict.fromkeys(
        (("show", word) for word in ("-o", *(f"--{word}" for word in ("output", "out", "export", "save")))), _EXPORT
    ),
    **dict.fromkeys(
        (("convert", f"--{word}") for word in ("dedup", "deduplicate", "filter", "min-tokens", "max-tokens")),
        'A recipe takes dedup = "exact", and filters such as min_tokens: tokfmt recipe SRC -o mix.toml writes one',
    ),
    **dict.fromkeys(
        (("convert", f"--{word}") for word in ("pack", "labels", "weight", "weights", "epochs", "tokens")),
        "tokfmt recipe SRC -o mix.toml has such options, and writes a recipe that convert reads",
    ),
    ("convert", "--limit"): "--select 0:N takes the first N sequences",
    ("check", "--vocab-size"): "--tokenizer NAME compares the IDs with its vocabulary; tokfmt stats has the largest ID",
}


def usage_line(error: click.ClickException, words: Sequence[str]) -> str:
    """Return the message of a usage error as one line, with advice if a file is named like an option."""
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    if ctx is None:
        return error.format_message()
    if isinstance(error, click.NoSuchOption):
        return f"{ctx.command_path} has no option {error.option_name}. {_other_option(ctx, error.option_name, words)}"
    if isinstance(error, click.BadOptionUsage):
        return _without_value(ctx, error.option_name)
    if isinstance(error, click.MissingParameter):
        return missing(ctx, _name(error))
    if isinstance(error, click.BadParameter):
        return f"{_name(error)}: {error.message}"
    return error.format_message()


def missing(ctx: click.Context, argument: str) -> str:
    """Return the message for an argument that the command line does not have."""
    return f"{argument} is missing (expected {_usage(ctx)}). Run {ctx.command_path} --help for examples"


def surplus(ctx: click.Context, arguments: Sequence[str]) -> str:
    """Return the message for arguments that the command does not take."""
    argument, selection = arguments[0].strip(), ctx.params.get("selection")
    remedy = "Leave it out"
    if selection is not None and any(letter.isalpha() for letter in selection):  # not a number
        remedy = f"A search with spaces is quoted: '{' '.join((selection, *arguments))}'"
    return f"{ctx.command_path} takes no argument {argument!r} (expected {_usage(ctx)}). {remedy}"


def _usage(ctx: click.Context) -> str:
    return " ".join((ctx.command_path, *ctx.command.collect_usage_pieces(ctx)))


def _name(error: click.BadParameter) -> str:
    """Return the longest name of an option, or the name of an argument as the usage shows it."""
    param = error.param
    if isinstance(error.param_hint, str):
        return error.param_hint
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    if isinstance(param, click.Argument) and isinstance(param.type, click.Choice):
        return str(param.name).upper()  # the usage shows its words instead of a name
    return param.human_readable_name if param is not None else "an argument"


def _other_option(ctx: click.Context, name: str, words: Sequence[str]) -> str:
    """Return the remedy for an unknown option: the file of that name, the option that was meant, or the help."""
    if meant := _OPTIONS_MEANT.get((ctx.command.name or "", name)):
        return meant
    file = next((word for word in words if word.startswith("-") and os.path.lexists(word)), None)
    if file is not None:
        return f"Write ./{file} for the file of that name"
    from tokfmt.base.options import nearest

    known = {option.lstrip("-"): option for param in ctx.command.get_params(ctx) for option in param.opts}
    near = nearest(name.lstrip("-"), known)  # without the dashes, which every option has
    return f"Did you mean {known[near]}?" if near else f"Run {ctx.command_path} --help for its options"


def _without_value(ctx: click.Context, name: str) -> str:
    """Return the message for an option without its value, or for a flag with one."""
    option = next((param for param in ctx.command.get_params(ctx) if name in param.opts), None)
    if isinstance(option, click.Option) and option.is_flag:
        return f"{name}: is a switch and takes no value. Leave the value out"
    metavar = option.make_metavar(ctx) if option is not None else "VALUE"
    return f"{name}: its value is missing (expected {name} {metavar}). Add the value"
