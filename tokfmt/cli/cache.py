"""`tokfmt cache`: print what the cache of objects in stores holds, or remove it."""

from __future__ import annotations

import os

import click

from tokfmt.cli.console import document
from tokfmt.cli.parameters import PLACE, Command, common, examples
from tokfmt.wording import counted, human_bytes, printable


@click.command("cache", cls=Command, epilog=examples("tokfmt cache", "tokfmt cache --clear"))
@click.option("--cache-dir", type=PLACE, metavar="DIR", help="Directory of the cache (default: ~/.cache/tokfmt).")
@click.option("--clear", is_flag=True, help="Remove everything that the cache holds.")
@common
def command(cache_dir: str | None, *, clear: bool, as_json: bool, quiet: bool, debug: bool) -> None:
    """Print the size of the cache of objects, or clear it.

    The cache holds indexes, footers and random reads of objects in stores, so that the next command does not request
    them again.
    """
    from tokfmt.stores import disk

    if cache_dir is not None:
        os.environ[disk.DIRECTORY] = cache_dir
    home = disk.directory()
    cache = disk.DiskCache(home, disk.capacity()) if home.exists() else None
    usage = disk.Usage(0, 0) if cache is None else cache.clear() if clear else cache.usage()
    if as_json:
        facts = {"directory": str(home), "objects": usage.objects, "bytes": usage.bytes}
        document("cache", {**facts, "capacity": disk.capacity(), "cleared": clear})
        return
    held = f"{counted(usage.objects, 'object')}, {human_bytes(usage.bytes)}"
    done = f"removed {held}" if clear else f"{held} of {human_bytes(disk.capacity())}"
    click.echo(f"{printable(home)}: {done}")
