"""Run the command `tokfmt`: find the subcommand, run it, and turn every error into one line and an exit code.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | findings, differences or unmet expectations |
| 2 | wrong usage |
| 3 | unreadable, invalid or unsafe input |
| 4 | a conversion that failed, or a stdout that cannot be written |
| 70 | a bug in tokfmt or in a format of another package |
| 128 + n | ended by signal n |

If the reader of stdout closes it (`| head`), commands that only print exit with 0. Commands whose exit code is a
result, and convert if it reads or writes a pipe, exit with 141 (128 + SIGPIPE).
"""

from __future__ import annotations

import atexit
import errno
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

import click

from tokfmt.base.resources import keep_freed_memory
from tokfmt.base.version import __version__
from tokfmt.cli import console, signals
from tokfmt.cli.usage import COMMANDS_MEANT, usage_line
from tokfmt.errors import LoaderWarning, PluginWarning, StoreWarning, TokfmtError, missing_package
from tokfmt.wording import printable

COMMANDS: Mapping[str, tuple[str, str]] = {
    "convert": ("tokfmt.cli.convert", "Convert any format to any format."),
    "info": ("tokfmt.cli.info", "Identify datasets: one in 15 lines, several in a line each."),
    "browse": ("tokfmt.cli.browse", "Browse datasets of any size in the terminal."),
    "stats": ("tokfmt.cli.stats", "Count sequences, tokens, lengths, IDs and duplicates."),
    "check": ("tokfmt.cli.check", "Check datasets and report every problem."),
    "diff": ("tokfmt.cli.diff", "Compare two datasets, sequence by sequence."),
    "overlap": ("tokfmt.cli.overlap", "Find the n-grams of evals in datasets."),
    "show": ("tokfmt.cli.show", "Print sequences as text or token IDs."),
    "recipe": ("tokfmt.cli.recipe", "Write a recipe that mixes datasets, or explain one."),
    "formats": ("tokfmt.cli.formats", "List the formats, or the options and bytes of one."),
    "demo": ("tokfmt.cli.demo", "Write a sample to try the commands on."),
    "index": ("tokfmt.cli.index", "Write the raw index of a JSON Lines file."),
    "schema": ("tokfmt.cli.schema", "List the JSON schemas of --json, or print one."),
    "completion": ("tokfmt.cli.completion", "Print the completion script of a shell."),
}
_MORE = 3  # the last ones, which few people use


_VERDICTS = ("check", "stats", "diff", "overlap")
"""Commands whose exit code is a result, which is unknown if the reader of stdout closes it before the end."""

_COMPLETE = "_TOKFMT_COMPLETE"


class _Commands(MutableMapping[str, click.Command]):
    """The commands by name; the module of a command is imported when the command is looked up."""

    def __getitem__(self, name: str) -> click.Command:
        command: click.Command = import_module(COMMANDS[name][0]).command
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)

    def __setitem__(self, name: str, command: click.Command) -> NoReturn:
        raise TypeError(f"{name}: commands are listed in COMMANDS")

    def __delitem__(self, name: str) -> NoReturn:
        raise TypeError(f"{name}: commands are listed in COMMANDS")


class LazyGroup(click.Group):
    """A group that imports the module of a command when the command runs; `tokfmt --help` imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, 1)
            hint = f"Did you mean {near[0]}?" if near else f"The commands are {', '.join(COMMANDS)}"
            hint = COMMANDS_MEANT.get(name, hint)
            if name == "help":
                about = f"{args[1]} " if len(args) > 1 and args[1] in COMMANDS else ""
                hint = f"Did you mean tokfmt {about}--help?"
            ctx.fail(f"no command {name!r}. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        listed = [(name, text) for name, (_, text) in COMMANDS.items()]
        for title, commands in (("Commands", listed[:-_MORE]), ("More commands", listed[-_MORE:])):
            with formatter.section(title):
                formatter.write_dl(commands)


@click.group(
    cls=LazyGroup,
    commands=_Commands(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    # written as `parameters.examples` does, whose module --help does not import
    epilog="\b\nExamples, in the directory that tokfmt demo writes:\n  tokfmt info pack.pbin\n"
    "  tokfmt convert corpus.jsonl out.pbin --tokenizer tokenizer",
)
@click.version_option(__version__, "-V", "--version", message="tokfmt %(version)s")
def cli() -> None:
    """Convert and inspect the token datasets that language models are pretrained on."""


def run(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit."""
    _tune_interpreter()
    words = list(sys.argv[1:] if args is None else args)
    warnings.showwarning = partial(_show_warning, quiet=bool({"-q", "--quiet"} & set(words)))
    console.open_streams(words)
    codes: list[int] = []
    atexit.register(_end_threads, codes)  # the first that is registered runs last
    try:
        signals.listen()
        code = _run(words)
        signals.leave(code)
    except (signals.Interrupted, click.Abort, KeyboardInterrupt) as stop:
        code = _stopped(stop, words)
    console.settle()
    codes.append(code)
    sys.exit(code)


def _end_threads(codes: list[int]) -> None:
    """End the process now if threads are still at work, which may wait for a read; everything that matters is on disk.

    Python up to 3.13 unwinds such a thread through the frames of its libraries, and those in C++ abort the process.
    There are no codes if `run` has not come to its end.
    """
    if codes and any(thread.daemon and thread.name != signals.WATCH for thread in threading.enumerate()):
        sys.stderr.flush()
        os._exit(codes[0])


def _tune_interpreter() -> None:
    """Prepare the allocator, and set variables for Python and for libraries before any library is imported.

    - OPENBLAS_NUM_THREADS=1: tokfmt multiplies no matrices, and idle threads of OpenBLAS spin at their start.
    - RUST_BACKTRACE=0: a tokenizer library that runs out of memory ends the process with one line instead of a hundred.
    - PYTHONSAFEPATH=1: processes that libraries start do not import modules from the current directory, which holds
      data.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ["RUST_BACKTRACE"] = "0"
    os.environ["PYTHONSAFEPATH"] = "1"
    keep_freed_memory()


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: str | None = None,
    *,
    quiet: bool = False,
) -> None:
    """Print a warning about a plug-in or a store as a note, and any other warning as Python does."""
    del file
    if issubclass(category, PluginWarning | StoreWarning | LoaderWarning):
        if not (quiet and not issubclass(category, PluginWarning)):
            console.note(message)
    else:
        click.echo(warnings.formatwarning(message, category, filename, lineno, line), err=True, nl=False)


def _run(words: list[str]) -> int:
    """Run a command and flush stdout; return the exit code.

    If the reader of stdout left, the code is 0 unless it lacks a result or converted data.
    """
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"  # click reads neither variable
    try:
        try:
            result = cli.main(words, prog_name="tokfmt", standalone_mode=False, color=False if plain else None)
            code = result if isinstance(result, int) else 0
        except BaseException as error:  # noqa: BLE001 - exits of libraries and panics in Rust are not an Exception
            code = _failed(error, words)
        sys.stdout.flush()
    except console.ReaderGone:
        console.silence()
        is_incomplete = words[0] in _VERDICTS or (words[0] == "convert" and "-" in words)
        return 128 + signal.SIGPIPE if is_incomplete else 0
    except console.StdoutError as error:
        console.silence()
        return _fail(str(error), error.exit_code, words, {})
    return code


def _failed(raised: BaseException, words: list[str]) -> int:
    """Print any error of a command except those of stdout as one line, and return the exit code."""
    debug = "--debug" in words
    try:
        if isinstance(raised, Exception):
            signals.check()
        if isinstance(raised, ModuleNotFoundError):
            raise missing_package(raised, f"tokfmt {words[0]}") from raised  # noqa: TRY301 - one place words it
        raise raised  # noqa: TRY301
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else error.format_message(), err=True)
        return 2
    except click.ClickException as error:
        return _fail(usage_line(error, words), 2, words, {"type": "UsageError"})
    except (click.Abort, KeyboardInterrupt, signals.Interrupted, console.ReaderGone, console.StdoutError):
        raise
    except TokfmtError as error:
        _trace(debug)
        text = ". ".join((str(error), *getattr(error, "__notes__", ()))).replace("?. ", "? ")
        return _fail(text, error.exit_code, words, {"type": type(error).__name__, **error.facts()})
    except BaseException as error:  # noqa: BLE001 - exits of libraries and panics in Rust are not an Exception
        if isinstance(error, SystemExit) and _COMPLETE in os.environ:  # click ends a completion like this
            return int(error.code or 0)
        _trace(debug)
        return _fail(*_unexpected(error), words, {"type": type(error).__name__})


_OUTSIDE = {
    errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE, errno.ENAMETOOLONG, errno.EMFILE, errno.ENFILE, errno.ENODEV,
    errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EREMOTE,
}  # fmt: skip
"""System errors that no program can prevent: permissions, failed disks, file servers that are gone."""


_NO_MEMORY = ("cannot allocate memory", "failed to map segment from shared object")
"""Messages of the system for a lack of memory that is not a MemoryError."""
_NO_THREAD = "can't start new thread"


def _unexpected(error: BaseException) -> tuple[str, int]:
    """Return the line and the exit code for an error that is not a TokfmtError."""
    if isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in _NO_MEMORY):
        return "out of memory", 4
    if isinstance(error, RuntimeError) and str(error) == _NO_THREAD:
        return (
            "cannot start another thread: memory or processes are limited (ulimit -v, ulimit -u). Use fewer --jobs",
            4,
        )
    if isinstance(error, OSError) and error.filename is not None and error.errno in _OUTSIDE:
        return f"{printable(str(error.filename))}: {(error.strerror or 'cannot be used').lower()}", 4
    return f"unexpected {type(error).__name__}: {error}. This is a bug; --debug shows where", 70


def _trace(debug: bool) -> None:
    """Print the traceback of the current error if `debug` is set."""
    if debug:
        import traceback

        traceback.print_exc()


def _stopped(stop: BaseException, words: list[str]) -> int:
    """Report the signal that ended the command and what it left; return the exit code."""
    number = stop.number if isinstance(stop, signals.Interrupted) else signal.SIGINT
    signals.leave(128 + number)
    publish = sys.modules.get("tokfmt.files.publisher")  # not imported here: the signal may have stopped its import
    whole = map(publish.is_whole, publish.finished) if publish is not None and hasattr(publish, "is_whole") else ()
    left = " ".join(dict.fromkeys((*getattr(stop, "__notes__", ()), *whole))) or "nothing was left behind"
    if left.startswith(("Nothing was", "The finished work")):  # other notes begin with a path
        left = left[0].lower() + left[1:]
    text = f"interrupted by {signal.Signals(number).name}; {left}"
    return _fail(text, 128 + number, words, {})


def _fail(message: str, code: int, words: list[str], facts: Mapping[str, Any]) -> int:
    """Print an error on stderr, and with --json as a document on stdout; return the exit code."""
    line = printable(" ".join(message.split()))
    click.echo(f"tokfmt: error: {line}", err=True)
    if console.wants_json(words):
        error = {"message": line, "exit_code": code, **facts}
        try:
            if end := console.ending({"error": error}):
                click.echo(end)
            else:
                console.document("error", {"error": error})
        except (console.ReaderGone, console.StdoutError):  # stderr has the line already
            console.silence()
    return code
