"""`tokfmt formats`: list the formats, or describe one."""

from __future__ import annotations

import inspect
import sys
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from tokfmt.base.options import Option, described
from tokfmt.cli.console import document, terminal
from tokfmt.cli.parameters import FORMAT, Command, common, examples

if TYPE_CHECKING:
    from tokfmt.core.format import Format

_NARROW = 70  # columns, below which a table would break words
_MORE = "tokfmt formats NAME prints what a format can store, its options, and its bytes."

_USAGE = 40  # characters of an option and its words beside its help


@click.command("formats", cls=Command, epilog=examples("tokfmt formats hdf5"))
@click.argument("name", required=False, type=FORMAT)
@common
def command(name: str | None, *, as_json: bool, quiet: bool) -> None:
    """List the formats, or the options and bytes of one."""
    from tokfmt import registry

    chosen = [registry.get(name)] if name else registry.list_formats()
    if as_json:
        document("formats", Formats([FormatFacts.of(format_) for format_ in chosen]))
    elif name:
        click.echo("\n".join(_page(FormatFacts.of(chosen[0]))))
    else:
        _table([FormatFacts.of(format_) for format_ in chosen])


@dataclass(frozen=True, slots=True)
class FormatFacts:
    """A format.

    Attributes:
        name: The name, for --from and --to.
        destinations: The file names that imply it.
        read_only: True if tokfmt does not write it.
        read_options: The options of --from-opt.
        write_options: The options of --to-opt.
        layout: The description of its bytes.
    """

    name: str
    title: str
    destinations: tuple[str, ...]
    stores: str
    cannot_store: str
    read_only: bool
    read_options: list[Option]
    write_options: list[Option]
    layout: str

    @classmethod
    def of(cls, format_: Format) -> FormatFacts:
        """Return the facts of a format."""
        options = described(format_.read_options), described(format_.write_options)
        layout = inspect.getdoc(sys.modules[type(format_).__module__]) or ""  # formats document their bytes there
        about = (format_.stores, format_.cannot_store, format_.read_only)
        return cls(format_.name, format_.title, tuple(format_.extensions), *about, *options, layout)


@dataclass(frozen=True, slots=True)
class Formats:
    """The formats."""

    formats: list[FormatFacts]


def _destinations(facts: FormatFacts) -> str:
    """Return the file names that imply the format; without any, "read only" or the option --to.

    Of names that differ only in their suffix, as those of a pair, the first is returned.
    """
    named = "read only" if facts.read_only else f"--to {facts.name}"
    names = {name if name.startswith(".") else name.partition(".")[0]: name for name in facts.destinations[::-1]}
    return ", ".join([*names.values()][::-1]) or named


def _table(formats: list[FormatFacts]) -> None:
    from rich import box
    from rich.text import Text

    from tokfmt.cli.table import Table

    console = terminal()
    if console.width < _NARROW:
        for facts in formats:
            click.echo(f"{facts.name}  {_destinations(facts)}")
            click.echo(textwrap.fill(facts.title, console.width, initial_indent="  ", subsequent_indent="  "))
        click.echo(textwrap.fill(_MORE, console.width))
        return
    rows = [(Text(facts.name, "bold"), _destinations(facts), facts.title) for facts in formats]
    table = Table(("format", "destination", "what it is"), rows, words=range(3))
    console.print(table.drawn(folds=(2,), padding=(0, 1), box=box.SIMPLE_HEAD))
    click.echo(_MORE)


def _page(facts: FormatFacts) -> list[str]:
    lines = [f"{facts.name}: {facts.title}", ""]
    lines += [f"destinations  {_destinations(facts)}", f"stores        {facts.stores}"]
    sections = [(facts.read_options, "reading (--from-opt)")]
    if not facts.read_only:
        lines += [f"cannot store  {facts.cannot_store}"]
        sections += [(facts.write_options, "writing (--to-opt)")]
    for options, heading in sections:
        lines += ["", heading]
        usages = [f"{o.name}={o.type}" for o in options]
        width = max((len(usage) for usage in usages if len(usage) <= _USAGE), default=0)
        for usage, o in zip(usages, options, strict=True):
            if len(usage) > _USAGE:  # Its help is on a line of its own.
                lines.append(f"  {usage}")
            shown = usage if len(usage) <= _USAGE else ""
            lines.append(f"  {shown:<{width}}  {o.help} (default: {o.default or 'none'})")
        if not options:
            lines.append("  no options")
    if facts.layout:
        lines += ["", "layout", textwrap.indent(facts.layout, "  ")]
    return lines
