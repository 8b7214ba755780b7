"""`tokfmt browse --web`."""

from __future__ import annotations

import sys

import click

PORT = 8000
HOST = "127.0.0.1"


def serve_page(host: str, port: int) -> None:
    """Serve this very command, with a page in place of the terminal, until a signal comes."""
    from tokfmt.core.errors import MissingDependencyError

    try:
        import textual_serve  # noqa: F401 - whether it is there
    except ImportError as error:
        raise MissingDependencyError("textual-serve", "web", "browse --web") from error
    from tokfmt.tui.web.guard import is_local
    from tokfmt.tui.web.server import serve

    if not is_local(host):
        text = "other machines can reach this: whoever is given the address can read the dataset, unencrypted"
        click.echo(f"note: {host}: {text}", err=True)

    def announce(url: str) -> None:
        click.echo(f"browse at {url}")
        click.echo("Ctrl+C ends it, and every page with it", err=True)

    # the page's process is started as this one was, and finds out that it draws for a server
    serve([sys.executable, *sys.orig_argv[1:]], host, port, announce)
