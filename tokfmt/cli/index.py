"""`tokfmt index`: write the raw index of a JSON Lines file."""

from __future__ import annotations

import os

import click

from tokfmt.cli.console import Watcher, document
from tokfmt.cli.parameters import PLACE, Command, common, examples, stores
from tokfmt.files.place import place_of
from tokfmt.wording import counted, printable


@click.command("index", cls=Command, no_args_is_help=True, epilog=examples("tokfmt index corpus.jsonl -o corpus.idx"))
@click.argument("source", type=PLACE, metavar="FILE.jsonl")
@click.option("-o", "--output", type=PLACE, metavar="FILE.idx", help="Index to write (default: next to FILE.jsonl).")
@click.option("--skip-invalid", is_flag=True, help="Leave lines that are not JSON out of the index.")
@click.option("--no-validate", is_flag=True, help="Find lines without parsing them.")
@click.option("--overwrite", is_flag=True, help="Replace an index that exists.")
@stores
@common
def command(
    source: str,
    output: str | None,
    *,
    skip_invalid: bool,
    no_validate: bool,
    overwrite: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write the raw index of a JSON Lines file.

    Modalities reads this index (.idx). It holds the byte offset and the length of each line.
    """
    from tokfmt.formats.jsonl.index import write_index

    with Watcher(quiet=quiet) as watcher:
        watcher.phase("indexing", os.path.getsize(source) if os.path.isfile(source) else 0, "bytes")
        report = write_index(
            place_of(source),
            output,
            validate=not no_validate,
            skip_invalid=skip_invalid,
            overwrite=overwrite,
            advance=watcher.advance,
        )
    if as_json:
        document("index", report)
    elif not quiet:
        left_out = f", {counted(report.skipped, 'invalid line')} left out" if report.skipped else ""
        click.echo(f"{printable(report.destination)}: {counted(report.entries, 'line')}{left_out}", err=True)
