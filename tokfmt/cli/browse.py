"""`tokfmt browse`."""

from __future__ import annotations

import gc
import sys
from typing import Any

import click

from tokfmt.cli.parameters import examples, reading

_EPILOG = examples(
    "tokfmt browse fixtures/modalities/D_2byte_gpt2.pbin",
    "tokfmt browse fixtures/text/corpus.jsonl --tokenizer fixtures/tokenizer",
    "tokfmt browse fixtures/modalities/D_2byte_gpt2.pbin --screenshot out.svg --keys 'down down enter'",
)


class Size(click.ParamType[Any]):
    """`160x48`: columns and lines."""

    name = "COLUMNSxLINES"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        columns, _, lines = str(value).partition("x")
        if not (columns.isdecimal() and lines.isdecimal() and 20 <= int(columns) <= 500 and 5 <= int(lines) <= 200):
            self.fail(f"{value!r} is not of the form 160x48 (20x5 to 500x200)", param, ctx)
        return int(columns), int(lines)


@click.command("browse", epilog=_EPILOG, no_args_is_help=True)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--tokenizer", metavar="NAME|DIR|FILE", help="Shows text. Remembered for the dataset.")
@click.option(
    "--diff", "compare", is_flag=True, help="Two datasets side by side, in step, from one difference to the next."
)
@click.option("--theme", metavar="NAME", help="Colours: tokyo-night, catppuccin-latte, nord, gruvbox ...")
@click.option("--web", is_flag=True, help="Draw in a page of a web browser, at the address that is printed.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="With --web: listen there; 0 is any that is free. Default: 8000."
)
@click.option("--host", metavar="NAME", help="With --web: listen there. Default: 127.0.0.1, this machine only.")
@click.option("--screenshot", type=click.Path(dir_okay=False), metavar="OUT.svg", help="Draw the screen to a file.")
@click.option("--keys", default="", metavar="'KEY KEY'", help="With --screenshot: press these first.")
@click.option("--size", type=Size(), default="120x36", help="With --screenshot: of the screen.", show_default=True)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@reading
def command(paths: tuple[str, ...], **given: Any) -> None:
    """Look into datasets of any size in the terminal: ? shows the keys, q quits."""
    from tokfmt.ops.sources import SourceRequest, expanded

    given.pop("debug")
    requests = [
        SourceRequest(
            (path,), given["from_format"], given["eos"], given["from_options"], given["text_field"], given["split"]
        )
        for path in expanded(paths)
    ]
    if given["compare"] and len(requests) != 2:
        raise click.UsageError(f"--diff compares two datasets; {len(requests)} were given")
    web = _web(given)
    if given["tokenizer"] is not None:
        from tokfmt.text.hub import refuse_lost_path

        refuse_lost_path(given["tokenizer"])
    if given["screenshot"] is None and not given["web"] and not sys.stdout.isatty():
        _preview(requests[0].paths[0], given)
        return
    app = _app(requests, given["tokenizer"], given["theme"], compare=given["compare"])
    if given["screenshot"] is not None:
        _draw(app, given["screenshot"], given["keys"].split(), given["size"])
        _refuse(app)
        return
    if web is not None:
        from tokfmt.cli.webpage import serve_page

        for session in app.sessions.values():
            session.close()
        serve_page(*web)
        return
    gc.freeze()  # what was imported stays: the collector, on its first round, would look at all of it
    app.run()
    _refuse(app)


def _refuse(app: Any) -> None:
    """Nothing of what was opened could be shown: say on leaving what the screen said."""
    refused = [session.refused for session in app.sessions.values()]
    if all(refused):
        raise refused[0]


def _app(requests: list[Any], tokenizer: str | None, theme: str | None, *, compare: bool = False) -> Any:
    """The browser, with the first dataset open: what is wrong with it is said before anything is drawn."""
    from tokfmt.tui.session import open_session

    session, *compared = [open_session(request, tokenizer) for request in requests[: 2 if compare else 1]]
    from tokfmt.tui.app import DARK, Browser

    app = Browser(session, requests[1:], tokenizer, DARK, *compared)
    if theme is not None:
        if theme not in app.available_themes:
            known = ", ".join(sorted(app.available_themes))
            raise click.UsageError(f"no theme {theme!r}; there are {known}")
        app.theme = theme
    return app


def _web(given: dict[str, Any]) -> tuple[str, int] | None:
    """Where to serve pages; None in a terminal, and in the process that draws for a page."""
    for option in ("port", "host"):
        if given[option] is not None and not given["web"]:
            raise click.UsageError(f"--{option} goes with --web")
    if given["web"] and given["screenshot"] is not None:
        raise click.UsageError("--screenshot needs no --web")
    if not given["web"]:
        return None
    from tokfmt.cli.webpage import HOST, PORT
    from tokfmt.tui.web import lifeline

    if lifeline.is_child():
        lifeline.hold()
        return None
    return given["host"] or HOST, PORT if given["port"] is None else given["port"]


def _draw(app: Any, out: str, keys: list[str], size: tuple[int, int]) -> None:
    from tokfmt.core.publish import Staging, write_error
    from tokfmt.tui.screenshot import screenshot

    with Staging(out, overwrite=True) as staging:
        try:
            staging.path.write_text(screenshot(app, keys, size), encoding="utf-8")
        except OSError as error:
            raise write_error(staging.destination, error) from error
        staging.publish()


def _preview(path: Any, given: dict[str, Any]) -> None:
    """What `show` prints, for a pipe."""
    from tokfmt.cli.show import print_preview
    from tokfmt.ops.show import show

    click.echo("note: stdout is no terminal, so this is what tokfmt show prints", err=True)
    names = ("from_format", "from_options", "tokenizer", "text_field", "eos", "split")
    print_preview(show(path, **{name: given[name] for name in names}))
