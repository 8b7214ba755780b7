"""What commands print alike: notes and progress on stderr (bars on a terminal, else lines), a document on stdout."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

import click

from tokfmt.core.text_format import printable

if TYPE_CHECKING:
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
        left = (self._total - self._done) / rate if rate else 0
        share = 100 * self._done / self._total if self._total else 0
        click.echo(
            f"{self._name}: {share:.0f} % of {self._total:,} {self._unit}, {rate:,.0f} {self._unit}/s, "
            f"{left:,.0f} s left",
            err=True,
        )

    def note(self, text: str) -> None:
        """Say it above the bar."""
        if self.quiet:
            return
        if self._bars is not None:
            self._bars.console.print(f"note: {printable(text)}", markup=False, highlight=False, soft_wrap=True)
        else:
            note(text)

    def _ensure(self) -> Bars:
        if self._bars is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn
            from rich.text import Text

            class Rate(TextColumn):
                """How fast: `12.3 M tokens/s`."""

                def render(self, task: Task) -> Text:
                    speed = task.finished_speed or task.speed or 0
                    return Text(f"{speed / 1e6:,.1f} M {task.fields['unit']}/s" if speed else "", style="dim")

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                Rate(""),
                TimeRemainingColumn(),
            )
            self._bars = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bars.start()
        return self._bars
