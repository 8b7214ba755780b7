"""The commands as data, for the man pages and for the pages of the site."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import click

from tokfmt.cli.main import cli
from tokfmt.core.losses import LOSSES


@dataclass(frozen=True)
class CommandPage:
    """What `--help` prints of a command.

    Attributes:
        name: The name, with that of the group before it: "tokfmt convert".
        summary: The first sentence of its help.
        usage: The arguments, as in "tokfmt convert [OPTIONS] SRC... DST".
        paragraphs: The paragraphs of its help after the summary.
        options: The names and the help of each option, by heading.
        examples: The command lines of its examples.
        losses: The words that its --allow-loss accepts; empty if it has no such option.
    """

    name: str
    summary: str
    usage: str
    paragraphs: tuple[str, ...]
    options: dict[str, list[tuple[str, str]]]
    examples: tuple[str, ...]
    losses: tuple[str, ...]


def pages() -> list[CommandPage]:
    """Return the pages of the group and of all commands, in the order of `tokfmt --help`."""
    settings = {"info_name": "tokfmt", **cli.context_settings}
    with click.Context(cli, **settings) as top:
        found = [_page(cli, top)]
        for name in cli.list_commands(top):
            command = cli.get_command(top, name)
            assert command is not None, name
            with click.Context(command, parent=top, info_name=name, help_option_names=top.help_option_names) as context:
                found.append(_page(command, context))
    return found


def _page(command: click.Command, context: click.Context) -> CommandPage:
    summary, *rest = inspect.cleandoc((command.help or "").replace("\f", "")).split("\n\n")
    options: dict[str, list[tuple[str, str]]] = {}
    for param in command.get_params(context):
        is_help = "--help" in param.opts  # click keeps the option of the first call, whose names may be others
        record = ("-h, --help", "Show this message and exit.") if is_help else param.get_help_record(context)
        if record is not None and isinstance(param, click.Option):
            heading = "Output" if is_help and command is not cli else getattr(param, "group", "")
            options.setdefault(heading or "Options", []).append(record)
    examples = tuple(line.strip() for line in (command.epilog or "").splitlines() if line.startswith("  tokfmt "))
    usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
    paragraphs = tuple(" ".join(part.split()) for part in rest)
    losses = LOSSES if any("--allow-loss" in param.opts for param in command.get_params(context)) else ()
    return CommandPage(context.command_path, summary, usage, paragraphs, options, examples, tuple(losses))
