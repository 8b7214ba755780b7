"""Copies of rows for the clipboard, and the dialog that exports rows to JSON lines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Checkbox, Footer, Input, Label

from tokfmt.base.options import parse_count
from tokfmt.browser import keys
from tokfmt.browser.data import RecordReader, export, for_destination, parse_selection, unexpected
from tokfmt.browser.dialogs import Dialog, Line
from tokfmt.browser.rows import Damage, fetched, fetched_span
from tokfmt.browser.session import Session
from tokfmt.browser.workers import Job
from tokfmt.errors import OptionError, TokfmtError
from tokfmt.wording import counted, printable

MOST = 1 << 20
"""Limit of tokens in a copy, because a terminal takes a copy in one escape sequence."""

MOST_ROWS = 1 << 22
"""Limit of rows in an export from the browser."""

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy.

    Attributes:
        text: The text for the clipboard.
        description: The content in words, for a notification.
    """

    text: str
    description: str


def copied(session: Session, row: int, part: range, *, ids: bool) -> Copied:
    """Return the text or the IDs of a row, or of a part of it.

    Args:
        session: The dataset.
        row: Number of the row.
        part: Units of the row; an empty range means all.
        ids: Copy the IDs instead of the text.

    Raises:
        TokfmtError: The part is too long for a clipboard, cannot be read, or has no text without a tokenizer.
    """
    port, token_style, singular = session.port, session.token_style, session.view.singular
    span = fetched_span(port, row)
    if isinstance(span, Damage):
        raise TokfmtError(span.why)
    part = part or range(span.length)
    if len(part) > MOST:
        raise OptionError(f"{len(part):,} {port.unit}s are too many for a clipboard (at most {MOST:,}). Mark a part")
    if not ids and token_style.decoder is None:
        raise OptionError("text needs --tokenizer. Show the IDs with m, and copy them")
    piece = fetched(port, row, part.start, part.stop)
    if isinstance(piece, Damage):
        raise TokfmtError(piece.why)
    where = f"{singular} {row:,}" if len(part) == span.length else f"part of {singular} {row:,}"
    amount = counted(len(part), port.unit)
    if ids or token_style.decoder is None:
        return Copied(" ".join(map(str, piece.units.tolist())), f"{amount} of {where} as IDs")
    spelled = token_style.decoder.pieces(piece.units.tolist())
    data = b"".join(one if isinstance(one, bytes) else one.encode("utf-8", "surrogatepass") for one in spelled)
    text = data.decode("utf-8", "backslashreplace")
    escaped = "" if text.encode() == data else "; bytes that are not UTF-8 are written \\xNN"
    return Copied(text, f"{amount} of {where} as text, {len(text):,} characters{escaped}")


def copied_difference(sessions: Sequence[Session], rows: Sequence[int], parts: Sequence[range]) -> Copied:
    """Return what two rows hold in place of each other: the lines of A after "- ", and those of B after "+ ".

    Args:
        sessions: The datasets A and B.
        rows: The row of each.
        parts: The units of each that differ; an empty range means none.

    Raises:
        TokfmtError: A part is too long for a clipboard, or cannot be read.
    """
    places = list(zip(sessions, rows, parts, strict=True))

    def read(*, ids: bool) -> list[str]:
        return [copied(session, row, part, ids=ids).text if part else "" for session, row, part in places]

    found = read(ids=any(session.token_style.decoder is None for session in sessions))
    if found[0] == found[1]:  # one text may have several IDs
        found = read(ids=True)
    if found[0] == found[1]:
        raise OptionError("the tokens are equal there: only their loss mask or labels differ")
    lines = [f"{sign} {line}" for sign, text in zip("-+", found, strict=True) if text for line in text.split("\n")]
    held = [
        f"{counted(len(part), session.port.unit)} of {session.view.singular} {row:,} of {name}"
        for name, (session, row, part) in zip("AB", places, strict=True)
    ]
    return Copied("\n".join(lines), " and ".join(held))


def chosen_rows(words: str, count: int, sets: Mapping[str, Numbers]) -> Numbers:
    """Return the rows that a line describes.

    These are `all`, `17`, `A:B`, a set (`selected`, `listed`, `hits`), or `first 20` of what is listed.

    Args:
        words: The line.
        count: Number of rows.
        sets: Rows by the name of the set.

    Returns:
        int64, in the order of the set, or ascending.

    Raises:
        OptionError: The line describes no row, or too many.
    """
    if words.strip() == "all" and count <= MOST_ROWS:
        return np.arange(count, dtype=np.int64)
    if words.strip() in sets:
        rows = sets[words.strip()]
        if not len(rows):
            raise OptionError(f"{words.strip()}: the set is empty. Choose other rows")
        return rows
    word, _, number = words.strip().partition(" ")
    if word == "first":
        listed = next((sets[name] for name in ("listed", "selected") if name in sets), np.arange(min(count, MOST_ROWS)))
        return listed[: parse_count(number)]
    named = "".join(f", {name}" for name in sets)
    if not words.strip() or words.strip()[0] not in "0123456789-:":
        raise OptionError(f"write all, first 20, a number, A:B{named}")
    first, last = parse_selection(words, count)
    if last - first > MOST_ROWS:
        raise OptionError(f"{last - first:,} are more than {MOST_ROWS:,}. Use tokfmt convert --select {words}")
    if first == last:
        raise OptionError("the interval is empty. Choose other rows")
    return np.arange(first, last, dtype=np.int64)


def not_written(session: Session) -> str:
    """Return what an export loses of a dataset, in words; "" for nothing."""
    reader = session.view.reader
    return "" if isinstance(reader, RecordReader) or not reader.has_labels else "without masks and labels"


def other_meaning(path: str) -> str:
    """Return the format that the name of a file implies, if an export does not write it; else ""."""
    try:
        name = for_destination(path).name
    except OptionError:
        return ""  # a name that implies no format is accepted
    return name if name != "jsonl" else "compressed lines" if path.endswith((".gz", ".zst")) else ""


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
    """

    BINDINGS = keys.EXPORT

    class Progressed(Message):
        """The export made progress (outcome None), or ended with a number of bytes or an error."""

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
        """Return whether nothing is being written."""
        return self._job is None

    def compose(self) -> ComposeResult:
        view, reader = self._session.view, self._session.view.reader
        named = "".join(f" · {name}: {counted(len(rows), view.singular)}" for name, rows in self._sets.items())
        with Vertical(classes="box"):
            yield Label("Export to JSON lines", classes="title")
            yield Label(f"Which {view.name}? all · first 20 · 17 · A:B{named}", classes="name", markup=False)
            yield Line(self._what, compact=True, id="what")
            yield Label("To which file?", classes="name")
            split = f"-{self._session.split}" if len(self._session.splits) > 1 else ""
            yield Line(f"{Path(self._session.path.name).stem}{split}-{view.name}.jsonl", compact=True, id="path")
            if self._session.vocabulary is not None and not isinstance(reader, RecordReader):
                yield Tick("as text, not IDs", id="text", compact=True)
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
        if rows is None or self._job is not None:
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
        as_text, words = any(one.value for one in box), session.vocabulary
        decoder = words.handle.decoder() if as_text and words is not None else None
        reader, paths, format_ = session.view.reader, session.request.paths, session.opened.format
        self._job = Job(
            lambda job: export(
                reader, rows, path, paths=paths, format=format_, decoder=decoder, overwrite=replace, progress=job
            ),
            lambda outcome: self.post_message(self.Progressed(outcome)),
            lambda: self.post_message(self.Progressed()),
        )

    def on_export_progressed(self, message: Progressed) -> None:
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
        elif isinstance(outcome, BaseException):
            self._say(unexpected(outcome), "wrong")

    def action_leave(self) -> None:
        if self._job is not None:
            self._job.cancel()
            self.app.notify("The export was stopped.")
        super().action_leave()
