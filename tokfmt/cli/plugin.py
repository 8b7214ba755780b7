"""`tokfmt plugin`: write a package with a format."""

from __future__ import annotations

from pathlib import Path

import click

from tokfmt.cli.console import document
from tokfmt.cli.parameters import PLACE, Command, Words, common, examples
from tokfmt.wording import printable


@click.command(
    "plugin",
    cls=Command,
    no_args_is_help=True,
    epilog=examples(
        "tokfmt plugin new mine", "tokfmt plugin new mine src/tokfmt-mine", "tokfmt plugin new shards --records"
    ),
)
@click.argument("action", type=Words(["new"]), metavar="new")
@click.argument("name")
@click.argument("directory", type=PLACE, metavar="[DIR]", required=False)
@click.option("--records", is_flag=True, help="Store records in compressed shards (default: token IDs in one file).")
@common
def command(
    action: str, name: str, directory: str | None, *, records: bool, as_json: bool, quiet: bool, debug: bool
) -> None:
    """Write a package with a format of your own.

    NAME is the name of the format, DIR the package (default: tokfmt-NAME). The package has an entry point, a module
    with a format that works, and tests with the laws of every format. Change the module to what your files hold.
    """
    from tokfmt.plugin_package import new_package

    home = Path(directory or f"tokfmt-{name}")
    files = new_package(name, home, records=records)
    if as_json:
        document("plugin", {"format": name, "directory": str(home), "files": [str(file) for file in files]})
    elif not quiet:
        for file in files:
            click.echo(printable(file))
        click.echo(f"next: pip install -e '{printable(home)}[test]' && pytest {printable(home)}", err=True)
