"""`tokfmt demo`: write a sample to try the commands on."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from tokfmt.cli.console import document
from tokfmt.cli.parameters import PLACE, Command, common, examples
from tokfmt.wording import counted, printable


@click.command("demo", cls=Command, no_args_is_help=True, epilog=examples("tokfmt demo sample"))
@click.argument("directory", type=PLACE, metavar="DIR")
@common
def command(directory: str, *, as_json: bool, quiet: bool) -> None:
    """Write a sample to try the commands on.

    DIR gets text, a tokenizer, datasets of several formats, damaged files and recipes, 300 kB in all. The examples of
    --help run there.
    """
    from tokfmt.sample import write_sample

    sample = write_sample(Path(directory))
    if as_json:
        document("demo", sample)
    elif not quiet:
        click.echo(f"{printable(directory)}: {counted(len(sample.files), 'file')}. Try:\n")
        for line in (f"cd {printable(shlex.quote(directory))}", *sample.commands):
            click.echo(f"  {line}")
