"""Copies of rows for the clipboard, and the dialog that exports rows to JSON lines."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Checkbox, Footer, Input, Label

from tokfmt.browser import keys
from tokfmt.browser.data.copies import Numbers, chosen_rows, exported, not_written, other_meaning
from tokfmt.browser.data.session import Session, has_parts
from tokfmt.browser.data.workers import said
from tokfmt.browser.dialogs import Dialog, Line
from tokfmt.browser.work import Work
from tokfmt.errors import OptionError, TokfmtError
from tokfmt.wording import counted, printable


class Tick(Checkbox):
    """A check box that shows its state with an X, not only with a color. Space changes it, Enter is for the dialog."""

    BUTTON_INNER = " "
    BINDINGS = keys.TICK

    def watch_value(self) -> None:
        super().watch_value()
        self.BUTTON_INNER = "X" if self.value else " "


class Export(Dialog[str]):
    """Write rows to JSON lines; the result is a description of the file, or None.

    Args:
        session: The dataset.
        what: The rows at first.
        sets: Rows by the name of the set.
        as_text: The reader shows text, which is then written. Rows that are not documents, and loss masks, have IDs.
    """

    BINDINGS = keys.EXPORT

    def __init__(self, session: Session, what: str, sets: Mapping[str, Numbers], *, as_text: bool) -> None:
        super().__init__()
        self._session, self._what, self._sets = session, what, sets
        self._as_text = as_text and session.view.name == "documents" and not has_parts(session.port)
        self._work = Work(self)
        self._replaces = ""  # the path that may be replaced

    @property
    def idle(self) -> bool:
        """Return whether nothing is being written."""
        return not self._work

    def compose(self) -> ComposeResult:
        view = self._session.view
        named = "".join(f" · {name}: {counted(len(rows), view.singular)}" for name, rows in self._sets.items())
        with Vertical(classes="box"):
            yield Label("Export to JSON lines", classes="title")
            yield Label(f"Which {view.name}? all · first 20 · 17 · A:B{named}", classes="name", markup=False)
            yield Line(self._what, compact=True, id="what")
            yield Label("To which file?", classes="name")
            split = f"-{self._session.split}" if len(self._session.splits) > 1 else ""
            yield Line(f"{Path(self._session.path.name).stem}{split}-{view.name}.jsonl", compact=True, id="path")
            if self._session.vocabulary is not None and view.axis is not None:
                yield Tick("as text, not IDs", self._as_text, id="text", compact=True)
            yield Label("", id="saying", markup=False)
        yield Footer(compact=True, show_command_palette=False)

    def ready(self) -> None:
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
        """Return the rows; None after showing what is wrong."""
        view = self._session.view
        try:
            rows = chosen_rows(self.query_one("#what", Input).value, view.port.count, self._sets)
            if not self._path:
                raise OptionError("name a file")
        except TokfmtError as error:
            self._say(str(error), "wrong")
            return None
        lost = not_written(self._session)
        self._say(f"enter writes {counted(len(rows), view.singular)}{f', {lost}' if lost else ''}")
        return rows

    @property
    def _path(self) -> str:
        return os.path.expanduser(self.query_one("#path", Input).value.strip())

    def on_input_submitted(self) -> None:
        self.action_write()

    def action_write(self) -> None:
        """Write the rows, or show why not."""
        rows, path = self._check(), self._path
        if rows is None or self._work:
            return
        if means := other_meaning(path):
            self._say(f"the name implies {means}. Write X.jsonl, and convert it with tokfmt convert", "wrong")
            return
        if os.path.lexists(path) and self._replaces != path:
            self._replaces = path
            self._say(f"{printable(path)} exists already. enter again replaces it", "asking")
            return
        self._begin(rows, path, replace=self._replaces == path)

    def _begin(self, rows: Numbers, path: str, *, replace: bool) -> None:
        session, box = self._session, self.query("#text").results(Checkbox)
        as_text = any(one.value for one in box)
        what = counted(len(rows), session.view.singular)
        self._work.begin(
            "",
            lambda job: exported(session, rows, path, as_text=as_text, overwrite=replace, job=job),
            lambda outcome: self._ended(outcome, what),
            self._progressed,
        )

    def _progressed(self) -> None:
        job = self._work.get("")
        if job is not None:
            self._say(f"{job.name} {job.share or 0:.0%} · {job.done:,} {job.unit} · esc stops")

    def _ended(self, outcome: object, what: str) -> None:
        self._replaces = ""
        if isinstance(outcome, int):
            if self.is_current:
                self.dismiss(f"{what}, {outcome:,} bytes, in {printable(os.path.abspath(self._path))}")
        elif isinstance(outcome, BaseException):
            words = " ".join(said(outcome).split())
            self._say(words.replace("--overwrite replaces it", "enter again replaces it"), "wrong")

    def action_leave(self) -> None:
        if self._work.cancel():
            self.app.notify("The export was stopped.")
        super().action_leave()
