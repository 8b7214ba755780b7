"""What to export, as what, where to; then how far it is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Checkbox, Footer, Input, Label

from tokfmt.core.errors import OptionError, TokfmtError, printable
from tokfmt.core.records import RecordReader
from tokfmt.ops.export import export
from tokfmt.tui.jobs import Job
from tokfmt.tui.session import Session
from tokfmt.tui.taken import Numbers, chosen_rows, not_written


class Tick(Checkbox):
    """A box whose state is told by more than a colour."""

    BUTTON_INNER = " "

    def watch_value(self) -> None:
        super().watch_value()
        self.BUTTON_INNER = "X" if self.value else " "


class Export(ModalScreen[str | None]):
    """Writes rows to JSON lines; dismissed with what was written, in words, or with None.

    Args:
        session: Whose rows.
        what: What stands there at first.
        sets: Rows by name.
    """

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Cancel")]

    class Told(Message):
        """The export goes on (outcome None), or has ended: with bytes, or an error."""

        def __init__(self, outcome: object = None) -> None:
            super().__init__()
            self.outcome = outcome

    def __init__(self, session: Session, what: str, sets: Mapping[str, Numbers]) -> None:
        super().__init__()
        self._session, self._what, self._sets = session, what, sets
        self._job: Job | None = None
        self._replaces = ""  # the path that may be replaced

    @property
    def idle(self) -> bool:
        """Nothing is being written."""
        return self._job is None

    def compose(self) -> ComposeResult:
        view, reader = self._session.view, self._session.view.reader
        named = "".join(f" · {name}: {len(rows):,} {view.name}" for name, rows in self._sets.items())
        with Vertical(classes="box"):
            yield Label("Export to JSON lines", classes="title")
            yield Label(f"Which {view.name}? A number · A:B{named}", classes="name", markup=False)
            yield Input(self._what, compact=True, id="what")
            yield Label("To which file?", classes="name")
            split = f"-{self._session.split}" if len(self._session.splits) > 1 else ""
            yield Input(f"{Path(self._session.path.name).stem}{split}-{view.name}.jsonl", compact=True, id="path")
            if self._session.vocabulary is not None and not isinstance(reader, RecordReader):
                yield Tick("as text, not ids", id="text", compact=True)
            yield Label("", id="saying", markup=False)
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self.query_one("#what", Input).focus()
        self._check()

    def on_input_changed(self) -> None:
        self._check()

    def _say(self, text: str, kind: str = "") -> None:
        saying = self.query_one("#saying", Label)
        saying.update(text)
        saying.set_class(kind == "wrong", "wrong")
        saying.set_class(kind == "asking", "asking")

    def _check(self) -> Numbers | None:
        """The rows, if all is well."""
        view = self._session.view
        try:
            rows = chosen_rows(self.query_one("#what", Input).value, view.port.count, self._sets)
            if not self._path:
                raise OptionError("name a file")
        except TokfmtError as error:
            self._say(str(error), "wrong")
            return None
        lost = not_written(self._session)
        number = f"{len(rows):,} {view.singular if len(rows) == 1 else view.name}"
        self._say(f"enter writes {number}{f', {lost}' if lost else ''}")
        return rows

    @property
    def _path(self) -> str:
        return os.path.expanduser(self.query_one("#path", Input).value.strip())

    def on_input_submitted(self) -> None:
        rows, path = self._check(), self._path
        if rows is None or self._job is not None:
            return
        if os.path.lexists(path) and self._replaces != path:
            self._replaces = path
            self._say(f"{printable(path)} is there already. enter again replaces it", "asking")
            return
        self._begin(rows, path, replace=self._replaces == path)

    def _begin(self, rows: Numbers, path: str, *, replace: bool) -> None:
        session, box = self._session, self.query("#text").results(Checkbox)
        as_text, words = any(one.value for one in box), session.vocabulary
        decoder = words.handle.decoder() if as_text and words is not None else None
        reader, paths = session.view.reader, session.request.paths
        self._job = Job(
            lambda job: export(reader, rows, path, paths=paths, decoder=decoder, overwrite=replace, progress=job),
            lambda outcome: self.post_message(self.Told(outcome)),
            lambda: self.post_message(self.Told()),
        )

    def on_export_told(self, message: Told) -> None:
        job, outcome = self._job, message.outcome
        if job is None:
            return
        if outcome is None:
            self._say(f"{job.name} {job.share or 0:.0%} · {job.done:,} {job.unit} · esc stops")
            return
        self._job, self._replaces = None, ""
        if isinstance(outcome, int):
            if self.is_current:
                self.dismiss(f"{outcome:,} bytes in {printable(os.path.abspath(self._path))}")
        elif isinstance(outcome, TokfmtError):
            self._say(
                " ".join(str(outcome).split()).replace("--overwrite replaces it", "enter again replaces it"), "wrong"
            )
        else:
            self._say(f"unexpected {type(outcome).__name__}: {outcome}. This is a bug in tokfmt", "wrong")

    def action_leave(self) -> None:
        if self._job is not None:
            self._job.cancel()
            self.app.notify("The export was stopped.")
        self.dismiss(None)
