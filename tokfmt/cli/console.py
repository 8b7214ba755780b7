"""The streams of the command line: documents on stdout; notes and progress on stderr.

- If stdout cannot be written, `StdoutError` ends the command with one line and exit code 4. If the reader of stdout
  closes it (`| head`), `ReaderGone` ends the command silently. Neither is an OSError, so no library catches it. A
  failure to write to stderr is ignored.
- Text is UTF-8 in every locale, and JSON is ASCII.
- A GitHub workflow obeys each line of either stream that begins with `::` or holds `##[`. Both are escaped, except in
  the annotations of tokfmt.

Source: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

import click

from tokfmt.base.plain import plain
from tokfmt.errors import ConversionError
from tokfmt.run.progress import Progress
from tokfmt.wording import human_bytes, printable, short

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

_EVERY = 10.0  # seconds between plain lines
_ITEM, _PIECE = 1 << 23, 1 << 19  # bytes of an item in memory, and of those that are printed at once
_unended = list[str]()  # the name of the document whose list is being printed


def note(text: object, place: str = "") -> None:
    """Print a note on stderr; `place` begins the line, as "A: "."""
    click.echo(f"note: {printable(place)}{printable(text)}", err=True)


def document(name: str, report: object) -> None:
    """Print a dataclass or a mapping as the JSON document `tokfmt.NAME/1` of a command; `cli.schema` has its schema."""
    import json  # imported here to keep --help fast

    click.echo(json.dumps({"schema": f"tokfmt.{name}/1", **plain(report), **transferred()}, indent=2))


def listed(
    name: str, report: object, items: Iterable[Iterable[str]], ended: Callable[[], Mapping[str, object]]
) -> None:
    """Print the JSON document `tokfmt.NAME/1` whose list `shown` is read meanwhile.

    An item that cannot be read is not printed. Its error is a document of its own if it is the first one; else it ends
    this one (`ending`). `report` is printed before the list, and what `ended` returns behind it. The text of an item is
    ASCII, in pieces, of which memory holds a few.
    """
    import json
    from tempfile import SpooledTemporaryFile

    before = json.dumps({"schema": f"tokfmt.{name}/1", **plain(report)}, indent=2)[:-2] + ',\n  "shown": ['
    with SpooledTemporaryFile(_ITEM) as item:
        for pieces in items:
            item.seek(0)
            item.truncate()
            for piece in pieces:
                item.write(piece.encode())
            item.seek(0)
            before += "\n    "
            while part := item.read(_PIECE):
                click.echo(before + part.decode(), nl=False)
                before, _unended[:] = "", [name]
            before = ","
    last = {**ended(), **transferred()}
    click.echo(ending(last) if _unended else f"{before}{_ending(last, '')}")


def ending(facts: Mapping[str, object]) -> str:
    """Return the rest of a document whose list was printed in part; "" if there is none."""
    if not _unended:
        return ""
    _unended.clear()
    return _ending(facts, "\n  ")


def _ending(facts: Mapping[str, object], space: str) -> str:
    import json

    return (
        f"{space}]" + "".join(f",\n  {json.dumps(key)}: {json.dumps(facts[key], default=str)}" for key in facts) + "\n}"
    )


def transferred() -> dict[str, object]:
    """Return the key `transfer` of a document, with the requests to stores; an empty mapping if no store was used."""
    account = sys.modules.get("tokfmt.stores.account")
    found = account.so_far() if account is not None else None
    return {"transfer": plain(found)} if found else {}


def tell_transferred() -> None:
    """Print on stderr what stores were asked, if any was."""
    account = sys.modules.get("tokfmt.stores.account")
    if account is None or not (found := account.so_far()):
        return
    counts = ", ".join(f"{count:,} {kind}" for kind, count in found.requests.items() if count) or "none"
    parts = [f"requests {counts}", f"read {human_bytes(found.read)}"]
    parts += [f"written {human_bytes(found.written)}"] if found.written else []
    parts += [f"repeated {found.retries:,}"] if found.retries else []
    click.echo(f"stores: {'; '.join(parts)}; slowest {found.slowest:.2f} s", err=True)


def terminal(*, width: int | None = None, stderr: bool = False) -> Console:
    """Return a Rich console that prints text unchanged: markup, emoji codes and links in file names have no effect."""
    from rich.console import Console  # imported here to keep --json fast

    return Console(width=width, stderr=stderr, markup=False, emoji=False, highlight=False)


class Watcher(Progress, contextlib.AbstractContextManager["Watcher"]):
    """Draw progress as a bar on a terminal, else print a line every ten seconds; a `run.progress.Progress`."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.terminal = sys.stderr.isatty() and not quiet
        self._bars: Bars | None = None
        self._task: TaskID | None = None
        self._name, self._unit, self._total, self._done = "", "", 0, 0
        self._began = self._printed = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def phase(self, name: str, total: int, unit: str) -> None:
        """Start a bar."""
        name = printable(name)
        self._name, self._unit, self._total, self._done = name, unit, total, 0
        self._began = self._printed = time.monotonic()
        if not self.terminal:
            return
        bars = self._ensure()
        if self._task is not None:
            bars.remove_task(self._task)
        self._task = bars.add_task(name, total=total or None, unit=unit)

    def advance(self, amount: int) -> None:
        """Move the bar, or print a line if the last one is ten seconds old."""
        self._done += amount
        if self._bars is not None and self._task is not None:
            self._bars.advance(self._task, amount)
            return
        now = time.monotonic()
        if self.quiet or self.terminal or now - self._printed < _EVERY:
            return
        self._printed = now
        rate = self._done / max(now - self._began, 1e-9)
        if 0 < self._done <= self._total:
            share, left = 100 * self._done / self._total, (self._total - self._done) / rate
            far, rest = f"{share:.0f} % of {self._total:,} {self._unit}", f", {left:,.0f} s left"
        else:  # the total is unknown, or an estimate that was too low
            far, rest = f"{self._done:,} {self._unit}", ""
        click.echo(f"{self._name}: {far}, {rate:,.0f} {self._unit}/s{rest}", err=True)

    def note(self, text: str) -> None:
        """Print a note above the bar."""
        if self.quiet:
            return
        if self._bars is not None:
            self._bars.console.print(f"note: {printable(text)}", soft_wrap=True)
        else:
            note(text)

    def _ensure(self) -> Bars:
        if self._bars is None:
            from rich.progress import BarColumn, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress
            from rich.text import Text

            class Rate(TextColumn):
                """The speed, as `12.3M tokens/s`."""

                def render(self, task: Task) -> Text:
                    speed = task.finished_speed or task.speed or 0
                    return Text(f"{short(round(speed))} {task.fields['unit']}/s" if speed else "", style="dim")

            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TaskProgressColumn(),
                Rate(""),
                TimeRemainingColumn(),
            )
            self._bars = RichProgress(*columns, console=terminal(stderr=True), transient=True)
            self._bars.start()
        return self._bars


_DATA = ("show", "completion", "convert")
"""Commands that print the content of datasets, or code, which must stay unchanged."""
_LAST_STREAM = 2


class StdoutError(ConversionError):
    """stdout cannot be written: a full disk, a failed device, or a closed descriptor."""

    def __init__(self, error: OSError) -> None:
        self.errno = error.errno
        why = "is closed" if error.errno == errno.EBADF else error.strerror
        super().__init__(f"standard output: {why}. What was printed is not complete")


class ReaderGone(Exception):  # noqa: N818 - not an error
    """The reader of stdout closed it."""


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
    """Write JSON, which is ASCII; what controls a workflow or a terminal is a JSON escape, which means the same."""

    def write(self, text: str, /) -> int:
        return super().write(text.replace("##[", "#\\u0023[").replace("\x7f", "\\u007f"))


class _Defused(io.TextIOWrapper):
    """Write text without lines that a workflow obeys."""

    def write(self, text: str, /) -> int:
        return super().write(defused(text))

    def command(self, line: str) -> None:
        """Write a line that a workflow obeys."""
        super().write(f"{line}\n")
        self.flush()


def open_streams(words: Sequence[str]) -> None:
    """Replace `sys.stdout` and `sys.stderr` as the command line `words` needs them."""
    while (opened := os.open(os.devnull, os.O_RDONLY)) <= _LAST_STREAM:
        pass  # the next file would get the number of a closed stream, and be written by any print
    os.close(opened)
    data = words[:1] and words[0] in _DATA and not {"--raw", "--dry-run"} & set(words)
    about = _Defused if in_workflow() else io.TextIOWrapper
    out = _Json if wants_json(words) else io.TextIOWrapper if data else about
    raw = _Out(1, "w", closefd=False)
    sys.stdout = out(io.BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=raw.isatty())
    err = io.BufferedWriter(_Err(2, "w", closefd=False))
    sys.stderr = about(err, "utf-8", "backslashreplace", line_buffering=True)


def wants_json(words: Sequence[str]) -> bool:
    """Return whether a command line asks for JSON. The command line may be invalid."""
    return "--json" in (words[: words.index("--")] if "--" in words else words)


def in_workflow() -> bool:
    """Return whether the output goes to a workflow of GitHub Actions."""
    return os.environ.get("GITHUB_ACTIONS") == "true"


def silence() -> None:
    """Discard the buffered output and all further output of stdout."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.close(sink)
    sys.stdout.flush()


def settle() -> None:
    """Flush stdout or discard its buffer, which Python would otherwise flush at exit, with a message if that fails."""
    try:
        sys.stdout.flush()
    except (ReaderGone, StdoutError):
        silence()


def annotate(level: str, path: str, title: str, message: str) -> None:
    """Print an annotation, which GitHub shows at a file; outside of a workflow, print nothing."""
    if not in_workflow():
        return
    line = f"::{level} file={_property(path)},title={_property(title)}::{_command_text(message)}"
    write = getattr(sys.stdout, "command", None)
    if write is None:
        print(line)  # noqa: T201 - this stream escapes nothing
    else:
        write(line)


def defused(text: str) -> str:
    """Return text that gives a workflow no command: no `::` at the start of a line, and no `##[`."""
    return re.sub(r"((?:^|[\r\n])[^\S\r\n]*):(?=:)", r"\1\\x3a", text.replace("##[", "#\\x23["))


def _command_text(text: str) -> str:
    lines = text.replace("%", "%25").replace("\r", "\n").split("\n")
    return "%0A".join(printable(line) for line in lines).replace("##[", "#\\x23[")


def _property(text: str) -> str:
    return _command_text(text).replace(":", "%3A").replace(",", "%2C")
