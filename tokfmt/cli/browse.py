"""`tokfmt browse`: run the browser in the terminal, or draw one screen."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import click

from tokfmt.cli.parameters import PLACE, THEME, Command, examples, output, reading, requested, tokenizer

_EPILOG = examples(
    "tokfmt browse pack.pbin",
    "tokfmt browse corpus.jsonl --tokenizer tokenizer",
    "tokfmt browse pack.pbin --screenshot out.svg --keys 'down down enter'",
)


Result = TypeVar("Result")


class Size(click.ParamType[Any]):
    """A size in characters, `160x48`: columns and lines."""

    name = "COLUMNSxLINES"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        columns, _, lines = str(value).partition("x")
        if not (columns.isdecimal() and lines.isdecimal() and 20 <= int(columns) <= 500 and 5 <= int(lines) <= 200):
            self.fail(
                f"is not a size (expected 20x5 to 500x200, found {value!r}). Write COLUMNSxLINES, as 160x48", param, ctx
            )
        return int(columns), int(lines)


class At(click.ParamType[Any]):
    """A place in a dataset, `123:45`: the number of a sequence, and of a token in it."""

    name = "[VIEW:]ROW[:TOKEN]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from tokfmt.browser.data.spots import parse_spot
        from tokfmt.errors import OptionError

        try:
            return parse_spot(str(value))
        except OptionError as error:
            self.fail(str(error), param, ctx)


@click.command("browse", cls=Command, epilog=_EPILOG, no_args_is_help=True)
@click.argument("paths", nargs=-1, required=True, type=PLACE, metavar="PATH...")
@tokenizer("Tokenizer that shows text; remembered for the dataset.")
@click.option(
    "--at",
    type=At(),
    metavar="[VIEW:]ROW[:TOKEN]",
    help="Place to begin at, such as 123:45 or samples:12:0; the key y copies it.",
)
@click.option(
    "--theme",
    type=THEME,
    metavar="NAME",
    help="Color theme, such as catppuccin-latte, nord or gruvbox (default: tokyo-night).",
)
@click.option("--screenshot", type=click.Path(dir_okay=False), metavar="OUT.svg", help="Write a picture of the screen.")
@click.option("--keys", default="", metavar="'KEY KEY'", help="Keys to press before --screenshot.")
@click.option("--size", type=Size(), default="120x36", help="Size of the --screenshot (default: 120x36).")
@reading
@output("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def command(paths: tuple[str, ...], **given: Any) -> None:
    """Browse datasets of any size in the terminal.

    Press ? for the keys, and q to quit.
    """
    from tokfmt.source.discover import dataset_paths

    named = requested(paths, given)
    _refuse_picture(given)
    unfit = _unfit_terminal() if given["screenshot"] is None else ""
    folder = None if unfit else _folder(named)
    requests = [
        dataclasses.replace(named, paths=(path,), recursive=False, ignore_manifest=False)
        for path in (dataset_paths(named, every_split=True) if folder is None else [folder])
    ]
    if given["tokenizer"] is not None:
        from tokfmt.text.hub import refuse_lost_path

        refuse_lost_path(given["tokenizer"])
    if unfit:
        _preview(requests, given, unfit)
        return
    with _uncollected(frozen=given["screenshot"] is None):
        if folder is not None:
            app = _catalog(requests[0], folder, given["tokenizer"], given["theme"])
        else:
            app = _app(requests, given["tokenizer"], given["theme"], given["at"])
            app.resumes = given["at"] is None and given["screenshot"] is None
    if given["screenshot"] is not None:
        _draw(app, given["screenshot"], given["keys"].split(), given["size"])
        _raise_if_none_opened(app)
        return
    cast("Any", sys.__stderr__).reconfigure(encoding="utf-8")  # Textual draws there, and the locale may say ASCII
    _run_until_closed(app, app.run)
    _say_how_to_come_back(app)
    _raise_if_none_opened(app, is_left=True)


@contextlib.contextmanager
def _uncollected(*, frozen: bool) -> Iterator[None]:
    """Search for no cycles among what is imported, which has none: three searches would take 0.1 s."""
    gc.disable()
    try:
        yield
    finally:
        if frozen:
            gc.freeze()
        gc.enable()


def _say_how_to_come_back(app: Any) -> None:
    """Print the command that opens the browser at the place that was left, and remember the place."""
    from tokfmt.browser.data.spots import command_of, remember_place

    for session in app.sessions.values():
        remember_place(session)
    if app.session.refused is None:
        click.echo(command_of(app.session, app.session.where), err=True)


def _run_until_closed(app: Any, run: Callable[[], Result]) -> Result:
    """Run an app until it closes; a signal closes it and then ends the process like any command."""
    from tokfmt.browser.app import Quit
    from tokfmt.browser.signals import Signals
    from tokfmt.cli.signals import Interrupted, check

    with Signals(lambda: bool(app.post_message(Quit()))) as signals:
        check()
        try:
            left = run()
        finally:  # after a signal, an error on the way out is a consequence of it
            if number := signals.outcome():
                raise Interrupted(number)
    if app.return_code:
        raise RuntimeError("the browser failed; the traceback is above")
    return left


def _refuse_picture(given: dict[str, Any]) -> None:
    """Raise UsageError if --screenshot has another suffix than .svg, or --keys an unknown key."""
    suffix = os.path.splitext(given["screenshot"] or "")[1]
    if suffix and suffix.lower() != ".svg":
        raise click.UsageError(f"--screenshot {given['screenshot']}: pictures are SVG. Name the file OUT.svg")
    if given["keys"]:
        from tokfmt.browser.app import unknown_key

        for key in given["keys"].split():
            if unknown_key(key):
                raise click.UsageError(
                    f"--keys: there is no key {key!r}. Use names like down, enter, g, 1, ctrl+p or question_mark"
                )


def _raise_if_none_opened(app: Any, *, is_left: bool = False) -> None:
    """Raise the error of the first dataset if no dataset could be opened. A catalog may be left without opening any.

    A user who has left the screen (`is_left`) has read the error of a dataset there.
    """
    if app.catalog is not None:
        if app.catalog.whole and not app.catalog.found:
            raise app.catalog.nothing()
        return
    refused = [session.refused for session in app.sessions.values()]
    if all(refused) and not is_left:
        raise refused[0]


def _folder(named: Any) -> Any:
    """Return the only path if it is a directory of datasets, or of one and of others below it; None otherwise."""
    from tokfmt.errors import DetectionError, TokfmtError
    from tokfmt.files.listing import Listing
    from tokfmt.files.place import place_of
    from tokfmt.source.discover import format_of, holds_others
    from tokfmt.source.request import expanded

    paths = expanded(named.paths)
    if len(paths) != 1 or not place_of(paths[0]).is_dir():
        return None
    if named.recursive:
        return place_of(paths[0])
    place = place_of(paths[0])
    try:
        with Listing() as listing:
            listed = place.asking(listing)
            several = holds_others(listed, format_of(listed)) if named.format is None else False
    except DetectionError:  # of no format, or of several
        several = True
    except TokfmtError:
        several = False  # the browser shows the error
    return place if several else None


def _app(requests: list[Any], tokenizer: str | None, theme: str | None, at: Any) -> Any:
    """Return the browser with the first dataset open.

    A damaged dataset is opened with the parts and bytes that can be shown. Other errors are raised: a missing file,
    a wrong option, a missing library.
    """
    from tokfmt.browser.data.session import shown_session
    from tokfmt.errors import TokfmtError

    session = shown_session(requests[0], tokenizer)
    error = session.refused
    if error is not None:
        code = error.exit_code if isinstance(error, TokfmtError) else 0
        if code != TokfmtError.exit_code or not session.path.is_there():
            raise error
    from tokfmt.browser.app import DARK, Browser

    return _themed(Browser(session, requests[1:], tokenizer, DARK, at=at), theme)


def _catalog(request: Any, folder: Any, tokenizer: str | None, theme: str | None) -> Any:
    """Return the browser with the catalog of a folder."""
    from tokfmt.browser.app import DARK, Browser
    from tokfmt.browser.data.catalog import Catalog
    from tokfmt.browser.data.session import refused_session
    from tokfmt.errors import TokfmtError

    session = refused_session(request, TokfmtError("no dataset is open. Choose one with d"))
    return _themed(Browser(session, (), tokenizer, DARK, catalog=Catalog(request, folder)), theme)


def _themed(app: Any, theme: str | None) -> Any:
    """Return the browser in a theme that the user named."""
    if theme is not None:
        if theme not in app.available_themes:
            known = ", ".join(sorted(app.available_themes))
            raise click.UsageError(f"--theme: no theme {theme!r} (expected one of {known}). Choose one of them")
        app.theme = theme
    return app


def _draw(app: Any, out: str, keys: list[str], size: tuple[int, int]) -> None:
    from tokfmt.browser.app import screenshot
    from tokfmt.files.replacing import begins_with
    from tokfmt.files.spool import publish_text

    drawn = _run_until_closed(app, lambda: screenshot(app, keys, size))
    publish_text(out, drawn, overwrite=True, objection=begins_with("picture", b"<svg", b"<?xml"))


def _unfit_terminal() -> str:
    """Return why the browser cannot be drawn here; "" if it can, also in a page of `textual serve`."""
    from tokfmt.browser.signals import is_page

    if is_page():
        return ""
    dumb = os.environ.get("TERM") == "dumb"
    for name in ("stdout", "stdin", *(() if dumb else ("stderr",))):  # Textual draws on stderr
        stream = getattr(sys, name)
        if stream is None or not stream.isatty():
            return f"{name} is not a terminal"
    return "a terminal with TERM=dumb has no cursor" if dumb else ""


def _preview(requests: list[Any], given: dict[str, Any], unfit: str) -> None:
    """Print the first dataset as `show` does; of a damaged dataset, its parts and bytes."""
    from tokfmt.cli.show import print_preview, show_raw
    from tokfmt.commands.show.show import show
    from tokfmt.errors import TokfmtError
    from tokfmt.files.place import place_of
    from tokfmt.wording import printable

    path = requests[0].paths[0]
    of = f" for {printable(path)}, the first of {len(requests):,} datasets" if len(requests) > 1 else ""
    click.echo(f"note: {unfit}; printing what tokfmt show prints{of}", err=True)
    others = ("other-files",) if given["recursive"] else ()  # those below are listed as separate datasets
    one = requested((path,), given, recursive=False, allow_loss=(*given["allow_loss"], *others))
    at = given["at"]
    selection = None if at is None or at.view in ("samples", "rows") else str(at.where[0])
    try:
        print_preview(show(one, selection, tokenizer=given["tokenizer"]))
    except TokfmtError as error:
        if error.exit_code == TokfmtError.exit_code and place_of(path).is_there():
            with contextlib.suppress(TokfmtError):
                show_raw(path, given, limit=None, as_json=False, quiet=True)
        raise
