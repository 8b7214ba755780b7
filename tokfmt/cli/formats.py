"""`tokfmt formats`."""

from __future__ import annotations

import json
from typing import Any

import click

from tokfmt.cli.parameters import common, examples


@click.command("formats", epilog=examples("tokfmt formats hdf5"))
@click.argument("name", required=False)
@common
def command(name: str | None, *, as_json: bool, quiet: bool, debug: bool) -> None:
    """List the formats, or one format's options with defaults and meaning."""
    from tokfmt import registry

    chosen = [registry.get(name)] if name else registry.formats()
    if as_json:
        described = [_facts(format_) for format_ in chosen]
        click.echo(json.dumps({"schema": "tokfmt.formats/1", "formats": described}, indent=2))
    elif name:
        click.echo("\n".join(_page(_facts(chosen[0]))))
    else:
        _table([_facts(format_) for format_ in chosen])


def _facts(format_: Any) -> dict[str, Any]:
    from tokfmt.core.options import described

    return {
        "name": format_.name,
        "title": format_.title,
        "destinations": list(format_.extensions),
        "carries": format_.carries,
        "cannot": format_.cannot,
        "read_options": described(format_.read_options),
        "write_options": described(format_.write_options),
    }


def _table(formats: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("format", style="bold", no_wrap=True)
    table.add_column("destination", no_wrap=True)
    table.add_column("what it is", overflow="fold")
    for facts in formats:
        table.add_row(facts["name"], ", ".join(facts["destinations"]), facts["title"])
    Console().print(table)
    click.echo("tokfmt formats NAME says what a format can carry, and lists its options.")


def _page(facts: dict[str, Any]) -> list[str]:
    lines = [f"{facts['name']}: {facts['title']}", ""]
    lines += [f"destinations  {', '.join(facts['destinations'])}"]
    lines += [f"carries       {facts['carries']}", f"cannot carry  {facts['cannot']}"]
    for key, heading in (("read_options", "reading (--from-opt)"), ("write_options", "writing (--to-opt)")):
        lines += ["", heading]
        options = facts[key]
        width = max((len(f"{o['name']}={o['type']}") for o in options), default=0)
        for o in options:
            usage = f"{o['name']}={o['type']}"
            lines.append(f"  {usage:<{width}}  {o['help']} (default: {o['default']})")
        if not options:
            lines.append("  no options")
    return lines
