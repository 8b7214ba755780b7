"""The `tokfmt` command: finds the subcommand, runs it, and turns every error into one line and an exit code.

Exit codes: 0 success; 1 findings, differences or unmet expectations; 2 usage; 3 unreadable, invalid or unsafe input;
4 a conversion that could not be done; 128 + n ended by signal n; 70 a bug in tokfmt.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn

import click

import tokfmt
from tokfmt.cli.parameters import examples

COMMANDS: Mapping[str, tuple[str, str]] = {
    "convert": ("tokfmt.cli.convert", "Convert any format to any format."),
    "browse": ("tokfmt.cli.browse", "Look into datasets of any size, in the terminal."),
    "stats": ("tokfmt.cli.stats", "Counts, lengths, vocabulary, duplicates; thresholds for CI."),
    "check": ("tokfmt.cli.check", "Is it valid? Every violation, with its byte offset and a remedy."),
    "diff": ("tokfmt.cli.diff", "Do two datasets hold the same sequences?"),
    "show": ("tokfmt.cli.show", "Print sequences, as text or as ids."),
    "index": ("tokfmt.cli.index", "Write the raw index of a JSONL file."),
    "formats": ("tokfmt.cli.formats", "What is supported, and what each format can carry."),
    "completion": ("tokfmt.cli.completion", "Print the completion script of a shell."),
}


_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_MOMENT = 0.01  # seconds


class Interrupted(BaseException):
    """A signal asked the process to end; cleaning up goes first."""

    def __init__(self, number: int) -> None:
        self.number = number


class LazyGroup(click.Group):
    """Imports a subcommand's module when it is run: `tokfmt --help` imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[cmd_name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, 1)
            hint = f"Did you mean {near[0]}?" if near else f"It is one of: {', '.join(COMMANDS)}."
            ctx.fail(f"no command {name!r}. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=examples("tokfmt convert fixtures/text/corpus.jsonl out.pbin --tokenizer fixtures/tokenizer"),
)
@click.version_option(tokfmt.__version__, "-V", "--version", message="tokfmt %(version)s")
def cli() -> None:
    """Convert and inspect the token datasets that language models are pretrained on."""


def run(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # no matrix is multiplied here; its threads spin at first
    words = list(sys.argv[1:] if args is None else args)
    sys.unraisablehook = _not_lost
    _listen()
    try:
        code = _run(words)
        _deaf()  # what is left is leaving
    except BrokenPipeError:
        code = _reader_gone()
    except (Interrupted, click.Abort, KeyboardInterrupt) as stop:
        code = _stopped(stop, words)
    # worker threads may still hold a read; everything that matters is on disk by now
    with contextlib.suppress(BrokenPipeError, ValueError):
        sys.stdout.flush()
    sys.exit(code)


def _run(words: list[str]) -> int:
    from tokfmt.core.errors import TokfmtError

    debug = "--debug" in words
    try:
        result = cli.main(words, prog_name="tokfmt", standalone_mode=False)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        return _fail(error.format_message(), 2, words, {"type": "UsageError"})
    except (click.Abort, BrokenPipeError):
        raise
    except SystemExit:  # what click makes of a broken pipe, and of nothing else here
        raise BrokenPipeError from None
    except TokfmtError as error:
        _trace(debug)
        text = ". ".join((str(error), *getattr(error, "__notes__", ())))
        return _fail(text, error.exit_code, words, {"type": type(error).__name__, **error.facts()})
    except MemoryError:
        return _fail("out of memory", 4, words, {"type": "MemoryError"})
    except Exception as error:  # noqa: BLE001 - a traceback reaching a user is a bug, and so is whatever led here
        _trace(debug)
        text = f"unexpected {type(error).__name__}: {error}. This is a bug in tokfmt; --debug shows where"
        return _fail(text, 70, words, {"type": type(error).__name__})
    return result if isinstance(result, int) else 0


def _trace(debug: bool) -> None:
    """Print the traceback of the error being handled, if asked for."""
    if debug:
        import traceback

        traceback.print_exc()


def _stopped(stop: BaseException, words: list[str]) -> int:
    number = stop.number if isinstance(stop, Interrupted) else signal.SIGINT
    left = " ".join(getattr(stop, "__notes__", ())) or "nothing was left behind"
    text = f"interrupted by {signal.Signals(number).name}; {left[0].lower()}{left[1:]}"
    return _fail(text, 128 + number, words, {})


def _fail(message: str, code: int, words: list[str], facts: Mapping[str, Any]) -> int:
    _deaf()
    line = " ".join(message.split())
    if "--json" in words:
        import json

        click.echo(json.dumps({"schema": "tokfmt.error/1", "error": {"message": line, "exit_code": code, **facts}}))
    click.echo(f"tokfmt: error: {line}", err=True)
    return code


def _listen() -> None:
    for number in _ENDING:
        signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    _deaf()
    raise Interrupted(number)


def _deaf() -> None:
    """Once is enough: a second signal must not disturb the cleaning up, nor the leaving."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def _not_lost(caught: sys.UnraisableHookArgs) -> None:
    """Python drops what is raised in a finalizer or a callback of its own: a signal is sent again a moment later."""
    stop = caught.exc_value
    if not isinstance(stop, Interrupted):
        sys.__unraisablehook__(caught)
        return
    _listen()
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(stop.number))
    signal.setitimer(signal.ITIMER_REAL, _MOMENT)


def _reader_gone() -> int:
    """Whoever read our output has had enough (`| head`): leave quietly."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())
    return 0
