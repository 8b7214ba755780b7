"""`tokfmt schema`: print the JSON schema of a document that `--json` prints."""

from __future__ import annotations

import json

import click

from tokfmt.cli.console import document
from tokfmt.cli.parameters import SCHEMA, Command, common, examples


@click.command("schema", cls=Command, epilog=examples("tokfmt schema", "tokfmt schema convert > convert.schema.json"))
@click.argument("name", required=False, type=SCHEMA)
@common
def command(name: str | None, *, as_json: bool, quiet: bool) -> None:
    """List the JSON schemas of --json, or print one.

    The $id of a schema ends with its number, which grows if a key is removed or changes its meaning. New keys can be
    added without a new number.
    """
    from tokfmt.cli.schemas import listed, schema

    if name is not None:
        click.echo(json.dumps(schema(name), indent=2))
        return
    if as_json:
        document("schemas", listed())
        return
    for one in listed().schemas:
        click.echo(f"{one.name:<14}{one.title.partition(': ')[2]}")
