"""`tokfmt browse`."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar, cast

import click

from tokfmt.cli.parameters import PLACE, THEME, Command, Count, examples, output, reading, requested, tokenizer

_EPILOG = examples(
    "tokfmt browse fixtures/modalities/D_2byte_gpt2.pbin",
    "tokfmt browse fixtures/text/corpus.jsonl --tokenizer fixtures/tokenizer",
    "tokfmt browse fixtures/modalities/D_2byte_gpt2.pbin --screenshot out.svg --keys 'down down enter'",
)


_HOST, _PORT = "127.0.0.1", 8000
Result = TypeVar("Result")


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


@click.command("browse", cls=Command, epilog=_EPILOG, no_args_is_help=True)
@click.argument("paths", nargs=-1, required=True, type=PLACE, metavar="PATH...")
@tokenizer("Tokenizer that shows text; remembered for the dataset.")
@click.option(
    "--diff", "compare", is_flag=True, help="Show two datasets side by side, and go from difference to difference."
)
@click.option("--theme", type=THEME, metavar="NAME", help="Colors: tokyo-night, catppuccin-latte, nord, gruvbox ...")
@click.option("--web", is_flag=True, help="Serve the browser as a web page, at the address that is printed.")
@click.option("--port", type=Count(0, 65535), help="Port of --web; 0 is any free port (default: 8000).")
@click.option("--host", metavar="NAME", help="Host of --web (default: 127.0.0.1, this machine only).")
@click.option("--screenshot", type=click.Path(dir_okay=False), metavar="OUT.svg", help="Write a picture of the screen.")
@click.option("--keys", default="", metavar="'KEY KEY'", help="Keys to press before --screenshot.")
@click.option("--size", type=Size(), default="120x36", help="Size of the --screenshot (default: 120x36).")
@reading
@output("--debug", is_flag=True, help="Show the traceback of an error.")
def command(paths: tuple[str, ...], **given: Any) -> None:
    """Browse datasets of any size in the terminal.

    ? shows the keys, q quits.
    """
    from tokfmt.ops.source.discover import dataset_paths

    given.pop("debug")
    named = requested(paths, given)
    requests = [
        dataclasses.replace(named, paths=(path,), recursive=False, ignore_manifest=False)
        for path in dataset_paths(named)
    ]
    if given["compare"] and len(requests) != 2:
        raise click.UsageError(f"--diff compares two datasets; {len(requests)} were given")
    web = _web(given)
    _refuse_picture(given)
    if given["tokenizer"] is not None:
        from tokfmt.text.hub import refuse_lost_path

        refuse_lost_path(given["tokenizer"])
    if given["screenshot"] is None and not given["web"] and (unfit := _unfit_terminal()):
        _preview(requests, given, unfit)
        return
    app = _app(requests, given["tokenizer"], given["theme"], compare=given["compare"])
    if given["screenshot"] is not None:
        _draw(app, given["screenshot"], given["keys"].split(), given["size"])
        _refuse(app)
        return
    if web is not None:
        for session in app.sessions.values():
            session.close()
        _serve(*web)
        return
    if given["web"]:  # whoever draws for a server is ended by it
        from tokfmt.tui.signals import plain_signals

        plain_signals()
        app.run()
    else:
        cast("Any", sys.__stderr__).reconfigure(encoding="utf-8")  # Textual draws on it; ASCII nobody chose
        _until_left(app, app.run)
    _refuse(app)


def _until_left(app: Any, run: Callable[[], Result]) -> Result:
    """Run an app; a signal that comes meanwhile ends it, and then the process as it ends every command.

    Raises:
        RuntimeError: It fell over by itself.
    """
    from tokfmt.cli.signals import Interrupted, check_dropped
    from tokfmt.tui.app import Quit
    from tokfmt.tui.signals import Signals

    with Signals(lambda: bool(app.post_message(Quit()))) as signals:
        check_dropped()
        try:
            left = run()
        finally:  # whatever fell over on the way out did so because of it
            if number := signals.outcome():
                raise Interrupted(number)
    if app.return_code:
        raise RuntimeError("the browser fell over, where it says above")
    return left


def _refuse_picture(given: dict[str, Any]) -> None:
    """A name that promises something else than SVG, keys that there are none of."""
    suffix = os.path.splitext(given["screenshot"] or "")[1]
    if suffix and suffix.lower() != ".svg":
        raise click.UsageError(f"--screenshot {given['screenshot']}: pictures are SVG; name it OUT.svg")
    if given["keys"]:
        from tokfmt.tui.app import unknown_key

        for key in given["keys"].split():
            if unknown_key(key):
                raise click.UsageError(
                    f"--keys: there is no key {key!r}; write down, enter, g, 1, ctrl+p, question_mark"
                )


def _refuse(app: Any) -> None:
    """Nothing of what was opened could be shown: say on leaving what the screen said."""
    refused = [session.refused for session in app.sessions.values()]
    if all(refused):
        raise refused[0]


def _app(requests: list[Any], tokenizer: str | None, theme: str | None, *, compare: bool = False) -> Any:
    """The browser, with the first dataset open, or with what there is to see of one that cannot be read."""
    from tokfmt.core.errors import TokfmtError
    from tokfmt.tui.session import shown_session

    session, *compared = [shown_session(request, tokenizer) for request in requests[: 2 if compare else 1]]
    for one in (session, *compared):  # no such file, an option that is none, a library that is missing: nothing to see
        error = one.refused
        if error is not None:
            code = error.exit_code if isinstance(error, TokfmtError) else 0
            if code != TokfmtError.exit_code or not os.path.lexists(one.path):
                raise error
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
    from tokfmt.tui.signals import draws_for_server, end_with_server

    if draws_for_server():
        end_with_server()
        return None
    return given["host"] or _HOST, _PORT if given["port"] is None else given["port"]


def _serve(host: str, port: int) -> None:
    """Serve this very command, with a page in place of the terminal, until a signal comes."""
    from tokfmt.core.errors import MissingDependencyError

    try:
        import textual_serve  # noqa: F401 - whether it is there
    except ImportError as error:
        raise MissingDependencyError("textual-serve", "web", "browse --web") from error
    from tokfmt.tui.web import is_local, serve

    if not is_local(host):
        text = "other machines can reach this: whoever is given the address can read the dataset, unencrypted"
        click.echo(f"note: {host}: {text}", err=True)

    def announce(url: str) -> None:
        click.echo(f"browse at {url}")
        click.echo("Ctrl+C ends it, and every page with it", err=True)

    # the page's process is started as this one was, and finds out that it draws for a server
    serve([sys.executable, *sys.orig_argv[1:]], host, port, announce)


def _draw(app: Any, out: str, keys: list[str], size: tuple[int, int]) -> None:
    from tokfmt.core.atomic_output import publish_text
    from tokfmt.core.output import begins_with
    from tokfmt.tui.app import screenshot

    drawn = _until_left(app, lambda: screenshot(app, keys, size))
    publish_text(out, drawn, overwrite=True, objection=begins_with("picture", b"<svg", b"<?xml"))


def _unfit_terminal() -> str:
    """Why the browser cannot be drawn here; "" where it can."""
    dumb = os.environ.get("TERM") == "dumb"
    for name in ("stdout", "stdin", *(() if dumb else ("stderr",))):  # it is stderr that Textual draws on
        stream = getattr(sys, name)
        if stream is None or not stream.isatty():
            return f"{name} is no terminal"
    if dumb:
        return "a terminal of TERM=dumb has no cursor to move"
    coding = sys.stderr.encoding
    return "" if "utf" in coding.lower() else f"a terminal of {coding} has not the letters (LC_ALL=C.UTF-8 if it has)"


def _preview(requests: list[Any], given: dict[str, Any], unfit: str) -> None:
    """What `show` prints of the first dataset, for a pipe; of what cannot be read its parts and bytes."""
    from tokfmt.cli.show import print_preview, show_raw
    from tokfmt.core.errors import TokfmtError
    from tokfmt.core.text_format import printable
    from tokfmt.ops.show.show import show

    path = requests[0].paths[0]
    of = f" of {printable(path)}, the first of {len(requests):,} datasets" if len(requests) > 1 else ""
    click.echo(f"note: {unfit}, so this is what tokfmt show prints{of}", err=True)
    names = ("format", "options", "tokenizer", "text_field", "eos", "split", "ignore_manifest")
    allow_loss = (
        *given["allow_loss"],
        *(("other-files",) if given["recursive"] else ()),
    )  # those below are datasets of their own
    try:
        print_preview(show(path, **{name: given[name] for name in names}, allow_loss=allow_loss))
    except TokfmtError as error:
        if error.exit_code == TokfmtError.exit_code and os.path.lexists(path):
            with contextlib.suppress(TokfmtError):
                show_raw(path, given, limit=None, as_json=False, quiet=True)
        raise
