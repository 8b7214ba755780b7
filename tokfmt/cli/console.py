"""The terminal: notes and progress on stderr (bars on a terminal, else lines), a document on stdout; and what happens
when stdout or stderr is full, closed, or has no words for a character.

What cannot be written to stdout is an error with a line of its own (`StdoutError`, exit code 4), or, when whoever read
it has had enough (`| head`), a quiet end (`ReaderGone`).
Neither is an OSError, so that no library takes it for something else. What cannot be written to stderr is lost.
ASCII becomes UTF-8; what another encoding has no bytes for is written as a JSON escape (`\\u00b7`), so JSON stays what
it is.

In a GitHub workflow every line of either is looked at by the runner, which obeys those that begin with `::` or hold
`##[`: nothing but an annotation of ours may.
Source: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

import click

from tokfmt.core.errors import ConversionError
from tokfmt.core.text_format import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

_EVERY = 10.0  # seconds between plain lines


def note(text: object, place: str = "") -> None:
    """Say what a person should know; `place`: what it is about, as "A: "."""
    click.echo(f"note: {printable(place)}{printable(text)}", err=True)


def document(name: str, facts: Mapping[str, object]) -> None:
    """Print the one JSON document of a command, `tokfmt.NAME/1`."""
    import json  # not for --help

    click.echo(json.dumps({"schema": f"tokfmt.{name}/1", **facts}, indent=2))


def terminal(*, width: int | None = None, stderr: bool = False) -> Console:
    """A Rich console that takes every text as it is: names from files are no markup, emoji codes or links."""
    from rich.console import Console  # not for --json

    return Console(width=width, stderr=stderr, markup=False, emoji=False, highlight=False)


class Watcher:
    """An `run.execute.Progress` that draws, as a context manager."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.terminal = sys.stderr.isatty() and not quiet
        self._bars: Bars | None = None
        self._task: TaskID | None = None
        self._name, self._unit, self._total, self._done = "", "", 0, 0
        self._began = self._said = time.monotonic()

    def __enter__(self) -> Watcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def phase(self, name: str, total: int, unit: str) -> None:
        """Start a bar."""
        name = printable(name)
        self._name, self._unit, self._total, self._done = name, unit, total, 0
        self._began = self._said = time.monotonic()
        if not self.terminal:
            return
        bars = self._ensure()
        if self._task is not None:
            bars.remove_task(self._task)
        self._task = bars.add_task(name, total=total or None, unit=unit)

    def advance(self, amount: int) -> None:
        """Move the bar, or say a line when the last is ten seconds old."""
        self._done += amount
        if self._bars is not None and self._task is not None:
            self._bars.advance(self._task, amount)
            return
        now = time.monotonic()
        if self.quiet or self.terminal or now - self._said < _EVERY:
            return
        self._said = now
        rate = self._done / max(now - self._began, 1e-9)
        if 0 < self._done <= self._total:
            share, left = 100 * self._done / self._total, (self._total - self._done) / rate
            far, rest = f"{share:.0f} % of {self._total:,} {self._unit}", f", {left:,.0f} s left"
        else:  # the total is not known, or was an estimate
            far, rest = f"{self._done:,} {self._unit}", ""
        click.echo(f"{self._name}: {far}, {rate:,.0f} {self._unit}/s{rest}", err=True)

    def note(self, text: str) -> None:
        """Say it above the bar."""
        if self.quiet:
            return
        if self._bars is not None:
            self._bars.console.print(f"note: {printable(text)}", soft_wrap=True)
        else:
            note(text)

    def _ensure(self) -> Bars:
        if self._bars is None:
            from rich.progress import BarColumn, Progress, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn
            from rich.text import Text

            class Rate(TextColumn):
                """How fast: `12.3 M tokens/s`."""

                def render(self, task: Task) -> Text:
                    speed = task.finished_speed or task.speed or 0
                    return Text(f"{speed / 1e6:,.1f} M {task.fields['unit']}/s" if speed else "", style="dim")

            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TaskProgressColumn(),
                Rate(""),
                TimeRemainingColumn(),
            )
            self._bars = Progress(*columns, console=terminal(stderr=True), transient=True)
            self._bars.start()
        return self._bars


_DATA = ("show", "completion", "convert")
"""Commands that print what datasets hold, or code, which nobody may change; the rest print about datasets."""
_HIDDEN = "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"


class StdoutError(ConversionError):
    """stdout does not take what is written: a full disk, a device that failed, no stdout at all."""

    def __init__(self, error: OSError) -> None:
        self.errno = error.errno
        why = "is closed" if error.errno == errno.EBADF else error.strerror
        super().__init__(f"standard output: {why}. What was printed is not complete")


class ReaderGone(Exception):  # noqa: N818 - nothing went wrong
    """Whoever read stdout has closed it."""


class _Out(io.FileIO):
    def write(self, data: object, /) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except BrokenPipeError:
            raise ReaderGone from None
        except OSError as error:
            raise StdoutError(error) from error


class _Err(io.FileIO):
    def write(self, data: object, /) -> int:
        with contextlib.suppress(OSError):
            return super().write(data)  # type: ignore[arg-type]
        return memoryview(data).nbytes  # type: ignore[arg-type]


class _Json(io.TextIOWrapper):
    """JSON in which nothing controls a terminal or a workflow: what might is an escape, which means the same."""

    def write(self, text: str, /) -> int:
        hidden = re.sub(_HIDDEN, lambda found: _as_json(found[0]), text)
        return super().write(hidden.replace("##[", "#\\u0023["))


class _Defused(io.TextIOWrapper):
    """Text whose lines no workflow obeys."""

    def write(self, text: str, /) -> int:
        return super().write(defused(text))

    def command(self, line: str) -> None:
        """Write a line that a workflow is to obey."""
        super().write(f"{line}\n")
        self.flush()


def open_streams(words: Sequence[str]) -> None:
    """Replace `sys.stdout` and `sys.stderr`, before the command line `words` runs."""
    codecs.register_error("tokfmt-json", _escaped)
    output = output_of(words)
    workflow = os.environ.get("GITHUB_ACTIONS") == "true" or output == "github"
    data = words[:1] and words[0] in _DATA and not {"--raw", "--dry-run"} & set(words)
    about = _Defused if workflow else io.TextIOWrapper
    out = _Json if output == "json" else io.TextIOWrapper if data else about
    for descriptor, access in ((1, os.O_RDONLY), (2, os.O_WRONLY)):
        with contextlib.suppress(OSError):
            os.fstat(descriptor)
            continue
        # takes the lowest number that is free: no file of ours may become stdout, where whatever is written fails
        os.open(os.devnull, access)
    sys.stdout = _stream(_Out(1, "w", closefd=False), sys.stdout, out)
    sys.stderr = _stream(_Err(2, "w", closefd=False), sys.stderr, about)


def _stream(raw: io.FileIO, before: TextIO | None, kind: type[io.TextIOWrapper]) -> io.TextIOWrapper:
    encoding = getattr(before, "encoding", None) or "utf-8"
    if codecs.lookup(encoding).name == "ascii":  # a locale that nobody chose, as click takes it too
        encoding = "utf-8"
    return kind(io.BufferedWriter(raw), encoding, "tokfmt-json", line_buffering=raw.fileno() == 2 or raw.isatty())


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return _as_json(error.object[error.start : error.end]), error.end


def _as_json(text: str) -> str:
    """As JSON has it in a string."""
    import json  # 1 ms that few commands need

    return json.dumps(text)[1:-1]


def output_of(words: Sequence[str]) -> str:
    """What a command line asks for: "text", "json" or "github". It need not be one that can be understood."""
    options = list(words[: words.index("--")] if "--" in words else words)
    if "--json" in options:
        return "json"
    asked = [word.partition("=")[2] for word in options if word.startswith("--output-format=")]
    asked += [value for name, value in zip(options, options[1:], strict=False) if name == "--output-format"]
    return asked[-1] if asked else "text"


def flush() -> None:
    """Write what is left.

    Raises:
        StdoutError, ReaderGone: As ever.
    """
    sys.stdout.flush()


def silence() -> None:
    """Throw away what stdout has not taken, and all that comes."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.close(sink)
    sys.stdout.flush()


def settle() -> None:
    """Write what is left, or throw it away: Python would try again when it ends, and complain."""
    try:
        flush()
    except (ReaderGone, StdoutError):
        silence()


def annotate(level: str, path: str, title: str, message: str) -> None:
    """Print a line that GitHub shows at a file. `level`: "error", "warning" or "notice"."""
    line = f"::{level} file={_property(path)},title={_property(title)}::{_command_text(message)}"
    write = getattr(sys.stdout, "command", None)
    if write is None:
        print(line)  # noqa: T201 - not a stream that minds
    else:
        write(line)


def defused(text: str) -> str:
    """Text of which no line is a command to a workflow: neither `::` at the start of one nor `##[` anywhere."""
    return re.sub(r"((?:^|[\r\n])[^\S\r\n]*):(?=:)", r"\1\\x3a", text.replace("##[", "#\\x23["))


def _command_text(text: str) -> str:
    lines = text.replace("%", "%25").replace("\r", "\n").split("\n")
    return "%0A".join(printable(line) for line in lines).replace("##[", "#\\x23[")


def _property(text: str) -> str:
    return _command_text(text).replace(":", "%3A").replace(",", "%2C")
